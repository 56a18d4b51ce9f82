// One node: where it stands in the model, its arguments by the schema of its
// target, and what becomes of its results.
#include "frontend/graph.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// ---- errors ----------------------------------------------------------------

th_status th_call_error(const th_pt2_graph *graph, th_status status,
                        const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  // What is malformed lies in the archive; else the model's line says more.
  bool in_model = status != TH_PARSE && graph->b->loc.file;
  th_loc loc = in_model ? graph->b->loc : (th_loc){.file = graph->place.where};
  return th_error(graph->archive->ctx, status, loc, "node %u (%s): %s",
                  graph->node, graph->target, text);
}

// ---- where it stands -------------------------------------------------------

const char *th_pt2_target(const th_json *node) {
  static const char head[] = "torch.ops.";
  const th_json *target = th_json_get(node, "target");
  if (!th_json_is(target, TH_JSON_STRING)) {
    return "";
  }
  const char *text = target->text;
  return strncmp(text, head, sizeof head - 1) == 0 ? text + sizeof head - 1
                                                   : text;
}

static bool node_is_torch(const char *file, size_t size) {
  static const char inside[] = "/torch/";
  if (size > 6 && strncmp(file, "torch/", 6) == 0) {
    return true;
  }
  for (size_t i = 0; i + sizeof inside - 1 <= size; i++) {
    if (memcmp(file + i, inside, sizeof inside - 1) == 0) {
      return true;
    }
  }
  return false;
}

// The innermost frame outside of PyTorch itself:  File "model.py", line 7, in f
static bool node_frame(const char *trace, const char **out_file,
                       size_t *out_size, int *out_line) {
  static const char head[] = "File \"", line[] = "\", line ";
  bool found = false, foreign = false;
  for (const char *at = strstr(trace, head); at; at = strstr(at, head)) {
    const char *file = at + sizeof head - 1;
    const char *end = strchr(file, '"');
    if (!end || strncmp(end, line, sizeof line - 1) != 0) {
      at = file;
      continue;
    }
    bool is_torch = node_is_torch(file, (size_t)(end - file));
    if (!is_torch || !foreign) {
      *out_file = file;
      *out_size = (size_t)(end - file);
      int number = 0;
      for (const char *d = end + sizeof line - 1;
           isdigit((unsigned char)*d) && number < 100000000; d++) {
        number = number * 10 + (*d - '0');
      }
      *out_line = number;
      found = true;
      foreign = !is_torch;
    }
    at = end;
  }
  return found;
}

// The path of the innermost module in "key,path,type;key,path,type"; commas and
// semicolons inside brackets do not count.  NULL: the previous one holds.
static const char *node_module(const char *stack, size_t *out_size) {
  const char *fields[3] = {stack, NULL, NULL};
  int depth = 0, field = 0;
  const char *at = stack;
  for (; *at; at++) {
    depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
    if (depth == 0 && *at == ';') {
      field = 0;
    } else if (depth == 0 && *at == ',' && field < 2) {
      fields[++field] = at + 1;
    }
  }
  if (field != 2 || strncmp(fields[1], "_empty_nn_module", 16) == 0) {
    return NULL;
  }
  *out_size = (size_t)(fields[2] - 1 - fields[1]);
  // A repeated call is the same module: layer@1.
  const char *mark = memchr(fields[1], '@', *out_size);
  if (mark) {
    *out_size = (size_t)(mark - fields[1]);
  }
  return fields[1];
}

static const char *node_copy(th_pt2_graph *graph, const char *text,
                             size_t size) {
  return th_ir_string(graph->ir, th_arena_strndup(graph->arena, text, size));
}

// The text unless it is missing or that of the node before, which is frequent.
static const char *node_news(const th_json *value, const char **last) {
  if (!th_json_is(value, TH_JSON_STRING) ||
      (*last && strcmp(*last, value->text) == 0)) {
    return NULL;
  }
  return *last = value->text;
}

void th_pt2_node_place(th_pt2_graph *graph, const th_json *node) {
  const th_json *metadata = th_json_get(node, "metadata");
  const char *trace =
      node_news(th_json_get(metadata, "stack_trace"), &graph->last_trace);
  const char *stack =
      node_news(th_json_get(metadata, "nn_module_stack"), &graph->last_stack);
  const char *text = NULL;
  size_t size = 0;
  int line = 0;
  if (trace && node_frame(trace, &text, &size, &line)) {
    graph->loc = (th_loc){node_copy(graph, text, size), line, 0};
  }
  text = stack ? node_module(stack, &size) : NULL;
  if (text) {
    graph->scope = node_copy(graph, text, size);
  }
  graph->b->loc = graph->loc;
  graph->b->scope = graph->scope;
}

// ---- arguments -------------------------------------------------------------

static th_status node_arg_error(const th_pt2_graph *graph, const char *name,
                                const char *problem) {
  return th_call_error(graph, TH_PARSE, "argument '%s': %s", name, problem);
}

static th_status node_name(th_pt2_graph *graph, const th_json *name,
                           const char *arg, th_pt2_arg *out_arg) {
  if (!th_json_is(name, TH_JSON_STRING)) {
    return node_arg_error(graph, arg, "a name is missing");
  }
  const th_pt2_arg *known = th_map_get(graph->names, name->text);
  if (!known) {
    return th_call_error(graph, TH_PARSE,
                         "argument '%s': no value is called '%s'", arg,
                         name->text);
  }
  *out_arg = *known;
  return TH_OK;
}

static bool node_float(const th_json *value, double *out) {
  static const struct {
    const char *text;
    double value;
  } words[] = {{"Infinity", __builtin_inf()},
               {"-Infinity", -__builtin_inf()},
               {"NaN", __builtin_nan("")}};
  if (value->kind == TH_JSON_FLOAT || value->kind == TH_JSON_INT) {
    *out = value->kind == TH_JSON_INT ? (double)value->i : value->f;
    return true;
  }
  for (size_t i = 0; value->kind == TH_JSON_STRING && i < TH_COUNT(words);
       i++) {
    if (strcmp(words[i].text, value->text) == 0) {
      *out = words[i].value;
      return true;
    }
  }
  return false;
}

// What a tag says about its value.
typedef enum node_form {
  NODE_NONE,
  NODE_NAME,  // {"name"}
  NODE_INT,   //
  NODE_FLOAT, //
  NODE_BOOL,  //
  NODE_STRING,
  NODE_DTYPE,
  NODE_SYM, // {"as_name"} or a constant
  NODE_UNION,
  NODE_GRAPH,
  NODE_IGNORED,
} node_form;

static const struct {
  const char *tag;
  node_form form;
  bool is_list;
} node_tags[] = {
    {"as_tensor", NODE_NAME, false},
    {"as_tensors", NODE_NAME, true},
    {"as_int", NODE_INT, false},
    {"as_ints", NODE_INT, true},
    {"as_none", NODE_NONE, false},
    {"as_float", NODE_FLOAT, false},
    {"as_floats", NODE_FLOAT, true},
    {"as_bool", NODE_BOOL, false},
    {"as_bools", NODE_BOOL, true},
    {"as_string", NODE_STRING, false},
    {"as_strings", NODE_STRING, true},
    {"as_scalar_type", NODE_DTYPE, false},
    {"as_sym_int", NODE_SYM, false},
    {"as_sym_ints", NODE_SYM, true},
    {"as_sym_bool", NODE_SYM, false},
    {"as_sym_bools", NODE_SYM, true},
    {"as_sym_float", NODE_SYM, false},
    {"as_sym_floats", NODE_SYM, true},
    {"as_optional_tensor", NODE_UNION, false},
    {"as_optional_tensors", NODE_UNION, true},
    {"as_graph", NODE_GRAPH, false},
    {"as_device", NODE_IGNORED, false},
    {"as_layout", NODE_IGNORED, false},
    {"as_memory_format", NODE_IGNORED, false},
};

static th_status node_dtype(th_pt2_graph *graph, const th_json *value,
                            const char *name, th_pt2_arg *out_arg) {
  const char *text;
  if (value->kind != TH_JSON_INT) {
    return node_arg_error(graph, name, "an element type is no number");
  }
  out_arg->kind = TH_PT2_DTYPE;
  if (th_pt2_dtype(value->i, &out_arg->dtype, &text)) {
    return TH_OK;
  }
  return th_call_error(graph, TH_UNSUPPORTED,
                       "argument '%s': elements of type %s are not supported",
                       name, text);
}

static th_status node_symbolic(th_pt2_graph *graph, const th_json *value,
                               const char *name, th_pt2_arg *out_arg) {
  const th_json *known = th_json_get(value, "as_name");
  if (known) {
    return node_name(graph, known, name, out_arg);
  }
  out_arg->kind = TH_PT2_NUM;
  out_arg->num = th_pt2_number(graph, value);
  return out_arg->num ? TH_OK
                      : node_arg_error(graph, name,
                                       "a number has neither name nor value");
}

static th_status node_one(th_pt2_graph *graph, node_form form,
                          const th_json *value, const char *name,
                          th_pt2_arg *out_arg) {
  th_ir *ir = graph->ir;
  double number;
  *out_arg = (th_pt2_arg){.kind = TH_PT2_NONE};
  switch (form) {
  case NODE_NONE:
    return TH_OK;
  case NODE_NAME:
    return node_name(graph, th_json_get(value, "name"), name, out_arg);
  case NODE_INT:
    if (value->kind != TH_JSON_INT) {
      return node_arg_error(graph, name, "an integer is none");
    }
    *out_arg = (th_pt2_arg){.kind = TH_PT2_NUM, .num = th_int(ir, value->i)};
    return TH_OK;
  case NODE_BOOL:
    if (value->kind != TH_JSON_BOOL) {
      return node_arg_error(graph, name, "a boolean is none");
    }
    *out_arg =
        (th_pt2_arg){.kind = TH_PT2_NUM, .num = th_bool(ir, value->i != 0)};
    return TH_OK;
  case NODE_FLOAT:
    if (!node_float(value, &number)) {
      return node_arg_error(graph, name, "a number is none");
    }
    *out_arg = (th_pt2_arg){.kind = TH_PT2_NUM, .num = th_float(ir, number)};
    return TH_OK;
  case NODE_STRING:
    if (value->kind != TH_JSON_STRING) {
      return node_arg_error(graph, name, "a string is none");
    }
    *out_arg = (th_pt2_arg){.kind = TH_PT2_STRING,
                            .text = th_ir_string(ir, value->text)};
    return TH_OK;
  case NODE_DTYPE:
    return node_dtype(graph, value, name, out_arg);
  case NODE_SYM:
    return node_symbolic(graph, value, name, out_arg);
  case NODE_UNION:
    return th_pt2_read_arg(graph, value, name, out_arg);
  case NODE_GRAPH:
    *out_arg = (th_pt2_arg){.kind = TH_PT2_GRAPH, .json = value};
    return TH_OK;
  case NODE_IGNORED:
    *out_arg = (th_pt2_arg){.kind = TH_PT2_IGNORED, .json = value};
    return TH_OK;
  }
  return TH_OK;
}

static th_status node_list(th_pt2_graph *graph, node_form form,
                           const th_json *value, const char *name,
                           th_pt2_arg *out_arg) {
  if (value->kind != TH_JSON_ARRAY) {
    return node_arg_error(graph, name, "a list is none");
  }
  th_pt2_arg *items = TH_NEW_ARRAY(graph->arena, th_pt2_arg, value->count);
  uint32_t count = 0;
  for (TH_JSON_EACH(item, value)) {
    TH_TRY(node_one(graph, form, item, name, &items[count++]));
  }
  *out_arg = (th_pt2_arg){.kind = TH_PT2_LIST, .count = count, .items = items};
  return TH_OK;
}

th_status th_pt2_read_arg(th_pt2_graph *graph, const th_json *value,
                          const char *name, th_pt2_arg *out_arg) {
  if (!th_json_is(value, TH_JSON_OBJECT) || value->count != 1) {
    return node_arg_error(graph, name, "should be an object with one member");
  }
  const th_json *tag = th_json_first(value);
  for (size_t i = 0; i < TH_COUNT(node_tags); i++) {
    if (strcmp(node_tags[i].tag, tag->text) == 0) {
      return (node_tags[i].is_list ? node_list : node_one)(
          graph, node_tags[i].form, tag + 1, name, out_arg);
    }
  }
  return th_call_error(graph, TH_UNSUPPORTED,
                       "argument '%s': values of kind '%s' are not supported",
                       name, tag->text);
}

// ---- arguments by the schema -----------------------------------------------

static bool node_fits_one(const th_schema_arg *want, const th_pt2_arg *arg) {
  switch (want->kind) {
  case TH_S_TENSOR:
    return arg->kind == TH_PT2_TENSOR || arg->kind == TH_PT2_NUM;
  case TH_S_INT:
    return arg->kind == TH_PT2_NUM && arg->num->dtype != TH_F64;
  case TH_S_NUMBER:
  case TH_S_FLOAT:
  case TH_S_BOOL:
    return arg->kind == TH_PT2_NUM;
  case TH_S_STRING:
    return arg->kind == TH_PT2_STRING;
  case TH_S_DTYPE:
    return arg->kind == TH_PT2_DTYPE;
  case TH_S_IGNORED:
  case TH_S_ANY:
    return true;
  }
  return false;
}

static bool node_fits(const th_schema_arg *want, const th_pt2_arg *arg) {
  if (arg->kind == TH_PT2_NONE) {
    return want->optional || want->kind == TH_S_IGNORED;
  }
  if (!want->is_list) {
    return node_fits_one(want, arg);
  }
  if (arg->kind != TH_PT2_LIST) {
    return false;
  }
  for (uint32_t i = 0; i < arg->count; i++) {
    if (arg->items[i].kind != TH_PT2_NONE &&
        !node_fits_one(want, &arg->items[i])) {
      return false;
    }
  }
  return true;
}

static void node_repeat(th_pt2_graph *graph, uint8_t size, th_pt2_arg *arg) {
  th_pt2_arg *items = TH_NEW_ARRAY(graph->arena, th_pt2_arg, size);
  for (uint8_t i = 0; i < size; i++) {
    items[i] = *arg;
  }
  *arg = (th_pt2_arg){.kind = TH_PT2_LIST, .count = size, .items = items};
}

static th_status node_take(th_pt2_graph *graph, const th_schema_arg *want,
                           th_pt2_arg arg, th_pt2_arg *out_arg) {
  static const char *const kinds[] = {
      "a tensor", "a number",        "an integer", "a number", "a boolean",
      "a string", "an element type", "a value",    "a value"};
  if (want->is_list && want->list_size && arg.kind == TH_PT2_NUM) {
    node_repeat(graph, want->list_size, &arg);
  }
  // [2] stands for [2, 2].
  if (want->is_list && want->list_size > 1 && arg.kind == TH_PT2_LIST &&
      arg.count == 1) {
    arg = arg.items[0];
    node_repeat(graph, want->list_size, &arg);
  }
  if (!node_fits(want, &arg)) {
    return th_call_error(graph, TH_PARSE, "argument '%s' should be %s%s",
                         want->name, want->is_list ? "a list, each " : "",
                         kinds[want->kind]);
  }
  *out_arg = arg;
  return TH_OK;
}

// One number, word, string or list of numbers; the table is ours.
static th_pt2_arg node_default(th_pt2_graph *graph, const th_schema_arg *want) {
  const char *text = want->default_text;
  th_ir *ir = graph->ir;
  th_pt2_arg arg = {.kind = TH_PT2_NONE};
  if (want->kind == TH_S_IGNORED || strcmp(text, "None") == 0) {
    return arg;
  }
  if (text[0] == '[') {
    arg.kind = TH_PT2_LIST;
    arg.items = TH_NEW_ARRAY(graph->arena, th_pt2_arg, strlen(text));
    for (const char *at = text + 1; *at && *at != ']';) {
      const char *end;
      double value = th_parse_double(at, at + strlen(at), &end);
      arg.items[arg.count++] =
          (th_pt2_arg){.kind = TH_PT2_NUM, .num = th_int(ir, (int64_t)value)};
      at = end + strspn(end, ", ");
    }
    return arg;
  }
  if (text[0] == '"') {
    arg.kind = TH_PT2_STRING;
    char *copy = th_arena_strndup(graph->arena, text + 1, strlen(text) - 2);
    arg.text = th_ir_string(ir, copy);
    return arg;
  }
  arg.kind = TH_PT2_NUM;
  const char *end;
  double value = th_parse_double(text, text + strlen(text), &end);
  bool is_word = text[0] == 'T' || text[0] == 'F';
  bool is_int = want->kind == TH_S_INT ||
                (want->kind == TH_S_NUMBER && !strpbrk(text, ".e"));
  arg.num = is_word  ? th_bool(ir, text[0] == 'T')
            : is_int ? th_int(ir, (int64_t)value)
                     : th_float(ir, value);
  return arg;
}

static const th_json *node_inputs(const th_json *node) {
  const th_json *inputs = th_json_get(node, "inputs");
  return th_json_is(inputs, TH_JSON_ARRAY) ? inputs : NULL;
}

static int node_arg_index(const th_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->arg_count; i++) {
    if (strcmp(schema->args[i].name, name) == 0) {
      return (int)i;
    }
  }
  return -1;
}

static bool node_is_out(const th_target *target, const char *name) {
  for (uint32_t i = 0; target->out && target->outs[i]; i++) {
    if (strcmp(target->outs[i], name) == 0) {
      return true;
    }
  }
  return false;
}

static th_status node_args(th_call *call, const th_target *target) {
  th_pt2_graph *graph = call->graph;
  const th_schema *schema = call->schema;
  bool given[TH_SCHEMA_ARGS] = {false};
  call->arg_count = schema->arg_count;
  call->args = TH_NEW_ARRAY(graph->arena, th_pt2_arg, schema->arg_count);
  const th_json *inputs = node_inputs(call->json);
  uint32_t position = 0;
  for (TH_JSON_EACH(input, inputs)) {
    const th_json *name = th_json_get(input, "name");
    bool named = th_json_is(name, TH_JSON_STRING) && name->count > 0;
    if (named && node_is_out(target, name->text)) {
      continue;
    }
    int index = named ? node_arg_index(schema, name->text) : (int)position;
    position++;
    if (index < 0 || index >= (int)schema->arg_count || given[index]) {
      return th_call_error(graph, TH_PARSE,
                           "argument '%s' is unknown or given twice",
                           named ? name->text : "");
    }
    th_pt2_arg arg;
    const th_schema_arg *want = &schema->args[index];
    TH_TRY(th_pt2_read_arg(graph, th_json_get(input, "arg"), want->name, &arg));
    TH_TRY(node_take(graph, want, arg, &call->args[index]));
    given[index] = true;
  }
  for (uint32_t i = 0; i < schema->arg_count; i++) {
    const th_schema_arg *want = &schema->args[i];
    if (!given[i] && want->default_text) {
      TH_TRY(node_take(graph, want, node_default(graph, want), &call->args[i]));
    } else if (!given[i] && !want->optional && want->kind != TH_S_IGNORED) {
      return node_arg_error(graph, want->name, "is missing");
    }
  }
  return TH_OK;
}

// Targets without a schema: as they stand.
static th_status node_positional(th_call *call) {
  const th_json *inputs = node_inputs(call->json);
  call->args = TH_NEW_ARRAY(call->graph->arena, th_pt2_arg, inputs->count);
  for (TH_JSON_EACH(input, inputs)) {
    const th_json *name = th_json_get(input, "name");
    const char *text = th_json_is(name, TH_JSON_STRING) ? name->text : "";
    TH_TRY(th_pt2_read_arg(call->graph, th_json_get(input, "arg"), text,
                           &call->args[call->arg_count]));
    call->arg_count++;
  }
  return TH_OK;
}

// ---- results ---------------------------------------------------------------

static bool node_may_name(const char *name) {
  static const char *const reserved[] = {
      "None",   "True",  "False", "inf",  "nan",   "del",   "def",
      "return", "and",   "or",    "not",  "min",   "max",   "if",
      "in",     "is",    "for",   "else", "float", "trunc", "floor",
      "ceil",   "round", "sqrt",  "where"};
  size_t size = strlen(name);
  if (size == 0 || size > 200 || isdigit((unsigned char)name[0])) {
    return false;
  }
  for (size_t i = 0; i < size; i++) {
    if (!isalnum((unsigned char)name[i]) && name[i] != '_') {
      return false;
    }
  }
  for (size_t i = 0; i < TH_COUNT(reserved); i++) {
    if (strcmp(reserved[i], name) == 0) {
      return false;
    }
  }
  return true;
}

static th_status node_wrong_meta(const th_pt2_graph *graph, const char *name,
                                 const th_type *type, const char *what) {
  th_buffer text;
  th_buffer_init(&text, graph->arena);
  th_type_print(&text, type);
  return th_call_error(graph, TH_SHAPE,
                       "result '%s' is %s here, and has %s in the archive",
                       name, text.data, what);
}

// Our type against TensorMeta; sizes that only the archive names get our
// number.
static th_status node_check_meta(th_pt2_graph *graph, const char *name,
                                 const th_type *type, const th_json *meta) {
  const th_json *dtype = th_json_get(meta, "dtype");
  const th_json *sizes = th_json_get(meta, "sizes");
  th_dtype wanted;
  const char *text;
  if (!th_json_is(dtype, TH_JSON_INT) || !th_json_is(sizes, TH_JSON_ARRAY)) {
    return th_json_error(graph->place, meta, "the type of '%s' is malformed",
                         name);
  }
  if (!th_pt2_dtype(dtype->i, &wanted, &text) || wanted != type->dtype) {
    return node_wrong_meta(graph, name, type, text);
  }
  if (sizes->count != type->rank) {
    return node_wrong_meta(graph, name, type, "another number of dimensions");
  }
  uint32_t i = 0;
  for (TH_JSON_EACH(size, sizes)) {
    const th_expr *ours = type->dims[i++];
    const th_expr *theirs = th_pt2_number(graph, size);
    const char *symbol = theirs ? NULL : th_pt2_symbol_name(graph, size);
    if (symbol) {
      th_pt2_bind_symbol(graph, symbol, ours);
    } else if (theirs && theirs != ours &&
               th_expr_known(graph->ir, TH_X_EQ, ours, theirs) == 0) {
      return node_wrong_meta(graph, name, type, "another size");
    }
  }
  return TH_OK;
}

th_status th_pt2_bind(th_pt2_graph *graph, const char *name, th_pt2_arg arg) {
  if (arg.kind == TH_PT2_TENSOR) {
    const th_json *meta = th_map_get(graph->metas, name);
    if (meta) {
      TH_TRY(node_check_meta(graph, name, &arg.tensor->value->type, meta));
      arg.tensor->meta = meta;
    }
  }
  th_pt2_arg *copy = TH_NEW(graph->arena, th_pt2_arg);
  *copy = arg;
  th_map_put(graph->names, name, copy);
  return TH_OK;
}

// A number with a name: symbols that only the archive knows get it.
static void node_bind_number(th_pt2_graph *graph, const char *name,
                             const th_expr *num) {
  static const char *const tables[] = {"sym_int_values", "sym_float_values",
                                       "sym_bool_values"};
  for (size_t i = 0; i < TH_COUNT(tables); i++) {
    const th_json *value =
        th_json_get(th_json_get(graph->json, tables[i]), name);
    const char *symbol = value ? th_pt2_symbol_name(graph, value) : NULL;
    if (symbol && !th_map_get(graph->symbols, symbol)) {
      th_pt2_bind_symbol(graph, symbol, num);
    }
  }
}

typedef struct node_results {
  th_call *call;
  uint32_t next;        // result
  uint32_t first_value; // ids from here on are this node's
} node_results;

static th_status node_result(node_results *job, const th_json *name) {
  th_call *call = job->call;
  th_pt2_graph *graph = call->graph;
  if (!th_json_is(name, TH_JSON_STRING)) {
    return th_call_error(graph, TH_PARSE, "a result has no name");
  }
  if (job->next >= call->out_count) {
    return th_call_error(graph, TH_PARSE,
                         "gives %u results, and the archive names more",
                         call->out_count);
  }
  th_pt2_arg *out = &call->outs[job->next++];
  if (out->kind == TH_PT2_TENSOR) {
    th_value *value = out->tensor->value;
    if (value->id >= job->first_value && node_may_name(name->text)) {
      th_value_rename(graph->b->trace, value, name->text);
    }
  } else if (out->kind == TH_PT2_NUM) {
    node_bind_number(graph, name->text, out->num);
  }
  return th_pt2_bind(graph, name->text, *out);
}

static th_status node_output(node_results *job, const th_json *output) {
  const th_json *tag = NULL, *value = NULL;
  TH_TRY(th_json_union(job->call->graph->place, output, &tag, &value));
  if (strcmp(tag->text, "as_none") == 0) {
    job->next++;
    return TH_OK;
  }
  bool is_list = strcmp(tag->text, "as_tensors") == 0 ||
                 strcmp(tag->text, "as_optional_tensors") == 0;
  if (!is_list) {
    bool is_number = strncmp(tag->text, "as_sym_", 7) == 0;
    return node_result(job, th_json_get(value, is_number ? "as_name" : "name"));
  }
  if (value->kind != TH_JSON_ARRAY) {
    return th_json_error(job->call->graph->place, value, "should be a list");
  }
  for (TH_JSON_EACH(item, value)) {
    const th_json *inner = th_json_get(item, "as_tensor");
    TH_TRY(node_result(job, th_json_get(inner ? inner : item, "name")));
  }
  return TH_OK;
}

static th_status node_outputs(th_call *call, uint32_t first_value) {
  th_pt2_graph *graph = call->graph;
  const th_json *outputs = NULL;
  node_results job = {.call = call, .first_value = first_value};
  TH_TRY(th_json_need(graph->place, call->json, "outputs", TH_JSON_ARRAY,
                      &outputs));
  for (TH_JSON_EACH(output, outputs)) {
    TH_TRY(node_output(&job, output));
  }
  return TH_OK;
}

// ---- effects on memory -----------------------------------------------------

// relu_(x): x gets the result.  squeeze_(x): x is another window from now on.
static th_status node_write_first(th_call *call) {
  th_pt2_graph *graph = call->graph;
  if (call->arg_count == 0 || call->args[0].kind != TH_PT2_TENSOR ||
      call->out_count == 0 || call->outs[0].kind != TH_PT2_TENSOR) {
    return th_call_error(graph, TH_PARSE, "writes to nothing");
  }
  th_pt2_tensor *self = call->args[0].tensor;
  if (!call->schema->args[0].is_viewed) {
    TH_TRY(th_alias_write(graph, self, call->outs[0].tensor->value));
    call->outs[0].tensor = self;
    return TH_OK;
  }
  const th_json *first = th_json_first(node_inputs(call->json));
  const th_json *arg = th_json_get(th_json_get(first, "arg"), "as_tensor");
  const th_json *name = th_json_get(arg, "name");
  if (th_json_is(name, TH_JSON_STRING)) {
    th_pt2_arg *copy = TH_NEW(graph->arena, th_pt2_arg);
    *copy = call->outs[0];
    th_map_put(graph->names, name->text, copy);
  }
  return TH_OK;
}

static th_status node_write_out(th_call *call, const th_json *input,
                                uint32_t result) {
  th_pt2_graph *graph = call->graph;
  th_pt2_arg arg;
  TH_TRY(th_pt2_read_arg(graph, th_json_get(input, "arg"), "out", &arg));
  if (arg.kind != TH_PT2_TENSOR || result >= call->out_count ||
      call->outs[result].kind != TH_PT2_TENSOR) {
    return th_call_error(graph, TH_PARSE, "writes to nothing");
  }
  TH_TRY(th_alias_write(graph, arg.tensor, call->outs[result].tensor->value));
  call->outs[result].tensor = arg.tensor;
  return TH_OK;
}

static th_status node_write_outs(th_call *call, const th_target *target) {
  for (TH_JSON_EACH(input, node_inputs(call->json))) {
    const th_json *name = th_json_get(input, "name");
    for (uint32_t i = 0; target->outs[i]; i++) {
      if (th_json_is(name, TH_JSON_STRING) &&
          strcmp(target->outs[i], name->text) == 0) {
        TH_TRY(node_write_out(call, input, i));
      }
    }
  }
  return TH_OK;
}

// ---- nodes -----------------------------------------------------------------

// An operation that the user registered, with its arguments in order.
static th_status node_user_op(th_call *call, const th_op_info *op) {
  th_arg args[TH_MAX_PARAMS];
  if (call->arg_count > TH_MAX_PARAMS) {
    return th_call_error(call->graph, TH_INVALID, "has too many arguments");
  }
  for (uint32_t i = 0; i < call->arg_count; i++) {
    args[i] = th_call_value(call, &call->args[i]);
  }
  th_stmt *stmt = th_build(call->graph->b, op, args, call->arg_count, NULL);
  return stmt ? th_call_return_list(call, stmt->outs, stmt->out_count)
              : call->graph->b->status;
}

// "ns.name.overload" as a registered "ns::name"; NULL: none.
static const th_op_info *node_find_user_op(const th_pt2_graph *graph) {
  const char *first = strchr(graph->target, '.');
  const char *second = first ? strchr(first + 1, '.') : NULL;
  if (!second) {
    return NULL;
  }
  char *name =
      th_arena_printf(graph->arena, "%.*s::%.*s", (int)(first - graph->target),
                      graph->target, (int)(second - first - 1), first + 1);
  return th_op_find(graph->archive->ctx, name, strlen(name));
}

static th_status node_run_row(th_call *call, const th_target *target) {
  call->schema = target->schema;
  TH_TRY(node_args(call, target));
  TH_TRY(target->row->template ? th_aten_template(call, target->row->template)
                               : target->row->fn(call));
  if (target->in_place) {
    return node_write_first(call);
  }
  return target->out ? node_write_outs(call, target) : TH_OK;
}

static th_status node_run(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_target target;
  th_call_fn fn = NULL;
  if (th_aten_find(graph, graph->target, &target)) {
    return node_run_row(call, &target);
  }
  TH_TRY(node_positional(call));
  if (th_numbers_find(graph->target, &fn) || th_hop_find(graph->target, &fn)) {
    return fn(call);
  }
  const th_op_info *op = node_find_user_op(graph);
  return op ? node_user_op(call, op)
            : th_call_error(graph, TH_UNSUPPORTED, "is not supported");
}

th_status th_pt2_read_node(th_pt2_graph *graph, const th_json *node) {
  graph->target = th_pt2_target(node);
  if (!node_inputs(node)) {
    return th_call_error(graph, TH_PARSE, "'inputs' should be a list");
  }
  th_pt2_node_place(graph, node);
  th_call call = {.graph = graph, .json = node};
  uint32_t first_value = graph->b->trace->value_count;
  const char *target = graph->target;
  uint32_t index = graph->node;
  TH_TRY(node_run(&call));
  TH_TRY(graph->b->status);
  graph->target = target; // a graph inside has had its own
  graph->node = index;
  return node_outputs(&call, first_value);
}

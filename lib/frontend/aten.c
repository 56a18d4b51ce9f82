// The meaning of ATen operations: finding the row of a target, and templates.
//
// Templates.  The right side of most rows is an expression over the arguments
// of the schema, in the syntax of traces:
//
//   add(self, @times(other, alpha))      statements, inner ones first
//   sort(self, dim, descending)#1        the second result
//   (var(self, dim), mean(self, dim))    two results
//
// A word is an argument of the schema, a dtype, or a constant.  Sums of numbers
// alone are numbers.  Words with @ are the functions in the table below.
#include "frontend/aten.h"

#include <ctype.h>
#include <string.h>

#define ATEN_FN(target, function) th_status th_##function(th_call *call);
#include "frontend/aten.def"

static const th_aten_row aten_rows[] = {
#define ATEN(target, template) {"aten." target, template, NULL, NULL},
#define ATEN_FN(target, function) {"aten." target, NULL, th_##function, NULL},
#define CUSTOM(target, schema, template) {target, template, NULL, schema},
#include "frontend/aten.def"
};

void th_aten_rows(th_map *out_rows) {
  for (size_t i = 0; i < TH_COUNT(aten_rows); i++) {
    th_map_put(out_rows, aten_rows[i].name, (void *)(uintptr_t)&aten_rows[i]);
  }
}

// ---- targets ---------------------------------------------------------------

static bool aten_row(const th_pt2_graph *graph, const char *target,
                     th_target *out) {
  const th_aten_row *row = th_map_get(graph->rows, target);
  if (!row) {
    return false;
  }
  out->row = row;
  out->schema = row->schema
                    ? th_schema_parse_text(graph->schemas, target, row->schema)
                    : th_schema_find(graph->schemas, target + 5); // "aten."
  return out->schema != NULL;
}

// "aten.add_.Tensor" -> "aten.add.Tensor", "aten.__ior__.Scalar" ->
// "aten.__or__.Scalar"; NULL: no in-place form.
static const char *aten_functional(const th_pt2_graph *graph,
                                   const char *target) {
  const char *name = target + 5;
  const char *dot = strchr(name, '.');
  if (!dot || dot - name < 2) {
    return NULL;
  }
  if (strncmp(name, "__i", 3) == 0) {
    return th_arena_printf(graph->arena, "aten.__%s", name + 3);
  }
  return dot[-1] == '_' && dot[-2] != '_'
             ? th_arena_printf(graph->arena, "aten.%.*s%s",
                               (int)(dot - 1 - name), name, dot)
             : NULL;
}

bool th_aten_find(const th_pt2_graph *graph, const char *target,
                  th_target *out_target) {
  *out_target = (th_target){0};
  if (aten_row(graph, target, out_target)) {
    // A row of its own, since its arguments have other names.
    const char *dot = strrchr(target, '.');
    out_target->in_place = dot && dot[-1] == '_' && dot[-2] != '_';
    return true;
  }
  if (strncmp(target, "aten.", 5) != 0) {
    return false;
  }
  const char *functional = aten_functional(graph, target);
  if (functional) {
    out_target->in_place = true;
    return aten_row(graph, functional, out_target);
  }
  functional = th_schema_of_out(target + 5, &out_target->outs);
  if (!functional) {
    return false;
  }
  out_target->out = true;
  return aten_row(graph, th_arena_printf(graph->arena, "aten.%s", functional),
                  out_target);
}

// ---- arguments and results -------------------------------------------------

const th_pt2_arg *th_call_arg(const th_call *call, const char *name) {
  static const th_pt2_arg none = {.kind = TH_PT2_NONE};
  for (uint32_t i = 0; i < call->schema->arg_count; i++) {
    if (strcmp(call->schema->args[i].name, name) == 0) {
      return &call->args[i];
    }
  }
  return &none;
}

bool th_call_given(const th_call *call, const char *name) {
  return th_call_arg(call, name)->kind != TH_PT2_NONE;
}

th_arg th_call_value(th_call *call, const th_pt2_arg *arg) {
  th_ir *ir = call->graph->ir;
  switch (arg->kind) {
  case TH_PT2_TENSOR:
    return th_v(th_autocast(call, th_alias_read(call->graph, arg->tensor)));
  case TH_PT2_NUM:
    return th_n(arg->num);
  case TH_PT2_STRING:
    return th_s(arg->text);
  case TH_PT2_DTYPE:
    return th_d(arg->dtype);
  case TH_PT2_LIST: {
    th_arg *items = TH_NEW_ARRAY(call->graph->arena, th_arg, arg->count);
    for (uint32_t i = 0; i < arg->count; i++) {
      items[i] = th_call_value(call, &arg->items[i]);
    }
    return th_list(ir, items, arg->count);
  }
  default:
    return th_none();
  }
}

th_arg th_call_operand(th_call *call, const char *name) {
  return th_call_value(call, th_call_arg(call, name));
}

th_value *th_call_tensor(th_call *call, const char *name) {
  th_arg arg = th_call_operand(call, name);
  return arg.kind == TH_ARG_VALUE ? arg.value : NULL;
}

const th_expr *th_call_num(const th_call *call, const char *name) {
  const th_pt2_arg *arg = th_call_arg(call, name);
  return arg->kind == TH_PT2_NUM ? arg->num : NULL;
}

int64_t th_call_int(const th_call *call, const char *name) {
  const th_expr *num = th_call_num(call, name);
  return num && num->op == TH_X_CONST && num->dtype != TH_F64 ? num->i : 0;
}

bool th_call_bool(const th_call *call, const char *name) {
  return th_call_int(call, name) != 0;
}

// The argument that results are windows on, by the schema; NULL: none.
static th_pt2_tensor *aten_viewed(const th_call *call) {
  for (uint32_t i = 0; call->schema && i < call->schema->arg_count; i++) {
    if (call->schema->args[i].is_viewed &&
        call->args[i].kind == TH_PT2_TENSOR) {
      return call->args[i].tensor;
    }
  }
  return NULL;
}

th_status th_call_return_list(th_call *call, th_value *const *values,
                              uint32_t count) {
  th_pt2_graph *graph = call->graph;
  TH_TRY(graph->b->status);
  th_pt2_tensor *viewed = aten_viewed(call);
  call->outs = TH_NEW_ARRAY(graph->arena, th_pt2_arg, count);
  call->out_count = count;
  for (uint32_t i = 0; i < count; i++) {
    th_pt2_arg *out = &call->outs[i];
    if (values[i] && values[i]->type.kind == TH_KIND_NUMBER) {
      *out = (th_pt2_arg){.kind = TH_PT2_NUM, .num = values[i]->type.num};
    } else if (values[i]) {
      out->kind = TH_PT2_TENSOR;
      out->tensor = viewed ? th_alias_view(graph, viewed, values[i])
                           : th_alias_base(graph, values[i]);
    }
  }
  return TH_OK;
}

th_status th_call_return(th_call *call, th_value *value) {
  return th_call_return_list(call, &value, 1);
}

th_status th_call_return_copy(th_call *call, th_value *value) {
  TH_TRY(call->graph->b->status);
  return th_call_return_arg(
      call, (th_pt2_arg){.kind = TH_PT2_TENSOR,
                         .tensor = th_alias_base(call->graph, value)});
}

th_status th_call_return_arg(th_call *call, th_pt2_arg arg) {
  call->outs = TH_NEW(call->graph->arena, th_pt2_arg);
  call->outs[0] = arg;
  call->out_count = 1;
  return TH_OK;
}

th_status th_call_return_num(th_call *call, const th_expr *num) {
  return th_call_return_arg(call, (th_pt2_arg){.kind = TH_PT2_NUM, .num = num});
}

th_status th_call_return_stmt(th_call *call, const th_stmt *stmt) {
  return stmt ? th_call_return_list(call, stmt->outs, stmt->out_count)
              : call->graph->b->status;
}

// ---- templates -------------------------------------------------------------

enum { ATEN_ARGS = 16, ATEN_WORD = 64 };

typedef struct aten_reader {
  th_call *call;
  const char *at;
  const th_stmt *stmt; // that gave the newest value; NULL: none
} aten_reader;

static th_status aten_value(aten_reader *r, th_arg *out);

static th_status aten_bug(const aten_reader *r) {
  return th_call_error(r->call->graph, TH_INVALID, "template: '%s'", r->at);
}

static void aten_space(aten_reader *r) {
  while (*r->at == ' ') {
    r->at++;
  }
}

static bool aten_take(aten_reader *r, char c) {
  aten_space(r);
  if (*r->at != c) {
    return false;
  }
  r->at++;
  return true;
}

static bool aten_word(aten_reader *r, char *word) {
  size_t size = 0;
  while (isalnum((unsigned char)r->at[size]) || r->at[size] == '_') {
    size++;
  }
  if (size == 0 || size >= ATEN_WORD) {
    return false;
  }
  memcpy(word, r->at, size);
  word[size] = '\0';
  r->at += size;
  return true;
}

static th_status aten_list(aten_reader *r, char close, th_arg *args,
                           uint32_t *out_count) {
  *out_count = 0;
  if (aten_take(r, close)) {
    return TH_OK;
  }
  do {
    if (*out_count == ATEN_ARGS) {
      return aten_bug(r);
    }
    TH_TRY(aten_value(r, &args[(*out_count)++]));
  } while (aten_take(r, ','));
  return aten_take(r, close) ? TH_OK : aten_bug(r);
}

// Sums, products and negatives of numbers alone.  NULL: not one of them.
static const th_expr *aten_fold(th_ir *ir, const th_op_info *op,
                                const th_arg *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (args[i].kind != TH_ARG_NUM) {
      return NULL;
    }
  }
  const th_expr *pair[2] = {count ? args[0].num : NULL,
                            count > 1 ? args[1].num : NULL};
  switch (op->op) {
  case TH_OP_neg:
    pair[1] = th_int(ir, -1);
    return th_expr_make(ir, TH_X_MUL, pair, 2);
  case TH_OP_add:
    return th_expr_make(ir, TH_X_ADD, pair, 2);
  case TH_OP_mul:
    return th_expr_make(ir, TH_X_MUL, pair, 2);
  default:
    return NULL;
  }
}

static th_status aten_statement(aten_reader *r, const char *name, th_arg *out) {
  th_pt2_graph *graph = r->call->graph;
  th_arg args[ATEN_ARGS];
  uint32_t count, which = 0;
  TH_TRY(aten_list(r, ')', args, &count));
  const th_op_info *op = th_op_find(graph->archive->ctx, name, strlen(name));
  if (!op) {
    return aten_bug(r);
  }
  if (aten_take(r, '#')) {
    which = (uint32_t)(*r->at++ - '0');
  }
  const th_expr *num = aten_fold(graph->ir, op, args, count);
  if (num) {
    r->stmt = NULL;
    *out = th_n(num);
    return TH_OK;
  }
  const th_stmt *stmt = th_build(graph->b, op, args, count, NULL);
  if (!stmt) {
    return graph->b->status;
  }
  r->stmt = which ? NULL : stmt;
  *out = which < stmt->out_count ? th_v(stmt->outs[which]) : th_none();
  return TH_OK;
}

static th_status aten_function(aten_reader *r, th_arg *out) {
  static const struct {
    const char *name;
    th_aten_helper fn;
  } functions[] = {
#define HELPER(name) {#name, th_aten_at_##name},
      TH_ATEN_HELPERS(HELPER)
#undef HELPER
  };
  char name[ATEN_WORD];
  th_arg args[ATEN_ARGS];
  uint32_t count;
  if (!aten_word(r, name) || !aten_take(r, '(')) {
    return aten_bug(r);
  }
  TH_TRY(aten_list(r, ')', args, &count));
  r->stmt = NULL;
  for (size_t i = 0; i < TH_COUNT(functions); i++) {
    if (strcmp(functions[i].name, name) == 0) {
      *out = functions[i].fn(r->call, args, count);
      return r->call->graph->b->status;
    }
  }
  return aten_bug(r);
}

static th_status aten_name(aten_reader *r, const char *name, th_arg *out) {
  th_ir *ir = r->call->graph->ir;
  r->stmt = NULL;
  const th_schema *schema = r->call->schema;
  for (uint32_t i = 0; i < schema->arg_count; i++) {
    if (strcmp(schema->args[i].name, name) == 0) {
      *out = th_call_value(r->call, &r->call->args[i]);
      return TH_OK;
    }
  }
  th_dtype dtype = th_dtype_parse(name);
  if (dtype != TH_DTYPE_COUNT) {
    *out = th_d(dtype);
  } else if (strcmp(name, "None") == 0) {
    *out = th_none();
  } else if (strcmp(name, "inf") == 0) {
    *out = th_f(ir, __builtin_inf());
  } else if (strcmp(name, "True") == 0 || strcmp(name, "False") == 0) {
    *out = th_b(ir, name[0] == 'T');
  } else {
    return aten_bug(r);
  }
  return TH_OK;
}

static th_status aten_number(aten_reader *r, th_arg *out) {
  th_ir *ir = r->call->graph->ir;
  r->stmt = NULL;
  if (strncmp(r->at, "-inf", 4) == 0) {
    r->at += 4;
    *out = th_f(ir, -__builtin_inf());
    return TH_OK;
  }
  const th_expr *num = th_expr_parse(ir, &r->at, r->at + strcspn(r->at, ",)]"));
  if (!num) {
    return aten_bug(r);
  }
  *out = th_n(num);
  return TH_OK;
}

static th_status aten_value(aten_reader *r, th_arg *out) {
  char word[ATEN_WORD];
  aten_space(r);
  if (aten_take(r, '@')) {
    return aten_function(r, out);
  }
  if (aten_take(r, '[')) {
    th_arg items[ATEN_ARGS];
    uint32_t count;
    TH_TRY(aten_list(r, ']', items, &count));
    *out = th_list(r->call->graph->ir, items, count);
    return TH_OK;
  }
  if (isdigit((unsigned char)*r->at) || *r->at == '-') {
    return aten_number(r, out);
  }
  if (!aten_word(r, word)) {
    return aten_bug(r);
  }
  return aten_take(r, '(') ? aten_statement(r, word, out)
                           : aten_name(r, word, out);
}

static th_status aten_no_tensor(th_call *call, const th_arg *arg) {
  return arg->kind == TH_ARG_NONE
             ? TH_OK
             : th_call_error(call->graph, TH_INVALID,
                             "a number where a tensor is expected");
}

th_status th_aten_template(th_call *call, const char *text) {
  aten_reader r = {.call = call, .at = text};
  th_arg args[ATEN_ARGS] = {{0}};
  uint32_t count = 1;
  if (aten_take(&r, '(')) {
    TH_TRY(aten_list(&r, ')', args, &count));
    r.stmt = NULL;
  } else {
    TH_TRY(aten_value(&r, &args[0]));
  }
  if (*r.at) {
    return aten_bug(&r);
  }
  if (r.stmt) {
    return th_call_return_stmt(call, r.stmt);
  }
  th_value *values[ATEN_ARGS];
  for (uint32_t i = 0; i < count; i++) {
    values[i] = args[i].kind == TH_ARG_VALUE ? args[i].value : NULL;
    if (!values[i]) {
      TH_TRY(aten_no_tensor(call, &args[i]));
    }
  }
  return th_call_return_list(call, values, count);
}

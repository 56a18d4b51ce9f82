// Numbers of the archive: symbolic expressions as sympy writes them, and the
// nodes that compute with sizes.  Numbers are no statements of a trace, so all
// of them become expressions here.
//
//   Mul(Integer(2), Symbol('s44', positive=True, integer=True))
#include "frontend/graph.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- symbols ---------------------------------------------------------------

static bool numbers_is_name(const char *text, size_t size) {
  if (size == 0 || size > 64 || isdigit((unsigned char)text[0])) {
    return false;
  }
  for (size_t i = 0; i < size; i++) {
    if (!isalnum((unsigned char)text[i]) && text[i] != '_') {
      return false;
    }
  }
  return true;
}

static int64_t numbers_bound(const th_json *range, const char *key,
                             int64_t none) {
  const th_json *value = th_json_get(range, key);
  return th_json_is(value, TH_JSON_INT) ? value->i : none;
}

void th_pt2_bind_symbol(th_pt2_graph *graph, const char *name,
                        const th_expr *num) {
  th_map_put(graph->symbols, name, (void *)(uintptr_t)num);
}

// A size of an input: its range is checked when the program is called.  Numbers
// that depend on data get no range from the archive: what it knows of them
// comes from assertions, which would fold away.
static const th_expr *numbers_declare(th_pt2_graph *graph, const char *name) {
  const th_expr *num = th_sym(graph->ir, name, TH_I64);
  const th_json *range = th_json_get(graph->ranges, name);
  th_sym_range(graph->ir, num, numbers_bound(range, "min_val", 0),
               numbers_bound(range, "max_val", INT64_MAX));
  th_pt2_bind_symbol(graph, name, num);
  return num;
}

// ---- reading srepr ---------------------------------------------------------

enum { NUMBERS_DEPTH = 64, NUMBERS_ARGS = 64 };

typedef struct numbers_reader {
  th_pt2_graph *graph;
  const char *at;
  int depth;
  bool declare; // unknown symbols become symbols of the trace
} numbers_reader;

static const th_expr *numbers_read(numbers_reader *r);

static bool numbers_take(numbers_reader *r, char c) {
  while (*r->at == ' ') {
    r->at++;
  }
  if (*r->at != c) {
    return false;
  }
  r->at++;
  return true;
}

// Symbol('s77', positive=True, integer=True)
static const th_expr *numbers_symbol(numbers_reader *r) {
  if (!numbers_take(r, '\'')) {
    return NULL;
  }
  size_t size = strcspn(r->at, "'");
  if (!numbers_is_name(r->at, size)) {
    return NULL;
  }
  char name[65];
  memcpy(name, r->at, size);
  name[size] = '\0';
  r->at += size;
  size_t rest = strcspn(r->at, ")");
  r->at += rest;
  const th_expr *known = th_map_get(r->graph->symbols, name);
  if (!known && r->declare) {
    known = numbers_declare(r->graph, name);
  }
  return numbers_take(r, ')') ? known : NULL;
}

static bool numbers_literal(numbers_reader *r, int64_t *out) {
  while (*r->at == ' ') {
    r->at++;
  }
  char *end;
  *out = strtoll(r->at, &end, 10);
  bool any = end != r->at && *out != INT64_MAX && *out != INT64_MIN;
  r->at = end;
  return any;
}

static const th_expr *numbers_integer(numbers_reader *r) {
  int64_t value;
  return numbers_literal(r, &value) && numbers_take(r, ')')
             ? th_int(r->graph->ir, value)
             : NULL;
}

static const th_expr *numbers_rational(numbers_reader *r) {
  int64_t above, below;
  bool ok = numbers_literal(r, &above) && numbers_take(r, ',') &&
            numbers_literal(r, &below) && numbers_take(r, ')') && below != 0;
  return ok ? th_float(r->graph->ir, (double)above / (double)below) : NULL;
}

// Float('0.5', precision=53)
static const th_expr *numbers_float(numbers_reader *r) {
  numbers_take(r, '\'');
  const char *end;
  double value = th_parse_double(r->at, r->at + strlen(r->at), &end);
  if (end == r->at) {
    return NULL;
  }
  r->at = end + strcspn(end, ")");
  return numbers_take(r, ')') ? th_float(r->graph->ir, value) : NULL;
}

static const struct {
  const char *name;
  th_expr_op op;
  uint32_t args; // 0: any number
  bool swap;     // a > b is b < a
} numbers_functions[] = {
    {"Add", TH_X_ADD, 0, false},
    {"Mul", TH_X_MUL, 0, false},
    {"FloorDiv", TH_X_FLOORDIV, 2, false},
    {"CleanDiv", TH_X_FLOORDIV, 2, false},
    {"Mod", TH_X_MOD, 2, false},
    {"PythonMod", TH_X_MOD, 2, false},
    {"IntTrueDiv", TH_X_DIV, 2, false},
    {"FloatTrueDiv", TH_X_DIV, 2, false},
    {"PowByNatural", TH_X_POW, 2, false},
    {"FloatPow", TH_X_POW, 2, false},
    {"Min", TH_X_MIN, 0, false},
    {"Max", TH_X_MAX, 0, false},
    {"Equality", TH_X_EQ, 2, false},
    {"Unequality", TH_X_NE, 2, false},
    {"StrictLessThan", TH_X_LT, 2, false},
    {"LessThan", TH_X_LE, 2, false},
    {"StrictGreaterThan", TH_X_LT, 2, true},
    {"GreaterThan", TH_X_LE, 2, true},
    {"And", TH_X_AND, 0, false},
    {"Or", TH_X_OR, 0, false},
    {"Not", TH_X_NOT, 1, false},
    {"ToFloat", TH_X_FLOAT, 1, false},
    {"TruncToInt", TH_X_TRUNC, 1, false},
    {"FloorToInt", TH_X_FLOOR, 1, false},
    {"CeilToInt", TH_X_CEIL, 1, false},
    {"RoundToInt", TH_X_ROUND, 1, false},
    {"OpaqueUnaryFn_sqrt", TH_X_SQRT, 1, false},
    {"Where", TH_X_ITE, 3, false},
};

// Binary operators of ours over any number of arguments.
static const th_expr *numbers_make(th_ir *ir, th_expr_op op,
                                   const th_expr **args, uint32_t count) {
  bool is_pairwise = op == TH_X_MIN || op == TH_X_MAX || op == TH_X_AND ||
                     op == TH_X_OR || op == TH_X_ADD || op == TH_X_MUL;
  if (!is_pairwise) {
    return th_expr_make(ir, op, args, count);
  }
  const th_expr *all = count ? args[0] : NULL;
  for (uint32_t i = 1; all && i < count; i++) {
    all = th_expr_make(ir, op, (const th_expr *[]){all, args[i]}, 2);
  }
  return all;
}

static const th_expr *numbers_call(numbers_reader *r, size_t which) {
  const th_expr *args[NUMBERS_ARGS] = {NULL};
  uint32_t count = 0;
  do {
    if (count == NUMBERS_ARGS) {
      return NULL;
    }
    args[count] = numbers_read(r);
    if (!args[count++]) {
      return NULL;
    }
  } while (numbers_take(r, ','));
  uint32_t wanted = numbers_functions[which].args;
  if (!numbers_take(r, ')') || (wanted && count != wanted)) {
    return NULL;
  }
  if (numbers_functions[which].swap) {
    const th_expr *first = args[0];
    args[0] = args[1];
    args[1] = first;
  }
  return numbers_make(r->graph->ir, numbers_functions[which].op, args, count);
}

static const th_expr *numbers_named(numbers_reader *r, const char *name,
                                    size_t size) {
  static const struct {
    const char *name;
    const th_expr *(*read)(numbers_reader *);
  } leaves[] = {{"Symbol", numbers_symbol},
                {"Integer", numbers_integer},
                {"Rational", numbers_rational},
                {"Float", numbers_float}};
  for (size_t i = 0; i < TH_COUNT(leaves); i++) {
    if (strlen(leaves[i].name) == size &&
        memcmp(leaves[i].name, name, size) == 0) {
      return leaves[i].read(r);
    }
  }
  for (size_t i = 0; i < TH_COUNT(numbers_functions); i++) {
    if (strlen(numbers_functions[i].name) == size &&
        memcmp(numbers_functions[i].name, name, size) == 0) {
      return numbers_call(r, i);
    }
  }
  return NULL;
}

static const th_expr *numbers_read(numbers_reader *r) {
  while (*r->at == ' ') {
    r->at++;
  }
  const char *name = r->at;
  size_t size = 0;
  while (isalnum((unsigned char)name[size]) || name[size] == '_') {
    size++;
  }
  r->at += size;
  if (size == 4 && strncmp(name, "true", 4) == 0) {
    return th_bool(r->graph->ir, true);
  }
  if (size == 5 && strncmp(name, "false", 5) == 0) {
    return th_bool(r->graph->ir, false);
  }
  if (!numbers_take(r, '(') || ++r->depth > NUMBERS_DEPTH) {
    return NULL;
  }
  const th_expr *e = numbers_named(r, name, size);
  r->depth--;
  return e;
}

static const char *numbers_text(const th_json *value) {
  const th_json *text = th_json_get(th_json_get(value, "as_expr"), "expr_str");
  return th_json_is(text, TH_JSON_STRING) ? text->text : NULL;
}

static const th_expr *numbers_parse(th_pt2_graph *graph, const th_json *value,
                                    bool declare) {
  const th_json *i = th_json_get(value, "as_int");
  const th_json *f = th_json_get(value, "as_float");
  const th_json *b = th_json_get(value, "as_bool");
  const char *text = numbers_text(value);
  if (th_json_is(i, TH_JSON_INT)) {
    return th_int(graph->ir, i->i);
  }
  if (th_json_is(f, TH_JSON_FLOAT)) {
    return th_float(graph->ir, f->f);
  }
  if (th_json_is(b, TH_JSON_BOOL)) {
    return th_bool(graph->ir, b->i != 0);
  }
  if (!text) {
    return NULL;
  }
  numbers_reader r = {.graph = graph, .at = text, .declare = declare};
  const th_expr *e = numbers_read(&r);
  return *r.at == '\0' ? e : NULL;
}

const th_expr *th_pt2_number(th_pt2_graph *graph, const th_json *value) {
  return numbers_parse(graph, value, false);
}

const char *th_pt2_symbol_name(th_pt2_graph *graph, const th_json *value) {
  static const char head[] = "Symbol('";
  const char *text = numbers_text(value);
  if (!text || strncmp(text, head, sizeof head - 1) != 0) {
    return NULL;
  }
  const char *name = text + sizeof head - 1;
  size_t size = strcspn(name, "'");
  const char *close = strchr(name, ')');
  bool is_bare = close && close[1] == '\0' && numbers_is_name(name, size);
  return is_bare ? th_arena_strndup(graph->arena, name, size) : NULL;
}

th_status th_pt2_declare_symbols(th_pt2_graph *graph, const th_json *value) {
  return numbers_parse(graph, value, true)
             ? TH_OK
             : th_json_error(graph->place, value,
                             "a size of an input is no expression that is "
                             "known");
}

th_status th_pt2_meta_type(th_pt2_graph *graph, const th_json *meta,
                           th_type *out_type) {
  const th_json *dtype = NULL, *sizes = NULL, *strides = NULL;
  const char *name;
  TH_TRY(th_json_need(graph->place, meta, "dtype", TH_JSON_INT, &dtype));
  TH_TRY(th_json_need(graph->place, meta, "sizes", TH_JSON_ARRAY, &sizes));
  TH_TRY(th_json_need(graph->place, meta, "strides", TH_JSON_ARRAY, &strides));
  *out_type = (th_type){.kind = TH_KIND_TENSOR};
  if (!th_pt2_dtype(dtype->i, &out_type->dtype, &name)) {
    return th_error(graph->archive->ctx, TH_UNSUPPORTED,
                    (th_loc){.file = graph->place.where},
                    "byte %u: elements of type %s are not supported", meta->at,
                    name);
  }
  if (sizes->count > TH_MAX_RANK || strides->count != sizes->count) {
    return th_json_error(graph->place, meta,
                         "%u sizes and %u strides; at most %d are allowed",
                         sizes->count, strides->count, TH_MAX_RANK);
  }
  const th_expr **numbers =
      TH_NEW_ARRAY(&graph->ir->arena, const th_expr *, 2 * sizes->count);
  uint32_t count = 0;
  for (TH_JSON_EACH(size, sizes)) {
    numbers[count++] = th_pt2_number(graph, size);
  }
  for (TH_JSON_EACH(stride, strides)) {
    numbers[count++] = th_pt2_number(graph, stride);
  }
  out_type->rank = (uint8_t)sizes->count;
  out_type->dims = numbers;
  out_type->strides = numbers + sizes->count;
  return TH_OK;
}

// ---- nodes that compute with numbers ---------------------------------------

typedef struct numbers_target {
  const char *name;
  th_expr_op op;
  uint32_t args;
  bool swap;
} numbers_target;

static const numbers_target numbers_targets[] = {
    {"_operator.add", TH_X_ADD, 2, false},
    {"_operator.mul", TH_X_MUL, 2, false},
    {"_operator.floordiv", TH_X_FLOORDIV, 2, false},
    {"_operator.mod", TH_X_MOD, 2, false},
    {"_operator.truediv", TH_X_DIV, 2, false},
    {"_operator.pow", TH_X_POW, 2, false},
    {"_operator.eq", TH_X_EQ, 2, false},
    {"_operator.ne", TH_X_NE, 2, false},
    {"_operator.lt", TH_X_LT, 2, false},
    {"_operator.le", TH_X_LE, 2, false},
    {"_operator.gt", TH_X_LT, 2, true},
    {"_operator.ge", TH_X_LE, 2, true},
    {"_operator.and_", TH_X_AND, 2, false},
    {"_operator.or_", TH_X_OR, 2, false},
    {"_operator.not_", TH_X_NOT, 1, false},
    {"torch.sym_float", TH_X_FLOAT, 1, false},
    {"torch.sym_int", TH_X_TRUNC, 1, false},
    {"torch.sym_max", TH_X_MAX, 2, false},
    {"torch.sym_min", TH_X_MIN, 2, false},
    {"torch.sym_not", TH_X_NOT, 1, false},
    {"torch.sym_ite", TH_X_ITE, 3, false},
    {"torch.sym_sqrt", TH_X_SQRT, 1, false},
    {"torch._sym_sqrt", TH_X_SQRT, 1, false},
    {"math.trunc", TH_X_TRUNC, 1, false},
    {"math.floor", TH_X_FLOOR, 1, false},
    {"math.ceil", TH_X_CEIL, 1, false},
    {"math.sqrt", TH_X_SQRT, 1, false},
    {"_operator.sub", TH_X_COUNT, 2, false},
    {"_operator.neg", TH_X_COUNT, 1, false},
    {"_operator.pos", TH_X_COUNT, 1, false},
};

static const numbers_target *numbers_target_find(const char *name) {
  for (size_t i = 0; i < TH_COUNT(numbers_targets); i++) {
    if (strcmp(numbers_targets[i].name, name) == 0) {
      return &numbers_targets[i];
    }
  }
  return NULL;
}

// a - b, -a and a through sums and products.
static const th_expr *numbers_signed(th_ir *ir, const char *name,
                                     const th_expr *const *args) {
  const th_expr *minus = th_int(ir, -1);
  if (strcmp(name, "_operator.pos") == 0) {
    return args[0];
  }
  bool is_sub = strcmp(name, "_operator.sub") == 0;
  const th_expr *pair[] = {minus, args[is_sub ? 1 : 0]};
  const th_expr *negated = th_expr_make(ir, TH_X_MUL, pair, 2);
  if (!negated || !is_sub) {
    return negated;
  }
  return th_expr_make(ir, TH_X_ADD, (const th_expr *[]){args[0], negated}, 2);
}

static th_status numbers_compute(th_call *call) {
  th_ir *ir = call->graph->ir;
  const numbers_target *target = numbers_target_find(call->graph->target);
  if (call->arg_count != target->args) {
    return th_call_error(call->graph, TH_PARSE, "takes %u arguments, not %u",
                         target->args, call->arg_count);
  }
  const th_expr *args[3] = {0};
  for (uint32_t i = 0; i < target->args; i++) {
    if (call->args[i].kind != TH_PT2_NUM) {
      return th_call_error(call->graph, TH_PARSE, "argument %u is no number",
                           i);
    }
    args[target->swap ? 1 - i : i] = call->args[i].num;
  }
  const th_expr *e = target->op == TH_X_COUNT
                         ? numbers_signed(ir, target->name, args)
                         : th_expr_make(ir, target->op, args, target->args);
  if (!e) {
    return th_call_error(call->graph, TH_INVALID,
                         "division by zero, or an integer that does not fit "
                         "into 64 bits");
  }
  return th_call_return_num(call, e);
}

bool th_numbers_find(const char *target, th_call_fn *out_fn) {
  if (!numbers_target_find(target)) {
    return false;
  }
  *out_fn = numbers_compute;
  return true;
}

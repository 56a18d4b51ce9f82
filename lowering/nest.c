// Pulling values, and the nodes that come of it.
#include "lowering/nest.h"

#include "lowering/canonical.h"

#include <stdarg.h>
#include <string.h>

typedef struct nest_def {
  const th_stmt *stmt; // NULL: a buffer
  uint16_t result;
  uint16_t position; // of the statement in the body
  uint16_t buffer;
} nest_def;

// ---- reasons

th_node *th_nest_fail(th_nest *n, const th_stmt *stmt, const char *fmt, ...) {
  if (n->status == TH_OK) {
    va_list args;
    va_start(args, fmt);
    char *text = th_arena_vprintf(n->arena, fmt, args);
    va_end(args);
    n->status =
        th_error(n->ctx, TH_UNSUPPORTED, stmt ? stmt->loc : TH_NOWHERE,
                 "%s: host kernel: %s", stmt ? stmt->op->name : "kernel", text);
  }
  return th_node_number(n, th_int(n->ir, 0), TH_I64);
}

// ---- numbers

// Only the sign of a size is used, so that kernels do not differ by ranges.
static void nest_import_symbols(th_nest *n) {
  th_buffer text; // made for its order of symbols
  th_buffer_init(&text, n->arena);
  th_canonical_kernel(n->arena, n->kernel, NULL, &text, &n->symbols,
                      &n->symbol_count);
  n->symbols_here =
      TH_NEW_ARRAY(n->arena, const th_expr *, n->symbol_count + 1);
  for (uint32_t i = 0; i < n->symbol_count; i++) {
    int sign = th_canonical_sign(n->symbols[i]->symbol);
    const th_expr *here = th_sym_fresh(n->ir, "z", n->symbols[i]->dtype);
    th_sym_range(n->ir, here, sign < 0 ? INT64_MIN : sign, INT64_MAX);
    n->symbols_here[i] = here;
  }
}

static const th_expr *nest_import_symbol(const th_nest *n, const th_expr *e) {
  for (uint32_t i = 0; i < n->symbol_count; i++) {
    if (n->symbols[i] == e) {
      return n->symbols_here[i];
    }
  }
  TH_ASSERT(!"a symbol that the kernel's text does not have");
  return NULL;
}

const th_expr *th_nest_import(th_nest *n, const th_expr *e) {
  if (e->op == TH_X_CONST) {
    return e->dtype == TH_F64    ? th_float(n->ir, e->f)
           : e->dtype == TH_BOOL ? th_bool(n->ir, e->i != 0)
                                 : th_int(n->ir, e->i);
  }
  if (e->op == TH_X_SYM) {
    return nest_import_symbol(n, e);
  }
  const th_expr **args = TH_NEW_ARRAY(n->arena, const th_expr *, e->arg_count);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    args[i] = th_nest_import(n, e->args[i]);
  }
  if (e->op != TH_X_ADD && e->op != TH_X_MUL) {
    return th_expr_make(n->ir, e->op, args, e->arg_count);
  }
  const th_expr *sum = args[0]; // by twos, as the normal form is made
  for (uint32_t i = 1; i < e->arg_count; i++) {
    sum = th_expr_make(n->ir, e->op, (const th_expr *[]){sum, args[i]}, 2);
  }
  return sum;
}

const th_expr *th_nest_dim(th_nest *n, const th_value *value, uint8_t dim) {
  return th_nest_import(n, value->type.dims[dim]);
}

const th_expr *th_nest_num(th_nest *n, const th_stmt *stmt, uint16_t arg) {
  return stmt->args[arg].kind == TH_ARG_NUM
             ? th_nest_import(n, stmt->args[arg].num)
             : NULL;
}

int64_t th_nest_int(th_nest *n, const th_stmt *stmt, uint16_t arg) {
  if (stmt->args[arg].kind == TH_ARG_NUM && th_is_const(stmt->args[arg].num)) {
    return stmt->args[arg].num->i;
  }
  th_nest_fail(n, stmt, "argument %u is not a constant", arg);
  return 0;
}

uint8_t th_nest_dim_arg(const th_stmt *stmt, uint16_t arg, uint8_t rank) {
  int64_t dim = stmt->args[arg].num->i;
  return (uint8_t)(dim < 0 ? dim + (rank ? rank : 1) : dim);
}

bool th_stmt_bool(const th_stmt *stmt, uint16_t arg) {
  return stmt->args[arg].kind == TH_ARG_NUM && stmt->args[arg].num->i != 0;
}

// ---- nodes

typedef struct node_key {
  int32_t kind, dtype, op, buffer;
  const th_expr *expr;
  th_var_set vars;
  const th_node *args[4];
} node_key;

static th_node *nest_intern(th_nest *n, const th_node *like,
                            th_node *const *args) {
  node_key small = {(int32_t)like->kind,
                    (int32_t)like->dtype,
                    (int32_t)like->op,
                    like->buffer,
                    like->expr,
                    like->vars,
                    {0}};
  TH_ASSERT(like->arg_count <= TH_COUNT(small.args));
  for (uint32_t i = 0; i < like->arg_count; i++) {
    small.args[i] = args[i];
  }
  th_node *found = th_map_get_bytes(&n->nodes_by_key, &small, sizeof small);
  if (found) {
    return found;
  }
  th_node *node = TH_NEW(n->arena, th_node);
  *node = *like;
  node->id = n->node_count;
  node->args = TH_NEW_ARRAY(n->arena, th_node *, like->arg_count + 1);
  node->depends = like->expr ? th_space_depends(&n->space, like->expr) : 0;
  for (uint32_t i = 0; i < like->arg_count; i++) {
    node->args[i] = args[i];
    node->depends |= args[i]->depends;
  }
  node->depends &= ~like->vars;
  TH_PUSH(n->arena, n->nodes, n->node_count, n->node_cap) = node;
  th_map_put_bytes(&n->nodes_by_key, &small, sizeof small, node);
  return node;
}

static uint16_t nest_position(th_nest *n, const th_stmt *stmt) {
  for (uint32_t i = 0; i < n->kernel->body_count; i++) {
    if (n->kernel->body[i] == stmt) {
      return (uint16_t)i;
    }
  }
  return 0;
}

th_node *th_node_number(th_nest *n, const th_expr *num, th_dtype dtype) {
  return nest_intern(
      n, &(th_node){.kind = TH_NODE_NUMBER, .dtype = dtype, .expr = num}, NULL);
}

th_node *th_node_index(th_nest *n, const th_expr *e) {
  if (th_space_depends(&n->space, e) == 0) {
    return th_node_number(n, e, TH_I64);
  }
  return nest_intern(
      n, &(th_node){.kind = TH_NODE_INDEX, .dtype = TH_I64, .expr = e}, NULL);
}

th_node *th_node_convert(th_nest *n, th_node *x, th_dtype dtype) {
  if (x->dtype == dtype) {
    return x;
  }
  return nest_intern(
      n, &(th_node){.kind = TH_NODE_CONVERT, .dtype = dtype, .arg_count = 1},
      &x);
}

th_node *th_node_apply(th_nest *n, th_op op, th_dtype dtype,
                       const th_stmt *stmt, th_node *const *args,
                       uint32_t count) {
  return nest_intern(n,
                     &(th_node){.kind = TH_NODE_APPLY,
                                .dtype = dtype,
                                .op = op,
                                .stmt = nest_position(n, stmt),
                                .arg_count = count},
                     args);
}

th_node *th_node_select(th_nest *n, const th_expr *condition, th_node *yes,
                        th_node *no) {
  if (th_is_const(condition)) {
    return condition->i ? yes : no;
  }
  if (yes == no) {
    return yes;
  }
  th_node *args[] = {yes, no};
  return nest_intern(n,
                     &(th_node){.kind = TH_NODE_SELECT,
                                .dtype = yes->dtype,
                                .expr = condition,
                                .arg_count = 2},
                     args);
}

th_node *th_node_reduce(th_nest *n, th_op op, th_dtype dtype,
                        const th_stmt *stmt, th_node *x, th_var_set vars,
                        const th_expr *position) {
  return nest_intern(n,
                     &(th_node){.kind = TH_NODE_REDUCE,
                                .dtype = dtype,
                                .op = op,
                                .stmt = nest_position(n, stmt),
                                .arg_count = 1,
                                .vars = vars,
                                .guarded = n->guard > 0,
                                .expr = position},
                     &x);
}

const th_expr *th_nest_checked(th_nest *n, const th_stmt *stmt,
                               th_node *integer, const th_expr *size) {
  if (integer->kind == TH_NODE_INDEX || integer->kind == TH_NODE_NUMBER) {
    const th_expr *e = integer->expr;
    if (th_space_below(&n->space, e, size)) {
      return e;
    }
  }
  integer = th_node_convert(n, integer, TH_I64);
  th_node *node = nest_intern(n,
                              &(th_node){.kind = TH_NODE_CHECK,
                                         .dtype = TH_I64,
                                         .stmt = nest_position(n, stmt),
                                         .arg_count = 1,
                                         .expr = size},
                              &integer);
  for (uint32_t i = 0; i < n->space.opaque_count; i++) {
    if (n->space.opaques[i].node == node) {
      return n->space.opaques[i].symbol;
    }
  }
  return th_space_opaque(&n->space, node, node->depends);
}

// ---- conditions

static const th_expr *nest_compare(th_nest *n, th_expr_op op, const th_expr *a,
                                   const th_expr *b) {
  int known = th_space_known(&n->space, op, a, b);
  return known >= 0 ? th_bool(n->ir, known)
                    : th_expr_make(n->ir, op, (const th_expr *[]){a, b}, 2);
}

const th_expr *th_nest_le(th_nest *n, const th_expr *a, const th_expr *b) {
  return nest_compare(n, TH_X_LE, a, b);
}

const th_expr *th_nest_lt(th_nest *n, const th_expr *a, const th_expr *b) {
  return nest_compare(n, TH_X_LT, a, b);
}

const th_expr *th_nest_and(th_nest *n, const th_expr *a, const th_expr *b) {
  return th_expr_make(n->ir, TH_X_AND, (const th_expr *[]){a, b}, 2);
}

// ---- ranges

static uint32_t nest_split_pieces(th_nest *n, uint32_t range,
                                  const th_expr *extent,
                                  const th_expr **pieces) {
  uint32_t count = 1;
  pieces[0] = extent;
  for (uint32_t i = 0; i < n->split_count; i++) {
    const th_split *s = &n->splits[i];
    if (s->range != range || count == TH_MAX_VARS) {
      continue;
    }
    memmove(&pieces[s->piece + 1], &pieces[s->piece],
            (count - s->piece) * sizeof *pieces);
    pieces[s->piece] = th_space_div(&n->space, pieces[s->piece], s->by);
    pieces[s->piece + 1] = s->by;
    count++;
  }
  return count;
}

const th_expr *th_nest_range(th_nest *n, const th_expr *extent,
                             th_var_set *out_vars) {
  const th_expr *pieces[TH_MAX_VARS + 1];
  uint32_t count = nest_split_pieces(n, n->range_count, extent, pieces);
  const th_expr *expr = th_int(n->ir, 0);
  th_var_set vars = 0;
  for (uint32_t i = 0; i < count; i++) {
    expr = th_expr_mul(n->ir, expr, pieces[i]);
    if (th_is_int(pieces[i], 1)) {
      continue;
    }
    const th_expr *var = th_space_var(&n->space, pieces[i]);
    if (!var) {
      th_nest_fail(n, NULL, "more than %d loops", TH_MAX_VARS);
      continue;
    }
    vars |= (th_var_set)1 << (n->space.var_count - 1);
    expr = th_expr_add(n->ir, expr, var);
  }
  TH_PUSH(n->arena, n->ranges, n->range_count, n->range_cap) = (th_range){
      .extent = extent, .expr = expr, .vars = vars, .guarded = n->guard > 0};
  *out_vars |= vars;
  return expr;
}

void th_nest_reduce_ranges(th_nest *n, uint32_t count,
                           const th_expr *const *extents, th_var_set avoid,
                           const th_expr **out_index, th_var_set *out_vars) {
  th_var_set used = avoid;
  for (uint32_t i = 0; i < count; i++) {
    const th_range *shared = NULL;
    for (uint32_t r = 0; r < n->range_count && !shared && !n->guard; r++) {
      const th_range *range = &n->ranges[r];
      if (range->extent == extents[i] && !(range->vars & used) &&
          !range->guarded) {
        shared = range;
      }
    }
    if (shared) {
      out_index[i] = shared->expr;
      *out_vars |= shared->vars;
      used |= shared->vars;
    } else {
      th_var_set fresh = 0;
      out_index[i] = th_nest_range(n, extents[i], &fresh);
      *out_vars |= fresh;
      used |= fresh;
    }
  }
}

// ---- pulling

static nest_def *nest_find(const th_nest *n, const th_value *value) {
  return th_map_get_bytes(&n->defs, &value, sizeof(void *));
}

static const th_expr *nest_offset(th_nest *n, uint16_t buffer,
                                  const th_expr *const *index) {
  const th_type *type = &n->buffers[buffer].type;
  const th_expr *offset = th_int(n->ir, 0);
  for (uint8_t i = 0; i < type->rank; i++) {
    offset = th_expr_add(n->ir, offset,
                         th_expr_mul(n->ir, index[i], type->strides[i]));
  }
  return th_space_join(&n->space, offset);
}

static th_node *nest_load(th_nest *n, uint16_t buffer, const th_expr *offset) {
  return nest_intern(n,
                     &(th_node){.kind = TH_NODE_LOAD,
                                .dtype = n->buffers[buffer].type.dtype,
                                .buffer = buffer,
                                .expr = offset},
                     NULL);
}

th_node *th_nest_pull(th_nest *n, const th_value *value,
                      const th_expr *const *index) {
  struct {
    const th_value *value;
    const th_expr *index[TH_MAX_RANK];
  } key = {value, {0}};
  for (uint8_t i = 0; i < value->type.rank; i++) {
    key.index[i] = index[i];
  }
  // What is made under a select may have ranges of its own, but it is right
  // everywhere.
  th_node *node = th_map_get_bytes(&n->memo, &key, sizeof key);
  if (node || n->status != TH_OK) {
    return node ? node : th_node_number(n, th_int(n->ir, 0), TH_I64);
  }
  const nest_def *def = nest_find(n, value);
  TH_ASSERT(def);
  if (!def->stmt) {
    node = nest_load(n, def->buffer, nest_offset(n, def->buffer, index));
  } else {
    th_rule_fn rule = th_nest_rule(def->stmt->op->op);
    node = rule ? rule(n, def->stmt, def->result, index)
                : th_nest_fail(n, def->stmt, "no rule");
  }
  th_map_put_bytes(&n->memo, &key, sizeof key, node);
  return node;
}

th_node *th_nest_pull_flat(th_nest *n, const th_value *value,
                           const th_expr *number) {
  const nest_def *def = nest_find(n, value);
  while (def->stmt && def->stmt->op->op == TH_OP_reshape) {
    def = nest_find(n, def->stmt->args[0].value);
  }
  if (def->stmt ||
      !th_type_is_contiguous(n->ir, &n->buffers[def->buffer].type)) {
    return NULL;
  }
  return nest_load(n, def->buffer, th_space_join(&n->space, number));
}

th_node *th_nest_operand(th_nest *n, const th_arg *arg, uint8_t rank,
                         const th_expr *const *index, th_dtype dtype) {
  if (arg->kind == TH_ARG_NUM) {
    return th_node_number(n, th_nest_import(n, arg->num), dtype);
  }
  const th_value *value = arg->value;
  const th_expr *at[TH_MAX_RANK];
  uint8_t lead = (uint8_t)(rank - value->type.rank);
  for (uint8_t i = 0; i < value->type.rank; i++) {
    bool one = th_is_int(value->type.dims[i], 1);
    at[i] = one ? th_int(n->ir, 0) : index[lead + i];
  }
  return th_node_convert(n, th_nest_pull(n, value, at), dtype);
}

// ---- the whole kernel

th_store *th_nest_add_store(th_nest *n, const th_value *out, th_node *node,
                            const th_expr *const *index, th_var_set vars) {
  uint16_t buffer = 0;
  for (uint32_t i = n->input_count; i < n->buffer_count; i++) {
    if (n->buffers[i].value == out) {
      buffer = (uint16_t)i;
    }
  }
  th_store *store = &TH_PUSH(n->arena, n->stores, n->store_count, n->store_cap);
  *store = (th_store){.buffer = buffer,
                      .node = node,
                      .offset = nest_offset(n, buffer, index),
                      .vars = vars,
                      .scan_var = -1,
                      .phase = n->phase_count};
  return store;
}

static void nest_add_buffer(th_nest *n, const th_value *value, bool output) {
  th_buffer_info *b = &n->buffers[n->buffer_count++];
  *b = (th_buffer_info){value, value->type, output};
  uint8_t rank = value->type.rank;
  const th_expr **dims = TH_NEW_ARRAY(n->arena, const th_expr *, rank + 1);
  const th_expr **strides = TH_NEW_ARRAY(n->arena, const th_expr *, rank + 1);
  const th_expr *stride = th_int(n->ir, 1);
  for (uint8_t i = rank; i-- > 0;) {
    dims[i] = th_nest_import(n, value->type.dims[i]);
    strides[i] = value->type.strides ? th_nest_import(n, value->type.strides[i])
                                     : stride;
    stride = th_expr_mul(n->ir, stride, dims[i]);
  }
  b->type.dims = dims;
  b->type.strides = strides;
}

static void nest_define(th_nest *n, const th_value *value, nest_def def) {
  nest_def *copy = TH_NEW(n->arena, nest_def);
  *copy = def;
  th_map_put_bytes(&n->defs, &value, sizeof(void *), copy);
}

static void nest_add_values(th_nest *n) {
  const th_stmt *kernel = n->kernel;
  uint32_t room = (uint32_t)kernel->arg_count + kernel->out_count + 1;
  n->buffers = TH_NEW_ARRAY(n->arena, th_buffer_info, room);
  for (uint16_t i = 0; i < kernel->arg_count; i++) {
    if (kernel->args[i].kind == TH_ARG_VALUE &&
        kernel->args[i].value->type.kind == TH_KIND_TENSOR) {
      nest_define(n, kernel->args[i].value,
                  (nest_def){.buffer = (uint16_t)n->buffer_count});
      nest_add_buffer(n, kernel->args[i].value, false);
    }
  }
  n->input_count = n->buffer_count;
  for (uint16_t i = 0; i < kernel->out_count; i++) {
    if (kernel->outs[i]) {
      nest_add_buffer(n, kernel->outs[i], true);
    }
  }
  for (uint32_t i = 0; i < kernel->body_count; i++) {
    const th_stmt *stmt = kernel->body[i];
    for (uint16_t k = 0; k < stmt->out_count; k++) {
      if (stmt->outs[k]) {
        nest_define(n, stmt->outs[k], (nest_def){stmt, k, (uint16_t)i, 0});
      }
    }
  }
}

// Dimensions that count for the choice of the main output.
static uint32_t nest_real_rank(const th_value *value) {
  uint32_t rank = 0;
  for (uint8_t i = 0; i < value->type.rank; i++) {
    rank += !th_is_int(value->type.dims[i], 1);
  }
  return rank;
}

static const th_value *nest_main_output(const th_nest *n) {
  const th_value *best = NULL;
  for (uint32_t i = n->input_count; i < n->buffer_count; i++) {
    const th_value *value = n->buffers[i].value;
    if (!best || nest_real_rank(value) > nest_real_rank(best)) {
      best = value;
    }
  }
  return best;
}

// Which variables reductions so far depend on.
static th_var_set nest_reduced_at(const th_nest *n) {
  th_var_set set = 0;
  for (uint32_t i = 0; i < n->node_count; i++) {
    set |= n->nodes[i]->kind == TH_NODE_REDUCE ? n->nodes[i]->depends : 0;
  }
  return set;
}

// The main output's range for one dimension of another output, at or after
// `from`; those at which reductions stand are tried first.
static const th_range *nest_main_range(const th_nest *n, const th_expr *extent,
                                       th_var_set used) {
  th_var_set reduced = nest_reduced_at(n);
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t r = 0; r < n->range_count; r++) {
      const th_range *range = &n->ranges[r];
      if (range->main && range->extent == extent && !(range->vars & used) &&
          (pass == 1 || !(range->vars & ~reduced))) {
        return range;
      }
    }
  }
  return NULL;
}

static void nest_store_output(th_nest *n, const th_value *out, bool main) {
  const th_expr *index[TH_MAX_RANK] = {NULL};
  th_var_set vars = 0;
  for (uint8_t i = 0; i < out->type.rank; i++) {
    const th_expr *extent = th_nest_dim(n, out, i);
    const th_range *range =
        main || th_is_int(extent, 1) ? NULL : nest_main_range(n, extent, vars);
    if (th_is_int(extent, 1)) {
      index[i] = th_int(n->ir, 0);
    } else if (range) {
      index[i] = range->expr;
      vars |= range->vars;
    } else {
      index[i] = th_nest_range(n, extent, &vars);
      n->ranges[n->range_count - 1].main = main;
    }
  }
  th_nest_add_store(n, out, th_nest_pull(n, out, index), index, vars);
}

// Outputs of the same shape as the main one go dimension by dimension.
static bool nest_same_shape(const th_value *a, const th_value *b) {
  if (a->type.rank != b->type.rank) {
    return false;
  }
  for (uint8_t i = 0; i < a->type.rank; i++) {
    if (a->type.dims[i] != b->type.dims[i]) {
      return false;
    }
  }
  return true;
}

static void nest_store_all(th_nest *n) {
  for (uint32_t i = 0; i < n->kernel->body_count; i++) {
    const th_stmt *stmt = n->kernel->body[i];
    th_special_fn special = th_nest_special(stmt->op->op);
    if (special) {
      special(n, stmt);
      return;
    }
  }
  const th_value *main = nest_main_output(n);
  if (!main) {
    th_nest_fail(n, n->kernel, "no results");
    return;
  }
  nest_store_output(n, main, true);
  const th_store first = n->store_count ? n->stores[0] : (th_store){0};
  uint32_t main_ranges = 0;
  const th_expr *index[TH_MAX_RANK] = {NULL};
  for (uint8_t i = 0; i < main->type.rank; i++) {
    bool one = th_is_int(main->type.dims[i], 1);
    index[i] = one ? th_int(n->ir, 0) : n->ranges[main_ranges++].expr;
  }
  for (uint32_t i = n->input_count; i < n->buffer_count; i++) {
    const th_value *out = n->buffers[i].value;
    if (out == main) {
      continue;
    }
    if (nest_same_shape(out, main)) {
      th_nest_add_store(n, out, th_nest_pull(n, out, index), index, first.vars);
    } else {
      nest_store_output(n, out, false);
    }
  }
  n->phase_count = 1;
}

static void nest_reset(th_nest *n) {
  th_space_init(&n->space, n->ir, n->arena);
  th_map_init(&n->memo, n->arena);
  th_map_init(&n->nodes_by_key, n->arena);
  n->node_count = n->store_count = n->phase_count = n->range_count = 0;
  n->guard = 0;
  n->sequential = false;
}

// Whether the division that asked for a split has not vanished meanwhile.
static bool nest_still_divides(const th_nest *n, int var) {
  for (uint32_t i = 0; i < n->node_count; i++) {
    const th_expr *e = n->nodes[i]->expr;
    if (e && th_space_divides(&n->space, e, var)) {
      return true;
    }
  }
  for (uint32_t i = 0; i < n->store_count; i++) {
    if (th_space_divides(&n->space, n->stores[i].offset, var)) {
      return true;
    }
  }
  return false;
}

// Turns the wish of a division into a split of a range.
static bool nest_take_split(th_nest *n) {
  int wish = n->space.split_var;
  if (wish < 0 || !nest_still_divides(n, wish)) {
    return false;
  }
  th_var_set var = (th_var_set)1 << n->space.split_var;
  for (uint32_t r = 0; r < n->range_count; r++) {
    if ((n->ranges[r].vars & var) && !n->ranges[r].whole) {
      uint32_t piece =
          (uint32_t)__builtin_popcountll(n->ranges[r].vars & (var - 1));
      TH_PUSH(n->arena, n->splits, n->split_count, n->split_cap) =
          (th_split){r, piece, n->space.split_by};
      return true;
    }
  }
  return false;
}

static void nest_release_ir(void *ir) { th_ir_release(ir); }

th_status th_nest_build(th_context *ctx, th_arena *arena, const th_stmt *kernel,
                        th_nest **out_nest) {
  enum { MAX_SPLITS = 24 };
  th_nest *n = TH_NEW(arena, th_nest);
  n->ctx = ctx;
  n->arena = arena;
  n->kernel = kernel;
  n->ir = th_ir_new(ctx);
  if (!n->ir) {
    return TH_NO_MEMORY;
  }
  th_arena_defer(arena, nest_release_ir, n->ir);
  th_map_init(&n->defs, arena);
  nest_import_symbols(n);
  nest_add_values(n);
  do {
    nest_reset(n);
    nest_store_all(n);
    TH_TRY(n->status);
  } while (n->split_count < MAX_SPLITS && nest_take_split(n));
  *out_nest = n;
  return TH_OK;
}

// Elementwise statements, reductions and products.
#include "lowering/rules.h"

#include "ir/infer.h"

static const th_rule_fn rule_table[TH_OP_COUNT] = {
#define RULE(op, rule) [TH_OP_##op] = th_rule_##rule,
    TH_RULE_MAP(RULE)
#undef RULE
};

th_rule_fn th_nest_rule(th_op op) {
  if (op >= TH_OP_COUNT) {
    return NULL;
  }
  uint32_t traits = th_op_row(op)->traits;
  bool elementwise = (traits & TH_EW) && !(traits & TH_COMPOSITE);
  return rule_table[op] ? rule_table[op]
         : elementwise  ? th_rule_elementwise
                        : NULL;
}

static const th_special_fn special_table[TH_OP_COUNT] = {
#define SPECIAL(op, function) [TH_OP_##op] = th_special_##function,
    TH_SPECIAL_MAP(SPECIAL)
#undef SPECIAL
};

th_special_fn th_nest_special(th_op op) {
  return op < TH_OP_COUNT ? special_table[op] : NULL;
}

// ---- elementwise

th_node *th_rule_elementwise(th_nest *n, const th_stmt *stmt, uint16_t out,
                             const th_expr *const *index) {
  uint8_t rank = stmt->outs[out]->type.rank;
  th_dtype compute = th_compute_dtype(stmt);
  if (stmt->op->op == TH_OP_to) {
    return th_nest_operand(n, &stmt->args[0], rank, index, compute);
  }
  th_node *args[TH_MAX_PARAMS];
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    args[i] = th_nest_operand(n, &stmt->args[i], rank, index, compute);
  }
  return th_node_apply(n, stmt->op->op, th_result_dtype(stmt, out), stmt, args,
                       stmt->arg_count);
}

th_node *th_rule_where(th_nest *n, const th_stmt *stmt, uint16_t out,
                       const th_expr *const *index) {
  uint8_t rank = stmt->outs[out]->type.rank;
  th_dtype compute = th_compute_dtype(stmt);
  th_node *args[3];
  for (uint16_t i = 0; i < 3; i++) {
    args[i] =
        th_nest_operand(n, &stmt->args[i], rank, index, i ? compute : TH_BOOL);
  }
  return th_node_apply(n, TH_OP_where, compute, stmt, args, 3);
}

// ---- reductions

// Which dimensions a reduction goes over: None and [] are all.
static void rule_reduced(const th_stmt *stmt, uint8_t rank, bool *reduced) {
  const th_arg *dims = &stmt->args[1];
  bool all = dims->kind == TH_ARG_NONE ||
             (dims->kind == TH_ARG_LIST && dims->count == 0);
  for (uint8_t i = 0; i < rank; i++) {
    reduced[i] = all;
  }
  uint32_t count = all ? 0 : dims->kind == TH_ARG_LIST ? dims->count : 1;
  for (uint32_t i = 0; i < count && rank; i++) {
    const th_arg *item = dims->kind == TH_ARG_LIST ? &dims->items[i] : dims;
    int64_t dim = item->num->i;
    reduced[dim < 0 ? dim + rank : dim] = true;
  }
}

// Fills `at` for the operand: kept dimensions from index, reduced ones new.
static th_var_set rule_reduce_index(th_nest *n, const th_stmt *stmt,
                                    bool keepdim, const th_expr *const *index,
                                    const th_expr **at, bool *reduced) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *extents[TH_MAX_RANK], *fresh[TH_MAX_RANK];
  uint32_t count = 0;
  uint8_t from = 0;
  th_var_set kept = 0, vars = 0;
  rule_reduced(stmt, x->type.rank, reduced);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    if (reduced[i]) {
      extents[count++] = th_nest_dim(n, x, i);
      from = (uint8_t)(from + keepdim);
    } else {
      at[i] = index[from++];
      kept |= th_space_depends(&n->space, at[i]);
    }
  }
  th_nest_reduce_ranges(n, count, extents, kept, fresh, &vars);
  count = 0;
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = reduced[i] ? fresh[count++] : at[i];
  }
  return vars;
}

th_node *th_rule_reduction(th_nest *n, const th_stmt *stmt, uint16_t out,
                           const th_expr *const *index) {
  const th_expr *at[TH_MAX_RANK];
  bool reduced[TH_MAX_RANK];
  th_dtype dtype = th_result_dtype(stmt, out);
  th_var_set vars =
      rule_reduce_index(n, stmt, th_stmt_bool(stmt, 2), index, at, reduced);
  // any and all of u8 are u8, but 0 or 1.
  bool truth = stmt->op->op == TH_OP_any || stmt->op->op == TH_OP_all;
  th_dtype by = truth ? TH_BOOL : dtype;
  th_node *x = th_node_convert(n, th_nest_pull(n, th_operand(stmt, 0), at), by);
  th_node *node = th_node_reduce(n, stmt->op->op, by, stmt, x, vars, NULL);
  return th_node_convert(n, node, dtype);
}

th_node *th_rule_arg_reduction(th_nest *n, const th_stmt *stmt, uint16_t out,
                               const th_expr *const *index) {
  (void)out;
  const th_expr *at[TH_MAX_RANK], *dims[TH_MAX_RANK], *inner[TH_MAX_RANK];
  bool reduced[TH_MAX_RANK];
  const th_value *value = th_operand(stmt, 0);
  th_var_set vars =
      rule_reduce_index(n, stmt, th_stmt_bool(stmt, 2), index, at, reduced);
  uint8_t count = 0;
  for (uint8_t i = 0; i < value->type.rank; i++) {
    if (reduced[i]) {
      dims[count] = th_nest_dim(n, value, i);
      inner[count++] = at[i];
    }
  }
  const th_expr *position = th_space_flatten(&n->space, count, dims, inner);
  th_node *x = th_nest_pull(n, value, at);
  return th_node_reduce(n, stmt->op->op, TH_I64, stmt, x, vars, position);
}

// ---- products

// Products and sums of half types are made in f32 and rounded once.
static th_dtype rule_sum_dtype(th_dtype dtype) {
  return dtype == TH_F16 || dtype == TH_BF16 ? TH_F32 : dtype;
}

static th_node *rule_dot(th_nest *n, const th_stmt *stmt, th_dtype sum,
                         th_node *x, th_node *y, th_var_set vars) {
  th_node *args[] = {th_node_convert(n, x, sum), th_node_convert(n, y, sum)};
  th_node *product = th_node_apply(n, TH_OP_mul, sum, stmt, args, 2);
  return th_node_reduce(n, TH_OP_matmul, sum, stmt, product, vars, NULL);
}

// Index of an operand's batch dimensions, broadcast.
static void rule_batch(th_nest *n, const th_value *x, uint8_t batch_rank,
                       const th_expr *const *batch, const th_expr **at) {
  uint8_t own = (uint8_t)(x->type.rank - 2);
  for (uint8_t i = 0; i < own; i++) {
    bool one = th_is_int(x->type.dims[i], 1);
    at[i] = one ? th_int(n->ir, 0) : batch[batch_rank - own + i];
  }
}

th_node *th_rule_matmul(th_nest *n, const th_stmt *stmt, uint16_t out,
                        const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0), *y = th_operand(stmt, 1);
  const th_expr *at_x[TH_MAX_RANK], *at_y[TH_MAX_RANK], *k = NULL;
  uint8_t rank = stmt->outs[out]->type.rank;
  bool row = x->type.rank > 1, column = y->type.rank > 1;
  uint8_t batch = (uint8_t)(rank - row - column);
  th_var_set kept = 0, vars = 0;
  for (uint8_t i = 0; i < rank; i++) {
    kept |= th_space_depends(&n->space, index[i]);
  }
  const th_expr *extent = th_nest_dim(n, x, (uint8_t)(x->type.rank - 1));
  th_nest_reduce_ranges(n, 1, &extent, kept, &k, &vars);
  if (row) {
    rule_batch(n, x, batch, index, at_x);
    at_x[x->type.rank - 2] = index[batch];
  }
  at_x[x->type.rank - 1] = k;
  if (column) {
    rule_batch(n, y, batch, index, at_y);
    at_y[y->type.rank - 1] = index[rank - 1];
    at_y[y->type.rank - 2] = k;
  } else {
    at_y[0] = k;
  }
  th_dtype dtype = th_result_dtype(stmt, out);
  th_node *dot =
      rule_dot(n, stmt, rule_sum_dtype(dtype), th_nest_pull(n, x, at_x),
               th_nest_pull(n, y, at_y), vars);
  return th_node_convert(n, dot, dtype);
}

th_node *th_rule_linear(th_nest *n, const th_stmt *stmt, uint16_t out,
                        const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0), *w = th_operand(stmt, 1);
  const th_value *bias = th_operand(stmt, 2);
  uint8_t rank = x->type.rank;
  // A weight of one dimension gives a result without the last dimension.
  bool column = w->type.rank > 1;
  const th_expr *at[TH_MAX_RANK], *k = NULL;
  th_var_set kept = 0, vars = 0;
  for (uint8_t i = 0; i + 1 < rank; i++) {
    at[i] = index[i];
    kept |= th_space_depends(&n->space, index[i]);
  }
  if (column) {
    kept |= th_space_depends(&n->space, index[rank - 1]);
  }
  const th_expr *extent = th_nest_dim(n, x, (uint8_t)(rank - 1));
  th_nest_reduce_ranges(n, 1, &extent, kept, &k, &vars);
  at[rank - 1] = k;
  const th_expr *at_w[2] = {column ? index[rank - 1] : k, k};
  th_dtype dtype = th_result_dtype(stmt, out), sum = rule_sum_dtype(dtype);
  th_node *dot = rule_dot(n, stmt, sum, th_nest_pull(n, x, at),
                          th_nest_pull(n, w, at_w), vars);
  if (bias) {
    const th_expr *at_b[1] = {column && bias->type.rank ? index[rank - 1]
                                                        : th_int(n->ir, 0)};
    th_node *b = th_node_convert(n, th_nest_pull(n, bias, at_b), sum);
    dot = th_node_apply(n, TH_OP_add, sum, stmt, (th_node *[]){dot, b}, 2);
  }
  return th_node_convert(n, dot, dtype);
}

// Rows of x belong to groups, whose ends stand in `offsets`: group of row r is
// the number of ends that are <= r.  Rows after the last end are zero.
th_node *th_rule_grouped_mm(th_nest *n, const th_stmt *stmt, uint16_t out,
                            const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0), *w = th_operand(stmt, 1);
  const th_value *ends = th_operand(stmt, 2);
  if (x->type.rank != 2 || w->type.rank != 3) {
    return th_nest_fail(n, stmt, "only rows in groups: [M, K] x [G, K, N]");
  }
  th_dtype dtype = th_result_dtype(stmt, out), sum = rule_sum_dtype(dtype);
  const th_expr *groups = th_nest_dim(n, ends, 0), *g = NULL, *k = NULL;
  th_var_set at_group = 0, vars = 0;
  g = th_nest_range(n, groups, &at_group);
  th_node *row = th_node_index(n, index[0]);
  th_node *end = th_node_convert(n, th_nest_pull(n, ends, &g), TH_I64);
  th_node *passed =
      th_node_apply(n, TH_OP_le, TH_BOOL, stmt, (th_node *[]){end, row}, 2);
  th_node *group =
      th_node_reduce(n, TH_OP_sum, TH_I64, stmt,
                     th_node_convert(n, passed, TH_I64), at_group, NULL);
  // The group after the last one does not exist: look into the last instead
  // and drop the result.
  th_node *last =
      th_node_number(n, th_expr_sub(n->ir, groups, th_int(n->ir, 1)), TH_I64);
  th_node *inside = th_node_apply(n, TH_OP_minimum, TH_I64, stmt,
                                  (th_node *[]){group, last}, 2);
  const th_expr *which = th_nest_checked(n, stmt, inside, groups);
  const th_expr *extent = th_nest_dim(n, x, 1);
  k = th_nest_range(n, extent, &vars);
  th_node *dot = rule_dot(
      n, stmt, sum, th_nest_pull(n, x, (const th_expr *[]){index[0], k}),
      th_nest_pull(n, w, (const th_expr *[]){which, k, index[1]}), vars);
  th_node *exists =
      th_node_apply(n, TH_OP_le, TH_BOOL, stmt, (th_node *[]){group, last}, 2);
  th_node *zero = th_node_number(n, th_int(n->ir, 0), sum);
  th_node *kept = th_node_apply(n, TH_OP_where, sum, stmt,
                                (th_node *[]){exists, dot, zero}, 3);
  return th_node_convert(n, kept, dtype);
}

// Views, concatenation, padding and creation: index expressions.
#include "lowering/rules.h"

// ---- views

th_node *th_rule_same(th_nest *n, const th_stmt *stmt, uint16_t out,
                      const th_expr *const *index) {
  (void)out;
  return th_nest_pull(n, th_operand(stmt, 0), index);
}

static uint8_t rule_dims(th_nest *n, const th_value *value,
                         const th_expr **dims) {
  for (uint8_t i = 0; i < value->type.rank; i++) {
    dims[i] = th_nest_dim(n, value, i);
  }
  return value->type.rank;
}

th_node *th_rule_reshape(th_nest *n, const th_stmt *stmt, uint16_t out,
                         const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *from[TH_MAX_RANK], *to[TH_MAX_RANK], *at[TH_MAX_RANK];
  uint8_t rank = rule_dims(n, stmt->outs[out], from);
  rule_dims(n, x, to);
  const th_expr *linear = th_space_flatten(&n->space, rank, from, index);
  th_node *flat = th_nest_pull_flat(n, x, linear);
  if (flat) {
    return flat;
  }
  th_space_unflatten(&n->space, linear, x->type.rank, to, at);
  return th_nest_pull(n, x, at);
}

th_node *th_rule_permute(th_nest *n, const th_stmt *stmt, uint16_t out,
                         const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK];
  for (uint8_t i = 0; i < x->type.rank; i++) {
    int64_t dim = stmt->args[1].items[i].num->i;
    at[dim < 0 ? dim + x->type.rank : dim] = index[i];
  }
  return th_nest_pull(n, x, at);
}

th_node *th_rule_expand(th_nest *n, const th_stmt *stmt, uint16_t out,
                        const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0);
  return th_nest_operand(n, &stmt->args[0], stmt->outs[out]->type.rank, index,
                         x->type.dtype);
}

th_node *th_rule_squeeze(th_nest *n, const th_stmt *stmt, uint16_t out,
                         const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK];
  bool gone[TH_MAX_RANK] = {false};
  for (uint32_t i = 0; i < stmt->args[1].count && x->type.rank; i++) {
    int64_t dim = stmt->args[1].items[i].num->i;
    gone[dim < 0 ? dim + x->type.rank : dim] = true;
  }
  uint8_t from = 0;
  for (uint8_t i = 0; i < x->type.rank; i++) {
    bool drop = gone[i] && th_is_int(x->type.dims[i], 1);
    at[i] = drop ? th_int(n->ir, 0) : index[from++];
  }
  return th_nest_pull(n, x, at);
}

th_node *th_rule_unsqueeze(th_nest *n, const th_stmt *stmt, uint16_t out,
                           const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK];
  uint8_t dim = th_nest_dim_arg(stmt, 1, stmt->outs[out]->type.rank);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i < dim ? i : i + 1];
  }
  return th_nest_pull(n, x, at);
}

const th_expr *th_rule_clamped(th_nest *n, const th_expr *index,
                               const th_expr *size, const th_expr *missing) {
  th_ir *ir = n->ir;
  if (!index) {
    return missing;
  }
  if (th_is_int(index, INT64_MAX)) {
    return size;
  }
  const th_expr *zero = th_int(ir, 0);
  const th_expr *negative = th_nest_lt(n, index, zero);
  const th_expr *wrapped =
      th_is_const(negative)
          ? (negative->i ? th_expr_add(ir, index, size) : index)
          : th_expr_make(ir, TH_X_ITE,
                         (const th_expr *[]){
                             negative, th_expr_add(ir, index, size), index},
                         3);
  return th_expr_max(ir, zero, th_expr_min(ir, wrapped, size));
}

th_node *th_rule_slice(th_nest *n, const th_stmt *stmt, uint16_t out,
                       const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK];
  uint8_t dim = th_nest_dim_arg(stmt, 1, x->type.rank);
  const th_expr *size = th_nest_dim(n, x, dim);
  const th_expr *start =
      th_rule_clamped(n, th_nest_num(n, stmt, 2), size, th_int(n->ir, 0));
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
  }
  at[dim] = th_expr_add(
      n->ir, start,
      th_expr_mul(n->ir, index[dim], th_int(n->ir, th_nest_int(n, stmt, 4))));
  return th_nest_pull(n, x, at);
}

// index < 0 counts from the end.
static const th_expr *rule_wrapped(th_nest *n, const th_expr *index,
                                   const th_expr *size) {
  const th_expr *negative = th_nest_lt(n, index, th_int(n->ir, 0));
  const th_expr *wrapped = th_expr_add(n->ir, index, size);
  if (th_is_const(negative)) {
    return negative->i ? wrapped : index;
  }
  return th_expr_make(n->ir, TH_X_ITE,
                      (const th_expr *[]){negative, wrapped, index}, 3);
}

th_node *th_rule_select(th_nest *n, const th_stmt *stmt, uint16_t out,
                        const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK];
  uint8_t dim = th_nest_dim_arg(stmt, 1, x->type.rank);
  for (uint8_t i = 0; i + 1 < x->type.rank; i++) {
    at[i < dim ? i : i + 1] = index[i];
  }
  at[dim] = rule_wrapped(n, th_nest_num(n, stmt, 2), th_nest_dim(n, x, dim));
  return th_nest_pull(n, x, at);
}

th_node *th_rule_split(th_nest *n, const th_stmt *stmt, uint16_t out,
                       const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK], *start = th_int(n->ir, 0);
  uint8_t dim = th_nest_dim_arg(stmt, 2, x->type.rank);
  for (uint16_t i = 0; i < out; i++) {
    start = th_expr_add(n->ir, start,
                        th_nest_import(n, stmt->args[1].items[i].num));
  }
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = i == dim ? th_expr_add(n->ir, index[i], start) : index[i];
  }
  return th_nest_pull(n, x, at);
}

th_node *th_rule_diagonal(th_nest *n, const th_stmt *stmt, uint16_t out,
                          const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK];
  int64_t offset = th_nest_int(n, stmt, 1);
  uint8_t a = th_nest_dim_arg(stmt, 2, x->type.rank);
  uint8_t b = th_nest_dim_arg(stmt, 3, x->type.rank);
  const th_expr *along = index[stmt->outs[out]->type.rank - 1];
  uint8_t from = 0;
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = i == a || i == b ? along : index[from++];
  }
  uint8_t moved = offset >= 0 ? b : a;
  at[moved] =
      th_expr_add(n->ir, along, th_int(n->ir, offset < 0 ? -offset : offset));
  return th_nest_pull(n, x, at);
}

th_node *th_rule_unfold(th_nest *n, const th_stmt *stmt, uint16_t out,
                        const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK] = {0};
  if (x->type.rank == 0) {
    return th_nest_pull(n, x, at);
  }
  uint8_t dim = th_nest_dim_arg(stmt, 1, x->type.rank);
  const th_expr *inside = index[stmt->outs[out]->type.rank - 1];
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
  }
  const th_expr *step = th_int(n->ir, th_nest_int(n, stmt, 3));
  at[dim] = th_expr_add(n->ir, th_expr_mul(n->ir, index[dim], step), inside);
  return th_nest_pull(n, x, at);
}

th_node *th_rule_as_strided(th_nest *n, const th_stmt *stmt, uint16_t out,
                            const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *dims[TH_MAX_RANK], *at[TH_MAX_RANK];
  const th_expr *linear = th_nest_num(n, stmt, 3);
  linear = linear ? linear : th_int(n->ir, 0);
  for (uint8_t i = 0; i < stmt->outs[out]->type.rank; i++) {
    const th_expr *stride = th_nest_import(n, stmt->args[2].items[i].num);
    linear = th_expr_add(n->ir, linear, th_expr_mul(n->ir, index[i], stride));
  }
  th_space_unflatten(&n->space, linear, rule_dims(n, x, dims), dims, at);
  return th_nest_pull(n, x, at);
}

// ---- parts side by side

// A pull of what may not exist everywhere.
static th_node *rule_guarded(th_nest *n, const th_value *x,
                             const th_expr *const *index) {
  n->guard++;
  th_node *node = th_nest_pull(n, x, index);
  n->guard--;
  return node;
}

// Operands that PyTorch leaves out: one dimension, no elements.
static bool rule_cat_skips(const th_value *x, uint8_t rank) {
  return x->type.rank == 1 && rank != 1 && th_is_int(x->type.dims[0], 0);
}

th_node *th_rule_cat(th_nest *n, const th_stmt *stmt, uint16_t out,
                     const th_expr *const *index) {
  const th_arg *parts = &stmt->args[0];
  uint8_t rank = stmt->outs[out]->type.rank;
  uint8_t dim = th_nest_dim_arg(stmt, 1, rank);
  th_dtype dtype = th_result_dtype(stmt, out);
  const th_expr **starts =
      TH_NEW_ARRAY(n->arena, const th_expr *, parts->count + 1);
  uint32_t count = 0;
  const th_expr *start = th_int(n->ir, 0);
  const th_value **values =
      TH_NEW_ARRAY(n->arena, const th_value *, parts->count + 1);
  for (uint32_t i = 0; i < parts->count; i++) {
    const th_value *x = parts->items[i].value;
    if (rule_cat_skips(x, rank) || th_is_int(x->type.dims[dim], 0)) {
      continue;
    }
    starts[count] = start;
    values[count++] = x;
    start = th_expr_add(n->ir, start, th_nest_dim(n, x, dim));
  }
  th_node *node = NULL;
  for (uint32_t i = count; i-- > 0;) {
    const th_expr *at[TH_MAX_RANK];
    for (uint8_t d = 0; d < rank; d++) {
      at[d] = index[d];
    }
    at[dim] = th_expr_sub(n->ir, index[dim], starts[i]);
    th_node *part = NULL;
    const th_expr *before =
        node ? th_nest_lt(n, index[dim], starts[i + 1]) : NULL;
    if (before && th_is_const(before) && !before->i) {
      continue; // never reached
    }
    part = count == 1 ? th_nest_pull(n, values[i], at)
                      : rule_guarded(n, values[i], at);
    part = th_node_convert(n, part, dtype);
    node = node ? th_node_select(n, before, part, node) : part;
  }
  return node ? node : th_node_number(n, th_int(n->ir, 0), dtype);
}

th_node *th_rule_flip(th_nest *n, const th_stmt *stmt, uint16_t out,
                      const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0);
  const th_expr *at[TH_MAX_RANK];
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
  }
  for (uint32_t i = 0; i < stmt->args[1].count && x->type.rank; i++) {
    int64_t d = stmt->args[1].items[i].num->i;
    uint8_t dim = (uint8_t)(d < 0 ? d + x->type.rank : d);
    const th_expr *last =
        th_expr_sub(n->ir, th_nest_dim(n, x, dim), th_int(n->ir, 1));
    at[dim] = th_expr_sub(n->ir, last, index[dim]);
  }
  return th_nest_pull(n, x, at);
}

th_node *th_rule_pad(th_nest *n, const th_stmt *stmt, uint16_t out,
                     const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0);
  const th_arg *pads = &stmt->args[1];
  const th_expr *at[TH_MAX_RANK], *inside = th_bool(n->ir, true);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    uint32_t pair = 2u * (uint32_t)(x->type.rank - 1 - i);
    at[i] = index[i];
    if (pair + 1 >= pads->count) {
      continue;
    }
    const th_expr *before = th_nest_import(n, pads->items[pair].num);
    at[i] = th_expr_sub(n->ir, index[i], before);
    const th_expr *low = th_nest_le(n, th_int(n->ir, 0), at[i]);
    const th_expr *high = th_nest_lt(n, at[i], th_nest_dim(n, x, i));
    inside = th_nest_and(n, inside, th_nest_and(n, low, high));
  }
  th_dtype dtype = th_result_dtype(stmt, out);
  th_node *fill = th_node_number(n, th_nest_num(n, stmt, 2), dtype);
  if (th_is_const(inside)) {
    return inside->i ? th_nest_pull(n, x, at) : fill;
  }
  return th_node_select(n, inside, rule_guarded(n, x, at), fill);
}

// ---- the writes of views, read from their result

th_node *th_rule_slice_scatter(th_nest *n, const th_stmt *stmt, uint16_t out,
                               const th_expr *const *index) {
  (void)out;
  th_ir *ir = n->ir;
  const th_value *x = th_operand(stmt, 0), *src = th_operand(stmt, 1);
  const th_expr *at[TH_MAX_RANK];
  uint8_t dim = th_nest_dim_arg(stmt, 2, x->type.rank);
  const th_expr *size = th_nest_dim(n, x, dim);
  const th_expr *start =
      th_rule_clamped(n, th_nest_num(n, stmt, 3), size, th_int(ir, 0));
  const th_expr *step = th_int(ir, th_nest_int(n, stmt, 5));
  const th_expr *from = th_expr_sub(ir, index[dim], start);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
  }
  at[dim] = th_space_div(&n->space, from, step);
  const th_expr *phase = th_space_mod(&n->space, from, step);
  const th_expr *inside =
      th_nest_and(n, th_nest_le(n, start, index[dim]),
                  th_nest_lt(n, at[dim], th_nest_dim(n, src, dim)));
  const th_expr *on_step =
      th_expr_make(ir, TH_X_EQ, (const th_expr *[]){phase, th_int(ir, 0)}, 2);
  inside = th_nest_and(n, inside, on_step);
  th_node *inner = rule_guarded(n, src, at);
  return th_node_select(n, inside, th_node_convert(n, inner, x->type.dtype),
                        rule_guarded(n, x, index));
}

th_node *th_rule_select_scatter(th_nest *n, const th_stmt *stmt, uint16_t out,
                                const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0), *src = th_operand(stmt, 1);
  const th_expr *at[TH_MAX_RANK];
  uint8_t dim = th_nest_dim_arg(stmt, 2, x->type.rank);
  for (uint8_t i = 0; i + 1 < x->type.rank; i++) {
    at[i] = index[i < dim ? i : i + 1];
  }
  const th_expr *which =
      rule_wrapped(n, th_nest_num(n, stmt, 3), th_nest_dim(n, x, dim));
  const th_expr *here =
      th_expr_make(n->ir, TH_X_EQ, (const th_expr *[]){index[dim], which}, 2);
  th_node *inner = rule_guarded(n, src, at);
  return th_node_select(n, here, th_node_convert(n, inner, x->type.dtype),
                        rule_guarded(n, x, index));
}

th_node *th_rule_diagonal_scatter(th_nest *n, const th_stmt *stmt, uint16_t out,
                                  const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0), *src = th_operand(stmt, 1);
  const th_expr *at[TH_MAX_RANK];
  int64_t offset = th_nest_int(n, stmt, 2);
  uint8_t a = th_nest_dim_arg(stmt, 3, x->type.rank);
  uint8_t b = th_nest_dim_arg(stmt, 4, x->type.rank);
  uint8_t count = 0;
  for (uint8_t i = 0; i < x->type.rank; i++) {
    if (i != a && i != b) {
      at[count++] = index[i];
    }
  }
  at[count] = offset >= 0 ? index[a] : index[b];
  const th_expr *moved = th_expr_add(n->ir, index[a], th_int(n->ir, offset));
  const th_expr *here =
      th_expr_make(n->ir, TH_X_EQ, (const th_expr *[]){index[b], moved}, 2);
  here = th_nest_and(n, here,
                     th_nest_lt(n, at[count], th_nest_dim(n, src, count)));
  th_node *inner = rule_guarded(n, src, at);
  return th_node_select(n, here, th_node_convert(n, inner, x->type.dtype),
                        rule_guarded(n, x, index));
}

// ---- creation

th_node *th_rule_full(th_nest *n, const th_stmt *stmt, uint16_t out,
                      const th_expr *const *index) {
  (void)index;
  return th_node_number(n, th_nest_num(n, stmt, 1), th_result_dtype(stmt, out));
}

th_node *th_rule_arange(th_nest *n, const th_stmt *stmt, uint16_t out,
                        const th_expr *const *index) {
  th_dtype dtype = th_result_dtype(stmt, out);
  const th_expr *start = th_nest_num(n, stmt, 0);
  const th_expr *step = th_nest_num(n, stmt, 2);
  if (start->dtype != TH_F64 && step->dtype != TH_F64) {
    const th_expr *e =
        th_expr_add(n->ir, start, th_expr_mul(n->ir, step, index[0]));
    return th_node_convert(n, th_node_index(n, e), dtype);
  }
  // As PyTorch: computed in double, whatever the result.
  th_node *i = th_node_convert(n, th_node_index(n, index[0]), TH_F64);
  th_node *scaled =
      th_node_apply(n, TH_OP_mul, TH_F64, stmt,
                    (th_node *[]){i, th_node_number(n, step, TH_F64)}, 2);
  th_node *sum =
      th_node_apply(n, TH_OP_add, TH_F64, stmt,
                    (th_node *[]){th_node_number(n, start, TH_F64), scaled}, 2);
  return th_node_convert(n, sum, dtype);
}

// Reads and writes where an index from memory says.
#include "lowering/rules.h"

// ---- reads

th_node *th_rule_embedding(th_nest *n, const th_stmt *stmt, uint16_t out,
                           const th_expr *const *index) {
  (void)out;
  const th_value *weight = th_operand(stmt, 0), *which = th_operand(stmt, 1);
  th_node *row = th_nest_pull(n, which, index);
  const th_expr *at[2] = {
      th_nest_checked(n, stmt, row, th_nest_dim(n, weight, 0)),
      index[which->type.rank]};
  return th_nest_pull(n, weight, at);
}

th_node *th_rule_gather(th_nest *n, const th_stmt *stmt, uint16_t out,
                        const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0), *which = th_operand(stmt, 2);
  const th_expr *at[TH_MAX_RANK];
  th_node *place = th_nest_pull(n, which, index);
  if (x->type.rank == 0) {
    return th_nest_pull(n, x, at);
  }
  uint8_t dim = th_nest_dim_arg(stmt, 1, x->type.rank);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
  }
  at[dim] = th_nest_checked(n, stmt, place, th_nest_dim(n, x, dim));
  return th_nest_pull(n, x, at);
}

th_node *th_rule_index_select(th_nest *n, const th_stmt *stmt, uint16_t out,
                              const th_expr *const *index) {
  (void)out;
  const th_value *x = th_operand(stmt, 0), *which = th_operand(stmt, 2);
  const th_expr *at[TH_MAX_RANK] = {0};
  if (x->type.rank == 0) {
    return th_nest_pull(n, x, at);
  }
  uint8_t dim = th_nest_dim_arg(stmt, 1, x->type.rank);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
  }
  th_node *place = th_nest_pull(n, which, &index[dim]);
  at[dim] = th_nest_checked(n, stmt, place, th_nest_dim(n, x, dim));
  return th_nest_pull(n, x, at);
}

// Where the dimensions of the index tensors stand in the result: at the place
// of the first one when they are neighbours, else in front.
static uint8_t rule_advanced_place(const th_arg *indices) {
  uint32_t first = indices->count, last = 0, used = 0;
  for (uint32_t i = 0; i < indices->count; i++) {
    if (indices->items[i].kind == TH_ARG_VALUE) {
      first = i < first ? i : first;
      last = i;
      used++;
    }
  }
  return used && last - first + 1 == used ? (uint8_t)first : 0;
}

static uint8_t rule_advanced_rank(const th_arg *indices) {
  uint8_t rank = 0;
  for (uint32_t i = 0; i < indices->count; i++) {
    if (indices->items[i].kind == TH_ARG_VALUE) {
      uint8_t r = indices->items[i].value->type.rank;
      rank = r > rank ? r : rank;
    }
  }
  return rank;
}

static bool rule_has_index(const th_arg *indices, uint8_t dim) {
  return dim < indices->count && indices->items[dim].kind == TH_ARG_VALUE;
}

void th_rule_advanced(th_nest *n, const th_stmt *stmt, const th_value *x,
                      const th_arg *indices, uint8_t rank,
                      const th_expr *const *index, const th_expr **out_index) {
  uint8_t place = rule_advanced_place(indices);
  uint8_t width = rule_advanced_rank(indices);
  uint8_t plain = 0; // dimensions without index tensor so far
  (void)rank;
  for (uint8_t i = 0; i < x->type.rank; i++) {
    if (!rule_has_index(indices, i)) {
      out_index[i] = index[plain < place ? plain : plain + width];
      plain++;
      continue;
    }
    th_node *integer =
        th_nest_operand(n, &indices->items[i], width, &index[place], TH_I64);
    out_index[i] = th_nest_checked(n, stmt, integer, th_nest_dim(n, x, i));
  }
}

uint8_t th_rule_advanced_shape(th_nest *n, const th_value *x,
                               const th_arg *indices,
                               const th_expr **out_dims) {
  uint8_t place = rule_advanced_place(indices);
  uint8_t width = rule_advanced_rank(indices), plain = 0;
  for (uint8_t i = 0; i < width; i++) {
    out_dims[place + i] = th_int(n->ir, 1);
  }
  for (uint8_t i = 0; i < x->type.rank; i++) {
    if (!rule_has_index(indices, i)) {
      out_dims[plain < place ? plain : plain + width] = th_nest_dim(n, x, i);
      plain++;
      continue;
    }
    const th_value *value = indices->items[i].value;
    for (uint8_t d = 0; d < value->type.rank; d++) {
      const th_expr **to = &out_dims[place + width - value->type.rank + d];
      const th_expr *dim = th_nest_dim(n, value, d);
      *to = th_is_int(dim, 1) ? *to : dim;
    }
  }
  return (uint8_t)(plain + width);
}

th_node *th_rule_index(th_nest *n, const th_stmt *stmt, uint16_t out,
                       const th_expr *const *index) {
  const th_expr *at[TH_MAX_RANK];
  const th_value *x = th_operand(stmt, 0);
  th_rule_advanced(n, stmt, x, &stmt->args[1], stmt->outs[out]->type.rank,
                   index, at);
  return th_nest_pull(n, x, at);
}

// ---- writes: the operand is copied, unless the result is the operand's
// memory, and then some elements are stored over it, in one thread.

static th_var_set rule_ranges(th_nest *n, uint8_t rank,
                              const th_expr *const *dims,
                              const th_expr **out_index) {
  th_var_set vars = 0;
  for (uint8_t i = 0; i < rank; i++) {
    out_index[i] = th_nest_range(n, dims[i], &vars);
  }
  return vars;
}

static uint8_t rule_shape(th_nest *n, const th_value *value,
                          const th_expr **dims) {
  for (uint8_t i = 0; i < value->type.rank; i++) {
    dims[i] = th_nest_dim(n, value, i);
  }
  return value->type.rank;
}

static void rule_copy_first(th_nest *n, const th_stmt *stmt) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *dims[TH_MAX_RANK], *index[TH_MAX_RANK];
  if (!stmt->in_place) {
    th_var_set vars = rule_ranges(n, rule_shape(n, x, dims), dims, index);
    th_nest_add_store(n, stmt->outs[0], th_nest_pull(n, x, index), index, vars);
    n->phase_count++;
  }
  n->sequential = true;
}

static void rule_write(th_nest *n, const th_stmt *stmt, th_node *node,
                       const th_expr *const *at, th_var_set vars, bool add) {
  th_dtype dtype = stmt->outs[0]->type.dtype;
  th_store *store = th_nest_add_store(
      n, stmt->outs[0], th_node_convert(n, node, dtype), at, vars);
  store->kind = add ? TH_STORE_ADD : TH_STORE_SET;
  n->phase_count++;
}

void th_special_scatter(th_nest *n, const th_stmt *stmt) {
  const th_value *x = th_operand(stmt, 0), *which = th_operand(stmt, 2);
  const th_expr *dims[TH_MAX_RANK], *index[TH_MAX_RANK], *at[TH_MAX_RANK];
  rule_copy_first(n, stmt);
  th_var_set vars = rule_ranges(n, rule_shape(n, which, dims), dims, index);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
  }
  if (x->type.rank) {
    uint8_t dim = th_nest_dim_arg(stmt, 1, x->type.rank);
    at[dim] = th_nest_checked(n, stmt, th_nest_pull(n, which, index),
                              th_nest_dim(n, x, dim));
  }
  th_node *src = stmt->args[3].kind == TH_ARG_NUM
                     ? th_node_number(n, th_nest_num(n, stmt, 3), x->type.dtype)
                     : th_nest_pull(n, stmt->args[3].value, index);
  rule_write(n, stmt, src, at, vars, stmt->op->op == TH_OP_scatter_add);
}

void th_special_index_put(th_nest *n, const th_stmt *stmt) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *dims[TH_MAX_RANK], *index[TH_MAX_RANK], *at[TH_MAX_RANK];
  rule_copy_first(n, stmt);
  uint8_t rank = th_rule_advanced_shape(n, x, &stmt->args[1], dims);
  th_var_set vars = rule_ranges(n, rank, dims, index);
  th_rule_advanced(n, stmt, x, &stmt->args[1], rank, index, at);
  th_node *value =
      th_nest_operand(n, &stmt->args[2], rank, index, x->type.dtype);
  rule_write(n, stmt, value, at, vars, th_stmt_bool(stmt, 3));
}

void th_special_index_copy(th_nest *n, const th_stmt *stmt) {
  const th_value *x = th_operand(stmt, 0), *which = th_operand(stmt, 2);
  const th_value *src = th_operand(stmt, 3);
  const th_expr *dims[TH_MAX_RANK], *index[TH_MAX_RANK], *at[TH_MAX_RANK];
  bool add = stmt->op->op == TH_OP_index_add;
  rule_copy_first(n, stmt);
  th_var_set vars = rule_ranges(n, rule_shape(n, src, dims), dims, index);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
  }
  if (x->type.rank) {
    uint8_t dim = th_nest_dim_arg(stmt, 1, x->type.rank);
    th_node *place = th_nest_pull(n, which, &index[dim]);
    at[dim] = th_nest_checked(n, stmt, place, th_nest_dim(n, x, dim));
  }
  th_node *value = th_nest_pull(n, src, index);
  const th_expr *alpha = add ? th_nest_num(n, stmt, 4) : NULL;
  if (alpha && !th_is_int(alpha, 1)) {
    th_node *by = th_node_number(n, alpha, x->type.dtype);
    value = th_node_apply(n, TH_OP_mul, x->type.dtype, stmt,
                          (th_node *[]){value, by}, 2);
  }
  rule_write(n, stmt, value, at, vars, add);
}

void th_special_as_strided_scatter(th_nest *n, const th_stmt *stmt) {
  const th_value *x = th_operand(stmt, 0), *src = th_operand(stmt, 1);
  const th_expr *dims[TH_MAX_RANK], *index[TH_MAX_RANK], *at[TH_MAX_RANK];
  rule_copy_first(n, stmt);
  uint8_t rank = rule_shape(n, src, dims);
  th_var_set vars = rule_ranges(n, rank, dims, index);
  const th_expr *linear = th_nest_num(n, stmt, 4);
  linear = linear ? linear : th_int(n->ir, 0);
  for (uint8_t i = 0; i < rank; i++) {
    const th_expr *stride = th_nest_import(n, stmt->args[3].items[i].num);
    linear = th_expr_add(n->ir, linear, th_expr_mul(n->ir, index[i], stride));
  }
  th_space_unflatten(&n->space, linear, rule_shape(n, x, dims), dims, at);
  rule_write(n, stmt, th_nest_pull(n, src, index), at, vars, false);
}

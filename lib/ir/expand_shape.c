// Composites that move elements, or make them from positions.
#include "ir/expand_util.h"

th_status th_expand_rule_unbind(th_builder *b, const th_stmt *stmt,
                                th_value **outs) {
  const th_value *x = th_expand_arg(stmt, 0);
  uint8_t dim = th_expand_dim(stmt, 1, x->type.rank);
  int64_t count = x->type.dims[dim]->i;
  for (int64_t i = 0; i < count; i++) {
    outs[i] =
        TH_BUILD(b, select, stmt->args[0], th_i(b->ir, dim), th_i(b->ir, i));
  }
  return b->status;
}

th_status th_expand_rule_stack(th_builder *b, const th_stmt *stmt,
                               th_value **outs) {
  const th_arg *list = &stmt->args[0];
  const th_value *first = list->items[0].value;
  uint8_t dim = th_expand_dim(stmt, 1, (uint8_t)(first->type.rank + 1));
  th_arg *parts = TH_NEW_ARRAY(&b->ir->arena, th_arg, list->count);
  for (uint32_t i = 0; i < list->count; i++) {
    parts[i] = th_v(TH_EI(unsqueeze, list->items[i].value, dim));
  }
  if (b->status != TH_OK) {
    return b->status;
  }
  th_value *y =
      TH_BUILD(b, cat, th_list(b->ir, parts, list->count), th_i(b->ir, dim));
  return th_expand_out(b, stmt, 0, y, outs);
}

// The last `shift` elements come first.
static th_value *shape_roll(th_builder *b, th_value *x, uint8_t dim,
                            const th_expr *shift) {
  th_ir *ir = b->ir;
  if (!x || th_is_int(shift, 0) || x->type.rank == 0 ||
      th_is_int(x->type.dims[dim], 0)) {
    return x;
  }
  const th_expr *size = x->type.dims[dim];
  const th_expr *cut = th_expr_mod(ir, th_expr_sub(ir, size, shift), size);
  if (cut && th_is_int(cut, 0)) {
    return x;
  }
  th_arg sizes[] = {th_expand_num(b, cut),
                    th_expand_num(b, th_expr_sub(ir, size, cut))};
  th_arg args[] = {th_v(x), th_list(ir, sizes, 2), th_i(ir, dim)};
  th_stmt *split = th_build(b, th_op_row(TH_OP_split), args, 3, NULL);
  if (!split) {
    return NULL;
  }
  th_arg parts[] = {th_v(split->outs[1]), th_v(split->outs[0])};
  return TH_BUILD(b, cat, th_list(ir, parts, 2), th_i(ir, dim));
}

th_status th_expand_rule_roll(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0), *y = x;
  const th_arg *shifts = &stmt->args[1], *dims = &stmt->args[2];
  if (dims->count == 0) {
    const th_expr *all = th_type_numel(b->ir, &x->type);
    y = shape_roll(b, th_expand_reshape(b, x, &all, 1), 0,
                   shifts->items[0].num);
    y = th_expand_reshape(b, y, x->type.dims, x->type.rank);
  }
  for (uint32_t i = 0; i < dims->count; i++) {
    int64_t dim = dims->items[i].num->i;
    dim = dim < 0 ? dim + (x->type.rank ? x->type.rank : 1) : dim;
    y = shape_roll(b, y, (uint8_t)dim, shifts->items[i].num);
  }
  return th_expand_out(b, stmt, 0, y, outs);
}

// Dimension `dim` of x, `times` times: in front of the dimension, or behind it
// so that each element is repeated.  By way of [outer, size, inner], which has
// room for one more whatever rank x has.
static th_value *shape_repeat(th_builder *b, th_value *x, uint32_t dim,
                              const th_expr *times, bool each) {
  th_ir *ir = b->ir;
  if (!x || th_is_int(times, 1)) {
    return x;
  }
  const th_expr *dims[TH_MAX_RANK];
  const th_expr *outer = th_int(ir, 1), *inner = th_int(ir, 1);
  for (uint32_t d = 0; d < x->type.rank; d++) {
    dims[d] = x->type.dims[d];
    outer = d < dim ? th_expr_mul(ir, outer, dims[d]) : outer;
    inner = d > dim ? th_expr_mul(ir, inner, dims[d]) : inner;
  }
  const th_expr *size = dims[dim], *one = th_int(ir, 1);
  const th_expr *flat[] = {outer, each ? size : one, each ? one : size, inner};
  const th_expr *wide[] = {outer, each ? size : times, each ? times : size,
                           inner};
  th_arg shape[4];
  for (uint32_t i = 0; i < 4; i++) {
    shape[i] = th_expand_num(b, wide[i]);
  }
  th_value *y = th_expand_reshape(b, x, flat, 4);
  y = TH_BUILD(b, expand, th_v(y), th_list(ir, shape, 4));
  dims[dim] = th_expr_mul(ir, size, times);
  return th_expand_reshape(b, y, dims, x->type.rank);
}

// All repeats in one copy: [1, a, 1, b] expands to [m, a, n, b].
static th_value *shape_repeat_all(th_builder *b, th_value *x,
                                  const th_arg *repeats) {
  th_ir *ir = b->ir;
  const th_expr *one = th_int(ir, 1), *narrow[TH_MAX_RANK], *dims[TH_MAX_RANK];
  th_arg wide[TH_MAX_RANK];
  uint32_t n = 0, lead = repeats->count - x->type.rank;
  for (uint32_t i = 0; i < repeats->count; i++) {
    const th_expr *times = repeats->items[i].num;
    const th_expr *size = i < lead ? one : x->type.dims[i - lead];
    if (!th_is_int(times, 1) && !th_is_int(size, 1)) {
      narrow[n] = one;
      wide[n++] = th_n(times);
      times = one;
    }
    narrow[n] = size;
    wide[n++] = th_n(th_is_int(size, 1) ? times : size);
    dims[i] = th_expr_mul(ir, size, repeats->items[i].num);
  }
  th_value *y = th_expand_reshape(b, x, narrow, n);
  y = TH_BUILD(b, expand, th_v(y), th_list(ir, wide, n));
  return th_expand_reshape(b, y, dims, repeats->count);
}

th_status th_expand_rule_repeat(th_builder *b, const th_stmt *stmt,
                                th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0), *y = x;
  const th_arg *repeats = &stmt->args[1];
  uint32_t needed = repeats->count, lead = repeats->count - x->type.rank;
  for (uint32_t i = lead; i < repeats->count; i++) {
    needed += !th_is_int(repeats->items[i].num, 1) &&
              !th_is_int(x->type.dims[i - lead], 1);
  }
  if (needed <= TH_MAX_RANK) {
    return th_expand_out(b, stmt, 0, shape_repeat_all(b, x, repeats), outs);
  }
  for (uint32_t i = 0; i < lead; i++) {
    y = TH_EI(unsqueeze, y, 0);
  }
  for (uint32_t i = 0; i < repeats->count; i++) {
    y = shape_repeat(b, y, i, repeats->items[i].num, false);
  }
  return th_expand_out(b, stmt, 0, y, outs);
}

th_status th_expand_rule_repeat_interleave(th_builder *b, const th_stmt *stmt,
                                           th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  uint8_t dim = th_expand_dim(stmt, 2, x->type.rank);
  th_value *y = shape_repeat(b, x, dim, stmt->args[1].num, true);
  return th_expand_out(b, stmt, 0, y, outs);
}

// ---- from positions

// x where op(column - row, diagonal), else 0.
static th_status shape_triangle(th_builder *b, const th_stmt *stmt, th_op op,
                                th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  const th_type *type = &x->type;
  th_value *rows = th_expand_iota(b, x, type->dims[type->rank - 2], 1);
  th_value *columns = th_expand_iota(b, x, type->dims[type->rank - 1], 0);
  th_value *offset = TH_E2(sub, columns, rows);
  th_value *keep = th_build1(b, op, (th_arg[]){th_v(offset), stmt->args[1]}, 2);
  th_arg zero = type->dtype == TH_BOOL ? th_b(b->ir, false) : th_i(b->ir, 0);
  th_value *y = TH_BUILD(b, where, th_v(keep), th_v(x), zero);
  return th_expand_out(b, stmt, 0, y, outs);
}

th_status th_expand_rule_tril(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  return shape_triangle(b, stmt, TH_OP_le, outs);
}

th_status th_expand_rule_triu(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  return shape_triangle(b, stmt, TH_OP_ge, outs);
}

th_status th_expand_rule_eye(th_builder *b, const th_stmt *stmt,
                             th_value **outs) {
  th_value like = {.type = {.device = stmt->args[3].device}};
  th_value *rows = th_expand_iota(b, &like, stmt->args[0].num, 1);
  th_value *columns = th_expand_iota(b, &like, stmt->args[1].num, 0);
  return th_expand_out(b, stmt, 0, TH_E2(eq, rows, columns), outs);
}

th_status th_expand_rule_one_hot(th_builder *b, const th_stmt *stmt,
                                 th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  th_value *classes = th_expand_iota(b, x, stmt->args[1].num, 0);
  th_value *y = TH_E2(eq, TH_EI(unsqueeze, x, -1), classes);
  return th_expand_out(b, stmt, 0, y, outs);
}

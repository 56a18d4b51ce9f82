// Reductions, softmax and norms as sums, maxima and arithmetic.
//
// Variances are computed in two passes (mean, then the mean square of the
// distance from it), which loses no digits where the mean is large.
#include "ir/expand_util.h"

#include <math.h>

// The dimensions of a list argument, wrapped; None and [] mean all.
static uint32_t reduce_dims(const th_stmt *stmt, uint32_t arg, uint8_t rank,
                            uint8_t dims[TH_MAX_RANK]) {
  const th_arg *list = &stmt->args[arg];
  uint32_t count = list->kind == TH_ARG_LIST ? list->count : 0;
  for (uint32_t i = 0; i < count; i++) {
    int64_t dim = list->items[i].num->i;
    dims[i] = (uint8_t)(dim < 0 ? dim + (rank ? rank : 1) : dim);
  }
  for (uint8_t d = 0; count == 0 && d < rank; d++) {
    dims[d] = d;
  }
  return count ? count : rank;
}

static th_arg reduce_list(th_builder *b, const uint8_t *dims, uint32_t count) {
  int64_t ints[TH_MAX_RANK];
  for (uint32_t i = 0; i < count; i++) {
    ints[i] = dims[i];
  }
  return th_ints(b->ir, ints, count);
}

th_status th_expand_rule_mean(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  uint8_t dims[TH_MAX_RANK];
  uint32_t count = reduce_dims(stmt, 1, x->type.rank, dims);
  x = th_expand_to(b, x, th_expand_compute(th_expand_type(b, stmt, 0).dtype));
  th_value *y = th_expand_mean(b, x, dims, count, th_expand_flag(stmt, 2));
  return th_expand_out(b, stmt, 0, y, outs);
}

// sum((x - mean)^2) / max(0, n - correction), in the computing dtype.
static th_value *reduce_var(th_builder *b, const th_stmt *stmt) {
  th_ir *ir = b->ir;
  th_value *x = th_expand_arg(stmt, 0);
  uint8_t dims[TH_MAX_RANK];
  uint32_t count = reduce_dims(stmt, 1, x->type.rank, dims);
  x = th_expand_to(b, x, th_expand_compute(x->type.dtype));
  th_value *d = TH_E2(sub, x, th_expand_mean(b, x, dims, count, true));
  th_value *sum =
      th_expand_sum(b, TH_E2(mul, d, d), dims, count, th_expand_flag(stmt, 3));
  const th_expr *minus[] = {th_int(ir, -1), stmt->args[2].num};
  const th_expr *correction = th_expr_make(ir, TH_X_MUL, minus, 2);
  const th_expr *rest =
      th_expr_add(ir, th_expand_size(b, x, dims, count), correction);
  const th_expr *divisor = th_expr_max(ir, th_int(ir, 0), rest);
  return TH_BUILD(b, div, th_v(sum), th_expand_num(b, divisor));
}

th_status th_expand_rule_var(th_builder *b, const th_stmt *stmt,
                             th_value **outs) {
  return th_expand_out(b, stmt, 0, reduce_var(b, stmt), outs);
}

th_status th_expand_rule_std(th_builder *b, const th_stmt *stmt,
                             th_value **outs) {
  return th_expand_out(b, stmt, 0, TH_E1(sqrt, reduce_var(b, stmt)), outs);
}

static th_status reduce_extremum(th_builder *b, const th_stmt *stmt, th_op op,
                                 th_op arg_op, th_value **outs) {
  const th_value *x = th_expand_arg(stmt, 0);
  uint8_t dim = th_expand_dim(stmt, 1, x->type.rank);
  th_arg keep = stmt->args[2];
  th_value *y = th_build1(
      b, op, (th_arg[]){stmt->args[0], reduce_list(b, &dim, 1), keep}, 3);
  th_value *at = th_build1(
      b, arg_op, (th_arg[]){stmt->args[0], th_i(b->ir, dim), keep}, 3);
  TH_TRY(th_expand_out(b, stmt, 0, y, outs));
  return th_expand_out(b, stmt, 1, at, outs);
}

th_status th_expand_rule_max_dim(th_builder *b, const th_stmt *stmt,
                                 th_value **outs) {
  return reduce_extremum(b, stmt, TH_OP_amax, TH_OP_argmax, outs);
}

th_status th_expand_rule_min_dim(th_builder *b, const th_stmt *stmt,
                                 th_value **outs) {
  return reduce_extremum(b, stmt, TH_OP_amin, TH_OP_argmin, outs);
}

static bool reduce_is_empty(const th_value *x, const uint8_t *dims,
                            uint32_t count) {
  for (uint32_t i = 0; x && x->type.rank && i < count; i++) {
    if (th_is_int(x->type.dims[dims[i]], 0)) {
      return true;
    }
  }
  return false;
}

// An infinite maximum counts as 0: infinities of one sign give themselves.
th_status th_expand_rule_logsumexp(th_builder *b, const th_stmt *stmt,
                                   th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  uint8_t dims[TH_MAX_RANK];
  uint32_t count = reduce_dims(stmt, 1, x->type.rank, dims);
  bool keep = th_expand_flag(stmt, 2);
  x = th_expand_to(b, x, th_expand_compute(th_expand_type(b, stmt, 0).dtype));
  if (reduce_is_empty(x, dims, count)) {
    th_value *sum = th_expand_sum(b, TH_E1(exp, x), dims, count, keep);
    return th_expand_out(b, stmt, 0, TH_E1(log, sum), outs);
  }
  th_arg list = reduce_list(b, dims, count);
  th_value *max = TH_BUILD(b, amax, th_v(x), list, th_b(b->ir, true));
  max = TH_BUILD(b, where, th_v(TH_E1(isinf, max)), th_i(b->ir, 0), th_v(max));
  th_value *sum =
      th_expand_sum(b, TH_E1(exp, TH_E2(sub, x, max)), dims, count, true);
  th_value *y = TH_E2(add, TH_E1(log, sum), max);
  if (!keep && count) {
    y = TH_BUILD(b, squeeze, th_v(y), list);
  }
  return th_expand_out(b, stmt, 0, y, outs);
}

// Cut with split and not with slice: with symbolic sizes a slice may end at
// min(k, size), which is not known to be k.
th_status th_expand_rule_topk(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  th_ir *ir = b->ir;
  const th_value *x = th_expand_arg(stmt, 0);
  uint8_t dim = th_expand_dim(stmt, 2, x->type.rank);
  const th_expr *k = stmt->args[1].num;
  th_arg args[] = {stmt->args[0], th_i(ir, dim), stmt->args[3], th_b(ir, true)};
  th_stmt *sort = th_build(b, th_op_row(TH_OP_sort), args, 4, NULL);
  for (uint32_t i = 0; sort && i < 2; i++) {
    th_value *y = sort->outs[i];
    if (x->type.rank) {
      const th_expr *rest = th_expr_sub(ir, x->type.dims[dim], k);
      th_arg sizes[] = {th_n(k), th_expand_num(b, rest)};
      y = TH_BUILD(b, split, th_v(y), th_list(ir, sizes, 2), th_i(ir, dim));
    }
    TH_TRY(th_expand_out(b, stmt, i, y, outs));
  }
  return b->status;
}

// ---- softmax

th_value *th_expand_softmax(th_builder *b, th_value *x, uint8_t dim,
                            bool safe) {
  if (reduce_is_empty(x, &dim, 1)) {
    return x;
  }
  th_arg list = reduce_list(b, &dim, 1);
  th_value *max = TH_BUILD(b, amax, th_v(x), list, th_b(b->ir, true));
  if (safe) {
    th_value *is_masked = TH_EF(eq, max, -(double)INFINITY);
    max = TH_BUILD(b, where, th_v(is_masked), th_i(b->ir, 0), th_v(max));
  }
  th_value *e = TH_E1(exp, TH_E2(sub, x, max));
  th_value *sum = th_expand_sum(b, e, &dim, 1, true);
  if (safe) { // at least 1 wherever something is not masked
    sum =
        TH_BUILD(b, where, th_v(TH_EI(eq, sum, 0)), th_i(b->ir, 1), th_v(sum));
  }
  return TH_E2(mul, e, TH_E1(reciprocal, sum)); // a division for each row
}

th_status th_expand_rule_softmax(th_builder *b, const th_stmt *stmt,
                                 th_value **outs) {
  th_dtype dtype = th_expand_type(b, stmt, 0).dtype;
  th_value *x =
      th_expand_to(b, th_expand_arg(stmt, 0), th_expand_compute(dtype));
  uint8_t dim = th_expand_dim(stmt, 1, x ? x->type.rank : 1);
  return th_expand_out(b, stmt, 0, th_expand_softmax(b, x, dim, false), outs);
}

th_status th_expand_rule_log_softmax(th_builder *b, const th_stmt *stmt,
                                     th_value **outs) {
  th_dtype dtype = th_expand_type(b, stmt, 0).dtype;
  th_value *x =
      th_expand_to(b, th_expand_arg(stmt, 0), th_expand_compute(dtype));
  uint8_t dim = th_expand_dim(stmt, 1, x ? x->type.rank : 1);
  if (reduce_is_empty(x, &dim, 1)) {
    return th_expand_out(b, stmt, 0, x, outs);
  }
  th_value *max =
      TH_BUILD(b, amax, th_v(x), reduce_list(b, &dim, 1), th_b(b->ir, true));
  th_value *d = TH_E2(sub, x, max);
  th_value *sum = th_expand_sum(b, TH_E1(exp, d), &dim, 1, true);
  return th_expand_out(b, stmt, 0, TH_E2(sub, d, TH_E1(log, sum)), outs);
}

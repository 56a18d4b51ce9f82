// Norms.  Statistics are computed in two passes and in f32 for half
// precision; only results are rounded.
#include "ir/expand_util.h"

#include <float.h>

typedef struct norm_stats {
  th_value *x;       // in the computing dtype
  th_value *centred; // x - mean
  th_value *mean, *rstd, *var;
} norm_stats;

// Over some dimensions, which stay with size 1.
static norm_stats norm_measure(th_builder *b, th_value *x, const uint8_t *dims,
                               uint32_t count, th_arg eps) {
  norm_stats s = {0};
  s.x = x ? th_expand_to(b, x, th_expand_compute(x->type.dtype)) : NULL;
  s.mean = th_expand_mean(b, s.x, dims, count, true);
  s.centred = TH_E2(sub, s.x, s.mean);
  th_value *square = TH_E2(mul, s.centred, s.centred);
  s.var = th_expand_mean(b, square, dims, count, true);
  s.rstd = TH_E1(rsqrt, TH_BUILD(b, add, th_v(s.var), eps));
  return s;
}

// A [C] tensor as [C, 1, 1, ...], to broadcast over [N, C, ...].
static th_value *norm_per_channel(th_builder *b, th_value *x, uint8_t rank) {
  const th_expr *dims[TH_MAX_RANK];
  if (!x || rank <= 2) {
    return x;
  }
  dims[0] = x->type.dims[0];
  for (uint8_t d = 1; d + 1 < rank; d++) {
    dims[d] = th_int(b->ir, 1);
  }
  return th_expand_reshape(b, x, dims, rank - 1u);
}

// y * weight + bias, each perhaps None.  With a rank they hold one number for
// each channel of a tensor of that rank.
static th_value *norm_affine(th_builder *b, th_value *y, th_value *weight,
                             th_value *bias, uint8_t rank) {
  th_dtype dtype = y ? y->type.dtype : TH_F32;
  if (weight) {
    weight = norm_per_channel(b, th_expand_to(b, weight, dtype), rank);
    y = TH_E2(mul, y, weight);
  }
  if (bias) {
    bias = norm_per_channel(b, th_expand_to(b, bias, dtype), rank);
    y = TH_E2(add, y, bias);
  }
  return y;
}

static uint32_t norm_last_dims(uint8_t rank, uint32_t count,
                               uint8_t dims[TH_MAX_RANK]) {
  for (uint32_t i = 0; i < count; i++) {
    dims[i] = (uint8_t)(rank - count + i);
  }
  return count;
}

th_status th_expand_rule_layer_norm(th_builder *b, const th_stmt *stmt,
                                    th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  uint8_t dims[TH_MAX_RANK];
  uint32_t count = norm_last_dims(x->type.rank, stmt->args[1].count, dims);
  norm_stats s = norm_measure(b, x, dims, count, stmt->args[4]);
  th_value *y = TH_E2(mul, s.centred, s.rstd);
  y = norm_affine(b, y, th_expand_arg(stmt, 2), th_expand_arg(stmt, 3), 0);
  TH_TRY(th_expand_out(b, stmt, 0, y, outs));
  TH_TRY(th_expand_out(b, stmt, 1, s.mean, outs));
  return th_expand_out(b, stmt, 2, s.rstd, outs);
}

static double norm_epsilon(th_dtype dtype) {
  switch (dtype) {
  case TH_F64:
    return DBL_EPSILON;
  case TH_F16:
    return 0x1p-10;
  case TH_BF16:
    return 0x1p-7;
  default:
    return (double)FLT_EPSILON;
  }
}

// x * rsqrt(mean(x^2) + eps) * weight
th_status th_expand_rule_rms_norm(th_builder *b, const th_stmt *stmt,
                                  th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  th_arg eps = stmt->args[3].kind == TH_ARG_NUM
                   ? stmt->args[3]
                   : th_f(b->ir, norm_epsilon(x->type.dtype));
  uint8_t dims[TH_MAX_RANK];
  uint32_t count = norm_last_dims(x->type.rank, stmt->args[1].count, dims);
  x = th_expand_to(b, x, th_expand_compute(x->type.dtype));
  th_value *mean = th_expand_mean(b, TH_E2(mul, x, x), dims, count, true);
  th_value *rstd = TH_E1(rsqrt, TH_BUILD(b, add, th_v(mean), eps));
  th_value *y =
      norm_affine(b, TH_E2(mul, x, rstd), th_expand_arg(stmt, 2), NULL, 0);
  return th_expand_out(b, stmt, 0, y, outs);
}

// As [N, groups, elements of a group].
th_status th_expand_rule_group_norm(th_builder *b, const th_stmt *stmt,
                                    th_value **outs) {
  th_ir *ir = b->ir;
  th_value *x = th_expand_arg(stmt, 0);
  uint8_t rank = x->type.rank;
  const th_expr *groups = th_int(ir, th_expand_int(stmt, 1));
  const th_expr *size = th_expr_floordiv(ir, x->type.dims[1], groups);
  for (uint8_t d = 2; d < rank; d++) {
    size = th_expr_mul(ir, size, x->type.dims[d]);
  }
  const th_expr *dims[] = {x->type.dims[0], groups, size};
  uint8_t last = 2;
  norm_stats s = norm_measure(b, th_expand_reshape(b, x, dims, 3), &last, 1,
                              stmt->args[4]);
  th_value *y = TH_E2(mul, s.centred, s.rstd);
  y = th_expand_reshape(b, y, x->type.dims, rank);
  y = norm_affine(b, y, th_expand_arg(stmt, 2), th_expand_arg(stmt, 3), rank);
  TH_TRY(th_expand_out(b, stmt, 0, y, outs));
  TH_TRY(
      th_expand_out(b, stmt, 1, th_expand_reshape(b, s.mean, dims, 2), outs));
  return th_expand_out(b, stmt, 2, th_expand_reshape(b, s.rstd, dims, 2), outs);
}

// ---- batch norm

// (1 - momentum) * running + momentum * seen, in the dtype of `running`.
static th_value *norm_update(th_builder *b, const th_stmt *stmt,
                             th_value *running, th_value *seen) {
  th_ir *ir = b->ir;
  th_arg momentum = stmt->args[6];
  if (!running || !seen) {
    return NULL;
  }
  const th_expr *minus[] = {th_int(ir, -1), momentum.num};
  const th_expr *rest =
      th_expr_add(ir, th_float(ir, 1), th_expr_make(ir, TH_X_MUL, minus, 2));
  th_value *old = th_expand_to(b, running, seen->type.dtype);
  old = TH_BUILD(b, mul, th_v(old), th_expand_num(b, rest));
  th_value *new_part = TH_BUILD(b, mul, th_v(seen), momentum);
  return TH_E2(add, old, new_part);
}

static th_status norm_batch_train(th_builder *b, const th_stmt *stmt,
                                  th_value **outs) {
  th_ir *ir = b->ir;
  th_value *x = th_expand_arg(stmt, 0);
  uint8_t rank = x->type.rank, dims[TH_MAX_RANK] = {0};
  for (uint8_t d = 2; d < rank; d++) {
    dims[d - 1] = d;
  }
  norm_stats s = norm_measure(b, x, dims, rank - 1u, stmt->args[7]);
  th_value *y = TH_E2(mul, s.centred, s.rstd);
  y = norm_affine(b, y, th_expand_arg(stmt, 1), th_expand_arg(stmt, 2), rank);
  const th_expr *channels = x->type.dims[1];
  th_value *mean = th_expand_reshape(b, s.mean, &channels, 1);
  th_value *rstd = th_expand_reshape(b, s.rstd, &channels, 1);
  TH_TRY(th_expand_out(b, stmt, 0, y, outs));
  TH_TRY(th_expand_out(b, stmt, 1, mean, outs));
  TH_TRY(th_expand_out(b, stmt, 2, rstd, outs));
  outs[3] = outs[4] = NULL;
  if (th_expand_arg(stmt, 3)) {
    th_value *next = norm_update(b, stmt, th_expand_arg(stmt, 3), mean);
    TH_TRY(th_expand_out(b, stmt, 3, next, outs));
  }
  if (th_expand_arg(stmt, 4)) { // the running variance is the unbiased one
    const th_expr *count = th_expand_size(b, x, dims, rank - 1u);
    const th_expr *rest = th_expr_sub(ir, count, th_int(ir, 1));
    th_value *var = th_expand_reshape(b, s.var, &channels, 1);
    var = TH_BUILD(b, mul, th_v(var), th_expand_num(b, count));
    var = TH_BUILD(b, div, th_v(var), th_expand_num(b, rest));
    th_value *next = norm_update(b, stmt, th_expand_arg(stmt, 4), var);
    TH_TRY(th_expand_out(b, stmt, 4, next, outs));
  }
  return b->status;
}

// The weight goes into the factor of each channel, so that the whole is one
// difference, one product and one sum for each element.
static th_status norm_batch_eval(th_builder *b, const th_stmt *stmt,
                                 th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  uint8_t rank = x->type.rank;
  th_dtype dtype = th_expand_compute(x->type.dtype);
  th_value *mean = th_expand_to(b, th_expand_arg(stmt, 3), dtype);
  th_value *var = th_expand_to(b, th_expand_arg(stmt, 4), dtype);
  th_value *rstd = TH_E1(rsqrt, TH_BUILD(b, add, th_v(var), stmt->args[7]));
  th_value *factor = norm_affine(b, rstd, th_expand_arg(stmt, 1), NULL, 0);
  th_value *centre = norm_per_channel(b, mean, rank);
  th_value *y = TH_E2(sub, th_expand_to(b, x, dtype), centre);
  y = norm_affine(b, y, factor, th_expand_arg(stmt, 2), rank);
  TH_TRY(th_expand_out(b, stmt, 0, y, outs));
  TH_TRY(th_expand_out(b, stmt, 1, mean, outs));
  TH_TRY(th_expand_out(b, stmt, 2, rstd, outs));
  outs[3] = th_expand_arg(stmt, 3);
  outs[4] = th_expand_arg(stmt, 4);
  return b->status;
}

th_status th_expand_rule_batch_norm(th_builder *b, const th_stmt *stmt,
                                    th_value **outs) {
  return th_expand_flag(stmt, 5) ? norm_batch_train(b, stmt, outs)
                                 : norm_batch_eval(b, stmt, outs);
}

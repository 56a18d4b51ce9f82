// Shape rules of reductions, scans, sorting, softmax and norms.
#include "ir/infer_util.h"

// ---- which dimensions

typedef struct reduce_dims {
  bool gone[TH_MAX_RANK];
  uint8_t rank;
} reduce_dims;

// None and [] mean all.  A 0-dim operand counts as one dimension.
static th_status reduce_list(th_infer *in, uint32_t arg, reduce_dims *out) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dims[TH_MAX_RANK];
  uint32_t count = 0;
  *out = (reduce_dims){.rank = x->rank};
  TH_TRY(th_infer_arg_dims(in, arg, x->rank, dims, &count));
  for (uint8_t d = 0; count == 0 && d < x->rank; d++) {
    out->gone[d] = true;
  }
  for (uint32_t i = 0; i < count; i++) {
    out->gone[dims[i]] = true;
  }
  return TH_OK;
}

static th_shape reduce_shape(th_infer *in, const reduce_dims *dims, bool keep) {
  const th_type *x = th_infer_tensor(in, 0);
  th_shape shape = {0};
  for (uint8_t d = 0; d < x->rank; d++) {
    if (!dims->gone[d]) {
      th_shape_push(&shape, x->dims[d], NULL);
    } else if (keep) {
      th_shape_push(&shape, th_int(in->ir, 1), NULL);
    }
  }
  return shape;
}

static th_status reduce_out(th_infer *in, const reduce_dims *dims, bool keep,
                            th_dtype dtype) {
  th_shape shape = reduce_shape(in, dims, keep);
  return th_infer_out(in, dtype, th_infer_tensor(in, 0)->device, &shape);
}

// What has no neutral element needs at least one.
static th_status reduce_not_empty(th_infer *in, const reduce_dims *dims) {
  const th_type *x = th_infer_tensor(in, 0);
  for (uint8_t d = 0; d < x->rank; d++) {
    if (dims->gone[d] && th_is_int(x->dims[d], 0)) {
      th_infer_blame(in, 0);
      return th_infer_error(in, TH_SHAPE,
                            "dimension %u of %s is empty and has no %s", d,
                            th_infer_text(in, x), in->op->name);
    }
  }
  return TH_OK;
}

// The dtype argument, or else the operand's, with integers as `integers`.
static th_dtype reduce_dtype(th_infer *in, uint32_t arg, th_dtype integers) {
  const th_type *x = th_infer_tensor(in, 0);
  if (in->args[arg].kind == TH_ARG_DTYPE) {
    return in->args[arg].dtype;
  }
  return th_dtype_is_float(x->dtype) ? x->dtype : integers;
}

static th_status reduce_need_float(th_infer *in, th_dtype dtype) {
  if (th_dtype_is_float(dtype)) {
    return TH_OK;
  }
  th_infer_blame(in, 0);
  return th_infer_error(
      in, TH_DTYPE,
      "%s gives %s; a floating-point dtype is needed (convert "
      "with 'to' or state dtype)",
      th_infer_text(in, th_infer_tensor(in, 0)), th_dtype_name(dtype));
}

// ---- reductions

th_status th_infer_rule_sum(th_infer *in) {
  reduce_dims dims;
  TH_TRY(reduce_list(in, 1, &dims));
  return reduce_out(in, &dims, th_infer_bool(in, 2),
                    reduce_dtype(in, 3, TH_I64));
}

th_status th_infer_rule_mean(th_infer *in) {
  reduce_dims dims;
  th_dtype dtype = reduce_dtype(in, 3, TH_I64);
  TH_TRY(reduce_list(in, 1, &dims));
  TH_TRY(reduce_need_float(in, dtype));
  return reduce_out(in, &dims, th_infer_bool(in, 2), dtype);
}

th_status th_infer_rule_extremum(th_infer *in) {
  reduce_dims dims;
  TH_TRY(reduce_list(in, 1, &dims));
  TH_TRY(reduce_not_empty(in, &dims));
  return reduce_out(in, &dims, th_infer_bool(in, 2),
                    th_infer_tensor(in, 0)->dtype);
}

// PyTorch answers u8 with u8, everything else with bool.
th_status th_infer_rule_any(th_infer *in) {
  reduce_dims dims;
  TH_TRY(reduce_list(in, 1, &dims));
  return reduce_out(in, &dims, th_infer_bool(in, 2),
                    th_infer_tensor(in, 0)->dtype == TH_U8 ? TH_U8 : TH_BOOL);
}

// One dimension, or all for None.
static th_status reduce_one(th_infer *in, uint32_t arg, reduce_dims *out) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  *out = (reduce_dims){.rank = x->rank};
  if (in->args[arg].kind == TH_ARG_NONE) {
    return reduce_list(in, arg, out);
  }
  TH_TRY(th_infer_arg_dim(in, arg, x->rank, &dim));
  out->gone[dim] = true;
  return TH_OK;
}

th_status th_infer_rule_argmax(th_infer *in) {
  reduce_dims dims;
  TH_TRY(reduce_one(in, 1, &dims));
  TH_TRY(reduce_not_empty(in, &dims));
  return reduce_out(in, &dims, th_infer_bool(in, 2), TH_I64);
}

th_status th_infer_rule_max_dim(th_infer *in) {
  reduce_dims dims;
  TH_TRY(reduce_one(in, 1, &dims));
  TH_TRY(reduce_not_empty(in, &dims));
  TH_TRY(reduce_out(in, &dims, th_infer_bool(in, 2),
                    th_infer_tensor(in, 0)->dtype));
  return reduce_out(in, &dims, th_infer_bool(in, 2), TH_I64);
}

th_status th_infer_rule_var(th_infer *in) {
  reduce_dims dims;
  TH_TRY(reduce_list(in, 1, &dims));
  TH_TRY(th_infer_need_float(in, 0));
  return reduce_out(in, &dims, th_infer_bool(in, 3),
                    th_infer_tensor(in, 0)->dtype);
}

th_status th_infer_rule_logsumexp(th_infer *in) {
  reduce_dims dims;
  th_dtype dtype = th_infer_tensor(in, 0)->dtype;
  TH_TRY(reduce_list(in, 1, &dims));
  return reduce_out(in, &dims, th_infer_bool(in, 2),
                    th_dtype_is_float(dtype) ? dtype : TH_F32);
}

// ---- along one dimension, size kept

static th_status reduce_along(th_infer *in, uint32_t arg, th_dtype dtype) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  TH_TRY(th_infer_arg_dim(in, arg, x->rank, &dim));
  th_shape shape = th_shape_of(in, x);
  return th_infer_out(in, dtype, x->device, &shape);
}

th_status th_infer_rule_cumsum(th_infer *in) {
  return reduce_along(in, 1, reduce_dtype(in, 2, TH_I64));
}

th_status th_infer_rule_softmax(th_infer *in) {
  th_dtype dtype = reduce_dtype(in, 2, TH_I64);
  TH_TRY(reduce_need_float(in, dtype));
  return reduce_along(in, 1, dtype);
}

th_status th_infer_rule_sort(th_infer *in) {
  TH_TRY(reduce_along(in, 1, th_infer_tensor(in, 0)->dtype));
  return reduce_along(in, 1, TH_I64);
}

th_status th_infer_rule_topk(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  const th_expr *k = th_infer_num(in, 1);
  uint8_t dim = 0;
  TH_TRY(th_infer_arg_dim(in, 2, x->rank, &dim));
  th_shape shape = th_shape_of(in, x);
  const th_expr *size = x->rank ? x->dims[dim] : th_int(in->ir, 1);
  if (th_infer_never(in, TH_X_LE, k, size) ||
      th_infer_never(in, TH_X_LE, th_int(in->ir, 0), k)) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "k is %s; dimension %u of %s has fewer elements",
                          th_infer_num_text(in, k), dim, th_infer_text(in, x));
  }
  if (x->rank) {
    shape.dims[dim] = k;
  }
  TH_TRY(th_infer_out(in, x->dtype, x->device, &shape));
  return th_infer_out(in, TH_I64, x->device, &shape);
}

th_status th_infer_rule_histc(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  TH_TRY(th_infer_need_float(in, 0));
  if (th_infer_never(in, TH_X_LT, th_int(in->ir, 0), th_infer_num(in, 1))) {
    return th_infer_error(in, TH_INVALID, "%s bins; at least 1 is needed",
                          th_infer_num_text(in, th_infer_num(in, 1)));
  }
  th_shape shape = {0};
  th_shape_push(&shape, th_infer_num(in, 1), NULL);
  return th_infer_out(in, x->dtype, x->device, &shape);
}

// ---- norms

// A weight has the operand's dtype, or f32 beside half precision.
static th_status norm_need_param(th_infer *in, uint32_t arg,
                                 const th_shape *shape) {
  const th_type *x = th_infer_tensor(in, 0), *w = th_infer_tensor(in, arg);
  if (!w) {
    return TH_OK;
  }
  bool is_half = x->dtype == TH_F16 || x->dtype == TH_BF16;
  if (w->dtype != x->dtype && !(is_half && w->dtype == TH_F32)) {
    return th_infer_same_dtype(in, 0, arg);
  }
  return th_infer_need_shape(in, arg, shape, "the shape that is needed");
}

// Mean and rstd are kept in the wider of the two precisions.
static th_dtype norm_stats_dtype(th_infer *in, uint32_t first, uint32_t last) {
  th_dtype dtype = th_infer_tensor(in, 0)->dtype;
  for (uint32_t i = first; i <= last; i++) {
    const th_type *w = th_infer_tensor(in, i);
    dtype = w && w->dtype == TH_F32 && dtype != TH_F64 ? TH_F32 : dtype;
  }
  return dtype;
}

// The trailing dimensions that are normalised; their shape and how many.
static th_status norm_tail(th_infer *in, th_shape *tail) {
  const th_type *x = th_infer_tensor(in, 0);
  uint32_t count = th_infer_count(in, 1);
  TH_TRY(th_infer_need_float(in, 0));
  bool fits = count >= 1 && count <= x->rank;
  *tail = (th_shape){0};
  for (uint32_t i = 0; fits && i < count; i++) {
    const th_expr *size = NULL, *have = x->dims[x->rank - count + i];
    TH_TRY(th_infer_item(in, 1, i, &size));
    fits = th_infer_same_dim(in, size, have, &have);
    th_shape_push(tail, have, NULL);
  }
  if (!fits) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "%s does not end in the normalized shape, which has "
                          "%u dimensions",
                          th_infer_text(in, x), count);
  }
  return TH_OK;
}

th_status th_infer_rule_rms_norm(th_infer *in) {
  th_shape tail;
  TH_TRY(norm_tail(in, &tail));
  TH_TRY(norm_need_param(in, 2, &tail));
  return th_infer_rule_copy(in);
}

th_status th_infer_rule_layer_norm(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  th_shape tail, stats = th_shape_of(in, x);
  TH_TRY(norm_tail(in, &tail));
  TH_TRY(norm_need_param(in, 2, &tail));
  TH_TRY(norm_need_param(in, 3, &tail));
  for (uint32_t i = 0; i < tail.rank; i++) {
    stats.dims[x->rank - 1u - i] = th_int(in->ir, 1);
  }
  th_dtype dtype = norm_stats_dtype(in, 2, 3);
  TH_TRY(th_infer_rule_copy(in));
  TH_TRY(th_infer_out(in, dtype, x->device, &stats));
  return th_infer_out(in, dtype, x->device, &stats);
}

th_status th_infer_rule_group_norm(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  int64_t groups = 0;
  TH_TRY(th_infer_need_rank(in, 0, 2, TH_MAX_RANK));
  TH_TRY(th_infer_need_float(in, 0));
  TH_TRY(th_infer_need_int(in, 1, &groups));
  const th_expr *channels = x->dims[1];
  if (groups <= 0 || (th_is_const(channels) && channels->i % groups)) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "%lld groups do not divide the channels of %s",
                          (long long)groups, th_infer_text(in, x));
  }
  th_shape per_channel = {0}, stats = {0};
  th_shape_push(&per_channel, channels, NULL);
  th_shape_push(&stats, x->dims[0], NULL);
  th_shape_push(&stats, th_int(in->ir, groups), NULL);
  TH_TRY(norm_need_param(in, 2, &per_channel));
  TH_TRY(norm_need_param(in, 3, &per_channel));
  th_dtype dtype = norm_stats_dtype(in, 2, 3);
  TH_TRY(th_infer_rule_copy(in));
  TH_TRY(th_infer_out(in, dtype, x->device, &stats));
  return th_infer_out(in, dtype, x->device, &stats);
}

// Results: y, mean, rstd, new running mean, new running variance.  Outside
// training mean and rstd come from the running statistics, which stay.  A
// running statistic that is None has a result of no kind.
th_status th_infer_rule_batch_norm(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  TH_TRY(th_infer_need_rank(in, 0, 2, TH_MAX_RANK));
  TH_TRY(th_infer_need_float(in, 0));
  th_shape channels = {0};
  th_shape_push(&channels, x->dims[1], NULL);
  for (uint32_t arg = 1; arg <= 4; arg++) {
    TH_TRY(norm_need_param(in, arg, &channels));
  }
  if (!th_infer_bool(in, 5) &&
      (!th_infer_tensor(in, 3) || !th_infer_tensor(in, 4))) {
    return th_infer_error(in, TH_INVALID,
                          "running_mean and running_var are needed where "
                          "training is False");
  }
  th_dtype dtype = norm_stats_dtype(in, 1, 4);
  TH_TRY(th_infer_rule_copy(in));
  TH_TRY(th_infer_out(in, dtype, x->device, &channels));
  TH_TRY(th_infer_out(in, dtype, x->device, &channels));
  for (uint32_t arg = 3; arg <= 4; arg++) {
    const th_type *running = th_infer_tensor(in, arg);
    const th_type none = {.kind = TH_KIND_NONE};
    if (running) {
      TH_TRY(th_infer_out(in, running->dtype, running->device, &channels));
    } else {
      TH_TRY(th_infer_out_type(in, &none));
    }
  }
  return TH_OK;
}

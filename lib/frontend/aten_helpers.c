// Functions that templates and handlers use, and autocast.
#include "frontend/aten.h"

#include "ir/infer.h"

#include <string.h>

// ---- autocast --------------------------------------------------------------

// Source: PyTorch, aten/src/ATen/autocast_mode.h, the lists for the CPU.
static const char *const aten_lower[] = {
    "conv1d",
    "conv2d",
    "conv3d",
    "bmm",
    "mm",
    "linalg_vecdot",
    "baddbmm",
    "addmm",
    "addbmm",
    "linear",
    "_convolution",
    "matmul",
    "conv_tbc",
    "mkldnn_rnn_layer",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "scaled_dot_product_attention",
    "_native_multi_head_attention",
    "convolution",
    "linalg_matmul",
};
static const char *const aten_float[] = {
    "avg_pool3d",
    "binary_cross_entropy",
    "grid_sampler",
    "polar",
    "prod",
    "quantile",
    "nanquantile",
    "stft",
    "cdist",
    "trace",
    "cholesky",
    "pdist",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "hinge_embedding_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "cross_entropy_loss",
    "l1_loss",
    "huber_loss",
    "margin_ranking_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "ctc_loss",
    "kl_div",
    "multilabel_margin_loss",
    "binary_cross_entropy_with_logits",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "mse_loss",
};

bool th_call_is(const th_call *call, const char *packet) {
  const char *name = call->graph->target;
  const char *dot = strchr(name, '.');
  size_t size = strlen(packet);
  if (!dot || strncmp(dot + 1, packet, size) != 0) {
    return false;
  }
  const char *rest = dot + 1 + size;
  return *rest == '.' || *rest == '\0' || (*rest == '_' && rest[1] == '.');
}

static bool aten_listed(const th_call *call, const char *const *names,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (th_call_is(call, names[i])) {
      return true;
    }
  }
  return false;
}

th_value *th_autocast(th_call *call, th_value *value) {
  const th_pt2_graph *graph = call->graph;
  if (!graph->autocast || !value || !th_dtype_is_float(value->type.dtype) ||
      value->type.dtype == TH_F64) {
    return value;
  }
  th_dtype dtype = value->type.dtype;
  if (aten_listed(call, aten_lower, TH_COUNT(aten_lower))) {
    dtype = graph->autocast_dtype;
  } else if (aten_listed(call, aten_float, TH_COUNT(aten_float))) {
    dtype = TH_F32;
  }
  return dtype == value->type.dtype
             ? value
             : TH_BUILD(graph->b, to, th_v(value), th_d(dtype));
}

// ---- for handlers ----------------------------------------------------------

bool th_call_ints(const th_call *call, const char *name, int64_t *out,
                  uint32_t cap, uint32_t *out_count) {
  const th_pt2_arg *arg = th_call_arg(call, name);
  if (arg->kind != TH_PT2_LIST || arg->count > cap) {
    return false;
  }
  for (uint32_t i = 0; i < arg->count; i++) {
    const th_pt2_arg *item = &arg->items[i];
    if (item->kind != TH_PT2_NUM || item->num->op != TH_X_CONST ||
        item->num->dtype == TH_F64) {
      return false;
    }
    out[i] = item->num->i;
  }
  *out_count = arg->count;
  return true;
}

int th_call_dim(const th_call *call, const char *name, uint8_t rank) {
  int64_t dim = th_call_int(call, name);
  int64_t limit = rank ? rank : 1;
  dim = dim < 0 ? dim + limit : dim;
  return dim >= 0 && dim < limit ? (int)dim : -1;
}

th_arg th_call_shape(th_call *call, const th_value *value) {
  return th_nums(call->graph->ir, value->type.dims, value->type.rank);
}

th_value *th_call_reduce(th_call *call, th_value *value) {
  th_builder *b = call->graph->b;
  int64_t how = th_call_int(call, "reduction");
  return how == 0 || !value ? value
         : how == 1         ? TH_BUILD(b, mean, th_v(value))
                            : TH_BUILD(b, sum, th_v(value));
}

th_status th_call_unsupported(th_call *call, const char *what) {
  return th_call_error(call->graph, TH_UNSUPPORTED, "%s is not supported",
                       what);
}

// ---- functions of templates ------------------------------------------------

static bool aten_is_number(const th_arg *arg, double value) {
  return arg->kind == TH_ARG_NUM && arg->num->op == TH_X_CONST &&
         (arg->num->dtype == TH_F64 ? arg->num->f == value
                                    : (double)arg->num->i == value);
}

th_arg th_aten_at_times(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  if (aten_is_number(&args[1], 1)) {
    return args[0];
  }
  if (args[0].kind == TH_ARG_NUM) {
    const th_expr *pair[] = {args[0].num, args[1].num};
    const th_expr *product = th_expr_make(call->graph->ir, TH_X_MUL, pair, 2);
    return product ? th_n(product) : th_none();
  }
  return th_v(TH_BUILD(call->graph->b, mul, args[0], args[1]));
}

// Integers are scaled by integers.
static th_arg aten_scaled(th_call *call, th_arg value, th_arg scale) {
  bool whole = !th_dtype_is_float(value.value->type.dtype);
  if (whole && scale.kind == TH_ARG_NUM && scale.num->dtype == TH_F64 &&
      scale.num->op == TH_X_CONST) {
    scale = th_i(call->graph->ir, (int64_t)scale.num->f);
  }
  return th_aten_at_times(call, (th_arg[]){value, scale}, 2);
}

// In the dtype of self: booleans add as or.
th_arg th_aten_at_blend(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  th_builder *b = call->graph->b;
  if (args[2].kind != TH_ARG_VALUE || args[0].kind != TH_ARG_VALUE) {
    return th_none();
  }
  th_arg x = aten_scaled(call, args[2], args[3]);
  if (!aten_is_number(&args[1], 0)) {
    th_arg self = aten_scaled(call, args[0], args[1]);
    x = th_v(TH_BUILD(b, add, self, x));
  }
  th_dtype dtype = args[0].value->type.dtype;
  return x.kind == TH_ARG_VALUE && x.value->type.dtype != dtype
             ? th_v(TH_BUILD(b, to, x, th_d(dtype)))
             : x;
}

th_arg th_aten_at_or(th_call *call, const th_arg *args, uint32_t count) {
  (void)call;
  (void)count;
  return args[0].kind == TH_ARG_NONE ? args[1] : args[0];
}

th_arg th_aten_at_int(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  return th_i(call->graph->ir, args[0].num->i);
}

th_arg th_aten_at_dims(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  return args[0].kind == TH_ARG_NUM ? th_list(call->graph->ir, args, 1)
                                    : args[0];
}

th_arg th_aten_at_dtype(th_call *call, const th_arg *args, uint32_t count) {
  (void)call;
  (void)count;
  return args[0].kind == TH_ARG_VALUE ? th_d(args[0].value->type.dtype)
                                      : th_none();
}

th_arg th_aten_at_shape(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  return args[0].kind == TH_ARG_VALUE ? th_call_shape(call, args[0].value)
                                      : th_none();
}

th_arg th_aten_at_ones(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  int64_t dims[TH_MAX_RANK];
  uint32_t n = 0;
  if (args[0].kind != TH_ARG_VALUE) {
    return th_none();
  }
  const th_type *type = &args[0].value->type;
  for (uint8_t i = 0; i < type->rank; i++) {
    if (th_is_int(type->dims[i], 1)) {
      dims[n++] = i;
    }
  }
  return th_ints(call->graph->ir, dims, n);
}

th_arg th_aten_at_channels(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  th_builder *b = call->graph->b;
  if (args[0].kind != TH_ARG_VALUE || args[1].kind != TH_ARG_VALUE) {
    return th_none();
  }
  int64_t dims[TH_MAX_RANK];
  uint8_t rank = args[1].value->type.rank;
  for (uint8_t i = 0; i < rank; i++) {
    dims[i] = i == 1 ? -1 : 1;
  }
  // One or no dimension: a single number for all.
  return th_v(TH_BUILD(b, reshape, args[0], th_ints(b->ir, dims, rank)));
}

th_arg th_aten_at_wide(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  th_pt2_graph *graph = call->graph;
  if (args[0].kind != TH_ARG_VALUE || args[1].kind != TH_ARG_VALUE) {
    return th_none();
  }
  const th_type *types[] = {&args[0].value->type, &args[1].value->type};
  th_infer in = {.ir = graph->ir,
                 .op = th_op_row(TH_OP_expand),
                 .loc = graph->b->loc,
                 .scope = graph->b->scope};
  th_type shape;
  if (th_broadcast(&in, types, 2, &shape) != TH_OK) {
    graph->b->status = TH_SHAPE;
    return th_none();
  }
  return th_v(TH_BUILD(graph->b, expand, args[0],
                       th_nums(graph->ir, shape.dims, shape.rank)));
}

// |self - other| <= atol + rtol * |other|, or equal; `other` counts as f32
// where it is whole or bool.
th_arg th_aten_at_isclose(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  th_builder *b = call->graph->b;
  th_value *same = TH_BUILD(b, eq, args[0], args[1]);
  bool is_float = args[1].kind != TH_ARG_VALUE ||
                  th_dtype_is_float(args[1].value->type.dtype);
  th_arg other =
      is_float ? args[1] : th_v(TH_BUILD(b, to, args[1], th_d(TH_F32)));
  th_value *gap = TH_BUILD(b, sub, args[0], other);
  th_value *size = TH_BUILD(b, abs, other);
  th_value *scaled = TH_BUILD(b, mul, th_v(size), args[2]);
  th_value *room = TH_BUILD(b, add, th_v(scaled), args[3]);
  th_value *distance = TH_BUILD(b, abs, th_v(gap));
  th_value *near = TH_BUILD(b, le, th_v(distance), th_v(room));
  th_value *finite = TH_BUILD(b, isfinite, th_v(distance));
  near = TH_BUILD(b, logical_and, th_v(near), th_v(finite));
  th_value *close = TH_BUILD(b, logical_or, th_v(same), th_v(near));
  if (args[4].kind == TH_ARG_NUM && args[4].num->i != 0) {
    th_value *x = TH_BUILD(b, isnan, args[0]);
    th_value *y = TH_BUILD(b, isnan, args[1]);
    th_value *both = TH_BUILD(b, logical_and, th_v(x), th_v(y));
    close = TH_BUILD(b, logical_or, th_v(close), th_v(both));
  }
  return th_v(close);
}

// Neighbours subtracted, n times; booleans by xor.
th_arg th_aten_at_diff(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  int64_t times = args[1].kind == TH_ARG_NUM ? args[1].num->i : 1;
  if (times == 0) {
    return args[0];
  }
  th_arg all[] = {args[3], args[0], args[4]}, parts[3];
  uint32_t n = 0;
  for (int i = 0; i < 3; i++) {
    if (all[i].kind == TH_ARG_VALUE) {
      parts[n++] = all[i];
    }
  }
  th_value *x = n == 1 ? parts[0].value
                       : TH_BUILD(b, cat, th_list(ir, parts, n), args[2]);
  for (int64_t i = 0; x && i < times && i < 64; i++) {
    th_value *later = TH_BUILD(b, slice, th_v(x), args[2], th_i(ir, 1));
    th_value *sooner =
        TH_BUILD(b, slice, th_v(x), args[2], th_i(ir, 0), th_i(ir, -1));
    if (!later || !sooner) {
      return th_none();
    }
    x = x->type.dtype == TH_BOOL
            ? TH_BUILD(b, bitwise_xor, th_v(later), th_v(sooner))
            : TH_BUILD(b, sub, th_v(later), th_v(sooner));
  }
  return th_v(x);
}

th_arg th_aten_at_inner(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  th_builder *b = call->graph->b;
  if (args[0].kind != TH_ARG_VALUE || args[1].kind != TH_ARG_VALUE) {
    return th_none();
  }
  uint8_t m = args[0].value->type.rank, n = args[1].value->type.rank;
  if (m == 0 || n == 0) {
    return th_v(TH_BUILD(b, mul, args[0], args[1]));
  }
  // [.., k] and [.., k]: the first gets a dimension for each of the second.
  th_value *x = args[0].value;
  for (uint8_t i = 1; i < n; i++) {
    x = TH_BUILD(b, unsqueeze, th_v(x), th_i(b->ir, m - 1));
  }
  th_value *product = TH_BUILD(b, mul, th_v(x), args[1]);
  return th_v(TH_BUILD(b, sum, th_v(product),
                       th_ints(b->ir, (const int64_t[]){-1}, 1),
                       th_b(b->ir, false), th_d(args[0].value->type.dtype)));
}

th_arg th_aten_at_reduce(th_call *call, const th_arg *args, uint32_t count) {
  (void)count;
  return args[0].kind == TH_ARG_VALUE
             ? th_v(th_call_reduce(call, args[0].value))
             : th_none();
}

th_arg th_aten_at_nothing(th_call *call, const th_arg *args, uint32_t count) {
  (void)call;
  (void)args;
  (void)count;
  return th_none();
}

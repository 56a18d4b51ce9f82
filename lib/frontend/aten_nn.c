// Convolution, attention, pooling, normalisation, dropout.
#include "frontend/aten.h"

#include "ir/infer.h"

#include <math.h>
#include <string.h>

static th_status nn_needs(th_call *call, const char *what) {
  th_status status = call->graph->b->status;
  return status ? status
                : th_call_error(call->graph, TH_INVALID, "needs %s", what);
}

// ---- convolution -----------------------------------------------------------

typedef struct nn_conv {
  th_value *x, *weight;
  th_arg padding;
} nn_conv;

// padding = 'same': what a window of (k - 1) * dilation needs; when that is odd
// the end gets one more, as an own padding before.
static th_status nn_same(th_call *call, nn_conv *conv) {
  th_builder *b = call->graph->b;
  int64_t dilation[TH_MAX_RANK], low[TH_MAX_RANK], extra[2 * TH_MAX_RANK];
  uint32_t count = 0;
  bool odd = false;
  uint32_t spatial = conv->weight->type.rank - 2u;
  if (!th_call_ints(call, "dilation", dilation, TH_MAX_RANK, &count) ||
      count != spatial) {
    return nn_needs(call, "a dilation for each dimension");
  }
  memset(extra, 0, sizeof extra);
  for (uint32_t i = 0; i < spatial; i++) {
    const th_expr *kernel = conv->weight->type.dims[i + 2];
    if (kernel->op != TH_X_CONST || kernel->i > INT32_MAX ||
        dilation[i] > INT32_MAX || dilation[i] < 1) {
      return th_call_unsupported(call, "a kernel of symbolic size");
    }
    int64_t total = dilation[i] * (kernel->i - 1);
    low[i] = total / 2;
    extra[2 * (spatial - 1 - i) + 1] = total % 2;
    odd |= total % 2 != 0;
  }
  conv->padding = th_ints(b->ir, low, spatial);
  if (odd) {
    conv->x = TH_BUILD(b, pad, th_v(conv->x),
                       th_ints(b->ir, extra, 2 * spatial), th_i(b->ir, 0));
  }
  return b->status;
}

static th_status nn_padding(th_call *call, nn_conv *conv) {
  const th_pt2_arg *padding = th_call_arg(call, "padding");
  if (padding->kind != TH_PT2_STRING) {
    conv->padding = th_call_value(call, padding);
    return TH_OK;
  }
  if (strcmp(padding->text, "same") == 0) {
    return nn_same(call, conv);
  }
  int64_t none[TH_MAX_RANK] = {0};
  conv->padding = th_ints(call->graph->ir, none, conv->weight->type.rank - 2u);
  return TH_OK;
}

th_status th_aten_conv(th_call *call) {
  th_builder *b = call->graph->b;
  nn_conv conv = {th_call_tensor(call, "input"), th_call_tensor(call, "weight"),
                  th_none()};
  if (!conv.x || !conv.weight || conv.weight->type.rank < 3) {
    return nn_needs(call, "an input and a weight");
  }
  bool transposed = th_call_is(call, "conv_transpose1d") ||
                    th_call_is(call, "conv_transpose2d") ||
                    th_call_is(call, "conv_transpose3d");
  bool single = conv.x->type.rank + 1 == conv.weight->type.rank;
  if (single) {
    conv.x = TH_BUILD(b, unsqueeze, th_v(conv.x), th_i(b->ir, 0));
  }
  if (!conv.x) {
    return b->status;
  }
  TH_TRY(nn_padding(call, &conv));
  int64_t none[TH_MAX_RANK] = {0};
  th_arg output_padding =
      transposed ? th_call_operand(call, "output_padding")
                 : th_ints(b->ir, none, conv.weight->type.rank - 2u);
  th_value *y = TH_BUILD(
      b, convolution, th_v(conv.x), th_v(conv.weight),
      th_call_operand(call, "bias"), th_call_operand(call, "stride"),
      conv.padding, th_call_operand(call, "dilation"), th_b(b->ir, transposed),
      output_padding, th_call_operand(call, "groups"));
  if (single) {
    y = TH_BUILD(b, squeeze, th_v(y), th_ints(b->ir, none, 1));
  }
  return th_call_return(call, y);
}

// ---- attention and softmax -------------------------------------------------

static double nn_number(const th_expr *num) {
  return !num || num->op != TH_X_CONST ? 0
         : num->dtype == TH_F64        ? num->f
                                       : (double)num->i;
}

th_status th_aten_attention(th_call *call) {
  th_builder *b = call->graph->b;
  if (nn_number(th_call_num(call, "dropout_p")) != 0) {
    return th_call_unsupported(call, "dropout inside attention (training)");
  }
  return th_call_return(
      call,
      TH_BUILD(b, scaled_dot_product_attention, th_call_operand(call, "query"),
               th_call_operand(call, "key"), th_call_operand(call, "value"),
               th_call_operand(call, "attn_mask"), th_f(b->ir, 0),
               th_call_operand(call, "is_causal"),
               th_call_operand(call, "scale"),
               th_call_operand(call, "enable_gqa")));
}

th_status th_aten_softmax(th_call *call) {
  th_builder *b = call->graph->b;
  th_arg dtype = th_call_bool(call, "half_to_float") ? th_d(TH_F32) : th_none();
  th_arg x = th_call_operand(call, "self"), dim = th_call_operand(call, "dim");
  return th_call_return(call, th_call_is(call, "_softmax")
                                  ? TH_BUILD(b, softmax, x, dim, dtype)
                                  : TH_BUILD(b, log_softmax, x, dim, dtype));
}

th_status th_aten_glu(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  int dim = x ? th_call_dim(call, "dim", x->type.rank) : -1;
  if (!x || dim < 0 || x->type.rank == 0) {
    return nn_needs(call, "a dimension");
  }
  th_ir *ir = b->ir;
  const th_expr *half = th_expr_floordiv(ir, x->type.dims[dim], th_int(ir, 2));
  th_value *a =
      TH_BUILD(b, slice, th_v(x), th_i(ir, dim), th_i(ir, 0), th_n(half));
  th_value *gate =
      TH_BUILD(b, slice, th_v(x), th_i(ir, dim), th_n(half), th_none());
  gate = TH_BUILD(b, sigmoid, th_v(gate));
  return th_call_return(call, TH_BUILD(b, mul, th_v(a), th_v(gate)));
}

// ---- pooling ---------------------------------------------------------------

static th_arg nn_stride(th_call *call) {
  const th_pt2_arg *stride = th_call_arg(call, "stride");
  bool given = stride->kind == TH_PT2_LIST && stride->count > 0;
  return given ? th_call_value(call, stride)
               : th_call_operand(call, "kernel_size");
}

th_status th_aten_max_pool(th_call *call) {
  th_builder *b = call->graph->b;
  th_arg args[] = {th_call_operand(call, "self"),
                   th_call_operand(call, "kernel_size"),
                   nn_stride(call),
                   th_call_operand(call, "padding"),
                   th_call_operand(call, "dilation"),
                   th_call_operand(call, "ceil_mode")};
  return th_call_return_stmt(
      call, th_build(b, th_op_row(TH_OP_max_pool), args, TH_COUNT(args), NULL));
}

th_status th_aten_avg_pool(th_call *call) {
  th_builder *b = call->graph->b;
  return th_call_return(
      call, TH_BUILD(b, avg_pool, th_call_operand(call, "self"),
                     th_call_operand(call, "kernel_size"), nn_stride(call),
                     th_call_operand(call, "padding"),
                     th_call_operand(call, "ceil_mode"),
                     th_call_operand(call, "count_include_pad"),
                     th_call_operand(call, "divisor_override")));
}

// Sizes from whole factors.
static th_status nn_scaled_size(th_call *call, const th_value *x, th_arg *out) {
  th_ir *ir = call->graph->ir;
  const th_pt2_arg *scales = th_call_arg(call, "scale_factors");
  const th_expr *sizes[TH_MAX_RANK];
  if (scales->kind != TH_PT2_LIST || x->type.rank < 3 ||
      scales->count != x->type.rank - 2u) {
    return nn_needs(call, "a size or a factor for each dimension");
  }
  for (uint32_t i = 0; i < scales->count; i++) {
    const th_pt2_arg *item = &scales->items[i];
    double scale = item->kind == TH_PT2_NUM ? nn_number(item->num) : 0;
    const th_expr *size = x->type.dims[i + 2];
    if (scale > 1e6) {
      return th_call_unsupported(call, "so large a factor");
    }
    sizes[i] = th_expr_mul(ir, size, th_int(ir, (int64_t)scale));
  }
  *out = th_nums(ir, sizes, scales->count);
  return TH_OK;
}

// Factors that make each size a multiple: then sizes say all.
static bool nn_has_whole_scales(th_call *call, const th_value *x) {
  const th_pt2_arg *scales = th_call_arg(call, "scale_factors");
  bool whole =
      scales->kind == TH_PT2_LIST && scales->count == (x->type.rank - 2u);
  for (uint32_t i = 0; whole && i < scales->count; i++) {
    double scale = scales->items[i].kind == TH_PT2_NUM
                       ? nn_number(scales->items[i].num)
                       : 0;
    whole = scale >= 1 && scale == floor(scale);
  }
  return whole;
}

th_status th_aten_upsample_nearest(th_call *call) {
  th_value *x = th_call_tensor(call, "input");
  if (!x) {
    return call->graph->b->status;
  }
  th_arg size = th_call_operand(call, "output_size");
  if (size.kind == TH_ARG_NONE) {
    if (!nn_has_whole_scales(call, x)) {
      return th_aten_upsample(call);
    }
    TH_TRY(nn_scaled_size(call, x, &size));
  }
  return th_call_return(
      call, TH_BUILD(call->graph->b, upsample_nearest, th_v(x), size));
}

// ---- batch normalisation ---------------------------------------------------

static bool nn_is_training(const th_call *call) {
  return th_call_is(call, "_batch_norm_with_update") ||
         th_call_is(call, "_batch_norm_with_update_functional") ||
         th_call_bool(call, "training");
}

// The statistics that a training step writes although nothing says so.
static th_status nn_write_stats(th_call *call, const th_stmt *stmt) {
  static const char *const names[] = {"running_mean", "running_var"};
  for (uint32_t i = 0; i < 2; i++) {
    const th_pt2_arg *arg = th_call_arg(call, names[i]);
    if (arg->kind == TH_PT2_TENSOR && stmt->outs[3 + i]) {
      TH_TRY(th_alias_write(call->graph, arg->tensor, stmt->outs[3 + i]));
    }
  }
  return TH_OK;
}

static th_value *nn_empty(th_builder *b, th_dtype dtype) {
  return TH_BUILD(b, full, th_ints(b->ir, (const int64_t[]){0}, 1),
                  th_i(b->ir, 0), th_d(dtype));
}

// Results as each overload gives them.
static th_status nn_batch_norm_results(th_call *call, const th_stmt *stmt) {
  th_builder *b = call->graph->b;
  th_value *outs[6] = {stmt->outs[0], stmt->outs[1], stmt->outs[2],
                       stmt->outs[3], stmt->outs[4]};
  bool training = nn_is_training(call);
  if (th_call_is(call, "batch_norm")) {
    return th_call_return_list(call, outs, 1);
  }
  if (th_call_is(call, "_batch_norm_with_update") ||
      th_call_is(call, "_batch_norm_with_update_functional")) {
    outs[5] = outs[4];
    outs[4] = outs[3];
    outs[3] = nn_empty(b, TH_U8);
    return th_call_return_list(
        call, outs,
        th_call_is(call, "_batch_norm_with_update_functional") ? 6 : 4);
  }
  if (!training) {
    outs[1] = outs[2] = nn_empty(b, TH_F32);
  }
  return th_call_return_list(
      call, outs,
      th_call_is(call, "_native_batch_norm_legit_functional") ? 5 : 3);
}

th_status th_aten_batch_norm(th_call *call) {
  th_builder *b = call->graph->b;
  bool training = nn_is_training(call) ||
                  th_call_is(call, "_native_batch_norm_legit.no_stats");
  th_arg args[] = {th_call_operand(call, "input"),
                   th_call_operand(call, "weight"),
                   th_call_operand(call, "bias"),
                   th_call_operand(call, "running_mean"),
                   th_call_operand(call, "running_var"),
                   th_b(b->ir, training),
                   th_call_operand(call, "momentum"),
                   th_call_operand(call, "eps")};
  const th_stmt *stmt =
      th_build(b, th_op_row(TH_OP_batch_norm), args, TH_COUNT(args), NULL);
  if (!stmt) {
    return b->status;
  }
  TH_TRY(nn_batch_norm_results(call, stmt));
  bool functional = th_call_is(call, "_native_batch_norm_legit_functional") ||
                    th_call_is(call, "_batch_norm_with_update_functional");
  return training && !functional ? nn_write_stats(call, stmt) : TH_OK;
}

// The vector once for each image of a batch.
static th_arg nn_tiled(th_call *call, const char *name, const th_expr *batch) {
  th_builder *b = call->graph->b;
  th_value *value = th_call_tensor(call, name);
  return th_v(value
                  ? TH_BUILD(b, repeat, th_v(value), th_nums(b->ir, &batch, 1))
                  : NULL);
}

// Batch normalisation of a batch of one, with a channel for each image's
// channel; the new statistics are means over the images.
th_status th_aten_instance_norm(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_builder *b = graph->b;
  th_ir *ir = graph->ir;
  th_value *x = th_call_tensor(call, "input");
  if (!x || x->type.rank < 2) {
    return nn_needs(call, "a batch with channels");
  }
  bool own = th_call_bool(call, "use_input_stats");
  const th_expr *batch = x->type.dims[0], *dims[TH_MAX_RANK];
  memcpy(dims, x->type.dims, x->type.rank * sizeof *dims);
  dims[0] = th_int(ir, 1);
  dims[1] = th_expr_mul(ir, batch, x->type.dims[1]);
  th_value *flat =
      TH_BUILD(b, reshape, th_v(x), th_nums(ir, dims, x->type.rank));
  th_arg args[] = {th_v(flat),
                   nn_tiled(call, "weight", batch),
                   nn_tiled(call, "bias", batch),
                   nn_tiled(call, "running_mean", batch),
                   nn_tiled(call, "running_var", batch),
                   th_b(ir, own),
                   th_call_operand(call, "momentum"),
                   th_call_operand(call, "eps")};
  const th_stmt *stmt = flat ? th_build(b, th_op_row(TH_OP_batch_norm), args,
                                        TH_COUNT(args), NULL)
                             : NULL;
  if (!stmt) {
    return b->status;
  }
  TH_TRY(th_call_return(
      call, TH_BUILD(b, reshape, th_v(stmt->outs[0]), th_call_shape(call, x))));
  static const char *const names[] = {"running_mean", "running_var"};
  for (uint32_t i = 0; own && i < 2; i++) {
    const th_pt2_arg *arg = th_call_arg(call, names[i]);
    if (arg->kind != TH_PT2_TENSOR || !stmt->outs[3 + i]) {
      continue;
    }
    const th_expr *rows[] = {batch, x->type.dims[1]};
    th_value *each =
        TH_BUILD(b, reshape, th_v(stmt->outs[3 + i]), th_nums(ir, rows, 2));
    each = TH_BUILD(b, mean, th_v(each), th_ints(ir, (int64_t[]){0}, 1));
    TH_TRY(th_alias_write(graph, arg->tensor, each));
  }
  return b->status;
}

// ---- dropout ---------------------------------------------------------------

th_status th_aten_dropout(th_call *call) {
  th_builder *b = call->graph->b;
  const th_pt2_arg *input = th_call_arg(call, "input");
  bool is_off =
      !th_call_bool(call, "train") || nn_number(th_call_num(call, "p")) == 0;
  if (!is_off) {
    return th_call_unsupported(call, "dropout in training");
  }
  if (!th_call_is(call, "native_dropout") || input->kind != TH_PT2_TENSOR) {
    return th_call_return_arg(call, *input); // the tensor itself
  }
  th_value *outs[2] = {th_call_tensor(call, "input"), NULL};
  if (outs[0]) {
    outs[1] = TH_BUILD(b, full, th_call_shape(call, outs[0]), th_b(b->ir, true),
                       th_d(TH_BOOL));
  }
  return th_call_return_list(call, outs, 2);
}

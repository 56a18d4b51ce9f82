// Shape rules of products, convolutions, attention and pooling.
#include "ir/infer_util.h"

#include <string.h>

// ---- matrix products

static th_status product_inner_error(th_infer *in, uint32_t a, uint32_t b,
                                     const th_expr *m, const th_expr *n) {
  th_infer_blame(in, a);
  return th_infer_error(in, TH_SHAPE, "inner sizes differ: %s x %s (%s vs %s)",
                        th_infer_text(in, th_infer_tensor(in, a)),
                        th_infer_text(in, th_infer_tensor(in, b)),
                        th_infer_num_text(in, m), th_infer_num_text(in, n));
}

// Broadcast of the leading dimensions of two tensors: all but their last
// `skip` ones.
static th_status product_batch(th_infer *in, const th_type *x, const th_type *y,
                               uint8_t skip, th_shape *out) {
  th_type a = *x, b = *y, joined = {0};
  a.rank = x->rank > skip ? (uint8_t)(x->rank - skip) : 0;
  b.rank = y->rank > skip ? (uint8_t)(y->rank - skip) : 0;
  a.strides = b.strides = NULL;
  TH_TRY(th_broadcast(in, (const th_type *[]){&a, &b}, 2, &joined));
  *out = (th_shape){0};
  for (uint8_t i = 0; i < joined.rank; i++) {
    th_shape_push(out, joined.dims[i], NULL);
  }
  return TH_OK;
}

th_status th_infer_rule_matmul(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0), *y = th_infer_tensor(in, 1);
  const th_expr *joined = NULL;
  th_shape shape;
  th_device device;
  TH_TRY(th_infer_device(in, &device));
  TH_TRY(th_infer_need_rank(in, 0, 1, TH_MAX_RANK));
  TH_TRY(th_infer_need_rank(in, 1, 1, TH_MAX_RANK));
  TH_TRY(th_infer_same_dtype(in, 0, 1));
  const th_expr *m = x->dims[x->rank - 1];
  const th_expr *n = y->dims[y->rank > 1 ? y->rank - 2 : 0];
  if (!th_infer_same_dim(in, m, n, &joined)) {
    return product_inner_error(in, 0, 1, m, n);
  }
  TH_TRY(product_batch(in, x, y, 2, &shape));
  if (x->rank > 1) {
    th_shape_push(&shape, x->dims[x->rank - 2], NULL);
  }
  if (y->rank > 1) {
    th_shape_push(&shape, y->dims[y->rank - 1], NULL);
  }
  return th_infer_out(in, x->dtype, device, &shape);
}

th_status th_infer_rule_linear(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0), *w = th_infer_tensor(in, 1);
  const th_expr *joined = NULL;
  th_device device;
  TH_TRY(th_infer_device(in, &device));
  TH_TRY(th_infer_need_rank(in, 0, 1, TH_MAX_RANK));
  TH_TRY(th_infer_need_rank(in, 1, 1, 2));
  TH_TRY(th_infer_same_dtype(in, 0, 1));
  TH_TRY(th_infer_same_dtype(in, 0, 2));
  const th_expr *m = x->dims[x->rank - 1], *n = w->dims[w->rank - 1];
  if (!th_infer_same_dim(in, m, n, &joined)) {
    return product_inner_error(in, 0, 1, m, n);
  }
  th_shape shape = th_shape_of(in, x), bias = {0};
  th_shape_remove(&shape, x->rank - 1u);
  if (w->rank == 2) {
    th_shape_push(&shape, w->dims[0], NULL);
    th_shape_push(&bias, w->dims[0], NULL);
  }
  const th_type *b = th_infer_tensor(in, 2);
  if (b) {
    th_shape have = th_shape_of(in, b);
    if (!th_infer_fits(in, &have, &bias)) {
      return th_infer_need_shape(in, 2, &bias, "the shape that is needed");
    }
  }
  return th_infer_out(in, x->dtype, device, &shape);
}

// addmm and baddbmm: the operands are matrices, or stacks of them.
th_status th_infer_rule_addmm(th_infer *in) {
  uint8_t rank = in->op->op == TH_OP_baddbmm ? 3 : 2;
  const th_type *input = th_infer_tensor(in, 0), *x = th_infer_tensor(in, 1);
  const th_type *y = th_infer_tensor(in, 2);
  const th_expr *joined = NULL;
  th_device device;
  th_shape shape;
  TH_TRY(th_infer_device(in, &device));
  TH_TRY(th_infer_need_rank(in, 1, rank, rank));
  TH_TRY(th_infer_need_rank(in, 2, rank, rank));
  TH_TRY(th_infer_same_dtype(in, 1, 2));
  TH_TRY(th_infer_same_dtype(in, 1, 0));
  const th_expr *m = x->dims[rank - 1], *n = y->dims[rank - 2];
  if (!th_infer_same_dim(in, m, n, &joined)) {
    return product_inner_error(in, 1, 2, m, n);
  }
  TH_TRY(product_batch(in, x, y, 2, &shape));
  th_shape_push(&shape, x->dims[rank - 2], NULL);
  th_shape_push(&shape, y->dims[rank - 1], NULL);
  th_shape have = th_shape_of(in, input);
  if (!th_infer_fits(in, &have, &shape)) {
    return th_infer_need_shape(in, 0, &shape, "what it has to broadcast to");
  }
  return th_infer_out(in, x->dtype, device, &shape);
}

// Rows offsets[e-1] .. offsets[e] of x times weight[e].
th_status th_infer_rule_grouped_mm(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0), *w = th_infer_tensor(in, 1);
  const th_type *offsets = th_infer_tensor(in, 2);
  const th_expr *joined = NULL;
  TH_TRY(th_infer_need_rank(in, 0, 2, 2));
  TH_TRY(th_infer_need_rank(in, 1, 3, 3));
  TH_TRY(th_infer_need_rank(in, 2, 1, 1));
  TH_TRY(th_infer_same_dtype(in, 0, 1));
  TH_TRY(th_infer_need_index(in, 2));
  if (!th_infer_same_dim(in, x->dims[1], w->dims[1], &joined)) {
    return product_inner_error(in, 0, 1, x->dims[1], w->dims[1]);
  }
  if (!th_infer_same_dim(in, offsets->dims[0], w->dims[0], &joined)) {
    th_shape wanted = {0};
    th_shape_push(&wanted, w->dims[0], NULL);
    return th_infer_need_shape(in, 2, &wanted, "one offset for each matrix");
  }
  th_shape shape = {0};
  th_shape_push(&shape, x->dims[0], NULL);
  th_shape_push(&shape, w->dims[2], NULL);
  return th_infer_out(in, x->dtype, x->device, &shape);
}

// ---- attention

static th_status attention_heads(th_infer *in) {
  const th_type *q = th_infer_tensor(in, 0), *k = th_infer_tensor(in, 1);
  const th_type *v = th_infer_tensor(in, 2);
  if (q->rank < 3 || k->rank != q->rank || v->rank != q->rank) {
    return th_infer_error(in, TH_SHAPE,
                          "%s, %s, %s: grouped heads need equal ranks of 3 or "
                          "more",
                          th_infer_text(in, q), th_infer_text(in, k),
                          th_infer_text(in, v));
  }
  const th_expr *hq = q->dims[q->rank - 3], *hk = k->dims[k->rank - 3];
  const th_expr *hv = v->dims[v->rank - 3];
  const th_expr *rest = th_expr_mod(in->ir, hq, hk);
  if (!rest || (th_is_const(rest) && rest->i) || hk != hv) {
    return th_infer_error(in, TH_SHAPE,
                          "%s query heads cannot share %s key and %s value "
                          "heads",
                          th_infer_num_text(in, hq), th_infer_num_text(in, hk),
                          th_infer_num_text(in, hv));
  }
  return TH_OK;
}

static th_status attention_mask(th_infer *in, const th_shape *batch) {
  const th_type *q = th_infer_tensor(in, 0), *k = th_infer_tensor(in, 1);
  const th_type *mask = th_infer_tensor(in, 3);
  if (!mask) {
    return TH_OK;
  }
  if (mask->dtype != TH_BOOL && mask->dtype != TH_F32 &&
      mask->dtype != q->dtype) {
    th_infer_blame(in, 3);
    return th_infer_error(in, TH_DTYPE, "'mask' is %s; it must be bool or %s",
                          th_infer_text(in, mask), th_dtype_name(q->dtype));
  }
  if (th_infer_bool(in, 5)) {
    return th_infer_error(in, TH_INVALID,
                          "a mask is given and is_causal is True; only one of "
                          "them is accepted");
  }
  th_shape scores = *batch, have = th_shape_of(in, mask);
  th_shape_push(&scores, q->dims[q->rank - 2], NULL);
  th_shape_push(&scores, k->dims[k->rank - 2], NULL);
  if (!th_infer_fits(in, &have, &scores)) {
    return th_infer_need_shape(in, 3, &scores, "what it has to broadcast to");
  }
  return TH_OK;
}

// Batch dimensions of the queries and keys; heads are those of the queries.
static th_status attention_batch(th_infer *in, th_shape *out) {
  const th_type *q = th_infer_tensor(in, 0), *k = th_infer_tensor(in, 1);
  const th_type *v = th_infer_tensor(in, 2);
  if (!th_infer_bool(in, 7)) {
    th_shape shape;
    TH_TRY(product_batch(in, q, k, 2, &shape));
    th_type joined = th_tensor_type(q->dtype, (uint8_t)shape.rank, shape.dims);
    th_type values = *v;
    values.rank = v->rank - 2;
    values.strides = NULL;
    return product_batch(in, &joined, &values, 0, out);
  }
  TH_TRY(attention_heads(in));
  TH_TRY(product_batch(in, q, k, 3, out));
  th_shape_push(out, q->dims[q->rank - 3], NULL);
  return TH_OK;
}

th_status th_infer_rule_attention(th_infer *in) {
  const th_type *q = th_infer_tensor(in, 0), *k = th_infer_tensor(in, 1);
  const th_type *v = th_infer_tensor(in, 2);
  const th_expr *joined = NULL, *dropout = th_infer_num(in, 4);
  th_device device;
  th_shape shape;
  TH_TRY(th_infer_device(in, &device));
  for (uint32_t arg = 0; arg < 3; arg++) {
    TH_TRY(th_infer_need_rank(in, arg, 2, TH_MAX_RANK - 1));
    TH_TRY(th_infer_need_float(in, arg));
    TH_TRY(th_infer_same_dtype(in, 0, arg));
  }
  if (!th_is_const(dropout) ||
      (dropout->dtype == TH_F64 ? dropout->f != 0 : dropout->i != 0)) {
    return th_infer_error(in, TH_UNSUPPORTED,
                          "dropout_p is %s; only 0 is supported (export the "
                          "model in eval mode)",
                          th_infer_num_text(in, dropout));
  }
  if (!th_infer_same_dim(in, q->dims[q->rank - 1], k->dims[k->rank - 1],
                         &joined)) {
    return product_inner_error(in, 0, 1, q->dims[q->rank - 1],
                               k->dims[k->rank - 1]);
  }
  if (!th_infer_same_dim(in, k->dims[k->rank - 2], v->dims[v->rank - 2],
                         &joined)) {
    return product_inner_error(in, 1, 2, k->dims[k->rank - 2],
                               v->dims[v->rank - 2]);
  }
  TH_TRY(attention_batch(in, &shape));
  TH_TRY(attention_mask(in, &shape));
  th_shape_push(&shape, q->dims[q->rank - 2], NULL);
  th_shape_push(&shape, v->dims[v->rank - 1], NULL);
  return th_infer_out(in, q->dtype, device, &shape);
}

// ---- windows: convolution and pooling

enum { WINDOW_MAX = TH_MAX_RANK };

typedef struct window_list {
  int64_t at[WINDOW_MAX];
} window_list;

// A list of `count` integers, each at least `min`.  One stands for all;
// none: `missing`.
static th_status window_ints(th_infer *in, uint32_t arg, uint32_t count,
                             int64_t min, const window_list *missing,
                             window_list *out) {
  uint32_t have = th_infer_count(in, arg);
  if (have == 0 && missing) {
    *out = *missing;
    return TH_OK;
  }
  if (have != 1 && have != count) {
    return th_infer_error(in, TH_INVALID,
                          "argument '%s' has %u elements; 1 or %u are needed",
                          in->op->params[arg].name, have, count);
  }
  for (uint32_t i = 0; i < count; i++) {
    TH_TRY(th_infer_need_item(in, arg, have == 1 ? 0 : i, &out->at[i]));
    if (out->at[i] < min || out->at[i] > INT32_MAX) {
      return th_infer_error(in, TH_INVALID,
                            "argument '%s' has the element %lld; it must lie "
                            "in [%lld, 2147483647]",
                            in->op->params[arg].name, (long long)out->at[i],
                            (long long)min);
    }
  }
  return TH_OK;
}

// (length + 2 padding - reach) / stride + 1, where a window spans reach + 1.
static const th_expr *window_count(th_ir *ir, const th_expr *length,
                                   int64_t padding, int64_t reach,
                                   int64_t stride, bool up) {
  const th_expr *span = th_expr_add(
      ir, length, th_int(ir, 2 * padding - reach - 1 + (up ? stride - 1 : 0)));
  return th_expr_add(ir, th_expr_floordiv(ir, span, th_int(ir, stride)),
                     th_int(ir, 1));
}

static th_status window_too_large(th_infer *in, uint32_t dim) {
  th_infer_blame(in, 0);
  return th_infer_error(in, TH_SHAPE,
                        "the window is larger than dimension %u of %s with its "
                        "padding",
                        dim, th_infer_text(in, th_infer_tensor(in, 0)));
}

typedef struct convolution_args {
  uint32_t spatial;
  window_list stride, padding, dilation, output_padding;
  bool is_transposed;
  int64_t groups;
} convolution_args;

static th_status convolution_read(th_infer *in, convolution_args *c) {
  c->spatial = th_infer_tensor(in, 0)->rank - 2u;
  c->is_transposed = th_infer_bool(in, 6);
  TH_TRY(window_ints(in, 3, c->spatial, 1, NULL, &c->stride));
  TH_TRY(window_ints(in, 4, c->spatial, 0, NULL, &c->padding));
  TH_TRY(window_ints(in, 5, c->spatial, 1, NULL, &c->dilation));
  window_list none = {0};
  TH_TRY(window_ints(in, 7, c->spatial, 0, &none, &c->output_padding));
  TH_TRY(th_infer_need_int(in, 8, &c->groups));
  if (c->groups < 1 || c->groups > INT32_MAX) {
    return th_infer_error(in, TH_INVALID, "groups is %lld; it must be positive",
                          (long long)c->groups);
  }
  return TH_OK;
}

static th_status convolution_channels(th_infer *in, const convolution_args *c,
                                      const th_expr **out_channels) {
  th_ir *ir = in->ir;
  const th_type *x = th_infer_tensor(in, 0), *w = th_infer_tensor(in, 1);
  const th_expr *groups = th_int(ir, c->groups), *joined = NULL;
  const th_expr *wanted =
      c->is_transposed ? w->dims[0] : th_expr_mul(ir, w->dims[1], groups);
  const th_expr *rest = th_expr_mod(ir, w->dims[0], groups);
  if (!wanted || !th_infer_same_dim(in, x->dims[1], wanted, &joined) || !rest ||
      (th_is_const(rest) && rest->i)) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "%s has %s channels; the weight %s with %lld groups "
                          "needs %s",
                          th_infer_text(in, x),
                          th_infer_num_text(in, x->dims[1]),
                          th_infer_text(in, w), (long long)c->groups,
                          th_infer_num_text(in, wanted));
  }
  *out_channels =
      c->is_transposed ? th_expr_mul(ir, w->dims[1], groups) : w->dims[0];
  return TH_OK;
}

// One spatial size of the result; NULL: unknown kernel size.
static th_status convolution_size(th_infer *in, const convolution_args *c,
                                  uint32_t i, const th_expr **out_size) {
  th_ir *ir = in->ir;
  const th_expr *length = th_infer_tensor(in, 0)->dims[i + 2];
  const th_expr *kernel = th_infer_tensor(in, 1)->dims[i + 2];
  const th_expr *reach = th_expr_mul(ir, th_int(ir, c->dilation.at[i]),
                                     th_expr_sub(ir, kernel, th_int(ir, 1)));
  const th_expr *stride = th_int(ir, c->stride.at[i]);
  const th_expr *padding = th_int(ir, 2 * c->padding.at[i]);
  if (c->is_transposed) {
    const th_expr *steps =
        th_expr_mul(ir, th_expr_sub(ir, length, th_int(ir, 1)), stride);
    const th_expr *extra = th_int(ir, c->output_padding.at[i] + 1);
    *out_size = th_expr_add(
        ir, th_expr_sub(ir, th_expr_add(ir, steps, reach), padding), extra);
    return TH_OK;
  }
  const th_expr *room = th_expr_sub(ir, th_expr_add(ir, length, padding),
                                    th_expr_add(ir, reach, th_int(ir, 1)));
  if (room && th_infer_never(in, TH_X_LE, th_int(ir, 0), room)) {
    return window_too_large(in, i + 2);
  }
  *out_size =
      th_expr_add(ir, th_expr_floordiv(ir, room, stride), th_int(ir, 1));
  return TH_OK;
}

th_status th_infer_rule_convolution(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  convolution_args c = {0};
  th_device device;
  const th_expr *channels = NULL;
  TH_TRY(th_infer_device(in, &device));
  TH_TRY(th_infer_need_rank(in, 0, 3, TH_MAX_RANK));
  TH_TRY(th_infer_need_rank(in, 1, x->rank, x->rank));
  TH_TRY(th_infer_same_dtype(in, 0, 1));
  TH_TRY(th_infer_same_dtype(in, 0, 2));
  TH_TRY(convolution_read(in, &c));
  TH_TRY(convolution_channels(in, &c, &channels));
  if (th_infer_tensor(in, 2)) {
    th_shape bias = {0};
    th_shape_push(&bias, channels, NULL);
    TH_TRY(th_infer_need_shape(in, 2, &bias, "one number for each channel"));
  }
  th_shape shape = {0};
  th_shape_push(&shape, x->dims[0], NULL);
  th_shape_push(&shape, channels, NULL);
  for (uint32_t i = 0; i < c.spatial; i++) {
    const th_expr *size = NULL;
    TH_TRY(convolution_size(in, &c, i, &size));
    th_shape_push(&shape, size, NULL);
  }
  return th_infer_out(in, x->dtype, device, &shape);
}

// ---- pooling: (N,) C, then as many dimensions as the kernel has

typedef struct pool_args {
  uint32_t spatial;
  window_list kernel, stride, padding, dilation;
  bool up; // ceil_mode
} pool_args;

static th_status pool_need_rank(th_infer *in, uint32_t spatial) {
  const th_type *x = th_infer_tensor(in, 0);
  if (spatial == 0 || spatial > TH_MAX_RANK - 2) {
    return th_infer_error(in, TH_INVALID,
                          "argument '%s' has %u elements; one for each pooled "
                          "dimension is needed",
                          in->op->params[1].name, spatial);
  }
  return x->rank == spatial + 1
             ? TH_OK
             : th_infer_need_rank(in, 0, (uint8_t)(spatial + 1),
                                  (uint8_t)(spatial + 2));
}

static th_status pool_size(th_infer *in, const pool_args *p, uint32_t i,
                           const th_expr **out_size) {
  th_ir *ir = in->ir;
  const th_type *x = th_infer_tensor(in, 0);
  uint32_t dim = x->rank - p->spatial + i;
  const th_expr *length = x->dims[dim];
  int64_t stride = p->stride.at[i], padding = p->padding.at[i];
  int64_t reach = p->dilation.at[i] * (p->kernel.at[i] - 1);
  if (padding > (reach + 1) / 2) {
    return th_infer_error(in, TH_INVALID,
                          "a padding of %lld is more than half the window of "
                          "%lld",
                          (long long)padding, (long long)reach + 1);
  }
  const th_expr *count =
      window_count(ir, length, padding, reach, stride, p->up);
  if (p->up) { // the last window must start inside the operand or its padding
    const th_expr *last = th_expr_mul(ir, th_expr_sub(ir, count, th_int(ir, 1)),
                                      th_int(ir, stride));
    const th_expr *end = th_expr_add(ir, length, th_int(ir, padding));
    const th_expr *starts_inside =
        th_expr_make(ir, TH_X_LT, (const th_expr *[]){last, end}, 2);
    count = th_infer_where(in, starts_inside, count,
                           th_expr_sub(ir, count, th_int(ir, 1)));
  }
  if (th_infer_never(in, TH_X_LE, th_int(ir, 1), count)) {
    return window_too_large(in, dim);
  }
  *out_size = count;
  return TH_OK;
}

static th_status pool_shape(th_infer *in, const pool_args *p, th_shape *out) {
  const th_type *x = th_infer_tensor(in, 0);
  *out = th_shape_of(in, x);
  for (uint32_t i = 0; i < p->spatial; i++) {
    TH_TRY(pool_size(in, p, i, &out->dims[x->rank - p->spatial + i]));
  }
  return TH_OK;
}

static th_status pool_read(th_infer *in, pool_args *p) {
  p->spatial = th_infer_count(in, 1);
  TH_TRY(pool_need_rank(in, p->spatial));
  TH_TRY(window_ints(in, 1, p->spatial, 1, NULL, &p->kernel));
  TH_TRY(window_ints(in, 2, p->spatial, 1, &p->kernel, &p->stride));
  window_list none = {0};
  TH_TRY(window_ints(in, 3, p->spatial, 0, &none, &p->padding));
  for (uint32_t i = 0; i < p->spatial; i++) {
    p->dilation.at[i] = 1;
  }
  return TH_OK;
}

th_status th_infer_rule_max_pool(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  pool_args p = {.up = th_infer_bool(in, 5)};
  th_shape shape;
  TH_TRY(pool_read(in, &p));
  TH_TRY(window_ints(in, 4, p.spatial, 1, &p.dilation, &p.dilation));
  TH_TRY(pool_shape(in, &p, &shape));
  TH_TRY(th_infer_out(in, x->dtype, x->device, &shape));
  return th_infer_out(in, TH_I64, x->device, &shape);
}

th_status th_infer_rule_avg_pool(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  pool_args p = {.up = th_infer_bool(in, 4)};
  th_shape shape;
  int64_t divisor = 1;
  TH_TRY(pool_read(in, &p));
  TH_TRY(pool_shape(in, &p, &shape));
  if (th_infer_int(in, 6, &divisor) && divisor == 0) {
    return th_infer_error(in, TH_INVALID, "the divisor is 0");
  }
  return th_infer_out(in, x->dtype, x->device, &shape);
}

// The last dimensions become the sizes given.
static th_status pool_resize(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint32_t spatial = th_infer_count(in, 1);
  TH_TRY(pool_need_rank(in, spatial));
  th_shape shape = th_shape_of(in, x);
  for (uint32_t i = 0; i < spatial; i++) {
    uint32_t dim = x->rank - spatial + i;
    if (th_is_int(x->dims[dim], 0)) {
      th_infer_blame(in, 0);
      return th_infer_error(in, TH_SHAPE, "dimension %u of %s is empty", dim,
                            th_infer_text(in, x));
    }
    TH_TRY(th_infer_item(in, 1, i, &shape.dims[dim]));
  }
  return th_infer_out(in, x->dtype, x->device, &shape);
}

th_status th_infer_rule_adaptive_pool(th_infer *in) { return pool_resize(in); }

th_status th_infer_rule_upsample(th_infer *in) { return pool_resize(in); }

// The `onednn` executor: f32 products with their bias, activation and residual
// in one pass over the result, and convolutions (onednn_conv.h).
//
// A region is one product and the chain behind it (passes/claim.c).  What
// oneDNN 2 does with a NaN in relu is not what PyTorch does, so relu stays with
// other executors.
#include "exec/onednn_conv.h"
#include "exec/onednn_plan.h"
#include "exec/ref.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

// ---- what it takes

static bool onednn_is_f32(const th_arg *arg) {
  return arg->kind == TH_ARG_VALUE && arg->value->type.kind == TH_KIND_TENSOR &&
         arg->value->type.dtype == TH_F32 &&
         arg->value->type.device.type == TH_CPU;
}

static bool onednn_check_product(const th_stmt *stmt, const char **reason) {
  const th_arg *x = &stmt->args[0], *y = &stmt->args[1];
  if (!onednn_is_f32(x) || !onednn_is_f32(y)) {
    *reason = "takes f32 on the CPU";
    return false;
  }
  const th_type *tx = &x->value->type, *ty = &y->value->type;
  if (tx->rank < 2 || ty->rank < 2) {
    *reason = "takes matrices, no vectors";
    return false;
  }
  if (th_is_int(tx->dims[tx->rank - 1], 0)) {
    *reason = "there is nothing to sum over";
    return false;
  }
  return true;
}

static bool onednn_can_fuse(const th_stmt *stmt, const char **reason) {
  if (stmt->op->op == TH_OP_convolution) {
    return th_onednn_conv_takes(stmt, reason);
  }
  bool product = stmt->op->op == TH_OP_linear || stmt->op->op == TH_OP_matmul;
  *reason = product ? th_onednn_get()->missing : "not in its table";
  return !*reason && onednn_check_product(stmt, reason);
}

// ---- what follows a product

static bool onednn_is_number(const th_arg *arg) {
  return arg->kind == TH_ARG_NUM && th_is_const(arg->num);
}

static float onednn_number(const th_arg *arg) {
  const th_expr *e = arg->num;
  return e->dtype == TH_F64 ? (float)e->f : (float)e->i;
}

// Every element has its own, or a row serves all.
static bool onednn_fits(const th_value *operand, const th_value *out) {
  const th_type *a = &operand->type, *z = &out->type;
  bool row = a->rank == 1 && a->dims[0] == z->dims[z->rank - 1];
  bool same = a->rank == z->rank;
  for (uint8_t i = 0; same && i < a->rank; i++) {
    same = a->dims[i] == z->dims[i];
  }
  return row || same;
}

static bool onednn_function(const th_stmt *stmt, th_onednn_post *out) {
  static const struct {
    th_op op;
    dnnl_alg_kind_t alg;
    float alpha;
  } rows[] = {{TH_OP_tanh, dnnl_eltwise_tanh, 0},
              {TH_OP_sigmoid, dnnl_eltwise_logistic, 0},
              {TH_OP_silu, dnnl_eltwise_swish, 1}};
  if (stmt->op->op == TH_OP_gelu) {
    bool tanh = strcmp(stmt->args[1].text, "tanh") == 0;
    out->alg = tanh ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf;
    return true;
  }
  for (size_t i = 0; i < TH_COUNT(rows); i++) {
    if (rows[i].op == stmt->op->op) {
      out->alg = rows[i].alg;
      out->alpha = rows[i].alpha;
      return true;
    }
  }
  return false;
}

static bool onednn_scale(const th_stmt *stmt, const th_arg *number,
                         bool is_first, th_onednn_post *out) {
  float f = onednn_number(number);
  out->alg = dnnl_eltwise_linear;
  switch (stmt->op->op) {
  case TH_OP_add:
    out->alpha = 1;
    out->beta = f;
    return true;
  case TH_OP_sub: // x - f, f - x
    out->alpha = is_first ? -1 : 1;
    out->beta = is_first ? f : -f;
    return true;
  case TH_OP_mul:
    out->alpha = f;
    return isfinite(f);
  default:
    return false;
  }
}

static bool onednn_binary(const th_stmt *stmt, bool is_first,
                          th_onednn_post *out) {
  out->is_binary = true;
  switch (stmt->op->op) {
  case TH_OP_add:
    out->alg = dnnl_binary_add;
    return true;
  case TH_OP_mul:
    out->alg = dnnl_binary_mul;
    return true;
  case TH_OP_sub:
    out->alg = dnnl_binary_sub;
    return !is_first;
  default:
    return false;
  }
}

// What `stmt` does to `x`, which it reads; *out_operand is its other tensor or
// NULL.  False: oneDNN does not do it.
static bool onednn_post(const th_stmt *stmt, const th_value *x,
                        th_onednn_post *out, const th_value **out_operand) {
  *out = (th_onednn_post){.alpha = 0};
  *out_operand = NULL;
  if (onednn_function(stmt, out)) {
    return true;
  }
  if (stmt->arg_count != 2) {
    return false;
  }
  bool second = stmt->args[1].kind == TH_ARG_VALUE && stmt->args[1].value == x;
  const th_arg *other = &stmt->args[second ? 0 : 1];
  if (onednn_is_number(other)) {
    return onednn_scale(stmt, other, second, out);
  }
  if (!onednn_is_f32(other) || other->value == x ||
      !onednn_fits(other->value, stmt->outs[0])) {
    return false;
  }
  *out_operand = other->value;
  return onednn_binary(stmt, second, out);
}

static bool onednn_follows(const th_stmt *const *chain, uint32_t count,
                           const th_stmt *next, const char **reason) {
  if (chain[0]->op->op == TH_OP_convolution) {
    return th_onednn_conv_follows(chain, count, next, reason);
  }
  const th_value *x = chain[count - 1]->outs[0], *operand = NULL;
  th_onednn_post post;
  bool reads = false;
  for (uint16_t i = 0; i < next->arg_count; i++) {
    reads = reads ||
            (next->args[i].kind == TH_ARG_VALUE && next->args[i].value == x);
  }
  *reason = "does not follow a product in one pass";
  return reads && count <= TH_ONEDNN_POSTS && next->out_count == 1 &&
         next->outs[0] && th_type_equal(&next->outs[0]->type, &x->type) &&
         onednn_post(next, x, &post, &operand);
}

// ---- a region

typedef struct onednn_region {
  th_onednn_convs *convs; // NULL: a product, which the rest is about
  th_onednn_plans *plans;
  bool is_linear;
  int x, y, bias; // arguments of the region; -1: none
  th_onednn_posts posts;
  int operands[TH_ONEDNN_POSTS];
} onednn_region;

static int onednn_argument(const th_stmt *region, const th_value *value) {
  for (uint16_t i = 0; value && i < region->arg_count; i++) {
    if (region->args[i].kind == TH_ARG_VALUE &&
        region->args[i].value == value) {
      return i;
    }
  }
  return -1;
}

static void onednn_release(void *state) {
  onednn_region *r = state;
  if (r) {
    th_onednn_convs_free(r->convs);
    th_onednn_plans_free(r->plans);
    th_free(r);
  }
}

static bool onednn_read_region(onednn_region *r, const th_stmt *region) {
  const th_stmt *product = region->body[0];
  const char *reason = NULL;
  if (!onednn_can_fuse(product, &reason)) {
    return false;
  }
  r->is_linear = product->op->op == TH_OP_linear;
  r->x = onednn_argument(region, product->args[0].value);
  r->y = onednn_argument(region, product->args[1].value);
  r->bias = r->is_linear && product->args[2].kind == TH_ARG_VALUE
                ? onednn_argument(region, product->args[2].value)
                : -1;
  for (uint32_t i = 1; i < region->body_count; i++) {
    const th_stmt *const *body = (const th_stmt *const *)region->body;
    const th_value *operand = NULL;
    uint32_t at = r->posts.count++;
    if (!onednn_follows(body, i, body[i], &reason) ||
        !onednn_post(body[i], body[i - 1]->outs[0], &r->posts.items[at],
                     &operand)) {
      return false;
    }
    r->operands[at] = onednn_argument(region, operand);
  }
  return region->out_count == 1;
}

// Rows of one matrix, where the memory of `view` allows it: [a, b, n] as
// [a * b, n].
static bool onednn_flatten(th_view *view, int64_t *dims, int64_t *strides) {
  int last = view->rank - 1;
  int64_t rows = 1, stride = view->rank > 1 ? view->strides[last - 1] : 0;
  for (int i = last - 1; i >= 0; i--) {
    if (view->dims[i] != 1 && rows != 1 && view->strides[i] != stride * rows) {
      return false;
    }
    stride = rows == 1 ? view->strides[i] : stride;
    rows *= view->dims[i];
  }
  dims[0] = rows;
  dims[1] = view->dims[last];
  strides[0] = stride;
  strides[1] = view->strides[last];
  view->rank = 2;
  view->dims = dims;
  view->strides = strides;
  return true;
}

typedef struct onednn_shape {
  int64_t dims[2], strides[2];
} onednn_shape;

// As rows of one matrix, copied where need be.  Not empty.
static th_status onednn_rows(th_run *run, th_view *view, onednn_shape *shape) {
  th_view from = *view;
  if (onednn_flatten(view, shape->dims, shape->strides)) {
    return TH_OK;
  }
  int64_t rows = 1, columns = from.dims[from.rank - 1];
  for (int i = 0; i < from.rank - 1; i++) {
    rows *= from.dims[i];
  }
  *shape = (onednn_shape){{rows, columns}, {columns, 1}};
  int64_t strides[TH_MAX_RANK];
  TH_TRY(th_run_dense(run, &from, strides, view));
  view->rank = 2;
  view->dims = shape->dims;
  view->strides = shape->strides;
  return TH_OK;
}

// A matrix that all rows of x meet: one product instead of a batch.
static bool onednn_is_flat(const onednn_region *r, const th_view *x,
                           const th_view *y) {
  return r->is_linear || (y->rank == 2 && x->rank > 2);
}

static void onednn_turn(th_view *view, onednn_shape *shape) {
  shape->dims[0] = view->dims[1];
  shape->dims[1] = view->dims[0];
  shape->strides[0] = view->strides[1];
  shape->strides[1] = view->strides[0];
  view->dims = shape->dims;
  view->strides = shape->strides;
}

static bool onednn_is_empty(const th_view *view) {
  bool empty = false;
  for (int i = 0; i < view->rank; i++) {
    empty = empty || view->dims[i] == 0;
  }
  return empty;
}

static th_status onednn_run_convs(th_run *run) {
  const onednn_region *r = th_run_state(run);
  return th_onednn_convs_run(run, r->convs);
}

static th_status onednn_run_product(th_run *run) {
  enum { VIEWS = 2 + TH_ONEDNN_POSTS };
  const onednn_region *r = th_run_state(run);
  onednn_shape flat[VIEWS], turned;
  th_view operands[TH_ONEDNN_POSTS];
  th_onednn_product p = {.x = *th_run_tensor(run, (uint32_t)r->x),
                         .y = *th_run_tensor(run, (uint32_t)r->y),
                         .z = *th_run_out(run, 0),
                         .posts = &r->posts};
  p.y_is_constant = th_run_is_constant(run, (uint32_t)r->y);
  p.bias = r->bias < 0 ? NULL : th_run_tensor(run, (uint32_t)r->bias);
  if (onednn_is_empty(&p.z)) {
    return TH_OK;
  }
  if (onednn_is_empty(&p.x)) {
    return th_run_error(run, TH_UNSUPPORTED, "there is nothing to sum over");
  }
  bool rows = onednn_is_flat(r, &p.x, &p.y);
  if (rows) {
    TH_TRY(onednn_rows(run, &p.x, &flat[0]));
    bool whole = onednn_flatten(&p.z, flat[1].dims, flat[1].strides);
    TH_ASSERT(whole); // results are row-major
  }
  for (uint32_t i = 0; i < r->posts.count; i++) {
    if (r->operands[i] < 0) {
      continue;
    }
    operands[i] = *th_run_tensor(run, (uint32_t)r->operands[i]);
    p.operands[i] = &operands[i];
    if (rows && operands[i].rank > 2) {
      TH_TRY(onednn_rows(run, &operands[i], &flat[2 + i]));
    }
  }
  if (r->is_linear) {
    onednn_turn(&p.y, &turned);
  }
  return th_onednn_run(run, r->plans, &p);
}

static th_status onednn_fuse_product(th_context *ctx, const th_stmt *region,
                                     onednn_region *r) {
  if (!onednn_read_region(r, region)) {
    return th_error(ctx, TH_UNSUPPORTED, region->loc,
                    "%s: not a product and what follows it", region->label);
  }
  r->plans = th_onednn_plans_new();
  return r->plans ? TH_OK
                  : th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
}

static th_status onednn_fuse(th_context *ctx, const th_stmt *region,
                             th_run_fn *out_run, void **out_state) {
  onednn_region *r = th_calloc(1, sizeof *r);
  if (!r) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  bool conv = region->body[0]->op->op == TH_OP_convolution;
  th_status status = conv ? th_onednn_convs_new(ctx, region, &r->convs)
                          : onednn_fuse_product(ctx, region, r);
  if (status != TH_OK) {
    onednn_release(r);
    return status;
  }
  *out_run = conv ? onednn_run_convs : onednn_run_product;
  *out_state = r;
  return TH_OK;
}

const th_executor_options th_onednn_executor = {
    .size = sizeof(th_executor_options),
    .name = "onednn",
    .version = "1",
    .claim_size = sizeof(th_claim),
    .can_fuse = onednn_can_fuse,
    .fuse = onednn_fuse,
    .release = onednn_release,
};

void th_onednn_executor_init(th_executor *executor) {
  executor->follows = onednn_follows;
  executor->lay_out = th_onednn_conv_lay_out;
}

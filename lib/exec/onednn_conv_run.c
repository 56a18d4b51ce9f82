// A chain of convolutions:
//
//   x -(order)- conv - relu -(order)- conv - relu - ... -(order)- result
//                |
//                residual, in its result's memory before it runs
//
// Batch norm is folded into weights and bias.  relu is a pass of ours over a
// result that the caches hold: the library's turns NaN into 0.
#include "exec/onednn_conv_impl.h"

#include "exec/ref.h"

#include "base/alloc.h"
#include "base/pool.h"

#include <math.h>
#include <string.h>

// ---- plans

// One convolution, and what is put in another order before it.
typedef struct conv_primitive {
  dnnl_primitive_t conv, order, sum_order; // NULL: the order is right
  dnnl_memory_desc_t from;                 // of x: what `order` reads
  dnnl_memory_desc_t src, weights, bias, dst, scratch, residual;
  bool has_bias;
} conv_primitive;

typedef struct conv_plan {
  th_onednn_entry entry;
  int64_t *key;
  conv_primitive items[TH_ONEDNN_CONV_STEPS];
  uint32_t count;
  dnnl_primitive_t last_order;
  dnnl_memory_desc_t out;
  size_t buffer, scratch; // bytes: the largest of each
} conv_plan;

static void conv_destroy(dnnl_primitive_t primitive) {
  if (primitive) {
    th_onednn_get()->primitive_destroy(primitive);
  }
}

void th_onednn_conv_plan_free(th_onednn_entry *entry) {
  conv_plan *plan = (conv_plan *)entry;
  for (uint32_t i = 0; i < TH_ONEDNN_CONV_STEPS; i++) {
    conv_destroy(plan->items[i].conv);
    conv_destroy(plan->items[i].order);
    conv_destroy(plan->items[i].sum_order);
  }
  conv_destroy(plan->last_order);
  th_free(plan->key);
  th_free(plan);
}

// The threads, and shapes and strides of all that the region reads.
static th_status conv_plan_key(th_run *run, conv_plan *plan) {
  uint32_t args = th_run_stmt(run)->arg_count, size = 1;
  plan->key = th_calloc(1 + args * (2u * TH_MAX_RANK + 1), sizeof *plan->key);
  if (!plan->key) {
    return th_run_error(run, TH_NO_MEMORY, "out of memory");
  }
  plan->key[0] = th_run_threads(run);
  for (uint32_t i = 0; i < args; i++) {
    const th_view *v = th_run_tensor(run, i);
    plan->key[size++] = v->rank;
    for (int d = 0; d < v->rank; d++) {
      plan->key[size++] = v->dims[d];
      plan->key[size++] = v->strides[d];
    }
  }
  plan->entry.key = plan->key;
  plan->entry.key_size = size;
  return TH_OK;
}

// The library takes no element for several places: then it gets a row-major
// copy, and true comes back.
static bool conv_strides(const th_view *view, dnnl_dims_t strides) {
  int64_t dense = 1;
  bool repeated = false;
  for (int i = view->rank; i-- > 0;) {
    repeated = repeated || (view->dims[i] > 1 && view->strides[i] == 0);
  }
  for (int i = view->rank; i-- > 0;) {
    bool given = !repeated && view->dims[i] > 1;
    strides[i] = given ? view->strides[i] : dense; // of 1: any is right
    dense *= view->dims[i];
  }
  return repeated;
}

static th_status conv_desc(th_run *run, const th_view *view,
                           dnnl_memory_desc_t *out) {
  dnnl_dims_t strides;
  conv_strides(view, strides);
  TH_ONEDNN_TRY(run, memory_desc_init_by_strides(out, view->rank, view->dims,
                                                 dnnl_f32, strides));
  return TH_OK;
}

// The elements that conv_desc describes.
static th_status conv_data(th_run *run, int arg, const void **out_data) {
  const th_view *view = th_run_tensor(run, (uint32_t)arg);
  int64_t strides[TH_MAX_RANK];
  th_view dense = *view;
  if (conv_strides(view, strides)) {
    TH_TRY(th_run_dense(run, view, strides, &dense));
  }
  *out_data = dense.data;
  return TH_OK;
}

static th_status conv_channels_last(th_run *run, int rank, const int64_t *dims,
                                    dnnl_memory_desc_t *out) {
  dnnl_dims_t strides;
  int64_t stride = dims[1];
  for (int i = rank; i-- > 2;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  strides[0] = stride;
  strides[1] = 1;
  TH_ONEDNN_TRY(
      run, memory_desc_init_by_strides(out, rank, dims, dnnl_f32, strides));
  return TH_OK;
}

static th_status conv_any(th_run *run, int rank, const int64_t *dims,
                          dnnl_memory_desc_t *out) {
  TH_ONEDNN_TRY(run, memory_desc_init_by_tag(out, rank, dims, dnnl_f32,
                                             dnnl_format_tag_any));
  return TH_OK;
}

// From one order to another; *out stays NULL where they are the same.
static th_status conv_plan_order(th_run *run, const dnnl_memory_desc_t *from,
                                 const dnnl_memory_desc_t *to,
                                 dnnl_primitive_t *out) {
  const th_onednn *l = th_onednn_get();
  dnnl_primitive_desc_t desc = NULL;
  if (l->memory_desc_equal(from, to)) {
    return TH_OK;
  }
  TH_ONEDNN_TRY(run, reorder_primitive_desc_create(&desc, from, l->engine, to,
                                                   l->engine, NULL));
  dnnl_status_t status = l->primitive_create(out, desc);
  l->primitive_desc_destroy(desc);
  return status == dnnl_success ? TH_OK
                                : th_onednn_error(run, "reorder", status);
}

// The weights' sizes with a dimension for groups, where there are some.
static int conv_weight_dims(const th_onednn_conv_step *step, const th_view *w,
                            dnnl_dims_t dims) {
  int lead = step->groups > 1;
  dims[0] = step->groups;
  dims[lead] = w->dims[0] / step->groups;
  for (int i = 1; i < w->rank; i++) {
    dims[lead + i] = w->dims[i];
  }
  return w->rank + lead;
}

// `x` has the sizes of what comes in and gets those of what goes out.
static void conv_out_dims(const th_onednn_conv_step *step, const th_view *w,
                          int rank, dnnl_dims_t x) {
  x[1] = w->dims[0];
  for (int i = 2; i < rank; i++) {
    int64_t reach = (w->dims[i] - 1) * (step->dilation[i - 2] + 1) + 1;
    int64_t room = x[i] + 2 * step->padding[i - 2] - reach;
    x[i] = room / step->stride[i - 2] + 1;
  }
}

static th_status conv_attr(th_run *run, bool sums, dnnl_primitive_attr_t attr) {
  const th_onednn *l = th_onednn_get();
  dnnl_post_ops_t posts = NULL;
  TH_ONEDNN_TRY(
      run, primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
  if (!sums) {
    return TH_OK;
  }
  TH_ONEDNN_TRY(run, post_ops_create(&posts));
  dnnl_status_t status = l->post_ops_append_sum(posts, 1);
  if (status == dnnl_success) {
    status = l->primitive_attr_set_post_ops(attr, posts);
  }
  l->post_ops_destroy(posts);
  return status == dnnl_success
             ? TH_OK
             : th_onednn_error(run, "post_ops_append_sum", status);
}

// Is it a good one?
static bool conv_query(conv_primitive *c, dnnl_primitive_desc_t desc) {
  const th_onednn *l = th_onednn_get();
  const char *name = "";
  c->src = *l->primitive_desc_query_md(desc, dnnl_query_src_md, 0);
  c->weights = *l->primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
  c->dst = *l->primitive_desc_query_md(desc, dnnl_query_dst_md, 0);
  c->scratch = *l->primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  l->primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
  return strncmp(name, "ref", 3) != 0;
}

// TH_UNSUPPORTED without a diagnostic: there is no good one, which was asked
// for.
static th_status conv_plan_primitive(th_run *run,
                                     const th_onednn_conv_step *step,
                                     conv_primitive *c, bool only_good) {
  const th_onednn *l = th_onednn_get();
  dnnl_convolution_desc_t conv;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t desc = NULL;
  TH_ONEDNN_TRY(run, dilated_convolution_forward_desc_init(
                         &conv, dnnl_forward_inference, dnnl_convolution_direct,
                         &c->src, &c->weights, c->has_bias ? &c->bias : NULL,
                         &c->dst, step->stride, step->dilation, step->padding,
                         step->padding));
  TH_ONEDNN_TRY(run, primitive_attr_create(&attr));
  th_status status = conv_attr(run, step->residual >= 0, attr);
  dnnl_status_t made = dnnl_success;
  bool good = false;
  if (status == TH_OK) {
    made = l->primitive_desc_create(&desc, &conv, attr, l->engine, NULL);
  }
  if (desc) {
    good = conv_query(c, desc);
    made = good || !only_good ? l->primitive_create(&c->conv, desc) : made;
    l->primitive_desc_destroy(desc);
  }
  l->primitive_attr_destroy(attr);
  if (status == TH_OK && only_good && (made == dnnl_unimplemented || !good)) {
    return TH_UNSUPPORTED;
  }
  return status != TH_OK || made == dnnl_success
             ? status
             : th_onednn_error(run, "convolution", made);
}

// `x` and `from` are the sizes and the order of what comes in, and then of
// what goes out.
static th_status conv_plan_step(th_run *run, const th_onednn_conv_step *step,
                                conv_plan *plan, dnnl_dims_t x,
                                dnnl_memory_desc_t *from) {
  conv_primitive *c = &plan->items[plan->count++];
  const th_view *w = th_run_tensor(run, (uint32_t)step->weight);
  dnnl_dims_t dims, in;
  int rank = conv_weight_dims(step, w, dims);
  c->from = *from;
  c->has_bias = step->bias >= 0 || step->is_normed;
  TH_TRY(conv_any(run, rank, dims, &c->weights));
  TH_ONEDNN_TRY(
      run, memory_desc_init_by_tag(&c->bias, 1, w->dims, dnnl_f32, dnnl_a));
  memcpy(in, x, sizeof in);
  conv_out_dims(step, w, w->rank, x);
  TH_TRY(conv_channels_last(run, w->rank, in, &c->src));
  TH_TRY(conv_channels_last(run, w->rank, x, &c->dst));
  th_status status = conv_plan_primitive(run, step, c, true);
  if (status == TH_UNSUPPORTED) {
    TH_TRY(conv_any(run, w->rank, in, &c->src));
    TH_TRY(conv_any(run, w->rank, x, &c->dst));
    status = conv_plan_primitive(run, step, c, false);
  }
  TH_TRY(status);
  TH_TRY(conv_plan_order(run, from, &c->src, &c->order));
  if (step->residual >= 0) {
    TH_TRY(conv_desc(run, th_run_tensor(run, (uint32_t)step->residual),
                     &c->residual));
    TH_TRY(conv_plan_order(run, &c->residual, &c->dst, &c->sum_order));
  }
  *from = c->dst;
  return TH_OK;
}

static void conv_plan_size(conv_plan *plan) {
  const th_onednn *l = th_onednn_get();
  for (uint32_t i = 0; i < plan->count; i++) {
    const conv_primitive *c = &plan->items[i];
    size_t sizes[] = {l->memory_desc_get_size(&c->src),
                      l->memory_desc_get_size(&c->dst)};
    size_t scratch = l->memory_desc_get_size(&c->scratch);
    for (int k = 0; k < 2; k++) {
      plan->buffer = sizes[k] > plan->buffer ? sizes[k] : plan->buffer;
    }
    plan->scratch = scratch > plan->scratch ? scratch : plan->scratch;
  }
  plan->buffer = (plan->buffer + 63) / 64 * 64;
}

static th_status conv_plan_make(th_run *run, const th_onednn_convs *convs,
                                conv_plan *plan) {
  const th_view *view = th_run_tensor(run, (uint32_t)convs->x);
  dnnl_memory_desc_t from;
  dnnl_dims_t x = {0};
  memcpy(x, view->dims, (size_t)view->rank * sizeof *x);
  TH_TRY(conv_desc(run, view, &from));
  for (uint32_t i = 0; i < convs->count; i++) {
    TH_TRY(conv_plan_step(run, &convs->steps[i], plan, x, &from));
  }
  if (convs->lays_out) {
    TH_TRY(conv_channels_last(run, view->rank, x, &plan->out));
  } else {
    TH_TRY(conv_desc(run, th_run_out(run, 0), &plan->out));
  }
  TH_TRY(conv_plan_order(run, &from, &plan->out, &plan->last_order));
  conv_plan_size(plan);
  return TH_OK;
}

static th_status conv_plan_get(th_run *run, th_onednn_convs *convs,
                               conv_plan **out_plan) {
  conv_plan *plan = th_calloc(1, sizeof *plan);
  if (!plan) {
    return th_run_error(run, TH_NO_MEMORY, "out of memory");
  }
  th_status status = conv_plan_key(run, plan);
  if (status == TH_OK) {
    *out_plan = (conv_plan *)th_onednn_table_find(&convs->table, &plan->entry);
  }
  if (status == TH_OK && !*out_plan) {
    status = conv_plan_make(run, convs, plan);
    if (status == TH_OK) {
      th_onednn_table_keep(&convs->table, &plan->entry);
      *out_plan = plan;
      return TH_OK;
    }
  }
  th_onednn_conv_plan_free(&plan->entry);
  return status;
}

// ---- running

enum { CONV_OPERANDS = 5 };

typedef struct conv_call {
  dnnl_exec_arg_t args[CONV_OPERANDS];
  uint32_t count;
} conv_call;

static th_status conv_bind(th_run *run, conv_call *call, int role,
                           const dnnl_memory_desc_t *desc, void *data) {
  dnnl_exec_arg_t *arg = &call->args[call->count];
  arg->arg = role;
  TH_ONEDNN_TRY(
      run, memory_create(&arg->memory, desc, th_onednn_get()->engine, data));
  call->count++;
  return TH_OK;
}

// Runs the primitive on what is bound, and unbinds it.
static th_status conv_execute(th_run *run, conv_call *call, const char *what,
                              dnnl_primitive_t primitive, th_status bound) {
  const th_onednn *l = th_onednn_get();
  dnnl_stream_t stream = NULL;
  dnnl_status_t status = dnnl_success;
  if (bound == TH_OK) {
    status = l->stream_create(&stream, l->engine, dnnl_stream_default_flags);
  }
  if (stream) {
    status =
        l->primitive_execute(primitive, stream, (int)call->count, call->args);
    l->stream_destroy(stream);
  }
  for (uint32_t i = 0; i < call->count; i++) {
    l->memory_destroy(call->args[i].memory);
  }
  return bound != TH_OK || status == dnnl_success
             ? bound
             : th_onednn_error(run, what, status);
}

static th_status conv_put_in_order(th_run *run, dnnl_primitive_t order,
                                   const dnnl_memory_desc_t *from_desc,
                                   const void *from,
                                   const dnnl_memory_desc_t *to_desc,
                                   void *to) {
  conv_call call = {.count = 0};
  th_status bound =
      conv_bind(run, &call, DNNL_ARG_FROM, from_desc, (void *)from);
  if (bound == TH_OK) {
    bound = conv_bind(run, &call, DNNL_ARG_TO, to_desc, to);
  }
  return conv_execute(run, &call, "reorder", order, bound);
}

// ---- weights

static float conv_element(th_run *run, int arg, int64_t i, float otherwise) {
  const th_view *v = arg < 0 ? NULL : th_run_tensor(run, (uint32_t)arg);
  return v ? ((const float *)v->data)[i * v->strides[0]] : otherwise;
}

// What batch norm makes of channel `i`: a factor, and the bias.
static float conv_fold(th_run *run, const th_onednn_conv_step *step, int64_t i,
                       float *out_bias) {
  double bias = conv_element(run, step->bias, i, 0), scale = 1;
  if (step->is_normed) {
    double variance = conv_element(run, step->norm[3], i, 1);
    scale = conv_element(run, step->norm[0], i, 1) / sqrt(variance + step->eps);
    bias = (bias - conv_element(run, step->norm[2], i, 0)) * scale +
           conv_element(run, step->norm[1], i, 0);
  }
  *out_bias = (float)bias;
  return (float)scale;
}

// Row-major weights, scaled, and the bias.
static th_status conv_fold_all(th_run *run, const th_onednn_conv_step *step,
                               const float **out_weights, float *bias) {
  const th_view *w = th_run_tensor(run, (uint32_t)step->weight);
  int64_t strides[TH_MAX_RANK] = {0}, rest = 1;
  th_view dense;
  TH_TRY(th_run_dense(run, w, strides, &dense));
  for (int i = 1; i < w->rank; i++) {
    rest *= w->dims[i];
  }
  float *at = dense.data;
  for (int64_t i = 0; i < w->dims[0]; i++) {
    float scale = conv_fold(run, step, i, &bias[i]);
    for (int64_t k = 0; step->is_normed && k < rest; k++) {
      at[k] *= scale;
    }
    at += rest;
  }
  *out_weights = dense.data;
  return TH_OK;
}

static th_status conv_pack_fill(th_run *run, const th_onednn_conv_step *step,
                                const conv_primitive *c, void *weights,
                                float *bias) {
  const th_view *w = th_run_tensor(run, (uint32_t)step->weight);
  dnnl_memory_desc_t plain;
  dnnl_dims_t dims, strides;
  dnnl_primitive_t order = NULL;
  const float *folded = NULL;
  int rank = conv_weight_dims(step, w, dims);
  for (int i = rank; i-- > 0;) {
    strides[i] = i + 1 < rank ? strides[i + 1] * dims[i + 1] : 1;
  }
  TH_TRY(conv_fold_all(run, step, &folded, bias));
  TH_ONEDNN_TRY(
      run, memory_desc_init_by_strides(&plain, rank, dims, dnnl_f32, strides));
  TH_TRY(conv_plan_order(run, &plain, &c->weights, &order));
  if (!order) {
    memcpy(weights, folded, th_onednn_get()->memory_desc_get_size(&c->weights));
    return TH_OK;
  }
  th_status status =
      conv_put_in_order(run, order, &plain, folded, &c->weights, weights);
  conv_destroy(order);
  return status;
}

static bool conv_is_constant(th_run *run, const th_onednn_conv_step *step) {
  bool constant =
      th_run_is_constant(run, (uint32_t)step->weight) &&
      (step->bias < 0 || th_run_is_constant(run, (uint32_t)step->bias));
  for (int i = 0; step->is_normed && i < 4; i++) {
    constant = constant && (step->norm[i] < 0 ||
                            th_run_is_constant(run, (uint32_t)step->norm[i]));
  }
  return constant;
}

void th_onednn_conv_pack_free(th_onednn_conv_pack *pack) {
  if (pack) {
    th_free(pack->weights);
    th_free(pack->bias);
    th_free(pack);
  }
}

static th_status conv_pack_make(th_run *run, const th_onednn_convs *convs,
                                uint32_t step, const conv_primitive *c,
                                th_onednn_conv_pack **out_pack) {
  const th_onednn *l = th_onednn_get();
  th_onednn_conv_pack *pack = th_calloc(1, sizeof *pack);
  th_status status = TH_NO_MEMORY;
  if (pack) {
    pack->step = step;
    pack->desc = c->weights;
    pack->weights = th_aligned_alloc(64, l->memory_desc_get_size(&c->weights));
    pack->bias = th_aligned_alloc(64, l->memory_desc_get_size(&c->bias));
  }
  if (pack && pack->weights && pack->bias) {
    status =
        conv_pack_fill(run, &convs->steps[step], c, pack->weights, pack->bias);
  } else {
    th_run_error(run, status, "out of memory");
  }
  if (status != TH_OK) {
    th_onednn_conv_pack_free(pack);
    return status;
  }
  *out_pack = pack;
  return TH_OK;
}

// Constant weights are folded by the first call, others by each.
static th_status conv_weights(th_run *run, th_onednn_convs *convs,
                              uint32_t step, const conv_primitive *c,
                              void **out_weights, float **out_bias) {
  const th_onednn *l = th_onednn_get();
  if (!conv_is_constant(run, &convs->steps[step])) {
    *out_weights = th_run_scratch(run, l->memory_desc_get_size(&c->weights));
    *out_bias = th_run_scratch(run, l->memory_desc_get_size(&c->bias));
    return *out_weights && *out_bias
               ? conv_pack_fill(run, &convs->steps[step], c, *out_weights,
                                *out_bias)
               : th_run_error(run, TH_NO_MEMORY, "out of memory");
  }
  th_status status = TH_OK;
  pthread_mutex_lock(&convs->table.lock);
  th_onednn_conv_pack *pack = convs->packs;
  while (pack && (pack->step != step ||
                  !l->memory_desc_equal(&pack->desc, &c->weights))) {
    pack = pack->next;
  }
  if (!pack) {
    status = conv_pack_make(run, convs, step, c, &pack);
    if (status == TH_OK) {
      pack->next = convs->packs;
      convs->packs = pack;
    }
  }
  *out_weights = status == TH_OK ? pack->weights : NULL;
  *out_bias = status == TH_OK ? pack->bias : NULL;
  pthread_mutex_unlock(&convs->table.lock);
  return status;
}

// ---- the chain

// NaN stays what it is.
static void conv_clip_part(void *user, int64_t begin, int64_t end) {
  typedef float lanes __attribute__((vector_size(16)));
  typedef int32_t bits __attribute__((vector_size(16)));
  const bits *from = (const bits *)user + begin;
  bits *to = (bits *)user + begin;
  for (int64_t i = begin; i < end; i++, from++, to++) {
    lanes x;
    memcpy(&x, from, sizeof x);
    *to = *from & ~(bits)(x < (lanes){0});
  }
}

// `size` bytes, a multiple of 64.
static void conv_clip(th_run *run, void *data, size_t size) {
  th_parallel(th_run_threads(run), (int64_t)(size / 16), 1 << 14,
              conv_clip_part, data);
}

// Where a chain stands: what the next convolution reads, and the buffers.
typedef struct conv_state {
  const void *at;
  char *buffers[2];
  int free; // the buffer that does not hold `at`
  void *scratch;
} conv_state;

static th_status conv_run_primitive(th_run *run, th_onednn_convs *convs,
                                    uint32_t step, const conv_primitive *c,
                                    const conv_state *s, void *dst) {
  void *weights = NULL;
  float *bias = NULL;
  conv_call call = {.count = 0};
  TH_TRY(conv_weights(run, convs, step, c, &weights, &bias));
  th_status bound = conv_bind(run, &call, DNNL_ARG_SRC, &c->src, (void *)s->at);
  if (bound == TH_OK) {
    bound = conv_bind(run, &call, DNNL_ARG_WEIGHTS, &c->weights, weights);
  }
  if (bound == TH_OK && c->has_bias) {
    bound = conv_bind(run, &call, DNNL_ARG_BIAS, &c->bias, bias);
  }
  if (bound == TH_OK) {
    bound = conv_bind(run, &call, DNNL_ARG_DST, &c->dst, dst);
  }
  if (bound == TH_OK) {
    bound = conv_bind(run, &call, DNNL_ARG_SCRATCHPAD, &c->scratch, s->scratch);
  }
  return conv_execute(run, &call, "convolution", c->conv, bound);
}

static th_status conv_run_step(th_run *run, th_onednn_convs *convs,
                               uint32_t index, const conv_primitive *c,
                               conv_state *s) {
  const th_onednn_conv_step *step = &convs->steps[index];
  size_t size = th_onednn_get()->memory_desc_get_size(&c->dst);
  if (c->order) {
    TH_TRY(conv_put_in_order(run, c->order, &c->from, s->at, &c->src,
                             s->buffers[s->free]));
    s->at = s->buffers[s->free];
    s->free = !s->free;
  }
  char *dst = s->buffers[s->free];
  if (step->residual >= 0) {
    const void *residual = NULL;
    TH_TRY(conv_data(run, step->residual, &residual));
    if (c->sum_order) {
      TH_TRY(conv_put_in_order(run, c->sum_order, &c->residual, residual,
                               &c->dst, dst));
    } else {
      memcpy(dst, residual, size);
    }
  }
  TH_TRY(conv_run_primitive(run, convs, index, c, s, dst));
  if (step->is_clipped) {
    conv_clip(run, dst, (size + 63) / 64 * 64);
  }
  s->at = dst;
  s->free = !s->free;
  return TH_OK;
}

static th_status conv_run_plan(th_run *run, th_onednn_convs *convs,
                               const conv_plan *plan) {
  char *memory = th_run_scratch(run, 2 * plan->buffer + plan->scratch);
  conv_state s = {.free = 0};
  void *out = th_run_out(run, 0)->data;
  if (!memory) {
    return th_run_error(run, TH_NO_MEMORY, "out of memory");
  }
  TH_TRY(conv_data(run, convs->x, &s.at));
  s.buffers[0] = memory;
  s.buffers[1] = memory + plan->buffer;
  s.scratch = memory + 2 * plan->buffer;
  for (uint32_t i = 0; i < plan->count; i++) {
    TH_TRY(conv_run_step(run, convs, i, &plan->items[i], &s));
  }
  const dnnl_memory_desc_t *last = &plan->items[plan->count - 1].dst;
  if (plan->last_order) {
    return conv_put_in_order(run, plan->last_order, last, s.at, &plan->out,
                             out);
  }
  memcpy(out, s.at, th_onednn_get()->memory_desc_get_size(last));
  return TH_OK;
}

static bool conv_is_empty(const th_view *view) {
  bool empty = false;
  for (int i = 0; i < view->rank; i++) {
    empty = empty || view->dims[i] == 0;
  }
  return empty;
}

th_status th_onednn_convs_run(th_run *run, th_onednn_convs *convs) {
  conv_plan *plan = NULL;
  if (conv_is_empty(th_run_out(run, 0))) {
    return TH_OK;
  }
  if (conv_is_empty(th_run_tensor(run, (uint32_t)convs->x))) {
    return th_run_error(run, TH_UNSUPPORTED, "there is nothing to sum over");
  }
  int before = th_pool_lend(th_run_threads(run));
  th_status status = conv_plan_get(run, convs, &plan);
  if (plan) {
    status = conv_run_plan(run, convs, plan);
    th_onednn_table_put(&convs->table, &plan->entry);
  }
  th_pool_lend(before);
  return status;
}

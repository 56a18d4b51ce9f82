// oneDNN, called directly: softmax, layer normalization, and attention as two
// products of each head with a softmax between them, the mask added to the
// scores.  A head at a time keeps the scores in the caches, and a mask that is
// the same for all heads in one batched product has no fast code in oneDNN 2.
#include "bench_figures.h"

#include <dlfcn.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>

#define DIRECT_MAP(X)                                                          \
  X(engine_create)                                                             \
  X(engine_destroy)                                                            \
  X(stream_create)                                                             \
  X(stream_destroy)                                                            \
  X(stream_wait)                                                               \
  X(memory_create)                                                             \
  X(memory_destroy)                                                            \
  X(memory_set_data_handle)                                                    \
  X(memory_desc_init_by_strides)                                               \
  X(softmax_forward_desc_init)                                                 \
  X(layer_normalization_forward_desc_init)                                     \
  X(matmul_desc_init)                                                          \
  X(post_ops_create)                                                           \
  X(post_ops_destroy)                                                          \
  X(post_ops_append_eltwise)                                                   \
  X(post_ops_append_binary)                                                    \
  X(primitive_attr_create)                                                     \
  X(primitive_attr_destroy)                                                    \
  X(primitive_attr_set_post_ops)                                               \
  X(primitive_desc_create)                                                     \
  X(primitive_desc_destroy)                                                    \
  X(primitive_create)                                                          \
  X(primitive_destroy)                                                         \
  X(primitive_execute)

static struct {
#define X(name) __typeof__(&dnnl_##name) name;
  DIRECT_MAP(X)
#undef X
} dnnl;

// It stays loaded: threads of its pool may be inside.
static bool direct_load(void) {
  static void *handle;
  const char *missing = NULL;
  if (!handle && !(handle = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL))) {
    bench_say("no reference: libdnnl.so.2 is not installed");
    return false;
  }
#define X(name)                                                                \
  *(void **)(void *)&dnnl.name = dlsym(handle, "dnnl_" #name);                 \
  missing = dnnl.name ? missing : "dnnl_" #name;
  DIRECT_MAP(X)
#undef X
  if (missing) {
    bench_say("no reference: libdnnl.so.2 has no %s", missing);
  }
  return !missing;
}

enum { DIRECT_MOST = 6, DIRECT_STEPS = 3 };

typedef struct direct_array {
  dnnl_memory_desc_t desc;
  dnnl_memory_t memory;
  float *data;
  size_t count; // elements of one repetition
  bool moves;   // each repetition has its own
} direct_array;

typedef struct direct_step {
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t args[4];
  int arg_count;
} direct_step;

// A chain of primitives with their arrays, run `repeats` times.
typedef struct direct_chain {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  direct_array arrays[DIRECT_MOST];
  int array_count;
  direct_step steps[DIRECT_STEPS];
  int step_count, repeats;
  bool failed; // nothing more is made then
} direct_chain;

static void direct_release(void *state) {
  direct_chain *c = state;
  for (int i = 0; i < c->step_count; i++) {
    dnnl.primitive_destroy(c->steps[i].primitive);
  }
  for (int i = 0; i < c->array_count; i++) {
    dnnl.memory_destroy(c->arrays[i].memory);
    free(c->arrays[i].data);
  }
  dnnl.stream_destroy(c->stream);
  dnnl.engine_destroy(c->engine);
  free(c);
}

static dnnl_status_t direct_once(direct_chain *c, int repeat) {
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < c->array_count && c->repeats > 1; i++) {
    const direct_array *a = &c->arrays[i];
    if (a->moves && status == dnnl_success) {
      status = dnnl.memory_set_data_handle(a->memory,
                                           a->data + (size_t)repeat * a->count);
    }
  }
  for (int i = 0; i < c->step_count && status == dnnl_success; i++) {
    const direct_step *s = &c->steps[i];
    status =
        dnnl.primitive_execute(s->primitive, c->stream, s->arg_count, s->args);
  }
  return status;
}

static double direct_run(void *state, int count) {
  direct_chain *c = state;
  double start = bench_now();
  dnnl_status_t status = dnnl_success;
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < c->repeats && status == dnnl_success; k++) {
      status = direct_once(c, k);
    }
    dnnl.stream_wait(c->stream);
  }
  double took = bench_now() - start;
  if (status != dnnl_success) {
    bench_say("oneDNN: status %d", (int)status);
    return -1;
  }
  return took;
}

static direct_chain *direct_new(int threads) {
  direct_chain *c = direct_load() ? calloc(1, sizeof *c) : NULL;
  if (!c) {
    return NULL;
  }
  bench_set_threads(threads);
  c->repeats = 1;
  c->failed =
      dnnl.engine_create(&c->engine, dnnl_cpu, 0) ||
      dnnl.stream_create(&c->stream, c->engine, dnnl_stream_default_flags);
  return c;
}

// Ends what direct_new began.
static bool direct_done(direct_chain *c, bench_side *out_side) {
  if (!c) {
    return false;
  }
  if (c->failed) {
    bench_say("no reference: oneDNN makes no such primitive");
    direct_release(c);
    return false;
  }
  *out_side = (bench_side){"onednn", direct_run, direct_release, c, false};
  return true;
}

// An array of numbers between -2 and 2, with `copies` of it one after the
// other. A matrix is row-major, or column-major where it is `turned`.
static direct_array *direct_add(direct_chain *c, int64_t rows, int64_t columns,
                                bool turned, int copies) {
  direct_array *a = &c->arrays[c->array_count++];
  // A vector has no columns.
  dnnl_dims_t dims = {rows, columns};
  dnnl_dims_t strides = {turned || !columns ? 1 : columns, turned ? rows : 1};
  a->count = (size_t)(columns ? rows * columns : rows);
  a->moves = copies > 1;
  size_t count = a->count * (size_t)copies;
  a->data = aligned_alloc(64, count * sizeof(float));
  for (size_t i = 0; a->data && i < count; i++) {
    uint32_t bits = (uint32_t)i * 2654435761u;
    a->data[i] = (float)(bits >> 8) * 0x1p-22f - 2;
  }
  c->failed = c->failed || !a->data ||
              dnnl.memory_desc_init_by_strides(&a->desc, columns ? 2 : 1, dims,
                                               dnnl_f32, strides) ||
              dnnl.memory_create(&a->memory, &a->desc, c->engine, a->data);
  return a;
}

// Another step; its arguments are added by direct_arg.
static void direct_step_new(direct_chain *c, const void *desc,
                            const_dnnl_primitive_attr_t attr) {
  dnnl_primitive_desc_t primitive = NULL;
  direct_step *s = &c->steps[c->step_count];
  c->failed =
      c->failed ||
      dnnl.primitive_desc_create(&primitive, desc, attr, c->engine, NULL) ||
      dnnl.primitive_create(&s->primitive, primitive);
  if (primitive) {
    dnnl.primitive_desc_destroy(primitive);
  }
  c->step_count += !c->failed;
}

static void direct_arg(direct_chain *c, int kind, const direct_array *array) {
  if (!c->failed) {
    direct_step *s = &c->steps[c->step_count - 1];
    s->args[s->arg_count++] = (dnnl_exec_arg_t){kind, array->memory};
  }
}

// ---- rows

enum { SIDE = 4096 };

static void direct_softmax(direct_chain *c, const direct_array *from,
                           const direct_array *to) {
  dnnl_softmax_desc_t desc;
  c->failed = c->failed || dnnl.softmax_forward_desc_init(
                               &desc, dnnl_forward_inference, &from->desc, 1);
  direct_step_new(c, &desc, NULL);
  direct_arg(c, DNNL_ARG_SRC, from);
  direct_arg(c, DNNL_ARG_DST, to);
}

bool bench_onednn_softmax(int threads, bench_side *out_side) {
  direct_chain *c = direct_new(threads);
  if (c) {
    direct_array *x = direct_add(c, SIDE, SIDE, false, 1);
    direct_array *y = direct_add(c, SIDE, SIDE, false, 1);
    direct_softmax(c, x, y);
  }
  return direct_done(c, out_side);
}

bool bench_onednn_layernorm(int threads, bench_side *out_side) {
  direct_chain *c = direct_new(threads);
  if (c) {
    dnnl_layer_normalization_desc_t desc;
    direct_array *x = direct_add(c, SIDE, SIDE, false, 1);
    direct_array *y = direct_add(c, SIDE, SIDE, false, 1);
    direct_array *scale = direct_add(c, SIDE, 0, false, 1);
    direct_array *shift = direct_add(c, SIDE, 0, false, 1);
    c->failed = c->failed || dnnl.layer_normalization_forward_desc_init(
                                 &desc, dnnl_forward_inference, &x->desc, NULL,
                                 1e-5f, dnnl_use_scale | dnnl_use_shift);
    direct_step_new(c, &desc, NULL);
    direct_arg(c, DNNL_ARG_SRC, x);
    direct_arg(c, DNNL_ARG_DST, y);
    direct_arg(c, DNNL_ARG_SCALE, scale);
    direct_arg(c, DNNL_ARG_SHIFT, shift);
  }
  return direct_done(c, out_side);
}

// ---- attention

enum { HEADS = 12, LENGTH = 1024, WIDTH = 64 };

static void direct_mask(direct_array *mask) {
  for (size_t i = 0; mask->data && i < mask->count; i++) {
    size_t row = i / LENGTH, column = i % LENGTH;
    mask->data[i] = column > row ? -INFINITY : 0;
  }
}

// scores = q @ k.T / sqrt(WIDTH) + mask
static void direct_scores(direct_chain *c, const direct_array *q,
                          const direct_array *k, const direct_array *mask,
                          const direct_array *scores) {
  dnnl_matmul_desc_t desc;
  dnnl_post_ops_t after = NULL;
  dnnl_primitive_attr_t attr = NULL;
  c->failed =
      c->failed || dnnl.post_ops_create(&after) ||
      dnnl.primitive_attr_create(&attr) ||
      dnnl.post_ops_append_eltwise(after, 1, dnnl_eltwise_linear, 0.125f, 0) ||
      dnnl.post_ops_append_binary(after, dnnl_binary_add, &mask->desc);
  c->failed =
      c->failed || dnnl.primitive_attr_set_post_ops(attr, after) ||
      dnnl.matmul_desc_init(&desc, &q->desc, &k->desc, NULL, &scores->desc);
  direct_step_new(c, &desc, attr);
  direct_arg(c, DNNL_ARG_SRC, q);
  direct_arg(c, DNNL_ARG_WEIGHTS, k);
  direct_arg(c, DNNL_ARG_DST, scores);
  direct_arg(c, DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, mask);
  if (after) {
    dnnl.post_ops_destroy(after);
  }
  if (attr) {
    dnnl.primitive_attr_destroy(attr);
  }
}

bool bench_onednn_attention(int threads, bench_side *out_side) {
  direct_chain *c = direct_new(threads);
  if (c) {
    dnnl_matmul_desc_t desc;
    direct_array *q = direct_add(c, LENGTH, WIDTH, false, HEADS);
    direct_array *k = direct_add(c, WIDTH, LENGTH, true, HEADS);
    direct_array *v = direct_add(c, LENGTH, WIDTH, false, HEADS);
    direct_array *mask = direct_add(c, LENGTH, LENGTH, false, 1);
    direct_array *scores = direct_add(c, LENGTH, LENGTH, false, 1);
    direct_array *y = direct_add(c, LENGTH, WIDTH, false, HEADS);
    c->repeats = HEADS;
    direct_mask(mask);
    direct_scores(c, q, k, mask, scores);
    direct_softmax(c, scores, scores);
    c->failed = c->failed || dnnl.matmul_desc_init(&desc, &scores->desc,
                                                   &v->desc, NULL, &y->desc);
    direct_step_new(c, &desc, NULL);
    direct_arg(c, DNNL_ARG_SRC, scores);
    direct_arg(c, DNNL_ARG_WEIGHTS, v);
    direct_arg(c, DNNL_ARG_DST, y);
  }
  return direct_done(c, out_side);
}

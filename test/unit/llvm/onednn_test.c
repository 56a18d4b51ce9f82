// Products through oneDNN against the oracle: shapes, strides, what follows
// them, NaN, and calls from several threads.
#include "thunder/thunder.h"

#include "torture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct onednn_case {
  const char *inputs[6]; // "x f32[2, 3]"
  const char *body;      // statements; the result is z
  const char *region;    // stands in the final trace
} onednn_case;

static void onednn_text(const onednn_case *c, char *out, size_t size) {
  size_t n = (size_t)snprintf(out, size, "def f(");
  for (int i = 0; i < 6 && c->inputs[i]; i++) {
    int name = (int)strcspn(c->inputs[i], " ");
    n += (size_t)snprintf(out + n, size - n, "%s%.*s", i ? ", " : "", name,
                          c->inputs[i]);
  }
  n += (size_t)snprintf(out + n, size - n, "):\n");
  for (int i = 0; i < 6 && c->inputs[i]; i++) {
    int name = (int)strcspn(c->inputs[i], " ");
    n += (size_t)snprintf(out + n, size - n, "  # %.*s: \"cpu %s\"\n", name,
                          c->inputs[i], c->inputs[i] + name + 1);
  }
  snprintf(out + n, size - n, "%s  return z\n", c->body);
}

static th_callable *onednn_compile(th_context *ctx, const char *text,
                                   const char *executors) {
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *f = NULL;
  options.executors = executors;
  options.constant_weights = true;
  options.no_cache = options.verify_each = options.roundtrip_each = true;
  th_status status = th_jit_text(ctx, "t", text, strlen(text), &options, &f);
  cr_assert_eq(status, TH_OK, "%s%s", text, th_diagnostics_all(ctx));
  return f;
}

static size_t onednn_inputs(th_context *ctx, const th_callable *f,
                            th_tensor *in[6]) {
  size_t count = th_callable_input_count(f);
  uint32_t state = 12345;
  for (size_t i = 0; i < count; i++) {
    int64_t dims[12];
    int rank = th_callable_input_rank(f, i);
    for (int d = 0; d < rank; d++) {
      dims[d] = th_callable_input_dim(f, i, d, 3);
    }
    cr_assert_eq(th_tensor_new(ctx, TH_F32, rank, dims, &in[i]), TH_OK);
    for (int64_t k = 0; k < th_tensor_numel(in[i]); k++) {
      state = state * 1664525 + 1013904223;
      th_tensor_set(in[i], k, (double)(state >> 8) / (1 << 23) - 1);
    }
  }
  return count;
}

static void onednn_check(const onednn_case *c, const char *poison) {
  th_context *ctx = th_context_new();
  char text[2048];
  th_tensor *in[6] = {NULL}, *got = NULL, *want = NULL;
  onednn_text(c, text, sizeof text);
  th_callable *f = onednn_compile(ctx, text, "onednn,host");
  th_callable *g = onednn_compile(ctx, text, "ref");
  const char *const *texts;
  size_t traces = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
  cr_expect(strstr(texts[traces - 1], c->region), "%s", texts[traces - 1]);
  size_t count = onednn_inputs(ctx, f, in);
  if (poison) {
    th_tensor_set(in[0], 1, strtod(poison, NULL));
  }
  cr_assert_eq(th_call(f, in, count, &got, 1), TH_OK, "%s%s", text,
               th_diagnostics_all(ctx));
  cr_assert_eq(th_call(g, in, count, &want, 1), TH_OK);
  th_difference d;
  cr_expect_eq(th_tensor_compare(ctx, got, want, 1e-5, 1e-5, &d), TH_OK);
  cr_expect_eq(d.count, 0, "%sat %ld got %g want %g", text, (long)d.index,
               d.got, d.want);
  for (size_t i = 0; i < count; i++) {
    th_tensor_release(in[i]);
  }
  th_tensor_release(got);
  th_tensor_release(want);
  th_callable_free(f);
  th_callable_free(g);
  th_context_free(ctx);
}

static const onednn_case onednn_cases[] = {
    {{"x f32[5, 7]", "w f32[9, 7]"}, "  z = linear(x, w)\n", "onednnFusion0"},
    {{"x f32[1, 7]", "w f32[9, 7]", "b f32[9]"},
     "  z = linear(x, w, b)\n",
     "onednnFusion0(x, w, b)"},
    {{"x f32[5, 7]", "w f32[1, 7]", "b f32[1]"},
     "  z = linear(x, w, b)\n",
     "onednnFusion0(x, w, b)"},
    {{"x f32[2, 3, 16]", "w f32[32, 16]", "b f32[32]"},
     "  y = linear(x, w, b)\n  z = gelu(y)\n",
     "[z] = onednnFusion0(x, w, b)"},
    {{"x f32[2, 3, 16]", "w f32[32, 16]", "r f32[2, 3, 32]", "s f32[32]"},
     "  y = linear(x, w)\n  a = gelu(y, 'tanh')\n  b = add(r, a)\n"
     "  c = mul(b, s)\n  d = sub(1.5, c)\n  e = silu(d)\n  z = sub(e, r)\n",
     "[z] = onednnFusion0(x, w, r, s)"},
    {{"x f32[4, 3, 5]", "w f32[6, 4]"}, // rows that do not lie in one matrix
     "  t = permute(x, [1, 2, 0])\n  y = linear(t, w)\n  z = sigmoid(y)\n",
     "[z] = onednnFusion0(t, w)"},
    {{"x f32[6, 4]", "y f32[4, 5]"}, "  z = matmul(x, y)\n", "onednnFusion0"},
    {{"x f32[4, 6]", "y f32[5, 4]"},
     "  a = permute(x, [1, 0])\n  b = permute(y, [1, 0])\n"
     "  c = matmul(a, b)\n  z = tanh(c)\n",
     "[z] = onednnFusion0(a, b)"},
    {{"x f32[2, 3, 5, 8]", "y f32[2, 3, 7, 8]", "m f32[2, 3, 5, 7]"},
     "  t = permute(y, [0, 1, 3, 2])\n  s = matmul(x, t)\n"
     "  u = mul(s, 0.125)\n  z = add(u, m)\n",
     "[z] = onednnFusion0(x, t, m)"},
    {{"x f32[2, 1, 5, 8]", "y f32[3, 8, 7]"},
     "  z = matmul(x, y)\n",
     "onednnFusion0"},
    {{"x f32[3, 5, 8]", "y f32[8, 7]", "r f32[3, 5, 7]"},
     "  s = matmul(x, y)\n  z = sub(s, r)\n",
     "[z] = onednnFusion0(x, y, r)"},
    {{"x f32[1, 5, 8]", "y f32[8, 7]"},
     "  e = expand(x, [4, 5, 8])\n  z = matmul(e, y)\n",
     "onednnFusion0(e, y)"},
    {{"x f32[0, 8]", "w f32[7, 8]"}, "  z = linear(x, w)\n", "onednnFusion0"},
    // Two readers, a broadcast column, an operand that changes the type: not
    // taken along.
    {{"x f32[5, 8]", "w f32[7, 8]"},
     "  y = linear(x, w)\n  a = tanh(y)\n  z = add(a, y)\n",
     "[y] = onednnFusion0(x, w)"},
    {{"x f32[5, 8]", "w f32[7, 8]", "c f32[5, 1]"},
     "  y = linear(x, w)\n  z = add(y, c)\n",
     "[y] = onednnFusion0(x, w)"},
    {{"x f32[5, 8]", "w f32[7, 8]", "r f32[2, 5, 7]"},
     "  y = linear(x, w)\n  z = add(y, r)\n",
     "[y] = onednnFusion0(x, w)"},
};

Test(onednn, products_are_those_of_the_oracle) {
  for (size_t i = 0; i < sizeof onednn_cases / sizeof *onednn_cases; i++) {
    onednn_check(&onednn_cases[i], NULL);
  }
}

Test(onednn, nan_and_infinity_pass_through) {
  static const char *const functions[] = {
      "gelu(y)",    "gelu(y, 'tanh')", "silu(y)",  "tanh(y)",
      "sigmoid(y)", "relu(y)",         "mul(y, 0)"};
  static const char *const values[] = {"nan", "inf", "-inf"};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    char body[128];
    snprintf(body, sizeof body, "  y = linear(x, w)\n  z = %s\n", functions[i]);
    onednn_case c = {{"x f32[5, 8]", "w f32[7, 8]"}, body, "onednnFusion0"};
    for (int k = 0; k < 3; k++) {
      onednn_check(&c, values[k]);
    }
  }
}

typedef struct onednn_worker {
  pthread_t thread;
  th_callable *f;
  int wrong;
} onednn_worker;

static void *onednn_work(void *user) {
  onednn_worker *w = user;
  for (int round = 0; round < 200; round++) {
    th_tensor *in[2] = {NULL}, *out = NULL;
    const int64_t x[] = {1 + round % 40, 33}, y[] = {17, 33};
    w->wrong += th_tensor_new(NULL, TH_F32, 2, x, &in[0]) ||
                th_tensor_new(NULL, TH_F32, 2, y, &in[1]) ||
                th_tensor_fill(NULL, in[0], 1) ||
                th_tensor_fill(NULL, in[1], 2) || th_call(w->f, in, 2, &out, 1);
    for (int64_t i = 0; out && i < th_tensor_numel(out); i++) {
      w->wrong += th_tensor_get(out, i) != 67; // 2 * 33 + 1
    }
    th_tensor_release(in[0]);
    th_tensor_release(in[1]);
    th_tensor_release(out);
  }
  return NULL;
}

// More sets of sizes than are kept, from four threads, with weights in an order
// of the library's own.
Test(onednn, threads_share_primitives) {
  th_context *ctx = th_context_new();
  th_callable *f = onednn_compile(ctx,
                                  "def f(x, w):\n"
                                  "  # x: \"cpu f32[s0, 33]\"\n"
                                  "  # w: \"cpu f32[17, 33]\"  param w\n"
                                  "  # s0: \"int\" in [1, 64]\n"
                                  "  y = linear(x, w)\n"
                                  "  z = add(y, 1)\n"
                                  "  return z\n",
                                  "onednn,host");
  onednn_worker workers[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (onednn_worker){.f = f};
    cr_assert_eq(
        pthread_create(&workers[i].thread, NULL, onednn_work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(workers[i].thread, NULL);
    cr_expect_eq(workers[i].wrong, 0);
  }
  th_callable_free(f);
  th_context_free(ctx);
}

static th_status onednn_torture(void *user) {
  (void)user;
  static const char text[] = "def f(x, w):\n"
                             "  # x: \"cpu f32[4, 3, 5]\"\n"
                             "  # w: \"cpu f32[16, 4]\"  param w\n"
                             "  t = permute(x, [1, 2, 0])\n"
                             "  y = linear(t, w)\n"
                             "  z = gelu(y)\n"
                             "  return z\n";
  const int64_t dims[2][3] = {{4, 3, 5}, {16, 4}};
  th_context *own = th_context_new();
  th_callable *f = NULL;
  th_tensor *in[2] = {NULL}, *out = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "onednn";
  options.constant_weights = true;
  th_status status = own ? TH_OK : TH_NO_MEMORY;
  for (int i = 0; i < 2 && status == TH_OK; i++) {
    status = th_tensor_new(own, TH_F32, 3 - i, dims[i], &in[i]);
  }
  if (status == TH_OK) {
    status = th_jit_text(own, "t", text, sizeof text - 1, &options, &f);
  }
  for (int i = 0; i < 2 && status == TH_OK; i++) {
    status = th_call(f, in, 2, &out, 1);
  }
  th_tensor_release(in[0]);
  th_tensor_release(in[1]);
  th_tensor_release(out);
  th_callable_free(f);
  th_context_free(own);
  return status;
}

Test(onednn, every_allocation_fails) { torture(onednn_torture, NULL); }

// Products through oneDNN against the oracle: shapes, strides, what follows
// them, NaN, and calls from several threads.
#include "against.h"
#include "torture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const against_case onednn_cases[] = {
    {{"x f32[3, 4, 2]", "y f32[6, 4, 2]", "r f32[2, 3, 6]"}, // batch inmost
     "  a = permute(x, [2, 0, 1])\n  b = permute(y, [2, 1, 0])\n"
     "  c = matmul(a, b)\n  z = add(c, r)\n",
     "[z] = onednnFusion0(a, b, r)"},
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
    against_ref(&onednn_cases[i], "onednn,host", NULL);
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
    against_case c = {{"x f32[5, 8]", "w f32[7, 8]"}, body, "onednnFusion0"};
    for (int k = 0; k < 3; k++) {
      against_ref(&c, "onednn,host", values[k]);
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
  th_callable *f = against_compile(ctx,
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

// Attention by `flash` against the oracle: masks, heads, strides, sizes that
// end inside blocks and tiles, rows that see nothing.
#include "against.h"
#include "torture.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SDPA "scaled_dot_product_attention"

static const against_case flash_cases[] = {
    {{"q f32[5, 8]", "k f32[7, 8]", "v f32[7, 3]"},
     "  z = " SDPA "(q, k, v)\n",
     "flashFusion0"},
    {{"q f32[2, 3, 70, 16]", "k f32[2, 3, 700, 16]", "v f32[2, 3, 700, 8]"},
     "  z = " SDPA "(q, k, v)\n",
     "[z] = flashFusion0(q, k, v)"},
    {{"q f32[3, 130, 16]", "k f32[3, 130, 16]", "v f32[3, 130, 16]"},
     "  z = " SDPA "(q, k, v, is_causal=True)\n",
     "flashFusion0"},
    {{"q f32[3, 300, 4]", "k f32[3, 130, 4]", "v f32[3, 130, 4]"},
     "  z = " SDPA "(q, k, v, is_causal=True, scale=0.3)\n",
     "flashFusion0"},
    {{"q f32[2, 130, 4]", "k f32[2, 300, 4]", "v f32[2, 300, 4]"},
     "  z = " SDPA "(q, k, v, is_causal=True)\n",
     "flashFusion0"},
    {{"q f32[1, 8]", "k f32[1000, 8]", "v f32[1000, 8]"}, // a decoding step
     "  z = " SDPA "(q, k, v)\n",
     "flashFusion0"},
    {{"q f32[2, 70, 16]", "k f32[2, 90, 16]", "v f32[2, 90, 16]",
      "m f32[70, 90]"},
     "  z = " SDPA "(q, k, v, m)\n",
     "flashFusion0(q, k, v, m)"},
    {{"q f32[2, 70, 16]", "k f32[2, 90, 16]", "v f32[2, 90, 16]",
      "m b8[2, 1, 90]"},
     "  z = " SDPA "(q, k, v, m)\n",
     "flashFusion0(q, k, v, m)"},
    {{"q f32[2, 70, 16]", "k f32[2, 90, 16]", "v f32[2, 90, 16]",
      "m b8[90, 70]"},
     "  t = permute(m, [1, 0])\n  z = " SDPA "(q, k, v, t)\n",
     "flashFusion0(q, k, v, t)"},
    {{"q f32[2, 6, 5, 8]", "k f32[2, 3, 9, 8]", "v f32[2, 3, 9, 8]",
      "m b8[2, 6, 5, 9]"},
     "  z = " SDPA "(q, k, v, m, enable_gqa=True)\n",
     "flashFusion0(q, k, v, m)"},
    {{"q f32[2, 6, 5, 8]", "k f32[1, 1, 9, 8]", "v f32[6, 9, 8]"},
     "  z = " SDPA "(q, k, v)\n", // batches that are repeated
     "flashFusion0(q, k, v)"},
    {{"x f32[2, 70, 3, 4, 16]"}, // heads that lie inside rows
     "  a = permute(x, [2, 0, 3, 1, 4])\n"
     "  q = select(a, 0, 0)\n  k = select(a, 0, 1)\n  v = select(a, 0, 2)\n"
     "  z = " SDPA "(q, k, v, is_causal=True)\n",
     "flashFusion0("},
    {{"a f32[2, 16, 70]", "b f32[2, 16, 90]", "c f32[2, 16, 90]"}, // columns
     "  q = permute(a, [0, 2, 1])\n  k = permute(b, [0, 2, 1])\n"
     "  v = permute(c, [0, 2, 1])\n  z = " SDPA "(q, k, v)\n",
     "flashFusion0(q, k, v)"},
    {{"a f32[16, 2, 70]", "b f32[70, 16, 2]", "v f32[1, 1, 16]"}, // neither
     "  q = permute(a, [1, 2, 0])\n  k = permute(b, [2, 0, 1])\n"
     "  w = expand(v, [2, 70, 16])\n  z = " SDPA "(q, k, w)\n",
     "flashFusion0(q, k, w)"},
    {{"x f32[3, 70, 70]"}, // one tensor in each place
     "  z = " SDPA "(x, x, x)\n",
     "flashFusion0(x)"},
};

Test(flash, agrees_with_ref) {
  for (size_t i = 0; i < sizeof flash_cases / sizeof *flash_cases; i++) {
    against_ref(&flash_cases[i], "flash,host", NULL);
  }
}

Test(flash, nan_and_infinity_pass_through) {
  static const char *const values[] = {"nan", "inf", "-inf"};
  for (int i = 0; i < 3; i++) {
    against_ref(&flash_cases[1], "flash,host", values[i]);
  }
}

// Rows that see nothing at all, nothing in the first tile, or -inf everywhere.
Test(flash, hidden_rows) {
  static const char *const masks[] = {
      "  m = ge(i, 900)\n", "  m = ge(i, 600)\n",
      "  h = lt(i, 900)\n  m = where(h, -inf, 0.0)\n",
      "  h = lt(i, 600)\n  m = where(h, -inf, 0.0)\n"};
  for (size_t k = 0; k < 4; k++) {
    char body[512] = "  i = arange(0, 900, 1, i64)\n";
    strcat(body, masks[k]);
    strcat(body, "  z = " SDPA "(q, k, v, m)\n");
    against_case c = {{"q f32[70, 8]", "k f32[900, 8]", "v f32[900, 8]"},
                      body,
                      "= flashFusion"};
    against_ref(&c, "flash,host", NULL);
  }
}

static const char flash_text[] = "def f(q, k):\n"
                                 "  # q: \"cpu f32[4, s0, 16]\"\n"
                                 "  # k: \"cpu f32[4, s1, 16]\"\n"
                                 "  # s0: \"int\" in [1, inf]\n"
                                 "  # s1: \"int\" in [1, inf]\n"
                                 "  y = " SDPA "(q, k, k)\n"
                                 "  return y\n";

static th_status flash_call(th_callable *f, int64_t queries, int64_t keys,
                            th_tensor **out) {
  const int64_t dims[2][3] = {{4, queries, 16}, {4, keys, 16}};
  th_tensor *in[2] = {NULL};
  th_status status = TH_OK;
  for (int i = 0; i < 2 && status == TH_OK; i++) {
    status = th_tensor_new(NULL, TH_F32, 3, dims[i], &in[i]);
    for (int64_t k = 0; status == TH_OK && k < th_tensor_numel(in[i]); k++) {
      th_tensor_set(in[i], k, (double)(k * 7919 % 101) / 50 - 1);
    }
  }
  status = status == TH_OK ? th_call(f, in, 2, out, 1) : status;
  th_tensor_release(in[0]);
  th_tensor_release(in[1]);
  return status;
}

static th_callable *flash_compile(th_context *ctx, int threads) {
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *f = NULL;
  options.executors = "flash";
  options.threads = threads;
  th_status status =
      th_jit_text(ctx, "t", flash_text, sizeof flash_text - 1, &options, &f);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(ctx));
  return f;
}

typedef struct flash_worker {
  pthread_t thread;
  th_callable *f;
  th_tensor *const *want;
  int wrong;
} flash_worker;

static void *flash_work(void *user) {
  flash_worker *w = user;
  for (int round = 0; round < 60; round++) {
    th_tensor *out = NULL;
    int which = round % 3;
    w->wrong += flash_call(w->f, 1 + 70 * which, 600, &out) != TH_OK;
    w->wrong +=
        !out || memcmp(th_tensor_data(out), th_tensor_data(w->want[which]),
                       (size_t)th_tensor_numel(out) * sizeof(float));
    th_tensor_release(out);
  }
  return NULL;
}

// Bit for bit, whoever calls and however many threads share the blocks.
Test(flash, results_repeat) {
  th_context *ctx = th_context_new();
  th_callable *one = flash_compile(ctx, 1), *three = flash_compile(ctx, 3);
  th_tensor *want[3] = {NULL};
  flash_worker workers[4];
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(flash_call(one, 1 + 70 * i, 600, &want[i]), TH_OK);
  }
  for (int i = 0; i < 4; i++) {
    workers[i] = (flash_worker){.f = i % 2 ? one : three, .want = want};
    cr_assert_eq(
        pthread_create(&workers[i].thread, NULL, flash_work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(workers[i].thread, NULL);
    cr_expect_eq(workers[i].wrong, 0);
  }
  for (int i = 0; i < 3; i++) {
    th_tensor_release(want[i]);
  }
  th_callable_free(one);
  th_callable_free(three);
  th_context_free(ctx);
}

static th_status flash_torture(void *user) {
  (void)user;
  th_context *own = th_context_new();
  th_callable *f = NULL;
  th_tensor *out = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "flash";
  th_status status = own ? TH_OK : TH_NO_MEMORY;
  if (status == TH_OK) {
    status =
        th_jit_text(own, "t", flash_text, sizeof flash_text - 1, &options, &f);
  }
  status = status == TH_OK ? flash_call(f, 3, 5, &out) : status;
  th_tensor_release(out);
  th_callable_free(f);
  th_context_free(own);
  return status;
}

Test(flash, every_allocation_fails) {
  cr_assert_eq(flash_torture(NULL), TH_OK); // what the process keeps
  torture(flash_torture, NULL);
}

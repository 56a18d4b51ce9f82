// Results that are stored past the caches: right for every alignment.
#include "thunder/jit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2049, COLUMNS = 4096 }; // more than 32 MiB, an odd last row

static const char text[] = "def computation(x, b):\n"
                           "  # x: \"cpu f32[2049, 4096]\"\n"
                           "  # b: \"cpu f32[4096]\"\n"
                           "  t0 = add(x, b)\n"
                           "  return {'output': t0}\n";

static th_tensor *tensor_at(th_context *ctx, float *data, int rank) {
  int64_t dims[] = {ROWS, COLUMNS};
  th_tensor *t = NULL;
  cr_assert_eq(th_tensor_from_data(ctx, data, TH_F32, rank, dims + (2 - rank),
                                   NULL, NULL, NULL, &t),
               TH_OK);
  return t;
}

static void expect_sum(int shift, int threads) {
  enum { N = ROWS * COLUMNS };
  th_context *ctx = th_context_new();
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *add = NULL;
  float *x = calloc(N, sizeof *x), *b = calloc(COLUMNS, sizeof *b);
  float *y = aligned_alloc(64, (N + 64) * sizeof *y);
  memset(y, 0, (N + 64) * sizeof *y);
  for (int i = 0; i < N; i++) {
    x[i] = (float)(i % 8191);
  }
  for (int i = 0; i < COLUMNS; i++) {
    b[i] = (float)i;
  }
  options.executors = "host";
  options.threads = threads;
  cr_assert_eq(th_jit_text(ctx, "add", text, sizeof text - 1, &options, &add),
               TH_OK, "%s", th_diagnostics_all(ctx));
  th_tensor *in[] = {tensor_at(ctx, x, 2), tensor_at(ctx, b, 1)};
  th_tensor *out = tensor_at(ctx, y + shift, 2);
  cr_assert_eq(th_call(add, in, 2, &out, 1), TH_OK);
  int wrong = 0;
  for (int i = 0; i < N; i++) {
    wrong += y[shift + i] != x[i] + b[i % COLUMNS];
  }
  cr_expect_eq(wrong, 0);
  cr_expect_eq(y[shift + N], 0, "a store past the end");
  th_tensor_release(in[0]);
  th_tensor_release(in[1]);
  th_tensor_release(out);
  th_callable_free(add);
  th_context_free(ctx);
  free(x);
  free(b);
  free(y);
}

Test(stream, aligned) { expect_sum(0, 1); }
Test(stream, aligned_threads) { expect_sum(0, 2); }
Test(stream, not_aligned) { expect_sum(1, 1); }

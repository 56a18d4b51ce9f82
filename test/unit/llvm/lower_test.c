// Kernels against plain loops.
#include "lower_kit.h"

#include "base/alloc.h"
#include "base/half.h"
#include "lowering/canonical.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void near(const float *got, const float *want, size_t count,
                 float tolerance) {
  for (size_t i = 0; i < count; i++) {
    float error = fabsf(got[i] - want[i]);
    cr_assert(error <= tolerance * (1 + fabsf(want[i])),
              "at %zu: got %.9g, wanted %.9g", i, got[i], want[i]);
  }
}

// Sizes around the lanes of every machine, cut into pieces.
Test(lower, elementwise_of_any_size) {
  static const int sizes[] = {0, 1, 7, 16, 63, 64, 65, 100, 4096, 10000};
  for (size_t k = 0; k < TH_COUNT(sizes); k++) {
    lower_kit kit;
    int n = sizes[k];
    float *x = malloc((size_t)(n + 1) * 4), *y = malloc((size_t)(n + 1) * 4);
    float *want = malloc((size_t)(n + 1) * 4);
    lower_kit_open(&kit, "def f(x, y):\n"
                         "  # x: \"cpu f32[s0]\"\n"
                         "  # y: \"cpu f32[s0]\"\n"
                         "  # s0: \"int\" in [0, inf]\n"
                         "  a = mul(x, y)\n"
                         "  b = add(a, 2.0)\n"
                         "  c = exp(b)\n"
                         "  return {'output': (c, a)}\n");
    cr_assert_eq(lower_kit_kernels(&kit), 1);
    lower_kit_symbol(&kit, "s0", n);
    lower_kit_fill(x, (size_t)n, 1);
    lower_kit_fill(y, (size_t)n, 2);
    lower_kit_input(&kit, "x", x);
    lower_kit_input(&kit, "y", y);
    kit.threads = 3;
    cr_assert(lower_kit_run(&kit));
    for (int i = 0; i < n; i++) {
      want[i] = expf(x[i] * y[i] + 2.0f);
    }
    near(lower_kit_output(&kit, 0), want, (size_t)n, 1e-6f);
    for (int i = 0; i < n; i++) {
      want[i] = x[i] * y[i];
    }
    near(lower_kit_output(&kit, 1), want, (size_t)n, 0);
    lower_kit_close(&kit);
    free(x);
    free(y);
    free(want);
  }
}

Test(lower, views_and_broadcast) {
  lower_kit kit;
  float x[2 * 6 * 8], bias[4], want[2 * 3 * 4 * 4];
  lower_kit_open(&kit, "def f(x, bias):\n"
                       "  # x: \"cpu f32[2, 6, 8]\"\n"
                       "  # bias: \"cpu f32[4]\"\n"
                       "  a = reshape(x, [2, 6, 2, 4])\n"
                       "  b = permute(a, [0, 2, 1, 3])\n"
                       "  c = slice(b, 2, 1, 4)\n"
                       "  d = add(c, bias)\n"
                       "  e = permute(d, [0, 2, 1, 3])\n"
                       "  g = reshape(e, [2, 3, 8])\n"
                       "  return {'output': g}\n");
  lower_kit_fill(x, TH_COUNT(x), 3);
  lower_kit_fill(bias, 4, 4);
  lower_kit_input(&kit, "x", x);
  lower_kit_input(&kit, "bias", bias);
  cr_assert(lower_kit_run(&kit));
  for (int b = 0; b < 2; b++) {
    for (int t = 0; t < 3; t++) {
      for (int c = 0; c < 8; c++) {
        want[(b * 3 + t) * 8 + c] = x[(b * 6 + t + 1) * 8 + c] + bias[c % 4];
      }
    }
  }
  near(lower_kit_output(&kit, 0), want, 2 * 3 * 8, 0);
  lower_kit_close(&kit);
}

static void softmax_row(const float *x, float *y, int n) {
  double sum = 0;
  float max = -INFINITY;
  for (int i = 0; i < n; i++) {
    max = fmaxf(max, x[i]);
  }
  for (int i = 0; i < n; i++) {
    sum += exp((double)x[i] - max);
  }
  for (int i = 0; i < n; i++) {
    y[i] = (float)(exp((double)x[i] - max) / sum);
  }
}

Test(lower, softmax_is_one_kernel) {
  static const int sizes[] = {1, 5, 64, 100, 333};
  for (size_t k = 0; k < TH_COUNT(sizes); k++) {
    lower_kit kit;
    int n = sizes[k];
    float *x = malloc((size_t)n * 7 * 4), *want = malloc((size_t)n * 7 * 4);
    lower_kit_open(&kit, "def f(x):\n"
                         "  # x: \"cpu f32[7, s0]\"\n"
                         "  # s0: \"int\" in [1, inf]\n"
                         "  m = amax(x, [1], True)\n"
                         "  d = sub(x, m)\n"
                         "  e = exp(d)\n"
                         "  s = sum(e, [1], True)\n"
                         "  y = div(e, s)\n"
                         "  return {'output': y}\n");
    cr_assert_eq(lower_kit_kernels(&kit), 1);
    lower_kit_symbol(&kit, "s0", n);
    lower_kit_fill(x, (size_t)n * 7, 5);
    lower_kit_input(&kit, "x", x);
    kit.threads = 2;
    cr_assert(lower_kit_run(&kit));
    for (int r = 0; r < 7; r++) {
      softmax_row(x + r * n, want + r * n, n);
    }
    near(lower_kit_output(&kit, 0), want, (size_t)n * 7, 2e-6f);
    lower_kit_close(&kit);
    free(x);
    free(want);
  }
}

Test(lower, products) {
  enum { M = 5, K = 37, N = 70 };
  lower_kit kit;
  float x[M * K], w[N * K], b[N], want[M * N];
  lower_kit_open(&kit, "def f(x, w, b):\n"
                       "  # x: \"cpu f32[5, 37]\"\n"
                       "  # w: \"cpu f32[70, 37]\"\n"
                       "  # b: \"cpu f32[70]\"\n"
                       "  y = linear(x, w, b)\n"
                       "  t = permute(w, [1, 0])\n"
                       "  z = matmul(x, t)\n"
                       "  return {'output': (y, z)}\n");
  lower_kit_fill(x, TH_COUNT(x), 6);
  lower_kit_fill(w, TH_COUNT(w), 7);
  lower_kit_fill(b, TH_COUNT(b), 8);
  lower_kit_input(&kit, "x", x);
  lower_kit_input(&kit, "w", w);
  lower_kit_input(&kit, "b", b);
  cr_assert(lower_kit_run(&kit));
  for (int m = 0; m < M; m++) {
    for (int n = 0; n < N; n++) {
      double sum = 0;
      for (int k = 0; k < K; k++) {
        sum += (double)x[m * K + k] * w[n * K + k];
      }
      want[m * N + n] = (float)sum;
    }
  }
  near(lower_kit_output(&kit, 1), want, M * N, 1e-5f);
  for (int i = 0; i < M * N; i++) {
    want[i] += b[i % N];
  }
  near(lower_kit_output(&kit, 0), want, M * N, 1e-5f);
  lower_kit_close(&kit);
}

// x[m, k] * w[n, k] with sizes around tiles, panels and blocks.
static void check_linear(int m, int k, int n, const char *sizes) {
  lower_kit kit;
  char text[400];
  float *x = malloc((size_t)(m * k) * 4), *w = malloc((size_t)(n * k) * 4);
  float *wt = malloc((size_t)(n * k) * 4), *want = malloc((size_t)(m * n) * 4);
  snprintf(text, sizeof text,
           "def f(x, w, wt):\n"
           "  # x: \"cpu f32[%s, %d]\"\n"
           "  # w: \"cpu f32[%d, %d]\"\n"
           "  # wt: \"cpu f32[%d, %d]\"\n"
           "  # s0: \"int\" in [1, inf]\n"
           "  y = linear(x, w, None)\n"
           "  z = matmul(x, wt)\n"
           "  return {'output': (y, z)}\n",
           sizes, k, n, k, k, n);
  lower_kit_open(&kit, text);
  lower_kit_symbol(&kit, "s0", m);
  lower_kit_fill(x, (size_t)(m * k), 1);
  lower_kit_fill(w, (size_t)(n * k), 2);
  for (int i = 0; i < n * k; i++) {
    wt[i % k * n + i / k] = w[i];
  }
  lower_kit_input(&kit, "x", x);
  lower_kit_input(&kit, "w", w);
  lower_kit_input(&kit, "wt", wt);
  kit.threads = 2;
  cr_assert(lower_kit_run(&kit));
  for (int r = 0; r < m; r++) {
    for (int c = 0; c < n; c++) {
      double sum = 0;
      for (int i = 0; i < k; i++) {
        sum += (double)x[r * k + i] * w[c * k + i];
      }
      want[r * n + c] = (float)sum;
    }
  }
  near(lower_kit_output(&kit, 0), want, (size_t)(m * n), 2e-5f);
  near(lower_kit_output(&kit, 1), want, (size_t)(m * n), 2e-5f);
  lower_kit_close(&kit);
  free(x);
  free(w);
  free(wt);
  free(want);
}

Test(lower, products_of_any_shape) {
  static const int shapes[][3] = {{1, 64, 48},    {1, 37, 100},  {3, 130, 70},
                                  {9, 16, 16},    {13, 300, 65}, {130, 257, 49},
                                  {150, 40, 200}, {8, 5, 9}};
  for (size_t i = 0; i < TH_COUNT(shapes); i++) {
    char size[16];
    snprintf(size, sizeof size, "%d", shapes[i][0]);
    check_linear(shapes[i][0], shapes[i][1], shapes[i][2], size);
    check_linear(shapes[i][0], shapes[i][1], shapes[i][2], "s0");
  }
}

Test(lower, gathers_check_their_indices) {
  lower_kit kit;
  float table[5 * 70], want[3 * 70];
  int64_t rows[3] = {4, -5, 2};
  lower_kit_open(&kit, "def f(table, rows):\n"
                       "  # table: \"cpu f32[5, 70]\"\n"
                       "  # rows: \"cpu i64[3]\"\n"
                       "  y = embedding(table, rows)\n"
                       "  return {'output': y}\n");
  lower_kit_fill(table, TH_COUNT(table), 1);
  lower_kit_input(&kit, "table", table);
  lower_kit_input(&kit, "rows", rows);
  cr_assert(lower_kit_run(&kit));
  for (int i = 0; i < 3 * 70; i++) {
    int64_t row = rows[i / 70] < 0 ? rows[i / 70] + 5 : rows[i / 70];
    want[i] = table[row * 70 + i % 70];
  }
  near(lower_kit_output(&kit, 0), want, TH_COUNT(want), 0);
  rows[1] = 5;
  cr_assert_not(lower_kit_run(&kit));
  cr_assert_eq(kit.error.code, TH_KERNEL_INDEX);
  cr_assert_eq(kit.error.value, 5);
  cr_assert_eq(kit.error.limit, 5);
  cr_assert_eq(kit.error.stmt, 0);
  lower_kit_close(&kit);
}

Test(lower, parts_side_by_side) {
  lower_kit kit;
  float x[3 * 7], y[3 * 40], want[3 * 49];
  lower_kit_open(&kit, "def f(x, y):\n"
                       "  # x: \"cpu f32[3, 7]\"\n"
                       "  # y: \"cpu f32[3, 40]\"\n"
                       "  c = cat([x, y], 1)\n"
                       "  p = pad(c, [1, 1, 0, 0], 0.5)\n"
                       "  r = flip(p, [1])\n"
                       "  return {'output': r}\n");
  lower_kit_fill(x, TH_COUNT(x), 1);
  lower_kit_fill(y, TH_COUNT(y), 2);
  lower_kit_input(&kit, "x", x);
  lower_kit_input(&kit, "y", y);
  cr_assert(lower_kit_run(&kit));
  for (int r = 0; r < 3; r++) {
    for (int c = 0; c < 49; c++) {
      int at = 48 - c - 1;
      want[r * 49 + c] = at < 0 || at >= 47 ? 0.5f
                         : at < 7           ? x[r * 7 + at]
                                            : y[r * 40 + at - 7];
    }
  }
  near(lower_kit_output(&kit, 0), want, TH_COUNT(want), 0);
  lower_kit_close(&kit);
}

Test(lower, convolution_of_short_lines) {
  enum { C = 3, O = 20, H = 9, W = 7 };
  lower_kit kit;
  float x[2 * C * H * W], w[O * C * 9], b[O], want[2 * O * H * W];
  lower_kit_open(&kit,
                 "def f(x, w, b):\n"
                 "  # x: \"cpu f32[2, 3, 9, 7]\"\n"
                 "  # w: \"cpu f32[20, 3, 3, 3]\"\n"
                 "  # b: \"cpu f32[20]\"\n"
                 "  y = convolution(x, w, b, [1, 1], [1, 1], [1, 1], False, "
                 "[0, 0], 1)\n"
                 "  z = maximum(y, 0)\n"
                 "  return {'output': z}\n");
  cr_assert_eq(lower_kit_kernels(&kit), 1);
  lower_kit_fill(x, TH_COUNT(x), 1);
  lower_kit_fill(w, TH_COUNT(w), 2);
  lower_kit_fill(b, TH_COUNT(b), 3);
  lower_kit_input(&kit, "x", x);
  lower_kit_input(&kit, "w", w);
  lower_kit_input(&kit, "b", b);
  cr_assert(lower_kit_run(&kit));
  for (int i = 0; i < 2 * O * H * W; i++) {
    int n = i / (O * H * W), o = i / (H * W) % O, r = i / W % H, c = i % W;
    double sum = b[o];
    for (int k = 0; k < C * 9; k++) {
      int ch = k / 9, y = r + k / 3 % 3 - 1, z = c + k % 3 - 1;
      bool inside = y >= 0 && y < H && z >= 0 && z < W;
      sum += inside
                 ? (double)x[((n * C + ch) * H + y) * W + z] * w[o * C * 9 + k]
                 : 0;
    }
    want[i] = (float)fmax(sum, 0);
  }
  near(lower_kit_output(&kit, 0), want, TH_COUNT(want), 1e-5f);
  lower_kit_close(&kit);
}

// Half types are rounded after each statement.
Test(lower, bf16_rounds_each_statement) {
  lower_kit kit;
  uint16_t x[70], want[70];
  lower_kit_open(&kit, "def f(x):\n"
                       "  # x: \"cpu bf16[70]\"\n"
                       "  a = mul(x, x)\n"
                       "  b = add(a, 1.0)\n"
                       "  return {'output': b}\n");
  for (int i = 0; i < 70; i++) {
    x[i] = th_bf16_from_f32((float)i * 0.37f - 9);
    float v = th_bf16_to_f32(x[i]);
    float a = th_bf16_to_f32(th_bf16_from_f32(v * v));
    want[i] = th_bf16_from_f32(a + 1);
  }
  lower_kit_input(&kit, "x", x);
  cr_assert(lower_kit_run(&kit));
  cr_assert_arr_eq(lower_kit_output(&kit, 0), want, sizeof want);
  lower_kit_close(&kit);
}

Test(lower, transposed_reads) {
  enum { M = 37, N = 300 };
  lower_kit kit;
  float *x = malloc(M * N * 4), *want = malloc(M * N * 4);
  lower_kit_open(&kit, "def f(x):\n"
                       "  # x: \"cpu f32[37, 300]\"\n"
                       "  t = permute(x, [1, 0])\n"
                       "  y = mul(t, 2.0)\n"
                       "  return {'output': y}\n");
  lower_kit_fill(x, M * N, 1);
  lower_kit_input(&kit, "x", x);
  kit.threads = 3;
  cr_assert(lower_kit_run(&kit));
  for (int i = 0; i < M * N; i++) {
    want[i] = 2 * x[i % M * N + i / M];
  }
  near(lower_kit_output(&kit, 0), want, M * N, 0);
  lower_kit_close(&kit);
  free(x);
  free(want);
}

// A million addends: one register after the other would lose them.
Test(lower, long_sums_are_exact_enough) {
  enum { N = 1 << 20 };
  lower_kit kit;
  float *x = malloc(N * 4);
  lower_kit_open(&kit, "def f(x):\n"
                       "  # x: \"cpu f32[1048576]\"\n"
                       "  s = sum(x, None)\n"
                       "  return {'output': s}\n");
  for (int i = 0; i < N; i++) {
    x[i] = 0.1f + (float)(i % 7) * 0.01f;
  }
  double sum = 0;
  for (int i = 0; i < N; i++) {
    sum += x[i];
  }
  lower_kit_input(&kit, "x", x);
  cr_assert(lower_kit_run(&kit));
  float got = *(float *)lower_kit_output(&kit, 0);
  cr_assert(fabs(got - sum) < sum * 1e-6, "got %.9g, wanted %.9g", got, sum);
  lower_kit_close(&kit);
  free(x);
}

Test(lower, equal_kernels_have_equal_texts) {
  lower_kit kit;
  lower_kit_open(&kit, "def f(x, y, w):\n"
                       "  # x: \"cpu f32[s0, 16]\"\n"
                       "  # y: \"cpu f32[s1, 16]\"\n"
                       "  # w: \"cpu f32[16, 16]\"\n"
                       "  # s0: \"int\" in [1, 10]\n"
                       "  # s1: \"int\" in [2, inf]\n"
                       "  a = matmul(x, w)\n"
                       "  b = matmul(y, w)\n"
                       "  return {'output': (a, b)}\n");
  cr_assert_eq(lower_kit_kernels(&kit), 2);
  th_buffer texts[2];
  for (uint32_t i = 0; i < 2; i++) {
    const th_expr **symbols = NULL;
    uint32_t count = 0;
    th_buffer_init(&texts[i], &kit.ir->arena);
    th_canonical_kernel(&kit.ir->arena, kit.fused->stmts[0]->body[i], NULL,
                        &texts[i], &symbols, &count);
    cr_assert_eq(count, 1);
  }
  cr_assert_str_eq(texts[0].data, texts[1].data);
  lower_kit_close(&kit);
}

// Each allocation fails once, on the way from statements to code.
Test(lower, memory_runs_out_anywhere) {
  lower_kit kit;
  th_kernel *kernel = NULL;
  th_status status = TH_NO_MEMORY;
  lower_kit_open(&kit, "def f(x, w):\n"
                       "  # x: \"cpu f32[6, 8]\"\n"
                       "  # w: \"cpu f32[8, 8]\"\n"
                       "  a = matmul(x, w)\n"
                       "  b = maximum(a, 0)\n"
                       "  return {'output': b}\n");
  const th_stmt *stmt = kit.fused->stmts[0]->body[0];
  for (size_t i = 1; i < 4000 && status != TH_OK; i += 1 + i / 16) {
    th_alloc_fail_at(i, true);
    status = th_lower_kernels(kit.ctx, &stmt, 1, 1, &kernel);
    th_alloc_fail_at(0, false);
    cr_assert(status == TH_OK || status == TH_NO_MEMORY, "%zu: %s", i,
              th_status_text(status));
    th_diagnostics_clear(kit.ctx);
  }
  cr_assert_eq(status, TH_OK);
  th_lower_kernel_release(kernel);
  lower_kit_close(&kit);
}

// Code for another machine is made, though it cannot run here.
Test(lower, text_for_aarch64) {
  lower_kit kit;
  th_buffer text;
  lower_kit_open(&kit, "def f(x, w):\n"
                       "  # x: \"cpu f32[64, 32]\"\n"
                       "  # w: \"cpu f32[48, 32]\"\n"
                       "  a = linear(x, w, None)\n"
                       "  b = exp(a)\n"
                       "  return {'output': b}\n");
  setenv("TH_CPU", "aarch64", 1);
  th_buffer_init(&text, &kit.ir->arena);
  th_status status =
      th_lower_text(kit.ctx, kit.fused->stmts[0]->body[0], TH_LOWER_ASM, &text);
  unsetenv("TH_CPU");
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(kit.ctx));
  cr_assert(strstr(text.data, "fmla"));
  lower_kit_close(&kit);
}

// Kernels against plain loops.
#include "lower_kit.h"

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

// Convolutions through oneDNN against the oracle: sizes, groups, what follows
// them, chains, strides of the operands, NaN.
#include "against.h"
#include "torture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define CONV(x, w, b, s, p, d, g)                                              \
  "convolution(" x ", " w ", " b ", [" s "], [" p "], [" d "], False, [0], " g \
  ")\n"

static const against_case conv_cases[] = {
    {{"x f32[2, 3, 9]", "w f32[5, 3, 4]", "b f32[5]"},
     "  z = " CONV("x", "w", "b", "1", "0", "1", "1"),
     "onednnFusion0(x, w, b)"},
    {{"x f32[2, 3, 11, 9]", "w f32[16, 3, 3, 3]"},
     "  z = " CONV("x", "w", "None", "2", "1", "1", "1"),
     "onednnFusion0(x, w)"},
    {{"x f32[1, 4, 11, 9]", "w f32[6, 2, 3, 2]", "b f32[6]"},
     "  z = " CONV("x", "w", "b", "1, 2", "2, 1", "2, 1", "2"),
     "onednnFusion0(x, w, b)"},
    {{"x f32[1, 16, 8, 8]", "w f32[16, 1, 3, 3]", "b f32[16]"},
     "  z = " CONV("x", "w", "b", "1", "1", "1", "16"),
     "onednnFusion0(x, w, b)"},
    {{"x f32[1, 2, 5, 6, 7]", "w f32[4, 2, 2, 3, 3]"},
     "  z = " CONV("x", "w", "None", "1", "1", "1", "1"),
     "onednnFusion0(x, w)"},
    {{"x f32[2, 8, 6, 6]", "w f32[16, 8, 1, 1]", "r f32[2, 16, 6, 6]"},
     "  a = " CONV("x", "w", "None", "1", "0", "1", "1") //
     "  b = add(r, a)\n  z = relu(b)\n",
     "[z] = onednnFusion0(x, w, r)"},
    {{"x f32[2, 16, 6, 6]", "w f32[8, 16, 1, 1]", "v f32[8, 8, 3, 3]",
      "u f32[16, 8, 1, 1]"},
     "  a = " CONV("x", "w", "None", "1", "0", "1",
                   "1") "  b = relu(a)\n"
                        "  c = " CONV("b", "v", "None", "1", "1", "1",
                                      "1") "  d = relu(c)\n"
                                           "  e = " CONV("d", "u", "None", "1",
                                                         "0", "1", "1") //
     "  f = add(e, x)\n  z = relu(f)\n",
     "[z] = onednnFusion0(x, w, v, u)"},
    {{"x f32[6, 6, 2, 8]", "w f32[16, 8, 3, 3]"}, // channels last
     "  t = permute(x, [2, 3, 0, 1])\n"
     "  z = " CONV("t", "w", "None", "1", "1", "1", "1"),
     "onednnFusion0(t, w)"},
    {{"x f32[1, 8, 1, 6]", "w f32[16, 8, 3, 3]", "r f32[16, 1, 1]"},
     "  t = expand(x, [2, 8, 6, 6])\n  s = expand(r, [2, 16, 6, 6])\n"
     "  a = " CONV("t", "w", "None", "1", "1", "1", "1") "  z = add(a, s)\n",
     "[z] = onednnFusion0(t, w, s)"},
    {{"x f32[2, 8, 6, 6]", "w f32[4, 8, 3, 3]"}, // two readers of a
     "  a = " CONV("x", "w", "None", "1", "1", "1",
                   "1") "  b = relu(a)\n  z = mul(a, b)\n",
     "[a] = onednnFusion0(x, w)"},
};

Test(onednn_conv, agrees_with_ref) {
  for (size_t i = 0; i < sizeof conv_cases / sizeof *conv_cases; i++) {
    against_ref(&conv_cases[i], "onednn,host", NULL);
  }
}

Test(onednn_conv, nan_and_infinity_pass_through) {
  static const char *const values[] = {"nan", "inf", "-inf"};
  for (int i = 0; i < 3; i++) {
    against_ref(&conv_cases[5], "onednn,host", values[i]);
  }
}

// Two convolutions with batch norm; `params` marks what never changes.
static void conv_norm_text(char *out, size_t size, const char *params,
                           const char *affine) {
  snprintf(out, size,
           "def f(x, w, v, g, b, m, s):\n"
           "  # x: \"cpu f32[2, 4, n, 7]\"\n"
           "  # w: \"cpu f32[8, 4, 3, 3]\" %s%s\n"
           "  # v: \"cpu f32[8, 8, 1, 1]\" %s%s\n"
           "  # g: \"cpu f32[8]\" %s%s\n"
           "  # b: \"cpu f32[8]\" %s%s\n"
           "  # m: \"cpu f32[8]\" %s%s\n"
           "  # s: \"cpu f32[8]\" %s%s\n"
           "  # n: \"int\" in [1, 64]\n"
           "  a = convolution(x, w, b, [1], [1], [1], False, [0], 1)\n"
           "  (c, _, _, _, _) = batch_norm(a, %s, m, s, False, 0.1, 1e-05)\n"
           "  d = relu(c)\n"
           "  e = convolution(d, v, None, [1], [0], [1], False, [0], 1)\n"
           "  (z, _, _, _, _) = batch_norm(e, None, None, m, s, False, 0.1, "
           "0.5)\n"
           "  return z\n",
           params, *params ? " w" : "", params, *params ? " v" : "", params,
           *params ? " g" : "", params, *params ? " b" : "", params,
           *params ? " m" : "", params, *params ? " s" : "", affine);
}

static void conv_norm_inputs(th_context *ctx, int64_t rows, th_tensor *in[7]) {
  const int64_t dims[7][4] = {
      {2, 4, rows, 7}, {8, 4, 3, 3}, {8, 8, 1, 1}, {8}, {8}, {8}, {8}};
  for (int i = 0; i < 7; i++) {
    cr_assert_eq(th_tensor_new(ctx, TH_F32, i < 3 ? 4 : 1, dims[i], &in[i]),
                 TH_OK);
    for (int64_t k = 0; k < th_tensor_numel(in[i]); k++) {
      double number = (double)((k * 7919 + i * 31) % 101) / 50 - 1;
      th_tensor_set(in[i], k, i == 6 ? number * number + 0.1 : number);
    }
  }
}

static void conv_norm_check(const char *text, int64_t rows) {
  th_context *ctx = th_context_new();
  th_callable *f = against_compile(ctx, text, "onednn,host");
  th_callable *g = against_compile(ctx, text, "ref");
  const char *const *texts;
  size_t traces = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
  cr_expect(strstr(texts[traces - 1], "[z] = onednnFusion0("), "%s",
            texts[traces - 1]);
  th_tensor *in[7], *want = NULL;
  conv_norm_inputs(ctx, rows, in);
  cr_assert_eq(th_call(g, in, 7, &want, 1), TH_OK);
  for (int call = 0; call < 2; call++) { // the second uses what the first made
    th_tensor *got = NULL;
    th_difference d;
    cr_assert_eq(th_call(f, in, 7, &got, 1), TH_OK, "%s",
                 th_diagnostics_all(ctx));
    cr_expect_eq(th_tensor_compare(ctx, got, want, 2e-5, 2e-5, &d), TH_OK);
    cr_expect_eq(d.count, 0, "%sat %ld got %g want %g", text, (long)d.index,
                 d.got, d.want);
    th_tensor_release(got);
  }
  th_tensor_release(want);
  for (int i = 0; i < 7; i++) {
    th_tensor_release(in[i]);
  }
  th_callable_free(f);
  th_callable_free(g);
  th_context_free(ctx);
}

Test(onednn_conv, batch_norm_is_folded) {
  static const char *const params[] = {"", "param", "buffer"};
  char text[2048];
  for (int i = 0; i < 3; i++) {
    conv_norm_text(text, sizeof text, params[i], "g, b");
    conv_norm_check(text, 5);
    conv_norm_check(text, 1);
    conv_norm_text(text, sizeof text, params[i], "None, b");
    conv_norm_check(text, 5);
  }
}

static th_status conv_torture(void *user) {
  const char *text = user;
  th_context *own = th_context_new();
  th_callable *f = NULL;
  th_tensor *in[7] = {NULL}, *out = NULL;
  const int64_t dims[7][4] = {{2, 4, 5, 7}, {8, 4, 3, 3}, {8, 8, 1, 1}, {8},
                              {8},          {8},          {8}};
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "onednn";
  options.constant_weights = true;
  th_status status = own ? TH_OK : TH_NO_MEMORY;
  for (int i = 0; i < 7 && status == TH_OK; i++) {
    status = th_tensor_new(own, TH_F32, i < 3 ? 4 : 1, dims[i], &in[i]);
  }
  if (status == TH_OK) {
    status = th_jit_text(own, "t", text, strlen(text), &options, &f);
  }
  for (int i = 0; i < 2 && status == TH_OK; i++) {
    status = th_call(f, in, 7, &out, 1);
  }
  for (int i = 0; i < 7; i++) {
    th_tensor_release(in[i]);
  }
  th_tensor_release(out);
  th_callable_free(f);
  th_context_free(own);
  return status;
}

Test(onednn_conv, every_allocation_fails) {
  char text[2048];
  conv_norm_text(text, sizeof text, "param", "g, b");
  torture(conv_torture, text);
}

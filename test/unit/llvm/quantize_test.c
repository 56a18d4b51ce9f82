// Weights of linear layers in fewer bits: what the trace becomes, what is
// rounded how far, and a program of an archive with them.
#include "base/context.h"
#include "compile/quantize.h"
#include "tensor/element.h"
#include "thunder/thunder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static th_context *ctx;
static void quantize_setup(void) { ctx = th_context_new(); }
static void quantize_teardown(void) { th_context_free(ctx); }
TestSuite(quantize, .init = quantize_setup, .fini = quantize_teardown);

typedef struct quantize_text {
  const char *text;
  th_dtype dtype;
  char out[4096];
} quantize_text;

static th_status quantize_run(void *user) {
  quantize_text *q = user;
  th_ir *ir = th_ir_new(ctx);
  th_trace *trace = NULL, *now = NULL, *again = NULL;
  th_buffer text;
  th_arena_defer(&ctx->arena, (void (*)(void *))th_ir_release, ir);
  TH_TRY(th_trace_parse(ir, "t", q->text, strlen(q->text), &trace));
  TH_TRY(th_quantize_trace(ir, trace, q->dtype, &now));
  TH_TRY(th_trace_verify(now));
  th_buffer_init(&text, &ir->arena);
  th_trace_print(&text, now, &(th_print_options){.no_locations = true});
  snprintf(q->out, sizeof q->out, "%s", text.data);
  TH_TRY(th_trace_parse(ir, "again", text.data, text.size, &again));
  cr_expect(th_trace_equal(now, again), "%s", q->out);
  return TH_OK;
}

static const char *quantize_trace(const char *text, th_dtype dtype) {
  static quantize_text q;
  q = (quantize_text){.text = text, .dtype = dtype};
  cr_assert_eq(th_protect(&ctx->unwind, quantize_run, &q), TH_OK, "%s",
               th_diagnostics_all(ctx));
  return q.out;
}

static void quantize_expect(const char *text, const char *part) {
  cr_expect(strstr(text, part) != NULL, "no '%s' in:\n%s", part, text);
}

static const char quantize_layers[] =
    "def f(w, b, v, e, x):\n"
    "  # w: \"cpu f32[80, 60]\"  param a.w\n"
    "  # b: \"cpu f32[80]\"  param a.b\n"
    "  # v: \"cpu f32[40, 80]\"  param small.w\n"
    "  # e: \"cpu f32[80, 80]\"  param tied.w\n"
    "  # x: \"cpu f32[3, 60]\"\n"
    "  y = linear(x, w, b)\n"
    "  s = linear(y, v)\n"
    "  t = linear(y, e)\n"
    "  u = neg(e)\n"
    "  return (s, t, u)\n";

Test(quantize, bytes_get_scales) {
  const char *text = quantize_trace(quantize_layers, TH_I8);
  quantize_expect(text, "w: \"cpu i8[80, 60]\"  param a.w\n");
  quantize_expect(text, "w_scale: \"cpu f32[80]\"  param a.w.scale\n");
  quantize_expect(text, "= to(w, f32)");
  quantize_expect(text, "w_scale)");
  quantize_expect(text, "y = add(");
  quantize_expect(text, "s = linear(y, v)"); // too small
  quantize_expect(text, "t = linear(y, e)"); // read by another too
}

Test(quantize, halves_keep_the_bias) {
  const char *text = quantize_trace(quantize_layers, TH_BF16);
  quantize_expect(text, "w: \"cpu bf16[80, 60]\"  param a.w\n");
  quantize_expect(text, "y = linear(x, ");
  quantize_expect(text, ", b)");
  cr_expect_null(strstr(text, "scale"));
}

static th_tensor *quantize_weights(void) {
  const int64_t dims[] = {5, 7};
  th_tensor *w = NULL;
  cr_assert_eq(th_tensor_new(ctx, TH_F32, 2, dims, &w), TH_OK);
  for (int64_t i = 0; i < 35; i++) {
    double size = i / 7 == 3 ? 1e-36 : 1.5;
    th_tensor_set(w, i, i < 7 ? 0 : size * ((double)(i * 7919 % 101) / 50 - 1));
  }
  return w;
}

static void quantize_check_rows(th_dtype dtype, double tolerance) {
  const int64_t dims[] = {5, 7};
  th_tensor *w = quantize_weights(), *out = NULL, *scale = NULL;
  th_quantize_error error = {0};
  cr_assert_eq(th_tensor_new(ctx, dtype, 2, dims, &out), TH_OK);
  cr_assert_eq(th_quantize_weight(ctx, "w", w, &error, out), TH_OK);
  cr_assert_eq(th_quantize_scale(ctx, w, &scale), TH_OK);
  for (int64_t i = 0; i < 35; i++) {
    double s = dtype == TH_I8 ? th_tensor_get(scale, i / 7) : 1;
    double largest = i / 7 == 3 ? 1e-36 : 1.5;
    cr_expect(fabs(th_tensor_get(out, i) * s - th_tensor_get(w, i)) <=
                  tolerance * largest,
              "%s at %d: %g for %g", th_dtype_name(dtype), (int)i,
              th_tensor_get(out, i) * s, th_tensor_get(w, i));
  }
  cr_expect_eq(error.tensors, 1);
  cr_expect(error.sum > 0 && error.sum < tolerance * error.size);
  th_tensor_release(w);
  th_tensor_release(out);
  th_tensor_release(scale);
}

Test(quantize, rounding) {
  quantize_check_rows(TH_I8, 0.5 / 127 + 1e-6);
  quantize_check_rows(TH_BF16, 0x1p-8);
}

Test(quantize, bytes_hold_no_infinity) {
  const int64_t dims[] = {5, 7};
  static const double bad[] = {INFINITY, -INFINITY, NAN};
  for (int i = 0; i < 3; i++) {
    th_tensor *w = quantize_weights(), *out = NULL;
    th_quantize_error error = {0};
    th_tensor_set(w, 10, bad[i]);
    cr_assert_eq(th_tensor_new(ctx, TH_I8, 2, dims, &out), TH_OK);
    cr_expect_eq(th_quantize_weight(ctx, "w", w, &error, out), TH_INVALID);
    th_tensor_release(w);
    th_tensor_release(out);
  }
}

// One layer of the archive is large enough.
static void quantize_archive(const char *weights, const char *executors,
                             double tolerance) {
  th_pt2 *archive = NULL;
  th_callable *f = NULL, *exact = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_statistics stats = TH_STATISTICS_INIT;
  const int64_t dims[] = {4, 16};
  th_tensor *x = NULL, *got = NULL, *want = NULL;
  th_difference d;
  cr_assert_eq(th_pt2_open(ctx, TH_SOURCE_DIR "/test/conformance/mlp.pt2", NULL,
                           &archive),
               TH_OK, "%s", th_diagnostics_all(ctx));
  options.verify_each = options.roundtrip_each = true;
  options.executors = "ref";
  cr_assert_eq(th_jit_pt2(ctx, archive, "train_ir", &options, &exact), TH_OK);
  options.weights = weights;
  options.executors = executors;
  cr_assert_eq(th_jit_pt2(ctx, archive, "train_ir", &options, &f), TH_OK, "%s",
               th_diagnostics_all(ctx));
  th_callable_statistics(f, &stats);
  cr_expect_eq(stats.weights_rounded, 1);
  cr_expect(stats.weight_error > 0 && stats.weight_error < 0.01);
  cr_expect_eq(th_tensor_dtype(th_callable_state(f, "layers.1.weight")),
               strcmp(weights, "i8") == 0 ? TH_I8 : TH_BF16);
  cr_assert_eq(th_tensor_new(ctx, TH_F32, 2, dims, &x), TH_OK);
  for (int64_t i = 0; i < 64; i++) {
    th_tensor_set(x, i, (double)(i * 7919 % 101) / 50 - 1);
  }
  cr_assert_eq(th_call(f, &x, 1, &got, 1), TH_OK, "%s",
               th_diagnostics_all(ctx));
  cr_assert_eq(th_call(exact, &x, 1, &want, 1), TH_OK);
  cr_expect_eq(th_tensor_compare(ctx, got, want, tolerance, tolerance, &d),
               TH_OK);
  cr_expect_eq(d.count, 0, "%s, %s: at %ld got %g want %g", weights, executors,
               (long)d.index, d.got, d.want);
  th_tensor_release(x);
  th_tensor_release(got);
  th_tensor_release(want);
  th_callable_free(f);
  th_callable_free(exact);
  th_pt2_free(archive);
}

Test(quantize, archive) {
  quantize_archive("bf16", "ref", 0.01);
  quantize_archive("bf16", NULL, 0.01);
  quantize_archive("i8", "ref", 0.02);
  quantize_archive("i8", "host", 0.02);
  quantize_archive("i8", NULL, 0.02);
}

Test(quantize, bad_options) {
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *f = NULL;
  static const char text[] = "def f(x):\n  # x: \"cpu f32[4]\"\n  return x\n";
  options.weights = "i4";
  cr_expect_eq(th_jit_text(ctx, "t", text, sizeof text - 1, &options, &f),
               TH_INVALID);
  options.weights = "i8"; // and no archive
  cr_expect_eq(th_jit_text(ctx, "t", text, sizeof text - 1, &options, &f),
               TH_INVALID);
  options.weights = "f32";
  cr_assert_eq(th_jit_text(ctx, "t", text, sizeof text - 1, &options, &f),
               TH_OK);
  th_callable_free(f);
}

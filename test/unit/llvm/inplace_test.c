// A call that fails changes nothing, whatever was updated in place.
#include "thunder/thunder.h"

#include <criterion/criterion.h>
#include <string.h>

static const char inplace_text[] =
    "def computation(cache, more, i, x):\n"
    "  # cache: \"cpu f32[8, 2]\"\n"
    "  # more: \"cpu f32[8, 2]\"\n"
    "  # i: \"cpu i64[2]\"\n"
    "  # x: \"cpu f32[2, 2]\"\n"
    "  a = index_copy(cache, 0, i, x)\n"
    "  b = index_copy(more, 0, i, x)\n"
    "  y = neg(x)\n"
    "  return {'output': y, 'mutated': {'cache': a, 'more': b}}\n";

static th_status inplace_fail(th_run *run) {
  return th_run_error(run, TH_UNSUPPORTED, "not today");
}

static const th_claim inplace_claims[] = {{.op = "neg", .run = inplace_fail}};

static th_callable *inplace_compile(th_context *ctx, const char *executors) {
  th_executor_options failing = {.size = sizeof failing,
                                 .name = "failing",
                                 .version = "1",
                                 .claims = inplace_claims,
                                 .claim_count = 1,
                                 .claim_size = sizeof(th_claim)};
  cr_assert_eq(th_executor_register(ctx, &failing), TH_OK);
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = executors;
  options.no_cache = true;
  th_callable *f = NULL;
  th_status status = th_jit_text(ctx, "inplace", inplace_text,
                                 strlen(inplace_text), &options, &f);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(ctx));
  return f;
}

// The caches, the rows 1 and `last`, and what is written there: ones.
static void inplace_inputs(th_context *ctx, int64_t last, th_tensor *in[4]) {
  const int64_t sizes[] = {8, 2}, rows[] = {2, 2};
  cr_assert_eq(th_tensor_new(ctx, TH_F32, 2, sizes, &in[0]), TH_OK);
  cr_assert_eq(th_tensor_new(ctx, TH_F32, 2, sizes, &in[1]), TH_OK);
  cr_assert_eq(th_tensor_new(ctx, TH_I64, 1, rows, &in[2]), TH_OK);
  cr_assert_eq(th_tensor_new(ctx, TH_F32, 2, rows, &in[3]), TH_OK);
  th_tensor_set_int(in[2], 0, 1);
  th_tensor_set_int(in[2], 1, last);
  cr_assert_eq(th_tensor_fill(ctx, in[3], 1), TH_OK);
}

// One call; the sums of the caches afterwards.
static th_status inplace_call(const char *executors, int64_t last,
                              double out_sums[2]) {
  th_context *ctx = th_context_new();
  th_callable *f = inplace_compile(ctx, executors);
  th_tensor *in[4] = {NULL}, *out = NULL;
  inplace_inputs(ctx, last, in);
  th_status status = th_call(f, in, 4, &out, 1);
  for (int k = 0; k < 2; k++) {
    out_sums[k] = 0;
    for (int64_t i = 0; i < th_tensor_numel(in[k]); i++) {
      out_sums[k] += th_tensor_get(in[k], i);
    }
  }
  for (int k = 0; k < 4; k++) {
    th_tensor_release(in[k]);
  }
  th_tensor_release(out);
  th_callable_free(f);
  th_context_free(ctx);
  return status;
}

static const char *const inplace_lists[] = {"host", "ref"};

Test(inplace, rows_are_written) {
  for (int k = 0; k < 2; k++) {
    double sums[2];
    cr_expect_eq(inplace_call(inplace_lists[k], 7, sums), TH_OK);
    cr_expect_eq(sums[0], 4, "%s", inplace_lists[k]);
    cr_expect_eq(sums[1], 4, "%s", inplace_lists[k]);
  }
}

Test(inplace, an_index_out_of_range_changes_nothing) {
  for (int k = 0; k < 2; k++) {
    double sums[2];
    cr_expect_eq(inplace_call(inplace_lists[k], 99, sums), TH_INVALID);
    cr_expect_eq(sums[0], 0, "%s", inplace_lists[k]);
    cr_expect_eq(sums[1], 0, "%s", inplace_lists[k]);
  }
}

Test(inplace, an_executor_that_fails_changes_nothing) {
  double sums[2];
  cr_expect_eq(inplace_call("failing,ref", 7, sums), TH_UNSUPPORTED);
  cr_expect_eq(sums[0], 0);
  cr_expect_eq(sums[1], 0);
}

// A result given for output that cannot be written: seen before a step runs.
Test(inplace, targets_are_checked_first) {
  static const char text[] =
      "def computation(cache, x):\n"
      "  # cache: \"cpu f32[2, 2]\"\n"
      "  # x: \"cpu f32[2, 2]\"\n"
      "  a = add(cache, x)\n"
      "  return {'output': x, 'mutated': {'cache': a}}\n";
  th_context *ctx = th_context_new();
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.no_cache = true;
  th_callable *f = NULL;
  cr_assert_eq(th_jit_text(ctx, "target", text, strlen(text), &options, &f),
               TH_OK);
  const int64_t sizes[] = {2, 2}, repeated[] = {0, 1};
  th_tensor *in[2], *whole = NULL, *out = NULL;
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(th_tensor_new(ctx, TH_F32, 2, sizes, &in[i]), TH_OK);
    cr_assert_eq(th_tensor_fill(ctx, in[i], 1), TH_OK);
  }
  cr_assert_eq(th_tensor_new(ctx, TH_F32, 2, sizes, &whole), TH_OK);
  cr_assert_eq(th_tensor_view(ctx, whole, 2, sizes, repeated, 0, &out), TH_OK,
               "%s", th_diagnostics_all(ctx));
  cr_expect_eq(th_call(f, in, 2, &out, 1), TH_INVALID);
  cr_expect(strstr(th_diagnostics_all(ctx), "output 0") != NULL, "%s",
            th_diagnostics_all(ctx));
  cr_expect_eq(th_tensor_get(in[0], 0), 1);

  th_tensor *twice[2] = {out, in[1]}, *made = NULL;
  cr_expect_eq(th_call(f, twice, 2, &made, 1), TH_INVALID);
  cr_expect(strstr(th_diagnostics_all(ctx), "input 'cache'") != NULL, "%s",
            th_diagnostics_all(ctx));
  cr_expect_null(made);
  th_tensor_release(out);
  th_tensor_release(whole);
  th_tensor_release(in[0]);
  th_tensor_release(in[1]);
  th_callable_free(f);
  th_context_free(ctx);
}

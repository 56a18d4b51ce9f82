// host against ref: programs that random ones were reduced to.  Inputs are
// small whole numbers, so that sums in another order are the same; symbolic
// sizes are 0.
#include "ir/rules.h"
#include "thunder/jit.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

typedef struct agree_run {
  th_callable *callable;
  th_tensor *outputs[8];
} agree_run;

static void agree_input(th_context *ctx, th_callable *callable, size_t index,
                        th_tensor **out) {
  int64_t dims[TH_MAX_RANK];
  int rank = th_callable_input_rank(callable, index);
  for (int d = 0; d < rank; d++) {
    dims[d] = th_callable_input_dim(callable, index, d, 0);
  }
  th_dtype dtype = (th_dtype)th_callable_input_dtype(callable, index);
  cr_assert_eq(th_tensor_new(ctx, dtype, rank, dims, out), TH_OK);
  int64_t n = th_tensor_numel(*out);
  for (int64_t i = 0; i < n; i++) {
    th_tensor_set(*out, i, (double)((i * 7 + i / 5) % 11 - 5));
  }
}

static void agree_call(th_context *ctx, const char *text, const char *executors,
                       agree_run *run) {
  th_tensor *inputs[4];
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = executors;
  options.no_cache = true;
  options.verify_each = true;
  options.roundtrip_each = true;
  th_status status =
      th_jit_text(ctx, "agree", text, strlen(text), &options, &run->callable);
  cr_assert_eq(status, TH_OK, "%s: %s", executors, th_diagnostics_all(ctx));
  size_t n = th_callable_input_count(run->callable);
  size_t outputs = th_callable_output_count(run->callable);
  cr_assert(n <= 4 && outputs <= 8);
  for (size_t i = 0; i < n; i++) {
    agree_input(ctx, run->callable, i, &inputs[i]);
  }
  cr_assert_eq(th_call(run->callable, inputs, n, run->outputs, outputs), TH_OK,
               "%s: %s", executors, th_diagnostics_all(ctx));
  for (size_t i = 0; i < n; i++) {
    th_tensor_release(inputs[i]);
  }
}

static void agree(const char *text) {
  th_context *ctx = th_context_new();
  agree_run ref = {0}, host = {0};
  agree_call(ctx, text, "ref", &ref);
  agree_call(ctx, text, "host", &host);
  for (size_t i = 0; i < 8 && ref.outputs[i]; i++) {
    th_difference d = {0};
    cr_assert_eq(
        th_tensor_compare(ctx, host.outputs[i], ref.outputs[i], 0, 0, &d),
        TH_OK, "%s", th_diagnostics_all(ctx));
    cr_assert_eq(d.count, 0, "output %zu at %lld: got %g, wanted %g in\n%s", i,
                 (long long)d.index, d.got, d.want, text);
    th_tensor_release(ref.outputs[i]);
    th_tensor_release(host.outputs[i]);
  }
  th_callable_free(ref.callable);
  th_callable_free(host.callable);
  th_context_free(ctx);
}

// Each elementwise row of one or two operands is computed by both.
Test(agree, every_elementwise_row_has_code) {
  th_context *ctx = th_context_new();
  for (int i = TH_OP_none + 1; i < TH_OP_COUNT; i++) {
    const th_op_info *row = th_op_row((th_op)i);
    uint8_t n = row->param_count;
    bool operands = n <= 2 && row->params[n - 1].kind == TH_P_OPERAND;
    if (!(row->traits & TH_EW) || row->expand || !operands) {
      continue;
    }
    const char *dtype = row->infer == th_infer_rule_promote_int ? "u8" : "f32";
    char text[256];
    snprintf(text, sizeof text,
             "def f(x):\n  # x: \"cpu %s[9]\"\n  y = %s(x%s)\n  return [y]\n",
             dtype, row->name, n == 2 ? ", x" : "");
    agree_run host = {0}, ref = {0};
    agree_call(ctx, text, "host", &host);
    agree_call(ctx, text, "ref", &ref);
    th_tensor_release(host.outputs[0]);
    th_tensor_release(ref.outputs[0]);
    th_callable_free(host.callable);
    th_callable_free(ref.callable);
  }
  th_context_free(ctx);
}

// The second sum takes the loops of the first result for its own in another
// order: each reduction runs over what the other one is kept at.
Test(agree, reductions_that_cross) {
  agree("def f(x):\n"
        "  # x: \"cpu f32[2, 64, 3, 3]\"\n"
        "  a = maximum(x, -1)\n"
        "  b = sum(a, [0, 2], True)\n"
        "  c = sub(a, b)\n"
        "  d = sum(c, [0, 2], True)\n"
        "  e = sub(d, x)\n"
        "  return {'output': (a, d, e)}\n");
  agree("def f(x):\n"
        "  # x: \"cpu bf16[13, 31, 13]\"\n"
        "  a = amax(x, [0, 1], False)\n"
        "  b = slice_scatter(x, x, 1, 0, 31)\n"
        "  c = gt(b, a)\n"
        "  d = permute(b, [1, 0, 2])\n"
        "  e = select(d, 0, 7)\n"
        "  f = pad(e, [0, 1, 1, 3], 0)\n"
        "  return {'output': (a, c, f)}\n");
}

// Sizes of 0 that show at a call: a softmax of nothing is nothing, an extremum
// of nothing the other end of the dtype, as in the composites over amax.
Test(agree, extrema_of_nothing) {
  agree("def f(x, y):\n"
        "  # x: \"cpu f32[s0, 3]\"\n"
        "  # y: \"cpu i32[s0, 3]\"\n"
        "  # s0: \"int\" in [0, inf]\n"
        "  a = softmax(x, 0)\n"
        "  b = logsumexp(x, [0])\n"
        "  c = amax(y, [0])\n"
        "  d = amin(y, [0])\n"
        "  return {'output': (a, b, c, d)}\n");
}

Test(agree, no_position_in_nothing) {
  static const char text[] = "def f(x):\n"
                             "  # x: \"cpu f32[3, s0]\"\n"
                             "  # s0: \"int\" in [0, inf]\n"
                             "  a = argmax(x, 1)\n"
                             "  return {'output': (a,)}\n";
  static const char *const executors[] = {"ref", "host"};
  for (int i = 0; i < 2; i++) {
    th_context *ctx = th_context_new();
    th_jit_options options = TH_JIT_OPTIONS_INIT;
    th_callable *callable = NULL;
    th_tensor *x = NULL, *out = NULL;
    options.executors = executors[i];
    options.no_cache = true;
    cr_assert_eq(
        th_jit_text(ctx, "none", text, strlen(text), &options, &callable),
        TH_OK);
    cr_assert_eq(th_tensor_new(ctx, TH_F32, 2, (int64_t[]){3, 0}, &x), TH_OK);
    cr_assert_neq(th_call(callable, &x, 1, &out, 1), TH_OK);
    cr_assert_not_null(strstr(th_diagnostics_all(ctx), "argmax"));
    th_tensor_release(x);
    th_callable_free(callable);
    th_context_free(ctx);
  }
}

// A result that lacks a dimension of size 0 which another one has: no kernel
// that walks it makes both.
Test(agree, results_beside_an_empty_one) {
  agree("def f(x, y):\n"
        "  # x: \"cpu f32[3, 4]\"\n"
        "  # y: \"cpu f32[3, s0]\"\n"
        "  # s0: \"int\" in [0, inf]\n"
        "  a = sum(x, [1], True)\n"
        "  b = slice_scatter(a, a, 1, 0, 1)\n"
        "  c = exp(b)\n"
        "  d = minimum(y, c)\n"
        "  return {'output': (b, c, d)}\n");
  agree("def f(x):\n"
        "  # x: \"cpu bf16[3, 1, 3, 31]\"\n"
        "  a = sum(x, [0], True)\n"
        "  b = hardtanh(a)\n"
        "  c = slice(a, 3, 5, 6, 1)\n"
        "  i = arange(0, 0, 1, i64)\n"
        "  d = index_select(c, 1, i)\n"
        "  e = maximum(d, b)\n"
        "  return {'output': (b, e)}\n");
}

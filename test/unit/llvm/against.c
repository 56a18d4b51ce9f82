#include "against.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void against_text(const against_case *c, char *out, size_t size) {
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

th_callable *against_compile(th_context *ctx, const char *text,
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

static size_t against_inputs(th_context *ctx, const th_callable *f,
                             th_tensor *in[6]) {
  size_t count = th_callable_input_count(f);
  uint32_t state = 12345;
  for (size_t i = 0; i < count; i++) {
    int64_t dims[12];
    int rank = th_callable_input_rank(f, i);
    for (int d = 0; d < rank; d++) {
      dims[d] = th_callable_input_dim(f, i, d, 3);
    }
    th_dtype dtype = (th_dtype)th_callable_input_dtype(f, i);
    cr_assert_eq(th_tensor_new(ctx, dtype, rank, dims, &in[i]), TH_OK);
    for (int64_t k = 0; k < th_tensor_numel(in[i]); k++) {
      state = state * 1664525 + 1013904223;
      double number = (double)(state >> 8) / (1 << 23) - 1;
      th_tensor_set(in[i], k, dtype == TH_BOOL ? number > 0 : number);
    }
  }
  return count;
}

void against_ref(const against_case *c, const char *executors,
                 const char *poison) {
  th_context *ctx = th_context_new();
  char text[2048];
  th_tensor *in[6] = {NULL}, *got = NULL, *want = NULL;
  against_text(c, text, sizeof text);
  th_callable *f = against_compile(ctx, text, executors);
  th_callable *g = against_compile(ctx, text, "ref");
  const char *const *texts;
  size_t traces = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
  cr_expect(strstr(texts[traces - 1], c->region), "%s", texts[traces - 1]);
  size_t count = against_inputs(ctx, f, in);
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

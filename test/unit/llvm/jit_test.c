// Traced functions: what is traced, when it is traced again, what is checked.
#include "base/context.h"
#include "ir/trace.h"
#include "thunder/thunder.h"
#include "torture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OK(expr)                                                               \
  do {                                                                         \
    th_status ok_ = (expr);                                                    \
    cr_assert(ok_ == TH_OK, "%s: %s\n%s", #expr, th_status_text(ok_),          \
              th_diagnostics_all(ctx));                                        \
  } while (0)

static th_context *ctx;

static void jit_setup(void) { ctx = th_context_new(); }
static void jit_teardown(void) { th_context_free(ctx); }
TestSuite(jit, .init = jit_setup, .fini = jit_teardown);

static th_jit_options jit_options(th_cache_mode mode) {
  th_jit_options o = TH_JIT_OPTIONS_INIT;
  o.executors = "ref";
  o.cache = mode;
  o.threads = 1;
  o.verify_each = o.roundtrip_each = true;
  return o;
}

// A tensor with 1, 2, 3, ...
static th_tensor *jit_tensor(th_dtype dtype, int rank, int64_t a, int64_t b) {
  int64_t dims[] = {a, b};
  th_tensor *t = NULL;
  OK(th_tensor_new(ctx, dtype, rank, dims, &t));
  for (int64_t i = 0; i < th_tensor_numel(t); i++) {
    th_tensor_set(t, i, (double)(i + 1));
  }
  return t;
}

static th_leaf jit_leaf(th_tensor *t) {
  return (th_leaf){.kind = TH_LEAF_TENSOR, .tensor = t};
}

// Calls, checks the sum of the first result, releases everything.
static void jit_expect(th_callable *f, th_leaf *in, size_t count, double sum) {
  th_leaf out = {.kind = TH_LEAF_TENSOR};
  OK(th_call_leaves(f, NULL, in, count, &out, 1));
  double got = 0;
  for (int64_t i = 0; i < th_tensor_numel(out.tensor); i++) {
    got += th_tensor_get(out.tensor, i);
  }
  cr_expect_float_eq(got, sum, 1e-4 + 1e-4 * fabs(sum), "%g is not %g", got,
                     sum);
  th_tensor_release(out.tensor);
}

static void jit_expect_counts(th_callable *f, uint64_t hits, uint64_t misses,
                              const char *reason) {
  th_statistics s = TH_STATISTICS_INIT;
  th_callable_statistics(f, &s);
  cr_expect_eq(s.cache_hits, hits, "%llu hits",
               (unsigned long long)s.cache_hits);
  cr_expect_eq(s.cache_misses, misses, "%llu misses",
               (unsigned long long)s.cache_misses);
  cr_expect_eq(s.calls, hits + misses);
  cr_expect_str_eq(s.reason, reason);
}

// x0 + x1
static th_status trace_add(th_tracer *t, th_value *const *in, size_t n,
                           th_value **out, size_t m, void *user) {
  (void)n, (void)m;
  if (user) {
    ++*(int *)user;
  }
  out[0] = th_add(t, in[0], in[1]);
  return th_tracer_status(t);
}

// ---- caching

Test(jit, same_metadata_hits) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  int traced = 0;
  OK(th_jit(ctx, trace_add, &traced, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 2, 2, 3), *b = jit_tensor(TH_F32, 2, 2, 3);
  th_tensor *c = jit_tensor(TH_F32, 2, 4, 3), *d = jit_tensor(TH_F64, 2, 2, 3);
  th_tensor *e = jit_tensor(TH_F32, 1, 3, 0);
  jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(b)}, 2, 42);
  jit_expect_counts(f, 0, 1, "the first call");
  jit_expect(f, (th_leaf[]){jit_leaf(b), jit_leaf(a)}, 2, 42);
  jit_expect_counts(f, 1, 1, "the first call");
  jit_expect(f, (th_leaf[]){jit_leaf(c), jit_leaf(c)}, 2, 156);
  jit_expect_counts(f, 1, 2, "input 'in0': dimension 0 is 4 instead of 2");
  jit_expect(f, (th_leaf[]){jit_leaf(d), jit_leaf(b)}, 2, 42);
  jit_expect_counts(f, 1, 3, "input 'in0': dtype f64 instead of f32");
  jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(e)}, 2, 33);
  jit_expect_counts(f, 1, 4, "input 'in0': dtype f32 instead of f64");
  // Each of them is still there.
  jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(b)}, 2, 42);
  jit_expect(f, (th_leaf[]){jit_leaf(d), jit_leaf(b)}, 2, 42);
  jit_expect(f, (th_leaf[]){jit_leaf(c), jit_leaf(c)}, 2, 156);
  jit_expect_counts(f, 4, 4, "input 'in0': dtype f32 instead of f64");
  cr_expect_eq(traced, 4);
  th_tensor *all[] = {a, b, c, d, e};
  for (size_t i = 0; i < TH_COUNT(all); i++) {
    th_tensor_release(all[i]);
  }
  th_callable_free(f);
}

Test(jit, strides_are_guarded) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  OK(th_jit(ctx, trace_add, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 2, 3, 3), *b = NULL;
  int64_t dims[] = {3, 3}, strides[] = {1, 3};
  OK(th_tensor_view(ctx, a, 2, dims, strides, 0, &b));
  jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(a)}, 2, 90);
  jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(b)}, 2, 90);
  jit_expect_counts(f, 0, 2,
                    "input 'in1': device or strides of f32[3, 3]{1, 3}");
  th_leaf out = {.kind = TH_LEAF_TENSOR};
  OK(th_call_leaves(f, NULL, (th_leaf[]){jit_leaf(a), jit_leaf(b)}, 2, &out,
                    1));
  cr_expect_eq(th_tensor_get(out.tensor, 1), 2 + 4);
  jit_expect_counts(f, 1, 2,
                    "input 'in1': device or strides of f32[3, 3]{1, 3}");
  th_tensor_release(out.tensor);
  th_tensor_release(a);
  th_tensor_release(b);
  th_callable_free(f);
}

static void jit_numbers(th_cache_mode mode, uint64_t hits, uint64_t misses) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(mode);
  OK(th_jit(ctx, trace_add, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0);
  th_leaf two = {.kind = TH_LEAF_FLOAT, .f = 2};
  th_leaf three = {.kind = TH_LEAF_FLOAT, .f = 3};
  th_leaf whole = {.kind = TH_LEAF_INT, .i = 3};
  jit_expect(f, (th_leaf[]){jit_leaf(a), two}, 2, 12);
  jit_expect(f, (th_leaf[]){jit_leaf(a), two}, 2, 12);
  jit_expect(f, (th_leaf[]){jit_leaf(a), three}, 2, 15);
  jit_expect(f, (th_leaf[]){jit_leaf(a), whole}, 2, 15);
  th_statistics s = TH_STATISTICS_INIT;
  th_callable_statistics(f, &s);
  cr_expect_eq(s.cache_hits, hits);
  cr_expect_eq(s.cache_misses, misses);
  th_tensor_release(a);
  th_callable_free(f);
}

// Another value, and 3.0 as 3, are other calls where values are constants.
Test(jit, numbers) {
  jit_numbers(TH_CACHE_CONSTANT_VALUES, 1, 3);
  jit_numbers(TH_CACHE_SYMBOLIC_VALUES, 2, 2);
  jit_numbers(TH_CACHE_NONE, 0, 4);
}

Test(jit, nan_equals_nan) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  OK(th_jit(ctx, trace_add, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0);
  th_leaf nan_leaf = {.kind = TH_LEAF_FLOAT, .f = NAN};
  th_leaf out = {.kind = TH_LEAF_TENSOR};
  for (int i = 0; i < 2; i++) {
    out.tensor = NULL;
    OK(th_call_leaves(f, NULL, (th_leaf[]){jit_leaf(a), nan_leaf}, 2, &out, 1));
    cr_expect(isnan(th_tensor_get(out.tensor, 0)));
    th_tensor_release(out.tensor);
  }
  jit_expect_counts(f, 1, 1, "the first call");
  th_tensor_release(a);
  th_callable_free(f);
}

Test(jit, same_input_checks_nothing) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_SAME_INPUT);
  OK(th_jit(ctx, trace_add, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0), *b = jit_tensor(TH_F32, 1, 4, 0);
  th_leaf out = {.kind = TH_LEAF_TENSOR};
  jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(a)}, 2, 12);
  jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(a)}, 2, 12);
  jit_expect_counts(f, 1, 1, "the first call");
  cr_expect_eq(th_call_leaves(f, NULL, (th_leaf[]){jit_leaf(b), jit_leaf(b)}, 2,
                              &out, 1),
               TH_SHAPE);
  th_tensor_release(a);
  th_tensor_release(b);
  th_callable_free(f);
}

Test(jit, uncached_traces_every_time) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_NONE);
  int traced = 0;
  OK(th_jit(ctx, trace_add, &traced, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0);
  for (int i = 0; i < 3; i++) {
    jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(a)}, 2, 12);
  }
  cr_expect_eq(traced, 3);
  jit_expect_counts(f, 0, 3, "nothing is cached");
  th_tensor_release(a);
  th_callable_free(f);
}

typedef struct jit_warned {
  int count;
  char text[256];
} jit_warned;

static void jit_warn(void *user, th_log_level level, const char *text) {
  jit_warned *warned = user;
  if (level == TH_LOG_WARN) {
    warned->count++;
    snprintf(warned->text, sizeof warned->text, "%s", text);
  }
}

Test(jit, many_entries) {
  jit_warned warned = {0};
  th_callable *f = NULL;
  th_set_log(ctx, TH_LOG_WARN, jit_warn, &warned);
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  o.verify_each = o.roundtrip_each = false;
  OK(th_jit(ctx, trace_add, NULL, NULL, 1, &o, &f));
  for (int round = 0; round < 2; round++) {
    for (int64_t n = 1; n <= 70; n++) {
      th_tensor *a = jit_tensor(TH_F32, 1, n, 0);
      jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(a)}, 2,
                 (double)(n * (n + 1)));
      th_tensor_release(a);
    }
  }
  jit_expect_counts(f, 70, 70, "input 'in0': dimension 0 is 70 instead of 69");
  cr_expect_eq(warned.count, 1);
  cr_expect_str_eq(warned.text,
                   "64 compilations are kept for one callable, the newest "
                   "because of input 'in0': dimension 0 is 64 instead of 63 "
                   "(see th_cache_mode)");
  cr_expect_eq(th_diagnostic_count(ctx), 0);
  th_callable_free(f);
}

// ---- symbolic values

static th_status trace_flatten(th_tracer *t, th_value *const *in, size_t n,
                               th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_value *rows = th_size(t, in[0], 0), *columns = th_size(t, in[0], 1);
  th_dims shape = th_dims_with(TH_DIMS(0), 0, th_mul(t, rows, columns));
  out[0] = th_reshape(t, in[0], shape);
  out[1] = th_add(t, rows, th_integer(t, 1));
  return th_tracer_status(t);
}

Test(jit, symbolic_sizes) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_SYMBOLIC_VALUES);
  OK(th_jit(ctx, trace_flatten, NULL, NULL, 2, &o, &f));
  static const int64_t sizes[][2] = {{2, 3}, {5, 7}, {4, 2}, {3, 3}, {1, 4}};
  for (size_t i = 0; i < TH_COUNT(sizes); i++) {
    th_tensor *a = jit_tensor(TH_F32, 2, sizes[i][0], sizes[i][1]);
    th_leaf out[2] = {{.kind = TH_LEAF_TENSOR}};
    OK(th_call_leaves(f, NULL, (th_leaf[]){jit_leaf(a)}, 1, out, 2));
    cr_expect_eq(th_tensor_rank(out[0].tensor), 1);
    cr_expect_eq(th_tensor_numel(out[0].tensor), sizes[i][0] * sizes[i][1]);
    cr_expect_eq(out[1].kind, TH_LEAF_INT);
    cr_expect_eq(out[1].i, sizes[i][0] + 1);
    th_tensor_release(out[0].tensor);
    th_tensor_release(a);
  }
  // [3, 3] fits the first trace, which has two symbols; [1, 4] is special.
  jit_expect_counts(f, 3, 2, "sizes that were equal differ, or one is below 2");
  th_callable_free(f);
}

Test(jit, equal_sizes_share_a_symbol) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_SYMBOLIC_VALUES);
  OK(th_jit(ctx, trace_add, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0), *b = jit_tensor(TH_F32, 1, 5, 0);
  th_tensor *c = jit_tensor(TH_F32, 2, 2, 5);
  jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(a)}, 2, 12);
  jit_expect(f, (th_leaf[]){jit_leaf(b), jit_leaf(b)}, 2, 30);
  jit_expect_counts(f, 1, 1, "the first call");
  // Sizes that differ do not go together, with or without symbols.
  th_leaf out = {.kind = TH_LEAF_TENSOR};
  cr_expect_eq(th_call_leaves(f, NULL, (th_leaf[]){jit_leaf(a), jit_leaf(b)}, 2,
                              &out, 1),
               TH_SHAPE);
  cr_expect_null(out.tensor);
  jit_expect(f, (th_leaf[]){jit_leaf(c), jit_leaf(b)}, 2, 85);
  th_tensor_release(a);
  th_tensor_release(b);
  th_tensor_release(c);
  th_callable_free(f);
}

// A linear layer fixes a size that a parameter has.
static th_status trace_linear(th_tracer *t, th_value *const *in, size_t n,
                              th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  out[0] = th_linear(t, in[0], th_param(t, "weight"), NULL);
  return th_tracer_status(t);
}

static th_module *jit_module(th_dtype dtype, int64_t rows, int64_t columns) {
  th_module *m = NULL;
  OK(th_module_new(ctx, &m));
  th_tensor *w = jit_tensor(dtype, 2, rows, columns);
  OK(th_module_set_param(m, "weight", w));
  th_tensor_release(w);
  return m;
}

Test(jit, what_was_taken_for_granted_is_checked) {
  th_callable *f = NULL;
  th_module *m = jit_module(TH_F32, 2, 3);
  th_jit_options o = jit_options(TH_CACHE_SYMBOLIC_VALUES);
  OK(th_jit(ctx, trace_linear, NULL, m, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 2, 4, 3), *b = jit_tensor(TH_F32, 2, 9, 3);
  th_tensor *c = jit_tensor(TH_F32, 2, 9, 5);
  const char *const *texts;
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 562);
  cr_assert_eq(th_last_traces(f, TH_TRACES_PROLOGUE, &texts), 1);
  cr_expect(strstr(texts[0], "assert_number(s1 == 3, "), "%s", texts[0]);
  jit_expect(f, (th_leaf[]){jit_leaf(b)}, 1, 2682);
  jit_expect_counts(f, 1, 1, "the first call");
  th_leaf out = {.kind = TH_LEAF_TENSOR};
  cr_expect_eq(th_call_leaves(f, NULL, (th_leaf[]){jit_leaf(c)}, 1, &out, 1),
               TH_SHAPE);
  cr_expect(strstr(th_diagnostics_all(ctx), "linear: inner sizes differ"), "%s",
            th_diagnostics_all(ctx));
  th_tensor_release(a);
  th_tensor_release(b);
  th_tensor_release(c);
  th_callable_free(f);
  th_module_release(m);
}

static void jit_log(void *user, th_log_level level, const char *text) {
  (void)text;
  *(int *)user += level == TH_LOG_ERROR;
}

// Sizes that differ fail with symbols, then with constants: one report.
Test(jit, errors_are_logged_once) {
  int logged = 0;
  th_set_log(ctx, TH_LOG_ERROR, jit_log, &logged);
  th_jit_options o = jit_options(TH_CACHE_SYMBOLIC_VALUES);
  th_callable *f = NULL;
  OK(th_jit(ctx, trace_add, NULL, NULL, 1, &o, &f));
  th_tensor *in[] = {jit_tensor(TH_F32, 1, 3, 0), jit_tensor(TH_F32, 1, 5, 0)};
  th_tensor *y = NULL;
  cr_expect_eq(th_call(f, in, 2, &y, 1), TH_SHAPE);
  cr_expect_eq(logged, 1);
  th_tensor_release(in[0]);
  th_tensor_release(in[1]);
  th_callable_free(f);
}

// Asks what a number is, so that other numbers are other traces.
static th_status trace_branch(th_tracer *t, th_value *const *in, size_t n,
                              th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  bool big = th_number_value(t, in[1]) > 2;
  out[0] = big ? th_mul_scalar(t, in[0], 10) : th_neg(t, in[0]);
  return th_tracer_status(t);
}

Test(jit, asking_fixes_a_number) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_SYMBOLIC_VALUES);
  OK(th_jit(ctx, trace_branch, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0);
  th_leaf low = {.kind = TH_LEAF_FLOAT, .f = 1.5};
  th_leaf high = {.kind = TH_LEAF_FLOAT, .f = 2.5};
  jit_expect(f, (th_leaf[]){jit_leaf(a), low}, 2, -6);
  jit_expect(f, (th_leaf[]){jit_leaf(a), high}, 2, 60);
  jit_expect(f, (th_leaf[]){jit_leaf(a), low}, 2, -6);
  jit_expect_counts(f, 1, 2, "what the trace took for granted does not hold");
  th_tensor_release(a);
  th_callable_free(f);
}

// ---- modules

Test(jit, other_tensors_keep_the_code) {
  th_callable *f = NULL;
  th_module *m = jit_module(TH_F32, 2, 3);
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  OK(th_jit(ctx, trace_linear, NULL, m, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 14 + 32);
  th_tensor *w = jit_tensor(TH_F32, 2, 2, 3);
  OK(th_tensor_fill(ctx, w, 1));
  OK(th_module_set_param(m, "weight", w));
  th_tensor_release(w);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 12);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 12);
  jit_expect_counts(f, 2, 1, "the first call");
  w = jit_tensor(TH_F32, 2, 1, 3);
  OK(th_module_set_param(m, "weight", w));
  th_tensor_release(w);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 14);
  jit_expect_counts(f, 2, 2, "the module has changed");
  th_tensor_release(a);
  th_callable_free(f);
  th_module_release(m);
}

static th_status trace_count(th_tracer *t, th_value *const *in, size_t n,
                             th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_value *steps = th_buffer(t, "steps");
  th_buffer_set(t, "steps", th_add_scalar(t, steps, 1));
  out[0] = th_add(t, in[0], th_buffer(t, "steps"));
  th_input_set(t, 0, th_mul_scalar(t, in[0], 2));
  return th_tracer_status(t);
}

Test(jit, writes_back) {
  th_callable *f = NULL;
  th_module *m = NULL;
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  OK(th_module_new(ctx, &m));
  th_tensor *steps = jit_tensor(TH_F32, 1, 1, 0);
  OK(th_module_set_buffer(m, "steps", steps, false));
  OK(th_jit(ctx, trace_count, NULL, m, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 2, 0);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 3 + 4);
  cr_expect_eq(th_tensor_get(steps, 0), 2);
  cr_expect_eq(th_tensor_get(a, 1), 4);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 6 + 6);
  cr_expect_eq(th_tensor_get(steps, 0), 3);
  cr_expect_eq(th_tensor_get(a, 1), 8);
  th_tensor_release(a);
  th_tensor_release(steps);
  th_callable_free(f);
  th_module_release(m);
}

// The first input gets a row of the second, which may lie in its memory.
static th_status trace_overlap(th_tracer *t, th_value *const *in, size_t n,
                               th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_value *next = th_slice_scatter(t, in[0], th_neg(t, in[1]), 0, 0, 2, 1);
  th_input_set(t, 0, next);
  out[0] = th_mul_scalar(t, in[1], 10);
  return th_tracer_status(t);
}

Test(jit, inputs_in_one_memory) {
  static const char *const executors[] = {"ref", "host"};
  for (size_t i = 0; i < TH_COUNT(executors); i++) {
    th_callable *f = NULL;
    th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
    o.executors = executors[i];
    OK(th_jit(ctx, trace_overlap, NULL, NULL, 1, &o, &f));
    th_tensor *a = jit_tensor(TH_F32, 1, 4, 0), *b = NULL;
    int64_t two = 2;
    OK(th_tensor_view(ctx, a, 1, &two, NULL, 1, &b));
    jit_expect(f, (th_leaf[]){jit_leaf(a), jit_leaf(b)}, 2, 50);
    cr_expect_eq(th_tensor_get(a, 0), -2);
    cr_expect_eq(th_tensor_get(a, 1), -3);
    cr_expect_eq(th_tensor_get(a, 2), 3);
    th_tensor_release(a);
    th_tensor_release(b);
    th_callable_free(f);
  }
}

// ---- the trace

static th_status trace_scopes(th_tracer *t, th_value *const *in, size_t n,
                              th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_scope_push(t, "blocks.0");
  th_scope_push(t, "fc");
  cr_expect_str_eq(th_scope_path(t), "blocks.0.fc");
  th_value *w = th_param(t, "weight");
  cr_expect_eq(w, th_param(t, "weight"));
  cr_expect_str_eq(th_value_fqn(w), "blocks.0.fc.weight");
  th_value *y = th_linear(t, in[0], w, NULL);
  th_rename(t, y, "hidden");
  th_scope_pop(t);
  out[0] = th_relu(t, y);
  th_scope_pop(t);
  cr_expect_str_eq(th_scope_path(t), "");
  out[0] = th_linear(t, out[0], th_param(t, "tied"), NULL);
  return th_tracer_status(t);
}

Test(jit, scopes_names_ties) {
  th_callable *f = NULL;
  th_module *m = NULL;
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  int64_t dims[] = {3, 3};
  OK(th_module_new(ctx, &m));
  OK(th_module_add_param(m, "blocks.0.fc.weight", TH_F32, 2, dims));
  OK(th_module_tie(m, "tied", "blocks.0.fc.weight"));
  OK(th_jit(ctx, trace_scopes, NULL, m, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 0);
  const char *const *texts;
  cr_assert_gt(th_last_traces(f, TH_TRACES_COMPUTATION, &texts), 2);
  static const char *const wanted[] = {
      "def computation(t_blocks_0_fc_weight, in0):",
      "param blocks.0.fc.weight\n",
      "# blocks.0.fc  ",
      "jit_test.c:",
      "hidden = linear(in0, t_blocks_0_fc_weight)",
      "# blocks.0  "};
  for (size_t i = 0; i < TH_COUNT(wanted); i++) {
    cr_expect(strstr(texts[0], wanted[i]), "%s is not in\n%s", wanted[i],
              texts[0]);
  }
  th_tensor_release(a);
  th_callable_free(f);
  th_module_release(m);
}

static th_status trace_leaves(th_tracer *t, th_value *const *in, size_t n,
                              th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  cr_expect_str_eq(th_value_string(in[1]), "mean");
  cr_expect(!th_value_is_tensor(in[2]) && !th_value_is_number(in[2]));
  out[0] = th_where(t, in[4], in[0], in[3]);
  return th_tracer_status(t);
}

Test(jit, prologue_is_read_back) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  OK(th_jit(ctx, trace_leaves, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 2, 2, 3);
  th_leaf in[] = {jit_leaf(a),
                  {.kind = TH_LEAF_STRING, .text = "mean"},
                  {.kind = TH_LEAF_NONE},
                  {.kind = TH_LEAF_INT, .i = 7},
                  {.kind = TH_LEAF_BOOL, .i = 1}};
  jit_expect(f, in, 5, 21);
  const char *const *texts;
  cr_assert_eq(th_last_traces(f, TH_TRACES_PROLOGUE, &texts), 1);
  static const char *const wanted[] = {
      "  check_tensor(in0, 'cpu', f32, [2, 3], [3, 1])\n",
      "  check_string('in1', 'mean')\n",
      "  check_none('in2')\n",
      "  check_number(in3, 7)\n",
      "  check_number(in4, True)\n",
      "return {'output': (in0, in1, in2, in3, in4)}"};
  for (size_t i = 0; i < TH_COUNT(wanted); i++) {
    cr_expect(strstr(texts[0], wanted[i]), "%s is not in\n%s", wanted[i],
              texts[0]);
  }
  th_ir *ir = th_ir_new(ctx);
  th_trace *again = NULL;
  OK(th_trace_parse(ir, "prologue", texts[0], strlen(texts[0]), &again));
  th_buffer text;
  th_buffer_init(&text, &ir->arena);
  th_trace_print(&text, again, NULL);
  cr_expect_str_eq(text.data, texts[0]);
  th_ir_release(ir);
  in[1].text = "sum";
  th_tensor_release(a);
  th_callable_free(f);
}

static th_status trace_positive(th_tracer *t, th_value *const *in, size_t n,
                                th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  out[0] = th_mul_scalar(t, in[0], 2);
  return th_tracer_status(t);
}

static th_status trace_negative(th_tracer *t, th_value *const *in, size_t n,
                                th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  out[0] = th_neg(t, in[0]);
  return th_tracer_status(t);
}

static th_status trace_cond(th_tracer *t, th_value *const *in, size_t n,
                            th_value **out, size_t m, void *user) {
  (void)user;
  th_value *sum = th_sum(t, in[0], TH_NO_DIMS, false);
  return th_cond(t, th_gt(t, sum, th_number(t, 0)), trace_positive,
                 trace_negative, NULL, in, n, out, m);
}

Test(jit, branches) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  OK(th_jit(ctx, trace_cond, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 12);
  th_tensor_set(a, 0, -100);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 95);
  jit_expect_counts(f, 1, 1, "the first call");
  th_tensor_release(a);
  th_callable_free(f);
}

// Results that no statement makes, and no results at all.
static th_status trace_through(th_tracer *t, th_value *const *in, size_t n,
                               th_value **out, size_t m, void *user) {
  (void)n, (void)user;
  if (m == 0) {
    th_input_set(t, 0, th_neg(t, in[0]));
    return th_tracer_status(t);
  }
  out[0] = in[0];
  out[1] = th_transpose(t, in[0], 0, 1);
  out[2] = th_integer(t, 7);
  out[3] = in[1];
  return th_tracer_status(t);
}

Test(jit, results_without_statements) {
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  th_callable *f = NULL, *g = NULL;
  th_tensor *a = jit_tensor(TH_F32, 2, 2, 3);
  th_leaf in[] = {jit_leaf(a), {.kind = TH_LEAF_FLOAT, .f = 0.5}};
  th_leaf out[4] = {{.kind = TH_LEAF_NONE}};
  OK(th_jit(ctx, trace_through, NULL, NULL, 4, &o, &f));
  OK(th_call_leaves(f, NULL, in, 2, out, 4));
  cr_expect(!th_tensor_shares_storage(out[0].tensor, a));
  cr_expect(th_tensor_equal(out[0].tensor, a));
  cr_expect_eq(th_tensor_get(out[1].tensor, 1), 4);
  cr_expect(out[2].kind == TH_LEAF_INT && out[2].i == 7);
  cr_expect(out[3].kind == TH_LEAF_FLOAT && out[3].f == 0.5);
  OK(th_jit(ctx, trace_through, NULL, NULL, 0, &o, &g));
  OK(th_call(g, &a, 1, NULL, 0));
  cr_expect_eq(th_tensor_get(a, 5), -6);
  th_tensor_release(out[0].tensor);
  th_tensor_release(out[1].tensor);
  th_tensor_release(a);
  th_callable_free(f);
  th_callable_free(g);
}

static th_status trace_constant(th_tracer *t, th_value *const *in, size_t n,
                                th_value **out, size_t m, void *user) {
  (void)n, (void)m;
  th_value *c = th_constant(t, "table", *(th_tensor **)user);
  out[0] = th_add(t, in[0], c);
  return th_tracer_status(t);
}

Test(jit, constants_are_held) {
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  th_callable *f = NULL;
  th_tensor *a = jit_tensor(TH_F32, 1, 3, 0), *c = jit_tensor(TH_F32, 1, 3, 0);
  OK(th_jit(ctx, trace_constant, &c, NULL, 1, &o, &f));
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 12);
  th_tensor_release(c);
  jit_expect(f, (th_leaf[]){jit_leaf(a)}, 1, 12);
  jit_expect_counts(f, 1, 1, "the first call");
  th_tensor_release(a);
  th_callable_free(f);
}

// More leaves than the stack of a call has room for.
static th_status trace_many(th_tracer *t, th_value *const *in, size_t n,
                            th_value **out, size_t m, void *user) {
  (void)user;
  for (size_t i = 0; i < m; i++) {
    out[i] = th_add(t, in[i], in[n - 1 - i]);
  }
  return th_tracer_status(t);
}

Test(jit, many_leaves) {
  enum { IN = 300, OUT = 70 };
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  th_callable *f = NULL;
  th_tensor *in[IN], *out[OUT] = {NULL};
  o.verify_each = o.roundtrip_each = false;
  for (int i = 0; i < IN; i++) {
    in[i] = jit_tensor(TH_F32, 1, 1, 0);
    th_tensor_set(in[i], 0, i);
  }
  OK(th_jit(ctx, trace_many, NULL, NULL, OUT, &o, &f));
  for (int round = 0; round < 2; round++) {
    OK(th_call(f, in, IN, out, OUT));
  }
  for (int i = 0; i < OUT; i++) {
    cr_expect_eq(th_tensor_get(out[i], 0), IN - 1);
    th_tensor_release(out[i]);
  }
  for (int i = 0; i < IN; i++) {
    th_tensor_release(in[i]);
  }
  th_callable_free(f);
}

// ---- errors

static int jit_error_line;

static th_status trace_wrong(th_tracer *t, th_value *const *in, size_t n,
                             th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  jit_error_line = __LINE__ + 1;
  th_value *x = th_relu(t, in[0]);
  th_value *y = th_matmul(t, x, in[0]);
  cr_expect_null(y);
  cr_expect_null(th_add(t, y, x)); // silent
  cr_expect_null(th_param(t, "nothing"));
  out[0] = th_exp(t, y);
  return th_tracer_status(t);
}

Test(jit, the_first_error_has_both_places) {
  th_callable *f = NULL;
  th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
  OK(th_jit(ctx, trace_wrong, NULL, NULL, 1, &o, &f));
  th_tensor *a = jit_tensor(TH_F32, 2, 2, 3), *y = NULL;
  char want[256];
  cr_expect_eq(th_call(f, &a, 1, &y, 1), TH_SHAPE);
  cr_expect_null(y);
  cr_assert_eq(th_diagnostic_count(ctx), 2, "%s", th_diagnostics_all(ctx));
  const char *error = th_diagnostic_text(ctx, 0);
  const char *note = th_diagnostic_text(ctx, 1);
  snprintf(want, sizeof want,
           "jit_test.c:%d: error: matmul: inner sizes differ: f32[2, 3] x "
           "f32[2, 3] (3 vs 2)",
           jit_error_line + 1);
  cr_expect(strstr(error, want), "%s", error);
  snprintf(want, sizeof want,
           "jit_test.c:%d: note: 't0' is the result of 'relu' here",
           jit_error_line);
  cr_expect(strstr(note, want), "%s", note);
  th_tensor_release(a);
  th_callable_free(f);
}

typedef struct jit_mistake {
  int which;
  const char *text;
} jit_mistake;

static th_status trace_mistake(th_tracer *t, th_value *const *in, size_t n,
                               th_value **out, size_t m, void *user) {
  (void)n, (void)m;
  out[0] = in[0];
  switch (((const jit_mistake *)user)->which) {
  case 0:
    th_linear(t, in[0], NULL, NULL);
    break;
  case 1:
    th_param(t, "a.wieght");
    break;
  case 2:
    th_op(t, "nonsense", NULL, 0, NULL, 0);
    break;
  case 3:
    out[0] = NULL;
    break;
  case 4:
    th_scope_push(t, "open");
    break;
  case 5:
    th_scope_pop(t);
    break;
  case 6:
    th_size(t, in[0], 4);
    break;
  case 7:
    th_input_set(t, 0, th_sum(t, in[0], TH_NO_DIMS, false));
    break;
  case 8:
    th_sin(t, th_number(t, 1));
    break;
  case 9:
    return TH_BACKEND;
  case 10:
    th_tracer_error(t, TH_UNSUPPORTED, "only %d heads", 8);
    break;
  case 11:
    th_chunk(t, in[0], 0, 0, out);
    break;
  case 12:
    th_constant(t, NULL, NULL);
    break;
  case 13:
    th_cond(t, th_boolean(t, true), trace_mistake, NULL, user, in, 1, out, 1);
    break;
  default:
    break;
  }
  return th_tracer_status(t);
}

Test(jit, mistakes) {
  static jit_mistake mistakes[] = {
      {0, "error: linear: argument 'weight' is NULL"},
      {1, "error: the module has no parameter 'a.wieght'; it has 'weight'"},
      {2, "error: there is no operation 'nonsense'"},
      {3, "error: output 0 was not set"},
      {4, "error: scope 'open' was not left"},
      {5, "error: th_scope_pop without a th_scope_push"},
      {6, "error: 'in0' is \"cpu f32[2, 3]\" and has no dimension 4"},
      {7, "error: 'in0' is \"cpu f32[2, 3]\" and cannot hold \"cpu f32[]\""},
      {8, "error: sin: cannot be computed on these numbers alone"},
      {9, "error: the function failed: backend library reported an error"},
      {10, "error: only 8 heads"},
      {11, "error: chunk: 0 pieces of dimension 0"},
      {12, "error: a constant has no name"},
      {13, "error: cond: a branch is NULL"},
  };
  th_module *module = jit_module(TH_F32, 2, 3);
  th_tensor *a = jit_tensor(TH_F32, 2, 2, 3);
  for (size_t i = 0; i < TH_COUNT(mistakes); i++) {
    th_callable *f = NULL;
    th_tensor *y = NULL;
    th_jit_options o = jit_options(TH_CACHE_CONSTANT_VALUES);
    OK(th_jit(ctx, trace_mistake, &mistakes[i], module, 1, &o, &f));
    cr_expect_neq(th_call(f, &a, 1, &y, 1), TH_OK, "mistake %zu", i);
    cr_expect_eq(th_diagnostic_count(ctx), 1, "%s", th_diagnostics_all(ctx));
    cr_expect(strstr(th_diagnostics_all(ctx), mistakes[i].text), "%s: %s",
              mistakes[i].text, th_diagnostics_all(ctx));
    th_diagnostics_clear(ctx);
    th_callable_free(f);
  }
  th_callable *f = NULL;
  cr_expect_eq(th_jit(ctx, NULL, NULL, module, 1, NULL, &f), TH_INVALID);
  cr_expect_eq(th_jit_text(ctx, NULL, NULL, 0, NULL, &f), TH_PARSE);
  th_tensor_release(a);
  th_module_release(module);
}

Test(jit, options_are_checked) {
  static const th_transform no_size = {.name = "t", .trace = NULL};
  static const th_transform no_name = {.size = sizeof no_name};
  th_jit_options o[10];
  for (size_t i = 0; i < TH_COUNT(o); i++) {
    o[i] = jit_options(TH_CACHE_CONSTANT_VALUES);
  }
  o[0].size = 0;
  o[1].cache = (th_cache_mode)7;
  o[2].threads = -1;
  o[3].transform_count = o[4].transform_count = o[5].transform_count = 1;
  o[4].transforms = &no_size;
  o[5].transforms = &no_name;
  o[6].executors = "ref,nobody";
  o[7].executors = "";
  o[8].passes = "dce,nothing";
  static const char *const texts[] = {"th_jit_options: size is 0",
                                      "there is no cache mode 7",
                                      "threads is -1",
                                      "transforms is NULL, not 1",
                                      "transform 0: size is 0",
                                      "a transform has no name",
                                      "no executor 'nobody'; there are ref",
                                      "the list of executors is empty",
                                      "there is no pass 'nothing'"};
  for (size_t i = 0; i < TH_COUNT(texts); i++) {
    th_callable *f = NULL;
    bool unknown = strstr(texts[i], " no pass") || strstr(texts[i], "nobody");
    cr_expect_eq(th_jit(ctx, trace_add, NULL, NULL, 1, &o[i], &f),
                 unknown ? TH_NOT_FOUND : TH_INVALID, "%zu", i);
    cr_expect_eq(th_diagnostic_count(ctx), 1);
    cr_expect(strstr(th_diagnostics_all(ctx), texts[i]), "%s",
              th_diagnostics_all(ctx));
    th_diagnostics_clear(ctx);
  }
  th_callable *f = NULL;
  th_call_options call[2] = {{0}, TH_CALL_OPTIONS_INIT};
  call[1].threads = -1;
  OK(th_jit(ctx, trace_add, NULL, NULL, 1, &o[9], &f));
  cr_expect_eq(th_call_leaves(f, &call[0], NULL, 0, NULL, 0), TH_INVALID);
  cr_expect_eq(th_call_leaves(f, &call[1], NULL, 0, NULL, 0), TH_INVALID);
  cr_expect_str_eq(
      th_diagnostics_all(ctx),
      "error: th_call_options: size is 0, not sizeof(th_call_options)\n"
      "error: th_call_options: threads is -1\n");
  th_callable_free(f);
}

// ---- memory

static th_status jit_work(void *user) {
  static const int64_t dims[] = {2, 3};
  th_context *own = th_context_new();
  th_module *m = NULL;
  th_callable *f = NULL;
  th_tensor *a = NULL, *y = NULL, *z = NULL;
  th_jit_options o = jit_options(*(th_cache_mode *)user);
  th_status status = own ? th_module_new(own, &m) : TH_NO_MEMORY;
  o.verify_each = o.roundtrip_each = false;
  if (status == TH_OK) {
    status = th_module_add_param(m, "weight", TH_F32, 2, dims);
  }
  if (status == TH_OK) {
    status = th_tensor_new(own, TH_F32, 2, dims, &a);
  }
  if (status == TH_OK) {
    status = th_jit(own, trace_linear, NULL, m, 1, &o, &f);
  }
  if (status == TH_OK) {
    status = th_call(f, &a, 1, &y, 1);
  }
  if (status == TH_OK) {
    const char *const *texts;
    (void)th_last_traces(f, TH_TRACES_PROLOGUE, &texts);
    (void)th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
    status = th_call(f, &a, 1, &z, 1);
  }
  cr_assert(status == TH_OK || (!y || !z));
  th_tensor_release(a);
  th_tensor_release(y);
  th_tensor_release(z);
  th_callable_free(f);
  th_module_release(m);
  th_context_free(own);
  return status;
}

Test(jit, every_allocation_fails) {
  th_cache_mode modes[] = {TH_CACHE_CONSTANT_VALUES, TH_CACHE_SYMBOLIC_VALUES,
                           TH_CACHE_NONE};
  for (size_t i = 0; i < TH_COUNT(modes); i++) {
    torture(jit_work, &modes[i]);
  }
}

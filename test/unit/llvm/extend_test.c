// Executors, operations and transforms of the user.
#include "base/alloc.h"
#include "base/context.h"
#include "thunder/thunder.h"
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(expr)                                                               \
  do {                                                                         \
    th_status ok_ = (expr);                                                    \
    cr_assert(ok_ == TH_OK, "%s: %s\n%s", #expr, th_status_text(ok_),          \
              th_diagnostics_all(ctx));                                        \
  } while (0)

static th_context *ctx;

static void extend_setup(void) { ctx = th_context_new(); }
static void extend_teardown(void) { th_context_free(ctx); }
TestSuite(extend, .init = extend_setup, .fini = extend_teardown);

static th_jit_options extend_options(const char *executors) {
  th_jit_options o = TH_JIT_OPTIONS_INIT;
  o.executors = executors;
  o.threads = 1;
  o.verify_each = o.roundtrip_each = true;
  return o;
}

// A row of 1, 2, 3, ...
static th_tensor *extend_row(int64_t n) {
  th_tensor *t = NULL;
  OK(th_tensor_new(ctx, TH_F32, 1, &n, &t));
  for (int64_t i = 0; i < n; i++) {
    th_tensor_set(t, i, (double)(i + 1));
  }
  return t;
}

static double extend_call(th_callable *f, th_tensor *x) {
  th_tensor *y = NULL;
  OK(th_call(f, &x, 1, &y, 1));
  double first = th_tensor_get(y, 0);
  th_tensor_release(y);
  return first;
}

static bool extend_in_trace(th_callable *f, bool last, const char *text) {
  const char *const *texts;
  size_t count = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
  return count && strstr(texts[last ? count - 1 : 0], text) != NULL;
}

static size_t extend_traces_by(th_callable *f, const char *name) {
  const char *const *texts;
  size_t found = 0, count = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
  for (size_t i = 0; i < count; i++) {
    found += strncmp(texts[i], "# Constructed by ", 17) == 0 &&
             strncmp(texts[i] + 17, name, strlen(name)) == 0;
  }
  return found;
}

// ---- operations

// pairs: [2n] -> [n], the sum of neighbours.
static th_status pairs_shape(th_shape_query *q, void *user) {
  ++*(int *)user;
  const th_dim *n = th_query_dim(q, 0, -1);
  if (th_query_rank(q, 0) != 1 || th_dim_value(n) % 2) {
    return th_query_error(q, TH_SHAPE, "a row of even size is wanted, not %d",
                          (int)th_dim_value(n));
  }
  const th_dim *half = th_dim_make(q, '/', n, th_dim_int(q, 2));
  return th_query_out(q, th_query_dtype(q, 0), 1, &half);
}

static th_status run_pairs(th_run *run) {
  const th_view *x = th_run_tensor(run, 0), *y = th_run_out(run, 0);
  for (int64_t i = 0; i < y->dims[0]; i++) {
    ((float *)y->data)[i] =
        (float)th_run_float(run, 1) *
        (((const float *)x->data)[2 * i] + ((const float *)x->data)[2 * i + 1]);
  }
  return TH_OK;
}

static th_operation pairs_operation(int *asked) {
  th_operation o = TH_OPERATION_INIT;
  o.name = "test::pairs";
  o.schema = "T x, F scale=1.0";
  o.shape = pairs_shape;
  o.user = asked;
  return o;
}

static const th_claim pairs_claims[] = {
    {.op = "test::pairs", .run = run_pairs}};
static const th_executor_options pairs_executor = {
    .size = sizeof(th_executor_options),
    .name = "pairs",
    .version = "1",
    .claims = pairs_claims,
    .claim_count = 1,
    .claim_size = sizeof(th_claim)};

static th_status trace_pairs(th_tracer *t, th_value *const *in, size_t n,
                             th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  const th_operand operands[] = {th_operand_value(in[0]), th_operand_int(3)};
  return th_op(t, "test::pairs", operands, 2, out, 1);
}

Test(extend, an_operation_that_an_executor_runs) {
  th_callable *f = NULL;
  int asked = 0;
  th_operation o = pairs_operation(&asked);
  OK(th_operation_register(ctx, &o));
  OK(th_executor_register(ctx, &pairs_executor));
  th_jit_options options = extend_options("pairs,ref");
  OK(th_jit(ctx, trace_pairs, NULL, NULL, 1, &options, &f));
  th_tensor *even = extend_row(4), *odd = extend_row(3), *y = NULL;
  cr_expect_eq(extend_call(f, even), 9);
  cr_expect(asked > 0);
  cr_expect(extend_in_trace(f, true, "pairs.test::pairs(in0, 3)"));
  cr_expect_eq(th_call(f, &odd, 1, &y, 1), TH_SHAPE);
  cr_expect(strstr(th_diagnostics_all(ctx),
                   "test::pairs: a row of even size is wanted, not 3"),
            "%s", th_diagnostics_all(ctx));
  th_tensor_release(even);
  th_tensor_release(odd);
  th_callable_free(f);
}

Test(extend, an_operation_that_nobody_runs) {
  th_callable *f = NULL;
  int asked = 0;
  th_operation o = pairs_operation(&asked);
  OK(th_operation_register(ctx, &o));
  th_jit_options options = extend_options("ref");
  OK(th_jit(ctx, trace_pairs, NULL, NULL, 1, &options, &f));
  th_tensor *x = extend_row(4), *y = NULL;
  cr_expect_eq(th_call(f, &x, 1, &y, 1), TH_UNSUPPORTED);
  cr_expect(strstr(th_diagnostics_all(ctx), "test::pairs"));
  th_tensor_release(x);
  th_callable_free(f);
}

Test(extend, bad_operations) {
  int asked = 0;
  th_operation good = pairs_operation(&asked), o = good;
  o.name = "pairs";
  cr_expect_eq(th_operation_register(ctx, &o), TH_INVALID);
  o = good;
  o.schema = "Q x";
  cr_expect_eq(th_operation_register(ctx, &o), TH_INVALID);
  o = good;
  o.shape = NULL;
  cr_expect_eq(th_operation_register(ctx, &o), TH_INVALID);
  o = good;
  o.out_count = 99;
  cr_expect_eq(th_operation_register(ctx, &o), TH_INVALID);
  OK(th_operation_register(ctx, &good));
  cr_expect_eq(th_operation_register(ctx, &good), TH_INVALID);
}

static th_status mute_shape(th_shape_query *q, void *user) {
  (void)q, (void)user;
  return TH_DTYPE;
}

Test(extend, an_earlier_error_hides_none) {
  static const char text[] = "def f(x):\n  # x: \"cpu f32[3]\"\n"
                             "  y = test::mute(x)\n  return y\n";
  int asked = 0;
  th_operation o = pairs_operation(&asked);
  o.name = "test::mute";
  o.schema = "T x";
  o.shape = mute_shape;
  OK(th_operation_register(ctx, &o));
  cr_expect_eq(th_operation_register(ctx, &o), TH_INVALID);
  th_callable *f = NULL;
  cr_expect_eq(th_jit_text(ctx, "t", text, strlen(text), NULL, &f), TH_DTYPE);
  cr_expect(strstr(th_diagnostics_all(ctx), "its shape rule failed"), "%s",
            th_diagnostics_all(ctx));
}

// twice(x) = x + x, by its expansion alone.
static th_status twice_meaning(th_tracer *t, const th_stmt *stmt,
                               th_value **out, void *user) {
  (void)user;
  th_value *x = th_argument(t, stmt, 0);
  out[0] = th_add(t, x, x);
  return th_tracer_status(t);
}

static th_status trace_twice(th_tracer *t, th_value *const *in, size_t n,
                             th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  const th_operand x = th_operand_value(in[0]);
  return th_op(t, "test::twice", &x, 1, out, 1);
}

Test(extend, an_operation_with_a_meaning) {
  th_callable *f = NULL;
  th_operation o = TH_OPERATION_INIT;
  o.name = "test::twice";
  o.schema = "T x";
  o.expand = twice_meaning;
  OK(th_operation_register(ctx, &o));
  th_jit_options options = extend_options("ref");
  OK(th_jit(ctx, trace_twice, NULL, NULL, 1, &options, &f));
  th_tensor *x = extend_row(4);
  cr_expect_eq(extend_call(f, x), 2);
  cr_expect(
      extend_in_trace(f, false, "test::twice(in0)  # t0: \"cpu f32[4]\""));
  cr_expect(extend_in_trace(f, true, "ref.add(in0, in0)"));
  th_tensor_release(x);
  th_callable_free(f);
}

// ---- executors

static int extend_destroyed;

static th_status count_create(th_context *of, const th_stmt *stmt,
                              void **out_state) {
  (void)of, (void)stmt;
  *out_state = calloc(1, sizeof(int));
  return *out_state ? TH_OK : TH_NO_MEMORY;
}

static th_status count_add(void *state) {
  ++*(int *)state;
  return TH_OK;
}

static th_status count_reset(void *state) {
  *(int *)state = 0;
  return TH_OK;
}

static void count_destroy(void *state) {
  extend_destroyed++;
  free(state);
}

static th_status count_export(const void *state, char **out_json) {
  char text[16] = "[0]";
  text[1] = (char)('0' + *(const int *)state);
  *out_json = th_text_copy(text);
  return *out_json ? TH_OK : TH_NO_MEMORY;
}

static th_status count_import(void *state, const char *json) {
  *(int *)state = atoi(json + 1);
  return TH_OK;
}

// Adds how often it ran.
static th_status run_counting_neg(th_run *run) {
  const th_view *x = th_run_tensor(run, 0), *y = th_run_out(run, 0);
  for (int64_t i = 0; i < x->dims[0]; i++) {
    ((float *)y->data)[i] =
        (float)*(int *)th_run_state(run) - ((const float *)x->data)[i];
  }
  return TH_OK;
}

static bool count_check(const th_stmt *stmt, const char **reason) {
  *reason = "only rows";
  return th_stmt_arg_rank(stmt, 0) == 1;
}

static void extend_counting(void) {
  static const th_claim claims[] = {
      {.op = "neg", .check = count_check, .run = run_counting_neg}};
  static const th_state_hooks hooks = {.size = sizeof hooks,
                                       .create = count_create,
                                       .before_run = count_add,
                                       .reset = count_reset,
                                       .destroy = count_destroy,
                                       .export_state = count_export,
                                       .import_state = count_import};
  static const th_executor_options options = {.size = sizeof options,
                                              .name = "counting",
                                              .version = "2",
                                              .claims = claims,
                                              .claim_count = 1,
                                              .claim_size = sizeof(th_claim),
                                              .state = &hooks};
  OK(th_executor_register(ctx, &options));
  cr_expect_eq(th_executor_register(ctx, &options), TH_INVALID);
}

static th_status trace_neg(th_tracer *t, th_value *const *in, size_t n,
                           th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_scope_push(t, "layer");
  out[0] = th_neg(t, in[0]);
  th_scope_pop(t);
  return th_tracer_status(t);
}

Test(extend, states) {
  th_callable *f = NULL, *g = NULL;
  char *json = NULL;
  extend_counting();
  th_jit_options options = extend_options("counting,ref");
  OK(th_jit(ctx, trace_neg, NULL, NULL, 1, &options, &f));
  OK(th_jit(ctx, trace_neg, NULL, NULL, 1, &options, &g));
  th_tensor *x = extend_row(4);
  cr_expect_eq(th_callable_export_state(f, "counting", &json), TH_NOT_FOUND);
  cr_expect_eq(extend_call(f, x), 0);
  cr_expect_eq(extend_call(f, x), 1);
  OK(th_callable_export_state(f, "counting", &json));
  cr_expect_str_eq(
      json, "{\"executor\": \"counting\", \"version\": 1, \"states\": [\n"
            "  {\"site\": \"layer#0\", \"op\": \"neg\", \"state\": [2]}]}\n");
  cr_expect_eq(extend_call(g, x), 0);
  OK(th_callable_import_state(g, "counting", json));
  cr_expect_eq(extend_call(g, x), 2);
  OK(th_callable_reset_state(g, "counting"));
  cr_expect_eq(extend_call(g, x), 0);
  cr_expect_eq(th_callable_import_state(g, "counting", "{]"), TH_PARSE);
  cr_expect_eq(th_callable_import_state(g, "counting", "{}"), TH_PARSE);
  cr_expect_eq(
      th_callable_import_state(g, "counting",
                               "{\"executor\": \"counting\", \"states\": []}"),
      TH_NOT_FOUND);
  cr_expect_eq(th_callable_import_state(g, "ref", json), TH_PARSE);
  th_text_free(json);
  th_tensor_release(x);
  th_callable_free(f);
  th_callable_free(g);
  cr_expect_eq(extend_destroyed, 2);
}

// ---- memory of a result whose size depends on data

typedef struct late_case {
  uint32_t out;
  int rank;
  int64_t dims[3];
  int times; // that it is asked for
  const char *want;
} late_case;

static const late_case *late;

static th_status run_late(th_run *run) {
  const th_view *view = NULL;
  th_run_set_number(run, UINT32_MAX, (th_scalar){.i = 1});
  th_status status = TH_OK;
  for (int i = 0; i < late->times && status == TH_OK; i++) {
    status = th_run_alloc(run, late->out, late->rank, late->dims, &view);
    cr_expect_eq(view == NULL, status != TH_OK);
  }
  return status;
}

static th_status trace_nonzero(th_tracer *t, th_value *const *in, size_t n,
                               th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  const th_operand operands[] = {th_operand_value(in[0])};
  return th_op(t, "nonzero", operands, 1, out, 1);
}

Test(extend, memory_that_is_asked_for_wrongly) {
  static const th_claim claims[] = {{.op = "nonzero", .run = run_late}};
  static const th_executor_options executor = {.size = sizeof executor,
                                               .name = "late",
                                               .claims = claims,
                                               .claim_count = 1,
                                               .claim_size = sizeof *claims};
  static const late_case cases[] = {
      {0, 2, {3, 1}, 1, NULL},
      {1, 2, {3, 1}, 1, "nonzero: there is no result 1 that has no memory"},
      {0, 2, {3, 1}, 2, "nonzero: there is no result 0 that has no memory"},
      {0, 1, {3}, 1, "nonzero: result 0 has 2 dimensions, not 1"},
      {0, 3, {3, 1, 1}, 1, "nonzero: result 0 has 2 dimensions, not 3"},
      {0, 2, {-1, 1}, 1, "-1"},
      {0, 2, {3, 2}, 1, "nonzero: result 0: dimension 1 is 1, not 2"},
      {0, 2, {3, 1}, 0, "nonzero: result 0 got no memory"},
  };
  th_callable *f = NULL;
  th_jit_options options = extend_options("late");
  OK(th_executor_register(ctx, &executor));
  OK(th_jit(ctx, trace_nonzero, NULL, NULL, 1, &options, &f));
  th_tensor *x = extend_row(4);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    th_tensor *y = NULL;
    late = &cases[i];
    th_status status = th_call(f, &x, 1, &y, 1);
    cr_expect_eq(status, late->want ? TH_INVALID : TH_OK, "%zu: %s", i,
                 th_diagnostics_all(ctx));
    cr_expect(!late->want || strstr(th_diagnostics_all(ctx), late->want),
              "%zu: %s", i, th_diagnostics_all(ctx));
    cr_expect_eq(th_diagnostic_count(ctx), late->want != NULL);
    th_diagnostics_clear(ctx);
    th_tensor_release(y);
  }
  th_tensor_release(x);
  th_callable_free(f);
}

Test(extend, names) {
  const char *version = NULL, *replacement = NULL, *name = NULL;
  bool seen = false, alias = false;
  extend_counting();
  for (size_t i = 0;
       (name = th_executor_name(ctx, i, &version, &replacement)) != NULL; i++) {
    seen = seen || (strcmp(name, "counting") == 0 && strcmp(version, "2") == 0);
    alias = alias || (strcmp(name, "torchcompile") == 0 && replacement);
  }
  cr_expect(seen && alias);
}

// ---- reports that are asked for again and again

static void extend_ask(th_callable *f, th_module *module) {
  const th_claim_row *rows;
  char first[32];
  const char *type = th_callable_input_type(f, 0);
  snprintf(first, sizeof first, "%s", type);
  cr_assert_eq(th_callable_claims(f, &rows), 1);
  cr_expect_eq(th_callable_claims(f, NULL), 1);
  cr_expect(th_last_traces(f, TH_TRACES_COMPUTATION, NULL) > 0);
  cr_assert_str_eq(th_module_child(module, NULL, 1), "b");
  cr_expect_str_eq(th_executor_name(ctx, 0, NULL, NULL), "cudnn");
  cr_expect_str_eq(th_diagnostics_all(ctx), "warning: w\n");
  cr_expect_str_eq(type, first, "it lives as long as the callable");
}

Test(extend, reports_take_no_more_memory) {
  const int64_t one = 1;
  th_callable *f = NULL;
  th_module *module = NULL;
  th_jit_options options = extend_options("ref");
  OK(th_module_new(ctx, &module));
  OK(th_module_add_param(module, "a.w", TH_F32, 1, &one));
  OK(th_module_add_param(module, "b.w", TH_F32, 1, &one));
  OK(th_jit(ctx, trace_neg, NULL, NULL, 1, &options, &f));
  th_tensor *x = extend_row(4);
  cr_expect_eq(extend_call(f, x), -1);
  th_warn_once(ctx, "w", TH_NOWHERE, "w");
  extend_ask(f, module);
  size_t live = th_alloc_live();
  for (int i = 0; i < 1000; i++) {
    extend_ask(f, module);
  }
  cr_expect_eq(th_alloc_live(), live);
  th_tensor_release(x);
  th_callable_free(f);
  th_module_release(module);
}

// ---- transforms

static th_status trace_chain(th_tracer *t, th_value *const *in, size_t n,
                             th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_scope_push(t, "act");
  th_value *h = th_exp(t, in[0]);
  th_rename(t, h, "h");
  th_scope_pop(t);
  out[0] = th_add_scalar(t, h, 1);
  return th_tracer_status(t);
}

// exp -> sin, in its place.
static th_status exp_to_sin(th_tracer *t, const th_trace *in, void *user) {
  cr_expect_eq(th_trace_input_count(in), 1);
  cr_expect_str_eq(th_value_name(th_trace_input_at(in, 0)), "in0");
  for (size_t i = 0; i < th_trace_stmt_count(in); i++) {
    const th_stmt *s = th_trace_stmt(in, i);
    if (strcmp(th_stmt_op_name(s), "exp") == 0) {
      ++*(int *)user;
      cr_expect_eq(th_trace_uses(in, th_stmt_out(s, 0)), 1);
      th_replace(t, s, 0, th_sin(t, th_argument(t, s, 0)));
    } else {
      th_keep(t, s);
    }
  }
  return th_tracer_status(t);
}

static void extend_transform(th_transform_stage stage, const char *want) {
  th_callable *f = NULL;
  int count = 0;
  th_transform transform = {.size = sizeof transform,
                            .name = "exp_to_sin",
                            .stage = stage,
                            .trace = exp_to_sin,
                            .user = &count};
  th_jit_options options = extend_options("ref");
  options.transforms = &transform;
  options.transform_count = 1;
  OK(th_jit(ctx, trace_chain, NULL, NULL, 1, &options, &f));
  th_tensor *x = extend_row(2);
  th_tensor_set(x, 0, 0);
  cr_expect_eq(extend_call(f, x), 1);
  cr_expect_eq(count, 1);
  cr_expect_eq(extend_traces_by(f, "exp_to_sin"), 1);
  cr_expect(extend_in_trace(f, true, want));
  cr_expect(extend_in_trace(f, true, "# act  "));
  th_tensor_release(x);
  th_callable_free(f);
}

Test(extend, transforms_before_and_behind_claims) {
  extend_transform(TH_BEFORE_CLAIM, "h = ref.sin(in0)");
  extend_transform(TH_AFTER_CLAIM, "h = ref.sin(in0)");
}

static th_status drop_all(th_tracer *t, const th_trace *in, void *user) {
  (void)in, (void)user;
  return th_tracer_status(t);
}

static th_status drop_first(th_tracer *t, const th_trace *in, void *user) {
  (void)user;
  for (size_t i = 1; i < th_trace_stmt_count(in); i++) {
    th_keep(t, th_trace_stmt(in, i));
  }
  return th_tracer_status(t);
}

static th_status keep_nothing(th_tracer *t, const th_trace *in, void *user) {
  (void)user;
  th_keep(t, th_trace_stmt(in, th_trace_stmt_count(in)));
  return th_tracer_status(t);
}

static th_status give_up(th_tracer *t, const th_trace *in, void *user) {
  (void)t, (void)in, (void)user;
  return TH_UNSUPPORTED;
}

// What belongs to the old trace where the new one's is wanted, and the reverse.

static th_status replace_by_old(th_tracer *t, const th_trace *in, void *user) {
  (void)user;
  const th_stmt *s = th_trace_stmt(in, 0);
  th_replace(t, s, 0, th_stmt_out(s, 0));
  return th_tracer_status(t);
}

static th_status rename_old(th_tracer *t, const th_trace *in, void *user) {
  (void)user;
  th_rename(t, th_stmt_out(th_trace_stmt(in, 0), 0), "old");
  return th_tracer_status(t);
}

static th_value *extend_new(th_tracer *t, const th_trace *in) {
  th_value *value = th_sin(t, th_argument(t, th_trace_stmt(in, 0), 0));
  th_rename(t, value, "new");
  return value;
}

static th_status keep_new(th_tracer *t, const th_trace *in, void *user) {
  (void)user;
  th_value *value = th_cos(t, extend_new(t, in));
  th_keep(t, th_value_def(value));
  return th_tracer_status(t);
}

static th_status replace_new(th_tracer *t, const th_trace *in, void *user) {
  (void)user;
  th_value *value = extend_new(t, in);
  th_replace(t, th_value_def(value), 0, value);
  return th_tracer_status(t);
}

static th_status map_new(th_tracer *t, const th_trace *in, void *user) {
  (void)user;
  cr_expect_null(th_mapped(t, extend_new(t, in)));
  return th_tracer_status(t);
}

static th_status argument_of_new(th_tracer *t, const th_trace *in, void *user) {
  (void)user;
  th_value *value = th_cos(t, extend_new(t, in));
  cr_expect_null(th_argument(t, th_value_def(value), 0));
  return th_tracer_status(t);
}

Test(extend, what_a_transform_must_not_do) {
  static const struct {
    th_trace_transform fn;
    th_status status;
    const char *text;
  } cases[] = {
      {drop_all, TH_INVALID, "was dropped by the transform, and the result"},
      {drop_first, TH_INVALID, "'h' was dropped by the transform, and add"},
      {replace_by_old, TH_INVALID, "'h' belongs to another trace"},
      {rename_old, TH_INVALID, "'h' belongs to another trace"},
      {keep_nothing, TH_INVALID, "the statement to keep is NULL"},
      {keep_new, TH_INVALID, "'new' belongs to another trace"},
      {replace_new, TH_INVALID, "'new' belongs to another trace"},
      {map_new, TH_INVALID, "'new' belongs to another trace"},
      {argument_of_new, TH_INVALID, "'new' belongs to another trace"},
      {give_up, TH_UNSUPPORTED, "transform 'bad': not supported"},
      {NULL, TH_INVALID, "transform 'bad' has no function for its stage"},
  };
  th_tensor *x = extend_row(2);
  for (size_t i = 0; i < TH_COUNT(cases); i++) {
    th_callable *f = NULL;
    th_tensor *y = NULL;
    th_transform transform = {.size = sizeof transform,
                              .name = "bad",
                              .stage = TH_BEFORE_CLAIM,
                              .trace = cases[i].fn};
    th_jit_options options = extend_options("ref");
    options.transforms = &transform;
    options.transform_count = 1;
    th_status status = th_jit(ctx, trace_chain, NULL, NULL, 1, &options, &f);
    if (status == TH_OK) {
      status = th_call(f, &x, 1, &y, 1);
    }
    cr_expect_eq(status, cases[i].status);
    cr_expect(strstr(th_diagnostics_all(ctx), cases[i].text), "%s",
              th_diagnostics_all(ctx));
    th_diagnostics_clear(ctx);
    th_callable_free(f);
  }
  th_tensor_release(x);
}

static void extend_log(void *user, th_log_level level, const char *text) {
  *(int *)user += level == TH_LOG_INFO && strstr(text, "def computation");
}

static th_status add_bias(th_module *module, void *user) {
  return th_module_add_param(module, "bias", TH_F32, 1, user);
}

static th_status trace_biased(th_tracer *t, th_value *const *in, size_t n,
                              th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  cr_expect(th_has_param(t, "bias") && !th_has_param(t, "weight"));
  out[0] = th_add(t, in[0], th_param(t, "bias"));
  return th_tracer_status(t);
}

Test(extend, built_in_transforms_and_modules) {
  th_callable *f = NULL;
  th_module *m = NULL;
  int logged = 0;
  int64_t dims[] = {2};
  th_transform transforms[3] = {{.size = sizeof *transforms,
                                 .name = "add_bias",
                                 .stage = TH_ON_MODULE,
                                 .module = add_bias,
                                 .user = dims},
                                TH_TRANSFORM_INIT,
                                TH_TRANSFORM_INIT};
  th_set_log(ctx, TH_LOG_INFO, extend_log, &logged);
  OK(th_transform_builtin("print", TH_AFTER_CLAIM, &transforms[1]));
  OK(th_transform_builtin("cse", TH_BEFORE_CLAIM, &transforms[2]));
  cr_expect_eq(th_transform_builtin("csf", TH_BEFORE_CLAIM, &transforms[0]),
               TH_NOT_FOUND);
  transforms[0] = (th_transform){.size = sizeof *transforms,
                                 .name = "add_bias",
                                 .stage = TH_ON_MODULE,
                                 .module = add_bias,
                                 .user = dims};
  OK(th_module_new(ctx, &m));
  th_jit_options options = extend_options("ref");
  options.transforms = transforms;
  options.transform_count = 3;
  OK(th_jit(ctx, trace_biased, NULL, m, 1, &options, &f));
  th_tensor *x = extend_row(2);
  cr_expect_eq(extend_call(f, x), 1);
  cr_expect_eq(logged, 1);
  cr_expect_eq(extend_traces_by(f, "cse"), 2);
  th_tensor_release(x);
  th_callable_free(f);
  th_module_release(m);
}

static th_status trace_norm(th_tracer *t, th_value *const *in, size_t n,
                            th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_value *mean = th_buffer(t, "mean"), *var = th_buffer(t, "var");
  th_value *new_mean = NULL, *new_var = NULL;
  th_value *x = th_reshape(t, in[0], TH_DIMS(2, 1));
  out[0] = th_batch_norm_train(t, x, NULL, NULL, mean, var, 0.1, 0, &new_mean,
                               &new_var);
  th_buffer_set(t, "mean", new_mean);
  th_buffer_set(t, "var", new_var);
  return th_tracer_status(t);
}

Test(extend, frozen_batch_norm) {
  th_transform freeze = TH_TRANSFORM_INIT;
  OK(th_transform_builtin("freeze_batch_norm", TH_BEFORE_CLAIM, &freeze));
  for (size_t frozen = 0; frozen < 2; frozen++) {
    th_callable *f = NULL;
    th_module *m = NULL;
    th_tensor *mean = extend_row(1), *var = extend_row(1);
    th_tensor_set(var, 0, 4);
    OK(th_module_new(ctx, &m));
    OK(th_module_set_buffer(m, "mean", mean, true));
    OK(th_module_set_buffer(m, "var", var, true));
    th_jit_options options = extend_options("ref");
    options.transforms = &freeze;
    options.transform_count = frozen;
    OK(th_jit(ctx, trace_norm, NULL, m, 1, &options, &f));
    th_tensor *x = extend_row(2);
    th_tensor_set(x, 0, 7);
    double y = extend_call(f, x);
    cr_expect_float_eq(y, frozen ? (7 - 1) / 2.0 : 1, 1e-6);
    cr_expect_float_eq(th_tensor_get(mean, 0), frozen ? 1 : 0.9 + 0.1 * 4.5,
                       1e-6);
    th_tensor_release(x);
    th_tensor_release(mean);
    th_tensor_release(var);
    th_callable_free(f);
    th_module_release(m);
  }
}

// ---- memory

static th_status extend_work(void *user) {
  th_context *own = th_context_new();
  int count = 0, asked = 0;
  int64_t n = 4;
  th_operation pairs = pairs_operation(&asked), twice = TH_OPERATION_INIT;
  th_transform transform = {.size = sizeof transform,
                            .name = "exp_to_sin",
                            .stage = TH_AFTER_CLAIM,
                            .trace = exp_to_sin,
                            .user = &count};
  th_jit_options options = extend_options("pairs,ref");
  th_callable *f = NULL;
  th_tensor *x = NULL, *y = NULL;
  options.verify_each = options.roundtrip_each = false;
  options.transforms = &transform;
  options.transform_count = 1;
  twice.name = "test::twice";
  twice.schema = "T x";
  twice.expand = twice_meaning;
  th_function functions[] = {trace_pairs, trace_twice, trace_chain};
  th_status status = own ? th_operation_register(own, &pairs) : TH_NO_MEMORY;
  if (status == TH_OK) {
    status = th_operation_register(own, &twice);
  }
  if (status == TH_OK) {
    status = th_executor_register(own, &pairs_executor);
  }
  if (status == TH_OK) {
    status = th_tensor_new(own, TH_F32, 1, &n, &x);
  }
  if (status == TH_OK) {
    status = th_jit(own, functions[*(int *)user], NULL, NULL, 1, &options, &f);
  }
  if (status == TH_OK) {
    status = th_call(f, &x, 1, &y, 1);
  }
  th_tensor_release(x);
  th_tensor_release(y);
  th_callable_free(f);
  th_context_free(own);
  return status;
}

Test(extend, every_allocation_fails) {
  for (int i = 0; i < 3; i++) {
    torture(extend_work, &i);
  }
}

// A user's fusing executor: add and mul of rows, by interpreting the body.
#include "thunder/thunder.h"
#include "torture.h"

#include <stdlib.h>
#include <string.h>

enum { REGION_VALUES = 16 };

// The values of a region: its arguments, then what its body makes.
typedef struct region_state {
  const th_value *values[REGION_VALUES];
  size_t count;
} region_state;

static int region_fused, region_released;

static bool region_can_fuse(const th_stmt *stmt, const char **reason) {
  const char *op = th_stmt_op_name(stmt);
  *reason = "only add and mul of rows";
  return (strcmp(op, "add") == 0 || strcmp(op, "mul") == 0 ||
          strcmp(op, "unsqueeze") == 0) &&
         th_stmt_arg_rank(stmt, 0) == 1;
}

static size_t region_find(const region_state *s, const th_value *value) {
  size_t i = 0;
  while (i < s->count && s->values[i] != value) {
    i++;
  }
  return i;
}

static float region_operand(const region_state *s, const float *now,
                            const th_stmt *stmt, size_t arg) {
  double number = 0;
  return th_stmt_arg_float(stmt, arg, &number)
             ? (float)number
             : now[region_find(s, th_stmt_arg_value(stmt, arg))];
}

static th_status region_run(th_run *run) {
  const region_state *s = th_run_state(run);
  const th_stmt *region = th_run_stmt(run);
  uint32_t inputs = (uint32_t)th_stmt_arg_count(region);
  int64_t n = th_run_tensor(run, 0)->dims[0];
  for (int64_t e = 0; e < n; e++) {
    float now[REGION_VALUES];
    for (uint32_t i = 0; i < inputs; i++) {
      now[i] = ((const float *)th_run_tensor(run, i)->data)[e];
    }
    for (uint32_t i = 0; i < th_stmt_body_count(region); i++) {
      const th_stmt *stmt = th_stmt_body(region, i);
      float a = region_operand(s, now, stmt, 0);
      float b = region_operand(s, now, stmt, 1);
      now[inputs + i] = strcmp(th_stmt_op_name(stmt), "add") ? a * b : a + b;
    }
    for (uint32_t i = 0; i < th_run_out_count(run); i++) {
      ((float *)th_run_out(run, i)->data)[e] =
          now[region_find(s, th_stmt_out(region, i))];
    }
  }
  return TH_OK;
}

static th_status region_fuse(th_context *ctx, const th_stmt *region,
                             th_run_fn *out_run, void **out_state) {
  (void)ctx;
  region_state *s = calloc(1, sizeof *s);
  if (!s) {
    return TH_NO_MEMORY;
  }
  for (size_t i = 0; i < th_stmt_arg_count(region); i++) {
    s->values[s->count++] = th_stmt_arg_value(region, i);
  }
  for (uint32_t i = 0; i < th_stmt_body_count(region); i++) {
    s->values[s->count++] = th_stmt_out(th_stmt_body(region, i), 0);
  }
  cr_assert(s->count <= REGION_VALUES);
  cr_assert_null(th_stmt_body(region, th_stmt_body_count(region)));
  region_fused++;
  *out_run = region_run;
  *out_state = s;
  return TH_OK;
}

static void region_release(void *state) {
  region_released++;
  free(state);
}

static th_status region_refuse(th_context *ctx, const th_stmt *region,
                               th_run_fn *out_run, void **out_state) {
  (void)ctx, (void)region, (void)out_run, (void)out_state;
  return TH_UNSUPPORTED;
}

static th_executor_options region_executor(void) {
  return (th_executor_options){.size = sizeof(th_executor_options),
                               .name = "rows2",
                               .version = "1",
                               .can_fuse = region_can_fuse,
                               .fuse = region_fuse,
                               .release = region_release};
}

// Minus (x + x) * x + 1, and that and x: a region, a kernel of `host` that
// reads the region's result in the slab, a region.
static th_status region_trace(th_tracer *t, th_value *const *in, size_t n,
                              th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_value *h = th_mul(t, th_add(t, in[0], in[0]), in[0]);
  out[0] = th_neg(t, th_add_scalar(t, h, 1));
  out[1] = th_add(t, out[0], in[0]);
  return th_tracer_status(t);
}

static th_status region_work(void *user) {
  th_executor_options executor = region_executor();
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_context *ctx = th_context_new();
  th_tensor *x = NULL, *y[2] = {NULL};
  th_callable *f = NULL;
  const int64_t n = 4;
  options.executors = user ? "rows2,host" : "rows2,ref";
  options.threads = 1;
  options.verify_each = options.roundtrip_each = user != NULL;
  th_status status = ctx ? th_executor_register(ctx, &executor) : TH_NO_MEMORY;
  if (status == TH_OK) {
    status = th_tensor_new(ctx, TH_F32, 1, &n, &x);
  }
  for (int64_t i = 0; status == TH_OK && i < n; i++) {
    th_tensor_set(x, i, (double)(i + 1));
  }
  if (status == TH_OK) {
    status = th_jit(ctx, region_trace, NULL, NULL, 2, &options, &f);
  }
  if (status == TH_OK) {
    status = th_call(f, &x, 1, y, 2);
  }
  for (int64_t i = 0; status == TH_OK && i < n; i++) {
    double v = (double)(i + 1), want = 2 * v * v + 1;
    cr_expect_eq(th_tensor_get(y[0], i), -want);
    cr_expect_eq(th_tensor_get(y[1], i), v - want);
  }
  if (status == TH_OK && user) {
    const char *const *texts;
    size_t count = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
    *(char **)user = th_text_copy(count ? texts[count - 1] : "");
  }
  cr_expect(status == TH_OK || !user, "%s", th_diagnostics_all(ctx));
  th_tensor_release(x);
  for (int i = 0; i < 2; i++) {
    th_tensor_release(y[i]);
  }
  th_callable_free(f);
  th_context_free(ctx);
  return status;
}

static size_t region_count(const char *text, const char *part) {
  size_t n = 0;
  for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
    n++;
  }
  return n;
}

Test(user_region, three_statements_are_one_step) {
  char *text = NULL;
  region_fused = region_released = 0;
  cr_assert_eq(region_work(&text), TH_OK);
  cr_expect_eq(region_count(text, "rows2Fusion0(in0)"), 1, "%s", text);
  cr_expect_eq(region_count(text, "rows2Fusion2(t3, in0)"), 1, "%s", text);
  cr_expect_eq(region_count(text, "rows2Fusion"), 2, "%s", text);
  cr_expect_eq(region_count(text, "rows2Kernel"), 0, "%s", text);
  cr_expect_eq(region_count(text, "# t1 = mul(t0, in0)"), 1, "%s", text);
  cr_expect_eq(region_count(text, "\" @"), 1, "%s", text); // t2 alone
  cr_expect_eq(region_fused, 2);
  cr_expect_eq(region_released, 2);
  th_text_free(text);
}

Test(user_region, every_allocation_fails) {
  region_fused = region_released = 0;
  torture(region_work, NULL);
  cr_expect(region_fused > 2);
  cr_expect_eq(region_fused, region_released);
}

// A view behind a region is a window on its result.
static th_status region_trace_view(th_tracer *t, th_value *const *in, size_t n,
                                   th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  out[0] = th_neg(t, th_unsqueeze(t, th_add(t, in[0], in[0]), 1));
  return th_tracer_status(t);
}

static th_status region_nonzero(th_tracer *t, th_value *const *in, size_t n,
                                th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  out[0] = th_nonzero(t, in[0]);
  return th_tracer_status(t);
}

static bool region_take_all(const th_stmt *stmt, const char **reason) {
  (void)stmt, (void)reason;
  return true;
}

static th_status region_call(th_context *ctx, th_function function,
                             const char *executors, th_tensor **out) {
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  const int64_t n = 4;
  th_tensor *x = NULL;
  th_callable *f = NULL;
  options.executors = executors;
  options.threads = 1;
  options.verify_each = options.roundtrip_each = true;
  cr_assert_eq(th_tensor_new(ctx, TH_F32, 1, &n, &x), TH_OK);
  th_tensor_set(x, 3, 5);
  th_status status = th_jit(ctx, function, NULL, NULL, 1, &options, &f);
  if (status == TH_OK) {
    status = th_call(f, &x, 1, out, 1);
  }
  th_tensor_release(x);
  th_callable_free(f);
  return status;
}

Test(user_region, a_view_at_the_border) {
  th_context *ctx = th_context_new();
  th_executor_options executor = region_executor();
  th_tensor *y = NULL;
  cr_assert_eq(th_executor_register(ctx, &executor), TH_OK);
  cr_assert_eq(region_call(ctx, region_trace_view, "rows2,host", &y), TH_OK,
               "%s", th_diagnostics_all(ctx));
  cr_expect_eq(th_tensor_get(y, 3), -10);
  th_tensor_release(y);
  th_context_free(ctx);
}

Test(user_region, what_cannot_be_fused) {
  th_context *ctx = th_context_new();
  th_executor_options executor = region_executor();
  th_tensor *y = NULL;
  executor.fuse = NULL;
  cr_expect_eq(th_executor_register(ctx, &executor), TH_INVALID);
  cr_expect(strstr(th_diagnostics_all(ctx), "can_fuse and fuse go together"));
  executor.name = "del"; // no trace could be read back
  cr_expect_eq(th_executor_register(ctx, &executor), TH_INVALID);
  executor.name = region_executor().name;
  executor.fuse = region_refuse;
  executor.can_fuse = region_take_all;
  cr_expect_eq(th_executor_register(ctx, &executor), TH_OK);
  cr_expect_eq(region_call(ctx, region_trace_view, "rows2,host", &y),
               TH_UNSUPPORTED);
  cr_expect(strstr(th_diagnostics_all(ctx), "rows2Fusion0: executor 'rows2' "
                                            "gives nothing that runs it"),
            "%s", th_diagnostics_all(ctx));
  cr_expect_eq(region_call(ctx, region_nonzero, "rows2", &y), TH_UNSUPPORTED);
  cr_expect(strstr(th_diagnostics_all(ctx), "sizes that depend on data"), "%s",
            th_diagnostics_all(ctx));
  th_context_free(ctx);
}

// ---- compiled like another

static bool like_only_adds(const th_stmt *stmt, const char **reason) {
  *reason = "takes sums";
  return strcmp(th_stmt_op_name(stmt), "add") == 0;
}

static bool like_has_exp(const th_stmt *stmt, const char **reason) {
  *reason = "no exp";
  return strcmp(th_stmt_op_name(stmt), "exp") == 0;
}

static char *like_trace(th_executor_options *executor, const char *executors) {
  static const char text[] = "def f(x):\n"
                             "  # x: \"cpu f32[4]\"\n"
                             "  a = add(x, 1)\n"
                             "  b = exp(a)\n"
                             "  c = add(b, 1)\n"
                             "  return c\n";
  th_context *ctx = th_context_new();
  th_callable *f = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  const char *const *texts;
  options.executors = executors;
  options.verify_each = options.roundtrip_each = true;
  cr_assert_eq(th_executor_register(ctx, executor), TH_OK, "%s",
               th_diagnostics_all(ctx));
  cr_assert_eq(th_jit_text(ctx, "t", text, sizeof text - 1, &options, &f),
               TH_OK, "%s", th_diagnostics_all(ctx));
  size_t traces = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
  char *last = th_text_copy(texts[traces - 1]);
  th_callable_free(f);
  th_context_free(ctx);
  return last;
}

Test(user_region, compiled_like_host) {
  th_executor_options adds = {.size = sizeof adds,
                              .name = "adds",
                              .like = "host",
                              .can_fuse = like_only_adds};
  char *text = like_trace(&adds, "adds,ref");
  cr_expect_eq(region_count(text, "addsKernel"), 2, "%s", text);
  cr_expect_eq(region_count(text, "ref.exp"), 1, "%s", text);
  th_text_free(text);
  th_executor_options anchored = {.size = sizeof anchored,
                                  .name = "anchored",
                                  .like = "host",
                                  .anchors = like_has_exp};
  text = like_trace(&anchored, "anchored,ref");
  cr_expect_eq(region_count(text, "anchoredFusion0(x)"), 1, "%s", text);
  cr_expect_eq(region_count(text, "ref."), 0, "%s", text);
  th_text_free(text);
}

Test(user_region, like_what_compiles) {
  th_context *ctx = th_context_new();
  th_executor_options wrong = {
      .size = sizeof wrong, .name = "wrong", .like = "nobody"};
  cr_expect_eq(th_executor_register(ctx, &wrong), TH_NOT_FOUND);
  wrong.like = "onednn";
  cr_expect_eq(th_executor_register(ctx, &wrong), TH_INVALID);
  wrong.like = "ref";
  cr_expect_eq(th_executor_register(ctx, &wrong), TH_INVALID);
  th_context_free(ctx);
}

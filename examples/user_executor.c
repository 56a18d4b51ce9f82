// An executor and an operation that live outside the library.
//
// The operation `demo::scaled_add` (x + alpha * y) has a meaning in terms of
// others; the executor `demo` runs it in one loop, takes small linear layers
// too, says why it declines the others, and counts its calls in a state.
#include <thunder/thunder.h>

#include <stdio.h>
#include <stdlib.h>

// ---- the operation

static th_status scaled_add_meaning(th_tracer *t, const th_stmt *stmt,
                                    th_value **out, void *user) {
  (void)user;
  th_value *y = th_mul(t, th_argument(t, stmt, 1), th_argument(t, stmt, 2));
  out[0] = th_add(t, th_argument(t, stmt, 0), y);
  return th_tracer_status(t);
}

// ---- the executor

static th_status run_scaled_add(th_run *run) {
  const th_view *x = th_run_tensor(run, 0), *y = th_run_tensor(run, 1);
  const float *a = x->data, *b = y->data;
  float *c = th_run_out(run, 0)->data;
  float alpha = (float)th_run_float(run, 2);
  int64_t n = 1;
  for (int d = 0; d < x->rank; d++) {
    n *= x->dims[d];
  }
  for (int64_t i = 0; i < n; i++) {
    c[i] = a[i] + alpha * b[i];
  }
  ++*(int64_t *)th_run_state(run);
  return TH_OK;
}

static th_status run_linear(th_run *run) {
  const th_view *x = th_run_tensor(run, 0), *w = th_run_tensor(run, 1);
  const float *a = x->data, *b = w->data;
  float *c = th_run_out(run, 0)->data;
  int64_t rows = x->dims[0], inner = x->dims[1], columns = w->dims[0];
  for (int64_t i = 0; i < rows * columns; i++) {
    c[i] = 0;
    for (int64_t k = 0; k < inner; k++) {
      c[i] += a[i / columns * inner + k] * b[i % columns * inner + k];
    }
  }
  ++*(int64_t *)th_run_state(run);
  return TH_OK;
}

static bool check_linear(const th_stmt *stmt, const char **reason) {
  bool plain = th_stmt_arg_dtype(stmt, 0) == TH_F32 &&
               th_stmt_arg_rank(stmt, 0) == 2 && !th_stmt_arg_value(stmt, 2);
  *reason = plain ? "" : "only f32 matrices without a bias";
  return plain;
}

static const th_claim claims[] = {
    {.op = "demo::scaled_add", .run = run_scaled_add},
    {.op = "linear", .check = check_linear, .run = run_linear},
};

// Each call site counts how often it ran.
static th_status create(th_context *ctx, const th_stmt *stmt, void **out) {
  (void)ctx, (void)stmt;
  *out = calloc(1, sizeof(int64_t));
  return *out ? TH_OK : TH_NO_MEMORY;
}

static th_status export_count(const void *state, char **out_json) {
  char text[32];
  snprintf(text, sizeof text, "{\"calls\": %lld}",
           (long long)*(const int64_t *)state);
  *out_json = th_text_copy(text);
  return *out_json ? TH_OK : TH_NO_MEMORY;
}

// ---- a function that uses both

static th_status block(th_tracer *t, th_value *const *in, size_t in_count,
                       th_value **out, size_t out_count, void *user) {
  (void)in_count, (void)out_count, (void)user;
  th_value *h = th_linear(t, in[0], in[1], NULL);
  const th_operand operands[] = {th_operand_value(h), th_operand_value(in[0]),
                                 th_operand_float(0.5)};
  return th_op(t, "demo::scaled_add", operands, 3, out, 1);
}

int main(void) {
  th_context *ctx = th_context_new();
  th_operation operation = TH_OPERATION_INIT;
  operation.name = "demo::scaled_add";
  operation.schema = "T x, T y, F alpha=1.0";
  operation.expand = scaled_add_meaning; // its types follow from that
  th_state_hooks hooks = {.size = sizeof hooks,
                          .create = create,
                          .destroy = free,
                          .export_state = export_count};
  th_executor_options executor = {.size = sizeof executor,
                                  .name = "demo",
                                  .version = "1",
                                  .claims = claims,
                                  .claim_count = 2,
                                  .claim_size = sizeof(th_claim),
                                  .state = &hooks};
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "demo,ref";
  th_callable *f = NULL;
  th_tensor *in[2] = {NULL, NULL}, *out = NULL;
  const int64_t dims[] = {4, 4};
  char *json = NULL;
  bool ok = th_operation_register(ctx, &operation) == TH_OK &&
            th_executor_register(ctx, &executor) == TH_OK &&
            th_jit(ctx, block, NULL, NULL, 1, &options, &f) == TH_OK &&
            th_tensor_new(ctx, TH_F32, 2, dims, &in[0]) == TH_OK &&
            th_tensor_new(ctx, TH_F32, 2, dims, &in[1]) == TH_OK &&
            th_tensor_fill(ctx, in[0], 1) == TH_OK &&
            th_tensor_fill(ctx, in[1], 2) == TH_OK &&
            th_call(f, in, 2, &out, 1) == TH_OK &&
            th_callable_export_state(f, "demo", &json) == TH_OK;
  if (ok) {
    const char *const *texts;
    size_t count = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
    printf("%s\n%s%g\n", texts[count - 1], json, th_tensor_get(out, 0));
    ok = th_tensor_get(out, 0) == 8.5; // 4 * 1 * 2 + 0.5 * 1
  }
  fputs(th_diagnostics_all(ctx), stderr);
  th_text_free(json);
  th_tensor_release(in[0]);
  th_tensor_release(in[1]);
  th_tensor_release(out);
  th_callable_free(f);
  th_context_free(ctx);
  return !ok;
}

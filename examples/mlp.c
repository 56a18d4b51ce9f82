// A two-layer perceptron: a C function is traced, compiled, called, and its
// traces are printed.  `mlp ref` runs it on another executor.
#include <thunder/thunder.h>

#include <stdio.h>

// out = fc2(gelu(fc1(x))); parameters by name, shapes from the tensors.
static th_status mlp(th_tracer *t, th_value *const *in, size_t in_count,
                     th_value **out, size_t out_count, void *user) {
  (void)in_count, (void)out_count, (void)user;
  th_scope_push(t, "fc1");
  th_value *x = th_linear(t, in[0], th_param(t, "weight"), th_param(t, "bias"));
  th_scope_pop(t);
  x = th_gelu(t, x, "tanh");
  th_scope_push(t, "fc2");
  out[0] = th_linear(t, x, th_param(t, "weight"), th_param(t, "bias"));
  th_scope_pop(t);
  return th_tracer_status(t);
}

static th_module *make_module(th_context *ctx) {
  static const struct {
    const char *name;
    int rank;
    int64_t dims[2];
  } params[] = {{"fc1.weight", 2, {16, 8}},
                {"fc1.bias", 1, {16}},
                {"fc2.weight", 2, {4, 16}},
                {"fc2.bias", 1, {4}}};
  th_module *m = NULL;
  th_status status = th_module_new(ctx, &m);
  for (int i = 0; i < 4 && status == TH_OK; i++) {
    status = th_module_add_param(m, params[i].name, TH_F32, params[i].rank,
                                 params[i].dims);
    th_tensor *p = th_module_tensor(m, params[i].name);
    for (int64_t k = 0; status == TH_OK && k < th_tensor_numel(p); k++) {
      th_tensor_set(p, k, 0.1 * (double)((k * 7 + i) % 11 - 5));
    }
  }
  return m;
}

int main(int argc, char **argv) {
  th_context *ctx = th_context_new();
  th_module *module = make_module(ctx);
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = argc > 1 ? argv[1] : NULL;
  th_callable *f = NULL;
  th_tensor *x = NULL, *y = NULL;
  const int64_t dims[] = {2, 8};
  th_status status = th_jit(ctx, mlp, NULL, module, 1, &options, &f);
  if (status == TH_OK) {
    status = th_tensor_new(ctx, TH_F32, 2, dims, &x);
  }
  if (status == TH_OK) {
    (void)th_tensor_fill(ctx, x, 0.5);
    status = th_call(f, &x, 1, &y, 1); // traces, compiles, runs
  }
  if (status == TH_OK) {
    const char *const *texts;
    size_t count = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
    printf("%s\n%s\n", texts[0], texts[count - 1]);
    for (int64_t i = 0; i < th_tensor_numel(y); i++) {
      printf("%g ", th_tensor_get(y, i));
    }
    printf("\n");
  }
  fputs(th_diagnostics_all(ctx), stderr);
  th_tensor_release(x);
  th_tensor_release(y);
  th_callable_free(f);
  th_module_release(module);
  th_context_free(ctx);
  return status != TH_OK;
}

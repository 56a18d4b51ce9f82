// Kernels and code-generation time of a transformer's depth: GPT-2 blocks,
// 12 and 24 of them, without an object cache.  Equal kernels compile once, so
// depth should cost nothing but the search for them.
#include "bench.h"

#include <thunder/thunder.h>

#include <inttypes.h>

enum { DIM = 256, HEADS = 4, HIDDEN = 4 * DIM, LENGTH = 32, PAIRS = 11 };

static th_value *layers_linear(th_tracer *t, const char *name, th_value *x) {
  th_scope_push(t, name);
  x = th_linear(t, x, th_param(t, "weight"), th_param(t, "bias"));
  th_scope_pop(t);
  return x;
}

static th_value *layers_norm(th_tracer *t, const char *name, th_value *x) {
  th_scope_push(t, name);
  x = th_layer_norm(t, x, 1, th_param(t, "weight"), th_param(t, "bias"), 1e-5);
  th_scope_pop(t);
  return x;
}

static th_value *layers_attention(th_tracer *t, th_value *x) {
  th_value *qkv[3];
  th_scope_push(t, "attn");
  th_chunk(t, layers_linear(t, "c_attn", x), 3, -1, qkv);
  for (int i = 0; i < 3; i++) {
    th_dims shape = TH_DIMS(1, LENGTH, HEADS, DIM / HEADS);
    qkv[i] = th_permute(t, th_reshape(t, qkv[i], shape), TH_DIMS(0, 2, 1, 3));
  }
  x = th_attention(t, qkv[0], qkv[1], qkv[2], NULL, true, 0, false);
  x = th_flatten(t, th_permute(t, x, TH_DIMS(0, 2, 1, 3)), 2, 3);
  x = layers_linear(t, "c_proj", x);
  th_scope_pop(t);
  return x;
}

static th_value *layers_mlp(th_tracer *t, th_value *x) {
  th_scope_push(t, "mlp");
  x = th_gelu(t, layers_linear(t, "c_fc", x), "tanh");
  x = layers_linear(t, "c_proj", x);
  th_scope_pop(t);
  return x;
}

static th_status layers_model(th_tracer *t, th_value *const *in,
                              size_t in_count, th_value **out, size_t out_count,
                              void *user) {
  (void)in_count, (void)out_count;
  th_value *x = in[0];
  for (int i = 0; i < *(const int *)user; i++) {
    char name[32];
    snprintf(name, sizeof name, "h.%d", i);
    th_scope_push(t, name);
    x = th_add(t, x, layers_attention(t, layers_norm(t, "ln_1", x)));
    x = th_add(t, x, layers_mlp(t, layers_norm(t, "ln_2", x)));
    th_scope_pop(t);
  }
  out[0] = layers_norm(t, "ln_f", x);
  return th_tracer_status(t);
}

static th_status layers_add(th_module *m, const char *path, const char *name,
                            int64_t rows, int64_t columns) {
  char fqn[64];
  const int64_t dims[] = {rows, columns};
  snprintf(fqn, sizeof fqn, "%s%s.weight", path, name);
  th_status status = th_module_add_param(m, fqn, TH_F32, columns ? 2 : 1, dims);
  snprintf(fqn, sizeof fqn, "%s%s.bias", path, name);
  return status ? status : th_module_add_param(m, fqn, TH_F32, 1, dims);
}

static th_status layers_module(th_context *ctx, int depth, th_module **out) {
  static const struct {
    const char *name;
    int64_t rows, columns;
  } params[] = {{"ln_1", DIM, 0},          {"attn.c_attn", 3 * DIM, DIM},
                {"attn.c_proj", DIM, DIM}, {"ln_2", DIM, 0},
                {"mlp.c_fc", HIDDEN, DIM}, {"mlp.c_proj", DIM, HIDDEN}};
  th_status status = th_module_new(ctx, out);
  for (int i = 0; i < depth; i++) {
    char path[16];
    snprintf(path, sizeof path, "h.%d.", i);
    for (size_t k = 0; k < sizeof params / sizeof *params && !status; k++) {
      status = layers_add(*out, path, params[k].name, params[k].rows,
                          params[k].columns);
    }
  }
  return status ? status : layers_add(*out, "", "ln_f", DIM, 0);
}

static th_statistics layers_compile(int depth) {
  th_context *ctx = th_context_new();
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "host";
  options.no_cache = true;
  th_module *module = NULL;
  th_callable *f = NULL;
  th_tensor *x = NULL, *y = NULL;
  const int64_t dims[] = {1, LENGTH, DIM};
  th_statistics s = TH_STATISTICS_INIT;
  if (layers_module(ctx, depth, &module) ||
      th_jit(ctx, layers_model, &depth, module, 1, &options, &f) ||
      th_tensor_new(ctx, TH_F32, 3, dims, &x) || th_call(f, &x, 1, &y, 1)) {
    fputs(th_diagnostics_all(ctx), stderr);
    exit(1);
  }
  th_callable_statistics(f, &s);
  th_tensor_release(x);
  th_tensor_release(y);
  th_callable_free(f);
  th_module_release(module);
  th_context_free(ctx);
  return s;
}

static double layers_report(int depth) {
  th_statistics s = layers_compile(depth);
  double ms = (double)s.codegen_ns / 1e6;
  printf("%d layers: %" PRIu64 " kernels made, %" PRIu64
         " shared; code generation %.1f ms, passes %.1f ms\n",
         depth, s.kernels_compiled, s.kernels_shared, ms,
         (double)s.passes_ns / 1e6);
  return ms;
}

int main(void) {
  double ratios[PAIRS];
  bench_print_cpu();
  for (int i = 0; i < PAIRS; i++) {
    double shallow = layers_report(12);
    ratios[i] = layers_report(24) / shallow;
  }
  bench_quartiles q = bench_sort(ratios, PAIRS);
  printf("24 layers / 12 layers: %.3f (%.3f to %.3f, %d pairs)\n", q.median,
         q.low, q.high, PAIRS);
  return 0;
}

// gelu(x + b) * s + r, tanh form, 64 MiB arrays, one thread, as a share of
// memcpy's bandwidth in the same run.  The chain reads two arrays and writes
// one; memcpy reads one and writes one: 12 and 8 bytes an element.
#include "bench.h"

#include "thunder/jit.h"

#include <string.h>

static const char program[] = "def computation(x, b, s, r):\n"
                              "  # x: \"cpu f32[4096, 4096]\"\n"
                              "  # b: \"cpu f32[4096]\"\n"
                              "  # s: \"cpu f32[4096]\"\n"
                              "  # r: \"cpu f32[4096, 4096]\"\n"
                              "  t0 = add(x, b)\n"
                              "  t1 = gelu(t0, 'tanh')\n"
                              "  t2 = mul(t1, s)\n"
                              "  t3 = add(t2, r)\n"
                              "  return {'output': t3}\n";

static th_tensor *bench_tensor(th_context *ctx, int rank, int64_t rows,
                               int64_t columns) {
  int64_t dims[] = {rows, columns};
  th_tensor *t = NULL;
  if (th_tensor_new(ctx, TH_F32, rank, rank == 2 ? dims : dims + 1, &t)) {
    exit(1);
  }
  float *data = th_tensor_data(t);
  for (int64_t i = 0; i < th_tensor_numel(t); i++) {
    data[i] = (float)(i % 1000) * 0.004f - 2;
  }
  return t;
}

int main(void) {
  enum { N = 4096 };
  th_context *ctx = th_context_new();
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *chain = NULL;
  options.executors = "host";
  options.threads = 1;
  if (th_jit_text(ctx, "gelu", program, sizeof program - 1, &options, &chain)) {
    fputs(th_diagnostics_all(ctx), stderr);
    return 1;
  }
  th_tensor *in[] = {bench_tensor(ctx, 2, N, N), bench_tensor(ctx, 1, N, N),
                     bench_tensor(ctx, 1, N, N), bench_tensor(ctx, 2, N, N)};
  th_tensor *out = bench_tensor(ctx, 2, N, N);
  double ratios[BENCH_PAIRS];
  bench_print_cpu();
  for (int i = -2; i < BENCH_PAIRS; i++) {
    double t0 = bench_now();
    memcpy(th_tensor_data(out), th_tensor_data(in[0]), th_tensor_nbytes(out));
    double t1 = bench_now();
    if (th_call(chain, in, 4, &out, 1)) {
      fputs(th_diagnostics_all(ctx), stderr);
      return 1;
    }
    double t2 = bench_now();
    if (i >= 0) {
      ratios[i] = (12 / (t2 - t1)) / (8 / (t1 - t0));
    }
  }
  bench_print_ratio("gelu chain / memcpy", ratios, BENCH_PAIRS);
  for (int i = 0; i < 4; i++) {
    th_tensor_release(in[i]);
  }
  th_tensor_release(out);
  th_callable_free(chain);
  th_context_free(ctx);
  return 0;
}

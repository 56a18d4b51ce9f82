// What a cached call costs above the kernel that it runs: a traced sum of 10
// (and of 100) small tensors, one fused region, against the same kernels called
// directly with the same pointers.  Medians of CPU time, in nanoseconds.
#include "bench.h"

#include "compile/callable.h"
#include "exec/program_impl.h"
#include "thunder/thunder.h"

enum { BATCH = 2000, BATCHES = 101, MOST = 100 };

static th_status sum(th_tracer *t, th_value *const *in, size_t in_count,
                     th_value **out, size_t out_count, void *user) {
  (void)out_count, (void)user;
  out[0] = in[0];
  for (size_t i = 1; i < in_count; i++) {
    out[0] = th_add(t, out[0], in[i]);
  }
  return th_tracer_status(t);
}

// A kernel of the program with the pointers that it gets.
typedef struct bench_kernel {
  const th_kernel *kernel;
  void *buffers[MOST + 1];
  int64_t extent;
} bench_kernel;

typedef struct bench_case {
  th_callable *f;
  th_tensor *in[MOST];
  th_tensor *out;
  size_t count;
  bench_kernel kernels[MOST];
  uint32_t kernel_count;
} bench_case;

static int bench_check(th_context *ctx, th_status status) {
  if (status != TH_OK) {
    fputs(th_diagnostics_all(ctx), stderr);
    exit(1);
  }
  return 0;
}

static void *bench_pointer(bench_case *b, const th_program *p,
                           const th_value *v) {
  static _Alignas(64) char slab[1 << 16];
  uint32_t base = p->base_of[v->id];
  return v->input               ? th_tensor_data(b->in[base - 1])
         : base == TH_BASE_SLAB ? slab + p->sizes[0]->offsets[v->id]
                                : th_tensor_data(b->out);
}

static void bench_kernels(bench_case *b) {
  const th_program *p = b->f->newest->compiled.program;
  b->kernel_count = p->step_count;
  for (uint32_t i = 0; i < p->step_count; i++) {
    bench_kernel *k = &b->kernels[i];
    k->kernel = p->steps[i].kernel;
    k->extent = p->sizes[0]->extents[i];
    for (uint32_t v = 0; v < k->kernel->buffer_count; v++) {
      k->buffers[v] = bench_pointer(b, p, k->kernel->buffers[v]);
    }
  }
}

static void bench_setup(th_context *ctx, bench_case *b, size_t count) {
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  const int64_t dims[] = {16};
  options.executors = "host";
  options.threads = 1;
  b->count = count;
  bench_check(ctx, th_jit(ctx, sum, NULL, NULL, 1, &options, &b->f));
  for (size_t i = 0; i < count; i++) {
    bench_check(ctx, th_tensor_new(ctx, TH_F32, 1, dims, &b->in[i]));
  }
  bench_check(ctx, th_call(b->f, b->in, count, &b->out, 1));
  bench_kernels(b);
}

typedef double (*bench_batch)(th_context *ctx, bench_case *b);

static double bench_direct(th_context *ctx, bench_case *b) {
  th_kernel_error error = {0};
  (void)ctx;
  double start = bench_cpu();
  for (int i = 0; i < BATCH; i++) {
    for (uint32_t k = 0; k < b->kernel_count; k++) {
      const bench_kernel *bk = &b->kernels[k];
      bk->kernel->fn(bk->buffers, NULL, 0, bk->extent, &error);
    }
  }
  return bench_cpu() - start;
}

// Into a tensor of the caller's.
static double bench_given(th_context *ctx, bench_case *b) {
  double start = bench_cpu();
  for (int i = 0; i < BATCH; i++) {
    bench_check(ctx, th_call(b->f, b->in, b->count, &b->out, 1));
  }
  return bench_cpu() - start;
}

// A new result each time.
static double bench_new(th_context *ctx, bench_case *b) {
  double start = bench_cpu();
  for (int i = 0; i < BATCH; i++) {
    th_tensor *out = NULL;
    bench_check(ctx, th_call(b->f, b->in, b->count, &out, 1));
    th_tensor_release(out);
  }
  return bench_cpu() - start;
}

static void bench_run(th_context *ctx, size_t count) {
  static const bench_batch batches[] = {bench_direct, bench_given, bench_new};
  double seconds[3][BATCHES];
  static bench_case b;
  b = (bench_case){0};
  bench_setup(ctx, &b, count);
  for (int i = 0; i < BATCHES; i++) {
    for (int k = 0; k < 3; k++) {
      seconds[k][i] = batches[k](ctx, &b);
    }
  }
  double ns[3];
  for (int k = 0; k < 3; k++) {
    bench_sort(seconds[k], BATCHES);
    ns[k] = seconds[k][BATCHES / 2] / BATCH * 1e9;
  }
  printf("%3zu tensors: %u kernels, %.0f ns; a call costs %.0f ns more into a "
         "given tensor, %.0f ns into a new one\n",
         count, b.kernel_count, ns[0], ns[1] - ns[0], ns[2] - ns[0]);
  for (size_t i = 0; i < count; i++) {
    th_tensor_release(b.in[i]);
  }
  th_tensor_release(b.out);
  th_callable_free(b.f);
}

int main(void) {
  th_context *ctx = th_context_new();
  bench_print_cpu();
  bench_run(ctx, 10);
  bench_run(ctx, 100);
  th_context_free(ctx);
  return 0;
}

// CPU time from opening an archive to the end of its compilation, no weights
// read: `compile ARCHIVE [PROGRAM]`, cold (no object cache) and warm.
#include "bench.h"

#include "thunder/jit.h"

#include <inttypes.h>

static double bench_compile(const char *path, const char *program,
                            bool no_cache, th_statistics *out) {
  th_context *ctx = th_context_new();
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_pt2 *archive = NULL;
  th_callable *callable = NULL;
  options.executors = "host";
  options.compile_only = true;
  options.no_cache = no_cache;
  double start = bench_cpu();
  if (th_pt2_open(ctx, path, NULL, &archive) ||
      th_jit_pt2(ctx, archive, program, &options, &callable)) {
    fputs(th_diagnostics_all(ctx), stderr);
    exit(1);
  }
  double took = bench_cpu() - start;
  out->size = sizeof *out;
  th_callable_statistics(callable, out);
  th_callable_free(callable);
  th_pt2_free(archive);
  th_context_free(ctx);
  return took;
}

static void bench_print(const char *name, double seconds,
                        const th_statistics *s) {
  printf("%-28s %8.1f ms CPU  (passes %.1f, kernels %.1f; %" PRIu64
         " made, %" PRIu64 " from disk, %" PRIu64 " shared)\n",
         name, seconds * 1e3, (double)s->passes_ns / 1e6,
         (double)s->codegen_ns / 1e6, s->kernels_compiled, s->kernels_from_disk,
         s->kernels_shared);
}

int main(int argc, char **argv) {
  th_statistics s;
  if (argc < 2) {
    fputs("usage: compile ARCHIVE [PROGRAM]\n", stderr);
    return 2;
  }
  const char *program = argc > 2 ? argv[2] : NULL;
  bench_print_cpu();
  double seconds = bench_compile(argv[1], program, true, &s);
  bench_print("cold", seconds, &s);
  bench_compile(argv[1], program, false, &s);
  seconds = bench_compile(argv[1], program, false, &s);
  bench_print("warm", seconds, &s);
  return 0;
}

// The way of one run: open, compile, inputs, call, report.
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void run_report(th_context *ctx) {
  fputs(th_diagnostics_all(ctx), stderr);
  th_diagnostics_clear(ctx);
}

// ---- timing

int64_t run_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int run_compare(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void run_release_outputs(th_leaf *outputs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    th_tensor_release(outputs[i].tensor);
    outputs[i] = (th_leaf){0};
  }
}

static th_status run_timed(th_context *ctx, const run_options *o,
                           th_callable *c, const th_leaf *inputs) {
  size_t m = th_callable_output_count(c);
  th_leaf *outputs = calloc(m + 1, sizeof *outputs);
  int64_t *times = calloc((size_t)o->time, sizeof *times);
  th_status status = outputs && times ? TH_OK : TH_NO_MEMORY;
  for (int64_t i = 0; i < o->time && status == TH_OK; i++) {
    int64_t start = run_now();
    status =
        th_call_leaves(c, NULL, inputs, th_callable_input_count(c), outputs, m);
    times[i] = run_now() - start;
    run_release_outputs(outputs, m);
  }
  if (status == TH_OK) {
    qsort(times, (size_t)o->time, sizeof *times, run_compare);
    size_t middle = (size_t)o->time / 2;
    printf("time: %" PRId64 " calls, median %.3f ms, best %.3f ms\n", o->time,
           (double)times[middle] / 1e6, (double)times[0] / 1e6);
  } else {
    run_report(ctx);
  }
  free(outputs);
  free(times);
  return status;
}

// ---- outputs

static void run_print_output(size_t index, const th_leaf *leaf) {
  char text[512];
  printf("output %zu: ", index);
  switch (leaf->kind) {
  case TH_LEAF_TENSOR: {
    int64_t n = th_tensor_numel(leaf->tensor);
    printf("%s =", th_tensor_describe(leaf->tensor, text, sizeof text));
    for (int64_t i = 0; i < n && i < 6; i++) {
      printf(" %.6g", th_tensor_get(leaf->tensor, i));
    }
    printf(n > 6 ? " ...\n" : "\n");
    break;
  }
  case TH_LEAF_FLOAT:
    printf("%.17g\n", leaf->f);
    break;
  case TH_LEAF_BOOL:
    printf("%s\n", leaf->i ? "True" : "False");
    break;
  case TH_LEAF_INT:
    printf("%" PRId64 "\n", leaf->i);
    break;
  case TH_LEAF_STRING:
    printf("'%s'\n", leaf->text);
    break;
  case TH_LEAF_NONE:
    printf("None\n");
    break;
  }
}

static th_status run_write_outputs(th_context *ctx, const char *path,
                                   const th_leaf *outputs, size_t count) {
  char (*names)[32] = calloc(count + 1, sizeof *names);
  const char **keys = calloc(count + 1, sizeof *keys);
  th_tensor **tensors = calloc(count + 1, sizeof *tensors);
  th_status status = names && keys && tensors ? TH_OK : TH_NO_MEMORY;
  size_t n = 0;
  for (size_t i = 0; i < count && status == TH_OK; i++) {
    if (outputs[i].kind == TH_LEAF_TENSOR) {
      snprintf(names[n], sizeof names[n], "out.%zu", i);
      keys[n] = names[n];
      tensors[n++] = outputs[i].tensor;
    }
  }
  if (status == TH_OK) {
    status = th_safetensors_write(ctx, path, keys, tensors, n, NULL, 0);
  }
  free(names);
  free(keys);
  free(tensors);
  return status;
}

// A whole text, of a pipe too.
static char *run_read_file(const char *path, size_t *out_size) {
  enum { MAX = 1 << 30 };
  FILE *f = fopen(path, "rb");
  char *text = NULL;
  size_t size = 0, capacity = 1 << 16;
  bool bad = !f;
  while (!bad && !feof(f)) {
    char *grown = realloc(text, capacity);
    text = grown ? grown : text;
    size += grown ? fread(text + size, 1, capacity - size, f) : 0;
    bad = !grown || ferror(f) || size >= MAX;
    capacity *= 2;
  }
  if (f) {
    fclose(f);
  }
  if (bad) {
    free(text);
    fprintf(stderr, "thunder-run: %s: cannot be read\n", path);
    return NULL;
  }
  *out_size = size;
  return text;
}

// The program as the options say: of the archive, or a trace with its weights.
th_status run_compile(th_context *ctx, const run_options *o, th_pt2 *archive,
                      const char *program, th_callable **out) {
  size_t size = 0;
  if (!o->trace) {
    return th_jit_pt2(ctx, archive, program, &o->jit, out);
  }
  char *text = run_read_file(o->trace, &size);
  if (!text) {
    return TH_IO;
  }
  th_jit_options jit = o->jit;
  jit.passes = jit.passes ? jit.passes : "";
  th_status status =
      th_jit_pt2_text(ctx, archive, program, o->trace, text, size, &jit, out);
  free(text);
  return status;
}

void run_print_claims(th_callable *c) {
  const th_claim_row *rows = NULL;
  size_t n = th_callable_claims(c, &rows);
  for (size_t i = 0; i < n; i++) {
    printf("claims: %-8s %-28s %" PRIu64 "\n", rows[i].executor, rows[i].op,
           rows[i].count);
  }
}

// ---- one run

static th_status run_call(th_context *ctx, const run_options *o, th_callable *c,
                          const th_leaf *inputs) {
  size_t m = th_callable_output_count(c);
  th_leaf *outputs = calloc(m + 1, sizeof *outputs);
  th_status status =
      outputs ? th_call_leaves(c, NULL, inputs, th_callable_input_count(c),
                               outputs, m)
              : TH_NO_MEMORY;
  if (status == TH_OK) {
    for (size_t i = 0; i < m && !o->quiet; i++) {
      run_print_output(i, &outputs[i]);
    }
    if (o->outputs) {
      status = run_write_outputs(ctx, o->outputs, outputs, m);
    }
    run_release_outputs(outputs, m);
  }
  free(outputs);
  return status;
}

static void run_print_trace(th_callable *c) {
  const char *const *texts = NULL;
  size_t n = th_last_traces(c, TH_TRACES_COMPUTATION, &texts);
  if (n) {
    fputs(texts[n - 1], stdout);
  }
}

static void run_print_compilation(th_callable *c) {
  th_statistics s = TH_STATISTICS_INIT;
  th_callable_statistics(c, &s);
  printf("compiled: passes %.1f ms, kernels %.1f ms (%" PRIu64 " made, %" PRIu64
         " from disk, %" PRIu64 " shared), slab %" PRId64 " bytes\n",
         (double)s.passes_ns / 1e6, (double)s.codegen_ns / 1e6,
         s.kernels_compiled, s.kernels_from_disk, s.kernels_shared,
         s.slab_bytes);
}

static void run_print_weights(th_callable *c) {
  th_statistics s = TH_STATISTICS_INIT;
  th_callable_statistics(c, &s);
  if (s.weights_rounded) {
    printf("weights: %" PRIu64 " rounded, off by %.3g %% on average, by %.3g %%"
           " of their row's largest at most\n",
           s.weights_rounded, 100 * s.weight_error,
           100 * s.weight_error_largest);
  }
}

static th_status run_callable(th_context *ctx, const run_options *o,
                              th_pt2 *archive, const char *program,
                              th_callable *c) {
  th_leaf *inputs = NULL;
  if (!o->quiet) {
    run_print_weights(c);
  }
  if (o->print_trace) {
    run_print_trace(c);
  }
  if (o->claims) {
    run_print_claims(c);
  }
  if (o->jit.compile_only) {
    run_print_compilation(c);
    return TH_OK;
  }
  if (!o->inputs && !o->sample_inputs && !o->random_inputs && !o->outputs &&
      !o->time && !o->jit.profile && o->print_trace) {
    return TH_OK;
  }
  th_status status = run_make_inputs(ctx, o, archive, program, c, &inputs);
  if (status == TH_OK) {
    status = run_call(ctx, o, c, inputs);
  }
  if (status == TH_OK && o->time && !o->jit.profile) {
    status = run_timed(ctx, o, c, inputs);
  }
  if (status == TH_OK && o->jit.profile) {
    status = run_profile(ctx, o, c, inputs);
  }
  run_free_leaves(inputs, th_callable_input_count(c));
  return status;
}

static th_status run_text(th_context *ctx, const run_options *o) {
  size_t size = 0;
  th_callable *c = NULL;
  char *text = run_read_file(o->model, &size);
  if (!text) {
    return TH_IO;
  }
  th_status status = th_jit_text(ctx, o->model, text, size, &o->jit, &c);
  if (status == TH_OK) {
    status = run_callable(ctx, o, NULL, NULL, c);
  }
  th_callable_free(c);
  free(text);
  return status;
}

static th_status run_program(th_context *ctx, const run_options *o,
                             th_pt2 *archive) {
  th_callable *c = NULL;
  const char *program =
      o->program ? o->program : th_pt2_default_program(archive);
  if (!o->program && !o->quiet && th_pt2_program_count(archive) > 1) {
    fprintf(stderr, "thunder-run: running program '%s' (of %zu)\n", program,
            th_pt2_program_count(archive));
  }
  th_status status = run_compile(ctx, o, archive, program, &c);
  if (status == TH_OK) {
    status = run_callable(ctx, o, archive, program, c);
  }
  th_callable_free(c);
  return status;
}

static int run_main(th_context *ctx, const run_options *o) {
  th_pt2 *archive = NULL;
  th_pt2_options options = TH_PT2_OPTIONS_INIT;
  options.random_weights = o->random_weights;
  options.seed = o->weight_seed;
  int exit_status = 0;
  th_status status = TH_OK;
  if (o->is_text) {
    status = run_text(ctx, o);
  } else {
    status = th_pt2_open(ctx, o->model, &options, &archive);
    if (status == TH_OK && o->weights) {
      status = th_pt2_replace_weights(archive, o->weights);
    }
    if (status == TH_OK && o->cases) {
      exit_status = run_cases(ctx, o, archive);
    } else if (status == TH_OK) {
      status = run_program(ctx, o, archive);
    }
  }
  run_report(ctx);
  th_pt2_free(archive);
  return status == TH_OK ? exit_status : 1;
}

int main(int argc, char **argv) {
  run_options options = {.jit = TH_JIT_OPTIONS_INIT};
  run_read_options(argc, argv, &options);
  th_context *ctx = th_context_new();
  if (!ctx) {
    fputs("thunder-run: out of memory\n", stderr);
    return 1;
  }
  int status = run_main(ctx, &options);
  th_context_free(ctx);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fputs("thunder-run: cannot write the results\n", stderr);
    return 1;
  }
  return status;
}

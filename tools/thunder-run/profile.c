// --profile: what each step, or each module, takes of a call and of the
// machine.
//
// One line is the mean of a call.  `limit` compares with what the machine can
// do: a step that moves its bytes as fast as memory is read is at 100% mem, one
// that multiplies as fast as the units can is at 100% fma, and the nearer of
// the two is shown.  Bytes that come from a cache go beyond 100%.
#include "run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Calls without --time: enough for half a second.
enum { PROFILE_LEAST = 3, PROFILE_MOST = 100, PROFILE_NS = 500000000 };

typedef struct profile_line {
  const char *name; // NULL: a module
  const char *executor;
  const char *module;
  int module_length;
  double ns, bytes, flops; // of all calls
  uint64_t calls;
} profile_line;

typedef struct profile_table {
  profile_line *lines;
  size_t count;
  int64_t calls; // of the callable
  run_limits limits;
  double ns;
} profile_table;

// ---- lines

// The first `depth` names of a path; 0: all.
static int profile_length(const char *scope, int64_t depth) {
  size_t n = 0;
  for (int64_t names = 0; scope[n]; n++) {
    if (scope[n] == '.' && ++names == depth) {
      break;
    }
  }
  return (int)n;
}

static profile_line *profile_find(profile_table *t, const run_options *o,
                                  const th_profile_row *row) {
  int length = profile_length(row->scope, o->profile_depth);
  for (size_t i = 0; o->profile_modules && i < t->count; i++) {
    profile_line *line = &t->lines[i];
    if (line->module_length == length &&
        memcmp(line->module, row->scope, (size_t)length) == 0) {
      return line;
    }
  }
  profile_line *line = &t->lines[t->count++];
  *line = (profile_line){.name = o->profile_modules ? NULL : row->name,
                         .executor = row->executor,
                         .module = row->scope,
                         .module_length = length};
  return line;
}

static int profile_compare(const void *a, const void *b) {
  const profile_line *x = a, *y = b;
  return (x->ns < y->ns) - (x->ns > y->ns);
}

// Steps in their order; modules with the slowest first.
static th_status profile_lines(const run_options *o, th_callable *c,
                               profile_table *t) {
  th_profile_row row = TH_PROFILE_ROW_INIT;
  size_t n = 0;
  while (th_callable_profile(c, n, &row)) {
    n++;
  }
  t->lines = calloc(n + 1, sizeof *t->lines);
  if (!t->lines) {
    return TH_NO_MEMORY;
  }
  for (size_t i = 0; th_callable_profile(c, i, &row); i++) {
    profile_line *line = profile_find(t, o, &row);
    line->ns += (double)row.nanoseconds;
    line->bytes += (double)row.bytes;
    line->flops += (double)row.flops;
    line->calls += row.calls;
    t->ns += (double)row.nanoseconds;
  }
  if (o->profile_modules) {
    qsort(t->lines, t->count, sizeof *t->lines, profile_compare);
  }
  return TH_OK;
}

// ---- text

static void profile_print_limit(const profile_line *line,
                                const run_limits *limits) {
  double ns = line->ns > 0 ? line->ns : 1;
  double memory = line->bytes / ns * 1e9 / limits->bytes;
  double fma = line->flops / ns * 1e9 / limits->flops;
  if (line->bytes + line->flops == 0 || limits->bytes * limits->flops == 0) {
    printf(" %9s", "-");
  } else {
    printf(" %4.0f%% %s", 100 * (memory > fma ? memory : fma),
           memory > fma ? "mem" : "fma");
  }
}

static void profile_print_line(const profile_table *t,
                               const profile_line *line) {
  double calls = (double)t->calls, ns = line->ns > 0 ? line->ns : 1;
  printf("%10.2f %6.2f %8" PRIu64 " %10.1f %8.1f %8.1f", line->ns / calls / 1e3,
         100 * line->ns / (t->ns > 0 ? t->ns : 1), line->calls,
         line->bytes / calls / 1e3, line->bytes / ns, line->flops / ns);
  profile_print_limit(line, &t->limits);
  if (line->name) {
    printf("  %-8s %-28s", line->executor, line->name);
  }
  printf("%s%.*s\n", line->name ? " " : "  ",
         line->module_length ? line->module_length : 1,
         line->module_length ? line->module : "-");
}

static void profile_print(const run_options *o, const profile_table *t) {
  profile_line total = {.module = "all", .module_length = 3, .ns = t->ns};
  printf("%10s %6s %8s %10s %8s %8s %9s  %s\n", "us/call", "%", "calls",
         "kB/call", "GB/s", "GFLOP/s", "limit",
         o->profile_modules ? "module"
                            : "executor step                         module");
  for (size_t i = 0; i < t->count; i++) {
    total.bytes += t->lines[i].bytes;
    total.flops += t->lines[i].flops;
    total.calls += t->lines[i].calls;
    profile_print_line(t, &t->lines[i]);
  }
  profile_print_line(t, &total);
}

// ---- calls

static th_status profile_call(th_callable *c, const th_leaf *inputs,
                              th_leaf *outputs) {
  size_t m = th_callable_output_count(c);
  th_status status =
      th_call_leaves(c, NULL, inputs, th_callable_input_count(c), outputs, m);
  run_release_outputs(outputs, m);
  return status;
}

static bool profile_is_enough(const run_options *o, int64_t calls, int64_t ns) {
  if (o->time) {
    return calls >= o->time;
  }
  return calls >= PROFILE_MOST || (calls >= PROFILE_LEAST && ns >= PROFILE_NS);
}

static th_status profile_calls(const run_options *o, th_callable *c,
                               const th_leaf *inputs, profile_table *t) {
  th_leaf *outputs = calloc(th_callable_output_count(c) + 1, sizeof *outputs);
  th_status status = outputs ? TH_OK : TH_NO_MEMORY;
  int64_t start = run_now(), took = 0;
  th_callable_profile_reset(c);
  while (status == TH_OK && !profile_is_enough(o, t->calls, took)) {
    status = profile_call(c, inputs, outputs);
    took = run_now() - start;
    t->calls++;
  }
  if (status == TH_OK) {
    printf("profile: %" PRId64 " calls, mean %.3f ms\n", t->calls,
           (double)took / (double)t->calls / 1e6);
  }
  free(outputs);
  return status;
}

th_status run_profile(th_context *ctx, const run_options *o, th_callable *c,
                      const th_leaf *inputs) {
  profile_table t = {0};
  th_statistics s = TH_STATISTICS_INIT;
  th_callable_statistics(c, &s);
  th_status status = profile_calls(o, c, inputs, &t);
  if (status == TH_OK) {
    t.limits = run_measure_limits(s.threads);
    printf("limits: %.1f GB/s read, %.1f GFLOP/s of f32, %d threads\n",
           t.limits.bytes / 1e9, t.limits.flops / 1e9, s.threads);
    status = profile_lines(o, c, &t);
  }
  if (status == TH_OK) {
    profile_print(o, &t);
  } else {
    run_report(ctx);
  }
  free(t.lines);
  return status;
}

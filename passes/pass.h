// Passes: each reads one trace and builds the next.  The manager alone
// verifies, times, dumps and stamps the provenance line.
#ifndef TH_PASSES_PASS_H
#define TH_PASSES_PASS_H

#include "exec/executor.h"
#include "ir/infer.h"

// What passes share during one compilation.
typedef struct th_pipeline {
  th_ir *ir;
  th_executor_list executors;
  int64_t fuel;           // fusions that may still be made; -1: no limit
  uint32_t region_number; // hostFusion<N>
  uint32_t kernel_number; // hostKernel<N>
  bool explain;           // collect why claims were declined
  th_buffer *explanation;
  const void *transform; // of a user, while it runs
} th_pipeline;

typedef th_status (*th_pass_fn)(th_pipeline *p, const th_trace *in,
                                th_trace **out);

typedef enum th_pass_stage {
  TH_STAGE_REWRITE, // says what is computed
  TH_STAGE_CLAIM,   // says who computes it; a user's transforms run around it
  TH_STAGE_PLAN,    // adds what holds for this order of statements alone
} th_pass_stage;

typedef struct th_pass_info {
  const char *name; // also the flag, the timer and the dump
  th_pass_stage stage;
  const char *summary; // for --list-passes
  th_pass_fn fn;
} th_pass_info;

// In the order of passes.def, which is also the default pipeline.
extern const th_pass_info th_passes[];
extern const size_t th_pass_count;
const th_pass_info *th_pass_find(const char *name, size_t length);

typedef struct th_history th_history;

typedef struct th_manager_options {
  bool verify_each;
  bool roundtrip_each; // parse(print(t)) == t after each pass
  // Called after each pass (dumps, user transforms may watch); may be NULL.
  void (*after)(void *user, const th_pass_info *pass, const th_trace *before,
                const th_trace *after, int64_t nanoseconds);
  // Called before and after the pass that claims, where a user's transforms
  // run; `claim` is that pass, NULL before it.  NULL: none.
  th_status (*around_claim)(void *user, th_pipeline *p,
                            const th_pass_info *claim, th_history *history);
  void *user;
} th_manager_options;

// Every trace of one compilation, in order; [0] is the input.
struct th_history {
  const th_trace **traces;
  int64_t *nanoseconds;
  uint32_t count, cap;
};

void th_history_push(th_ir *ir, th_history *history, const th_trace *trace,
                     int64_t nanoseconds);

// Runs one pass on the newest trace; verifies, times and keeps the next.
th_status th_manager_run_pass(th_pipeline *p, const th_pass_info *pass,
                              const th_manager_options *options,
                              th_history *history);

// Is each of `names` ("dce,cse") a pass, or "default", which is all of them?
th_status th_manager_check(th_context *ctx, const char *names);
// Runs the passes that `names` lists.
th_status th_manager_run(th_pipeline *p, const char *names,
                         const th_manager_options *options, const th_trace *in,
                         th_history *history);

// Prototypes of the passes.
#define PASS(name, stage, summary)                                             \
  th_status th_pass_##name(th_pipeline *p, const th_trace *in, th_trace **out);
#include "passes/passes.def"
#undef PASS

#endif

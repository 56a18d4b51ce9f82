// thunder-run: runs exported models, checks recorded cases.
#ifndef THUNDER_RUN_H
#define THUNDER_RUN_H

#include "thunder/jit.h"
#include "thunder/safetensors.h"

typedef struct run_options {
  const char *model;   // path of the archive, or of the text of a trace
  bool is_text;        // the latter
  const char *program; // --model
  const char *inputs;
  const char *outputs;
  const char *cases;
  const char *trace; // runs instead of the archive's graph
  bool claims;
  const char *weights; // safetensors that replace weights by FQN
  bool sample_inputs;
  bool random_inputs;
  uint64_t seed;
  bool random_weights;
  uint64_t weight_seed;
  int64_t time; // calls to time
  int64_t threads;
  bool print_trace;
  bool quiet;
  bool profile_modules;  // sum by module
  int64_t profile_depth; // of module paths; 0: whole
  th_jit_options jit;
} run_options;

// Ends the process on --help, --version and what cannot be meant.
void run_read_options(int argc, char **argv, run_options *options);

// Prints the context's diagnostics to stderr and forgets them.
void run_report(th_context *ctx);

// The inputs of one call as --inputs, --sample-inputs or --random say.
// *out_leaves has th_callable_input_count leaves; run_free_leaves.
th_status run_make_inputs(th_context *ctx, const run_options *options,
                          th_pt2 *archive, const char *program,
                          th_callable *callable, th_leaf **out_leaves);
void run_free_leaves(th_leaf *leaves, size_t count);
// A number that was constant in the trace, as the call wants it.
th_leaf run_constant_leaf(const th_callable *callable, size_t index);

th_status run_compile(th_context *ctx, const run_options *options,
                      th_pt2 *archive, const char *program,
                      th_callable **out_callable);
void run_print_claims(th_callable *callable);

// --profile: calls and times them by step, then prints the table.  The first
// call has been made.
th_status run_profile(th_context *ctx, const run_options *options,
                      th_callable *callable, const th_leaf *inputs);

// What the machine reaches with so many threads.
typedef struct run_limits {
  double bytes; // read in a second
  double flops; // of f32 in a second
} run_limits;
run_limits run_measure_limits(int threads);

int64_t run_now(void); // nanoseconds
void run_release_outputs(th_leaf *outputs, size_t count);

// --cases: the exit status.
int run_cases(th_context *ctx, const run_options *options, th_pt2 *archive);

#endif

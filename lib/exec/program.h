// The program: a final trace as a flat list of steps with planned memory, and
// how a call runs it.
#ifndef TH_EXEC_PROGRAM_H
#define TH_EXEC_PROGRAM_H

#include "exec/executor.h"
#include "thunder/jit.h"

typedef struct th_program th_program;

// Memory and diagnostics of one call.  Diagnostics go to the caller's context
// (one thread at a time each), so that concurrent calls do not meet.
typedef struct th_frame th_frame;

typedef struct th_program_options {
  bool no_cache;         // no object cache on disk
  int threads;           // that compile
  bool constant_weights; // parameters and constants never change
  // Debugging: called before and after each statement with its values.
  void (*before)(void *user, const th_stmt *stmt, const th_view *const *args,
                 uint32_t arg_count);
  void (*after)(void *user, const th_stmt *stmt, const th_view *const *outs,
                uint32_t out_count);
  void *user;
} th_program_options;

// Compiles what has to be compiled (kernels through lowering/lower.h) and lays
// out the steps.  The trace must be claimed; it and its th_ir must outlive the
// program.  Thread-safe afterwards: any number of calls at once.
th_status th_program_new(th_context *ctx, const th_trace *trace,
                         const th_program_options *options,
                         th_program **out_program);
void th_program_free(th_program *program);

// One tensor (or number, or nothing) for each input of the trace.
typedef struct th_program_value {
  th_kind kind;
  th_tensor *tensor; // TENSOR
  th_scalar num;     // NUMBER; its dtype is the trace's
} th_program_value;

// Runs.  `inputs` follow trace->inputs; tensors must have the trace's dtypes
// and ranks, sizes that fit its symbols (checked: TH_SHAPE with the input's
// name, both types), strides as typed (else a row-major copy is made).
// `outputs` follow the flattened tree under 'output' (every leaf: tensors,
// numbers, None); an entry with a tensor is written in place, others are made
// and owned by the caller.  `mutated` inputs are written back last, into the
// input tensors; a call that fails changes nothing.  `guarded`: the caller has
// compared dtypes and ranks, and sizes and strides where the trace has
// constants.
th_status th_program_run(th_program *program, th_context *ctx, int threads,
                         bool guarded, const th_program_value *inputs,
                         size_t input_count, th_program_value *outputs,
                         size_t output_count);

// Leaves of the tree under 'output', in order (values, numbers, strings, None).
size_t th_program_output_count(const th_program *program);
const th_arg *th_program_leaf(const th_program *program, size_t index);

// Does it write to its inputs, or keep state?  Then it runs one call at a time.
bool th_program_is_exclusive(const th_program *program);

// Calls fn for each statement of `executor` that has a state object, until one
// fails.
typedef th_status (*th_state_fn)(void *user, const th_stmt *stmt,
                                 const th_state_hooks *hooks, void *state);
th_status th_program_each_state(th_program *program, const char *executor,
                                th_state_fn fn, void *user);

typedef struct th_program_stats {
  uint64_t kernels_compiled, kernels_from_disk, kernels_shared;
  int64_t codegen_ns;
  int64_t slab_bytes; // of the newest plan
  uint64_t plans;     // sizes planned
  uint64_t calls;
} th_program_stats;
void th_program_get_stats(th_program *program, th_program_stats *out);

// Profiles the calls from here on, those of branches too; unwinds when memory
// is out.  No call may be under way.
void th_program_profile(th_program *program);
// The next row at `*index`, counted over the steps and, after each `cond`, the
// steps of its branches.  False: the program has fewer; *index is lessened.
bool th_program_profile_row(const th_program *program, size_t *index,
                            th_profile_row *out);
void th_program_profile_reset(th_program *program);

#endif

// Callables: a traced function, or a program of an archive, compiled and ready
// to be called.
//
// Threads: th_jit* and everything that reads a callable belong to the context's
// thread.  th_call may be called by any number of threads at once; a callable
// that writes to its inputs or buffers runs one call at a time and answers
// TH_BUSY to the others.
#ifndef THUNDER_JIT_H
#define THUNDER_JIT_H

#include "thunder/executor.h"
#include "thunder/module.h"
#include "thunder/pt2.h"
#include "thunder/tensor.h"
#include "thunder/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct th_callable th_callable;

// How a callable finds compiled code for a call.  All that was compiled is kept
// until the callable goes: where sizes or numbers are new with every call,
// memory grows with every call, by default above all.  The log has one warning,
// at 64 compilations, with the guard that the newest missed.
typedef enum th_cache_mode {
  // Guards on dtypes, shapes, strides and the values of numbers (default).
  TH_CACHE_CONSTANT_VALUES,
  // Sizes become symbols where that is possible, numbers become inputs.
  TH_CACHE_SYMBOLIC_VALUES,
  // The first compilation serves every call; nothing is checked but dtypes,
  // sizes, and that what is no tensor is the same.
  TH_CACHE_SAME_INPUT,
  // Every call traces and compiles.
  TH_CACHE_NONE,
} th_cache_mode;

typedef struct th_transform th_transform; // transform.h

typedef struct th_jit_options {
  size_t size; // sizeof this, so that it may grow
  const char
      *executors;     // "gemv,onednn,flash,host,ref", which is what NULL means
  const char *passes; // NULL: the whole pipeline
  th_cache_mode cache;
  int threads;         // of calls and of the code generator; 0:
                       // OMP_NUM_THREADS, else all that the process may use
  int64_t fuel;        // joins of a statement to the region before it; -1: all
  bool no_cache;       // no object cache on disk
  bool verify_each;    // check each trace
  bool roundtrip_each; // parse(print(t)) == t after each pass
  bool profile;        // time every step: th_callable_profile
  bool compile_only;   // bind no weights: nothing of them is read, no call
  const char *dump_traces; // folder for NN-pass.trace files, made where there
                           // is none; NULL: none
  const th_transform *transforms;
  size_t transform_count;
  // A debug run: called before and after each statement of the final trace, by
  // the thread that calls.  A region is one statement; fuel 0 makes a region of
  // each.  An argument that is no tensor, lists included, and a result that
  // nobody wants are NULL.  Views are valid during the call.
  void (*before)(void *user, const th_stmt *stmt, const th_view *const *args,
                 uint32_t arg_count);
  void (*after)(void *user, const th_stmt *stmt, const th_view *const *outs,
                uint32_t out_count);
  void *user;
  // No weight, and no buffer that the program does not write, changes while
  // the callable lives, so an executor may keep copies of them in an order of
  // its own.  Always so for those of an archive.
  bool constant_weights;
  // Weights of linear layers of an archive, 4096 elements at least: "bf16"
  // halves what a step reads, "i8" (a scale for each output) quarters it;
  // products are f32.  NULL or "f32": as they are.
  const char *weights;
} th_jit_options;

#define TH_JIT_OPTIONS_INIT                                                    \
  {sizeof(th_jit_options),                                                     \
   NULL,                                                                       \
   NULL,                                                                       \
   TH_CACHE_CONSTANT_VALUES,                                                   \
   0,                                                                          \
   -1,                                                                         \
   false,                                                                      \
   false,                                                                      \
   false,                                                                      \
   false,                                                                      \
   false,                                                                      \
   NULL,                                                                       \
   NULL,                                                                       \
   0,                                                                          \
   NULL,                                                                       \
   NULL,                                                                       \
   NULL,                                                                       \
   false,                                                                      \
   NULL}

// A function over values (trace.h) as a callable; nothing is traced before the
// first call.  The function fills `output_count` results.  `module` (NULL:
// none) has its parameters and buffers; the callable holds it.  Executors,
// operations and the log of the context are taken as they are now.
//
// A call whose inputs are unlike those of every call before traces and compiles
// on the calling thread, one at a time; `user` must bear that, and the function
// must not call the callable that it is traced for.  What "unlike"
// means is the mode of the cache; a trace of the checks can be read (the
// prologue).  When the module's tensors are replaced by others of the same
// dtypes, sizes and strides the code is kept.  `options` NULL: the defaults.
//
// This holds for every th_jit*:
//   TH_INVALID: the options, or a transform, have no size or something that
//   there is not; the function is NULL    TH_NOT_FOUND: no executor, or no
//   pass, of a name
TH_API th_status th_jit(th_context *ctx, th_function function, void *user,
                        th_module *module, size_t output_count,
                        const th_jit_options *options,
                        th_callable **out_callable);

// Compiles one program of an archive; `program` NULL: the default one.  The
// archive may be freed afterwards: the callable holds the weights.  Parameters
// and buffers are bound; a call gives the user inputs alone.  What was no
// tensor at export (th_callable_input_constant) has to be the same in each
// call, which is TH_INVALID otherwise; a number that the archive has a symbol
// for is free.
//   TH_UNSUPPORTED: all operations that cannot be run, each with its reason
TH_API th_status th_jit_pt2(th_context *ctx, th_pt2 *archive,
                            const char *program, const th_jit_options *options,
                            th_callable **out_callable);

// Compiles a trace that is given as text.  A call gives every input.
TH_API th_status th_jit_text(th_context *ctx, const char *name,
                             const char *text, size_t size,
                             const th_jit_options *options,
                             th_callable **out_callable);

// A trace that was printed, perhaps edited, and is read back, with the weights
// of the program that it came from: parameters, buffers and constants are bound
// by their qualified names.  options->passes "" runs it as it is.
TH_API th_status th_jit_pt2_text(th_context *ctx, th_pt2 *archive,
                                 const char *program, const char *name,
                                 const char *text, size_t size,
                                 const th_jit_options *options,
                                 th_callable **out_callable);

// NULL is legal.  No call may be under way.
TH_API void th_callable_free(th_callable *callable);

// One leaf of the inputs or of the result.
typedef enum th_leaf_kind {
  TH_LEAF_NONE,
  TH_LEAF_TENSOR,
  TH_LEAF_INT,
  TH_LEAF_FLOAT,
  TH_LEAF_BOOL,
  TH_LEAF_STRING,
} th_leaf_kind;

typedef struct th_leaf {
  th_leaf_kind kind;
  th_tensor *tensor;
  int64_t i; // INT and BOOL
  double f;
  const char *text;
} th_leaf;

typedef struct th_call_options {
  size_t size;             // sizeof this, so that it may grow
  th_context *diagnostics; // the caller's; NULL: the callable's own
  int threads;             // 0: as the callable was made
} th_call_options;

#define TH_CALL_OPTIONS_INIT {sizeof(th_call_options), NULL, 0}

// Calls with tensors.  An output that is NULL becomes a new tensor that the
// caller releases; another is written in place.  A result that is no tensor
// leaves NULL.  A call that fails changes no input and no buffer; what a tensor
// given for an output then holds is undefined.
//
// Errors go to the callable's context, whichever thread calls: they do not
// collide there, but only the context's thread reads them, while no call is
// under way.  A thread that wants its own gives th_call_leaves a context.
//   TH_SHAPE, TH_DTYPE: a tensor does not fit    TH_INVALID: another number or
//   kind of inputs or outputs, an index out of range, a division by zero
//   TH_BUSY: see above    TH_NO_MEMORY, and what an executor returns
TH_API TH_MUST_CHECK th_status th_call(th_callable *callable,
                                       th_tensor *const *inputs,
                                       size_t input_count, th_tensor **outputs,
                                       size_t output_count);
// The same with every kind of leaf, a place for diagnostics, threads.  Of an
// output only `tensor` is read, as by th_call: begin with th_leaf outputs[n] =
// {0}.  All of it is written when the call succeeds, and nothing when it fails;
// a text lives as the traces do (th_last_traces).  `options` NULL: defaults.
TH_API TH_MUST_CHECK th_status th_call_leaves(th_callable *callable,
                                              const th_call_options *options,
                                              const th_leaf *inputs,
                                              size_t input_count,
                                              th_leaf *outputs,
                                              size_t output_count);

// Leaves that a call takes and gives (of the newest compilation).
TH_API size_t th_callable_input_count(const th_callable *callable);
TH_API size_t th_callable_output_count(const th_callable *callable);
TH_API const char *th_callable_input_name(const th_callable *callable,
                                          size_t index);
// As in traces: "cpu f32[s0, 16]"; valid while the callable lives.
TH_API const char *th_callable_input_type(th_callable *callable, size_t index);
TH_API th_leaf_kind th_callable_input_kind(const th_callable *callable,
                                           size_t index);
// The th_dtype of a tensor or number, and the rank of a tensor; -1: there is no
// such input, or it has no rank.
TH_API int th_callable_input_dtype(const th_callable *callable, size_t index);
TH_API int th_callable_input_rank(const th_callable *callable, size_t index);
// The size of a dimension; a symbolic one gives `otherwise`.
TH_API int64_t th_callable_input_dim(const th_callable *callable, size_t index,
                                     int dim, int64_t otherwise);
// For an integer tensor: the size of the smallest table that it indexes, so
// that numbers below it are legal; 2 when it indexes none.
TH_API int64_t th_callable_input_limit(const th_callable *callable,
                                       size_t index);
// The constant that an input was traced with; TH_LEAF_NONE for tensors.
TH_API th_leaf th_callable_input_constant(const th_callable *callable,
                                          size_t index);
// A bound parameter or buffer; borrowed.  NULL: no such name.  The next call
// sees what is written to it between calls, but not where weights are constant
// (th_jit_options.constant_weights, and every callable of an archive): then
// only what the program itself writes may be changed.
TH_API th_tensor *th_callable_state(const th_callable *callable,
                                    const char *fqn);

// The traces of the newest compilation as text, in order: [0] is what was
// traced, the last one is what runs.  Valid until the callable is freed (where
// nothing is cached: until its next call).  The prologue is one trace; only a
// traced function has one.  TH_TRACES_BACKWARD: none yet, 0.  out_texts NULL:
// only how many.
typedef enum th_trace_kind {
  TH_TRACES_COMPUTATION,
  TH_TRACES_PROLOGUE,
  TH_TRACES_BACKWARD,
} th_trace_kind;
TH_API size_t th_last_traces(th_callable *callable, th_trace_kind kind,
                             const char *const **out_texts);

typedef struct th_statistics {
  size_t size;
  uint64_t calls, cache_hits, cache_misses;
  uint64_t kernels_compiled, kernels_from_disk; // of the newest compilation
  uint64_t kernels_shared;                      // compiled by another already
  int64_t trace_ns, passes_ns, codegen_ns;      // of all compilations
  int64_t slab_bytes;                           // of the newest memory plan
  uint64_t plans;                               // sets of sizes planned
  // Of the newest compilation: which guard failed.  Valid until the next call
  // of this function.
  const char *reason;
  // What th_jit_options.weights did: tensors rounded, sum |w - rounded| over
  // sum |w|, and the largest error as a share of its row's largest element.
  uint64_t weights_rounded;
  double weight_error, weight_error_largest;
  int threads; // of a call whose options name none
} th_statistics;

#define TH_STATISTICS_INIT {.size = sizeof(th_statistics)}

// out->size is the caller's.
TH_API void th_callable_statistics(th_callable *callable, th_statistics *out);

// Who runs what: a row for each executor and operation of the final trace, the
// statements inside regions included; "window" runs nothing.  Valid until the
// next call of this function.  out_rows NULL: only how many.
typedef struct th_claim_row {
  const char *executor;
  const char *op;
  uint64_t count;
} th_claim_row;
TH_API size_t th_callable_claims(th_callable *callable,
                                 const th_claim_row **out_rows);

// A step of the newest compilation, when `profile` was set.  Times, bytes and
// flops are sums over the calls.
//
// bytes: operands and results, each once; of what is only indexed, cut or
// written in place the elements concerned.  More may move: what no cache holds
// is read again, packed weights and scratch do not count.
// flops: 2 m n k of products and convolutions, half of it for causal attention;
// other operations count nothing.
typedef struct th_profile_row {
  size_t size; // sizeof this, so that it may grow
  const th_stmt *stmt;
  const char *name;     // kernel, region or operation
  const char *executor; // "program", "window": nobody's
  const char *scope;    // module path of its products; where it has none, what
                        // the paths of its statements have in common
  int64_t nanoseconds;  // a cond: without the steps of its branches
  uint64_t calls;
  uint64_t bytes, flops;
} th_profile_row;

#define TH_PROFILE_ROW_INIT {.size = sizeof(th_profile_row)}

// Steps in their order, those of the branches after their cond; out->size is
// the caller's.  False, and *out untouched: there is no row `index`.  What rows
// point to is valid as long as the traces (th_last_traces).  Calls may be under
// way.
TH_API bool th_callable_profile(th_callable *callable, size_t index,
                                th_profile_row *out);
// Begins again at 0: a first call makes what later ones keep, such as packed
// weights, and says little about them.
TH_API void th_callable_profile_reset(th_callable *callable);

#ifdef __cplusplus
}
#endif
#endif

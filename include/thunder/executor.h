// Executors: who runs which statement.  Built-in ones and a user's come
// through the same calls.
//
// An executor is a table of claims (operation, check, run) and, if it fuses,
// a way to turn statements into one region.  Executors are asked in the order
// of the list that a compilation is given; the first that accepts a statement
// gets it.  Names are an interface: a rename keeps the old name as an alias.
#ifndef THUNDER_EXECUTOR_H
#define THUNDER_EXECUTOR_H

#include "thunder/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct th_stmt th_stmt; // a statement of a trace
typedef struct th_run th_run;   // one call of a statement

// A window on memory, valid during one call.
typedef struct th_view {
  void *data;
  th_dtype dtype;
  th_device device;
  int rank;
  const int64_t *dims;
  const int64_t *strides; // in elements
} th_view;

// What a number is at run time: integers and booleans in i, floats in f.
typedef union th_scalar {
  int64_t i;
  double f;
} th_scalar;

// ---- what a run function sees; arguments are numbered as in the schema

// The statement that runs, for its location and name.
TH_API const th_stmt *th_run_stmt(const th_run *run);
// A tensor argument; NULL: None.  Also NULL when it is a number: use
// th_run_number then.
TH_API const th_view *th_run_tensor(const th_run *run, uint32_t arg);
TH_API bool th_run_is_none(const th_run *run, uint32_t arg);
// A number as double or integer (an integer number converts).
TH_API double th_run_float(const th_run *run, uint32_t arg);
TH_API int64_t th_run_int(const th_run *run, uint32_t arg);
TH_API bool th_run_bool(const th_run *run, uint32_t arg);
TH_API bool th_run_is_float(const th_run *run, uint32_t arg);
TH_API const char *th_run_string(const th_run *run, uint32_t arg);
TH_API th_dtype th_run_dtype(const th_run *run, uint32_t arg);
// Lists: how many, and the members.
TH_API uint32_t th_run_list_count(const th_run *run, uint32_t arg);
TH_API const th_view *th_run_list_tensor(const th_run *run, uint32_t arg,
                                         uint32_t index);
TH_API int64_t th_run_list_int(const th_run *run, uint32_t arg, uint32_t index);
// Results: memory to write, laid out as inferred; NULL: nobody wants it.
TH_API uint32_t th_run_out_count(const th_run *run);
TH_API const th_view *th_run_out(const th_run *run, uint32_t out);
// A result whose shape depends on data (nonzero): makes its memory, row-major.
// Once for each of them, before the run function returns TH_OK.
//   TH_INVALID: not such a result, or its memory is made already; another rank
//   or size than inferred, a negative size    TH_NO_MEMORY
TH_API th_status th_run_alloc(th_run *run, uint32_t out, int rank,
                              const int64_t *dims, const th_view **out_view);
// A result that is a number (item); nothing happens where there is none.
TH_API void th_run_set_number(th_run *run, uint32_t out, th_scalar value);
// Threads that this call may use.
TH_API int th_run_threads(const th_run *run);
// Bytes that live until the run function returns, aligned to 64; NULL: no
// memory.
TH_API void *th_run_scratch(th_run *run, size_t size);
// The state object of this statement (stateful executors).
TH_API void *th_run_state(const th_run *run);
// Records what went wrong, with the statement's location; returns `status`.
TH_API th_status th_run_error(th_run *run, th_status status, const char *fmt,
                              ...) TH_PRINTF(3, 4);

// Texts that change hands.  NULL: no memory; NULL may be freed.
TH_API char *th_text_copy(const char *text);
TH_API void th_text_free(char *text);

// ---- declaring an executor

// Does the executor take this statement?  *reason (of static storage) says why
// not.
typedef bool (*th_check_fn)(const th_stmt *stmt, const char **reason);
// Computes the results of one statement; may be called by several threads at
// once.  What it returns, if not TH_OK, ends the call of the program.
typedef th_status (*th_run_fn)(th_run *run);

typedef struct th_claim {
  const char *op;    // operation, any spelling: "linear", "ns::name"
  th_check_fn check; // NULL: always
  th_run_fn run;
} th_claim;

// State of a call site.  Every hook may be NULL.
typedef struct th_state_hooks {
  size_t size;
  th_status (*create)(th_context *ctx, const th_stmt *stmt, void **out_state);
  th_status (*before_run)(void *state);
  th_status (*after_run)(void *state);
  th_status (*reset)(void *state);
  void (*destroy)(void *state);
  // The state as JSON, made by th_text_copy and freed by the caller, and the
  // way back.
  th_status (*export_state)(const void *state, char **out_json);
  th_status (*import_state)(void *state, const char *json);
} th_state_hooks;

typedef struct th_executor_options {
  size_t size;         // sizeof this, so that it may grow
  const char *name;    // "ref"
  const char *version; // "1"
  const th_claim *claims;
  size_t claim_count;
  size_t claim_size;           // sizeof(th_claim), so that it may grow too
  const th_state_hooks *state; // NULL: stateless
  // A fusing executor: consecutive statements that can_fuse accepts, and that
  // it does not claim, become one region.  can_fuse and fuse go together.
  th_check_fn can_fuse;
  // Asked once for each region when a program is made: what runs it, and the
  // state that th_run_state then gives.  In a run, arguments and results are
  // those of the region; only its results have memory.
  th_status (*fuse)(th_context *ctx, const th_stmt *region, th_run_fn *out_run,
                    void **out_state);
  void (*release)(void *state); // NULL: nothing to free
  // A fusing executor without `fuse`: its regions are compiled like those of
  // this one ("host", or one like it), which has to accept the statements too;
  // can_fuse may be NULL.
  const char *like;
  // A run of statements becomes a region only where this accepts one of them;
  // else the next executor of the list gets them.  NULL: every run does.
  th_check_fn anchors;
} th_executor_options;

// Adds an executor to a context; the strings and the table are copied.
// Callables that are made afterwards can name it.
//   TH_INVALID: the name is taken or no name, a claim has no run function,
//   there are no claims where some are counted,
//   `fuse` without can_fuse or with `like`, `like` is none that compiles
//   TH_NOT_FOUND: a claim names an unknown operation, `like` an executor
TH_API th_status th_executor_register(th_context *ctx,
                                      const th_executor_options *options);

// The registered executors, in alphabetic order; `index` past the end: NULL.
// A deprecated alias gives the name that replaces it in *out_replacement.  What
// is not wanted is NULL.
TH_API const char *th_executor_name(th_context *ctx, size_t index,
                                    const char **out_version,
                                    const char **out_replacement);

// What a statement is.
TH_API const char *th_stmt_op_name(const th_stmt *stmt);
TH_API const char *th_stmt_scope(const th_stmt *stmt); // module path
TH_API th_loc th_stmt_loc(const th_stmt *stmt);
// The dtype (a th_dtype), rank and constant sizes of a tensor argument.  -1: it
// is no tensor; of a size also: it is symbolic, or there is no such dimension
// (0 <= dim < rank).
TH_API int th_stmt_arg_dtype(const th_stmt *stmt, uint32_t arg);
TH_API int th_stmt_arg_rank(const th_stmt *stmt, uint32_t arg);
TH_API int64_t th_stmt_arg_dim(const th_stmt *stmt, uint32_t arg, int dim);
// The statements of a region, in order; past the end: NULL.  trace.h tells
// which values they read and make.
TH_API uint32_t th_stmt_body_count(const th_stmt *stmt);
TH_API const th_stmt *th_stmt_body(const th_stmt *stmt, uint32_t index);

#ifdef __cplusplus
}
#endif
#endif

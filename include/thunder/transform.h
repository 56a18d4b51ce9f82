// Extending Thunder: transforms of modules and traces, operations.
//
// A transform reads a trace and builds the next one; nothing is changed in
// place.  Branches of `cond` are traces of their own and go through it too. The
// function goes through the statements in order and, for each of them, keeps
// it, drops it, or builds others and says what its results are now:
//
//   static th_status to_silu(th_tracer *t, const th_trace *in, void *user) {
//     for (size_t i = 0; i < th_trace_stmt_count(in); i++) {
//       const th_stmt *s = th_trace_stmt(in, i);
//       if (strcmp(th_stmt_op_name(s), "gelu") == 0) {
//         th_replace(t, s, 0, th_silu(t, th_argument(t, s, 0)));
//       } else {
//         th_keep(t, s);
//       }
//     }
//     return th_tracer_status(t);
//   }
#ifndef THUNDER_TRANSFORM_H
#define THUNDER_TRANSFORM_H

#include "thunder/jit.h"
#include "thunder/module.h"
#include "thunder/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- transforms

typedef enum th_transform_stage {
  TH_ON_MODULE,    // once, before the first trace
  TH_BEFORE_CLAIM, // composites are whole, nobody has claimed anything
  TH_AFTER_CLAIM,  // each statement has its executor; new ones are claimed
} th_transform_stage;

typedef th_status (*th_trace_transform)(th_tracer *t, const th_trace *in,
                                        void *user);
typedef th_status (*th_module_transform)(th_module *module, void *user);

// The list in th_jit_options runs in its order, stage by stage; `name` stands
// in "Constructed by" and in the names of dumps.
struct th_transform {
  size_t size; // sizeof this, so that it may grow
  const char *name;
  th_transform_stage stage;
  th_trace_transform trace;   // BEFORE_CLAIM, AFTER_CLAIM
  th_module_transform module; // ON_MODULE
  void *user;
};

#define TH_TRANSFORM_INIT {.size = sizeof(th_transform)}

// The built-in ones: every pass by its name ("dce", "cse", ...), and
//   freeze_batch_norm   batch norms use their running statistics
//   print               logs each trace at TH_LOG_INFO
// They are the same structs; `stage` says where the caller wants it.
// out_transform->size is the caller's.
//   TH_NOT_FOUND: no transform of this name
TH_API th_status th_transform_builtin(const char *name,
                                      th_transform_stage stage,
                                      th_transform *out_transform);

TH_API size_t th_trace_stmt_count(const th_trace *trace);
TH_API const th_stmt *th_trace_stmt(const th_trace *trace, size_t index);
TH_API size_t th_trace_input_count(const th_trace *trace);
TH_API const th_value *th_trace_input_at(const th_trace *trace, size_t index);
// How many statements, or the result, read a value.
TH_API size_t th_trace_uses(const th_trace *trace, const th_value *value);
// The trace as text, and one statement of it; free with th_text_free.  NULL: no
// memory.
TH_API char *th_trace_text(const th_trace *trace);
TH_API char *th_stmt_text(const th_stmt *stmt);

// `stmt` is of the old trace, and what replaces a result of the new one; one of
// another trace is an error of the tracer.
//
// Copies a statement of the old trace with what its operands are now.
TH_API void th_keep(th_tracer *t, const th_stmt *stmt);
// Says what a result of the old trace is from here on.
TH_API void th_replace(th_tracer *t, const th_stmt *stmt, size_t out,
                       th_value *value);
// What a value of the old trace is now; NULL: it was dropped.
TH_API th_value *th_mapped(th_tracer *t, const th_value *value);
// Statements that are built from here on have the scope and the source line of
// `stmt`, as after th_argument and th_stmt_operand; NULL: those of the calls.
TH_API void th_in_place_of(th_tracer *t, const th_stmt *stmt);

// ---- operations

typedef struct th_shape_query th_shape_query; // one question to a shape rule
typedef struct th_expr th_dim; // a size: a constant, or an expression

// What a shape rule is told; arguments are numbered as in the schema.
TH_API bool th_query_is_none(const th_shape_query *q, uint32_t arg);
TH_API th_dtype th_query_dtype(const th_shape_query *q, uint32_t arg);
TH_API int th_query_rank(const th_shape_query *q, uint32_t arg); // -1
// NULL: there is no such dimension.  Negative: from the end.
TH_API const th_dim *th_query_dim(const th_shape_query *q, uint32_t arg,
                                  int dim);
TH_API size_t th_query_list_count(const th_shape_query *q, uint32_t arg);
TH_API const th_dim *th_query_list_item(const th_shape_query *q, uint32_t arg,
                                        size_t index);
// A number argument; NULL: it is none.
TH_API const th_dim *th_query_number(const th_shape_query *q, uint32_t arg);
// Sizes: constants and arithmetic (+ - * / as floor division).  NULL: a NULL
// operand, a division by zero, an overflow.
TH_API const th_dim *th_dim_int(th_shape_query *q, int64_t value);
TH_API const th_dim *th_dim_make(th_shape_query *q, char op, const th_dim *a,
                                 const th_dim *b);
// The constant, or -1.
TH_API int64_t th_dim_value(const th_dim *dim);
// Adds a result; in order.
TH_API th_status th_query_out(th_shape_query *q, th_dtype dtype, int rank,
                              const th_dim *const *dims);
// A result like an argument.
TH_API th_status th_query_out_like(th_shape_query *q, uint32_t arg);
// Are two sizes equal?  When that is not known before the call, it is taken as
// true and checked then.
TH_API bool th_query_same(th_shape_query *q, const th_dim *a, const th_dim *b);
// "ns::name: ..." with the place of the statement; returns `status`.
TH_API th_status th_query_error(th_shape_query *q, th_status status,
                                const char *fmt, ...) TH_PRINTF(3, 4);

typedef struct th_operation {
  size_t size;        // sizeof this, so that it may grow
  const char *name;   // "ns::name"
  const char *schema; // "T x, T weight, F eps=1e-05"; letters as in IR.md
  uint32_t out_count;
  bool has_effect; // kept though nobody uses its results
  // The types of the results; NULL: those of the expansion.
  th_status (*shape)(th_shape_query *q, void *user);
  // What the operation means in terms of others; NULL: an executor of the list
  // has to claim it.
  th_status (*expand)(th_tracer *t, const th_stmt *stmt, th_value **out,
                      void *user);
  void *user;
} th_operation;

#define TH_OPERATION_INIT                                                      \
  {sizeof(th_operation), NULL, NULL, 1, false, NULL, NULL, NULL}

// Adds an operation to a context; strings are copied, functions and `user`
// outlive it.  Applied with th_op, claimed by executors like any row.
//   TH_INVALID: the name, the schema, or neither shape nor expansion
TH_API th_status th_operation_register(th_context *ctx,
                                       const th_operation *operation);

// ---- states of executors (executor.h, th_state_hooks)

// A JSON document with an entry for each call site that `executor` holds state
// for: {"executor": ..., "version": ..., "states": [{"site": ..., "op": ...,
// "state": ...}]}.  Free it with th_text_free.
//   TH_NOT_FOUND: no such call site    TH_BUSY: a call is under way
TH_API th_status th_callable_export_state(th_callable *callable,
                                          const char *executor,
                                          char **out_json);
// Every call site of the document must be there.  On an error call sites may
// have taken their states already.
TH_API th_status th_callable_import_state(th_callable *callable,
                                          const char *executor,
                                          const char *json);
TH_API th_status th_callable_reset_state(th_callable *callable,
                                         const char *executor);

#ifdef __cplusplus
}
#endif
#endif

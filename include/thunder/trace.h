// Tracing: a C function over values becomes a trace.
//
//   static th_status mlp(th_tracer *t, th_value *const *in, size_t in_count,
//                        th_value **out, size_t out_count, void *user) {
//     th_value *h = th_relu(t, th_linear(t, in[0], th_param(t, "fc.weight"),
//                                        NULL));
//     out[0] = th_linear(t, h, th_param(t, "out.weight"), NULL);
//     return th_tracer_status(t);
//   }
//
// Operations (ops.h) are macros that record the line they stand in.  Nobody
// checks after each one: the first error is recorded as a diagnostic that names
// the place of the operation and the place where its operand was made, its
// result is NULL, and every operation after it is silent and gives NULL.
//
// A value belongs to the trace that it was made in and is gone with it.  A
// number (size, scale) is a value too, but no statement: arithmetic on numbers
// alone is done at once, or becomes an expression over symbols.
//
// Threads: a tracer is used by the thread that called the function.
#ifndef THUNDER_TRACE_H
#define THUNDER_TRACE_H

#include "thunder/executor.h"
#include "thunder/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct th_tracer th_tracer;
typedef struct th_value th_value;
typedef struct th_trace th_trace;

// What is traced: fills out[0 .. out_count).  What it returns, if not TH_OK,
// fails the trace, as does an error of the tracer.
typedef th_status (*th_function)(th_tracer *t, th_value *const *in,
                                 size_t in_count, th_value **out,
                                 size_t out_count, void *user);

// The tracer and the place of the call; what every macro below passes.
#define TH_HERE(t) (t), __FILE__, __LINE__
#define TH_PLACE th_tracer *t, const char *file, int line

// TH_OK, or the status of the first error.
TH_API th_status th_tracer_status(const th_tracer *t);
// Records an error of the caller's; returns `status`.
TH_API th_status th_tracer_error_at(TH_PLACE, th_status status, const char *fmt,
                                    ...) TH_PRINTF(5, 6);
#define th_tracer_error(t, ...) th_tracer_error_at(TH_HERE(t), __VA_ARGS__)

// ---- scopes, parameters, buffers

// Statements that follow belong to the submodule `name` ("layers.0") of the
// scope around it.
TH_API void th_scope_push(th_tracer *t, const char *name);
TH_API void th_scope_pop(th_tracer *t);
// The path of the scope, "" at the top; valid while the trace lives.
TH_API const char *th_scope_path(const th_tracer *t);

// A parameter or buffer of the module (module.h) by its name in the scope;
// equal names, and tied ones, are one value.
//   TH_NOT_FOUND: the module has none of this name
TH_API th_value *th_param_at(TH_PLACE, const char *name);
#define th_param(t, name) th_param_at(TH_HERE(t), name)
TH_API th_value *th_buffer_at(TH_PLACE, const char *name);
#define th_buffer(t, name) th_buffer_at(TH_HERE(t), name)
// Does the module have it?
TH_API bool th_has_param(th_tracer *t, const char *name);
// A tensor as it is now; the trace holds it.
TH_API th_value *th_constant_at(TH_PLACE, const char *name, th_tensor *tensor);
#define th_constant(t, name, tensor) th_constant_at(TH_HERE(t), name, tensor)

// After the call the buffer, or the input, holds `value`, whose dtype and shape
// are its own.  Reading it again in the same trace gives the new value.
TH_API void th_buffer_set_at(TH_PLACE, const char *name, th_value *value);
#define th_buffer_set(t, name, value) th_buffer_set_at(TH_HERE(t), name, value)
TH_API void th_input_set_at(TH_PLACE, size_t index, th_value *value);
#define th_input_set(t, index, value) th_input_set_at(TH_HERE(t), index, value)

// ---- numbers

TH_API th_value *th_number(th_tracer *t, double value);
TH_API th_value *th_integer(th_tracer *t, int64_t value);
TH_API th_value *th_boolean(th_tracer *t, bool value);
// The size of a dimension (negative: from the end) and the number of elements.
TH_API th_value *th_size_at(TH_PLACE, th_value *x, int dim);
#define th_size(t, x, dim) th_size_at(TH_HERE(t), x, dim)
TH_API th_value *th_numel_at(TH_PLACE, th_value *x);
#define th_numel(t, x) th_numel_at(TH_HERE(t), x)

// What a number is in this call.  One that would differ in others is fixed by
// asking: calls where it is another trace anew.  0 after an error.
TH_API double th_number_value_at(TH_PLACE, const th_value *number);
#define th_number_value(t, number) th_number_value_at(TH_HERE(t), number)
TH_API int64_t th_integer_value_at(TH_PLACE, const th_value *number);
#define th_integer_value(t, number) th_integer_value_at(TH_HERE(t), number)

// ---- what a value is; NULL is legal

TH_API bool th_value_is_tensor(const th_value *value);
TH_API bool th_value_is_number(const th_value *value);
// TH_DTYPE_COUNT for what has none; I64, F64 or BOOL for a number.
TH_API th_dtype th_value_dtype(const th_value *value);
TH_API int th_value_rank(const th_value *value); // -1: no tensor
// -1: the size is a symbol, or there is no such dimension.
TH_API int64_t th_value_dim(const th_value *value, int dim);
TH_API th_device th_value_device(const th_value *value);
TH_API const char *th_value_name(const th_value *value);
// The text of an input that is a string; NULL: it is none.
TH_API const char *th_value_string(const th_value *value);

// Gives a result a name that stands in the trace, when nothing has it.
TH_API void th_rename(th_tracer *t, th_value *value, const char *name);

// ---- lists of sizes and dimensions

// Up to 12 integers, some of which may be numbers of the trace.
typedef struct th_dims {
  int count;
  int64_t item[TH_MAX_RANK];
  th_value *number[TH_MAX_RANK]; // not NULL: instead of item
} th_dims;

static inline th_dims th_dims_of(const int64_t *items, int count) {
  th_dims dims;
  dims.count = count;
  for (int i = 0; i < TH_MAX_RANK; i++) {
    dims.item[i] = i < count ? items[i] : 0;
    dims.number[i] = NULL;
  }
  return dims;
}

static inline th_dims th_dims_make(int count, int64_t a, int64_t b, int64_t c,
                                   int64_t d, int64_t e, int64_t f, int64_t g,
                                   int64_t h, int64_t i, int64_t j, int64_t k,
                                   int64_t l) {
  const int64_t items[TH_MAX_RANK] = {a, b, c, d, e, f, g, h, i, j, k, l};
  return th_dims_of(items, count);
}

// TH_DIMS(2, -1, 64); no dimensions at all: TH_NO_DIMS, which means "all of
// them" to reductions.
#define TH_DIMS_COUNT(a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define TH_DIMS_FIRST(a, b, c, d, e, f, g, h, i, j, k, l, ...)                 \
  a, b, c, d, e, f, g, h, i, j, k, l
#define TH_DIMS_PADDED(...) TH_DIMS_FIRST(__VA_ARGS__)
#define TH_DIMS(...)                                                           \
  th_dims_make(                                                                \
      TH_DIMS_COUNT(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),    \
      TH_DIMS_PADDED(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
#define TH_NO_DIMS th_dims_of(NULL, 0)

// With a number of the trace in place of one of them.
static inline th_dims th_dims_with(th_dims dims, int index, th_value *number) {
  dims.number[index] = number;
  return dims;
}

// ---- any operation by name

typedef enum th_operand_kind {
  TH_OPERAND_NONE,
  TH_OPERAND_VALUE, // NULL: None
  TH_OPERAND_INT,
  TH_OPERAND_FLOAT,
  TH_OPERAND_BOOL,
  TH_OPERAND_STRING,
  TH_OPERAND_DTYPE,
  TH_OPERAND_DEVICE,
  TH_OPERAND_INTS,   // list of `count` integers
  TH_OPERAND_VALUES, // list of `count` values, NULL: None
  TH_OPERAND_DIMS,
} th_operand_kind;

typedef struct th_operand {
  th_operand_kind kind;
  size_t count;
  union {
    th_value *value;
    int64_t i; // INT and BOOL
    double f;
    const char *text;
    th_dtype dtype;
    th_device device;
    const int64_t *ints;
    th_value *const *values;
    const th_dims *dims;
  } as;
} th_operand;

static inline th_operand th_operand_of(th_operand_kind kind) {
  th_operand o;
  o.kind = kind;
  o.count = 0;
  o.as.i = 0;
  return o;
}
static inline th_operand th_operand_none(void) {
  return th_operand_of(TH_OPERAND_NONE);
}
static inline th_operand th_operand_value(th_value *value) {
  th_operand o = th_operand_of(TH_OPERAND_VALUE);
  o.as.value = value;
  return o;
}
static inline th_operand th_operand_int(int64_t i) {
  th_operand o = th_operand_of(TH_OPERAND_INT);
  o.as.i = i;
  return o;
}
static inline th_operand th_operand_float(double f) {
  th_operand o = th_operand_of(TH_OPERAND_FLOAT);
  o.as.f = f;
  return o;
}
static inline th_operand th_operand_bool(bool b) {
  th_operand o = th_operand_of(TH_OPERAND_BOOL);
  o.as.i = b;
  return o;
}
static inline th_operand th_operand_string(const char *text) {
  th_operand o = th_operand_of(TH_OPERAND_STRING);
  o.as.text = text;
  return o;
}
static inline th_operand th_operand_dtype(th_dtype dtype) {
  th_operand o = th_operand_of(TH_OPERAND_DTYPE);
  o.as.dtype = dtype;
  return o;
}
static inline th_operand th_operand_device(th_device device) {
  th_operand o = th_operand_of(TH_OPERAND_DEVICE);
  o.as.device = device;
  return o;
}
static inline th_operand th_operand_ints(const int64_t *ints, size_t count) {
  th_operand o = th_operand_of(TH_OPERAND_INTS);
  o.as.ints = ints;
  o.count = count;
  return o;
}
static inline th_operand th_operand_values(th_value *const *values,
                                           size_t count) {
  th_operand o = th_operand_of(TH_OPERAND_VALUES);
  o.as.values = values;
  o.count = count;
  return o;
}
// Read when the operation is applied.
static inline th_operand th_operand_dims(const th_dims *dims) {
  th_operand o = th_operand_of(TH_OPERAND_DIMS);
  o.as.dims = dims;
  return o;
}

// Applies an operation: any row of `thunder-opt --list-ops`, or one that was
// registered ("ns::name").  Operands follow its schema; trailing ones may be
// left out.  out[0 .. out_count) get the results, NULL beyond what there is.
// Returns th_tracer_status.
TH_API th_status th_op_at(TH_PLACE, const char *name,
                          const th_operand *operands, size_t count,
                          th_value **out, size_t out_count);
#define th_op(t, name, operands, count, out, out_count)                        \
  th_op_at(TH_HERE(t), name, operands, count, out, out_count)

// ---- control

// Runs one of two functions when the program runs, by a boolean tensor of one
// element (or a number).  A branch sees its operands alone; the two give
// results of equal dtypes and shapes.
//   TH_INVALID: a branch is NULL, and the like
TH_API th_status th_cond_at(TH_PLACE, th_value *condition,
                            th_function true_branch, th_function false_branch,
                            void *user, th_value *const *operands, size_t count,
                            th_value **out, size_t out_count);
#define th_cond(t, condition, true_branch, false_branch, user, operands,       \
                count, out, out_count)                                         \
  th_cond_at(TH_HERE(t), condition, true_branch, false_branch, user, operands, \
             count, out, out_count)

// ---- reading statements (executors, operations, transforms)

TH_API size_t th_stmt_arg_count(const th_stmt *stmt);
// A tensor argument; NULL: it is none.
TH_API th_value *th_stmt_arg_value(const th_stmt *stmt, size_t arg);
// Members of a list: how many, and the values among them.
TH_API size_t th_stmt_list_count(const th_stmt *stmt, size_t arg);
TH_API th_value *th_stmt_list_value(const th_stmt *stmt, size_t arg,
                                    size_t index);
// An argument that is a constant; false: it is another kind, or a symbol.
TH_API bool th_stmt_arg_int(const th_stmt *stmt, size_t arg, int64_t *out);
TH_API bool th_stmt_arg_float(const th_stmt *stmt, size_t arg, double *out);
TH_API const char *th_stmt_arg_string(const th_stmt *stmt, size_t arg);
// An argument as an operand for the trace that `t` builds, and one that is a
// tensor or a number as a value of it; NULL: it is neither, or was dropped.
TH_API th_operand th_stmt_operand(th_tracer *t, const th_stmt *stmt,
                                  size_t arg);
TH_API th_value *th_argument(th_tracer *t, const th_stmt *stmt, size_t arg);
TH_API size_t th_stmt_out_count(const th_stmt *stmt);
// NULL: nobody uses this result.
TH_API th_value *th_stmt_out(const th_stmt *stmt, size_t index);
// Who claimed it; NULL: nobody yet.
TH_API const char *th_stmt_executor(const th_stmt *stmt);
// The statement that made a value; NULL: an input or a number.
TH_API const th_stmt *th_value_def(const th_value *value);
// The FQN of a parameter, buffer or constant; NULL: it is none.
TH_API const char *th_value_fqn(const th_value *value);

#ifdef __cplusplus
}
#endif
#endif

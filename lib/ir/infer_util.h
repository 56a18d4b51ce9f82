// What the shape rules share.  Private to lib/ir/infer*.c.
#ifndef TH_IR_INFER_UTIL_H
#define TH_IR_INFER_UTIL_H

#include "ir/rules.h"

// A shape under construction.  Sizes and strides may be NULL: arithmetic that
// overflowed, which th_infer_run reports once for all rules.  More than
// TH_MAX_RANK dimensions are counted and reported when the result is stored.
typedef struct th_shape {
  uint32_t rank;
  const th_expr *dims[TH_MAX_RANK];
  const th_expr *strides[TH_MAX_RANK];
} th_shape;

void th_shape_push(th_shape *shape, const th_expr *dim, const th_expr *stride);
// Dims and strides of a tensor; the type of a result that is no view ignores
// the strides.
th_shape th_shape_of(th_infer *in, const th_type *type);
// Removes or inserts at a position.
void th_shape_remove(th_shape *shape, uint32_t at);
void th_shape_insert(th_shape *shape, uint32_t at, const th_expr *dim,
                     const th_expr *stride);

// Appends a result.  `out` is row-major; `view` has the shape's strides, which
// are left out of the type when they are those of a row-major tensor.
th_status th_infer_out(th_infer *in, th_dtype dtype, th_device device,
                       const th_shape *shape);
th_status th_infer_view(th_infer *in, const th_type *of, const th_shape *shape);
th_status th_infer_out_type(th_infer *in, const th_type *type);

// ---- errors

// "f32[8, 16]": the device only where it is not the CPU.
const char *th_infer_text(th_infer *in, const th_type *type);
const char *th_infer_num_text(th_infer *in, const th_expr *num);
// The note of the next error names the producer of this argument.
void th_infer_blame(th_infer *in, uint32_t arg);

// ---- arguments

// Integers that a rule has to know; an error when symbolic or None.
th_status th_infer_need_int(th_infer *in, uint32_t arg, int64_t *out);
// An integer of a list of integers, known or symbolic.
th_status th_infer_item(th_infer *in, uint32_t arg, uint32_t i,
                        const th_expr **out);
th_status th_infer_need_item(th_infer *in, uint32_t arg, uint32_t i,
                             int64_t *out);
uint32_t th_infer_count(th_infer *in, uint32_t arg); // 0 for None
// A dimension argument, wrapped.
th_status th_infer_arg_dim(th_infer *in, uint32_t arg, uint8_t rank,
                           uint8_t *out_dim);
// A list of dimensions, wrapped, in the order given; twice the same is an
// error.
th_status th_infer_arg_dims(th_infer *in, uint32_t arg, uint8_t rank,
                            uint8_t dims[TH_MAX_RANK], uint32_t *out_count);
// The common device of all tensor arguments; 0-dim CPU tensors go anywhere.
th_status th_infer_device(th_infer *in, th_device *out_device);
// Two tensor arguments of one dtype.
th_status th_infer_same_dtype(th_infer *in, uint32_t a, uint32_t b);
th_status th_infer_need_rank(th_infer *in, uint32_t arg, uint8_t min,
                             uint8_t max);
th_status th_infer_need_float(th_infer *in, uint32_t arg);
th_status th_infer_need_index(th_infer *in, uint32_t arg);
// Equal ranks and sizes, as far as known.
th_status th_infer_need_shape(th_infer *in, uint32_t arg,
                              const th_shape *wanted, const char *what);
// `shape` broadcasts to `to` (right-aligned, sizes of 1 and missing ones).
bool th_infer_fits(th_infer *in, const th_shape *shape, const th_shape *to);

// ---- shapes that views and their scatters share.  The first argument is the
// tensor, `arg` the first of the view's own.
th_status th_infer_sliced(th_infer *in, uint32_t arg, th_shape *shape,
                          uint8_t *out_dim);
th_status th_infer_selected(th_infer *in, uint32_t arg, th_shape *shape);
th_status th_infer_diagonal(th_infer *in, uint32_t arg, th_shape *shape);
th_status th_infer_strided(th_infer *in, uint32_t arg, th_shape *shape);

// ---- numbers

// An index into [0, size): negative ones count from the end, then the result
// lies in [0, size].  NULL stands for `missing`.
const th_expr *th_infer_clamped(th_infer *in, const th_expr *index,
                                const th_expr *size, const th_expr *missing);
// How many steps lie between start and end.
const th_expr *th_infer_steps(th_infer *in, const th_expr *start,
                              const th_expr *end, const th_expr *step);
const th_expr *th_infer_where(th_infer *in, const th_expr *condition,
                              const th_expr *a, const th_expr *b);
// Is it true for all values that the symbols can have?
bool th_infer_certain(th_infer *in, th_expr_op op, const th_expr *a,
                      const th_expr *b);
// Is it false for all values that the symbols can have?  A rule refuses then;
// where it is not known, the program checks it once it knows the sizes.
bool th_infer_never(th_infer *in, th_expr_op op, const th_expr *a,
                    const th_expr *b);

#endif

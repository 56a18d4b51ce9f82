// What the expansions share.  Private to lib/ir/expand*.c.
//
// A builder that has failed answers NULL to everything, and these helpers pass
// NULL on: an expansion is written as if nothing could fail.
#ifndef TH_IR_EXPAND_UTIL_H
#define TH_IR_EXPAND_UTIL_H

#include "ir/rules.h"

// Statements over values, the last operand a float or an integer.
#define TH_E1(op, x) TH_BUILD(b, op, th_v(x))
#define TH_E2(op, x, y) TH_BUILD(b, op, th_v(x), th_v(y))
#define TH_EF(op, x, f) TH_BUILD(b, op, th_v(x), th_f(b->ir, f))
#define TH_EI(op, x, i) TH_BUILD(b, op, th_v(x), th_i(b->ir, i))

// The tensor of an argument, or NULL.
th_value *th_expand_arg(const th_stmt *stmt, uint32_t arg);
// The constant of a number; false when symbolic or no number.
bool th_expand_const(const th_stmt *stmt, uint32_t arg, double *out);
// Is the argument this number, as an integer or as a float?
bool th_expand_is(const th_arg *arg, int64_t value);
bool th_expand_flag(const th_stmt *stmt, uint32_t arg); // a bool argument
// An integer that the shape rule has found to be a constant.
int64_t th_expand_int(const th_stmt *stmt, uint32_t arg);
// A dimension argument, wrapped.
uint8_t th_expand_dim(const th_stmt *stmt, uint32_t arg, uint8_t rank);

// The type of a result of the composite.
th_type th_expand_type(th_builder *b, const th_stmt *stmt, uint32_t out);
// f32 for f16 and bf16, else the dtype itself.
th_dtype th_expand_compute(th_dtype dtype);
// Nothing when it has the dtype.
th_value *th_expand_to(th_builder *b, th_value *x, th_dtype dtype);
// The same for an operand that may be a number, which stays.
th_arg th_expand_operand(th_builder *b, const th_arg *arg, th_dtype dtype);

// A number that works on elements of this dtype: 2.5 beside integers is 2, as
// in PyTorch's kernels.
th_arg th_expand_scalar(th_builder *b, const th_stmt *stmt, uint32_t arg,
                        th_dtype dtype);

// Stores a result: in the composite's dtype, row-major where it is.
th_status th_expand_out(th_builder *b, const th_stmt *stmt, uint32_t i,
                        th_value *x, th_value **outs);

// A number expression as an argument; the builder fails where it overflowed.
th_arg th_expand_num(th_builder *b, const th_expr *num);
// The product of some sizes as a number.
const th_expr *th_expand_size(th_builder *b, const th_value *x,
                              const uint8_t *dims, uint32_t count);
th_value *th_expand_scale(th_builder *b, th_value *x, th_arg factor);
th_value *th_expand_reshape(th_builder *b, th_value *x,
                            const th_expr *const *dims, uint32_t rank);
th_value *th_expand_sum(th_builder *b, th_value *x, const uint8_t *dims,
                        uint32_t count, bool keep);
th_value *th_expand_mean(th_builder *b, th_value *x, const uint8_t *dims,
                         uint32_t count, bool keep);
// [0, size) as i64 on the device of `like`; `axes` dimensions of size 1 follow.
th_value *th_expand_iota(th_builder *b, const th_value *like,
                         const th_expr *size, uint32_t axes);
// exp(x) / sum(exp(x)) along a dimension; with `safe` a row of -inf gives 0.
th_value *th_expand_softmax(th_builder *b, th_value *x, uint8_t dim, bool safe);

#endif

// Elementary functions as LLVM IR: polynomials that serve the host and NVPTX
// from one source, on scalars and vectors alike, with no library behind them.
//
// Types are f32 and f64; half types are computed in f32 (convert.h).  The
// error is at most 2 ulp for every function of both types, 5 for
// tanh_rational of f32; test/unit/llvm/math_test.c measures it.  Zeros keep
// their sign, infinities and NaN give what IEEE 754 and C annex F say,
// subnormal arguments and results are not flushed.
//
// The code is free of branches, except for sin, cos and tan of large
// arguments and the loops of fmod and remainder, which turn more than once
// only for quotients beyond 2^23 (f32) or 2^52 (f64).  All flags of
// th_emit.float_flags are off inside.
#ifndef TH_LOWERING_MATH_H
#define TH_LOWERING_MATH_H

#include "lowering/emit.h"

// One argument.  round is half to even, sign gives NaN for NaN,
// sigmoid is 1 / (1 + exp(-x)) without loss for negative x,
// tanh_rational is the quick form for gelu.
#define TH_MATH_UNARY_MAP(X)                                                   \
  X(exp)                                                                       \
  X(exp2)                                                                      \
  X(expm1)                                                                     \
  X(log)                                                                       \
  X(log2)                                                                      \
  X(log10)                                                                     \
  X(log1p)                                                                     \
  X(sin)                                                                       \
  X(cos)                                                                       \
  X(tan)                                                                       \
  X(asin)                                                                      \
  X(acos)                                                                      \
  X(atan)                                                                      \
  X(sinh)                                                                      \
  X(cosh)                                                                      \
  X(tanh)                                                                      \
  X(asinh)                                                                     \
  X(acosh)                                                                     \
  X(atanh)                                                                     \
  X(erf)                                                                       \
  X(erfc)                                                                      \
  X(sigmoid)                                                                   \
  X(tanh_rational)                                                             \
  X(sqrt)                                                                      \
  X(rsqrt)                                                                     \
  X(reciprocal)                                                                \
  X(abs)                                                                       \
  X(neg)                                                                       \
  X(sign)                                                                      \
  X(floor)                                                                     \
  X(ceil)                                                                      \
  X(trunc)                                                                     \
  X(round)

// Two arguments of one type.  fmod has the sign of the dividend, remainder that
// of the divisor (as % in Python); fmin and fmax give the other operand when
// one is NaN, minimum and maximum give NaN.
#define TH_MATH_BINARY_MAP(X)                                                  \
  X(pow)                                                                       \
  X(atan2)                                                                     \
  X(fmod)                                                                      \
  X(remainder)                                                                 \
  X(floor_divide)                                                              \
  X(hypot)                                                                     \
  X(fmin)                                                                      \
  X(fmax)                                                                      \
  X(minimum)                                                                   \
  X(maximum)

typedef enum th_math_unary_op {
#define X(name) TH_MATH_##name,
  TH_MATH_UNARY_MAP(X)
#undef X
      TH_MATH_UNARY_COUNT
} th_math_unary_op;

typedef enum th_math_binary_op {
#define X(name) TH_MATH_##name,
  TH_MATH_BINARY_MAP(X)
#undef X
      TH_MATH_BINARY_COUNT
} th_math_binary_op;

LLVMValueRef th_math_unary(th_emit *e, th_math_unary_op op, LLVMValueRef x);
LLVMValueRef th_math_binary(th_emit *e, th_math_binary_op op, LLVMValueRef x,
                            LLVMValueRef y);

// th_math_exp(e, x), th_math_pow(e, x, y), ...
#define X(name)                                                                \
  static inline LLVMValueRef th_math_##name(th_emit *e, LLVMValueRef x) {      \
    return th_math_unary(e, TH_MATH_##name, x);                                \
  }
TH_MATH_UNARY_MAP(X)
#undef X
#define X(name)                                                                \
  static inline LLVMValueRef th_math_##name(th_emit *e, LLVMValueRef x,        \
                                            LLVMValueRef y) {                  \
    return th_math_binary(e, TH_MATH_##name, x, y);                            \
  }
TH_MATH_BINARY_MAP(X)
#undef X

// The function's name, as above; for tests and listings.
const char *th_math_unary_name(th_math_unary_op op);
const char *th_math_binary_name(th_math_binary_op op);

#endif

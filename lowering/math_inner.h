// What the files behind math.h share.  Coefficients stand highest degree first.
#ifndef TH_LOWERING_MATH_INNER_H
#define TH_LOWERING_MATH_INNER_H

#include "lowering/math.h"

#include "base/context.h"

#include <math.h>

typedef LLVMValueRef value;

// c[0] x^(n-1) + ... + c[n-1] by Horner's rule, each step an fma.
value th_math_poly(th_emit *e, value x, const double *c, unsigned n);
// The same value from two chains in x2 = x * x: half the latency.
value th_math_poly2(th_emit *e, value x, value x2, const double *c, unsigned n);

// (hi, lo): an unevaluated sum, |lo| at most half an ulp of hi.
typedef struct math_pair {
  value hi, lo;
} math_pair;

// a + b exactly; the quick form needs |a| >= |b| or a = 0.
math_pair th_math_two_sum(th_emit *e, value a, value b);
math_pair th_math_quick_sum(th_emit *e, value a, value b);
// a * b exactly.
math_pair th_math_two_product(th_emit *e, value a, value b);

// a / b within 0.51 ulp, where 1 / b neither overflows nor vanishes.
value th_math_divide(th_emit *e, math_pair a, math_pair b);

// Scalar code for rare lanes: fills out[0, count) from x.
typedef void (*math_rare_fn)(th_emit *e, value x, value *out, unsigned count);
// Where any lane of `mask` is set, replaces those lanes of io[] by what `fn`
// gives for them.  The vector types of io[] have the lanes of x.
void th_math_rare(th_emit *e, value mask, value x, math_rare_fn fn, value *io,
                  unsigned count);

// x - n pi/2 for arguments too large for multiplication by parts, any sign,
// infinities give NaN: out[0] the remainder, out[1] n mod 4 as an integer of
// the same width, and for f64 out[2] the tail of the remainder.
void th_f32_reduce_large(th_emit *e, value x, value *out, unsigned count);
void th_f64_reduce_large(th_emit *e, value x, value *out, unsigned count);

// x of f32 in f64, and the result back.
value th_math_widen(th_emit *e, value x);
value th_math_narrow(th_emit *e, value x);

value th_f32_tanh_rational(th_emit *e, value x);

// pow from `size`, the power of |x| where x and y are finite and not zero:
// signs, zeros, infinities, NaN.
value th_math_pow_special(th_emit *e, value x, value y, value size);

#define X(name)                                                                \
  value th_f32_##name(th_emit *e, value x);                                    \
  value th_f64_##name(th_emit *e, value x);
X(exp)
X(exp2)
X(expm1)
X(log)
X(log2)
X(log10)
X(log1p)
X(sin)
X(cos)
X(tan)
X(asin)
X(acos)
X(atan)
X(sinh)
X(cosh)
X(tanh)
X(asinh)
X(acosh)
X(atanh)
X(erf)
X(erfc)
#undef X

#define X(name)                                                                \
  value th_f32_##name(th_emit *e, value x, value y);                           \
  value th_f64_##name(th_emit *e, value x, value y);
X(pow)
X(atan2)
X(hypot)
#undef X

#endif

// Parts of the f64 functions that several files use.
#ifndef TH_LOWERING_MATH_F64_H
#define TH_LOWERING_MATH_F64_H

#include "lowering/math_inner.h"

typedef struct f64_rounded {
  value n;     // integral float
  value power; // the same as i64 lanes
} f64_rounded;

// scale * x to the nearest integer, |scale * x| < 2^51.
f64_rounded th_f64_round(th_emit *e, value x, double scale);
value th_f64_clamp(th_emit *e, value x, double low, double high);
// p * 2^n for any n of a float, rounded once when the result is subnormal.
value th_f64_scale(th_emit *e, value p, value n);

// exp(r + tail) for |r| up to ln 2 / 2 and a tail that is an ulp of r.
math_pair th_f64_exp_small(th_emit *e, value r, value tail);
// 2^(r + low), |r| <= 1/2; `low` NULL: none.
math_pair th_f64_exp2_small(th_emit *e, value r, value low);

// exp(x + low) = y * 2^power; `low` NULL: none.
typedef struct f64_exp_parts {
  math_pair y;
  value power;
} f64_exp_parts;
f64_exp_parts th_f64_exp_pair(th_emit *e, value x, value low);

// x = 2^k (1 + f), x > 0.
typedef struct f64_log_parts {
  value k, f;
} f64_log_parts;
f64_log_parts th_f64_log_split(th_emit *e, value x);
// What a logarithm with its pole there gives beside `result`.
value th_f64_log_special(th_emit *e, value x, double pole, value result);

#endif

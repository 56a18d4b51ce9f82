// f32: trigonometric functions, pow, and the functions that
// are rare enough to go through f64.
#include "lowering/math_inner.h"

// From here on n pi/2 by three parts is no longer exact enough.
#define TRIG_LARGE 105615.0
#define TRIG_ROUNDER 0x1.8p23

typedef struct trig_reduced {
  value r;       // in [-pi/4, pi/4]
  value quarter; // i32 lanes, the low two bits count
} trig_reduced;

static trig_reduced trig_reduce(th_emit *e, value x) {
  value rounder = th_emit_float(e, x, TRIG_ROUNDER);
  value sum = th_emit_fma(e, x, th_emit_float(e, x, M_2_PI), rounder);
  value n = th_emit_fsub(e, sum, rounder);
  value r = th_emit_fma(e, n, th_emit_float(e, x, -1.57079637), x);
  r = th_emit_fma(e, n, th_emit_float(e, x, 4.37113883e-08), r);
  r = th_emit_fma(e, n, th_emit_float(e, x, 1.71512451e-15), r);
  value io[] = {r, th_emit_bits(e, sum)};
  value large = th_emit_fcmp(e, LLVMRealOGT, th_emit_fabs(e, x),
                             th_emit_float(e, x, TRIG_LARGE));
  th_math_rare(e, large, x, th_f32_reduce_large, io, TH_COUNT(io));
  return (trig_reduced){io[0], io[1]};
}

// Sine of `quarter` quarters and r: sin, cos, -sin, -cos in turn.
// sin(r) = r + r^3 P(r^2), cos(r) = 1 - r^2/2 + r^4 Q(r^2).
static value trig_sine(th_emit *e, value r, value quarter) {
  static const double p[] = {2.83251006e-06, -0.000198530644, 0.0083333794,
                             -0.166666672};
  static const double q[] = {2.44321018e-05, -0.00138873083, 0.0416666456, -0.5,
                             1.0};
  value r2 = th_emit_fmul(e, r, r);
  value sine = th_math_poly(e, r2, p, TH_COUNT(p));
  sine = th_emit_fma(e, sine, th_emit_fmul(e, r, r2), r);
  value cosine = th_math_poly(e, r2, q, TH_COUNT(q));
  value odd = th_emit_and(e, quarter, th_emit_int(e, quarter, 1));
  odd = th_emit_icmp(e, LLVMIntNE, odd, th_emit_int(e, quarter, 0));
  value y = th_emit_select(e, odd, cosine, sine);
  value sign =
      th_emit_shl(e, th_emit_and(e, quarter, th_emit_int(e, quarter, 2)), 30);
  return th_emit_from_bits(e, th_emit_xor(e, th_emit_bits(e, y), sign),
                           LLVMTypeOf(r));
}

// The reduction turns -0 into 0, hence the last step.
value th_f32_sin(th_emit *e, value x) {
  trig_reduced t = trig_reduce(e, x);
  value is_zero = th_emit_fcmp(e, LLVMRealOEQ, x, th_emit_float(e, x, 0.0));
  return th_emit_select(e, is_zero, x, trig_sine(e, t.r, t.quarter));
}

value th_f32_cos(th_emit *e, value x) {
  trig_reduced t = trig_reduce(e, x);
  value quarter = th_emit_add(e, t.quarter, th_emit_int(e, t.quarter, 1));
  return trig_sine(e, t.r, quarter);
}

// ---- pow ----

// log2 of a positive f64 by the series of atanh: enough for f32 results, and
// half the work of the f64 function.
static value pow_log2(th_emit *e, value x) {
  static const double p[] = {
      2.0 / 13 * M_LOG2E, 2.0 / 11 * M_LOG2E, 2.0 / 9 * M_LOG2E,
      2.0 / 7 * M_LOG2E,  2.0 / 5 * M_LOG2E,  2.0 / 3 * M_LOG2E,
      2.0 * M_LOG2E,
  };
  LLVMTypeRef type = LLVMTypeOf(x);
  value bits = th_emit_bits(e, x);
  value over = th_emit_sub(e, bits, th_emit_int(e, bits, 0x3fe6a09e667f3bcd));
  value exponent = th_emit_ashr(e, over, 52);
  value m = th_emit_from_bits(
      e, th_emit_sub(e, bits, th_emit_shl(e, exponent, 52)), type);
  // Through i32: AVX2 has no conversion from i64.
  value narrow = th_emit_sext(e, exponent, e->i32);
  value k = LLVMBuildSIToFP(e->builder, narrow, type, "");
  value one = th_emit_float(e, x, 1.0);
  value s = th_emit_fdiv(e, th_emit_fsub(e, m, one), th_emit_fadd(e, m, one));
  value y = th_math_poly(e, th_emit_fmul(e, s, s), p, TH_COUNT(p));
  return th_emit_fma(e, y, s, k);
}

// 2^x in f64, by Taylor's series, for x in [-1023, 1023]; 0 at -1023.
static value pow_exp2(th_emit *e, value x) {
  const double l = M_LN2, l2 = l * l, l4 = l2 * l2;
  const double p[] = {l4 * l4 / 40320,
                      l4 * l2 * l / 5040,
                      l4 * l2 / 720,
                      l4 * l / 120,
                      l4 / 24,
                      l2 * l / 6,
                      l2 / 2,
                      l,
                      1.0};
  value rounder = th_emit_float(e, x, 0x1.8p52);
  value sum = th_emit_fadd(e, x, rounder);
  value r = th_emit_fsub(e, x, th_emit_fsub(e, sum, rounder));
  value y = th_math_poly(e, r, p, TH_COUNT(p));
  value biased = th_emit_add(e, th_emit_bits(e, sum),
                             th_emit_int(e, th_emit_bits(e, sum), 1023));
  value scale = th_emit_from_bits(e, th_emit_shl(e, biased, 52), LLVMTypeOf(x));
  return th_emit_fmul(e, y, scale);
}

value th_math_pow_special(th_emit *e, value x, value y, value size) {
  value zero = th_emit_float(e, x, 0.0), one = th_emit_float(e, x, 1.0);
  value infinity = th_emit_float(e, x, INFINITY),
        nan = th_emit_float(e, x, NAN);
  value ax = th_emit_fabs(e, x), ay = th_emit_fabs(e, y);
  value whole = th_emit_fcmp(e, LLVMRealOEQ, th_emit_trunc(e, y), y);
  value half = th_emit_fmul(e, y, th_emit_float(e, y, 0.5));
  value odd = th_emit_fcmp(e, LLVMRealUNE, th_emit_trunc(e, half), half);
  odd = th_emit_and(e, odd, whole);
  // 0, infinity and 1 to an infinite or any power.
  value shrinks = th_emit_xor(e, th_emit_fcmp(e, LLVMRealOLT, ax, one),
                              th_emit_fcmp(e, LLVMRealOLT, y, zero));
  value extreme = th_emit_select(e, shrinks, zero, infinity);
  value ends = th_emit_or(e, th_emit_fcmp(e, LLVMRealOEQ, ax, zero),
                          th_emit_fcmp(e, LLVMRealOEQ, ax, infinity));
  ends = th_emit_or(e, ends, th_emit_fcmp(e, LLVMRealOEQ, ay, infinity));
  size = th_emit_select(e, ends, extreme, size);
  value unit = th_emit_fcmp(e, LLVMRealOEQ, ax, one);
  size = th_emit_select(e, unit, one, size);
  // Negative bases.
  value bits = th_emit_bits(e, x);
  value minus = th_emit_icmp(e, LLVMIntSLT, bits, th_emit_int(e, bits, 0));
  value negated = th_emit_select(e, th_emit_and(e, minus, odd),
                                 th_emit_fneg(e, size), size);
  value inside = th_emit_and(e, th_emit_fcmp(e, LLVMRealOLT, x, zero),
                             th_emit_fcmp(e, LLVMRealOLT, ax, infinity));
  value undefined = th_emit_and(e, inside, th_emit_not(e, whole));
  value result = th_emit_select(e, undefined, nan, negated);
  value ordered = th_emit_fcmp(e, LLVMRealORD, x, y);
  result = th_emit_select(e, ordered, result, th_emit_fadd(e, x, y));
  value always = th_emit_or(e, th_emit_fcmp(e, LLVMRealOEQ, x, one),
                            th_emit_fcmp(e, LLVMRealOEQ, y, zero));
  return th_emit_select(e, always, one, result);
}

value th_f32_pow(th_emit *e, value x, value y) {
  value log2 = pow_log2(e, th_math_widen(e, th_emit_fabs(e, x)));
  value power = th_emit_fmul(e, log2, th_math_widen(e, y));
  power = th_emit_fmax(e, power, th_emit_float(e, power, -1023.0));
  power = th_emit_fmin(e, power, th_emit_float(e, power, 130.0));
  value size = th_math_narrow(e, pow_exp2(e, power));
  return th_math_pow_special(e, x, y, size);
}

// ---- through f64 ----

#define THROUGH_F64(name)                                                      \
  value th_f32_##name(th_emit *e, value x) {                                   \
    return th_math_narrow(e, th_f64_##name(e, th_math_widen(e, x)));           \
  }
THROUGH_F64(tan)
THROUGH_F64(asinh)
THROUGH_F64(acosh)
THROUGH_F64(atanh)
THROUGH_F64(erfc)

// The squares are exact in f64 and cannot overflow.
value th_f32_hypot(th_emit *e, value x, value y) {
  value a = th_math_widen(e, x), b = th_math_widen(e, y);
  value sum = th_emit_fma(e, a, a, th_emit_fmul(e, b, b));
  value size = th_math_narrow(e, th_emit_sqrt(e, sum));
  value infinity = th_emit_float(e, x, INFINITY);
  value far =
      th_emit_or(e, th_emit_fcmp(e, LLVMRealOEQ, th_emit_fabs(e, x), infinity),
                 th_emit_fcmp(e, LLVMRealOEQ, th_emit_fabs(e, y), infinity));
  return th_emit_select(e, far, infinity, size);
}

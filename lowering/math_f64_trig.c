// f64: trigonometric functions, hypot.
#include "lowering/math_f64.h"

#define PI_2_HIGH 1.5707963267948966
#define PI_2_MIDDLE 6.123233995736766e-17
#define PI_2_LOW -1.4973849048591698e-33
// Up to here three parts of pi/2 leave a remainder that is exact to the last
// bit of a pair: no double below 2^30 is nearer than 2^-62 to a multiple.
#define TRIG_LARGE 0x1p30
#define TRIG_ROUNDER 0x1.8p52

typedef struct trig_reduced {
  math_pair r;   // in [-pi/4, pi/4]
  value quarter; // i64 lanes, the low two bits count
} trig_reduced;

static trig_reduced trig_reduce(th_emit *e, value x) {
  value rounder = th_emit_float(e, x, TRIG_ROUNDER);
  value sum = th_emit_fma(e, x, th_emit_float(e, x, M_2_PI), rounder);
  value n = th_emit_fsub(e, sum, rounder);
  // The first step is exact, as is the product of the second.
  value first = th_emit_fma(e, n, th_emit_float(e, x, -PI_2_HIGH), x);
  math_pair middle =
      th_math_two_product(e, n, th_emit_float(e, x, -PI_2_MIDDLE));
  math_pair r = th_math_two_sum(e, first, middle.hi);
  value low = th_emit_fadd(e, r.lo, middle.lo);
  low = th_emit_fma(e, n, th_emit_float(e, x, -PI_2_LOW), low);
  r = th_math_quick_sum(e, r.hi, low);
  value io[] = {r.hi, th_emit_bits(e, sum), r.lo};
  value large = th_emit_fcmp(e, LLVMRealOGT, th_emit_fabs(e, x),
                             th_emit_float(e, x, TRIG_LARGE));
  th_math_rare(e, large, x, th_f64_reduce_large, io, TH_COUNT(io));
  return (trig_reduced){{io[0], io[2]}, io[1]};
}

// sin(r) = r + r^3 P(r^2), 2^-57; the low part enters times cos(r).
static math_pair trig_kernel_sine(th_emit *e, math_pair r, value z) {
  static const double p[] = {
      -7.5784034289802762e-13, 1.6058360443308689e-10,  -2.5052104860803091e-08,
      2.7557319213985267e-06,  -0.00019841269841254649, 0.0083333333333333228,
      -0.16666666666666666,
  };
  value half = th_emit_fmul(e, z, th_emit_float(e, z, -0.5));
  value low = th_emit_fma(e, half, r.lo, r.lo);
  value y = th_math_poly2(e, z, th_emit_fmul(e, z, z), p, TH_COUNT(p));
  y = th_emit_fma(e, y, th_emit_fmul(e, z, r.hi), low);
  return th_math_quick_sum(e, r.hi, y);
}

// cos(r) = 1 - r^2/2 + r^4 Q(r^2); 1 - r^2/2 as a pair.
static math_pair trig_kernel_cosine(th_emit *e, math_pair r, value z) {
  static const double q[] = {
      4.7376668883836782e-14,  -1.1470282984951023e-11, 2.0876754270703332e-09,
      -2.7557319214926977e-07, 2.4801587301570381e-05,  -0.0013888888888888872,
      0.041666666666666664,
  };
  value half = th_emit_fmul(e, z, th_emit_float(e, z, -0.5));
  math_pair top = th_math_quick_sum(e, th_emit_float(e, z, 1.0), half);
  value z2 = th_emit_fmul(e, z, z);
  value y = th_math_poly2(e, z, z2, q, TH_COUNT(q));
  value low = th_emit_fma(e, th_emit_fneg(e, r.hi), r.lo, top.lo);
  return th_math_quick_sum(e, top.hi, th_emit_fma(e, z2, y, low));
}

static value trig_bit(th_emit *e, value quarter, int64_t bit) {
  value masked = th_emit_and(e, quarter, th_emit_int(e, quarter, bit));
  return th_emit_icmp(e, LLVMIntNE, masked, th_emit_int(e, quarter, 0));
}

// Sine of `quarter` quarters and r: sin, cos, -sin, -cos in turn.
static value trig_sine(th_emit *e, math_pair r, value quarter) {
  value z = th_emit_fmul(e, r.hi, r.hi);
  value sine = trig_kernel_sine(e, r, z).hi;
  value cosine = trig_kernel_cosine(e, r, z).hi;
  value y = th_emit_select(e, trig_bit(e, quarter, 1), cosine, sine);
  value sign = th_emit_and(e, quarter, th_emit_int(e, quarter, 2));
  sign = th_emit_shl(e, sign, 62);
  value bits = th_emit_xor(e, th_emit_bits(e, y), sign);
  return th_emit_from_bits(e, bits, LLVMTypeOf(z));
}

// The reduction turns -0 into 0, hence the last step of these two.
value th_f64_sin(th_emit *e, value x) {
  trig_reduced t = trig_reduce(e, x);
  value zero = th_emit_fcmp(e, LLVMRealOEQ, x, th_emit_float(e, x, 0.0));
  return th_emit_select(e, zero, x, trig_sine(e, t.r, t.quarter));
}

static math_pair trig_select(th_emit *e, value condition, math_pair yes,
                             math_pair no) {
  return (math_pair){th_emit_select(e, condition, yes.hi, no.hi),
                     th_emit_select(e, condition, yes.lo, no.lo)};
}

value th_f64_tan(th_emit *e, value x) {
  trig_reduced t = trig_reduce(e, x);
  value z = th_emit_fmul(e, t.r.hi, t.r.hi);
  math_pair sine = trig_kernel_sine(e, t.r, z);
  math_pair cosine = trig_kernel_cosine(e, t.r, z);
  math_pair minus = {th_emit_fneg(e, cosine.hi), th_emit_fneg(e, cosine.lo)};
  value odd = trig_bit(e, t.quarter, 1);
  math_pair top = trig_select(e, odd, minus, sine);
  math_pair bottom = trig_select(e, odd, sine, cosine);
  value zero = th_emit_fcmp(e, LLVMRealOEQ, x, th_emit_float(e, x, 0.0));
  return th_emit_select(e, zero, x, th_math_divide(e, top, bottom));
}

value th_f64_cos(th_emit *e, value x) {
  trig_reduced t = trig_reduce(e, x);
  value quarter = th_emit_add(e, t.quarter, th_emit_int(e, t.quarter, 1));
  return trig_sine(e, t.r, quarter);
}

// Moved away from the ends of the range by a power of two, so that the squares
// neither overflow nor vanish.
value th_f64_hypot(th_emit *e, value x, value y) {
  value ax = th_emit_fabs(e, x), ay = th_emit_fabs(e, y);
  value one = th_emit_float(e, x, 1.0),
        infinity = th_emit_float(e, x, INFINITY);
  value large = th_emit_fmax(e, ax, ay);
  value above =
      th_emit_fcmp(e, LLVMRealOGT, large, th_emit_float(e, x, 0x1p500));
  value below =
      th_emit_fcmp(e, LLVMRealOLT, large, th_emit_float(e, x, 0x1p-450));
  value down = th_emit_select(e, above, th_emit_float(e, x, 0x1p-600), one);
  down = th_emit_select(e, below, th_emit_float(e, x, 0x1p600), down);
  value up = th_emit_select(e, above, th_emit_float(e, x, 0x1p600), one);
  up = th_emit_select(e, below, th_emit_float(e, x, 0x1p-600), up);
  value a = th_emit_fmul(e, ax, down), b = th_emit_fmul(e, ay, down);
  value sum = th_emit_fma(e, a, a, th_emit_fmul(e, b, b));
  value size = th_emit_fmul(e, th_emit_sqrt(e, sum), up);
  value far = th_emit_or(e, th_emit_fcmp(e, LLVMRealOEQ, ax, infinity),
                         th_emit_fcmp(e, LLVMRealOEQ, ay, infinity));
  return th_emit_select(e, far, infinity, size);
}

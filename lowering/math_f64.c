// f64: exponentials, logarithms and the hyperbolic functions.  Sums whose
// rounding would count are kept as pairs, so most results are within 0.6 ulp
// and what is built on them stays within 2.
#include "lowering/math_f64.h"

#define LN2_HIGH 0.6931471805599453
#define LN2_LOW 2.3190468138462996e-17
#define F64_ROUNDER 0x1.8p52

// exp(r) = 1 + r + r^2 P(r) on |r| <= ln 2 / 2, 2^-58.
static value f64_exp_poly(th_emit *e, value r) {
  static const double p[] = {
      2.5000042771495888e-08, 2.7630306427652947e-07, 2.7557586729645278e-06,
      2.480149294911596e-05,  0.00019841269505853961, 0.0013888888943760511,
      0.0083333333334949435,  0.041666666666529725,   0.1666666666666641,
      0.50000000000000111,
  };
  return th_math_poly2(e, r, th_emit_fmul(e, r, r), p, TH_COUNT(p));
}

f64_rounded th_f64_round(th_emit *e, value x, double scale) {
  value rounder = th_emit_float(e, x, F64_ROUNDER);
  value sum = th_emit_fma(e, x, th_emit_float(e, x, scale), rounder);
  value bits = th_emit_bits(e, sum);
  value zero = th_emit_int(e, bits, 0x4338000000000000);
  return (f64_rounded){th_emit_fsub(e, sum, rounder),
                       th_emit_sub(e, bits, zero)};
}

value th_f64_clamp(th_emit *e, value x, double low, double high) {
  value least = th_emit_fmax(e, x, th_emit_float(e, x, low));
  return th_emit_fmin(e, least, th_emit_float(e, x, high));
}

static value f64_power_of_two(th_emit *e, value n, LLVMTypeRef type) {
  value biased = th_emit_add(e, n, th_emit_int(e, n, 1023));
  return th_emit_from_bits(e, th_emit_shl(e, biased, 52), type);
}

// As f32_scale: -2046 gives 0 without an underflow.  Halved with a logical
// shift: AVX2 has no arithmetic one of 64 bits.
value th_f64_scale(th_emit *e, value p, value n) {
  LLVMTypeRef type = LLVMTypeOf(p);
  value raised = th_emit_add(e, n, th_emit_int(e, n, 4096));
  value half = th_emit_lshr(e, raised, 1);
  half = th_emit_sub(e, half, th_emit_int(e, n, 2048));
  value rest = th_emit_sub(e, n, half);
  p = th_emit_fmul(e, p, f64_power_of_two(e, half, type));
  return th_emit_fmul(e, p, f64_power_of_two(e, rest, type));
}

math_pair th_f64_exp_small(th_emit *e, value r, value tail) {
  math_pair y = th_math_quick_sum(e, th_emit_float(e, r, 1.0), r);
  value rest = th_emit_fma(e, th_emit_fmul(e, r, r), f64_exp_poly(e, r), tail);
  return th_math_quick_sum(e, y.hi, th_emit_fadd(e, y.lo, rest));
}

// x - n ln 2.  The first step is exact, the rounding of the second one is the
// low part.
static math_pair f64_exp_remainder(th_emit *e, value x, value n) {
  value low = th_emit_float(e, x, -LN2_LOW);
  value first = th_emit_fma(e, n, th_emit_float(e, x, -LN2_HIGH), x);
  value r = th_emit_fma(e, n, low, first);
  value tail = th_emit_fma(e, n, low, th_emit_fsub(e, first, r));
  return (math_pair){r, tail};
}

f64_exp_parts th_f64_exp_pair(th_emit *e, value x, value low) {
  f64_rounded n = th_f64_round(e, x, M_LOG2E);
  math_pair r = f64_exp_remainder(e, x, n.n);
  if (low) {
    r = th_math_two_sum(e, r.hi, th_emit_fadd(e, r.lo, low));
  }
  return (f64_exp_parts){th_f64_exp_small(e, r.hi, r.lo), n.power};
}

// exp(x) * 2^shift, which overflows only where it must.
static value f64_exp_shifted(th_emit *e, value x, int shift) {
  f64_exp_parts y =
      th_f64_exp_pair(e, th_f64_clamp(e, x, -1418.0, 711.0), NULL);
  value power = y.power;
  if (shift != 0) {
    power = th_emit_add(e, power, th_emit_int(e, power, shift));
  }
  value scaled = th_f64_scale(e, y.y.hi, power);
  return th_emit_select(e, th_emit_is_nan(e, x), x, scaled);
}

value th_f64_exp(th_emit *e, value x) { return f64_exp_shifted(e, x, 0); }

value th_f64_exp2(th_emit *e, value x) {
  value clamped = th_f64_clamp(e, x, -2046.0, 1025.0);
  f64_rounded n = th_f64_round(e, clamped, 1.0);
  value r = th_emit_fsub(e, clamped, n.n);
  math_pair y = th_f64_exp2_small(e, r, NULL);
  value scaled = th_f64_scale(e, y.hi, n.power);
  return th_emit_select(e, th_emit_is_nan(e, x), x, scaled);
}

math_pair th_f64_exp2_small(th_emit *e, value r, value low) {
  math_pair s = th_math_two_product(e, r, th_emit_float(e, r, LN2_HIGH));
  value tail = th_emit_fma(e, r, th_emit_float(e, r, LN2_LOW), s.lo);
  if (low) {
    tail = th_emit_fma(e, low, th_emit_float(e, r, LN2_HIGH), tail);
    s = th_math_two_sum(e, s.hi, tail);
    tail = s.lo;
  }
  return th_f64_exp_small(e, s.hi, tail);
}

// 2^n (1 + q) - 1 with q = exp(r) - 1 as a pair, halved inside as 2^1024 is
// not a float.
value th_f64_expm1(th_emit *e, value x) {
  value clamped = th_f64_clamp(e, x, -60.0, 710.0);
  f64_rounded n = th_f64_round(e, clamped, M_LOG2E);
  math_pair r = f64_exp_remainder(e, clamped, n.n);
  value r2 = th_emit_fmul(e, r.hi, r.hi);
  value rest = th_emit_fma(e, r2, f64_exp_poly(e, r.hi), r.lo);
  math_pair q = th_math_quick_sum(e, r.hi, rest);
  value power = th_emit_sub(e, n.power, th_emit_int(e, n.power, 1));
  value scale = f64_power_of_two(e, power, LLVMTypeOf(x));
  value less = th_emit_fsub(e, scale, th_emit_float(e, x, 0.5));
  math_pair sum = th_math_two_sum(e, less, th_emit_fmul(e, q.hi, scale));
  value y = th_emit_fadd(e, sum.hi, th_emit_fma(e, q.lo, scale, sum.lo));
  y = th_emit_copysign(e, th_emit_fadd(e, y, y), x);
  return th_emit_select(e, th_emit_is_nan(e, x), x, y);
}

// ---- logarithms: x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)) ----

static value f64_log_exponent(th_emit *e, value bits) {
  value over = th_emit_sub(e, bits, th_emit_int(e, bits, 0x3fe6a09e667f3bcd));
  return th_emit_and(e, over,
                     th_emit_int(e, bits, (int64_t)0xfff0000000000000));
}

// The exponent as a float; through i32, AVX2 has no conversion from i64.
static value f64_log_k(th_emit *e, value exponent) {
  value high = th_emit_sext(e, th_emit_lshr(e, exponent, 32), e->i32);
  value k = th_emit_ashr(e, high, 20);
  LLVMTypeRef type = th_emit_type_like(LLVMTypeOf(exponent), e->f64);
  return LLVMBuildSIToFP(e->builder, k, type, "");
}

f64_log_parts th_f64_log_split(th_emit *e, value x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  value small = th_emit_fcmp(e, LLVMRealOLT, x, th_emit_float(e, x, 0x1p-1022));
  value up = th_emit_fmul(e, x, th_emit_float(e, x, 0x1p54));
  value base = th_emit_select(e, small, th_emit_float(e, x, -54.0),
                              th_emit_float(e, x, 0.0));
  value bits = th_emit_bits(e, th_emit_select(e, small, up, x));
  value exponent = f64_log_exponent(e, bits);
  value m = th_emit_from_bits(e, th_emit_sub(e, bits, exponent), type);
  return (f64_log_parts){
      .k = th_emit_fadd(e, f64_log_k(e, exponent), base),
      .f = th_emit_fsub(e, m, th_emit_float(e, x, 1.0)),
  };
}

// log(1 + f) = f - f^2/2 + s (f^2/2 + R) with s = f / (2 + f) and
// R = s^2 P(s^2), from 2 atanh(s) = 2s + s^3 P(s^2), 2^-58.
static value f64_log_correction(th_emit *e, value f, value half_square) {
  static const double p[] = {
      0.14799599700099039, 0.15313708706382181, 0.18183576747997157,
      0.22222198353204031, 0.28571428744334676, 0.39999999999406871,
      0.66666666666667351,
  };
  value s = th_emit_fdiv(e, f, th_emit_fadd(e, f, th_emit_float(e, f, 2.0)));
  value z = th_emit_fmul(e, s, s);
  value y = th_math_poly2(e, z, th_emit_fmul(e, z, z), p, TH_COUNT(p));
  return th_emit_fmul(e, s, th_emit_fma(e, z, y, half_square));
}

static value f64_log_natural(th_emit *e, f64_log_parts p) {
  value f2 = th_emit_fmul(e, p.f, p.f);
  value half = th_emit_fmul(e, f2, th_emit_float(e, f2, 0.5));
  value y = f64_log_correction(e, p.f, half);
  y = th_emit_fma(e, p.k, th_emit_float(e, y, LN2_LOW), y);
  // k ln 2 + f as a pair: both can be far larger than what they leave.
  value big = th_emit_fmul(e, p.k, th_emit_float(e, y, LN2_HIGH));
  value big_low =
      th_emit_fma(e, p.k, th_emit_float(e, y, LN2_HIGH), th_emit_fneg(e, big));
  math_pair sum = th_math_two_sum(e, big, p.f);
  y = th_emit_fsub(e, y, half);
  y = th_emit_fadd(e, y, th_emit_fadd(e, big_low, sum.lo));
  return th_emit_fadd(e, sum.hi, y);
}

// log(1 + f) as a pair.
static math_pair f64_log_pair(th_emit *e, value f) {
  value half_f = th_emit_fmul(e, f, th_emit_float(e, f, 0.5));
  math_pair half = th_math_two_product(e, half_f, f);
  math_pair y = th_math_quick_sum(e, f, th_emit_fneg(e, half.hi));
  value rest = f64_log_correction(e, f, half.hi);
  rest = th_emit_fadd(e, th_emit_fsub(e, y.lo, half.lo), rest);
  return th_math_quick_sum(e, y.hi, rest);
}

value th_f64_log_special(th_emit *e, value x, double pole, value result) {
  value at = th_emit_float(e, x, pole),
        infinity = th_emit_float(e, x, INFINITY);
  value finite = th_emit_fcmp(e, LLVMRealOLT, x, infinity);
  result = th_emit_select(e, finite, result, th_emit_fadd(e, x, x));
  value less = th_emit_fcmp(e, LLVMRealOLT, x, at);
  result = th_emit_select(e, less, th_emit_float(e, x, NAN), result);
  value equal = th_emit_fcmp(e, LLVMRealOEQ, x, at);
  return th_emit_select(e, equal, th_emit_float(e, x, -INFINITY), result);
}

value th_f64_log(th_emit *e, value x) {
  value y = f64_log_natural(e, th_f64_log_split(e, x));
  return th_f64_log_special(e, x, 0.0, y);
}

// k * unit + log(1 + f) * scale, each constant in two parts.
static value f64_log_base(th_emit *e, value x, const double unit[2],
                          const double scale[2]) {
  f64_log_parts p = th_f64_log_split(e, x);
  math_pair l = f64_log_pair(e, p.f);
  value high = th_emit_float(e, x, scale[0]);
  math_pair y = th_math_two_product(e, l.hi, high);
  value low = th_emit_fma(e, l.hi, th_emit_float(e, x, scale[1]), y.lo);
  low = th_emit_fma(e, l.lo, high, low);
  low = th_emit_fma(e, p.k, th_emit_float(e, x, unit[1]), low);
  math_pair whole = th_math_two_product(e, p.k, th_emit_float(e, x, unit[0]));
  math_pair sum = th_math_two_sum(e, whole.hi, y.hi);
  low = th_emit_fadd(e, low, th_emit_fadd(e, whole.lo, sum.lo));
  return th_f64_log_special(e, x, 0.0, th_emit_fadd(e, sum.hi, low));
}

value th_f64_log2(th_emit *e, value x) {
  static const double unit[] = {1.0, 0.0};
  static const double scale[] = {1.4426950408889634, 2.0355273740931033e-17};
  return f64_log_base(e, x, unit, scale);
}

value th_f64_log10(th_emit *e, value x) {
  static const double unit[] = {0.3010299956639812, -2.8037281277851704e-18};
  static const double scale[] = {0.4342944819032518, 1.098319650216765e-17};
  return f64_log_base(e, x, unit, scale);
}

// The parts of 1 + x, f made from x itself by one fma, which loses nothing;
// from 2^54 on the 1 does not matter and 2^-k may underflow.
static f64_log_parts f64_log1p_split(th_emit *e, value x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  value one = th_emit_float(e, x, 1.0);
  value bits = th_emit_bits(e, th_emit_fadd(e, x, one));
  value exponent = f64_log_exponent(e, bits);
  value inverse = th_emit_int(e, bits, 0x3ff0000000000000);
  value scale = th_emit_from_bits(e, th_emit_sub(e, inverse, exponent), type);
  value exact = th_emit_fma(e, x, scale, th_emit_fsub(e, scale, one));
  value m = th_emit_from_bits(e, th_emit_sub(e, bits, exponent), type);
  value large = th_emit_fcmp(e, LLVMRealOGT, x, th_emit_float(e, x, 0x1p54));
  value f = th_emit_select(e, large, th_emit_fsub(e, m, one), exact);
  return (f64_log_parts){.k = f64_log_k(e, exponent), .f = f};
}

value th_f64_log1p(th_emit *e, value x) {
  value y = f64_log_natural(e, f64_log1p_split(e, x));
  return th_f64_log_special(e, x, -1.0, th_emit_copysign(e, y, x));
}

// ---- hyperbolic functions ----

// Small: Taylor's series up to 1; large: exp(x)/2 - exp(-x)/2.
value th_f64_sinh(th_emit *e, value x) {
  static const double p[] = {
      1.0 / 121645100408832000,
      1.0 / 355687428096000,
      1.0 / 1307674368000,
      1.0 / 6227020800,
      1.0 / 39916800,
      1.0 / 362880,
      1.0 / 5040,
      1.0 / 120,
      1.0 / 6,
  };
  value t = th_emit_fabs(e, x);
  value half = f64_exp_shifted(e, t, -1);
  value rest = th_emit_fdiv(e, th_emit_float(e, x, 0.25), half);
  value large = th_emit_fsub(e, half, rest);
  value t2 = th_emit_fmul(e, t, t);
  value small = th_math_poly(e, t2, p, TH_COUNT(p));
  small = th_emit_fma(e, small, th_emit_fmul(e, t2, t), t);
  value is_small = th_emit_fcmp(e, LLVMRealOLT, t, th_emit_float(e, x, 1.0));
  value y = th_emit_select(e, is_small, small, large);
  return th_emit_copysign(e, y, x);
}

value th_f64_cosh(th_emit *e, value x) {
  value half = f64_exp_shifted(e, th_emit_fabs(e, x), -1);
  value rest = th_emit_fdiv(e, th_emit_float(e, x, 0.25), half);
  return th_emit_fadd(e, half, rest);
}

// With u = exp(2|x|) - 1: u / (u + 2), or from 0.55 on 1 - 2 / (u + 2), which
// is 1 long before 22.
value th_f64_tanh(th_emit *e, value x) {
  value size = th_emit_fabs(e, x);
  value t = th_emit_fmin(e, size, th_emit_float(e, x, 22.0));
  value two = th_emit_float(e, x, 2.0), one = th_emit_float(e, x, 1.0);
  value u = th_f64_expm1(e, th_emit_fadd(e, t, t));
  value large = th_emit_fcmp(e, LLVMRealOGT, t, th_emit_float(e, x, 0.55));
  value top = th_emit_select(e, large, two, u);
  math_pair bottom = th_math_two_sum(e, u, two);
  value zero = th_emit_float(e, x, 0.0);
  value ratio = th_math_divide(e, (math_pair){top, zero}, bottom);
  value y = th_emit_select(e, large, th_emit_fsub(e, one, ratio), ratio);
  y = th_emit_copysign(e, y, x);
  return th_emit_select(e, th_emit_is_nan(e, x), x, y);
}

// log(2x) from log1p(x), where x is so large that log1p(x) is log(x).
static value f64_log1p_doubled(th_emit *e, value x, value doubled) {
  f64_log_parts p = f64_log1p_split(e, x);
  value one = th_emit_float(e, x, 1.0), zero = th_emit_float(e, x, 0.0);
  p.k = th_emit_fadd(e, p.k, th_emit_select(e, doubled, one, zero));
  return th_f64_log_special(e, x, -1.0, f64_log_natural(e, p));
}

// log(t + sqrt(t^2 + 1)) = log1p(t + t^2 / (1 + sqrt(t^2 + 1))).
value th_f64_asinh(th_emit *e, value x) {
  value t = th_emit_fabs(e, x), one = th_emit_float(e, x, 1.0);
  value huge = th_emit_fcmp(e, LLVMRealOGT, t, th_emit_float(e, x, 0x1p60));
  value root = th_emit_sqrt(e, th_emit_fma(e, t, t, one));
  value part = th_emit_fdiv(e, t, th_emit_fadd(e, root, one));
  value u = th_emit_fma(e, t, part, t);
  u = th_emit_select(e, huge, t, u);
  return th_emit_copysign(e, f64_log1p_doubled(e, u, huge), x);
}

// With t = x - 1: log1p(t + sqrt(t^2 + 2t)); NaN below 1 from the root.
value th_f64_acosh(th_emit *e, value x) {
  value t = th_emit_fsub(e, x, th_emit_float(e, x, 1.0));
  value huge = th_emit_fcmp(e, LLVMRealOGT, t, th_emit_float(e, x, 0x1p60));
  value root = th_emit_sqrt(e, th_emit_fma(e, t, t, th_emit_fadd(e, t, t)));
  value u = th_emit_select(e, huge, x, th_emit_fadd(e, t, root));
  value y = f64_log1p_doubled(e, u, huge);
  value inside = th_emit_fcmp(e, LLVMRealOGE, t, th_emit_float(e, x, 0.0));
  return th_emit_select(e, inside, y, th_emit_float(e, x, NAN));
}

value th_f64_atanh(th_emit *e, value x) {
  value t = th_emit_fabs(e, x), one = th_emit_float(e, x, 1.0);
  value u = th_emit_fdiv(e, th_emit_fadd(e, t, t), th_emit_fsub(e, one, t));
  value y = th_emit_fmul(e, th_f64_log1p(e, u), th_emit_float(e, x, 0.5));
  return th_emit_copysign(e, y, x);
}

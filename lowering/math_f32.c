// f32: exponentials, logarithms, the hyperbolic functions, erf and pow.
// Coefficients are weighted minimax fits, rounded to f32 one by one with a
// refit of the rest; errors in the comments are relative to the function.
#include "lowering/math_inner.h"

// Adding it rounds a small float to an integer, whose bits are then the low
// ones of the sum: cheaper than rint and a conversion, and never poison.
#define F32_ROUNDER 0x1.8p23

typedef struct f32_rounded {
  value n;    // integral float
  value bits; // of n + F32_ROUNDER: n in the low 22 bits
} f32_rounded;

static f32_rounded f32_round(th_emit *e, value x, double scale) {
  value sum = th_emit_fma(e, x, th_emit_float(e, x, scale),
                          th_emit_float(e, x, F32_ROUNDER));
  value n = th_emit_fsub(e, sum, th_emit_float(e, x, F32_ROUNDER));
  return (f32_rounded){n, th_emit_bits(e, sum)};
}

// NaN passes through.
static value f32_at_most(th_emit *e, value x, double high) {
  value limit = th_emit_float(e, x, high);
  return th_emit_select(e, th_emit_fcmp(e, LLVMRealOGT, x, limit), limit, x);
}

static value f32_clamp(th_emit *e, value x, double low, double high) {
  value limit = th_emit_float(e, x, low);
  x = th_emit_select(e, th_emit_fcmp(e, LLVMRealOLT, x, limit), limit, x);
  return f32_at_most(e, x, high);
}

// 2^n as a float for a normal result: n are the low bits of an integer.
static value f32_power_of_two(th_emit *e, value n, LLVMTypeRef type) {
  value biased = th_emit_add(e, n, th_emit_int(e, n, 127));
  return th_emit_from_bits(e, th_emit_shl(e, biased, 23), type);
}

// p * 2^n in two steps, so that subnormal results are rounded once and n = 128
// does not overflow before it must.  n = -254 makes both factors 0: where the
// argument is far below the range (softmax under a mask) the result is 0
// without an underflow, which costs some CPUs a hundred cycles.
static value f32_scale(th_emit *e, value p, value n) {
  LLVMTypeRef type = LLVMTypeOf(p);
  value half = th_emit_ashr(e, n, 1);
  value rest = th_emit_sub(e, n, half);
  p = th_emit_fmul(e, p, f32_power_of_two(e, half, type));
  return th_emit_fmul(e, p, f32_power_of_two(e, rest, type));
}

// The integer behind f32_round, sign extended.
static value f32_int(th_emit *e, f32_rounded r) {
  value zero = th_emit_int(e, r.bits, 0x4b400000);
  return th_emit_sub(e, r.bits, zero);
}

// x - n ln 2 by parts, and P with exp(r) = 1 + r + r^2 P(r).
static value f32_exp_remainder(th_emit *e, value x, value n) {
  value r = th_emit_fma(e, n, th_emit_float(e, x, -0.693147182), x);
  return th_emit_fma(e, n, th_emit_float(e, x, 1.90465421e-9), r);
}

static const double f32_exp_p[] = {0.00138152402, 0.00836878736, 0.041668389,
                                   0.166665196, 0.49999994};

// exp(r) near 0.
static value f32_exp_near(th_emit *e, value r) {
  value p = th_math_poly(e, r, f32_exp_p, TH_COUNT(f32_exp_p));
  value one = th_emit_float(e, r, 1.0);
  return th_emit_fma(e, th_emit_fma(e, p, r, one), r, one);
}

// With an instruction for p * 2^n.  Far below the range nothing is scaled, so
// that nothing underflows.
static value f32_exp_scaled(th_emit *e, value x, int shift) {
  value above = th_emit_fcmp(e, LLVMRealUGT, x, th_emit_float(e, x, -104.0));
  value limited = f32_at_most(e, x, 89.5);
  value n = f32_round(e, limited, M_LOG2E).n;
  value p = f32_exp_near(e, f32_exp_remainder(e, limited, n));
  if (shift != 0) {
    n = th_emit_fadd(e, n, th_emit_float(e, n, shift));
  }
  return th_emit_scale(e, p, n, above);
}

// exp(x) * 2^shift without overflow before the product overflows.
static value f32_exp_shifted(th_emit *e, value x, int shift) {
  if (th_emit_has_scale(e, LLVMTypeOf(x))) {
    return f32_exp_scaled(e, x, shift);
  }
  value clamped = f32_clamp(e, x, -176.0, 89.5);
  f32_rounded n = f32_round(e, clamped, M_LOG2E);
  value p = f32_exp_near(e, f32_exp_remainder(e, clamped, n.n));
  value power = f32_int(e, n);
  if (shift != 0) {
    power = th_emit_add(e, power, th_emit_int(e, power, shift));
  }
  return f32_scale(e, p, power);
}

value th_f32_exp(th_emit *e, value x) { return f32_exp_shifted(e, x, 0); }

// 2^r = 1 + r P(r) on [-1/2, 1/2], 2^-27.
value th_f32_exp2(th_emit *e, value x) {
  static const double p[] = {0.000152682143, 0.00133840437, 0.00961849187,
                             0.0555037782,   0.240226507,   0.693147182};
  value clamped = f32_clamp(e, x, -254.0, 129.0);
  f32_rounded n = f32_round(e, clamped, 1.0);
  value r = th_emit_fsub(e, clamped, n.n);
  value one = th_emit_float(e, x, 1.0);
  value y = th_emit_fma(e, th_math_poly(e, r, p, TH_COUNT(p)), r, one);
  return f32_scale(e, y, f32_int(e, n));
}

// 2^n (1 + q) - 1 with q = exp(r) - 1, halved inside: 2^128 is not a float.
value th_f32_expm1(th_emit *e, value x) {
  value clamped = f32_clamp(e, x, -30.0, 89.0);
  f32_rounded n = f32_round(e, clamped, M_LOG2E);
  value r = f32_exp_remainder(e, clamped, n.n);
  value p = th_math_poly(e, r, f32_exp_p, TH_COUNT(f32_exp_p));
  value q = th_emit_fma(e, th_emit_fmul(e, r, r), p, r);
  value power = th_emit_sub(e, f32_int(e, n), th_emit_int(e, n.bits, 1));
  value scale = f32_power_of_two(e, power, LLVMTypeOf(x));
  value less = th_emit_fsub(e, scale, th_emit_float(e, x, 0.5));
  value y = th_emit_fma(e, q, scale, less);
  return th_emit_copysign(e, th_emit_fadd(e, y, y), x);
}

// ---- logarithms: a = 2^k (1 + f), 1 + f in [2/3, 4/3) ----

typedef struct f32_log_parts {
  value k, f;
  value tail; // log(1 + f) = f + tail
} f32_log_parts;

// log(1 + f) = f - f^2/2 + f^3 P(f) on [-1/3, 1/3].
static value f32_log_tail(th_emit *e, value f) {
  static const double p[] = {-0.124528639, 0.140736297, -0.122779101,
                             0.139879346,  -0.16674304, 0.20011498,
                             -0.24999921,  0.333331972};
  value f2 = th_emit_fmul(e, f, f);
  value y = th_math_poly2(e, f, f2, p, TH_COUNT(p));
  return th_emit_fmul(e, th_emit_fma(e, y, f, th_emit_float(e, f, -0.5)), f2);
}

static value f32_log_exponent(th_emit *e, value bits) {
  value over = th_emit_sub(e, bits, th_emit_int(e, bits, 0x3f2aaaab));
  return th_emit_and(e, over, th_emit_int(e, bits, (int32_t)0xff800000));
}

static f32_log_parts f32_log_split(th_emit *e, value x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  value small = th_emit_fcmp(e, LLVMRealOLT, x, th_emit_float(e, x, 0x1p-126));
  value a = th_emit_select(e, small,
                           th_emit_fmul(e, x, th_emit_float(e, x, 0x1p23)), x);
  value base = th_emit_select(e, small, th_emit_float(e, x, -23.0),
                              th_emit_float(e, x, 0.0));
  value bits = th_emit_bits(e, a);
  value exponent = f32_log_exponent(e, bits);
  value k = LLVMBuildSIToFP(e->builder, exponent, type, "");
  f32_log_parts parts;
  parts.k = th_emit_fma(e, k, th_emit_float(e, x, 0x1p-23), base);
  value m = th_emit_from_bits(e, th_emit_sub(e, bits, exponent), type);
  parts.f = th_emit_fsub(e, m, th_emit_float(e, x, 1.0));
  parts.tail = f32_log_tail(e, parts.f);
  return parts;
}

// The result for x >= 0 finite and not zero; the rest of the line otherwise.
static value f32_log_special(th_emit *e, value x, value pole, value result) {
  value finite = th_emit_fcmp(e, LLVMRealOLT, x, th_emit_float(e, x, INFINITY));
  result = th_emit_select(e, finite, result, th_emit_fadd(e, x, x));
  value less = th_emit_fcmp(e, LLVMRealOLT, x, pole);
  result = th_emit_select(e, less, th_emit_float(e, x, NAN), result);
  value equal = th_emit_fcmp(e, LLVMRealOEQ, x, pole);
  return th_emit_select(e, equal, th_emit_float(e, x, -INFINITY), result);
}

static value f32_log_natural(th_emit *e, f32_log_parts p) {
  value y = th_emit_fma(e, p.k, th_emit_float(e, p.k, -1.90465421e-9), p.tail);
  y = th_emit_fadd(e, y, p.f);
  return th_emit_fma(e, p.k, th_emit_float(e, p.k, 0.693147182), y);
}

value th_f32_log(th_emit *e, value x) {
  value y = f32_log_natural(e, f32_log_split(e, x));
  return f32_log_special(e, x, th_emit_float(e, x, 0.0), y);
}

// k * unit + (f + tail) * scale, each constant in two parts.
static value f32_log_base(th_emit *e, value x, const double unit[2],
                          const double scale[2]) {
  f32_log_parts p = f32_log_split(e, x);
  value y = th_emit_fmul(e, p.tail, th_emit_float(e, x, scale[0]));
  y = th_emit_fma(e, p.f, th_emit_float(e, x, scale[1]), y);
  if (unit[1] != 0.0) {
    y = th_emit_fma(e, p.k, th_emit_float(e, x, unit[1]), y);
  }
  y = th_emit_fma(e, p.f, th_emit_float(e, x, scale[0]), y);
  y = th_emit_fma(e, p.k, th_emit_float(e, x, unit[0]), y);
  return f32_log_special(e, x, th_emit_float(e, x, 0.0), y);
}

value th_f32_log2(th_emit *e, value x) {
  static const double unit[] = {1.0, 0.0};
  static const double scale[] = {1.44269502, 1.92596303e-8};
  return f32_log_base(e, x, unit, scale);
}

value th_f32_log10(th_emit *e, value x) {
  static const double unit[] = {0.301030010, -1.43209888e-8};
  static const double scale[] = {0.434294492, -1.01050310e-8};
  return f32_log_base(e, x, unit, scale);
}

// The exponent is that of 1 + x, but f is made from x itself by one fma, which
// loses nothing; from 2^24 on the 1 does not matter and 2^-k may underflow.
value th_f32_log1p(th_emit *e, value x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  value one = th_emit_float(e, x, 1.0);
  value bits = th_emit_bits(e, th_emit_fadd(e, x, one));
  value exponent = f32_log_exponent(e, bits);
  value scale = th_emit_sub(e, th_emit_int(e, bits, 0x3f800000), exponent);
  scale = th_emit_from_bits(e, scale, type);
  value exact = th_emit_fma(e, x, scale, th_emit_fsub(e, scale, one));
  value m = th_emit_from_bits(e, th_emit_sub(e, bits, exponent), type);
  value large = th_emit_fcmp(e, LLVMRealOGT, x, th_emit_float(e, x, 0x1p24));
  f32_log_parts p;
  p.k = LLVMBuildSIToFP(e->builder, exponent, type, "");
  p.k = th_emit_fmul(e, p.k, th_emit_float(e, x, 0x1p-23));
  p.f = th_emit_select(e, large, th_emit_fsub(e, m, one), exact);
  p.tail = f32_log_tail(e, p.f);
  value y = th_emit_copysign(e, f32_log_natural(e, p), x);
  return f32_log_special(e, x, th_emit_float(e, x, -1.0), y);
}

// ---- hyperbolic functions and what is made of exp ----

// Small: x + x^3 P(x^2) up to 0.55; large: 1 - 2 / (exp(2x) + 1).
value th_f32_tanh(th_emit *e, value x) {
  static const double p[] = {0.0162711497, -0.0525854267, 0.133193985,
                             -0.333328903};
  value t = th_emit_fabs(e, x);
  value one = th_emit_float(e, x, 1.0);
  value grown = th_emit_fadd(e, th_f32_exp(e, th_emit_fadd(e, t, t)), one);
  value large =
      th_emit_fsub(e, one, th_emit_fdiv(e, th_emit_float(e, x, 2.0), grown));
  value t2 = th_emit_fmul(e, t, t);
  value small = th_math_poly(e, t2, p, TH_COUNT(p));
  small = th_emit_fma(e, th_emit_fmul(e, small, t2), t, t);
  value is_large = th_emit_fcmp(e, LLVMRealOGT, t, th_emit_float(e, x, 0.55));
  value y = th_emit_copysign(e, th_emit_select(e, is_large, large, small), x);
  return th_emit_select(e, th_emit_is_nan(e, x), x, y);
}

// x N(x^2) / D(x^2) up to 8, then 1: gelu multiplies what is missing of it by
// arguments of any size.
value th_f32_tanh_rational(th_emit *e, value x) {
  static const double n[] = {1.40807392e-08, 2.112115e-05, 0.00352633093,
                             0.134068161, 1.0};
  static const double d[] = {8.06993228e-07, 0.000333615084, 0.0259936359,
                             0.467401356, 1.0};
  value limit = th_emit_float(e, x, 8.00004101);
  value t = f32_clamp(e, x, -8.00004101, 8.00004101);
  value t2 = th_emit_fmul(e, t, t);
  value top = th_emit_fmul(e, t, th_math_poly(e, t2, n, TH_COUNT(n)));
  value y = th_emit_fdiv(e, top, th_math_poly(e, t2, d, TH_COUNT(d)));
  value one = th_emit_copysign(e, th_emit_float(e, x, 1.0), x);
  value inside = th_emit_fcmp(e, LLVMRealOLT, th_emit_fabs(e, x), limit);
  y = th_emit_select(e, inside, y, one);
  return th_emit_select(e, th_emit_is_nan(e, x), x, y);
}

// Small: x + x^3 P(x^2) up to 1, 2^-31; large: exp(x)/2 - exp(-x)/2.
value th_f32_sinh(th_emit *e, value x) {
  static const double p[] = {2.7847093e-06, 0.00019842574, 0.00833331142,
                             0.166666672};
  value t = th_emit_fabs(e, x);
  value half = f32_exp_shifted(e, t, -1);
  value large =
      th_emit_fsub(e, half, th_emit_fdiv(e, th_emit_float(e, x, 0.25), half));
  value t2 = th_emit_fmul(e, t, t);
  value small = th_math_poly(e, t2, p, TH_COUNT(p));
  small = th_emit_fma(e, th_emit_fmul(e, small, t2), t, t);
  value is_small = th_emit_fcmp(e, LLVMRealOLT, t, th_emit_float(e, x, 1.0));
  return th_emit_copysign(e, th_emit_select(e, is_small, small, large), x);
}

value th_f32_cosh(th_emit *e, value x) {
  value half = f32_exp_shifted(e, th_emit_fabs(e, x), -1);
  return th_emit_fadd(e, half,
                      th_emit_fdiv(e, th_emit_float(e, x, 0.25), half));
}

// Small: x + x P(x^2) up to 0.925; large: 1 - exp(-t + t Q(t)), which is
// 1 from 4 on.
value th_f32_erf(th_emit *e, value x) {
  static const double p[] = {-0.000595897727, 0.00498725288, -0.0267629158,
                             0.112817302,     -0.376124889,  0.128379151};
  static const double q[] = {-1.12300149e-05, 0.000322794018, -0.0036424296,
                             0.0237620194,    -0.106236845,   -0.635151327,
                             -0.12864849};
  value size = th_emit_fabs(e, x), one = th_emit_float(e, x, 1.0);
  value t = th_emit_fmin(e, size, th_emit_float(e, x, 4.0));
  value t2 = th_emit_fmul(e, t, t);
  value power = th_math_poly2(e, t, t2, q, TH_COUNT(q));
  power = th_emit_fma(e, power, t, th_emit_fneg(e, t));
  value large = th_emit_fsub(e, one, th_f32_exp(e, power));
  large = th_emit_copysign(e, large, x);
  value small = th_emit_fma(e, th_math_poly(e, t2, p, TH_COUNT(p)), x, x);
  value is_large =
      th_emit_fcmp(e, LLVMRealOGT, size, th_emit_float(e, x, 0.925));
  return th_emit_select(e, is_large, large, small);
}

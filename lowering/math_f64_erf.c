// f64: erf, erfc and pow.
#include "lowering/math_f64.h"

// ---- erf ----

// erf(x) = x + x P(x^2) on [-1, 1], 2^-56; this is x P.
static value erf_small(th_emit *e, value x) {
  static const double p[] = {
      5.9397987994207188e-11,  -1.1362503658252466e-09, 1.4657080077363805e-08,
      -1.6349909202361098e-07, 1.6460962160827867e-06,  -1.4925592861567377e-05,
      0.00012055331010880366,  -0.00085483269780530858, 0.0052239776247693243,
      -0.026866170645071758,   0.11283791670954851,     -0.37612638903183748,
      0.12837916709551259,
  };
  value z = th_emit_fmul(e, x, x);
  value y = th_math_poly2(e, z, th_emit_fmul(e, z, z), p, TH_COUNT(p));
  return th_emit_fmul(e, y, x);
}

// G(q) with erfc(t) = exp(-t^2) G(q) / (1 + 2t), q = (t - 4) / (t + 4), for
// t in [0.45, 28], 2^-60; the last two steps as a pair.
static math_pair erf_scaled(th_emit *e, value t) {
  static const double p[] = {
      1.5499030544737726e-09,  -9.6890412106547115e-09, -1.7072208435970021e-08,
      1.0335156766059717e-07,  7.3583302342859788e-08,  -8.1961043375337736e-07,
      2.9453517158348483e-07,  5.7065536450704384e-06,  -1.1222339354785911e-05,
      -2.4398077023786071e-05, 0.0001506217612758,      -0.00019925696178286456,
      -0.00075777330381068776, 0.005031970018202523,    -0.016197734056139647,
      0.037167515533802972,    -0.066330365812316966,   0.093732834998535491,
      -0.10103906603630165,    0.068097054254688372,    0.015379652102619722,
      -0.1396211168405625,     1.2329951186255526,
  };
  value four = th_emit_float(e, t, 4.0);
  value top = th_emit_fsub(e, t, four), bottom = th_emit_fadd(e, t, four);
  value q = th_emit_fdiv(e, top, bottom);
  value rest = th_emit_fma(e, th_emit_fneg(e, q), bottom, top);
  rest = th_emit_fdiv(e, rest, bottom);
  unsigned n = TH_COUNT(p);
  value q2 = th_emit_fmul(e, q, q);
  value y = th_math_poly2(e, q, q2, p, n - 1);
  value constant = th_emit_float(e, t, p[n - 1]);
  math_pair product = th_math_two_product(e, y, q);
  math_pair sum = th_math_quick_sum(e, constant, product.hi);
  value low = th_emit_fadd(e, sum.lo, product.lo);
  // The slope there is near p[n - 2] + 2 p[n - 3] q: enough for the rounding
  // of q.
  value slope = th_emit_fma(e, q, th_emit_float(e, t, 2 * p[n - 3]),
                            th_emit_float(e, t, p[n - 2]));
  low = th_emit_fma(e, slope, rest, low);
  return (math_pair){sum.hi, low};
}

// erfc(t) for t in [0.45, 28]; beyond, 0 or what is too small to be told from
// it.
static value erf_complement(th_emit *e, value t) {
  value one = th_emit_float(e, t, 1.0);
  math_pair g = erf_scaled(e, t);
  value twice = th_emit_fadd(e, t, t);
  math_pair d = th_math_two_sum(e, twice, one);
  value inverse = th_emit_fdiv(e, one, d.hi);
  value ratio = th_emit_fmul(e, g.hi, inverse);
  value minus = th_emit_fneg(e, ratio);
  value rest = th_emit_fma(e, minus, d.hi, g.hi);
  rest = th_emit_fma(e, minus, d.lo, rest);
  rest = th_emit_fmul(e, th_emit_fadd(e, rest, g.lo), inverse);
  math_pair square = th_math_two_product(e, t, t);
  f64_exp_parts ex = th_f64_exp_pair(e, th_emit_fneg(e, square.hi),
                                     th_emit_fneg(e, square.lo));
  math_pair y = th_math_two_product(e, ex.y.hi, ratio);
  value low = th_emit_fma(e, ex.y.hi, rest, y.lo);
  low = th_emit_fma(e, ex.y.lo, ratio, low);
  return th_f64_scale(e, th_emit_fadd(e, y.hi, low), ex.power);
}

// Below 1 the series, above it 1 - erfc.
value th_f64_erf(th_emit *e, value x) {
  value t = th_emit_fabs(e, x), one = th_emit_float(e, x, 1.0);
  value large = th_emit_fcmp(e, LLVMRealOGE, t, one);
  value inner = th_emit_select(e, large, one, x);
  value small = th_emit_fadd(e, inner, erf_small(e, inner));
  value rest = erf_complement(e, th_f64_clamp(e, t, 1.0, 6.0));
  value far = th_emit_copysign(e, th_emit_fsub(e, one, rest), x);
  return th_emit_select(e, large, far, small);
}

// sqrt(2046 ln 2): from here on exp(-t^2) is made 0 (th_f64_scale).
#define ERFC_ZERO 37.6587

// From 1/2 on by exp; below, 1 - erf, from 1/4 on as 1/2 - (erf - 1/2), so
// that little is lost; negative ones are 2 - erfc(-x).
value th_f64_erfc(th_emit *e, value x) {
  value t = th_emit_fabs(e, x);
  value one = th_emit_float(e, x, 1.0), half = th_emit_float(e, x, 0.5);
  value large = th_emit_fcmp(e, LLVMRealOGE, t, half);
  value rest = erf_complement(e, th_f64_clamp(e, t, 0.5, ERFC_ZERO));
  value negative = th_emit_fcmp(e, LLVMRealOLT, x, th_emit_float(e, x, 0.0));
  value mirrored = th_emit_fsub(e, th_emit_float(e, x, 2.0), rest);
  value far = th_emit_select(e, negative, mirrored, rest);
  value inner = th_emit_select(e, large, half, x);
  value series = erf_small(e, inner);
  value quarter = th_emit_float(e, x, 0.25);
  value upper = th_emit_fcmp(e, LLVMRealOGE, inner, quarter);
  value base = th_emit_select(e, upper, half, one);
  value moved = th_emit_fsub(
      e, inner, th_emit_select(e, upper, half, th_emit_float(e, x, 0)));
  value near = th_emit_fsub(e, base, th_emit_fadd(e, moved, series));
  return th_emit_select(e, large, far, near);
}

// ---- pow ----

static math_pair pow_multiply(th_emit *e, math_pair a, math_pair b) {
  math_pair y = th_math_two_product(e, a.hi, b.hi);
  value low = th_emit_fma(e, a.hi, b.lo, y.lo);
  low = th_emit_fma(e, a.lo, b.hi, low);
  return th_math_quick_sum(e, y.hi, low);
}

// constant + a, |a| smaller.
static math_pair pow_add(th_emit *e, double high, double low, math_pair a) {
  math_pair y = th_math_quick_sum(e, th_emit_float(e, a.hi, high), a.hi);
  value rest = th_emit_fadd(e, a.lo, th_emit_float(e, a.hi, low));
  return th_math_quick_sum(e, y.hi, th_emit_fadd(e, y.lo, rest));
}

// f / (2 + f) as a pair.
static math_pair pow_ratio(th_emit *e, value f) {
  value two = th_emit_float(e, f, 2.0);
  math_pair d = th_math_quick_sum(e, two, f);
  value s = th_emit_fdiv(e, f, d.hi);
  value minus = th_emit_fneg(e, s);
  value rest = th_emit_fma(e, minus, d.hi, f);
  rest = th_emit_fma(e, minus, d.lo, rest);
  return (math_pair){s, th_emit_fdiv(e, rest, d.hi)};
}

// log2(x) to about 2^-67: 2 s (1 + z/3 + z^2/5 + z^3 P(z)), z = s^2, times
// log2(e), the first terms as pairs.
static math_pair pow_log2(th_emit *e, value x) {
  static const double p[] = {
      0.059589023353315493, 0.058421375286565554, 0.066678988694654856,
      0.076922860494060025, 0.09090909307672998,  0.11111111109975398,
      0.14285714285716655,
  };
  f64_log_parts parts = th_f64_log_split(e, x);
  math_pair s = pow_ratio(e, parts.f);
  math_pair z = pow_multiply(e, s, s);
  value tail = th_math_poly(e, z.hi, p, TH_COUNT(p));
  math_pair y = th_math_two_product(e, z.hi, tail);
  y = pow_add(e, 0.2, -1.1102230246251566e-17, y);
  y = pow_add(e, 0.33333333333333331, 1.8503717077085942e-17,
              pow_multiply(e, y, z));
  y = pow_add(e, 1.0, 0.0, pow_multiply(e, y, z));
  // 2 log2(e).
  math_pair unit = {th_emit_float(e, x, 2.8853900817779268),
                    th_emit_float(e, x, 4.0710547481862066e-17)};
  y = pow_multiply(e, pow_multiply(e, y, s), unit);
  math_pair sum = th_math_quick_sum(e, parts.k, y.hi);
  return th_math_quick_sum(e, sum.hi, th_emit_fadd(e, sum.lo, y.lo));
}

value th_f64_pow(th_emit *e, value x, value y) {
  math_pair log2 = pow_log2(e, th_emit_fabs(e, x));
  math_pair power = th_math_two_product(e, log2.hi, y);
  value low = th_emit_fma(e, log2.lo, y, power.lo);
  value clamped = th_f64_clamp(e, power.hi, -2046.0, 1025.0);
  value kept = th_emit_fcmp(e, LLVMRealOEQ, clamped, power.hi);
  low = th_emit_select(e, kept, low, th_emit_float(e, x, 0.0));
  f64_rounded n = th_f64_round(e, clamped, 1.0);
  value r = th_emit_fsub(e, clamped, n.n);
  math_pair size = th_f64_exp2_small(e, r, low);
  value scaled = th_f64_scale(e, size.hi, n.power);
  return th_math_pow_special(e, x, y, scaled);
}

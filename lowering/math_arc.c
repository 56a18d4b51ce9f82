// asin, acos, atan, atan2 in both precisions: one way of reducing, two sets of
// numbers.
#include "lowering/math_inner.h"

#define PI_2 1.5707963267948966 // pi/2 = PI_2 + PI_2_REST
#define PI_2_REST 6.123233995736766e-17

typedef struct arc_numbers {
  double half_pi, half_pi_rest; // pi/2 in two parts of the precision
  const double *sine;           // P of asin(s) = s + s z P(z), z = s^2
  size_t sine_count;
  value (*tangent)(th_emit *e, value t); // atan on [0, 1]
} arc_numbers;

// atan(t) = t + t^3 P(t^2) on [0, 1], 2^-28.5.
static value arc_tangent_f32(th_emit *e, value t) {
  static const double p[] = {
      -0.00178214419, 0.0108662713, -0.0310935341, 0.0578788705, -0.0839920789,
      0.109508611,    -0.142640144, 0.199985296,   -0.333332986,
  };
  value t2 = th_emit_fmul(e, t, t);
  value y = th_math_poly2(e, t2, th_emit_fmul(e, t2, t2), p, TH_COUNT(p));
  return th_emit_fma(e, y, th_emit_fmul(e, t, t2), t);
}

// atan on [0, 1]: about 0, 1/2 or 1, then t + t^3 P(t^2) for |t| <= 7/16.
static value arc_tangent_f64(th_emit *e, value t) {
  static const double p[] = {
      -0.016231468960847706, 0.036476215973621079,  -0.049744477438101439,
      0.058329685308820677,  -0.066609809190944391, 0.076918671573741507,
      -0.090908865662836125, 0.11111110383474783,   -0.14285714272013234,
      0.19999999999871054,   -0.3333333333333291,
  };
  value one = th_emit_float(e, t, 1.0), two = th_emit_float(e, t, 2.0);
  value zero = th_emit_float(e, t, 0.0);
  value middle = th_emit_fcmp(e, LLVMRealOGE, t, th_emit_float(e, t, 0.4375));
  value upper = th_emit_fcmp(e, LLVMRealOGE, t, th_emit_float(e, t, 0.6875));
  value twice = th_emit_fsub(e, th_emit_fadd(e, t, t), one);
  value top = th_emit_select(e, upper, th_emit_fsub(e, t, one), twice);
  value base = th_emit_select(e, upper, one, two);
  value u = th_emit_fdiv(e, top, th_emit_fadd(e, t, base));
  u = th_emit_select(e, middle, u, t);
  value high = th_emit_select(e, upper, th_emit_float(e, t, 0.5 * PI_2),
                              th_emit_float(e, t, 0.46364760900080609));
  value low = th_emit_select(e, upper, th_emit_float(e, t, 0.5 * PI_2_REST),
                             th_emit_float(e, t, 2.2698777452961687e-17));
  value z = th_emit_fmul(e, u, u);
  value y = th_math_poly2(e, z, th_emit_fmul(e, z, z), p, TH_COUNT(p));
  low = th_emit_select(e, middle, low, zero);
  y = th_emit_fma(e, y, th_emit_fmul(e, z, u), low);
  value moved = th_emit_fadd(e, high, th_emit_fadd(e, u, y));
  return th_emit_select(e, middle, moved, th_emit_fadd(e, u, y));
}

static const double arc_sine_f32[] = {0.0422330573, 0.024142785, 0.0454772599,
                                      0.0749524757, 0.166667536};
static const double arc_sine_f64[] = {
    0.032755252339926495,  -0.021196708907473442, 0.021843608795696929,
    0.0036519246144214664, 0.01079427372477698,   0.011396485226236269,
    0.013981107681273827,  0.017351588892651825,  0.022372216225866996,
    0.030381942665684957,  0.044642857175448095,  0.074999999999699696,
    0.16666666666666763,
};

static const arc_numbers arc_f32 = {1.57079637, -4.37113883e-08, arc_sine_f32,
                                    TH_COUNT(arc_sine_f32), arc_tangent_f32};
static const arc_numbers arc_f64 = {PI_2, PI_2_REST, arc_sine_f64,
                                    TH_COUNT(arc_sine_f64), arc_tangent_f64};

// turns * pi/2 - y.
static value arc_less(th_emit *e, const arc_numbers *n, double turns, value y) {
  value rest = th_emit_fsub(e, y, th_emit_float(e, y, turns * n->half_pi_rest));
  return th_emit_fsub(e, th_emit_float(e, y, turns * n->half_pi), rest);
}

typedef struct arc_sine {
  value large;   // |x| > 1/2
  value s, rest; // asin(|x|) = s + rest, or half of acos(|x|) when large
} arc_sine;

// Above 1/2 with z = (1 - |x|) / 2.
static arc_sine arc_fold(th_emit *e, const arc_numbers *n, value x) {
  value half = th_emit_float(e, x, 0.5), t = th_emit_fabs(e, x);
  arc_sine arc = {.large = th_emit_fcmp(e, LLVMRealOGT, t, half)};
  value rest = th_emit_fsub(e, th_emit_float(e, x, 1.0), t);
  value folded = th_emit_fmul(e, rest, half);
  value z = th_emit_select(e, arc.large, folded, th_emit_fmul(e, t, t));
  arc.s = th_emit_select(e, arc.large, th_emit_sqrt(e, z), t);
  value y = th_math_poly2(e, z, th_emit_fmul(e, z, z), n->sine, n->sine_count);
  arc.rest = th_emit_fmul(e, y, th_emit_fmul(e, arc.s, z));
  return arc;
}

// pi/2 - 2 (s + rest): pi/2 - 2s exactly first.
static value arc_far(th_emit *e, const arc_numbers *n, arc_sine arc) {
  value twice = th_emit_fadd(e, arc.s, arc.s);
  value high = th_emit_float(e, twice, n->half_pi);
  math_pair y = th_math_quick_sum(e, high, th_emit_fneg(e, twice));
  value low = th_emit_fadd(e, y.lo, th_emit_float(e, twice, n->half_pi_rest));
  low = th_emit_fma(e, arc.rest, th_emit_float(e, twice, -2.0), low);
  return th_emit_fadd(e, y.hi, low);
}

static value arc_asin(th_emit *e, const arc_numbers *n, value x) {
  arc_sine arc = arc_fold(e, n, x);
  value near = th_emit_fadd(e, arc.s, arc.rest);
  value y = th_emit_select(e, arc.large, arc_far(e, n, arc), near);
  return th_emit_copysign(e, y, x);
}

static value arc_acos(th_emit *e, const arc_numbers *n, value x) {
  arc_sine arc = arc_fold(e, n, x);
  value y = th_emit_fadd(e, arc.s, arc.rest), twice = th_emit_fadd(e, y, y);
  value negative = th_emit_fcmp(e, LLVMRealOLT, x, th_emit_float(e, x, 0.0));
  value large = th_emit_select(e, negative, arc_less(e, n, 2, twice), twice);
  value small = arc_less(e, n, 1, th_emit_copysign(e, y, x));
  return th_emit_select(e, arc.large, large, small);
}

static value arc_atan(th_emit *e, const arc_numbers *n, value x) {
  value size = th_emit_fabs(e, x), one = th_emit_float(e, x, 1.0);
  value large = th_emit_fcmp(e, LLVMRealOGT, size, one);
  value t = th_emit_select(e, large, th_emit_fdiv(e, one, size), size);
  value y = n->tangent(e, t);
  y = th_emit_select(e, large, arc_less(e, n, 1, y), y);
  return th_emit_copysign(e, y, x);
}

// The angle of the smaller over the larger coordinate, then turned into its
// octant.  Equal infinities count as 1, two zeros as 0.
static value arc_atan2(th_emit *e, const arc_numbers *n, value y, value x) {
  value ax = th_emit_fabs(e, x), ay = th_emit_fabs(e, y);
  value zero = th_emit_float(e, x, 0.0), one = th_emit_float(e, x, 1.0);
  value steep = th_emit_fcmp(e, LLVMRealOGT, ay, ax);
  value top = th_emit_select(e, steep, ax, ay);
  value bottom = th_emit_select(e, steep, ay, ax);
  value equal = th_emit_fcmp(e, LLVMRealOEQ, top, bottom);
  value t = th_emit_select(e, equal, one, th_emit_fdiv(e, top, bottom));
  value flat = th_emit_fcmp(e, LLVMRealOEQ, top, zero);
  t = th_emit_select(e, flat, zero, t);
  value angle = n->tangent(e, t);
  angle = th_emit_select(e, steep, arc_less(e, n, 1, angle), angle);
  value bits = th_emit_bits(e, x);
  value left = th_emit_icmp(e, LLVMIntSLT, bits, th_emit_int(e, bits, 0));
  angle = th_emit_select(e, left, arc_less(e, n, 2, angle), angle);
  value both = th_emit_fcmp(e, LLVMRealORD, x, y);
  angle = th_emit_copysign(e, angle, y);
  return th_emit_select(e, both, angle, th_emit_fadd(e, x, y));
}

#define EACH(name)                                                             \
  value th_f32_##name(th_emit *e, value x) {                                   \
    return arc_##name(e, &arc_f32, x);                                         \
  }                                                                            \
  value th_f64_##name(th_emit *e, value x) {                                   \
    return arc_##name(e, &arc_f64, x);                                         \
  }
EACH(asin)
EACH(acos)
EACH(atan)

value th_f32_atan2(th_emit *e, value y, value x) {
  return arc_atan2(e, &arc_f32, y, x);
}

value th_f64_atan2(th_emit *e, value y, value x) {
  return arc_atan2(e, &arc_f64, y, x);
}

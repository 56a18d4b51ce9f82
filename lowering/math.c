// The tables of math.h, the parts that all functions share, and the functions
// whose code does not depend on the type.
#include "lowering/math_inner.h"

value th_math_poly(th_emit *e, value x, const double *c, unsigned n) {
  value y = th_emit_float(e, x, c[0]);
  for (unsigned i = 1; i < n; i++) {
    y = th_emit_fma(e, y, x, th_emit_float(e, x, c[i]));
  }
  return y;
}

value th_math_poly2(th_emit *e, value x, value x2, const double *c,
                    unsigned n) {
  value even = th_emit_float(e, x, c[0]), odd = th_emit_float(e, x, c[1]);
  for (unsigned i = 2; i < n; i += 2) {
    even = th_emit_fma(e, even, x2, th_emit_float(e, x, c[i]));
  }
  for (unsigned i = 3; i < n; i += 2) {
    odd = th_emit_fma(e, odd, x2, th_emit_float(e, x, c[i]));
  }
  return n % 2 ? th_emit_fma(e, odd, x, even) : th_emit_fma(e, even, x, odd);
}

math_pair th_math_two_sum(th_emit *e, value a, value b) {
  value hi = th_emit_fadd(e, a, b);
  value b_part = th_emit_fsub(e, hi, a);
  value a_part = th_emit_fsub(e, hi, b_part);
  value lo =
      th_emit_fadd(e, th_emit_fsub(e, a, a_part), th_emit_fsub(e, b, b_part));
  return (math_pair){hi, lo};
}

math_pair th_math_quick_sum(th_emit *e, value a, value b) {
  value hi = th_emit_fadd(e, a, b);
  return (math_pair){hi, th_emit_fsub(e, b, th_emit_fsub(e, hi, a))};
}

math_pair th_math_two_product(th_emit *e, value a, value b) {
  value hi = th_emit_fmul(e, a, b);
  return (math_pair){hi, th_emit_fma(e, a, b, th_emit_fneg(e, hi))};
}

value th_math_divide(th_emit *e, math_pair a, math_pair b) {
  value inverse = th_emit_fdiv(e, th_emit_float(e, a.hi, 1.0), b.hi);
  value y = th_emit_fmul(e, a.hi, inverse);
  value minus = th_emit_fneg(e, y);
  value rest = th_emit_fma(e, minus, b.hi, a.hi);
  rest = th_emit_fadd(e, rest, th_emit_fma(e, minus, b.lo, a.lo));
  return th_emit_fma(e, rest, inverse, y);
}

value th_math_widen(th_emit *e, value x) {
  LLVMTypeRef type = th_emit_type_like(LLVMTypeOf(x), e->f64);
  return LLVMBuildFPExt(e->builder, x, type, "");
}

value th_math_narrow(th_emit *e, value x) {
  LLVMTypeRef type = th_emit_type_like(LLVMTypeOf(x), e->f32);
  return LLVMBuildFPTrunc(e->builder, x, type, "");
}

// A loop over the lanes keeps the code small, which counts: it is there for
// every sine, and runs nearly never.
static void math_rare_lanes(th_emit *e, value x, math_rare_fn fn, value *io,
                            unsigned count) {
  th_emit_loop loop = {
      .begin = th_emit_i32(e, 0),
      .end = th_emit_i32(e, (int32_t)th_emit_type_lanes(LLVMTypeOf(x)))};
  th_emit_loop_begin(e, &loop, io, count);
  value out[TH_EMIT_MAX_CARRIED], next[TH_EMIT_MAX_CARRIED];
  fn(e, LLVMBuildExtractElement(e->builder, x, loop.index, ""), out, count);
  for (unsigned i = 0; i < count; i++) {
    next[i] = LLVMBuildInsertElement(e->builder, loop.carried[i], out[i],
                                     loop.index, "");
  }
  th_emit_loop_end(e, &loop, next, io);
}

// Lanes that are picked by a number known in advance stay in registers on
// NVPTX; a variable one would put the vector into local memory.
static void math_rare_unrolled(th_emit *e, value x, math_rare_fn fn, value *io,
                               unsigned count) {
  unsigned lanes = th_emit_type_lanes(LLVMTypeOf(x));
  value out[TH_EMIT_MAX_CARRIED];
  for (unsigned lane = 0; lane < lanes; lane++) {
    fn(e, th_emit_extract(e, x, lane), out, count);
    for (unsigned i = 0; i < count; i++) {
      io[i] = th_emit_insert(e, io[i], out[i], lane);
    }
  }
}

void th_math_rare(th_emit *e, value mask, value x, math_rare_fn fn, value *io,
                  unsigned count) {
  th_emit_if branch;
  value now[TH_EMIT_MAX_CARRIED], next[TH_EMIT_MAX_CARRIED];
  TH_ASSERT(count <= TH_EMIT_MAX_CARRIED);
  for (unsigned i = 0; i < count; i++) {
    now[i] = next[i] = io[i];
  }
  bool vector = LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMVectorTypeKind;
  th_emit_if_begin(e, &branch, th_emit_any(e, mask));
  if (vector && e->target != TH_EMIT_NVPTX) {
    math_rare_lanes(e, x, fn, next, count);
  } else {
    math_rare_unrolled(e, x, fn, next, count);
  }
  for (unsigned i = 0; i < count; i++) {
    next[i] = th_emit_select(e, mask, next[i], now[i]);
  }
  th_emit_if_then_end(e, &branch, next, now, count, io);
}

// ---- functions of one form for both types ----

static value math_rsqrt(th_emit *e, value x) {
  return th_emit_fdiv(e, th_emit_float(e, x, 1.0), th_emit_sqrt(e, x));
}

static value math_reciprocal(th_emit *e, value x) {
  return th_emit_fdiv(e, th_emit_float(e, x, 1.0), x);
}

// exp(-|x|) never overflows; for x < 0 it is also the numerator.  The rounding
// of the denominator is made good, or it would cost one more ulp.
static value math_sigmoid(th_emit *e, value x) {
  value one = th_emit_float(e, x, 1.0), zero = th_emit_float(e, x, 0.0);
  value t = th_math_exp(e, th_emit_fneg(e, th_emit_fabs(e, x)));
  value negative = th_emit_fcmp(e, LLVMRealOLT, x, zero);
  value top = th_emit_select(e, negative, t, one);
  math_pair bottom = th_math_quick_sum(e, one, t);
  return th_math_divide(e, (math_pair){top, zero}, bottom);
}

// -1, 0, 1; zero and NaN as they are.
static value math_sign(th_emit *e, value x) {
  value nonzero = th_emit_fcmp(e, LLVMRealONE, x, th_emit_float(e, x, 0.0));
  return th_emit_select(e, nonzero,
                        th_emit_copysign(e, th_emit_float(e, x, 1.0), x), x);
}

// A comparison with NaN is false: y comes out where either is one, and x then
// if it is.  Written so, each is one instruction and a blend on x86.
static value math_extreme(th_emit *e, value x, value y,
                          LLVMRealPredicate better) {
  value best = th_emit_select(e, th_emit_fcmp(e, better, x, y), x, y);
  return th_emit_select(e, th_emit_is_nan(e, x), x, best);
}

static value math_minimum(th_emit *e, value x, value y) {
  return math_extreme(e, x, y, LLVMRealOLT);
}

static value math_maximum(th_emit *e, value x, value y) {
  return math_extreme(e, x, y, LLVMRealOGT);
}

typedef struct float_format {
  int mantissa; // stored bits
  int bias;
} float_format;

static float_format math_format(th_emit *e, value x) {
  bool wide = th_emit_type_element(LLVMTypeOf(x)) == e->f64;
  return wide ? (float_format){52, 1023} : (float_format){23, 127};
}

// Exponent of a positive number: 0 for [1, 2).  Subnormal ones are made normal
// first.
static value math_exponent(th_emit *e, value x, float_format format) {
  double least = ldexp(1.0, 1 - format.bias), up = ldexp(1.0, format.mantissa);
  value small = th_emit_fcmp(e, LLVMRealOLT, x, th_emit_float(e, x, least));
  value normal =
      th_emit_select(e, small, th_emit_fmul(e, x, th_emit_float(e, x, up)), x);
  value bits =
      th_emit_lshr(e, th_emit_bits(e, normal), (unsigned)format.mantissa);
  value bias = th_emit_select(
      e, small, th_emit_int(e, bits, format.bias + format.mantissa),
      th_emit_int(e, bits, format.bias));
  return th_emit_sub(e, bits, bias);
}

static value math_power_of_two(th_emit *e, value n, LLVMTypeRef type,
                               float_format format) {
  value bits = th_emit_add(e, n, th_emit_int(e, n, format.bias));
  return th_emit_from_bits(e, th_emit_shl(e, bits, (unsigned)format.mantissa),
                           type);
}

// One turn of the long division: r becomes r - q * (y 2^s) with 2^s such that q
// has at most as many bits as are stored.  All of it is exact: the remainder is
// a multiple of the last place of y 2^s and smaller than y 2^s.  The quotient
// can come out one too large, which the last line mends.
static value math_fmod_step(th_emit *e, value r, value y, float_format format) {
  value zero = th_emit_float(e, r, 0.0);
  value gap =
      th_emit_sub(e, math_exponent(e, r, format), math_exponent(e, y, format));
  gap = th_emit_sub(e, gap, th_emit_int(e, gap, format.mantissa - 1));
  value positive = th_emit_icmp(e, LLVMIntSGT, gap, th_emit_int(e, gap, 0));
  gap = th_emit_select(e, positive, gap, th_emit_int(e, gap, 0));
  // In two factors: 2^gap alone can be beyond the largest float.
  LLVMTypeRef type = LLVMTypeOf(r);
  value half = th_emit_ashr(e, gap, 1), rest = th_emit_sub(e, gap, half);
  value scaled = th_emit_fmul(e, y, math_power_of_two(e, half, type, format));
  scaled = th_emit_fmul(e, scaled, math_power_of_two(e, rest, type, format));
  value q = th_emit_trunc(e, th_emit_fdiv(e, r, scaled));
  value next = th_emit_fma(e, th_emit_fneg(e, q), scaled, r);
  value negative = th_emit_fcmp(e, LLVMRealOLT, next, zero);
  next = th_emit_select(e, negative, th_emit_fadd(e, next, scaled), next);
  value more = th_emit_fcmp(e, LLVMRealOGE, r, y);
  return th_emit_select(e, more, next, r);
}

// |x| mod |y| by long division, exact for every quotient.
static value math_fmod(th_emit *e, value x, value y) {
  value zero = th_emit_float(e, x, 0.0),
        infinity = th_emit_float(e, x, INFINITY);
  float_format format = math_format(e, x);
  value size = th_emit_fabs(e, x), by = th_emit_fabs(e, y);
  value good = th_emit_and(e, th_emit_fcmp(e, LLVMRealOLT, size, infinity),
                           th_emit_fcmp(e, LLVMRealOGT, by, zero));
  value by_safe = th_emit_select(e, good, by, infinity);
  value start = th_emit_select(e, good, size, zero);
  th_emit_while loop;
  th_emit_while_begin(e, &loop, &start, 1);
  value more = th_emit_fcmp(e, LLVMRealOGE, loop.carried[0], by_safe);
  th_emit_while_test(e, &loop, th_emit_any(e, more));
  value next = math_fmod_step(e, loop.carried[0], by_safe, format);
  th_emit_while_end(e, &loop, &next);
  value y_nan =
      th_emit_select(e, good, loop.carried[0], th_emit_float(e, x, NAN));
  value ordered = th_emit_fcmp(e, LLVMRealORD, x, y);
  return th_emit_select(e, ordered, th_emit_copysign(e, y_nan, x),
                        th_emit_fadd(e, x, y));
}

// Moves the remainder to the side of the divisor.
static value math_remainder(th_emit *e, value x, value y) {
  value zero = th_emit_float(e, x, 0.0);
  value r = math_fmod(e, x, y);
  value nonzero = th_emit_fcmp(e, LLVMRealUNE, r, zero);
  value differ = th_emit_xor(e, th_emit_fcmp(e, LLVMRealOLT, r, zero),
                             th_emit_fcmp(e, LLVMRealOLT, y, zero));
  return th_emit_select(e, th_emit_and(e, nonzero, differ),
                        th_emit_fadd(e, r, y), r);
}

// As PyTorch's div with rounding_mode='floor': from the exact remainder, so
// that it agrees with remainder; division by zero is x / y.
static value math_floor_divide(th_emit *e, value x, value y) {
  value zero = th_emit_float(e, x, 0.0), one = th_emit_float(e, x, 1.0);
  value r = math_fmod(e, x, y);
  value plain = th_emit_fdiv(e, x, y);
  value q = th_emit_fdiv(e, th_emit_fsub(e, x, r), y);
  value nonzero = th_emit_fcmp(e, LLVMRealUNE, r, zero);
  value differ = th_emit_xor(e, th_emit_fcmp(e, LLVMRealOLT, r, zero),
                             th_emit_fcmp(e, LLVMRealOLT, y, zero));
  value down = th_emit_and(e, nonzero, differ);
  q = th_emit_select(e, down, th_emit_fsub(e, q, one), q);
  value floored = th_emit_floor(e, q);
  value off = th_emit_fsub(e, q, floored);
  value up = th_emit_fcmp(e, LLVMRealOGT, off, th_emit_float(e, x, 0.5));
  floored = th_emit_select(e, up, th_emit_fadd(e, floored, one), floored);
  value is_zero = th_emit_fcmp(e, LLVMRealOEQ, q, zero);
  value y_zero = th_emit_fcmp(e, LLVMRealOEQ, y, zero);
  floored =
      th_emit_select(e, is_zero, th_emit_copysign(e, zero, plain), floored);
  return th_emit_select(e, y_zero, plain, floored);
}

// ---- tables ----

typedef value (*math_unary_fn)(th_emit *e, value x);
typedef value (*math_binary_fn)(th_emit *e, value x, value y);

#define BOTH(fn) {fn, fn}
#define EACH(name) {th_f32_##name, th_f64_##name}

static const math_unary_fn math_unary_table[TH_MATH_UNARY_COUNT][2] = {
    [TH_MATH_exp] = EACH(exp),
    [TH_MATH_exp2] = EACH(exp2),
    [TH_MATH_expm1] = EACH(expm1),
    [TH_MATH_log] = EACH(log),
    [TH_MATH_log2] = EACH(log2),
    [TH_MATH_log10] = EACH(log10),
    [TH_MATH_log1p] = EACH(log1p),
    [TH_MATH_sin] = EACH(sin),
    [TH_MATH_cos] = EACH(cos),
    [TH_MATH_tan] = EACH(tan),
    [TH_MATH_asin] = EACH(asin),
    [TH_MATH_acos] = EACH(acos),
    [TH_MATH_atan] = EACH(atan),
    [TH_MATH_sinh] = EACH(sinh),
    [TH_MATH_cosh] = EACH(cosh),
    [TH_MATH_tanh] = EACH(tanh),
    [TH_MATH_asinh] = EACH(asinh),
    [TH_MATH_acosh] = EACH(acosh),
    [TH_MATH_atanh] = EACH(atanh),
    [TH_MATH_erf] = EACH(erf),
    [TH_MATH_erfc] = EACH(erfc),
    [TH_MATH_sigmoid] = BOTH(math_sigmoid),
    [TH_MATH_tanh_rational] = {th_f32_tanh_rational, th_f64_tanh},
    [TH_MATH_sqrt] = BOTH(th_emit_sqrt),
    [TH_MATH_rsqrt] = BOTH(math_rsqrt),
    [TH_MATH_reciprocal] = BOTH(math_reciprocal),
    [TH_MATH_abs] = BOTH(th_emit_fabs),
    [TH_MATH_neg] = BOTH(th_emit_fneg),
    [TH_MATH_sign] = BOTH(math_sign),
    [TH_MATH_floor] = BOTH(th_emit_floor),
    [TH_MATH_ceil] = BOTH(th_emit_ceil),
    [TH_MATH_trunc] = BOTH(th_emit_trunc),
    [TH_MATH_round] = BOTH(th_emit_rint),
};

static const math_binary_fn math_binary_table[TH_MATH_BINARY_COUNT][2] = {
    [TH_MATH_pow] = EACH(pow),
    [TH_MATH_atan2] = EACH(atan2),
    [TH_MATH_fmod] = BOTH(math_fmod),
    [TH_MATH_remainder] = BOTH(math_remainder),
    [TH_MATH_floor_divide] = BOTH(math_floor_divide),
    [TH_MATH_hypot] = EACH(hypot),
    [TH_MATH_fmin] = BOTH(th_emit_fmin),
    [TH_MATH_fmax] = BOTH(th_emit_fmax),
    [TH_MATH_minimum] = BOTH(math_minimum),
    [TH_MATH_maximum] = BOTH(math_maximum),
};

static int math_column(th_emit *e, value x) {
  LLVMTypeRef element = th_emit_type_element(LLVMTypeOf(x));
  TH_ASSERT(element == e->f32 || element == e->f64);
  return element == e->f64;
}

value th_math_unary(th_emit *e, th_math_unary_op op, value x) {
  math_unary_fn fn = math_unary_table[op][math_column(e, x)];
  LLVMFastMathFlags flags = e->float_flags;
  e->float_flags = LLVMFastMathNone;
  value y = fn(e, x);
  e->float_flags = flags;
  return y;
}

value th_math_binary(th_emit *e, th_math_binary_op op, value x, value y) {
  math_binary_fn fn = math_binary_table[op][math_column(e, x)];
  LLVMFastMathFlags flags = e->float_flags;
  e->float_flags = LLVMFastMathNone;
  value z = fn(e, x, y);
  e->float_flags = flags;
  return z;
}

const char *th_math_unary_name(th_math_unary_op op) {
  static const char *const names[] = {
#define X(name) #name,
      TH_MATH_UNARY_MAP(X)
#undef X
  };
  return names[op];
}

const char *th_math_binary_name(th_math_binary_op op) {
  static const char *const names[] = {
#define X(name) #name,
      TH_MATH_BINARY_MAP(X)
#undef X
  };
  return names[op];
}

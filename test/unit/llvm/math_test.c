// Every function of math.h against libm in a wider type: f32 against double,
// f64 against long double.  The largest error in ulp is shown by --verbose and
// bounded here.  TH_MATH_STEP=n takes every n-th float, TH_MATH_SAMPLES=n so
// many doubles, instead of a small sample.
#include "llvm/math_kernel.h"

#include "base/alloc.h"
#include "lowering/math.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16, BLOCK = 4096 };

static th_context *ctx;

static void math_setup(void) { ctx = th_context_new(); }
static void math_teardown(void) { th_context_free(ctx); }

TestSuite(math, .init = math_setup, .fini = math_teardown, .timeout = 600);

typedef long double wide;

static LLVMValueRef emit_unary(th_emit *e, LLVMValueRef *in, int which) {
  return th_math_unary(e, (th_math_unary_op)which, in[0]);
}

static LLVMValueRef emit_binary(th_emit *e, LLVMValueRef *in, int which) {
  return th_math_binary(e, (th_math_binary_op)which, in[0], in[1]);
}

// ---- what is expected ----

static wide want_sigmoid(wide x) { return 1 / (1 + expl(-x)); }
static wide want_rsqrt(wide x) { return 1 / sqrtl(x); }
static wide want_reciprocal(wide x) { return 1 / x; }
static wide want_neg(wide x) { return -x; }
static wide want_sign(wide x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

typedef struct unary_case {
  const char *name;
  wide (*want)(wide);
  double (*want_double)(double); // quicker, for f32; NULL: want
  double bound_f32, bound_f64;
  double low, high; // where f64 is sampled densely
} unary_case;

#define LIBM(name, bound32, bound64, low, high)                                \
  [TH_MATH_##name] = {#name, name##l, name, bound32, bound64, low, high}
#define OWN(name, bound32, bound64, low, high)                                 \
  [TH_MATH_##name] = {#name, want_##name, NULL, bound32, bound64, low, high}

static const unary_case unary_cases[TH_MATH_UNARY_COUNT] = {
    LIBM(exp, 1, 1, -746, 710),
    LIBM(exp2, 1, 1, -1076, 1025),
    LIBM(expm1, 1.5, 1.5, -40, 40),
    LIBM(log, 1, 1, 0, 4),
    LIBM(log2, 2, 1, 0, 4),
    LIBM(log10, 1.5, 1, 0, 4),
    LIBM(log1p, 2, 1.5, -1, 4),
    LIBM(sin, 2, 1, -30, 30),
    LIBM(cos, 2, 1, -30, 30),
    LIBM(tan, 1, 1.5, -30, 30),
    LIBM(asin, 2, 2, -1, 1),
    LIBM(acos, 2, 2, -1, 1),
    LIBM(atan, 2, 2, -5, 5),
    LIBM(sinh, 2, 2, -5, 5),
    LIBM(cosh, 2, 2, -5, 5),
    LIBM(tanh, 2, 2, -2, 2),
    LIBM(asinh, 1, 2, -5, 5),
    LIBM(acosh, 1, 2, 1, 5),
    LIBM(atanh, 1, 2, -1, 1),
    LIBM(erf, 1.5, 1.5, -6, 6),
    LIBM(erfc, 1, 2, -6, 28),
    OWN(sigmoid, 2, 2, -40, 40),
    [TH_MATH_tanh_rational] = {"tanh_rational", tanhl, tanh, 5, 2, -9, 9},
    LIBM(sqrt, 0.5, 0.5001, 0, 4),
    OWN(rsqrt, 1.5, 1.5, 0, 4),
    OWN(reciprocal, 0.5, 0.5001, -4, 4),
    [TH_MATH_abs] = {"abs", fabsl, fabs, 0, 0, -4, 4},
    OWN(neg, 0, 0, -4, 4),
    OWN(sign, 0, 0, -4, 4),
    LIBM(floor, 0, 0, -9, 9),
    LIBM(ceil, 0, 0, -9, 9),
    LIBM(trunc, 0, 0, -9, 9),
    [TH_MATH_round] = {"round", rintl, rint, 0, 0, -9, 9},
};

static wide want_remainder(wide x, wide y) {
  wide r = fmodl(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static wide want_minimum(wide x, wide y) {
  return isnan(x) || isnan(y) ? x + y : x < y ? x : y;
}
static wide want_maximum(wide x, wide y) {
  return isnan(x) || isnan(y) ? x + y : x > y ? x : y;
}

typedef struct binary_case {
  const char *name;
  wide (*want)(wide, wide);
  double bound_f32, bound_f64;
} binary_case;

// remainder is rounded once where it adds the divisor; floor_divide has a test
// of its own.
static const binary_case binary_cases[TH_MATH_BINARY_COUNT] = {
    [TH_MATH_pow] = {"pow", powl, 0.6, 1.5},
    [TH_MATH_atan2] = {"atan2", atan2l, 2, 2},
    [TH_MATH_fmod] = {"fmod", fmodl, 0, 0},
    [TH_MATH_remainder] = {"remainder", want_remainder, 0.5001, 0.5001},
    [TH_MATH_hypot] = {"hypot", hypotl, 0.5001, 1.5},
    [TH_MATH_fmin] = {"fmin", fminl, 0, 0},
    [TH_MATH_fmax] = {"fmax", fmaxl, 0, 0},
    [TH_MATH_minimum] = {"minimum", want_minimum, 0, 0},
    [TH_MATH_maximum] = {"maximum", want_maximum, 0, 0},
};

// ---- errors ----

typedef struct format {
  int digits, least; // of the mantissa; exponent of the smallest normal
  wide largest;
} format;

static const format format_f32 = {24, -126, FLT_MAX};
static const format format_f64 = {53, -1022, DBL_MAX};

// The distance in units of the last place of the wanted result.  A result that
// overflows may be infinite or the largest number when it is a rounding away.
static double ulps(wide got, wide want, format f) {
  if (isnan(want) || isnan(got)) {
    return isnan(want) && isnan(got) ? 0 : INFINITY;
  }
  int exponent = f.least;
  if (want != 0 && !isinf(want)) {
    frexpl(want, &exponent);
    exponent = exponent - 1 < f.least ? f.least : exponent - 1;
  }
  wide beyond = f.largest + ldexpl(f.largest, -f.digits);
  if (isinf(got) || fabsl(want) >= beyond) {
    bool same = isinf(got) && fabsl(want) >= beyond && (got > 0) == (want > 0);
    if (!same && fabsl(want) > f.largest * (1 - ldexpl(4, -f.digits)) &&
        fabsl(got) >= f.largest && (got > 0) == (want > 0)) {
      return 1;
    }
    return same ? 0 : INFINITY;
  }
  if (got == 0 && want == 0) {
    return signbit(got) == signbit(want) ? 0 : INFINITY;
  }
  return (double)(fabsl(got - want) / ldexpl(1, exponent - f.digits + 1));
}

typedef struct worst {
  double ulps;
  double x, y, got;
  wide want;
} worst;

static void worst_note(worst *w, double error, double x, double y, double got,
                       wide want) {
  if (error > w->ulps) {
    *w = (worst){error, x, y, got, want};
  }
}

static void worst_check(const worst *w, const char *name, const char *type,
                        double bound) {
  cr_log_info("%-13s %s %7.4f ulp at %a %a\n", name, type, w->ulps, w->x, w->y);
  cr_expect(w->ulps <= bound,
            "%s %s: %.4f ulp, bound %.4f, at %a (%g) %a: %a, want %La", name,
            type, w->ulps, bound, w->x, w->x, w->y, w->got, w->want);
}

// ---- samples ----

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

static double uniform(uint64_t seed) {
  return (double)(mix(seed) >> 11) * 0x1p-53;
}

static const double special[] = {
    0.0,          -0.0,    1.0,       -1.0,     0.5,       -0.5,
    2.0,          -2.0,    3.0,       -3.0,     INFINITY,  -INFINITY,
    NAN,          1e-30,   -1e-30,    1e30,     -1e30,     FLT_MAX,
    -FLT_MAX,     FLT_MIN, -FLT_MIN,  0x1p-149, -0x1p-149, 1.5,
    -1.5,         2.5,     -2.5,      0x1p23,   0x1.8p23,  0x1p24,
    1e6,          88.73,   -103.98,   89.0,     -104.5,    0x1.fffffep-1,
    0x1.000002p0, 127.99,  128.0,     -149.5,   0x1p53,    DBL_MAX,
    -DBL_MAX,     DBL_MIN, 0x1p-1074, 709.79,   710.5,     -745.2,
    0.25,         0.4375,  0.6875,    0.925,    0.55,      0x1p60,
    0x1p-1022,
};

static float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static double double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// ---- f32 ----

static void unary_f32_block(const unary_case *c, math_kernel_fn fn,
                            const float *x, size_t n, worst *w) {
  float y[BLOCK];
  fn(x, NULL, y, (int64_t)n);
  for (size_t i = 0; i < n; i++) {
    wide want = c->want_double ? (wide)c->want_double(x[i]) : c->want(x[i]);
    worst_note(w, ulps(y[i], want, format_f32), x[i], 0, y[i], want);
  }
}

static void unary_f32(int op) {
  const unary_case *c = &unary_cases[op];
  math_kernel k = {emit_unary, op, math_type_f32, math_type_f32, 1, LANES};
  th_code *code;
  math_kernel_fn fn = math_kernel_load(ctx, &k, NULL, &code);
  const char *text = getenv("TH_MATH_STEP");
  uint64_t step = text ? strtoull(text, NULL, 10) : 16411;
  worst w = {0};
  float x[BLOCK];
  uint64_t next = 0;
  while (next < UINT64_C(1) << 32) {
    for (size_t i = 0; i < BLOCK; i++, next += step) {
      x[i] = float_of_bits((uint32_t)next);
    }
    unary_f32_block(c, fn, x, BLOCK, &w);
  }
  for (size_t i = 0; i < BLOCK; i++) {
    x[i] = (float)special[i % TH_COUNT(special)];
  }
  unary_f32_block(c, fn, x, BLOCK, &w);
  worst_check(&w, c->name, "f32", c->bound_f32);
  th_code_release(code);
}

Test(math, unary_f32) {
  for (int op = 0; op < TH_MATH_UNARY_COUNT; op++) {
    unary_f32(op);
  }
}

// ---- f64 ----

static double unary_sample(const unary_case *c, uint64_t i) {
  switch (i % 4) {
  case 0: // all magnitudes
    return double_of_bits(mix(i));
  case 1: // within 2^-60 to 2^60
    return copysign(ldexp(1 + uniform(i), (int)(mix(i + 7) % 120) - 60),
                    (double)(mix(i + 9) & 1) - 0.5);
  default:
    return c->low + (c->high - c->low) * uniform(i);
  }
}

static void unary_f64(int op, uint64_t samples) {
  const unary_case *c = &unary_cases[op];
  math_kernel k = {emit_unary, op, math_type_f64, math_type_f64, 1, LANES};
  th_code *code;
  math_kernel_fn fn = math_kernel_load(ctx, &k, NULL, &code);
  worst w = {0};
  double x[BLOCK], y[BLOCK];
  for (uint64_t start = 0; start < samples; start += BLOCK) {
    for (size_t i = 0; i < BLOCK; i++) {
      x[i] = start == 0 ? special[i % TH_COUNT(special)]
                        : unary_sample(c, start + i);
    }
    fn(x, NULL, y, BLOCK);
    for (size_t i = 0; i < BLOCK; i++) {
      wide want = c->want(x[i]);
      worst_note(&w, ulps(y[i], want, format_f64), x[i], 0, y[i], want);
    }
  }
  worst_check(&w, c->name, "f64", c->bound_f64);
  th_code_release(code);
}

Test(math, unary_f64) {
  const char *text = getenv("TH_MATH_SAMPLES");
  uint64_t samples = text ? strtoull(text, NULL, 10) : 200000;
  for (int op = 0; op < TH_MATH_UNARY_COUNT; op++) {
    unary_f64(op, samples);
  }
}

// ---- two arguments ----

static double binary_sample(uint64_t i, bool single, bool second) {
  uint64_t seed = mix(i * 2 + second);
  double x;
  switch (i % 3) {
  case 0:
    x = single ? float_of_bits((uint32_t)seed) : double_of_bits(seed);
    break;
  case 1:
    x = (uniform(seed) - 0.5) * 40;
    break;
  default: // small whole numbers and halves
    x = (double)((int)(seed % 65) - 32) / 2;
  }
  return single ? (float)x : x;
}

static void binary_fill(double *x, double *y, uint64_t start, bool single) {
  size_t n = TH_COUNT(special);
  for (size_t i = 0; i < BLOCK; i++) {
    uint64_t at = start + i;
    bool pairs = at < n * n;
    x[i] = pairs ? special[at / n] : binary_sample(at, single, false);
    y[i] = pairs ? special[at % n] : binary_sample(at, single, true);
    if (single) {
      x[i] = (float)x[i];
      y[i] = (float)y[i];
    }
  }
}

static void binary_run(math_kernel_fn fn, const double *x, const double *y,
                       double *z, bool single) {
  if (!single) {
    fn(x, y, z, BLOCK);
    return;
  }
  float fx[BLOCK], fy[BLOCK], fz[BLOCK];
  for (size_t i = 0; i < BLOCK; i++) {
    fx[i] = (float)x[i];
    fy[i] = (float)y[i];
  }
  fn(fx, fy, fz, BLOCK);
  for (size_t i = 0; i < BLOCK; i++) {
    z[i] = fz[i];
  }
}

static bool binary_either_zero(int op, double got, wide want) {
  bool picks = op >= TH_MATH_fmin;
  return picks && got == 0 && want == 0;
}

static void binary(int op, bool single, uint64_t samples) {
  const binary_case *c = &binary_cases[op];
  math_kernel k = {emit_binary, op, math_type_f64, math_type_f64, 2, LANES};
  if (single) {
    k.in_type = k.out_type = math_type_f32;
  }
  format f = single ? format_f32 : format_f64;
  th_code *code;
  math_kernel_fn fn = math_kernel_load(ctx, &k, NULL, &code);
  worst w = {0};
  double x[BLOCK], y[BLOCK], z[BLOCK];
  for (uint64_t start = 0; start < samples; start += BLOCK) {
    binary_fill(x, y, start, single);
    binary_run(fn, x, y, z, single);
    for (size_t i = 0; i < BLOCK; i++) {
      wide want = c->want(x[i], y[i]);
      if (!binary_either_zero(op, z[i], want)) {
        worst_note(&w, ulps(z[i], want, f), x[i], y[i], z[i], want);
      }
    }
  }
  worst_check(&w, c->name, single ? "f32" : "f64",
              single ? c->bound_f32 : c->bound_f64);
  th_code_release(code);
}

Test(math, binary) {
  for (int op = 0; op < TH_MATH_BINARY_COUNT; op++) {
    if (op != TH_MATH_floor_divide) {
      binary(op, true, 200000);
      binary(op, false, 200000);
    }
  }
}

// What PyTorch computes (c10/util/generic_math.h), in double.
static double want_floor_divide(double a, double b) {
  if (b == 0) {
    return a / b;
  }
  double mod = fmod(a, b), div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) {
    div -= 1;
  }
  if (div == 0) {
    return copysign(0, a / b);
  }
  double whole = floor(div);
  return div - whole > 0.5 ? whole + 1 : whole;
}

Test(math, floor_divide) {
  math_kernel k = {
      emit_binary, TH_MATH_floor_divide, math_type_f64, math_type_f64, 2,
      LANES};
  th_code *code;
  math_kernel_fn fn = math_kernel_load(ctx, &k, NULL, &code);
  double x[BLOCK], y[BLOCK], z[BLOCK];
  for (uint64_t start = 0; start < 100000; start += BLOCK) {
    binary_fill(x, y, start, false);
    fn(x, y, z, BLOCK);
    for (size_t i = 0; i < BLOCK; i++) {
      double want = want_floor_divide(x[i], y[i]);
      bool same = isnan(want) ? isnan(z[i])
                              : z[i] == want && signbit(z[i]) == signbit(want);
      cr_expect(same, "floor_divide(%a, %a): %a, want %a", x[i], y[i], z[i],
                want);
    }
  }
  th_code_release(code);
}

// ---- the same bits everywhere ----

static void same_bits(int op, bool single, const char *target, unsigned lanes) {
  math_kernel k = {emit_unary, op, math_type_f64, math_type_f64, 1, LANES};
  if (single) {
    k.in_type = k.out_type = math_type_f32;
  }
  math_kernel other = k;
  other.lanes = lanes;
  th_code *codes[2];
  math_kernel_fn first = math_kernel_load(ctx, &k, NULL, &codes[0]);
  math_kernel_fn second = math_kernel_load(ctx, &other, target, &codes[1]);
  double x[BLOCK], y[2][BLOCK];
  size_t n = single ? BLOCK * 2 : BLOCK;
  for (size_t i = 0; i < BLOCK; i++) {
    x[i] = i % 2 ? unary_sample(&unary_cases[op], i) : special[i / 2 % 50];
  }
  float *narrow = (float *)(void *)x;
  for (size_t i = 0; i < n && single; i++) {
    narrow[i] = float_of_bits((uint32_t)mix(i));
  }
  first(x, NULL, y[0], (int64_t)n);
  second(x, NULL, y[1], (int64_t)n);
  size_t size = single ? 4 : 8;
  for (size_t i = 0; i < n; i++) {
    const char *a = (const char *)y[0] + i * size;
    const char *b = (const char *)y[1] + i * size;
    float fa, fb;
    memcpy(&fa, a, sizeof fa);
    memcpy(&fb, b, sizeof fb);
    bool nan =
        single ? isnan(fa) && isnan(fb) : isnan(y[0][i]) && isnan(y[1][i]);
    cr_expect(nan || memcmp(a, b, size) == 0, "%s %s x %u: element %zu differs",
              unary_cases[op].name, target ? target : "host", lanes, i);
  }
  th_code_release(codes[0]);
  th_code_release(codes[1]);
}

// Strict code is the same arithmetic at every width and on every machine.
Test(math, widths_and_machines_agree) {
  for (int op = 0; op < TH_MATH_UNARY_COUNT; op++) {
    same_bits(op, true, NULL, 1);
    same_bits(op, false, NULL, 1);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      same_bits(op, true, "haswell", 8);
      same_bits(op, false, "haswell", 8);
    }
#endif
  }
}

// ---- other machines ----

static void compile_all(const char *target, unsigned lanes) {
  for (int i = 0; i < 2; i++) {
    math_kernel k = {emit_unary, 0, math_type_f32, math_type_f32, 1, lanes};
    if (i == 1) {
      k.in_type = k.out_type = math_type_f64;
    }
    for (k.which = 0; k.which < TH_MATH_UNARY_COUNT; k.which++) {
      math_kernel_compile(ctx, &k, target);
    }
    k.emit = emit_binary;
    k.inputs = 2;
    for (k.which = 0; k.which < TH_MATH_BINARY_COUNT; k.which++) {
      math_kernel_compile(ctx, &k, target);
    }
  }
}

Test(math, compiles_for_ptx) {
  compile_all("sm_90", 1);
  compile_all("sm_90", 4);
}

Test(math, compiles_for_aarch64) { compile_all("aarch64", LANES); }

// Flags of the caller stay out of the inside and come back afterwards.
Test(math, ignores_fast_flags) {
  const th_target *target = NULL;
  th_codegen *codegen = NULL;
  cr_assert_eq(th_target_get(ctx, "host", &target), TH_OK);
  cr_assert_eq(th_codegen_new(ctx, target, &codegen), TH_OK);
  th_emit e;
  th_emit_init(&e, th_codegen_module(codegen, "m"), TH_EMIT_HOST);
  th_emit_function(&e, "f", e.f32, &e.f32, 1);
  e.float_flags = LLVMFastMathAllowContract;
  LLVMValueRef y = th_math_exp(&e, LLVMGetParam(e.function, 0));
  cr_expect_eq(e.float_flags, LLVMFastMathAllowContract);
  LLVMBuildRet(e.builder, th_emit_fadd(&e, y, y));
  char *text = LLVMPrintModuleToString(e.module);
  const char *flag = strstr(text, "contract");
  cr_assert_not_null(flag);
  cr_expect_null(strstr(flag + 1, "contract"), "%s", text);
  LLVMDisposeMessage(text);
  th_emit_deinit(&e);
  th_codegen_free(codegen);
}

// Division, shifts and powers of every integer type against the rules of
// integer.h written in C; small types exhaustively.
#include "lowering/integer.h"

#include "lowering/kernel.h"
#include "llvm/lower_kit.h"
#include "llvm/math_kernel.h"

#include <criterion/criterion.h>

#include <string.h>

enum { BLOCK = 65536 };

static th_context *ctx;

static void integer_setup(void) { ctx = th_context_new(); }
static void integer_teardown(void) { th_context_free(ctx); }

TestSuite(integer, .init = integer_setup, .fini = integer_teardown,
          .timeout = 300);

typedef enum operation {
  FLOOR_DIVIDE,
  TRUNC_DIVIDE,
  REMAINDER,
  FMOD,
  SHIFT_LEFT,
  SHIFT_RIGHT,
  POW,
  FAULT, // the lanes that a division reports
  OPERATIONS
} operation;

typedef struct kind {
  const char *name;
  int bits;
  bool is_unsigned;
} kind;

static const kind kinds[] = {
    {"u8", 8, true},    {"i8", 8, false},   {"i16", 16, false},
    {"i32", 32, false}, {"i64", 64, false},
};

// `which` is operation + OPERATIONS * kind.
static operation case_operation(int which) {
  return (operation)(which % OPERATIONS);
}
static const kind *case_kind(int which) { return &kinds[which / OPERATIONS]; }

static LLVMTypeRef type_of(th_emit *e, int which) {
  return LLVMIntTypeInContext(e->context, (unsigned)case_kind(which)->bits);
}

static LLVMValueRef emit_operation(th_emit *e, LLVMValueRef *in, int which) {
  operation op = case_operation(which);
  bool is_unsigned = case_kind(which)->is_unsigned;
  LLVMValueRef fault, v;
  switch (op) {
  case SHIFT_LEFT:
    return th_int_shift_left(e, in[0], in[1]);
  case SHIFT_RIGHT:
    return th_int_shift_right(e, in[0], in[1], is_unsigned);
  case POW:
    return th_int_pow(e, in[0], in[1], is_unsigned);
  case FAULT:
    th_int_divide(e, TH_INT_FMOD, in[0], in[1], is_unsigned, &fault);
    return th_emit_zext(e, fault, th_emit_type_element(LLVMTypeOf(in[0])));
  default:
    v = th_int_divide(e, (th_int_division)op, in[0], in[1], is_unsigned,
                      &fault);
    return v;
  }
}

// ---- the rules ----

static int64_t wrap(int64_t x, const kind *k) {
  if (k->bits == 64) {
    return x;
  }
  uint64_t low = (uint64_t)x & ((UINT64_C(1) << k->bits) - 1);
  bool minus = !k->is_unsigned && (low >> ((k->bits - 1) & 63)) != 0;
  return (int64_t)(minus ? low | (~UINT64_C(0) << k->bits) : low);
}

static int64_t want_division(operation op, int64_t a, int64_t b) {
  bool quotient = op == FLOOR_DIVIDE || op == TRUNC_DIVIDE;
  if (b == 0) {
    return op == FAULT;
  }
  if (op == FAULT) {
    return 0;
  }
  if (b == -1) {
    return quotient ? (int64_t)(0 - (uint64_t)a) : 0;
  }
  int64_t q = a / b, r = a % b;
  bool adjust = r != 0 && (r < 0) != (b < 0);
  if (quotient) {
    return op == FLOOR_DIVIDE ? q - adjust : q;
  }
  return op == REMAINDER && adjust ? r + b : r;
}

static int64_t want_pow(int64_t a, int64_t b) {
  if (b < 0) {
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  }
  uint64_t y = 1, x = (uint64_t)a;
  for (; b; b >>= 1, x *= x) {
    y *= b & 1 ? x : 1;
  }
  return (int64_t)y;
}

static int64_t want(int which, int64_t a, int64_t b) {
  const kind *k = case_kind(which);
  bool inside = b >= 0 && b < k->bits;
  switch (case_operation(which)) {
  case SHIFT_LEFT:
    return inside ? wrap((int64_t)((uint64_t)a << b), k) : 0;
  case SHIFT_RIGHT:
    return !inside ? -(a < 0) : a < 0 ? ~(~a >> b) : a >> b;
  case POW:
    return wrap(want_pow(a, b), k);
  default:
    return wrap(want_division(case_operation(which), a, b), k);
  }
}

// ---- samples ----

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// All pairs of 8 bits; of the others edges, small numbers and any.
static int64_t sample(const kind *k, size_t i, bool second) {
  if (k->bits == 8) {
    return wrap((int64_t)(second ? i / 256 : i % 256), k);
  }
  uint64_t bits = mix(2 * i + second);
  int64_t least = (int64_t)(~UINT64_C(0) << (k->bits - 1));
  const int64_t edges[] = {0, 1,     -1,        2,      -2,
                           3, least, least + 1, ~least, k->bits};
  switch (bits >> 62) {
  case 0:
    return edges[bits % TH_COUNT(edges)];
  case 1:
    return (int64_t)(bits % 201) - 100;
  default: // of any length
    return wrap((int64_t)(bits << 2) >> (bits % 61), k);
  }
}

static int64_t element(const kind *k, const unsigned char *bytes, size_t i) {
  uint64_t bits = 0;
  size_t size = (size_t)k->bits / 8;
  memcpy(&bits, bytes + i * size, size); // little endian
  return wrap((int64_t)bits, k);
}

static void check(int which, unsigned lanes, const char *target) {
  static unsigned char a[BLOCK * 8], b[BLOCK * 8], out[BLOCK * 8];
  const kind *k = case_kind(which);
  math_kernel kernel = {emit_operation, which, type_of, type_of, 2, lanes};
  th_code *code;
  math_kernel_fn fn = math_kernel_load(ctx, &kernel, target, &code);
  size_t size = (size_t)k->bits / 8;
  for (size_t i = 0; i < BLOCK; i++) {
    int64_t x = sample(k, i, false), y = sample(k, i, true);
    memcpy(a + i * size, &x, size);
    memcpy(b + i * size, &y, size);
  }
  fn(a, b, out, BLOCK);
  for (size_t i = 0; i < BLOCK; i++) {
    int64_t x = sample(k, i, false), y = sample(k, i, true);
    cr_expect_eq(element(k, out, i), want(which, x, y),
                 "operation %d of %s x %u: %lld, %lld gives %lld, want %lld",
                 (int)case_operation(which), k->name, lanes, (long long)x,
                 (long long)y, (long long)element(k, out, i),
                 (long long)want(which, x, y));
  }
  th_code_release(code);
}

enum { CASES = OPERATIONS * TH_COUNT(kinds) };

Test(integer, vectors) {
  for (int which = 0; which < CASES; which++) {
    check(which, 16, NULL);
  }
}

Test(integer, scalars) {
  for (int which = 0; which < CASES; which++) {
    check(which, 1, NULL);
  }
}

Test(integer, without_mask_registers) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    for (int which = 0; which < CASES; which++) {
      check(which, 8, "haswell");
    }
  }
#endif
}

Test(integer, compiles_elsewhere) {
  for (int which = 0; which < CASES; which++) {
    math_kernel k = {emit_operation, which, type_of, type_of, 2, 4};
    math_kernel_compile(ctx, &k, "sm_90");
    math_kernel_compile(ctx, &k, "aarch64");
  }
}

// A kernel stops at a division by zero and says so; lanes that do not exist
// divide nothing.
Test(integer, kernel_reports_division_by_zero) {
  enum { N = 75 };
  int32_t x[N], y[N];
  lower_kit kit;
  lower_kit_open(&kit, "def f(x, y):\n"
                       "  # x: \"cpu i32[75]\"\n"
                       "  # y: \"cpu i32[75]\"\n"
                       "  a = floor_divide(x, y)\n"
                       "  b = remainder(x, y)\n"
                       "  return {'output': (a, b)}\n");
  for (int i = 0; i < N; i++) {
    x[i] = i - 30;
    y[i] = i % 2 ? 4 : -7;
  }
  lower_kit_input(&kit, "x", x);
  lower_kit_input(&kit, "y", y);
  cr_assert(lower_kit_run(&kit));
  const int32_t *a = lower_kit_output(&kit, 0), *b = lower_kit_output(&kit, 1);
  for (int i = 0; i < N; i++) {
    cr_expect_eq(a[i], want_division(FLOOR_DIVIDE, x[i], y[i]));
    cr_expect_eq(b[i], want_division(REMAINDER, x[i], y[i]));
  }
  y[70] = 0;
  cr_expect_not(lower_kit_run(&kit));
  cr_expect_eq(kit.error.code, TH_KERNEL_DIVIDE);
  lower_kit_close(&kit);
}

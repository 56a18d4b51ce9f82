// Elementwise operations.  Floats compute in double and round to the dtype of
// the statement: for +, -, *, / and sqrt of f32 that is the f32 operation, as
// 53 bits are more than twice 24 and two.
#include "exec/ref.h"

#include "base/integer.h"

#include <math.h>

typedef double (*ref_unary_fn)(double x);
typedef int64_t (*ref_unary_int_fn)(int64_t x);

static double ref_sign(double x) { return (double)((x > 0) - (x < 0)); }
static double ref_neg(double x) { return -x; }
static double ref_rsqrt(double x) { return 1 / sqrt(x); }
static double ref_reciprocal(double x) { return 1 / x; }
static double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double ref_isnan(double x) { return isnan(x) != 0; }
static double ref_isinf(double x) { return isinf(x) != 0; }
static double ref_isfinite(double x) { return isfinite(x) != 0; }
static double ref_not(double x) { return x == 0; }

static int64_t ref_abs_int(int64_t x) {
  return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
}
static int64_t ref_neg_int(int64_t x) { return (int64_t)(0 - (uint64_t)x); }
static int64_t ref_sign_int(int64_t x) { return (x > 0) - (x < 0); }
static int64_t ref_same_int(int64_t x) { return x; }
static int64_t ref_bitwise_not(int64_t x) { return ~x; }
static int64_t ref_no_int(int64_t x) {
  (void)x;
  return 0;
}
static int64_t ref_yes_int(int64_t x) {
  (void)x;
  return 1;
}
static int64_t ref_not_int(int64_t x) { return x == 0; }

static const struct {
  ref_unary_fn f;
  ref_unary_int_fn i; // NULL: integers become floats first
} ref_unary[TH_OP_COUNT] = {
    [TH_OP_abs] = {fabs, ref_abs_int},
    [TH_OP_neg] = {ref_neg, ref_neg_int},
    [TH_OP_sign] = {ref_sign, ref_sign_int},
    [TH_OP_floor] = {floor, ref_same_int},
    [TH_OP_ceil] = {ceil, ref_same_int},
    [TH_OP_trunc] = {trunc, ref_same_int},
    [TH_OP_round] = {rint, ref_same_int},
    [TH_OP_bitwise_not] = {NULL, ref_bitwise_not},
    [TH_OP_exp] = {exp, NULL},
    [TH_OP_exp2] = {exp2, NULL},
    [TH_OP_expm1] = {expm1, NULL},
    [TH_OP_log] = {log, NULL},
    [TH_OP_log2] = {log2, NULL},
    [TH_OP_log10] = {log10, NULL},
    [TH_OP_log1p] = {log1p, NULL},
    [TH_OP_sqrt] = {sqrt, NULL},
    [TH_OP_rsqrt] = {ref_rsqrt, NULL},
    [TH_OP_reciprocal] = {ref_reciprocal, NULL},
    [TH_OP_sin] = {sin, NULL},
    [TH_OP_cos] = {cos, NULL},
    [TH_OP_tan] = {tan, NULL},
    [TH_OP_asin] = {asin, NULL},
    [TH_OP_acos] = {acos, NULL},
    [TH_OP_atan] = {atan, NULL},
    [TH_OP_sinh] = {sinh, NULL},
    [TH_OP_cosh] = {cosh, NULL},
    [TH_OP_tanh] = {tanh, NULL},
    [TH_OP_fast_tanh] = {tanh, NULL},
    [TH_OP_asinh] = {asinh, NULL},
    [TH_OP_acosh] = {acosh, NULL},
    [TH_OP_atanh] = {atanh, NULL},
    [TH_OP_erf] = {erf, NULL},
    [TH_OP_erfc] = {erfc, NULL},
    [TH_OP_sigmoid] = {ref_sigmoid, NULL},
    [TH_OP_isnan] = {ref_isnan, ref_no_int},
    [TH_OP_isinf] = {ref_isinf, ref_no_int},
    [TH_OP_isfinite] = {ref_isfinite, ref_yes_int},
    [TH_OP_logical_not] = {ref_not, ref_not_int},
};

// ---- operands

// Elements as doubles or as integers; both pointers are the same memory.
typedef struct ref_operand {
  bool is_float;
  const double *f;
  const int64_t *i;
} ref_operand;

// An operand (tensor or number) broadcast to the result, in dtype `via`.
static th_status ref_operand_of(th_run *run, uint32_t arg, const th_view *out,
                                th_dtype via, ref_operand *o) {
  const th_view *view = th_run_tensor(run, arg);
  double number = 0;
  int64_t integer = 0;
  int64_t none[1] = {1};
  th_view scalar = {.rank = 0, .dims = none, .strides = none};
  if (!view) {
    bool is_float = th_run_is_float(run, arg);
    number = th_run_float(run, arg);
    integer = th_run_int(run, arg);
    scalar.dtype = is_float ? TH_F64 : TH_I64;
    scalar.data = is_float ? (void *)&number : (void *)&integer;
    view = &scalar;
  }
  TH_TRY(th_ref_fits(run, view, out->rank, out->dims));
  void *data =
      th_ref_pack_to(run, view, out->rank, out->dims, via, th_ref_wide(via));
  if (!data) {
    return TH_NO_MEMORY;
  }
  *o = (ref_operand){th_ref_is_float(via), data, data};
  return TH_OK;
}

TH_REF(unary) {
  const th_view *out = th_run_out(run, 0);
  th_op op = run->stmt->op->op;
  th_dtype via = th_compute_dtype(run->stmt);
  ref_operand x = {0};
  int64_t n = th_ref_numel(out);
  TH_TRY(ref_operand_of(run, 0, out, via, &x));
  bool predicate = out->dtype == TH_BOOL;
  if (x.is_float) {
    double *r = th_ref_alloc(run, n, sizeof *r);
    if (!r) {
      return TH_NO_MEMORY;
    }
    for (int64_t i = 0; i < n; i++) {
      r[i] = ref_unary[op].f(x.f[i]);
    }
    th_ref_unpack(out, TH_F64, r, predicate ? TH_BOOL : via);
    return TH_OK;
  }
  int64_t *r = th_ref_alloc(run, n, sizeof *r);
  if (!r) {
    return TH_NO_MEMORY;
  }
  bool flip = op == TH_OP_bitwise_not && via == TH_BOOL;
  for (int64_t i = 0; i < n; i++) {
    r[i] = flip ? !x.i[i] : ref_unary[op].i(x.i[i]);
  }
  th_ref_unpack(out, TH_I64, r, predicate ? TH_BOOL : via);
  return TH_OK;
}

// ---- two operands

static double ref_maximum(double x, double y) {
  return isnan(x) || isnan(y) ? NAN : x > y ? x : y;
}
static double ref_minimum(double x, double y) {
  return isnan(x) || isnan(y) ? NAN : x < y ? x : y;
}

// Python's: the sign of y.
static double ref_remainder(double x, double y) {
  double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

// PyTorch's c10::div_floor_floating.
static double ref_floor_divide(double x, double y) {
  if (y == 0) {
    return x / y;
  }
  double mod = fmod(x, y);
  double div = (x - mod) / y;
  if (mod != 0 && (y < 0) != (mod < 0)) {
    div -= 1;
  }
  if (div == 0) {
    return copysign(0, x / y);
  }
  double rounded = floor(div);
  return div - rounded > 0.5 ? rounded + 1 : rounded;
}

static double ref_binary_float(th_op op, double x, double y) {
  switch (op) {
  case TH_OP_add:
    return x + y;
  case TH_OP_sub:
    return x - y;
  case TH_OP_mul:
    return x * y;
  case TH_OP_div:
    return x / y;
  case TH_OP_floor_divide:
    return ref_floor_divide(x, y);
  case TH_OP_trunc_divide:
    return trunc(x / y);
  case TH_OP_remainder:
    return ref_remainder(x, y);
  case TH_OP_fmod:
    return fmod(x, y);
  case TH_OP_pow:
    return pow(x, y);
  case TH_OP_atan2:
    return atan2(x, y);
  case TH_OP_hypot:
    return hypot(x, y);
  case TH_OP_copysign:
    return copysign(x, y);
  case TH_OP_maximum:
    return ref_maximum(x, y);
  case TH_OP_minimum:
    return ref_minimum(x, y);
  case TH_OP_fmax:
    return fmax(x, y);
  case TH_OP_fmin:
    return fmin(x, y);
  case TH_OP_eq:
    return x == y;
  case TH_OP_ne:
    return x != y;
  case TH_OP_lt:
    return x < y;
  case TH_OP_le:
    return x <= y;
  case TH_OP_gt:
    return x > y;
  case TH_OP_ge:
    return x >= y;
  default:
    return NAN;
  }
}

// x ** number, for the numbers that PyTorch writes as products and roots.
static bool ref_pow_number(double x, double p, double *out) {
  if (p == 0.5 || p == -0.5) {
    *out = p > 0 ? sqrt(x) : 1 / sqrt(x);
  } else if (p == 3) {
    *out = x * x * x;
  } else if (p == 2 || p == -2) {
    *out = p > 0 ? x * x : 1 / (x * x);
  } else {
    return false;
  }
  return true;
}

static int64_t ref_shift_left(int64_t x, int64_t y, int bits) {
  return y < 0 || y >= bits ? 0 : (int64_t)((uint64_t)x << y);
}

static int64_t ref_shift_right(int64_t x, int64_t y, int bits) {
  return x >> (y < 0 || y >= bits ? bits - 1 : y);
}

static int64_t ref_divide_int(th_op op, int64_t x, int64_t y) {
  switch (op) {
  case TH_OP_floor_divide:
    return th_int_floordiv(x, y);
  case TH_OP_remainder:
    return th_int_mod(x, y);
  case TH_OP_trunc_divide: // the least integer has no positive twin: it wraps
    return y == -1 ? th_int_floordiv(x, y) : x / y;
  default:
    return y == -1 ? 0 : x % y;
  }
}

static int64_t ref_binary_int(th_op op, int64_t x, int64_t y, int bits) {
  switch (op) {
  case TH_OP_add:
    return (int64_t)((uint64_t)x + (uint64_t)y);
  case TH_OP_sub:
    return (int64_t)((uint64_t)x - (uint64_t)y);
  case TH_OP_mul:
    return (int64_t)((uint64_t)x * (uint64_t)y);
  case TH_OP_floor_divide:
  case TH_OP_trunc_divide:
  case TH_OP_remainder:
  case TH_OP_fmod:
    return ref_divide_int(op, x, y);
  case TH_OP_pow:
    return th_int_pow(x, y);
  case TH_OP_maximum:
  case TH_OP_fmax:
    return x > y ? x : y;
  case TH_OP_minimum:
  case TH_OP_fmin:
    return x < y ? x : y;
  case TH_OP_bitwise_and:
    return x & y;
  case TH_OP_bitwise_or:
    return x | y;
  case TH_OP_bitwise_xor:
    return x ^ y;
  case TH_OP_shift_left:
    return ref_shift_left(x, y, bits);
  case TH_OP_shift_right:
    return ref_shift_right(x, y, bits);
  case TH_OP_eq:
    return x == y;
  case TH_OP_ne:
    return x != y;
  case TH_OP_lt:
    return x < y;
  case TH_OP_le:
    return x <= y;
  case TH_OP_gt:
    return x > y;
  case TH_OP_ge:
    return x >= y;
  case TH_OP_logical_and:
    return x && y;
  case TH_OP_logical_or:
    return x || y;
  case TH_OP_logical_xor:
    return !x != !y;
  default:
    return 0;
  }
}

static bool ref_divides(th_op op) {
  return op == TH_OP_floor_divide || op == TH_OP_trunc_divide ||
         op == TH_OP_remainder || op == TH_OP_fmod;
}

static th_status ref_binary_ints(th_run *run, const th_view *out, th_op op,
                                 th_dtype via, const ref_operand *x,
                                 const ref_operand *y) {
  int64_t n = th_ref_numel(out);
  int bits = (int)th_dtype_size(via) * 8;
  int64_t *r = th_ref_alloc(run, n, sizeof *r);
  if (!r) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < n; i++) {
    if (ref_divides(op) && y->i[i] == 0) {
      return th_run_error(run, TH_INVALID, "integer division by zero");
    }
    r[i] = ref_binary_int(op, x->i[i], y->i[i], bits);
  }
  th_ref_unpack(out, TH_I64, r, out->dtype == TH_BOOL ? TH_BOOL : via);
  return TH_OK;
}

TH_REF(binary) {
  const th_view *out = th_run_out(run, 0);
  th_op op = run->stmt->op->op;
  th_dtype via = th_compute_dtype(run->stmt);
  ref_operand x = {0}, y = {0};
  TH_TRY(ref_operand_of(run, 0, out, via, &x));
  TH_TRY(ref_operand_of(run, 1, out, via, &y));
  if (!x.is_float) {
    return ref_binary_ints(run, out, op, via, &x, &y);
  }
  int64_t n = th_ref_numel(out);
  double *r = th_ref_alloc(run, n, sizeof *r);
  if (!r) {
    return TH_NO_MEMORY;
  }
  bool is_power = op == TH_OP_pow && !th_run_tensor(run, 1);
  for (int64_t i = 0; i < n; i++) {
    if (!is_power || !ref_pow_number(x.f[i], y.f[i], &r[i])) {
      r[i] = ref_binary_float(op, x.f[i], y.f[i]);
    }
  }
  th_ref_unpack(out, TH_F64, r, out->dtype == TH_BOOL ? TH_BOOL : via);
  return TH_OK;
}

TH_REF(where) {
  const th_view *out = th_run_out(run, 0);
  th_dtype via = out->dtype;
  ref_operand c = {0}, x = {0}, y = {0};
  TH_TRY(ref_operand_of(run, 0, out, TH_BOOL, &c));
  TH_TRY(ref_operand_of(run, 1, out, via, &x));
  TH_TRY(ref_operand_of(run, 2, out, via, &y));
  int64_t n = th_ref_numel(out);
  int64_t *r = th_ref_alloc(run, n, sizeof *r);
  if (!r) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < n; i++) { // bits: doubles and integers alike
    r[i] = c.i[i] ? x.i[i] : y.i[i];
  }
  th_ref_unpack(out, th_ref_wide(via), r, via);
  return TH_OK;
}

TH_REF(to) {
  const th_view *out = th_run_out(run, 0);
  ref_operand x = {0};
  const th_view *from = th_run_tensor(run, 0);
  th_dtype via =
      from ? from->dtype : (th_run_is_float(run, 0) ? TH_F64 : TH_I64);
  TH_TRY(ref_operand_of(run, 0, out, via, &x));
  th_ref_unpack(out, th_ref_wide(via), x.i, via);
  return TH_OK;
}

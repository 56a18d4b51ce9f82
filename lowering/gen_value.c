// Dtypes in registers, and the elementwise operations.
#include "lowering/gen.h"

#include "lowering/convert.h"
#include "lowering/integer.h"
#include "lowering/kernel.h"
#include "lowering/math.h"

#include <math.h>

// ---- registers and memory

LLVMTypeRef th_gen_register(const th_gen *g, th_dtype dtype) {
  return th_convert_register_type(&g->e, dtype);
}

LLVMTypeRef th_gen_memory(const th_gen *g, th_dtype dtype) {
  return th_convert_memory_type(&g->e, dtype);
}

LLVMValueRef th_gen_widen(th_gen *g, LLVMValueRef value) {
  bool scalar = th_emit_type_lanes(LLVMTypeOf(value)) == 1;
  return scalar ? th_emit_splat(&g->e, value, g->lanes) : value;
}

static LLVMTypeRef value_like(LLVMValueRef v, LLVMTypeRef element) {
  return th_emit_type_like(LLVMTypeOf(v), element);
}

// ---- elementwise, floats

typedef struct value_unary {
  th_op op;
  th_math_unary_op math;
} value_unary;

static const value_unary value_unaries[] = {
    {TH_OP_abs, TH_MATH_abs},
    {TH_OP_neg, TH_MATH_neg},
    {TH_OP_sign, TH_MATH_sign},
    {TH_OP_floor, TH_MATH_floor},
    {TH_OP_ceil, TH_MATH_ceil},
    {TH_OP_trunc, TH_MATH_trunc},
    {TH_OP_round, TH_MATH_round},
    {TH_OP_exp, TH_MATH_exp},
    {TH_OP_exp2, TH_MATH_exp2},
    {TH_OP_expm1, TH_MATH_expm1},
    {TH_OP_log, TH_MATH_log},
    {TH_OP_log2, TH_MATH_log2},
    {TH_OP_log10, TH_MATH_log10},
    {TH_OP_log1p, TH_MATH_log1p},
    {TH_OP_sqrt, TH_MATH_sqrt},
    {TH_OP_rsqrt, TH_MATH_rsqrt},
    {TH_OP_sin, TH_MATH_sin},
    {TH_OP_cos, TH_MATH_cos},
    {TH_OP_tan, TH_MATH_tan},
    {TH_OP_asin, TH_MATH_asin},
    {TH_OP_acos, TH_MATH_acos},
    {TH_OP_atan, TH_MATH_atan},
    {TH_OP_sinh, TH_MATH_sinh},
    {TH_OP_cosh, TH_MATH_cosh},
    {TH_OP_tanh, TH_MATH_tanh},
    {TH_OP_asinh, TH_MATH_asinh},
    {TH_OP_acosh, TH_MATH_acosh},
    {TH_OP_atanh, TH_MATH_atanh},
    {TH_OP_erf, TH_MATH_erf},
    {TH_OP_erfc, TH_MATH_erfc},
    {TH_OP_sigmoid, TH_MATH_sigmoid},
    {TH_OP_reciprocal, TH_MATH_reciprocal},
    {TH_OP_fast_tanh, TH_MATH_tanh_rational},
};

typedef struct value_binary {
  th_op op;
  th_math_binary_op math;
} value_binary;

static const value_binary value_binaries[] = {
    {TH_OP_pow, TH_MATH_pow},
    {TH_OP_atan2, TH_MATH_atan2},
    {TH_OP_fmod, TH_MATH_fmod},
    {TH_OP_remainder, TH_MATH_remainder},
    {TH_OP_floor_divide, TH_MATH_floor_divide},
    {TH_OP_hypot, TH_MATH_hypot},
    {TH_OP_fmin, TH_MATH_fmin},
    {TH_OP_fmax, TH_MATH_fmax},
    {TH_OP_minimum, TH_MATH_minimum},
    {TH_OP_maximum, TH_MATH_maximum},
};

// 0 for NaN, unlike th_math_sign.
static LLVMValueRef value_sign(th_emit *e, LLVMValueRef v) {
  LLVMValueRef zero = th_emit_float(e, v, 0);
  LLVMValueRef more = th_emit_fcmp(e, LLVMRealOGT, v, zero);
  LLVMValueRef less = th_emit_fcmp(e, LLVMRealOLT, v, zero);
  LLVMValueRef one = th_emit_float(e, v, 1), minus = th_emit_float(e, v, -1);
  return th_emit_select(e, more, one, th_emit_select(e, less, minus, zero));
}

static LLVMValueRef value_infinite(th_emit *e, LLVMValueRef v,
                                   LLVMRealPredicate p) {
  return th_emit_fcmp(e, p, th_emit_fabs(e, v), th_emit_float(e, v, INFINITY));
}

// x ** number: what PyTorch writes as products and roots.
static LLVMValueRef value_pow_number(th_gen *g, const th_node *node,
                                     LLVMValueRef x) {
  const th_node *by = node->args[1];
  if (by->kind != TH_NODE_NUMBER || !th_is_const(by->expr)) {
    return NULL;
  }
  th_emit *e = &g->e;
  double p = by->expr->dtype == TH_F64 ? by->expr->f : (double)by->expr->i;
  if (p == 2) {
    return th_emit_fmul(e, x, x);
  }
  if (p == 3) {
    return th_emit_fmul(e, th_emit_fmul(e, x, x), x);
  }
  if (p == 0.5) {
    return th_emit_sqrt(e, x);
  }
  if (p == -0.5) {
    return th_math_rsqrt(e, x);
  }
  if (p == -1) {
    return th_math_reciprocal(e, x);
  }
  return p == -2 ? th_math_reciprocal(e, th_emit_fmul(e, x, x)) : NULL;
}

static LLVMRealPredicate value_real_predicate(th_op op) {
  switch (op) {
  case TH_OP_eq:
    return LLVMRealOEQ;
  case TH_OP_ne:
    return LLVMRealUNE;
  case TH_OP_lt:
    return LLVMRealOLT;
  case TH_OP_le:
    return LLVMRealOLE;
  case TH_OP_gt:
    return LLVMRealOGT;
  case TH_OP_ge:
    return LLVMRealOGE;
  default:
    return LLVMRealPredicateFalse;
  }
}

static LLVMValueRef value_float_simple(th_gen *g, const th_node *node,
                                       LLVMValueRef *a) {
  th_emit *e = &g->e;
  switch (node->op) {
  case TH_OP_add:
    return th_emit_fadd(e, a[0], a[1]);
  case TH_OP_sub:
    return th_emit_fsub(e, a[0], a[1]);
  case TH_OP_mul:
    return th_emit_fmul(e, a[0], a[1]);
  case TH_OP_div:
    return th_emit_fdiv(e, a[0], a[1]);
  case TH_OP_trunc_divide:
    return th_emit_trunc(e, th_emit_fdiv(e, a[0], a[1]));
  case TH_OP_copysign:
    return th_emit_copysign(e, a[0], a[1]);
  case TH_OP_sign:
    return value_sign(e, a[0]);
  case TH_OP_isnan:
    return th_emit_is_nan(e, a[0]);
  case TH_OP_isinf:
    return value_infinite(e, a[0], LLVMRealOEQ);
  case TH_OP_isfinite:
    return value_infinite(e, a[0], LLVMRealOLT);
  case TH_OP_pow:
    return value_pow_number(g, node, a[0]);
  default: {
    LLVMRealPredicate p = value_real_predicate(node->op);
    return p ? th_emit_fcmp(e, p, a[0], a[1]) : NULL;
  }
  }
}

static LLVMValueRef value_float(th_gen *g, const th_node *node,
                                LLVMValueRef *a) {
  LLVMValueRef v = value_float_simple(g, node, a);
  for (size_t i = 0; !v && i < TH_COUNT(value_unaries); i++) {
    if (value_unaries[i].op == node->op) {
      v = th_math_unary(&g->e, value_unaries[i].math, a[0]);
    }
  }
  for (size_t i = 0; !v && i < TH_COUNT(value_binaries); i++) {
    if (value_binaries[i].op == node->op) {
      v = th_math_binary(&g->e, value_binaries[i].math, a[0], a[1]);
    }
  }
  return v;
}

// ---- elementwise, integers and booleans

static bool value_int_predicate(th_op op, bool is_unsigned,
                                LLVMIntPredicate *out) {
  switch (op) {
  case TH_OP_eq:
    *out = LLVMIntEQ;
    return true;
  case TH_OP_ne:
    *out = LLVMIntNE;
    return true;
  case TH_OP_lt:
    *out = is_unsigned ? LLVMIntULT : LLVMIntSLT;
    return true;
  case TH_OP_le:
    *out = is_unsigned ? LLVMIntULE : LLVMIntSLE;
    return true;
  case TH_OP_gt:
    *out = is_unsigned ? LLVMIntUGT : LLVMIntSGT;
    return true;
  case TH_OP_ge:
    *out = is_unsigned ? LLVMIntUGE : LLVMIntSGE;
    return true;
  default:
    return false;
  }
}

static LLVMValueRef value_bool(th_gen *g, const th_node *node,
                               LLVMValueRef *a) {
  th_emit *e = &g->e;
  switch (node->op) {
  case TH_OP_add:
  case TH_OP_maximum:
  case TH_OP_fmax:
  case TH_OP_bitwise_or:
  case TH_OP_logical_or:
    return th_emit_or(e, a[0], a[1]);
  case TH_OP_mul:
  case TH_OP_minimum:
  case TH_OP_fmin:
  case TH_OP_bitwise_and:
  case TH_OP_logical_and:
    return th_emit_and(e, a[0], a[1]);
  case TH_OP_bitwise_xor:
  case TH_OP_logical_xor:
    return th_emit_xor(e, a[0], a[1]);
  case TH_OP_bitwise_not:
  case TH_OP_logical_not:
    return th_emit_not(e, a[0]);
  case TH_OP_abs:
  case TH_OP_sign:
    return a[0];
  default:
    return NULL;
  }
}

static LLVMValueRef value_int_sign(th_emit *e, LLVMValueRef x) {
  LLVMValueRef zero = th_emit_int(e, x, 0);
  LLVMValueRef more = th_emit_icmp(e, LLVMIntSGT, x, zero);
  LLVMValueRef less = th_emit_icmp(e, LLVMIntSLT, x, zero);
  LLVMValueRef one = th_emit_int(e, x, 1), minus = th_emit_int(e, x, -1);
  return th_emit_select(e, more, one, th_emit_select(e, less, minus, zero));
}

static LLVMValueRef value_unsigned_sign(th_emit *e, LLVMValueRef x) {
  LLVMValueRef zero = th_emit_int(e, x, 0), one = th_emit_int(e, x, 1);
  return th_emit_select(e, th_emit_icmp(e, LLVMIntNE, x, zero), one, zero);
}

static LLVMValueRef value_int_simple(th_gen *g, const th_node *node,
                                     LLVMValueRef *a, bool is_unsigned) {
  th_emit *e = &g->e;
  LLVMIntPredicate less = is_unsigned ? LLVMIntULT : LLVMIntSLT;
  switch (node->op) {
  case TH_OP_add:
    return th_emit_add(e, a[0], a[1]);
  case TH_OP_sub:
    return th_emit_sub(e, a[0], a[1]);
  case TH_OP_mul:
    return th_emit_mul(e, a[0], a[1]);
  case TH_OP_bitwise_and:
    return th_emit_and(e, a[0], a[1]);
  case TH_OP_bitwise_or:
    return th_emit_or(e, a[0], a[1]);
  case TH_OP_bitwise_xor:
    return th_emit_xor(e, a[0], a[1]);
  case TH_OP_bitwise_not:
    return th_emit_not(e, a[0]);
  case TH_OP_neg:
    return th_emit_sub(e, th_emit_int(e, a[0], 0), a[0]);
  case TH_OP_maximum:
  case TH_OP_fmax:
    return th_emit_select(e, th_emit_icmp(e, less, a[0], a[1]), a[1], a[0]);
  case TH_OP_minimum:
  case TH_OP_fmin:
    return th_emit_select(e, th_emit_icmp(e, less, a[1], a[0]), a[1], a[0]);
  case TH_OP_abs: {
    LLVMValueRef zero = th_emit_int(e, a[0], 0);
    LLVMValueRef negative = th_emit_icmp(e, less, a[0], zero);
    return th_emit_select(e, negative, th_emit_sub(e, zero, a[0]), a[0]);
  }
  case TH_OP_sign:
    return is_unsigned ? value_unsigned_sign(e, a[0]) : value_int_sign(e, a[0]);
  case TH_OP_floor:
  case TH_OP_ceil:
  case TH_OP_trunc:
  case TH_OP_round:
    return a[0];
  case TH_OP_isnan:
  case TH_OP_isinf:
    return LLVMConstNull(value_like(a[0], e->i1));
  case TH_OP_isfinite:
    return LLVMConstAllOnes(value_like(a[0], e->i1));
  default: {
    LLVMIntPredicate p = LLVMIntEQ;
    return value_int_predicate(node->op, is_unsigned, &p)
               ? th_emit_icmp(e, p, a[0], a[1])
               : NULL;
  }
  }
}

static LLVMValueRef value_int_divide(th_gen *g, const th_node *node,
                                     LLVMValueRef *a, th_int_division which,
                                     bool is_unsigned) {
  LLVMValueRef fault;
  LLVMValueRef v = th_int_divide(&g->e, which, a[0], a[1], is_unsigned, &fault);
  LLVMValueRef zero = th_emit_i64(&g->e, 0);
  th_gen_check(g, fault, node->stmt, TH_KERNEL_DIVIDE, zero, zero);
  return v;
}

// Operations whose plain form is undefined for some operands.
static LLVMValueRef value_int_defined(th_gen *g, const th_node *node,
                                      LLVMValueRef *a, bool is_unsigned) {
  th_emit *e = &g->e;
  switch (node->op) {
  case TH_OP_floor_divide:
    return value_int_divide(g, node, a, TH_INT_FLOOR_DIVIDE, is_unsigned);
  case TH_OP_trunc_divide:
    return value_int_divide(g, node, a, TH_INT_TRUNC_DIVIDE, is_unsigned);
  case TH_OP_remainder:
    return value_int_divide(g, node, a, TH_INT_REMAINDER, is_unsigned);
  case TH_OP_fmod:
    return value_int_divide(g, node, a, TH_INT_FMOD, is_unsigned);
  case TH_OP_pow:
    return th_int_pow(e, a[0], a[1], is_unsigned);
  case TH_OP_shift_left:
    return th_int_shift_left(e, a[0], a[1]);
  case TH_OP_shift_right:
    return th_int_shift_right(e, a[0], a[1], is_unsigned);
  default:
    return NULL;
  }
}

static LLVMValueRef value_int(th_gen *g, const th_node *node, LLVMValueRef *a,
                              th_dtype dtype) {
  bool is_unsigned = dtype == TH_U8 || dtype == TH_BOOL;
  LLVMValueRef v = dtype == TH_BOOL
                       ? value_bool(g, node, a)
                       : value_int_defined(g, node, a, is_unsigned);
  return v ? v : value_int_simple(g, node, a, is_unsigned);
}

// ---- all of them

LLVMValueRef th_gen_apply(th_gen *g, const th_node *node, LLVMValueRef *args) {
  LLVMValueRef a[4] = {NULL};
  bool vector = false;
  TH_ASSERT(node->arg_count <= TH_COUNT(a));
  for (uint32_t i = 0; i < node->arg_count; i++) {
    vector = vector || th_emit_type_lanes(LLVMTypeOf(args[i])) > 1;
  }
  for (uint32_t i = 0; i < node->arg_count; i++) {
    a[i] = vector ? th_gen_widen(g, args[i]) : args[i];
  }
  if (node->op == TH_OP_where) {
    return th_emit_select(&g->e, a[0], a[1], a[2]);
  }
  th_dtype dtype = node->args[0]->dtype;
  LLVMValueRef v = th_dtype_is_float(dtype) ? value_float(g, node, a)
                                            : value_int(g, node, a, dtype);
  if (!v) {
    th_nest_fail(g->nest, g->nest->kernel->body[node->stmt],
                 "%s of %s has no code", th_op_row(node->op)->name,
                 th_dtype_name(dtype));
    return LLVMConstNull(value_like(a[0], th_gen_register(g, node->dtype)));
  }
  return th_convert_round(&g->e, v, node->dtype);
}

// Index expressions and conditions as LLVM values.
//
// Integers wrap; division and remainder round down as in Python, with a shift
// or an unsigned form where the sign is known.
#include "lowering/gen.h"

#include "lowering/convert.h"
#include "lowering/integer.h"
#include "lowering/math.h"

bool th_gen_varies(const th_gen *g, th_var_set depends) {
  return g->lane >= 0 && (depends >> g->lane & 1);
}

static void expr_same_lanes(th_gen *g, LLVMValueRef *a, LLVMValueRef *b) {
  unsigned la = th_emit_type_lanes(LLVMTypeOf(*a));
  unsigned lb = th_emit_type_lanes(LLVMTypeOf(*b));
  if (la < lb) {
    *a = th_emit_splat(&g->e, *a, lb);
  } else if (lb < la) {
    *b = th_emit_splat(&g->e, *b, la);
  }
}

static bool expr_not_negative(const th_gen *g, const th_expr *e) {
  return th_space_known(&g->nest->space, TH_X_LE, th_int(g->nest->ir, 0), e) ==
         1;
}

// Rounds down: the truncated quotient less one where signs differ.
static LLVMValueRef expr_floordiv(th_gen *g, const th_expr *e, LLVMValueRef a,
                                  LLVMValueRef b, bool want_rest) {
  th_emit *m = &g->e;
  LLVMBuilderRef builder = m->builder;
  bool positive = th_is_const(e->args[1]) && e->args[1]->i > 0;
  if (!positive) { // a size of 0 has no elements, but code may run ahead
    LLVMValueRef zero = th_emit_int(m, b, 0), one = th_emit_int(m, b, 1);
    b = th_emit_select(m, th_emit_icmp(m, LLVMIntEQ, b, zero), one, b);
    positive = expr_not_negative(g, e->args[1]);
  }
  if (positive && expr_not_negative(g, e->args[0])) {
    return want_rest ? LLVMBuildURem(builder, a, b, "")
                     : LLVMBuildUDiv(builder, a, b, "");
  }
  LLVMValueRef q = LLVMBuildSDiv(builder, a, b, "");
  LLVMValueRef r = th_emit_sub(m, a, th_emit_mul(m, q, b));
  LLVMValueRef zero = th_emit_int(m, r, 0);
  LLVMValueRef uneven = th_emit_icmp(m, LLVMIntNE, r, zero);
  LLVMValueRef differ = th_emit_icmp(m, LLVMIntSLT, th_emit_xor(m, r, b), zero);
  LLVMValueRef off = th_emit_and(m, uneven, differ);
  return want_rest ? th_emit_select(m, off, th_emit_add(m, r, b), r)
                   : th_emit_select(m, off,
                                    th_emit_sub(m, q, th_emit_int(m, q, 1)), q);
}

static LLVMValueRef expr_symbol(th_gen *g, const th_expr *e, bool base) {
  const th_space *s = &g->nest->space;
  int var = th_space_find_var(s, e);
  if (var >= 0) {
    LLVMValueRef value = g->vars[var];
    if (base || var != g->lane || g->lanes == 1) {
      return value;
    }
    LLVMValueRef first = th_emit_splat(&g->e, value, g->lanes);
    return th_emit_add(&g->e, first, th_emit_iota(&g->e, g->e.i64, g->lanes));
  }
  const th_opaque *opaque = th_space_find_opaque(s, e);
  if (opaque) {
    return th_gen_node(g, opaque->node);
  }
  for (uint32_t i = 0; i < g->nest->symbol_count; i++) {
    if (g->nest->symbols_here[i] == e) {
      return g->symbols[i];
    }
  }
  TH_ASSERT(!"a symbol of nobody");
  return NULL;
}

static LLVMValueRef expr_constant(th_gen *g, const th_expr *e) {
  switch (e->dtype) {
  case TH_F64:
    return th_emit_const_float(&g->e, g->e.f64, e->f);
  case TH_BOOL:
    return th_emit_const_int(&g->e, g->e.i1, e->i != 0);
  default:
    return th_emit_i64(&g->e, e->i);
  }
}

static LLVMValueRef expr_as(th_gen *g, LLVMValueRef v, th_dtype from,
                            th_dtype to) {
  return from == to ? v : th_convert(&g->e, v, from, to);
}

static LLVMValueRef expr_float_op(th_gen *g, const th_expr *e, LLVMValueRef a,
                                  LLVMValueRef b) {
  th_emit *m = &g->e;
  switch (e->op) {
  case TH_X_ADD:
    return th_emit_fadd(m, a, b);
  case TH_X_MUL:
    return th_emit_fmul(m, a, b);
  case TH_X_DIV:
    return th_emit_fdiv(m, a, b);
  case TH_X_POW:
    return th_math_pow(m, a, b);
  case TH_X_FLOORDIV:
    return th_emit_floor(m, th_emit_fdiv(m, a, b));
  case TH_X_MIN:
    return th_emit_select(m, th_emit_fcmp(m, LLVMRealOLT, a, b), a, b);
  case TH_X_MAX:
    return th_emit_select(m, th_emit_fcmp(m, LLVMRealOGT, a, b), a, b);
  case TH_X_EQ:
    return th_emit_fcmp(m, LLVMRealOEQ, a, b);
  case TH_X_NE:
    return th_emit_fcmp(m, LLVMRealUNE, a, b);
  case TH_X_LT:
    return th_emit_fcmp(m, LLVMRealOLT, a, b);
  case TH_X_LE:
    return th_emit_fcmp(m, LLVMRealOLE, a, b);
  default:
    th_nest_fail(g->nest, NULL, "a number with '%d' in it", (int)e->op);
    return a;
  }
}

static LLVMValueRef expr_int_op(th_gen *g, const th_expr *e, LLVMValueRef a,
                                LLVMValueRef b) {
  th_emit *m = &g->e;
  switch (e->op) {
  case TH_X_ADD:
    return th_emit_add(m, a, b);
  case TH_X_MUL:
    return th_emit_mul(m, a, b);
  case TH_X_FLOORDIV:
    return expr_floordiv(g, e, a, b, false);
  case TH_X_MOD:
    return expr_floordiv(g, e, a, b, true);
  case TH_X_POW:
    return th_int_pow(m, a, b, false);
  case TH_X_MIN:
    return th_emit_select(m, th_emit_icmp(m, LLVMIntSLT, a, b), a, b);
  case TH_X_MAX:
    return th_emit_select(m, th_emit_icmp(m, LLVMIntSGT, a, b), a, b);
  case TH_X_EQ:
    return th_emit_icmp(m, LLVMIntEQ, a, b);
  case TH_X_NE:
    return th_emit_icmp(m, LLVMIntNE, a, b);
  case TH_X_LT:
    return th_emit_icmp(m, LLVMIntSLT, a, b);
  case TH_X_LE:
    return th_emit_icmp(m, LLVMIntSLE, a, b);
  case TH_X_AND:
    return th_emit_and(m, a, b);
  case TH_X_OR:
    return th_emit_or(m, a, b);
  default:
    th_nest_fail(g->nest, NULL, "a number with '%d' in it", (int)e->op);
    return a;
  }
}

static LLVMValueRef expr_unary(th_gen *g, const th_expr *e, LLVMValueRef a) {
  th_emit *m = &g->e;
  switch (e->op) {
  case TH_X_NOT:
    return th_emit_not(m, expr_as(g, a, e->args[0]->dtype, TH_BOOL));
  case TH_X_FLOAT:
    return expr_as(g, a, e->args[0]->dtype, TH_F64);
  case TH_X_SQRT:
    return th_emit_sqrt(m, expr_as(g, a, e->args[0]->dtype, TH_F64));
  case TH_X_TRUNC:
    return expr_as(g, a, e->args[0]->dtype, TH_I64);
  case TH_X_FLOOR:
    return th_convert(&g->e, th_emit_floor(m, a), TH_F64, TH_I64);
  case TH_X_CEIL:
    return th_convert(&g->e, th_emit_ceil(m, a), TH_F64, TH_I64);
  case TH_X_ROUND:
    return th_convert(&g->e, th_emit_rint(m, a), TH_F64, TH_I64);
  default:
    th_nest_fail(g->nest, NULL, "a number with '%d' in it", (int)e->op);
    return a;
  }
}

static LLVMValueRef expr_emit(th_gen *g, const th_expr *e, bool base);

static LLVMValueRef expr_fold(th_gen *g, const th_expr *e, bool base) {
  bool logic = e->op == TH_X_AND || e->op == TH_X_OR;
  bool is_float = e->op == TH_X_DIV;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    is_float = is_float || e->args[i]->dtype == TH_F64;
  }
  th_dtype common = logic ? TH_BOOL : is_float ? TH_F64 : TH_I64;
  LLVMValueRef a =
      expr_as(g, expr_emit(g, e->args[0], base), e->args[0]->dtype, common);
  for (uint32_t i = 1; i < e->arg_count; i++) {
    LLVMValueRef b =
        expr_as(g, expr_emit(g, e->args[i], base), e->args[i]->dtype, common);
    expr_same_lanes(g, &a, &b);
    a = is_float && !logic ? expr_float_op(g, e, a, b)
                           : expr_int_op(g, e, a, b);
  }
  return a;
}

static LLVMValueRef expr_emit(th_gen *g, const th_expr *e, bool base) {
  if (e->op == TH_X_CONST) {
    return expr_constant(g, e);
  }
  if (e->op == TH_X_SYM) {
    return expr_symbol(g, e, base);
  }
  if (e->op == TH_X_ITE) {
    LLVMValueRef c = expr_emit(g, e->args[0], base);
    LLVMValueRef a =
        expr_as(g, expr_emit(g, e->args[1], base), e->args[1]->dtype, e->dtype);
    LLVMValueRef b =
        expr_as(g, expr_emit(g, e->args[2], base), e->args[2]->dtype, e->dtype);
    c = expr_as(g, c, e->args[0]->dtype, TH_BOOL);
    expr_same_lanes(g, &a, &b);
    expr_same_lanes(g, &a, &c);
    expr_same_lanes(g, &a, &b);
    return th_emit_select(&g->e, c, a, b);
  }
  if (e->arg_count == 1) {
    return expr_unary(g, e, expr_emit(g, e->args[0], base));
  }
  return expr_fold(g, e, base);
}

LLVMValueRef th_gen_expr(th_gen *g, const th_expr *e) {
  return expr_emit(g, e, false);
}

LLVMValueRef th_gen_expr_base(th_gen *g, const th_expr *e) {
  return expr_emit(g, e, true);
}

// See integer.h.  Division of vectors goes through floats that hold every
// operand: a quotient of n-bit integers is at least 2^-n away from the next
// whole number, relatively, so rounding cannot carry it there.  CPUs have no
// integer division of vectors.
#include "lowering/integer.h"

#include "base/context.h"

static unsigned int_width(LLVMValueRef a) {
  return LLVMGetIntTypeWidth(th_emit_type_element(LLVMTypeOf(a)));
}

static LLVMValueRef int_through_float(th_emit *e, LLVMValueRef a,
                                      LLVMValueRef b, bool is_unsigned) {
  LLVMTypeRef element = int_width(a) <= 16 ? e->f32 : e->f64;
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMTypeRef real = th_emit_type_like(type, element);
  // To and from i32, which every CPU converts; 8 and 16 bits it does not.
  LLVMTypeRef whole = th_emit_type_like(type, e->i32);
  LLVMBuilderRef builder = e->builder;
  a = LLVMBuildIntCast2(builder, a, whole, !is_unsigned, "");
  b = LLVMBuildIntCast2(builder, b, whole, !is_unsigned, "");
  LLVMValueRef x = LLVMBuildSIToFP(builder, a, real, "");
  LLVMValueRef y = LLVMBuildSIToFP(builder, b, real, "");
  LLVMValueRef q = LLVMBuildFDiv(builder, x, y, "");
  q = LLVMBuildFPToSI(builder, q, whole, "");
  return LLVMBuildIntCast2(builder, q, type, true, "");
}

// a / b for b neither 0 nor -1.
static LLVMValueRef int_quotient(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                                 bool is_unsigned) {
  bool vector = LLVMGetTypeKind(LLVMTypeOf(a)) == LLVMVectorTypeKind;
  if (vector && e->target == TH_EMIT_HOST && int_width(a) <= 32) {
    return int_through_float(e, a, b, is_unsigned);
  }
  return is_unsigned ? LLVMBuildUDiv(e->builder, a, b, "")
                     : LLVMBuildSDiv(e->builder, a, b, "");
}

LLVMValueRef th_int_divide(th_emit *e, th_int_division which, LLVMValueRef a,
                           LLVMValueRef b, bool is_unsigned,
                           LLVMValueRef *fault) {
  LLVMValueRef zero = th_emit_int(e, a, 0), one = th_emit_int(e, a, 1);
  *fault = th_emit_icmp(e, LLVMIntEQ, b, zero);
  LLVMValueRef special = *fault, minus = NULL;
  if (!is_unsigned) {
    minus = th_emit_icmp(e, LLVMIntEQ, b, th_emit_int(e, b, -1));
    special = th_emit_or(e, special, minus);
  }
  LLVMValueRef safe = th_emit_select(e, special, one, b);
  LLVMValueRef q = int_quotient(e, a, safe, is_unsigned);
  if (minus) {
    q = th_emit_select(e, minus, th_emit_sub(e, zero, a), q);
  }
  LLVMValueRef r = th_emit_sub(e, a, th_emit_mul(e, q, b));
  LLVMValueRef adjust = NULL;
  if (!is_unsigned) {
    LLVMValueRef differ =
        th_emit_icmp(e, LLVMIntSLT, th_emit_xor(e, r, b), zero);
    LLVMValueRef some = th_emit_icmp(e, LLVMIntNE, r, zero);
    adjust = th_emit_and(e, differ, some);
  }
  bool floors = which == TH_INT_FLOOR_DIVIDE || which == TH_INT_REMAINDER;
  bool quotient = which == TH_INT_FLOOR_DIVIDE || which == TH_INT_TRUNC_DIVIDE;
  LLVMValueRef out = quotient ? q : r;
  if (floors && adjust) {
    LLVMValueRef moved =
        quotient ? th_emit_sub(e, q, one) : th_emit_add(e, r, b);
    out = th_emit_select(e, adjust, moved, out);
  }
  return th_emit_select(e, *fault, zero, out);
}

// 0 <= b < width, unsigned in one comparison.
static LLVMValueRef int_in_range(th_emit *e, LLVMValueRef b) {
  LLVMValueRef width = th_emit_int(e, b, int_width(b));
  return th_emit_icmp(e, LLVMIntULT, b, width);
}

LLVMValueRef th_int_shift_left(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  LLVMValueRef zero = th_emit_int(e, a, 0);
  LLVMValueRef inside = int_in_range(e, b);
  LLVMValueRef by = th_emit_select(e, inside, b, zero);
  LLVMValueRef shifted = LLVMBuildShl(e->builder, a, by, "");
  return th_emit_select(e, inside, shifted, zero);
}

LLVMValueRef th_int_shift_right(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                                bool is_unsigned) {
  LLVMValueRef zero = th_emit_int(e, a, 0);
  LLVMValueRef inside = int_in_range(e, b);
  if (is_unsigned) {
    LLVMValueRef by = th_emit_select(e, inside, b, zero);
    LLVMValueRef shifted = LLVMBuildLShr(e->builder, a, by, "");
    return th_emit_select(e, inside, shifted, zero);
  }
  LLVMValueRef most = th_emit_int(e, b, (int64_t)int_width(b) - 1);
  LLVMValueRef by = th_emit_select(e, inside, b, most);
  return LLVMBuildAShr(e->builder, a, by, "");
}

// 1 to a negative power is 1, -1 is 1 or -1, all else rounds to 0.
static LLVMValueRef int_pow_negative(th_emit *e, LLVMValueRef a,
                                     LLVMValueRef b) {
  LLVMValueRef zero = th_emit_int(e, a, 0), one = th_emit_int(e, a, 1);
  LLVMValueRef minus = th_emit_int(e, a, -1);
  LLVMValueRef odd = th_emit_icmp(e, LLVMIntNE, th_emit_and(e, b, one), zero);
  LLVMValueRef sign = th_emit_select(e, odd, minus, one);
  LLVMValueRef is_minus = th_emit_icmp(e, LLVMIntEQ, a, minus);
  LLVMValueRef is_one = th_emit_icmp(e, LLVMIntEQ, a, one);
  LLVMValueRef out = th_emit_select(e, is_minus, sign, zero);
  return th_emit_select(e, is_one, one, out);
}

LLVMValueRef th_int_pow(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                        bool is_unsigned) {
  LLVMValueRef zero = th_emit_int(e, a, 0), one = th_emit_int(e, a, 1);
  LLVMValueRef negative = NULL, left = b;
  if (!is_unsigned) {
    negative = th_emit_icmp(e, LLVMIntSLT, b, zero);
    left = th_emit_select(e, negative, zero, b);
  }
  LLVMValueRef init[] = {one, a, left};
  th_emit_while loop;
  th_emit_while_begin(e, &loop, init, TH_COUNT(init));
  LLVMValueRef *now = loop.carried;
  LLVMValueRef more = th_emit_icmp(e, LLVMIntNE, now[2], zero);
  th_emit_while_test(e, &loop, th_emit_any(e, more));
  LLVMValueRef bit = th_emit_and(e, now[2], one);
  LLVMValueRef set = th_emit_icmp(e, LLVMIntNE, bit, zero);
  LLVMValueRef factor = th_emit_select(e, set, now[1], one);
  LLVMValueRef next[] = {th_emit_mul(e, now[0], factor),
                         th_emit_mul(e, now[1], now[1]),
                         th_emit_lshr(e, now[2], 1)};
  th_emit_while_end(e, &loop, next);
  LLVMValueRef out = loop.carried[0];
  return negative ? th_emit_select(e, negative, int_pow_negative(e, a, b), out)
                  : out;
}

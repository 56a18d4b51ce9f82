// See convert.h.  bf16 and the 8-bit floats go by integer arithmetic: not every
// CPU has instructions for them, and those of some flush subnormals.  So does
// f16 where LLVM would call a function of libgcc.
#include "lowering/convert.h"

#include "base/context.h"

#include <math.h>

static LLVMTypeRef convert_like(LLVMValueRef v, LLVMTypeRef element) {
  return th_emit_type_like(LLVMTypeOf(v), element);
}

static LLVMValueRef convert_cast(th_emit *e, LLVMOpcode op, LLVMValueRef v,
                                 LLVMTypeRef element) {
  return LLVMBuildCast(e->builder, op, v, convert_like(v, element), "");
}

static LLVMValueRef convert_to_f32(th_emit *e, LLVMValueRef bits) {
  return th_emit_from_bits(e, bits, convert_like(bits, e->f32));
}

LLVMTypeRef th_convert_memory_type(const th_emit *e, th_dtype dtype) {
  switch (dtype) {
  case TH_I16:
  case TH_BF16:
    return e->i16;
  case TH_I32:
    return e->i32;
  case TH_I64:
    return e->i64;
  case TH_F16:
    return e->f16;
  case TH_F32:
    return e->f32;
  case TH_F64:
    return e->f64;
  default:
    return e->i8;
  }
}

LLVMTypeRef th_convert_register_type(const th_emit *e, th_dtype dtype) {
  if (dtype == TH_BOOL) {
    return e->i1;
  }
  bool narrow = th_dtype_is_float(dtype) && dtype != TH_F64;
  return narrow ? e->f32 : th_convert_memory_type(e, dtype);
}

// ---- f16 ----

// f16 has the exponents of f32 moved by 112, as e4m3fn below; its largest
// exponent means infinity or NaN and must be that of f32.
static LLVMValueRef convert_half_from_bits(th_emit *e, LLVMValueRef v) {
  LLVMValueRef code =
      th_emit_zext(e, th_emit_from_bits(e, v, convert_like(v, e->i16)), e->i32);
  LLVMValueRef size = th_emit_and(e, code, th_emit_int(e, code, 0x7fff));
  LLVMValueRef bits = th_emit_shl(e, size, 13);
  LLVMValueRef x = convert_to_f32(e, bits);
  x = th_emit_bits(e, th_emit_fmul(e, x, th_emit_float(e, x, 0x1p112)));
  LLVMValueRef special = th_emit_or(e, bits, th_emit_int(e, bits, 0x7f800000));
  LLVMValueRef least = th_emit_int(e, size, 0x7c00);
  x = th_emit_select(e, th_emit_icmp(e, LLVMIntUGE, size, least), special, x);
  LLVMValueRef sign = th_emit_and(e, code, th_emit_int(e, code, 0x8000));
  return convert_to_f32(e, th_emit_or(e, x, th_emit_shl(e, sign, 16)));
}

// The value is one of f16.
static LLVMValueRef convert_half_to_bits(th_emit *e, LLVMValueRef v) {
  LLVMValueRef size = th_emit_fabs(e, v), bits = th_emit_bits(e, size);
  LLVMValueRef scaled = th_emit_fmul(e, size, th_emit_float(e, v, 0x1p-112));
  LLVMValueRef code = th_emit_lshr(e, th_emit_bits(e, scaled), 13);
  LLVMValueRef infinite = th_emit_int(e, bits, 0x7f800000);
  LLVMValueRef nan = th_emit_int(e, code, 0x7e00);
  code = th_emit_select(e, th_emit_icmp(e, LLVMIntEQ, bits, infinite),
                        th_emit_int(e, code, 0x7c00), code);
  code = th_emit_select(e, th_emit_is_nan(e, v), nan, code);
  LLVMValueRef sign = th_emit_lshr(e, th_emit_bits(e, v), 16);
  sign = th_emit_and(e, sign, th_emit_int(e, sign, 0x8000));
  code = th_emit_zext(e, th_emit_or(e, code, sign), e->i16);
  return th_emit_from_bits(e, code, convert_like(code, e->f16));
}

static LLVMValueRef convert_half_read(th_emit *e, LLVMValueRef v) {
  return e->half_by_bits ? convert_half_from_bits(e, v)
                         : convert_cast(e, LLVMFPExt, v, e->f32);
}

static LLVMValueRef convert_half_write(th_emit *e, LLVMValueRef v) {
  return e->half_by_bits ? convert_half_to_bits(e, v)
                         : convert_cast(e, LLVMFPTrunc, v, e->f16);
}

// ---- memory ----

// e4m3fn has the exponents of f32 moved by 120; multiplying by 2^120 also gives
// its subnormals their value.
static LLVMValueRef convert_read_e4m3(th_emit *e, LLVMValueRef v) {
  LLVMValueRef bits = th_emit_zext(e, v, e->i32);
  LLVMValueRef size = th_emit_and(e, bits, th_emit_int(e, bits, 0x7f));
  LLVMValueRef x = convert_to_f32(e, th_emit_shl(e, size, 20));
  x = th_emit_fmul(e, x, th_emit_float(e, x, 0x1p120));
  LLVMValueRef is_nan =
      th_emit_icmp(e, LLVMIntEQ, size, th_emit_int(e, size, 0x7f));
  x = th_emit_select(e, is_nan, th_emit_float(e, x, NAN), x);
  LLVMValueRef sign = convert_to_f32(e, th_emit_shl(e, bits, 24));
  return th_emit_copysign(e, x, sign);
}

// e5m2 is the upper half of f16.
static LLVMValueRef convert_read_e5m2(th_emit *e, LLVMValueRef v) {
  LLVMValueRef bits = th_emit_shl(e, th_emit_zext(e, v, e->i16), 8);
  LLVMValueRef half = th_emit_from_bits(e, bits, convert_like(v, e->f16));
  return convert_half_read(e, half);
}

// e8m0 is the exponent of f32, with 2^-127 for 0 and NaN for 255.
static LLVMValueRef convert_read_e8m0(th_emit *e, LLVMValueRef v) {
  LLVMValueRef code = th_emit_zext(e, v, e->i32);
  LLVMValueRef bits = th_emit_shl(e, code, 23);
  LLVMValueRef least = th_emit_int(e, bits, 0x00400000);
  LLVMValueRef nan = th_emit_int(e, bits, 0x7fc00000);
  LLVMValueRef is_least =
      th_emit_icmp(e, LLVMIntEQ, code, th_emit_int(e, code, 0));
  LLVMValueRef is_nan =
      th_emit_icmp(e, LLVMIntEQ, code, th_emit_int(e, code, 0xff));
  bits = th_emit_select(e, is_least, least, bits);
  return convert_to_f32(e, th_emit_select(e, is_nan, nan, bits));
}

LLVMValueRef th_convert_from_memory(th_emit *e, LLVMValueRef v,
                                    th_dtype dtype) {
  switch (dtype) {
  case TH_BOOL:
    return th_emit_icmp(e, LLVMIntNE, v, th_emit_int(e, v, 0));
  case TH_F16:
    return convert_half_read(e, v);
  case TH_BF16:
    return convert_to_f32(e, th_emit_shl(e, th_emit_zext(e, v, e->i32), 16));
  case TH_F8_E4M3FN:
    return convert_read_e4m3(e, v);
  case TH_F8_E5M2:
    return convert_read_e5m2(e, v);
  case TH_F8_E8M0FNU:
    return convert_read_e8m0(e, v);
  default:
    return v;
  }
}

// The value is one of e4m3fn: moved by 2^-120 its bits are the code's.
static LLVMValueRef convert_write_e4m3(th_emit *e, LLVMValueRef v) {
  LLVMValueRef size = th_emit_fabs(e, v);
  size = th_emit_fmul(e, size, th_emit_float(e, v, 0x1p-120));
  LLVMValueRef code = th_emit_lshr(e, th_emit_bits(e, size), 20);
  LLVMValueRef nan = th_emit_int(e, code, 0x7f);
  code = th_emit_select(e, th_emit_is_nan(e, v), nan, code);
  LLVMValueRef sign = th_emit_lshr(e, th_emit_bits(e, v), 24);
  sign = th_emit_and(e, sign, th_emit_int(e, sign, 0x80));
  return th_emit_zext(e, th_emit_or(e, code, sign), e->i8);
}

LLVMValueRef th_convert_to_memory(th_emit *e, LLVMValueRef v, th_dtype dtype) {
  switch (dtype) {
  case TH_BOOL:
    return th_emit_zext(e, v, e->i8);
  case TH_F16:
    return convert_half_write(e, v);
  case TH_BF16:
    return th_emit_zext(e, th_emit_lshr(e, th_emit_bits(e, v), 16), e->i16);
  case TH_F8_E4M3FN:
    return convert_write_e4m3(e, v);
  case TH_F8_E5M2: {
    LLVMValueRef bits = th_emit_bits(e, convert_half_write(e, v));
    return th_emit_zext(e, th_emit_lshr(e, bits, 8), e->i8);
  }
  case TH_F8_E8M0FNU:
    return th_emit_zext(e, th_emit_lshr(e, th_emit_bits(e, v), 23), e->i8);
  default:
    return v;
  }
}

// ---- rounding ----

// The upper bits of a float from `keep` on, ties to even; a carry into the
// exponent is as it must be.  NaN is the caller's.
static LLVMValueRef convert_round_bits(th_emit *e, LLVMValueRef bits,
                                       unsigned keep) {
  int64_t unit = INT64_C(1) << keep;
  LLVMValueRef one = th_emit_int(e, bits, 1);
  LLVMValueRef odd = th_emit_and(e, th_emit_lshr(e, bits, keep), one);
  LLVMValueRef half = th_emit_add(e, odd, th_emit_int(e, bits, unit / 2 - 1));
  LLVMValueRef sum = th_emit_add(e, bits, half);
  return th_emit_and(e, sum, th_emit_int(e, bits, -unit));
}

static LLVMValueRef convert_round_bf16(th_emit *e, LLVMValueRef v) {
  LLVMValueRef bits = th_emit_bits(e, v);
  LLVMValueRef rounded = convert_round_bits(e, bits, 16);
  LLVMValueRef quiet = th_emit_or(e, bits, th_emit_int(e, bits, 0x400000));
  quiet = th_emit_and(e, quiet, th_emit_int(e, bits, -0x10000));
  return convert_to_f32(
      e, th_emit_select(e, th_emit_is_nan(e, v), quiet, rounded));
}

// |v| rounded to a format whose least normal number is `least` and that drops
// `keep` bits of the mantissa; below `least` to multiples of one spacing, by
// adding a number whose last place it is.
static LLVMValueRef convert_round_small(th_emit *e, LLVMValueRef v,
                                        unsigned keep, double least) {
  LLVMValueRef size = th_emit_fabs(e, v);
  LLVMValueRef normal =
      convert_to_f32(e, convert_round_bits(e, th_emit_bits(e, size), keep));
  double rounder = ldexp(1.5 * least, (int)keep);
  LLVMValueRef step = th_emit_float(e, v, rounder);
  LLVMValueRef small = th_emit_fsub(e, th_emit_fadd(e, size, step), step);
  LLVMValueRef is_small =
      th_emit_fcmp(e, LLVMRealOLT, size, th_emit_float(e, v, least));
  return th_emit_select(e, is_small, small, normal);
}

// `size` with the sign of v.  By bits: LLVM takes the sign of a copysign from
// before a conversion of f64, and then has f64 to f16 left to do by a call.
static LLVMValueRef convert_sign(th_emit *e, LLVMValueRef size,
                                 LLVMValueRef v) {
  LLVMValueRef sign = th_emit_bits(e, v);
  sign = th_emit_and(e, sign, th_emit_int(e, sign, INT32_MIN));
  return convert_to_f32(e, th_emit_or(e, th_emit_bits(e, size), sign));
}

static LLVMValueRef convert_keep_nan(th_emit *e, LLVMValueRef v,
                                     LLVMValueRef rounded) {
  LLVMValueRef nan = th_emit_float(e, v, NAN);
  return th_emit_select(e, th_emit_is_nan(e, v), nan, rounded);
}

static LLVMValueRef convert_round_f16(th_emit *e, LLVMValueRef v) {
  LLVMValueRef size = convert_round_small(e, v, 13, 0x1p-14);
  LLVMValueRef above =
      th_emit_fcmp(e, LLVMRealOGT, size, th_emit_float(e, v, 65504.0));
  size = th_emit_select(e, above, th_emit_float(e, v, INFINITY), size);
  return convert_sign(e, convert_keep_nan(e, v, size), v);
}

static LLVMValueRef convert_round_e4m3(th_emit *e, LLVMValueRef v) {
  LLVMValueRef size = convert_round_small(e, v, 20, 0x1p-6);
  size = th_emit_fmin(e, size, th_emit_float(e, v, 448.0));
  return convert_sign(e, convert_keep_nan(e, v, size), v);
}

static LLVMValueRef convert_round_e5m2(th_emit *e, LLVMValueRef v) {
  LLVMValueRef size = convert_round_small(e, v, 21, 0x1p-14);
  LLVMValueRef above =
      th_emit_fcmp(e, LLVMRealOGT, size, th_emit_float(e, v, 57344.0));
  size = th_emit_select(e, above, th_emit_float(e, v, INFINITY), size);
  return convert_sign(e, convert_keep_nan(e, v, size), v);
}

static LLVMValueRef convert_round_e8m0(th_emit *e, LLVMValueRef v) {
  LLVMValueRef size = th_emit_bits(e, th_emit_fabs(e, v));
  LLVMValueRef half = th_emit_int(e, size, 0x00400000);
  LLVMValueRef normal = th_emit_and(e, th_emit_add(e, size, half),
                                    th_emit_int(e, size, 0x7f800000));
  LLVMValueRef low = th_emit_select(e, th_emit_icmp(e, LLVMIntUGT, size, half),
                                    th_emit_int(e, size, 0x00800000), half);
  LLVMValueRef is_low =
      th_emit_icmp(e, LLVMIntULT, size, th_emit_int(e, size, 0x00800000));
  LLVMValueRef power = th_emit_select(e, is_low, low, normal);
  LLVMValueRef limit = th_emit_int(e, size, 0x7f800000);
  LLVMValueRef above = th_emit_icmp(e, LLVMIntUGE, power, limit);
  LLVMValueRef nan = th_emit_int(e, size, 0x7fc00000);
  power = th_emit_select(e, above, nan, power);
  return convert_keep_nan(e, v, convert_to_f32(e, power));
}

LLVMValueRef th_convert_round(th_emit *e, LLVMValueRef v, th_dtype dtype) {
  switch (dtype) {
  case TH_F16:
    return e->half_by_bits ? convert_round_f16(e, v)
                           : convert_half_read(e, convert_half_write(e, v));
  case TH_BF16:
    return convert_round_bf16(e, v);
  case TH_F8_E4M3FN:
    return convert_round_e4m3(e, v);
  case TH_F8_E5M2:
    return convert_round_e5m2(e, v);
  case TH_F8_E8M0FNU:
    return convert_round_e8m0(e, v);
  default:
    return v;
  }
}

// ---- from one to another ----

static LLVMValueRef convert_float_to_int(th_emit *e, LLVMValueRef v,
                                         th_dtype to) {
  bool wide = to == TH_I64 || to == TH_U8;
  double limit = wide ? 0x1p63 : 0x1p31;
  LLVMValueRef zero = th_emit_float(e, v, 0.0);
  LLVMValueRef low =
      th_emit_fcmp(e, LLVMRealOGE, v, th_emit_float(e, v, -limit));
  LLVMValueRef high =
      th_emit_fcmp(e, LLVMRealOLT, v, th_emit_float(e, v, limit));
  LLVMValueRef inside = th_emit_and(e, low, high);
  LLVMValueRef safe = th_emit_select(e, inside, v, zero);
  LLVMTypeRef type = wide ? e->i64 : e->i32;
  LLVMValueRef i = convert_cast(e, LLVMFPToSI, safe, type);
  LLVMValueRef least = th_emit_int(e, i, wide ? INT64_MIN : INT32_MIN);
  i = th_emit_select(e, inside, i, least);
  return th_emit_sext(e, i, th_convert_register_type(e, to));
}

static LLVMValueRef convert_to_float(th_emit *e, LLVMValueRef v, th_dtype from,
                                     th_dtype to) {
  LLVMTypeRef type = th_convert_register_type(e, to);
  if (!th_dtype_is_float(from)) {
    bool is_unsigned = from == TH_BOOL || from == TH_U8;
    v = convert_cast(e, is_unsigned ? LLVMUIToFP : LLVMSIToFP, v, type);
  } else if (from == TH_F64 && to != TH_F64) {
    v = convert_cast(e, LLVMFPTrunc, v, type);
  } else if (from != TH_F64 && to == TH_F64) {
    v = convert_cast(e, LLVMFPExt, v, type);
  }
  return th_convert_round(e, v, to);
}

LLVMValueRef th_convert(th_emit *e, LLVMValueRef v, th_dtype from,
                        th_dtype to) {
  bool from_float = th_dtype_is_float(from);
  if (from == to) {
    return v;
  }
  if (to == TH_BOOL) {
    return from_float
               ? th_emit_fcmp(e, LLVMRealUNE, v, th_emit_float(e, v, 0.0))
               : th_emit_icmp(e, LLVMIntNE, v, th_emit_int(e, v, 0));
  }
  if (th_dtype_is_float(to)) {
    return convert_to_float(e, v, from, to);
  }
  if (from_float) {
    return convert_float_to_int(e, v, to);
  }
  bool is_unsigned = from == TH_BOOL || from == TH_U8;
  LLVMTypeRef type = th_convert_register_type(e, to);
  return is_unsigned ? th_emit_zext(e, v, type) : th_emit_sext(e, v, type);
}

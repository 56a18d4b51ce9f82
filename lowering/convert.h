// Dtypes in memory, in registers, and from one to another.
//
//   dtype          memory   register   computed in
//   b8             i8       i1
//   u8 i8 .. i64   iN       iN         iN, u8 by unsigned forms
//   f16            half     f32        f32, rounded to the dtype by _round
//   bf16           i16      f32        likewise
//   f32 f64        itself   itself     itself
//   f8_*           i8       f32        f32, rounded by _round
//
// A conversion gives what PyTorch gives on a CPU, and is never poison:
//
//   float to float     nearest, ties to even, once; NaN stays NaN.  From f64
//                      to 16 or 8 bits by way of f32
//   float to i8 .. i32 toward zero to i32 and then its low bits; NaN and what
//                      i32 cannot hold count as INT32_MIN
//   float to u8, i64   the same by way of i64 and INT64_MIN
//   integer to integer low bits, or extended
//   integer to float   nearest, ties to even
//   all to b8          x != 0, so NaN is true
//
// f8_e4m3fn saturates, f8_e5m2 overflows to infinity, f8_e8m0fnu takes the
// nearest power of two (ties up, 0 gives the least, infinity NaN).
#ifndef TH_LOWERING_CONVERT_H
#define TH_LOWERING_CONVERT_H

#include "lowering/emit.h"

// Element types; a vector of them has the lanes of the values it came from.
LLVMTypeRef th_convert_memory_type(const th_emit *e, th_dtype dtype);
LLVMTypeRef th_convert_register_type(const th_emit *e, th_dtype dtype);

// A value just loaded, into its register form, and back before it is stored.
// What goes to memory is a value of the dtype: rounded, if it was computed.
LLVMValueRef th_convert_from_memory(th_emit *e, LLVMValueRef v, th_dtype dtype);
LLVMValueRef th_convert_to_memory(th_emit *e, LLVMValueRef v, th_dtype dtype);

// A result that was computed in the register form, rounded to the dtype, still
// in the register form; nothing for what is computed as itself.
LLVMValueRef th_convert_round(th_emit *e, LLVMValueRef v, th_dtype dtype);

// From register form to register form.
LLVMValueRef th_convert(th_emit *e, LLVMValueRef v, th_dtype from, th_dtype to);

#endif

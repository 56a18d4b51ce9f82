// Integer operations whose plain LLVM form is undefined for some operands; here
// every operand gives what PyTorch gives on a CPU, and nothing traps.
//
//   / floor, trunc   least / -1 wraps to least; by zero: 0 and the fault lane
//   remainder, fmod  least, -1: 0; by zero: 0 and the fault lane
//   a << b           0 unless 0 <= b < width
//   a >> b           a shifted by all but its sign (u8: 0) unless 0 <= b <
//   width a ** b           wraps; b < 0: 1 for a = 1, +-1 for a = -1, else 0
//
// Operands are integers of one type, scalar or vector; `is_unsigned` for u8.
#ifndef TH_LOWERING_INTEGER_H
#define TH_LOWERING_INTEGER_H

#include "lowering/emit.h"

typedef enum th_int_division {
  TH_INT_FLOOR_DIVIDE,
  TH_INT_TRUNC_DIVIDE,
  TH_INT_REMAINDER, // the sign of the divisor, as % in Python
  TH_INT_FMOD,      // the sign of the dividend, as % in C
} th_int_division;

// *fault becomes the i1 lanes where b is 0; the caller ORs them, under its
// mask, into what it reports as TH_KERNEL_DIVIDE.
LLVMValueRef th_int_divide(th_emit *e, th_int_division which, LLVMValueRef a,
                           LLVMValueRef b, bool is_unsigned,
                           LLVMValueRef *fault);

LLVMValueRef th_int_shift_left(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_int_shift_right(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                                bool is_unsigned);

// By squaring, as many turns as the largest exponent of the lanes has bits.
LLVMValueRef th_int_pow(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                        bool is_unsigned);

#endif

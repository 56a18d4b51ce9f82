// Small kernels around one emitted function, for the tests of math.h,
// convert.h and integer.h.
#ifndef TH_TEST_MATH_KERNEL_H
#define TH_TEST_MATH_KERNEL_H

#include "lowering/codegen.h"
#include "lowering/emit.h"
#include "lowering/orc.h"

// Emits the function under test on values loaded from in[0], in[1]; the result
// is stored.  `which` is the test's own.
typedef LLVMValueRef (*math_emit_fn)(th_emit *e, LLVMValueRef *in, int which);

typedef struct math_kernel {
  math_emit_fn emit;
  int which;
  LLVMTypeRef (*in_type)(th_emit *e, int which); // elements in memory
  LLVMTypeRef (*out_type)(th_emit *e, int which);
  unsigned inputs; // 1 or 2
  unsigned lanes;  // of one turn
} math_kernel;

typedef void (*math_kernel_fn)(const void *in0, const void *in1, void *out,
                               int64_t n);

// The element types above for f32, f64 and i64.
LLVMTypeRef math_type_f32(th_emit *e, int which);
LLVMTypeRef math_type_f64(th_emit *e, int which);

// The kernel in a module of `codegen`.
LLVMModuleRef math_kernel_module(th_codegen *codegen, const math_kernel *k);
// Compiled for `target` (NULL: the host), ready to be called on n elements, a
// multiple of the lanes.  Fails the test on errors.
math_kernel_fn math_kernel_load(th_context *ctx, const math_kernel *k,
                                const char *target, th_code **out_code);
// Only through code generation, to an object or PTX.  PTX must stay in
// registers and round as IEEE 754 does: an operation without .rn is one that
// ptxas may contract.
void math_kernel_compile(th_context *ctx, const math_kernel *k,
                         const char *target);

#endif

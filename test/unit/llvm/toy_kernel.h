// Small kernels for the tests of the code generator, the JIT and the cache.
#ifndef TH_TEST_TOY_KERNEL_H
#define TH_TEST_TOY_KERNEL_H

#include "lowering/codegen.h"
#include "lowering/kernel.h"

// out[i] = in[i] * factor in f32, buffers {in, out}.  Where `callee` is not
// NULL, out[i] = callee(in[i] * factor).
LLVMModuleRef toy_kernel(th_codegen *codegen, const char *symbol, double factor,
                         const char *callee);

// The same as an object of target `cpu`; the caller frees data.
th_status toy_object(th_context *ctx, const char *cpu, const char *symbol,
                     double factor, const char *callee, th_bytes *out_object);

// Calls code on {1, 2, 3, 4} and returns what became of 3.
float toy_call(void *address);

// What a context has reported, for messages of failing asserts.
const char *toy_errors(th_context *ctx);

#endif

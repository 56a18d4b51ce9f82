#include "llvm/toy_kernel.h"

#include "base/alloc.h"

// The parameters of th_kernel_fn.
static LLVMValueRef toy_function(th_codegen *codegen, LLVMModuleRef module,
                                 const char *symbol) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(codegen->llvm, 0);
  LLVMTypeRef i64 = LLVMInt64TypeInContext(codegen->llvm);
  LLVMTypeRef params[] = {pointer, pointer, i64, i64, pointer};
  LLVMValueRef function = LLVMAddFunction(
      module, symbol,
      LLVMFunctionType(LLVMInt32TypeInContext(codegen->llvm), params, 5, 0));
  th_codegen_define(codegen, function);
  return function;
}

static LLVMValueRef toy_buffer(th_codegen *codegen, LLVMValueRef function,
                               unsigned index) {
  LLVMTypeRef pointer = LLVMPointerTypeInContext(codegen->llvm, 0);
  LLVMValueRef at =
      LLVMConstInt(LLVMInt64TypeInContext(codegen->llvm), index, 0);
  return LLVMBuildLoad2(codegen->builder, pointer,
                        LLVMBuildGEP2(codegen->builder, pointer,
                                      LLVMGetParam(function, 0), &at, 1, ""),
                        "");
}

static LLVMValueRef toy_value(th_codegen *codegen, LLVMModuleRef module,
                              LLVMValueRef in, double factor,
                              const char *callee) {
  LLVMTypeRef f32 = LLVMFloatTypeInContext(codegen->llvm);
  LLVMValueRef value = LLVMBuildFMul(
      codegen->builder, LLVMBuildLoad2(codegen->builder, f32, in, "x"),
      LLVMConstReal(f32, factor), "y");
  if (callee == NULL) {
    return value;
  }
  LLVMTypeRef type = LLVMFunctionType(f32, &f32, 1, 0);
  LLVMValueRef function = LLVMAddFunction(module, callee, type);
  return LLVMBuildCall2(codegen->builder, type, function, &value, 1, "z");
}

LLVMModuleRef toy_kernel(th_codegen *codegen, const char *symbol, double factor,
                         const char *callee) {
  LLVMModuleRef module = th_codegen_module(codegen, symbol);
  LLVMBuilderRef b = codegen->builder;
  LLVMTypeRef f32 = LLVMFloatTypeInContext(codegen->llvm);
  LLVMTypeRef i64 = LLVMInt64TypeInContext(codegen->llvm);
  LLVMValueRef fn = toy_function(codegen, module, symbol);
  LLVMBasicBlockRef entry =
      LLVMAppendBasicBlockInContext(codegen->llvm, fn, "entry");
  LLVMBasicBlockRef body =
      LLVMAppendBasicBlockInContext(codegen->llvm, fn, "body");
  LLVMBasicBlockRef done =
      LLVMAppendBasicBlockInContext(codegen->llvm, fn, "done");

  LLVMPositionBuilderAtEnd(b, entry);
  LLVMValueRef in = toy_buffer(codegen, fn, 0);
  LLVMValueRef out = toy_buffer(codegen, fn, 1);
  LLVMBuildBr(b, body);

  LLVMPositionBuilderAtEnd(b, body);
  LLVMValueRef i = LLVMBuildPhi(b, i64, "i");
  LLVMValueRef from = LLVMBuildGEP2(b, f32, in, &i, 1, "");
  LLVMValueRef value = toy_value(codegen, module, from, factor, callee);
  LLVMBuildStore(b, value, LLVMBuildGEP2(b, f32, out, &i, 1, ""));
  LLVMValueRef next = LLVMBuildAdd(b, i, LLVMConstInt(i64, 1, 0), "next");
  LLVMValueRef starts[] = {LLVMGetParam(fn, 2), next};
  LLVMBasicBlockRef blocks[] = {entry, body};
  LLVMAddIncoming(i, starts, blocks, 2);
  LLVMBuildCondBr(b,
                  LLVMBuildICmp(b, LLVMIntSLT, next, LLVMGetParam(fn, 3), ""),
                  body, done);

  LLVMPositionBuilderAtEnd(b, done);
  LLVMBuildRet(b, LLVMConstInt(LLVMInt32TypeInContext(codegen->llvm), 0, 0));
  return module;
}

th_status toy_object(th_context *ctx, const char *cpu, const char *symbol,
                     double factor, const char *callee, th_bytes *out_object) {
  const th_target *target;
  TH_TRY(th_target_get(ctx, cpu, &target));
  th_codegen *codegen;
  TH_TRY(th_codegen_new(ctx, target, &codegen));
  th_status status = th_codegen_object(
      ctx, codegen, toy_kernel(codegen, symbol, factor, callee), out_object);
  th_codegen_free(codegen);
  return status;
}

float toy_call(void *address) {
  union {
    void *data;
    th_kernel_fn call;
  } kernel = {address};
  float in[4] = {1, 2, 3, 4}, out[4] = {0};
  void *buffers[] = {in, out};
  th_kernel_error error = {0};
  kernel.call(buffers, NULL, 0, 4, &error);
  return out[2];
}

const char *toy_errors(th_context *ctx) { return th_diagnostics_all(ctx); }

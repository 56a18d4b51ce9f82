#include "llvm/math_kernel.h"

#include "base/alloc.h"

#include <criterion/criterion.h>

#include <string.h>

LLVMTypeRef math_type_f32(th_emit *e, int which) {
  (void)which;
  return e->f32;
}

LLVMTypeRef math_type_f64(th_emit *e, int which) {
  (void)which;
  return e->f64;
}

static unsigned kernel_align(LLVMTypeRef element) {
  switch (LLVMGetTypeKind(element)) {
  case LLVMDoubleTypeKind:
    return 8;
  case LLVMFloatTypeKind:
    return 4;
  case LLVMIntegerTypeKind:
    return (LLVMGetIntTypeWidth(element) + 7) / 8;
  default:
    return 2;
  }
}

LLVMModuleRef math_kernel_module(th_codegen *codegen, const math_kernel *k) {
  LLVMModuleRef module = th_codegen_module(codegen, "k");
  bool ptx = codegen->target->isa == TH_ISA_PTX;
  th_emit e;
  th_emit_init(&e, module, ptx ? TH_EMIT_NVPTX : TH_EMIT_HOST);
  e.half_by_bits = codegen->target->isa == TH_ISA_SSE;
  e.has_scale = codegen->target->isa == TH_ISA_AVX512;
  LLVMTypeRef params[] = {e.ptr, e.ptr, e.ptr, e.i64};
  th_emit_function(&e, "k", e.void_, params, 4);
  if (ptx) {
    LLVMSetFunctionCallConv(e.function, 71); // ptx_kernel
  }
  th_codegen_define(codegen, e.function);
  LLVMTypeRef in = k->in_type(&e, k->which), out = k->out_type(&e, k->which);
  th_emit_loop loop = {.begin = th_emit_i64(&e, 0),
                       .end = LLVMGetParam(e.function, 3),
                       .step = th_emit_i64(&e, k->lanes)};
  th_emit_loop_begin(&e, &loop, NULL, 0);
  LLVMValueRef values[2] = {NULL, NULL};
  for (unsigned i = 0; i < k->inputs; i++) {
    LLVMValueRef pointer =
        th_emit_gep(&e, in, LLVMGetParam(e.function, i), loop.index);
    values[i] = th_emit_load(&e, th_emit_type_vector(in, k->lanes), pointer,
                             kernel_align(in));
  }
  LLVMValueRef result = k->emit(&e, values, k->which);
  LLVMValueRef pointer =
      th_emit_gep(&e, out, LLVMGetParam(e.function, 2), loop.index);
  th_emit_store(&e, result, pointer, kernel_align(out));
  th_emit_loop_end(&e, &loop, NULL, NULL);
  LLVMBuildRetVoid(e.builder);
  th_emit_deinit(&e);
  return module;
}

static th_codegen *kernel_codegen(th_context *ctx, const char *name) {
  const th_target *target = NULL;
  th_codegen *codegen = NULL;
  cr_assert_eq(th_target_get(ctx, name, &target), TH_OK, "%s",
               th_diagnostics_all(ctx));
  cr_assert_eq(th_codegen_new(ctx, target, &codegen), TH_OK, "%s",
               th_diagnostics_all(ctx));
  return codegen;
}

math_kernel_fn math_kernel_load(th_context *ctx, const math_kernel *k,
                                const char *target, th_code **out_code) {
  th_codegen *codegen = kernel_codegen(ctx, target ? target : "host");
  LLVMModuleRef module = math_kernel_module(codegen, k);
  th_bytes object;
  cr_assert_eq(th_codegen_object(ctx, codegen, module, &object), TH_OK, "%s",
               th_diagnostics_all(ctx));
  cr_assert_eq(th_code_load(ctx, object.data, object.size, "k", out_code),
               TH_OK, "%s", th_diagnostics_all(ctx));
  th_free(object.data);
  th_codegen_free(codegen);
  math_kernel_fn fn;
  void *address = th_code_address(*out_code);
  memcpy(&fn, &address, sizeof fn);
  return fn;
}

static void kernel_check_ptx(const char *text) {
  static const char *const forbidden[] = {
      ".local",  "call",    ".approx", "mad.",    "mul.f32",
      "add.f32", "sub.f32", "mul.f64", "add.f64", "sub.f64",
  };
  for (size_t i = 0; i < TH_COUNT(forbidden); i++) {
    cr_expect_null(strstr(text, forbidden[i]), "%s in:\n%s", forbidden[i],
                   text);
  }
}

void math_kernel_compile(th_context *ctx, const math_kernel *k,
                         const char *target) {
  th_codegen *codegen = kernel_codegen(ctx, target);
  LLVMModuleRef module = math_kernel_module(codegen, k);
  th_bytes bytes;
  bool ptx = codegen->target->isa == TH_ISA_PTX;
  th_status status = ptx ? th_codegen_asm(ctx, codegen, module, &bytes)
                         : th_codegen_object(ctx, codegen, module, &bytes);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(ctx));
  if (ptx) {
    kernel_check_ptx(bytes.data);
  }
  th_free(bytes.data);
  th_codegen_free(codegen);
}

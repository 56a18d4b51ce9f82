#include "lowering/target.h"

#include "base/alloc.h"
#include "lowering/codegen.h"
#include "llvm/toy_kernel.h"

#include <criterion/criterion.h>

#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static th_context *ctx;

static void target_setup(void) {
  unsetenv("TH_CPU");
  ctx = th_context_new();
}
static void target_teardown(void) { th_context_free(ctx); }

TestSuite(target, .init = target_setup, .fini = target_teardown);

static const th_target *target_of(const char *name) {
  const th_target *target = NULL;
  cr_assert_eq(th_target_get(ctx, name, &target), TH_OK, "%s", toy_errors(ctx));
  return target;
}

Test(target, host_is_known_and_runs) {
  const th_target *host = target_of(NULL);
  cr_expect_str_eq(host->name, "host");
  cr_expect(host->runs_here);
  cr_expect(strstr(host->data_layout, "e-m:e") != NULL);
  cr_expect_eq(host->has_mask_registers, host->isa == TH_ISA_AVX512);
  cr_expect_eq(target_of("host"), host, "made once");
}

Test(target, features_are_sorted_and_lack_bf16) {
  const th_target *host = target_of("host");
#if defined(__x86_64__)
  cr_expect(strstr(host->features, "+avx512bf16") == NULL);
  cr_expect(strstr(host->features, "-avx512bf16") != NULL);
  cr_expect(strstr(host->features, "+sse2,") != NULL);
  const char *adx = strstr(host->features, "adx");
  const char *xsave = strstr(host->features, "xsave");
  cr_expect(adx != NULL && xsave != NULL && adx < xsave);
#endif
}

Test(target, environment_names_the_cpu) {
  setenv("TH_CPU", "haswell", 1);
  const th_target *target = target_of(NULL);
  cr_expect_str_eq(target->name, "haswell");
  cr_expect_eq(target->isa, TH_ISA_AVX2);
  cr_expect_eq(target->vector_bytes, 32);
  cr_expect_not(target->has_mask_registers);
  cr_expect_str_eq(target_of("host")->name, "host", "asked for by name");
}

Test(target, classes) {
  cr_expect_eq(target_of("x86-64")->isa, TH_ISA_SSE);
  cr_expect_eq(target_of("x86-64-v3")->isa, TH_ISA_AVX2);
  cr_expect_eq(target_of("skylake-avx512")->isa, TH_ISA_AVX512);
  cr_expect_eq(target_of("skylake-avx512")->vector_bytes, 64);
  cr_expect_eq(target_of("aarch64")->isa, TH_ISA_NEON);
  cr_expect_eq(target_of("sm_90")->isa, TH_ISA_PTX);
  cr_expect_not(target_of("sm_90")->runs_here);
}

Test(target, unknown_name_lists_the_known) {
  const th_target *target;
  cr_assert_eq(th_target_get(ctx, "pentium9", &target), TH_NOT_FOUND);
  const char *text = th_diagnostic_text(ctx, 0);
  cr_expect(strstr(text, "'pentium9'") != NULL, "%s", text);
  cr_expect(strstr(text, "skylake-avx512") != NULL, "%s", text);
}

// ---- codegen ---------------------------------------------------------------

static unsigned elf_machine(th_bytes object) {
  Elf64_Ehdr head;
  cr_assert_geq(object.size, sizeof head);
  memcpy(&head, object.data, sizeof head);
  cr_assert_arr_eq(head.e_ident, ELFMAG, SELFMAG);
  return head.e_machine;
}

Test(target, objects_for_two_machines) {
  th_bytes object;
  cr_assert_eq(toy_object(ctx, "x86-64-v3", "k", 2, NULL, &object), TH_OK);
  cr_expect_eq(elf_machine(object), EM_X86_64);
  th_free(object.data);
  cr_assert_eq(toy_object(ctx, "aarch64", "k", 2, NULL, &object), TH_OK);
  cr_expect_eq(elf_machine(object), EM_AARCH64);
  th_free(object.data);
}

static th_codegen *target_codegen(const char *name) {
  th_codegen *codegen = NULL;
  cr_assert_eq(th_codegen_new(ctx, target_of(name), &codegen), TH_OK);
  return codegen;
}

Test(target, assembly_and_ir_leave_the_module_usable) {
  th_codegen *codegen = target_codegen("haswell");
  LLVMModuleRef module = toy_kernel(codegen, "k", 2, NULL);
  th_bytes ir, text, object;
  cr_assert_eq(th_codegen_ir(ctx, module, &ir), TH_OK);
  cr_expect(strstr(ir.data, "define i32 @k(") != NULL);
  cr_expect(strstr(ir.data, "%next = add") != NULL, "names are kept");
  cr_assert_eq(th_codegen_asm(ctx, codegen, module, &text), TH_OK);
  cr_expect(strstr(text.data, "vaddss") != NULL ||
            strstr(text.data, "vmulss") != NULL);
  cr_expect_eq(strlen(text.data), text.size);
  cr_assert_eq(th_codegen_object(ctx, codegen, module, &object), TH_OK);
  th_free(ir.data);
  th_free(text.data);
  th_free(object.data);
  th_codegen_free(codegen);
}

Test(target, ptx_is_a_text_only) {
  th_codegen *codegen = target_codegen("sm_90");
  LLVMModuleRef module = toy_kernel(codegen, "k", 2, NULL);
  th_bytes bytes;
  cr_expect_eq(th_codegen_object(ctx, codegen, module, &bytes), TH_UNSUPPORTED);
  cr_assert_eq(th_codegen_asm(ctx, codegen, module, &bytes), TH_OK, "%s",
               toy_errors(ctx));
  cr_expect(strstr(bytes.data, ".target sm_90") != NULL);
  th_free(bytes.data);
  th_codegen_free(codegen);
}

Test(target, malformed_module_is_one_diagnostic) {
  th_codegen *codegen = target_codegen("host");
  LLVMModuleRef module = toy_kernel(codegen, "k", 2, NULL);
  LLVMBasicBlockRef block = LLVMAppendBasicBlockInContext(
      codegen->llvm, LLVMGetNamedFunction(module, "k"), "open");
  (void)block; // has no terminator
  th_bytes object;
  cr_assert_eq(th_codegen_object(ctx, codegen, module, &object), TH_BACKEND);
  cr_assert_eq(th_diagnostic_count(ctx), 1);
  cr_expect(strstr(th_diagnostic_text(ctx, 0), "malformed module") != NULL);
  cr_expect(strchr(th_diagnostic_text(ctx, 0), '\n') == NULL);
  th_codegen_free(codegen);
}

Test(target, calls_outside_the_list_are_named) {
  th_bytes object;
  cr_assert_eq(toy_object(ctx, "host", "k", 2, "expf", &object), TH_BACKEND);
  cr_expect(strstr(th_diagnostic_text(ctx, 0), "'expf'") != NULL);
  th_diagnostics_clear(ctx);
  cr_assert_eq(toy_object(ctx, "host", "k", 2, "llvm.tan.f32", &object),
               TH_BACKEND);
  cr_expect(strstr(th_diagnostic_text(ctx, 0), "llvm.tan.f32") != NULL);
}

Test(target, a_machine_that_is_used_again_makes_the_same_bytes) {
  th_bytes first, second;
  cr_assert_eq(toy_object(ctx, "haswell", "k", 2, NULL, &first), TH_OK);
  cr_assert_eq(toy_object(ctx, "haswell", "q", 5, "floorf", &second), TH_OK);
  th_free(second.data);
  cr_assert_eq(toy_object(ctx, "haswell", "k", 2, NULL, &second), TH_OK);
  cr_assert_eq(first.size, second.size);
  cr_expect_arr_eq(first.data, second.data, first.size);
  th_free(first.data);
  th_free(second.data);
}

typedef struct target_worker {
  pthread_t thread;
  th_status status;
  th_bytes object;
} target_worker;

static void *target_compile(void *user) {
  target_worker *worker = user;
  th_context *own = th_context_new();
  worker->status = toy_object(own, "host", "k", 3, NULL, &worker->object);
  th_context_free(own);
  return NULL;
}

Test(target, threads_compile_side_by_side_to_the_same_bytes) {
  target_worker workers[4];
  for (size_t i = 0; i < TH_COUNT(workers); i++) {
    cr_assert_eq(
        pthread_create(&workers[i].thread, NULL, target_compile, &workers[i]),
        0);
  }
  for (size_t i = 0; i < TH_COUNT(workers); i++) {
    pthread_join(workers[i].thread, NULL);
    cr_assert_eq(workers[i].status, TH_OK);
    cr_assert_eq(workers[i].object.size, workers[0].object.size);
    cr_expect_arr_eq(workers[i].object.data, workers[0].object.data,
                     workers[0].object.size);
  }
  for (size_t i = 0; i < TH_COUNT(workers); i++) {
    th_free(workers[i].object.data);
  }
}

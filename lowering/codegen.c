// From LLVM module to bytes.
//
// The pass list is the light one: kernels are written with explicit vectors,
// for which it gives the run time of O3 in half the compile time.  PTX is
// emitted at level None, because straight-line strength reduction of LLVM 22
// is quadratic there.
#include "lowering/codegen.h"

#include "base/alloc.h"
#include "lowering/orc.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <pthread.h>
#include <string.h>

static const char codegen_passes[] =
    "sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(licm),instcombine<no-verify-fixpoint>";

// Beginnings of the intrinsics that select on every target that we have (a
// few become a call of libm on x86-64 without AVX2: see orc.c).
static const char *const codegen_intrinsics[] = {
    "llvm.abs.",
    "llvm.assume",
    "llvm.bitreverse.",
    "llvm.bswap.",
    "llvm.ceil.",
    "llvm.copysign.",
    "llvm.ctlz.",
    "llvm.ctpop.",
    "llvm.cttz.",
    "llvm.dbg.",
    "llvm.expect.",
    "llvm.experimental.noalias.scope.",
    "llvm.fabs.",
    "llvm.floor.",
    "llvm.fma.",
    "llvm.fmuladd.",
    "llvm.fptosi.sat.",
    "llvm.fptoui.sat.",
    "llvm.fshl.",
    "llvm.fshr.",
    "llvm.get.active.lane.mask.",
    "llvm.is.fpclass",
    "llvm.lifetime.",
    "llvm.masked.",
    "llvm.maximum.",
    "llvm.maxnum.",
    "llvm.memcpy.",
    "llvm.memmove.",
    "llvm.memset.",
    "llvm.minimum.",
    "llvm.minnum.",
    "llvm.nearbyint.",
    "llvm.nvvm.",
    "llvm.prefetch.",
    "llvm.rint.",
    "llvm.round.",
    "llvm.roundeven.",
    "llvm.sadd.",
    "llvm.smax.",
    "llvm.smin.",
    "llvm.smul.with.",
    "llvm.sqrt.",
    "llvm.ssub.",
    "llvm.stepvector.",
    "llvm.trunc.",
    "llvm.uadd.",
    "llvm.umax.",
    "llvm.umin.",
    "llvm.umul.with.",
    "llvm.usub.",
    "llvm.vector.",
    "llvm.x86.avx512.mask.scalef.ps.",
};

// ---- errors ----------------------------------------------------------------

// Copies a message and makes one line of it.
static void codegen_one_line(char *line, size_t size, const char *message) {
  size_t used = 0;
  for (const char *at = message; *at != 0 && used + 3 < size; at++) {
    if (*at != '\n') {
      line[used++] = *at;
    } else if (at[1] != 0) {
      line[used++] = ';';
      line[used++] = ' ';
    }
  }
  line[used] = 0;
}

th_status th_llvm_message(th_context *ctx, const char *what,
                          const char *message) {
  char line[400];
  codegen_one_line(line, sizeof line, message);
  return th_error(ctx, TH_BACKEND, TH_NOWHERE, "llvm: %s: %s", what, line);
}

th_status th_llvm_error(th_context *ctx, const char *what, LLVMErrorRef error) {
  char *message = LLVMGetErrorMessage(error);
  th_status status = th_llvm_message(ctx, what, message);
  LLVMDisposeErrorMessage(message);
  return status;
}

// Without a handler LLVM would print and end the process.
static void codegen_on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
  th_codegen *codegen = user;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || codegen->error[0] != 0) {
    return;
  }
  char *text = LLVMGetDiagInfoDescription(info);
  codegen_one_line(codegen->error, sizeof codegen->error, text);
  LLVMDisposeMessage(text);
}

// ---- machines --------------------------------------------------------------

// A machine learns what its CPU can do at its first kernel, which takes longer
// than a small kernel itself.  So machines are kept for the next th_codegen;
// at any time each belongs to one or lies here.
#define CODEGEN_KEPT 16

typedef struct codegen_machine {
  const th_target *target;
  LLVMTargetMachineRef machine;
} codegen_machine;

static pthread_mutex_t codegen_lock = PTHREAD_MUTEX_INITIALIZER;
static codegen_machine codegen_kept[CODEGEN_KEPT];

static LLVMTargetMachineRef codegen_take_machine(const th_target *target) {
  LLVMTargetMachineRef machine = NULL;
  pthread_mutex_lock(&codegen_lock);
  for (size_t i = 0; i < CODEGEN_KEPT && machine == NULL; i++) {
    if (codegen_kept[i].target == target) {
      machine = codegen_kept[i].machine;
      codegen_kept[i] = (codegen_machine){0};
    }
  }
  pthread_mutex_unlock(&codegen_lock);
  return machine;
}

static void codegen_give_machine(const th_target *target,
                                 LLVMTargetMachineRef machine) {
  pthread_mutex_lock(&codegen_lock);
  for (size_t i = 0; i < CODEGEN_KEPT && machine != NULL; i++) {
    if (codegen_kept[i].target == NULL) {
      codegen_kept[i] = (codegen_machine){target, machine};
      machine = NULL;
    }
  }
  pthread_mutex_unlock(&codegen_lock);
  if (machine != NULL) {
    LLVMDisposeTargetMachine(machine);
  }
}

static th_status codegen_machine_for(th_context *ctx, const th_target *target,
                                     LLVMTargetMachineRef *out_machine) {
  *out_machine = codegen_take_machine(target);
  if (*out_machine != NULL) {
    return TH_OK;
  }
  LLVMTargetRef llvm;
  char *error = NULL;
  if (LLVMGetTargetFromTriple(target->triple, &llvm, &error)) {
    th_status status = th_llvm_message(ctx, target->triple, error);
    LLVMDisposeMessage(error);
    return status;
  }
  *out_machine = LLVMCreateTargetMachine(
      llvm, target->triple, target->cpu, target->features,
      target->isa == TH_ISA_PTX ? LLVMCodeGenLevelNone
                                : LLVMCodeGenLevelDefault,
      LLVMRelocPIC, LLVMCodeModelSmall);
  return TH_OK;
}

// ---- life ------------------------------------------------------------------

th_status th_codegen_new(th_context *ctx, const th_target *target,
                         th_codegen **out_codegen) {
  th_codegen *codegen = th_calloc(1, sizeof *codegen);
  if (codegen == NULL) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "code generator");
  }
  th_status status = codegen_machine_for(ctx, target, &codegen->machine);
  if (status != TH_OK) {
    th_free(codegen);
    return status;
  }
  codegen->target = target;
  codegen->llvm = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(codegen->llvm, codegen_on_diagnostic,
                                  codegen);
  codegen->builder = LLVMCreateBuilderInContext(codegen->llvm);
  codegen->layout = LLVMCreateTargetDataLayout(codegen->machine);
  *out_codegen = codegen;
  return TH_OK;
}

void th_codegen_free(th_codegen *codegen) {
  if (codegen == NULL) {
    return;
  }
  LLVMDisposeBuilder(codegen->builder);
  LLVMContextDispose(codegen->llvm); // with the modules that are left in it
  LLVMDisposeTargetData(codegen->layout);
  codegen_give_machine(codegen->target, codegen->machine);
  th_free(codegen);
}

void th_codegen_release(void *codegen) { th_codegen_free(codegen); }

LLVMModuleRef th_codegen_module(th_codegen *codegen, const char *name) {
  LLVMModuleRef module = LLVMModuleCreateWithNameInContext(name, codegen->llvm);
  LLVMSetTarget(module, codegen->target->triple);
  LLVMSetModuleDataLayout(module, codegen->layout);
  return module;
}

static void codegen_attribute(th_codegen *codegen, LLVMValueRef function,
                              const char *name, uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(function,
                          (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(codegen->llvm, kind, value));
}

void th_codegen_define(th_codegen *codegen, LLVMValueRef function) {
  codegen_attribute(codegen, function, "nounwind", 0);
  if (codegen->target->isa == TH_ISA_PTX) {
    return;
  }
  // Debuggers and profilers walk by frame pointers.  Unwind tables would have
  // to be registered with libgcc, whose search is linear in their number.
  LLVMAddTargetDependentFunctionAttr(function, "frame-pointer", "all");
  if (codegen->target->isa == TH_ISA_AVX512) {
    // LLVM's own choice is 256 bits, at two thirds of the speed.
    LLVMAddTargetDependentFunctionAttr(function, "prefer-vector-width", "512");
  }
}

// ---- checks and passes -----------------------------------------------------

static bool codegen_may_call(const char *name) {
  if (strncmp(name, "llvm.", 5) != 0) {
    return th_runtime_symbol(name) != NULL;
  }
  for (size_t i = 0; i < TH_COUNT(codegen_intrinsics); i++) {
    const char *start = codegen_intrinsics[i];
    if (strncmp(name, start, strlen(start)) == 0) {
      return true;
    }
  }
  return false;
}

static th_status codegen_check_calls(th_context *ctx, th_codegen *codegen,
                                     LLVMModuleRef module) {
  for (LLVMValueRef function = LLVMGetFirstFunction(module); function != NULL;
       function = LLVMGetNextFunction(function)) {
    size_t size;
    const char *name = LLVMGetValueName2(function, &size);
    bool host = codegen->target->isa != TH_ISA_PTX;
    bool intrinsic = strncmp(name, "llvm.", 5) == 0;
    if (LLVMIsDeclaration(function) && (host || intrinsic) &&
        !codegen_may_call(name)) {
      return th_error(ctx, TH_BACKEND, TH_NOWHERE,
                      "generated code calls '%s', which is not on the list "
                      "of intrinsics and run-time functions",
                      name);
    }
  }
  return TH_OK;
}

th_status th_codegen_optimize(th_context *ctx, th_codegen *codegen,
                              LLVMModuleRef module) {
  char *message = NULL;
  bool broken = LLVMVerifyModule(module, LLVMReturnStatusAction, &message);
  th_status status =
      broken ? th_llvm_message(ctx, "malformed module", message) : TH_OK;
  LLVMDisposeMessage(message);
  TH_TRY(status);
  TH_TRY(codegen_check_calls(ctx, codegen, module));

  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error =
      LLVMRunPasses(module, codegen_passes, codegen->machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (error != NULL) {
    return th_llvm_error(ctx, "passes", error);
  }
  codegen->optimized = module;
  return TH_OK;
}

// ---- emission --------------------------------------------------------------

static th_status codegen_copy(th_context *ctx, const char *data, size_t size,
                              th_bytes *out_bytes) {
  char *copy = th_malloc(size + 1);
  if (copy == NULL) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "generated code: %zu bytes",
                    size);
  }
  memcpy(copy, data, size);
  copy[size] = 0;
  *out_bytes = (th_bytes){copy, size};
  return TH_OK;
}

static th_status codegen_emit(th_context *ctx, th_codegen *codegen,
                              LLVMModuleRef module, LLVMCodeGenFileType type,
                              th_bytes *out_bytes) {
  char *message = NULL;
  LLVMMemoryBufferRef buffer = NULL;
  codegen->error[0] = 0;
  if (LLVMTargetMachineEmitToMemoryBuffer(codegen->machine, module, type,
                                          &message, &buffer)) {
    th_status status = th_llvm_message(ctx, "code generation", message);
    LLVMDisposeMessage(message);
    return status;
  }
  th_status status =
      codegen->error[0] != 0
          ? th_llvm_message(ctx, "code generation", codegen->error)
          : codegen_copy(ctx, LLVMGetBufferStart(buffer),
                         LLVMGetBufferSize(buffer), out_bytes);
  LLVMDisposeMemoryBuffer(buffer);
  return status;
}

th_status th_codegen_object(th_context *ctx, th_codegen *codegen,
                            LLVMModuleRef module, th_bytes *out_object) {
  if (codegen->target->isa == TH_ISA_PTX) {
    return th_error(ctx, TH_UNSUPPORTED, TH_NOWHERE,
                    "target '%s' has a text, not an object",
                    codegen->target->name);
  }
  if (codegen->optimized != module) {
    TH_TRY(th_codegen_optimize(ctx, codegen, module));
  }
  return codegen_emit(ctx, codegen, module, LLVMObjectFile, out_object);
}

th_status th_codegen_asm(th_context *ctx, th_codegen *codegen,
                         LLVMModuleRef module, th_bytes *out_text) {
  if (codegen->optimized != module) {
    TH_TRY(th_codegen_optimize(ctx, codegen, module));
  }
  // Code generation changes a module, so a copy is used up.
  LLVMModuleRef copy = LLVMCloneModule(module);
  th_status status =
      codegen_emit(ctx, codegen, copy, LLVMAssemblyFile, out_text);
  LLVMDisposeModule(copy);
  return status;
}

th_status th_codegen_ir(th_context *ctx, LLVMModuleRef module,
                        th_bytes *out_text) {
  char *text = LLVMPrintModuleToString(module);
  th_status status = codegen_copy(ctx, text, strlen(text), out_text);
  LLVMDisposeMessage(text);
  return status;
}

// The way from an LLVM module to an object, to assembly and to text, and the
// one place where LLVM's errors become diagnostics.
//
//   th_codegen_new(ctx, target, &cg);             // one for each thread
//   LLVMModuleRef m = th_codegen_module(cg, "k");
//   ... build with cg->builder; th_codegen_define(cg, fn) on each function
//   th_codegen_object(ctx, cg, m, &bytes);        // verify, optimise, emit
//   th_codegen_free(cg);                          // the module goes too
//
// Threads: a th_codegen belongs to one thread at a time.  Several threads,
// each with its own, compile side by side without waiting for each other.
// fork: the child may compile, unless another thread was compiling at that
// moment: LLVM has locks that nobody would open in the child.
//
// What LLVM cannot select aborts the process.  So a module may use only the
// intrinsics that codegen.c lists and call only its own functions and those
// that orc.h offers; all else is reported by name.
#ifndef TH_LOWERING_CODEGEN_H
#define TH_LOWERING_CODEGEN_H

#include "lowering/target.h"

#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/TargetMachine.h>

// An LLVM context with a builder and a machine: what one thread needs to
// compile.  The error is LLVM's first complaint since the last emission.
typedef struct th_codegen {
  const th_target *target;
  LLVMContextRef llvm;
  LLVMBuilderRef builder;
  LLVMTargetMachineRef machine;
  LLVMTargetDataRef layout;
  LLVMModuleRef optimized; // what th_codegen_optimize has done
  char error[400];
} th_codegen;

// Bytes of the caller's, freed with th_free(bytes.data).
typedef struct th_bytes {
  void *data;
  size_t size;
} th_bytes;

// Meant to live for one kernel or a few: an LLVM context only grows, and a new
// one is cheap.  In a pass, register th_codegen_release with th_arena_defer.
th_status th_codegen_new(th_context *ctx, const th_target *target,
                         th_codegen **out_codegen);
void th_codegen_free(th_codegen *codegen); // NULL is fine
void th_codegen_release(void *codegen);    // the same, for th_arena_defer

// A module for the target, owned by the code generator.  Names of values are
// kept, as they make the text readable.
LLVMModuleRef th_codegen_module(th_codegen *codegen, const char *name);
// Gives a function with a body the attributes that all our code has.
void th_codegen_define(th_codegen *codegen, LLVMValueRef function);

// Checks the module and runs the light pass list; `_object` and `_asm` do it
// themselves, unless it was done.
th_status th_codegen_optimize(th_context *ctx, th_codegen *codegen,
                              LLVMModuleRef module);
// Machine code in an ELF object; uses the module up.  TH_UNSUPPORTED for PTX,
// which only has a text.
th_status th_codegen_object(th_context *ctx, th_codegen *codegen,
                            LLVMModuleRef module, th_bytes *out_object);
// Assembly or PTX as a text with a NUL at [size]; the module stays usable.
th_status th_codegen_asm(th_context *ctx, th_codegen *codegen,
                         LLVMModuleRef module, th_bytes *out_text);
// The IR as it stands, likewise.
th_status th_codegen_ir(th_context *ctx, LLVMModuleRef module,
                        th_bytes *out_text);

// Reports an LLVM error as "what: message" and consumes it.
th_status th_llvm_error(th_context *ctx, const char *what, LLVMErrorRef error);
// The same for a plain message, whose further lines become one.
th_status th_llvm_message(th_context *ctx, const char *what,
                          const char *message);

#endif

// The JIT: makes objects that codegen.h emitted callable.
//
// There is one for the process, shared by all contexts; it exists while any
// code does.  Each object is loaded by itself and goes with its last
// reference.  Code sees its own symbols and those of th_runtime_symbol; the
// functions that the process happens to export are out of its reach.
//
// Threads: every function here may be called from any thread; loading and
// unloading take one lock, which th_code_address does not.  After fork the
// child may run the code that it inherited, and load and unload, too.
//
// TH_DEBUG_JIT=1 tells gdb of each object, TH_PERF=1 writes the files from
// which `perf inject --jit` names kernels; both are read when the first code
// is loaded.
#ifndef TH_LOWERING_ORC_H
#define TH_LOWERING_ORC_H

#include "base/context.h"

// Code that was loaded; counted.
typedef struct th_code th_code;

// Links the ELF object and looks `symbol` up.  The bytes are copied.  Two
// objects may define the same symbol.  TH_BACKEND when the object is not one
// of this machine, lacks the symbol or needs an unknown one, which is named;
// with `ctx` NULL nothing is reported.
th_status th_code_load(th_context *ctx, const void *object, size_t size,
                       const char *symbol, th_code **out_code);
void *th_code_address(const th_code *code);
const char *th_code_symbol(const th_code *code);
th_code *th_code_retain(th_code *code);
void th_code_release(th_code *code); // NULL is fine

// How many are loaded in the process.
size_t th_code_count(void);

// Functions that generated code may call, by name.  A name must mean the same
// function for the life of the process, as objects on disk refer to it.
// TH_INVALID when it means another one already.
th_status th_runtime_register(th_context *ctx, const char *name,
                              void *function);
void *th_runtime_symbol(const char *name); // NULL: not known

#endif

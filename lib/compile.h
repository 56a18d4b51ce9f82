// The driver: a trace in, a program out.
#ifndef TH_COMPILE_H
#define TH_COMPILE_H

#include "exec/program.h"
#include "passes/pass.h"
#include "thunder/jit.h"

// What one compilation leaves: every trace and the program.  Owns all of it.
typedef struct th_compiled {
  th_ir *ir;
  th_history history;
  const char **texts; // of the traces, made when they are asked for
  th_program *program;
  int64_t passes_ns, codegen_ns;
} th_compiled;

// Takes the caller's reference of `trace->ir`, also when it fails; `out` is in
// the caller's storage and is deinited also after an error.
th_status th_compile(th_context *ctx, th_trace *trace,
                     const th_jit_options *options,
                     const th_executor_list *executors, th_compiled *out);
void th_compiled_deinit(th_compiled *compiled);

// The traces as text, in order.
th_status th_compiled_texts(th_compiled *compiled, const char *const **out,
                            size_t *out_count);

#endif

// Lowering: from the statements of a region to kernels that run.
//
// The executor that fuses (lib/exec/host.c) hands over the statements of a
// region; th_lower_region appends one region statement whose body is kernels.
// The program (lib/exec/layout.c) then turns each kernel into code.  A trace
// that was read back from text holds the same kernels, so code depends on the
// kernel statement alone.
#ifndef TH_LOWERING_LOWER_H
#define TH_LOWERING_LOWER_H

#include "ir/trace.h"
#include "lowering/kernel.h"

// A compiled kernel: what to hand to `fn` and how.
typedef struct th_kernel {
  th_kernel_fn fn;
  th_value *const *buffers; // inputs before results: their data pointers
  uint32_t buffer_count;
  const th_expr *const *numbers; // evaluated into `symbols`; floats as bits
  uint32_t number_count;
  const th_expr *extent; // of the outer loop: [0, extent)
  int64_t grain;         // outer iterations that are worth a thread
  void *impl;            // the lowering's own
} th_kernel;

// Can the statement be part of a region?  *reason says why not.
bool th_lower_supports(const th_stmt *stmt, const char **reason);

// A matrix product of one row: each element of the second operand is read once.
bool th_lower_is_row(const th_stmt *stmt);

// Statements of `from` (mapped by `remap`), in order, whose results `outs` are
// needed outside: appends `region` statements's worth of kernels to remap->to
// as one statement labelled <executor>Fusion<N>, maps the results, and takes
// numbers from the two counters.
typedef struct th_lower_input {
  th_remap *remap;
  th_stmt *const *stmts;
  uint32_t count;
  th_value *const *outs;
  uint32_t out_count;
  const char *executor;
  uint32_t *region_number, *kernel_number;
} th_lower_input;
th_status th_lower_region(const th_lower_input *in);

// Code for kernel statements, from the cache or made, on up to `threads`
// threads.  The buffers and numbers are of the kernels' trace, which must live
// as long as they do.  On an error all are NULL.
th_status th_lower_kernels(th_context *ctx, const th_stmt *const *stmts,
                           uint32_t count, int threads,
                           th_kernel **out_kernels);
void th_lower_kernel_release(th_kernel *kernel); // NULL is legal

// The kernel's LLVM IR, or its assembly, as text for --emit.
typedef enum th_lower_text_kind {
  TH_LOWER_LLVM,
  TH_LOWER_ASM,
} th_lower_text_kind;
th_status th_lower_text(th_context *ctx, const th_stmt *kernel,
                        th_lower_text_kind kind, th_buffer *out);

#endif

// The text of a kernel with all names stripped: equal texts have equal code.
//
//   thunder kernel 1 abi 1 llvm 22.1.8
//   target x86_64-unknown-linux-gnu cpu features
//   in 0 f32 [4 z0] {z0 1}
//   1 = add 0 2.0 -> f32 [4 z0]
//   out 1 {z0 1}
//   z0 1
//
// Values are numbered as they appear, symbols too; a symbol's line says whether
// it can be 0 or negative, which the code may use.
#ifndef TH_LOWERING_CANONICAL_H
#define TH_LOWERING_CANONICAL_H

#include "ir/trace.h"
#include "lowering/target.h"

// The version of the code generator: a hash of its sources, which the build
// states, so that objects on disk never outlive the code that made them.
#ifndef TH_LOWERING_HASH
#define TH_LOWERING_HASH "unknown"
#endif

// Appends the text; the symbols in their order, as numbers of the trace, are
// what the kernel gets at run time.
void th_canonical_kernel(th_arena *arena, const th_stmt *kernel,
                         const th_target *target, th_buffer *out,
                         const th_expr ***out_symbols,
                         uint32_t *out_symbol_count);

// Whether a symbol may be negative (-1), zero (0) or is at least one (1).
int th_canonical_sign(const th_symbol *symbol);

#endif

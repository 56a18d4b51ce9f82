// Composites: how each is written in other operations.
#ifndef TH_IR_EXPAND_H
#define TH_IR_EXPAND_H

#include "ir/trace.h"

// Appends the meaning of `stmt` (a composite whose operands are values of the
// builder's trace) and stores its results in outs[stmt->out_count].  One level:
// the statements that it appends may be composites again.
//
// Half-precision rule: a composite that PyTorch computes in f32 inside
// (softmax, norms, gelu, means ...) converts f16 and bf16 to f32 first and back
// at the end, so that results round once.
th_status th_expand(th_builder *b, const th_stmt *stmt, th_value **outs);

#endif

// What a step has to do at least: bytes that it moves, and multiplications and
// additions of its products.
#ifndef TH_EXEC_WORK_H
#define TH_EXEC_WORK_H

#include "ir/trace.h"

typedef struct th_work {
  uint64_t bytes;
  uint64_t flops;
} th_work;

// Of one step: a kernel, a region of statements, or a statement.  `symbols` as
// th_expr_eval wants them.
//
// bytes: each operand and each result once, however often it is really read.
// Of an operand that is only indexed or cut the elements that are taken count,
// of one that is written in place the elements that are written.
// flops: 2 m n k of products and convolutions, a half of it for the causal
// attention that is one statement; all else counts nothing.
th_work th_work_of(const th_stmt *step, const th_scalar *symbols);

// The module that a step belongs to: that of its products where there are any,
// else what the paths of its statements have in common.  In `arena`.
const char *th_work_scope(const th_stmt *step, th_arena *arena);

#endif

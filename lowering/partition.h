// Which statements of a region become which kernels.
//
// Statements are visited from the last to the first, so that all readers of a
// value are placed before the value is.  A value read in one kernel only is
// computed where it is read; one that several kernels read is stored by one
// of them, unless computing it again costs less; results of the region are
// stored in any case.  Products, windows and writes are kernels of their own,
// whose operands are memory.
//
// A reduction joins the kernel of its readers when the reduced dimensions are
// the rows of that kernel: softmax and norms are one kernel.  Otherwise it is
// stored.  That always works, so every region has a partition.
#ifndef TH_LOWERING_PARTITION_H
#define TH_LOWERING_PARTITION_H

#include "ir/trace.h"

enum {
  TH_PARTITION_STMTS = 96,      // of one kernel
  TH_PARTITION_REDUCTIONS = 16, // likewise; each may need loops of its own
};

// One kernel: statements by number in the region, ascending, and the values
// that it stores.
typedef struct th_part {
  uint32_t *stmts;
  uint32_t stmt_count, stmt_cap;
  th_value **outs;
  uint32_t out_count, out_cap;
  bool in_place;
} th_part;

// Kernels in an order in which they can run; in the arena.
th_status th_partition(th_ir *ir, th_arena *arena, th_stmt *const *stmts,
                       uint32_t count, th_value *const *outs,
                       uint32_t out_count, th_part **out_parts,
                       uint32_t *out_part_count);

// How a statement is treated.
typedef enum th_part_class {
  TH_PART_POINT, // computed where it is read
  TH_PART_VIEW,  // an index expression
  TH_PART_MOVE,  // cat, pad, flip, gather: index expressions that may repeat
  TH_PART_REDUCE,
  TH_PART_ANCHOR, // a kernel of its own
} th_part_class;
th_part_class th_part_class_of(const th_stmt *stmt);
// What an operation costs beside an addition.
uint32_t th_part_weight(th_op op);

#endif

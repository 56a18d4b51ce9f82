// Which buffers may share memory: offsets in one slab for intervals of time.
#ifndef TH_PASSES_SLAB_H
#define TH_PASSES_SLAB_H

#include "ir/trace.h"

enum { TH_SLAB_ALIGN = 64 };

// One buffer: alive from step `first` to step `last`, both included.
typedef struct th_slab_item {
  int64_t size; // bytes
  uint32_t first, last;
  int64_t offset; // the answer
} th_slab_item;

// Gives every item an offset so that no two that live at once overlap: the
// largest first, each at the lowest gap that fits.  Returns the slab's size;
// -1 when a size is negative or the sum overflows.
int64_t th_slab_plan(th_arena *scratch, th_slab_item *items, uint32_t count);

// Takes the plan away from a trace that is being built.
void th_slab_forget(th_trace *trace);

// The buffers of a final trace: every value that a statement or an inner
// kernel makes in memory of its own.  Views share their operand's buffer, a
// statement in place that of its first operand.  What is returned has `last`
// UINT32_MAX and lies outside; what is written back to an input lives to the
// end; inputs have no buffer.
typedef struct th_slab_buffers {
  uint32_t *buffer_of;    // by value id: index + 1; 0: none (outside the slab)
  th_value **owner;       // by buffer: the value that sizes it
  uint32_t *first, *last; // by buffer: steps; a step is a statement, or a
                          // kernel of a region, counted in order; a region
                          // without kernels is one
  uint32_t count, cap;
  uint32_t steps;
} th_slab_buffers;

void th_slab_find(const th_trace *trace, th_slab_buffers *out);

#endif

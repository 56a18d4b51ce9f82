// The inside of a program.
//
//   bases   memory that a call brings together: [0] the slab, then one for each
//           input, then one for each buffer that lies outside the slab (what
//           is returned, and every buffer of a program whose sizes depend on
//           data)
//   values  each value of the trace is a base and a byte offset; windows are
//           nothing but that, so they cost no step
//   sizes   everything that depends on symbols, computed once for each set of
//           sizes: shapes, offsets, the slab, the numbers that kernels get
//   block   memory of one running call: pointers and slab, reused
#ifndef TH_EXEC_PROGRAM_IMPL_H
#define TH_EXEC_PROGRAM_IMPL_H

#include "exec/program.h"
#include "exec/work.h"
#include "lowering/lower.h"
#include "passes/pass.h"
#include "passes/slab.h"
#include "tensor/tensor.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
  TH_BASE_SLAB = 0,
  TH_SIZES_KEPT = 16, // sets of sizes of one program
  TH_BLOCKS_KEPT = 8, // idle call blocks
};

typedef enum th_step_kind {
  TH_STEP_WINDOW, // only where sizes depend on data: computes the view
  TH_STEP_KERNEL,
  TH_STEP_CALL, // an executor's run function
  TH_STEP_COND,
  TH_STEP_ASSERT,
} th_step_kind;

typedef struct th_step {
  th_step_kind kind;
  const th_stmt *stmt;
  th_kernel *kernel;
  th_run_fn run;
  const th_state_hooks *hooks;
  void (*release)(void *state); // of a user's region
  void *state;
  th_program *branches[2]; // COND
} th_step;

// What a step took and did, of all profiled calls.
typedef struct th_profile_step {
  th_work work; // of one call; where sizes are constant
  const char *scope;
  atomic_int_fast64_t nanoseconds;
  atomic_uint_fast64_t calls, bytes, flops;
} th_profile_step;

// A value in the memory of another: a view, or an update in place.
typedef struct th_window {
  const th_value *from;  // NULL: memory of its own
  const th_expr *offset; // elements; NULL: none
} th_window;

// How an input's size is checked or gives a symbol its value:
//   size == number (CHECK), or symbol = (size - add) / scale (BIND)
typedef struct th_size_rule {
  bool bind;
  uint32_t input;
  uint8_t dim;
  const th_expr *number;
  uint32_t symbol; // index
  int64_t scale, add;
} th_size_rule;

typedef struct th_sizes {
  uint64_t serial; // of the program's sets of sizes; never 0
  uint64_t used;   // for the LRU
  uint32_t users;  // calls under way
  bool retired;    // out of the table: the last user frees it
  th_scalar *symbols;
  uint32_t symbol_count;
  bool *known;            // by symbol index
  bool *checked;          // by condition of the th_ir's `assumed`
  uint32_t assumed_count; // conditions there were
  th_view *views;         // by value id, data NULL
  int64_t *offsets;       // by value id: bytes from its base
  int64_t slab_bytes;
  int64_t **numbers; // by step: what a kernel gets
  int64_t *extents;  // by step
  th_arena arena;
} th_sizes;

typedef struct th_block {
  char **bases;
  th_view *views;        // by value id, with data
  uint64_t views_serial; // th_sizes.serial whose shapes they have
  char *slab;
  int64_t slab_cap;
  struct th_scratch *spares; // call.c
  int spare_count;
} th_block;

struct th_program {
  th_context *ctx;
  const th_trace *trace;
  th_ir *ir;
  th_arena arena;
  th_program_options options;
  th_step *steps;
  uint32_t step_count, kernel_count;
  th_size_rule *rules;
  uint32_t rule_count, rule_cap;
  bool data_sizes; // some size depends on data: sizes are made for each call
  bool is_static;  // no symbols at all
  bool has_state;  // some step keeps state between calls
  // Values.
  uint32_t *base_of;  // by value id
  th_window *windows; // by value id
  th_slab_buffers buffers;
  uint32_t *base_of_buffer;
  uint32_t base_count;
  // The result.
  const th_arg **leaves;
  uint32_t leaf_count, leaf_cap;
  uint32_t *written; // inputs that steps write in place
  uint32_t written_count, written_cap;
  th_value **mutated; // pairs: input, its new value
  uint32_t mutated_count, mutated_cap;
  // Kept between calls.
  pthread_mutex_t lock;
  th_sizes *sizes[TH_SIZES_KEPT];
  uint64_t clock;
  atomic_uint_fast64_t serial; // of the newest th_sizes
  _Atomic(th_block *) blocks[TH_BLOCKS_KEPT];
  atomic_bool busy;         // a program that mutates runs one call at a time
  th_profile_step *profile; // by step; NULL: off
  atomic_uint_fast64_t calls;
  th_program_stats stats;
};

struct th_frame {
  th_program *program;
  th_context *ctx;
  th_unwind unwind; // of this call: many may share the context
  bool guarded;     // somebody compared the inputs with the trace
  int threads;
  th_sizes *sizes;
  th_block *block;
  const th_program_value *inputs;
  th_tensor **input_copies;   // by input: a row-major copy, or NULL
  th_tensor **owned;          // by base: what the call allocated
  struct th_scratch *scratch; // of the step that runs
  const th_scalar *inherit;   // a branch: the numbers of the trace around it
  int64_t steps_ns;           // profile: what the steps took
  int64_t branch_ns;          // profile: what the branch of a step took
  th_program_value *outputs;
  size_t output_count;
};

th_status th_program_run_call(th_frame *call);
void th_block_free(th_block *block);

// layout.c
th_status th_layout_rules(th_program *p);

// size.c: the sizes for these inputs, from the LRU or made.
th_status th_sizes_get(th_frame *call, th_sizes **out);
void th_sizes_put(th_frame *call);
th_status th_sizes_fixed(th_frame *call);
void th_sizes_free(th_sizes *sizes);
// Shape and offset of one value, numbers of one step (data-dependent programs,
// when their turn comes).
th_status th_sizes_value(th_frame *call, const th_value *value);
th_status th_sizes_step(th_frame *call, uint32_t step);
// Elements from the operand's first one to that of result `out` of a window.
// Makes numbers: only while the program is made.
const th_expr *th_window_offset(th_ir *ir, const th_stmt *stmt, uint32_t out);

// output.c
// Before anything runs: what will be written can be.
th_status th_outputs_check(th_frame *call);
th_status th_outputs_prepare(th_frame *call);
th_status th_outputs_finish(th_frame *call);

// profile.c: a step is done that began at `start`.
void th_profile_add(th_frame *call, uint32_t step, int64_t start);

// call.c: one statement of an executor.
th_status th_step_call(th_frame *call, th_step *step);
// Scratch that waits in a block.
void th_spares_free(th_block *block);

// Diagnostic with the statement's location.
th_status th_frame_error(th_frame *call, const th_stmt *stmt, th_status status,
                         const char *fmt, ...) TH_PRINTF(4, 5);

static inline const th_view *th_call_view(const th_frame *call,
                                          const th_value *value) {
  return &call->block->views[value->id];
}

#endif

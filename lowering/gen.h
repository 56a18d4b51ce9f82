// From a plan to LLVM IR for the host: one function for each kernel.
//
//   int k(buffers, symbols, begin, end, error)
//     begin < 0: a question, answered in *error (see TH_GEN_QUESTION)
//     for p in [begin, end): outer variables = digits of p
//       lanes over the lane variable (column), or not (row)
//         reductions in order, then stores
//
// Nodes are emitted where they are first needed, and their values reused for
// as long as the emission stays inside the loops and branches of that place.
// Reductions are emitted before the loops that need them.
//
// Values in registers: bool is i1, f16 and bf16 are floats that were rounded
// (convert.h), all others are themselves; scalar where all lanes agree.
#ifndef TH_LOWERING_GEN_H
#define TH_LOWERING_GEN_H

#include "lowering/codegen.h"
#include "lowering/plan.h"

#include "lowering/emit.h"

// What `begin` < 0 asks for: error->value is the address of a text that
// describes the kernel (gen_describe in gen_function.c).
#define TH_GEN_QUESTION (-1)

typedef struct th_gen {
  th_emit e;
  th_context *ctx;
  const th_plan *plan;
  th_nest *nest;
  const th_phase *phase;

  LLVMValueRef *buffers; // pointers, by buffer
  LLVMValueRef *symbols; // i64 or double, by symbol
  LLVMValueRef error;

  LLVMValueRef vars[TH_MAX_VARS]; // in lanes: of lane 0
  int lane;                       // the variable in the lanes; -1: none
  uint32_t lanes;
  uint32_t variant;
  bool in_place;       // an input may be the memory of a result
  const bool *streams; // by buffer (stream.h); NULL: none in this function
  LLVMValueRef mask;   // lanes that exist; NULL: all
  bool mask_is_select; // perhaps none of them

  LLVMValueRef *values;        // by node; NULL: not emitted here
  bool kept;                   // the plan's kept value is in memory
  bool stores_row;             // the last walk through a row is under way
  struct product_gen *product; // its sums are in memory; NULL elsewhere
  uint32_t *trail;             // nodes in the order of emission
  uint32_t trail_count, trail_cap;
} th_gen;

// The module of a kernel, with its function named `symbol`.
th_status th_gen_module(th_context *ctx, th_codegen *codegen,
                        const th_plan *plan, const char *symbol,
                        LLVMModuleRef *out_module);

// ---- between the gen_*.c files

static inline uint32_t th_gen_mark(const th_gen *g) { return g->trail_count; }
// Forgets what was emitted since the mark.
void th_gen_forget(th_gen *g, uint32_t mark);

// Whether an expression or node differs from lane to lane.
bool th_gen_varies(const th_gen *g, th_var_set depends);

// A number: i64, i1 or double; a vector of them when it varies.
LLVMValueRef th_gen_expr(th_gen *g, const th_expr *e);
// Its value in lane 0, for expressions linear in the lane variable.
LLVMValueRef th_gen_expr_base(th_gen *g, const th_expr *e);

LLVMValueRef th_gen_node(th_gen *g, th_node *node);
// In all lanes.
LLVMValueRef th_gen_widen(th_gen *g, LLVMValueRef value);

LLVMValueRef th_gen_load(th_gen *g, const th_node *node);
void th_gen_store(th_gen *g, const th_store *store);

LLVMTypeRef th_gen_register(const th_gen *g, th_dtype dtype);
LLVMTypeRef th_gen_memory(const th_gen *g, th_dtype dtype);
LLVMValueRef th_gen_apply(th_gen *g, const th_node *node, LLVMValueRef *args);

// Leaves the kernel when any active lane of `bad` is set.
void th_gen_check(th_gen *g, LLVMValueRef bad, uint16_t stmt, int code,
                  LLVMValueRef value, LLVMValueRef limit);

// The reductions that these nodes need and that change with no other variable
// than those in `open`.
void th_gen_hoist(th_gen *g, th_node *const *roots, uint32_t count,
                  th_var_set open);
void th_gen_reduce(th_gen *g, th_node *const *nodes, uint32_t count);

// Memory for one value of the function, which becomes a register.
LLVMValueRef th_gen_slot(th_gen *g, LLVMTypeRef type);

// A kernel that is a product (product.h): its outer loop, that loop's extent,
// and the sum at the position of the moment.
void th_gen_product(th_gen *g, LLVMValueRef begin, LLVMValueRef end);
const th_expr *th_gen_product_extent(const th_nest *n, const th_product *p);
LLVMValueRef th_gen_product_sum(th_gen *g);

// The outer loop over [begin, end), or all phases after one another.
void th_gen_parallel(th_gen *g, LLVMValueRef begin, LLVMValueRef end);
void th_gen_sequential(th_gen *g);
th_var_set th_gen_outer_without_lane(const th_phase *phase);
// One row of a running sum; the rows of a sort.
void th_gen_scan(th_gen *g, th_store *store);
void th_gen_sort(th_gen *g, uint32_t phase);

// Runs `body` over [lo, hi) of a variable in lanes, variant by variant.
typedef void (*th_gen_body)(th_gen *g, void *user);
// A body: all stores of the kernel.
void th_gen_store_all(th_gen *g, void *user);
void th_gen_lanes(th_gen *g, int var, LLVMValueRef lo, LLVMValueRef hi,
                  const th_expr *extent, th_gen_body body, void *user);
// Runs `body` for all positions of a set of variables, in ascending order.
void th_gen_loops(th_gen *g, th_var_set vars, th_gen_body body, void *user);

#endif

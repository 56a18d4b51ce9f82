// A kernel before LLVM: what each stored element is, as a graph of scalar
// operations over loop variables.
//
//   statement  kernel: t2 = softmax pieces over x: f32[4, 100]
//   variables  i0 < 4, i1 < 100
//   nodes      n0 = load x[100*i0 + i1]       n1 = max over i1 of n0
//              n2 = exp(n0 - n1)              n3 = sum over i1 of n2
//   store      t2[100*i0 + i1] = n2 / n3
//
// Values are pulled: the node of an element of a value is built from the nodes
// of elements of its operands, so views, broadcasts, concatenation and gathers
// are nothing but index expressions.  Nodes are hash-consed; the same element
// reached on two ways is one node.
//
// No LLVM here: gen.h writes the code, plan.h chooses the loops.
#ifndef TH_LOWERING_NEST_H
#define TH_LOWERING_NEST_H

#include "lowering/index.h"

typedef enum th_node_kind {
  TH_NODE_LOAD,    // element `expr` of a buffer
  TH_NODE_NUMBER,  // a number that no loop changes
  TH_NODE_INDEX,   // the integer `expr`, over loop variables
  TH_NODE_CONVERT, // args[0] as another dtype
  TH_NODE_APPLY,   // an elementwise operation; args have its compute dtype
  TH_NODE_SELECT,  // where `expr` holds args[0], else args[1]; the other one
                   // may not exist and must not be read
  TH_NODE_REDUCE,  // args[0] reduced over vars; arg reductions: position `expr`
  TH_NODE_CHECK,   // args[0] an index into a dimension of size `expr`: wrapped
} th_node_kind;

typedef struct th_node {
  th_node_kind kind;
  th_dtype dtype;
  th_op op;        // APPLY, REDUCE (sum, prod, amax, ..., matmul)
  uint16_t buffer; // LOAD
  uint16_t stmt;   // position in the kernel's body, for errors
  uint32_t id;     // dense
  uint32_t arg_count;
  struct th_node **args;
  const th_expr *expr;
  th_var_set vars;    // REDUCE: what it runs over, in ascending order
  th_var_set depends; // which variables change it
  bool guarded;       // REDUCE: only reached through a select
} th_node;

typedef struct th_buffer_info {
  const th_value *value;
  th_type type; // sizes and strides imported, strides always there
  bool is_output;
} th_buffer_info;

typedef enum th_store_kind {
  TH_STORE_SET,
  TH_STORE_ADD,  // to what is there
  TH_STORE_SCAN, // running value over `scan_var`; op says sum or product
  TH_STORE_SORT, // sorted keys (or, order 1, their places) over `scan_var`
} th_store_kind;

typedef struct th_store {
  th_store_kind kind;
  uint16_t buffer;
  th_node *node;
  const th_expr *offset; // in elements
  th_var_set vars;       // iterates over these
  th_op op;
  int scan_var;
  int order;       // SORT
  bool descending; // SORT
  uint32_t phase;  // stores of one phase share their loops
} th_store;

// A range that is iterated over: an expression over the variables that it was
// split into.
typedef struct th_range {
  const th_expr *extent;
  const th_expr *expr;
  th_var_set vars;
  bool main;    // of the main output
  bool guarded; // made under a select: not shared
  bool whole;   // must not be split
} th_range;

// A request to split: piece `piece` of range number `range` (in order of
// creation, which does not change) becomes piece / by and by.
typedef struct th_split {
  uint32_t range, piece;
  const th_expr *by;
} th_split;

typedef struct th_nest {
  th_context *ctx;
  th_arena *arena;
  th_ir *ir; // private
  const th_stmt *kernel;
  th_space space;
  th_status status;

  th_buffer_info *buffers;
  uint32_t buffer_count, input_count;
  const th_expr **symbols; // of the trace, in the order of the arguments
  const th_expr **symbols_here;
  uint32_t symbol_count;

  th_map defs; // value -> def_entry
  th_map memo; // value and index -> node
  th_map nodes_by_key;
  th_node **nodes;
  uint32_t node_count, node_cap;

  th_store *stores;
  uint32_t store_count, store_cap;
  uint32_t phase_count;
  uint32_t guard; // depth of selects around the pull under way
  th_range *ranges;
  uint32_t range_count, range_cap;
  th_split *splits;
  uint32_t split_count, split_cap;
  bool sequential; // phases follow one another in one thread
} th_nest;

// The nest of a kernel statement.  Everything lives in the arena; the private
// th_ir is released with it.
th_status th_nest_build(th_context *ctx, th_arena *arena, const th_stmt *kernel,
                        th_nest **out_nest);

// ---- for rules

// How one result of a statement is made of elements of its operands.
typedef th_node *(*th_rule_fn)(th_nest *n, const th_stmt *stmt, uint16_t out,
                               const th_expr *const *index);
// The rule of an operation; NULL: none.
th_rule_fn th_nest_rule(th_op op);

// Records the first reason and returns a node that can be used on.
th_node *th_nest_fail(th_nest *n, const th_stmt *stmt, const char *fmt, ...)
    TH_PRINTF(3, 4);

// The element of a value; index has one entry for each dimension.
th_node *th_nest_pull(th_nest *n, const th_value *value,
                      const th_expr *const *index);
// The element with this number, counted row by row; NULL where the value does
// not lie in memory like that.
th_node *th_nest_pull_flat(th_nest *n, const th_value *value,
                           const th_expr *number);
// An operand of an elementwise statement whose result has `rank` dimensions at
// `index`, converted to dtype.
th_node *th_nest_operand(th_nest *n, const th_arg *arg, uint8_t rank,
                         const th_expr *const *index, th_dtype dtype);

// A number of the trace as one of the nest.
const th_expr *th_nest_import(th_nest *n, const th_expr *e);
const th_expr *th_nest_dim(th_nest *n, const th_value *value, uint8_t dim);
const th_expr *th_nest_num(th_nest *n, const th_stmt *stmt, uint16_t arg);
int64_t th_nest_int(th_nest *n, const th_stmt *stmt, uint16_t arg);
// A dimension argument, wrapped.
uint8_t th_nest_dim_arg(const th_stmt *stmt, uint16_t arg, uint8_t rank);
bool th_stmt_bool(const th_stmt *stmt, uint16_t arg);

th_node *th_node_number(th_nest *n, const th_expr *num, th_dtype dtype);
th_node *th_node_index(th_nest *n, const th_expr *e);
th_node *th_node_convert(th_nest *n, th_node *x, th_dtype dtype);
th_node *th_node_apply(th_nest *n, th_op op, th_dtype dtype,
                       const th_stmt *stmt, th_node *const *args,
                       uint32_t count);
th_node *th_node_select(th_nest *n, const th_expr *condition, th_node *yes,
                        th_node *no);
th_node *th_node_reduce(th_nest *n, th_op op, th_dtype dtype,
                        const th_stmt *stmt, th_node *x, th_var_set vars,
                        const th_expr *position);
// An integer read from memory as an index into a dimension of this size.
const th_expr *th_nest_checked(th_nest *n, const th_stmt *stmt,
                               th_node *integer, const th_expr *size);

// a <= b, a < b, and both conditions; simplified over all iterations.
const th_expr *th_nest_le(th_nest *n, const th_expr *a, const th_expr *b);
const th_expr *th_nest_lt(th_nest *n, const th_expr *a, const th_expr *b);
const th_expr *th_nest_and(th_nest *n, const th_expr *a, const th_expr *b);

// A new range; its expression is 0 when the extent is 1.
const th_expr *th_nest_range(th_nest *n, const th_expr *extent,
                             th_var_set *out_vars);
// Ranges for reduced dimensions, none of which is in `avoid`.  They are shared
// with the main output's where that is possible, so that elements of both are
// the same node.
void th_nest_reduce_ranges(th_nest *n, uint32_t count,
                           const th_expr *const *extents, th_var_set avoid,
                           const th_expr **out_index, th_var_set *out_vars);

// Statements that no rule describes, since they write where an index says or
// in an order: they add their own stores.  NULL: not one of them.
typedef void (*th_special_fn)(th_nest *n, const th_stmt *stmt);
th_special_fn th_nest_special(th_op op);
th_store *th_nest_add_store(th_nest *n, const th_value *out, th_node *node,
                            const th_expr *const *index, th_var_set vars);

#endif

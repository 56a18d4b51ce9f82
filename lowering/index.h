// Index expressions: numbers (ir/expr.h) over loop variables, sizes, and
// integers that a kernel reads from memory.
//
// A kernel has expressions of its own, in a th_ir that goes with it, so that
// loop variables are ordinary symbols.  On top of the normal form of
// expressions stands what the extents of loops imply: with d < D,
// (h*D + d) // D is h.  What no rule can divide asks for the variable to be
// split, after which it can.
#ifndef TH_LOWERING_INDEX_H
#define TH_LOWERING_INDEX_H

#include "ir/trace.h"

// Loop variables of one kernel; a set of them is a bit mask.
enum { TH_MAX_VARS = 64 };
typedef uint64_t th_var_set;

typedef struct th_var {
  const th_expr *symbol;
  const th_expr *extent; // it runs over [0, extent)
} th_var;

// A symbol that stands for an integer from memory: which variables change it.
typedef struct th_opaque {
  const th_expr *symbol;
  th_var_set depends;
  struct th_node *node;
} th_opaque;

typedef struct th_space {
  th_ir *ir;
  th_arena *arena;
  uint32_t var_count;
  th_var vars[TH_MAX_VARS];
  th_opaque *opaques;
  uint32_t opaque_count, opaque_cap;
  // A variable that a division wants to be hi * split_by + lo; -1: none.
  int split_var;
  const th_expr *split_by;
} th_space;

void th_space_init(th_space *s, th_ir *ir, th_arena *arena);
// A new variable over [0, extent); NULL when there are too many.
const th_expr *th_space_var(th_space *s, const th_expr *extent);
const th_expr *th_space_opaque(th_space *s, struct th_node *node,
                               th_var_set depends);
// The variable or opaque that a symbol is, -1 or NULL when it is none.
int th_space_find_var(const th_space *s, const th_expr *symbol);
const th_opaque *th_space_find_opaque(const th_space *s, const th_expr *symbol);

bool th_space_mentions(const th_expr *e, const th_expr *symbol);
// Which variables an expression depends on, opaques included.
th_var_set th_space_depends(const th_space *s, const th_expr *e);

// a // b and a % b (floor), for b > 0.
const th_expr *th_space_div(th_space *s, const th_expr *a, const th_expr *b);
const th_expr *th_space_mod(th_space *s, const th_expr *a, const th_expr *b);

// c*k*(a // k) + c*(a % k) is c*a: what a reshape took apart and a row-major
// offset puts together.
const th_expr *th_space_join(th_space *s, const th_expr *e);
// Whether a quotient or remainder of the variable is left in e.
bool th_space_divides(const th_space *s, const th_expr *e, int var);

// Whether 0 <= e < limit holds for all iterations: false is "not known".
bool th_space_below(const th_space *s, const th_expr *e, const th_expr *limit);
// What a comparison (LT, LE) gives in all iterations: 1, 0, or -1: it depends.
int th_space_known(const th_space *s, th_expr_op op, const th_expr *a,
                   const th_expr *b);

// e = coeff * symbol + rest with neither depending on the symbol.
bool th_space_linear(const th_space *s, const th_expr *e, const th_expr *symbol,
                     const th_expr **out_coeff, const th_expr **out_rest);
// Replaces a symbol everywhere in e.
const th_expr *th_space_replace(th_space *s, const th_expr *e,
                                const th_expr *symbol, const th_expr *by);

// Whether e uses two variables only as outer * extent(inner) + inner, so that
// one variable can stand for both.
bool th_space_can_merge(const th_space *s, const th_expr *e, int outer,
                        int inner);

// The number of linear positions before `index` in row-major order over dims,
// and back.
const th_expr *th_space_flatten(th_space *s, uint8_t rank,
                                const th_expr *const *dims,
                                const th_expr *const *index);
void th_space_unflatten(th_space *s, const th_expr *linear, uint8_t rank,
                        const th_expr *const *dims, const th_expr **out_index);

#endif

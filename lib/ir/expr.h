// Numbers of a trace: constants, symbols (s0: a size that is known when a
// call comes) and expressions over them.
//
// Expressions live in a th_ir and are hash-consed in a normal form (integers:
// a sum of products with sorted terms), so equal expressions are one pointer
// and `==` is the test that shape rules use.  A size that cannot be compared
// so is compared when the program runs (see th_infer_same_dim in infer.h).
#ifndef TH_IR_EXPR_H
#define TH_IR_EXPR_H

#include "base/buffer.h"
#include "base/context.h"
#include "thunder/executor.h"

struct th_expr;

// What all traces of one compilation share: memory, strings, expressions,
// symbols.  Passes therefore share types and never copy them.
typedef struct th_ir {
  th_context *ctx;
  th_arena arena;
  th_map strings;
  th_map exprs;   // structural key -> th_expr
  th_map symbols; // name -> th_symbol
  th_map fresh;   // prefix -> the number that th_sym_fresh tries next
  struct th_symbol **symbol_list;
  uint32_t symbol_count, symbol_cap;
  uint32_t refs;
  // Asked about two sizes whose equality is not known; NULL: they are equal.
  bool (*assume)(void *user, const struct th_expr *a, const struct th_expr *b);
  void *assume_user;
  // What shape rules took for granted without knowing it: conditions that the
  // program checks once it knows the sizes.
  const struct th_expr **assumed;
  uint32_t assumed_count, assumed_cap;
} th_ir;

// NULL when memory is out (recorded in ctx).  The context outlives it.
th_ir *th_ir_new(th_context *ctx);
th_ir *th_ir_retain(th_ir *ir);
void th_ir_release(th_ir *ir);
const char *th_ir_string(th_ir *ir, const char *text); // interned

typedef struct th_symbol {
  const char *name;
  th_dtype dtype;   // I64, F64 or BOOL
  int64_t min, max; // of an integer; INT64_MIN / INT64_MAX: no bound
  uint32_t index;   // in th_ir.symbol_list
} th_symbol;

// Operator, arity (0: any), how it is written.  Comparisons and logic give
// BOOL.  Integer division and remainder are Python's (floor).
#define TH_EXPR_MAP(X)                                                         \
  X(CONST, 0, "")                                                              \
  X(SYM, 0, "")                                                                \
  X(ADD, 0, "+")                                                               \
  X(MUL, 0, "*")                                                               \
  X(FLOORDIV, 2, "//")                                                         \
  X(MOD, 2, "%")                                                               \
  X(DIV, 2, "/")                                                               \
  X(POW, 2, "**")                                                              \
  X(MIN, 2, "min")                                                             \
  X(MAX, 2, "max")                                                             \
  X(EQ, 2, "==")                                                               \
  X(NE, 2, "!=")                                                               \
  X(LT, 2, "<")                                                                \
  X(LE, 2, "<=")                                                               \
  X(AND, 2, "and")                                                             \
  X(OR, 2, "or")                                                               \
  X(NOT, 1, "not")                                                             \
  X(FLOAT, 1, "float")                                                         \
  X(TRUNC, 1, "trunc")                                                         \
  X(FLOOR, 1, "floor")                                                         \
  X(CEIL, 1, "ceil")                                                           \
  X(ROUND, 1, "round")                                                         \
  X(SQRT, 1, "sqrt")                                                           \
  X(ITE, 3, "where")

typedef enum th_expr_op {
#define X(name, arity, text) TH_X_##name,
  TH_EXPR_MAP(X)
#undef X
      TH_X_COUNT
} th_expr_op;

// Numbers of one expression, written out, and how deep they nest.  Shared parts
// count each time that they occur, so printing and walking are bounded too.
enum { TH_EXPR_SIZE = 1024, TH_EXPR_DEPTH = 100 };

typedef struct th_expr {
  th_expr_op op;
  th_dtype dtype; // I64, F64 or BOOL
  uint32_t arg_count;
  uint16_t size, depth;
  const struct th_expr *const *args;
  union {
    int64_t i; // CONST I64 and BOOL
    double f;  // CONST F64
    const th_symbol *symbol;
  };
} th_expr;

const th_expr *th_int(th_ir *ir, int64_t value);
const th_expr *th_float(th_ir *ir, double value);
const th_expr *th_bool(th_ir *ir, bool value);

// The symbol of this name, made when absent.
const th_expr *th_sym(th_ir *ir, const char *name, th_dtype dtype);
void th_sym_range(th_ir *ir, const th_expr *symbol, int64_t min, int64_t max);
// A name that no symbol has: prefix0, prefix1, ...
const th_expr *th_sym_fresh(th_ir *ir, const char *prefix, th_dtype dtype);

// Builds `op` over args in normal form; folds constants.  I64 and F64 mixed:
// the integer is converted.  NULL: division of constants by zero, an integer
// constant that overflows, or an expression larger than TH_EXPR_SIZE and _DEPTH
// say (nothing is recorded).
const th_expr *th_expr_make(th_ir *ir, th_expr_op op,
                            const th_expr *const *args, uint32_t count);
const th_expr *th_expr_add(th_ir *ir, const th_expr *a, const th_expr *b);
const th_expr *th_expr_sub(th_ir *ir, const th_expr *a, const th_expr *b);
const th_expr *th_expr_mul(th_ir *ir, const th_expr *a, const th_expr *b);
const th_expr *th_expr_floordiv(th_ir *ir, const th_expr *a, const th_expr *b);
const th_expr *th_expr_mod(th_ir *ir, const th_expr *a, const th_expr *b);
const th_expr *th_expr_min(th_ir *ir, const th_expr *a, const th_expr *b);
const th_expr *th_expr_max(th_ir *ir, const th_expr *a, const th_expr *b);
// ceil(a / b) for a positive b.
const th_expr *th_expr_ceildiv(th_ir *ir, const th_expr *a, const th_expr *b);

static inline bool th_is_const(const th_expr *e) { return e->op == TH_X_CONST; }
static inline bool th_is_int(const th_expr *e, int64_t value) {
  return e->op == TH_X_CONST && e->dtype != TH_F64 && e->i == value;
}
// The bounds that follow from the symbols' ranges; false: none known.
bool th_expr_range(const th_expr *e, int64_t *out_min, int64_t *out_max);
// Is `a op b` (EQ, LT, LE) true (1), false (0), or not known (-1)?
int th_expr_known(th_ir *ir, th_expr_op op, const th_expr *a, const th_expr *b);

// Evaluates with symbols[symbol->index].  False: division by zero.
bool th_expr_eval(const th_expr *e, const th_scalar *symbols, th_scalar *out);

// Calls fn for each symbol in e (perhaps more than once).
void th_expr_symbols(const th_expr *e,
                     void (*fn)(void *user, const th_symbol *symbol),
                     void *user);

// Python syntax: s0*s1 + 2, s0//2, min(s0, 4), 1.0, True.  `parse` reads one
// expression from *text up to `end`, advances, and is NULL where the text is
// no expression (nothing is recorded).  parse(print(e)) == e.
void th_expr_print(th_buffer *buffer, const th_expr *e);
const th_expr *th_expr_parse(th_ir *ir, const char **text, const char *end);

#endif

// Operations: one row of ops.def each, and operations of the user, which have
// the same facts.
#ifndef TH_IR_OP_H
#define TH_IR_OP_H

#include "base/context.h"

typedef enum th_op {
  TH_OP_none, // no operation
#define OP(name, ...) TH_OP_##name,
#include "ir/ops.def"
  TH_OP_COUNT // from here on: user operations
} th_op;

// What passes ask, as bits: TH_EW, TH_COMMUTES ... of traits.def.
enum {
#define TRAIT(name, text) TH_TRAIT_##name,
#include "ir/traits.def"
#undef TRAIT
};
enum {
#define TRAIT(name, text) TH_##name = 1 << TH_TRAIT_##name,
#include "ir/traits.def"
#undef TRAIT
};

// Kinds of parameters, as the schema letters say.
typedef enum th_param_kind {
  TH_P_TENSOR,  // T
  TH_P_TENSORS, // T[]   a list, its members may be None in T?[]
  TH_P_OPERAND, // E     a tensor or a number
  TH_P_NUMBER,  // N     int, float or bool, known or symbolic
  TH_P_INT,     // I
  TH_P_INTS,    // I[]
  TH_P_FLOAT,   // F
  TH_P_BOOL,    // B
  TH_P_STRING,  // S
  TH_P_DTYPE,   // D
  TH_P_DEVICE,  // V
  TH_P_TRACE,   // G     a sub-trace
  TH_P_ANY,     // *     the rest of the arguments, of any kind
} th_param_kind;

enum { TH_MAX_PARAMS = 16, TH_MAX_OUTS = 5 };

typedef struct th_param {
  const char *name;
  th_param_kind kind;
  bool optional;      // T?: None is allowed
  bool optional_item; // T?[]: members may be None
  bool has_default;
  const char *default_text; // as in the schema: None, 1, 0.5, True, 'none', []
} th_param;

struct th_infer;
struct th_builder;
struct th_stmt;
struct th_value;

// Computes the types of the results of one statement (infer.h).
typedef th_status (*th_infer_fn)(struct th_infer *in);
// Builds the meaning of a composite from other operations; returns the results
// in outs (expand.h).
typedef th_status (*th_expand_fn)(struct th_builder *b,
                                  const struct th_stmt *stmt,
                                  struct th_value **outs);

enum { TH_OUTS_LIST = 255 };

typedef struct th_op_info {
  th_op op;
  const char *name;   // "linear", "ns::name" for a user operation
  const char *schema; // "T x, T weight, T? bias=None"
  uint32_t traits;
  uint8_t outs; // number of results; TH_OUTS_LIST: as the rule says
  th_infer_fn infer;
  th_expand_fn expand; // NULL: a primitive
  const void *user;    // of a user operation
  uint8_t param_count;
  th_param params[TH_MAX_PARAMS];
} th_op_info;

// The built-in row; parses all schemas at the first call (thread-safe).
const th_op_info *th_op_row(th_op op);

// By name as written in traces, with or without namespace and overload:
// linear, aten.linear, aten.linear.default, ns::name.  NULL: unknown.
const th_op_info *th_op_find(th_context *ctx, const char *name, size_t length);

// Adds a user operation to the context; copies the strings.
typedef struct th_user_op {
  const char *name; // with "::"
  const char *schema;
  uint8_t outs;
  uint32_t traits;
  th_infer_fn infer;
  th_expand_fn expand; // may be NULL: then an executor has to claim it
  const void *user;    // what the two find in op->user
} th_user_op;
th_status th_op_register(th_context *ctx, const th_user_op *op,
                         const th_op_info **out_op);

// Gives `to`, which has none of its own, the user operations that `from` has
// now.  `from` outlives it.
th_status th_ops_share(th_context *to, th_context *from);

// Parses a schema into params; false with a text in *out_error.
bool th_schema_parse(const char *schema, th_param *params, uint8_t *out_count,
                     const char **out_error, th_arena *arena);

#endif

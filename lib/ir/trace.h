// The trace: values, statements, sub-traces, and what a pass needs to read one
// and build the next.
//
// Everything here is allocated from the th_ir and immutable once its trace is
// finished; a pass copies statements into a new trace and shares types,
// strings, numbers and argument lists.
#ifndef TH_IR_TRACE_H
#define TH_IR_TRACE_H

#include "ir/expr.h"
#include "ir/op.h"

typedef enum th_kind {
  TH_KIND_TENSOR,
  TH_KIND_NUMBER, // type.num is a constant or an expression
  TH_KIND_STRING, // an input that is a string constant
  TH_KIND_NONE,   // an input that is None
} th_kind;

typedef struct th_type {
  th_kind kind;
  th_dtype dtype; // of the elements, or I64 / F64 / BOOL of a number
  th_device device;
  uint8_t rank;
  const th_expr *const *dims;
  const th_expr *const *strides; // in elements; NULL: row-major
  const th_expr *num;            // NUMBER
  const char *text;              // STRING
} th_type;

typedef enum th_input_kind {
  TH_INPUT_USER,
  TH_INPUT_PARAM,
  TH_INPUT_BUFFER,
  TH_INPUT_CONSTANT, // a lifted tensor
} th_input_kind;

typedef struct th_input {
  th_input_kind kind;
  const char *fqn; // "layers.0.weight"; NULL for USER
  bool persistent; // BUFFER: part of the state dict
} th_input;

typedef struct th_value {
  uint32_t id; // dense in its trace; th_trace.values[id]
  th_type type;
  const char *name;      // unique in its trace
  struct th_stmt *def;   // NULL: an input.  Inside a region: the inner one
  const th_input *input; // NULL: not an input
  int64_t slab;          // planned byte offset; -1: not planned
} th_value;

typedef enum th_arg_kind {
  TH_ARG_NONE,
  TH_ARG_VALUE,
  TH_ARG_NUM,
  TH_ARG_STRING,
  TH_ARG_DTYPE,
  TH_ARG_DEVICE,
  TH_ARG_LIST,
  TH_ARG_TUPLE, // lists in results
  TH_ARG_DICT,  // only in results
  TH_ARG_TRACE,
} th_arg_kind;

// An operand or attribute of a statement; also the tree that a trace returns.
typedef struct th_arg {
  th_arg_kind kind;
  uint32_t count; // LIST, TUPLE, DICT
  union {
    th_value *value;
    const th_expr *num;
    const char *text;
    th_dtype dtype;
    th_device device;
    const struct th_arg *items;
    struct th_trace *trace;
  };
  const char *const *keys; // DICT: one for each item
} th_arg;

static inline th_arg th_none(void) { return (th_arg){.kind = TH_ARG_NONE}; }
static inline th_arg th_v(th_value *value) {
  return value ? (th_arg){.kind = TH_ARG_VALUE, .value = value} : th_none();
}
static inline th_arg th_n(const th_expr *num) {
  return (th_arg){.kind = TH_ARG_NUM, .num = num};
}
static inline th_arg th_i(th_ir *ir, int64_t i) { return th_n(th_int(ir, i)); }
static inline th_arg th_f(th_ir *ir, double f) { return th_n(th_float(ir, f)); }
static inline th_arg th_b(th_ir *ir, bool b) { return th_n(th_bool(ir, b)); }
static inline th_arg th_d(th_dtype dtype) {
  return (th_arg){.kind = TH_ARG_DTYPE, .dtype = dtype};
}
static inline th_arg th_s(const char *text) {
  return (th_arg){.kind = TH_ARG_STRING, .text = text};
}
// Copies the items into the th_ir.
th_arg th_list(th_ir *ir, const th_arg *items, uint32_t count);
th_arg th_tuple(th_ir *ir, const th_arg *items, uint32_t count);
th_arg th_dict(th_ir *ir, const char *const *keys, const th_arg *items,
               uint32_t count);
th_arg th_ints(th_ir *ir, const int64_t *ints, uint32_t count);
th_arg th_nums(th_ir *ir, const th_expr *const *nums, uint32_t count);
bool th_arg_equal(const th_arg *a, const th_arg *b);

// A statement: outs = [executor.]op(args).  args follow the row's parameters,
// all of them (defaults filled in).
struct th_stmt {
  const th_op_info *op;
  uint16_t arg_count, out_count;
  th_arg *args;
  th_value **outs;      // NULL entries: results that do not exist or are unused
  const char *executor; // who claimed it; NULL: nobody yet
  bool in_place;        // scatter: writes into its first operand; op_(...)
  const char *label;    // region and kernel: hostFusion0, hostKernel3
  const char *scope;    // module path, "" at the top
  th_loc loc;           // line of the source model
  struct th_stmt **body; // region: its kernels, or its statements
                         // when a user's executor runs it; kernel: statements
  uint32_t body_count;
  uint32_t index; // position in the trace (or in the body)
};

typedef enum th_direction {
  TH_NO_DIRECTION,
  TH_DIRECTION_FORWARD,
  TH_DIRECTION_BACKWARD,
} th_direction;

typedef struct th_trace th_trace;
struct th_trace {
  th_ir *ir;
  const char *name;       // "computation"
  const char *provenance; // "Constructed by fuse (took 2 ms)"; NULL: none
  th_direction direction; // decorators
  bool no_grad;
  bool has_autocast;
  th_dtype autocast;
  th_value **inputs;
  uint32_t input_count, input_cap;
  th_stmt **stmts;
  uint32_t stmt_count, stmt_cap;
  th_value **values; // values[0] is NULL
  uint32_t value_count, value_cap;
  th_map names;         // name -> th_value
  uint32_t next_number; // of a value without a name of its own: t7
  th_arg result; // what is returned: usually {'output': ..., 'mutated': {...}}
  int64_t slab_size; // -1: not planned
};

th_trace *th_trace_new(th_ir *ir, const char *name);
// Name, decorators; no inputs, no statements.
th_trace *th_trace_like(const th_trace *trace);

// A region whose body is no kernels: one step, run by a user's executor.
static inline bool th_stmt_is_whole(const th_stmt *stmt) {
  return stmt->op->op == TH_OP_region && stmt->body_count &&
         stmt->body[0]->op->op != TH_OP_kernel;
}

// Adds a value; the name is made unique (x, x_1, ...); NULL: t0, t1, ..., a
// number that neither this trace nor one it was made from has given before.
th_value *th_trace_value(th_trace *trace, const th_type *type,
                         const char *name);
th_value *th_trace_input(th_trace *trace, const th_type *type, const char *name,
                         const th_input *input);

// Gives a value another name when that is free; keeps the old one otherwise.
void th_value_rename(th_trace *trace, th_value *value, const char *name);

// An identifier made of an FQN, injective; see IR.md "Names".
//   layers.0.weight -> t_layers_0_weight     fc_1.weight -> t_fc__1_weight
const char *th_name_of_fqn(th_ir *ir, const char *fqn);

th_type th_tensor_type(th_dtype dtype, uint8_t rank,
                       const th_expr *const *dims);
th_type th_number_type(const th_expr *num);
bool th_type_equal(const th_type *a, const th_type *b);
// The stride of dimension i, row-major or stated.
const th_expr *th_type_stride(th_ir *ir, const th_type *type, uint8_t i);
const th_expr *th_type_numel(th_ir *ir, const th_type *type);
// Elements lie densely in row-major order, whatever strides dims of 1 have.
bool th_type_is_contiguous(th_ir *ir, const th_type *type);
void th_type_print(th_buffer *buffer, const th_type *type); // cpu f32[2, 3]

// ---- building

// Where statements go.  An error is recorded once in the context; afterwards
// every call does nothing and returns NULL, and th_builder_finish returns the
// status.
typedef struct th_builder {
  th_ir *ir;
  th_trace *trace;
  const char *scope;
  th_loc loc;
  th_status status;
} th_builder;

void th_builder_init(th_builder *b, th_trace *trace);

// Appends a statement: checks the arguments against the row, fills in the
// defaults, infers the types, makes the results.  names may be NULL.
th_stmt *th_build(th_builder *b, const th_op_info *op, const th_arg *args,
                  uint32_t count, const char *const *names);
// The first result.
th_value *th_build1(th_builder *b, th_op op, const th_arg *args,
                    uint32_t count);
#define TH_BUILD(b, op, ...)                                                   \
  th_build1(b, TH_OP_##op, (th_arg[]){__VA_ARGS__},                            \
            (uint32_t)TH_COUNT(((th_arg[]){__VA_ARGS__})))

// The default of a parameter that has one.
th_arg th_param_default(th_ir *ir, const th_param *param);
// Checks `count` arguments against the row; `out` has room for all of the
// row's parameters.
th_status th_build_args(th_builder *b, const th_op_info *op, const th_arg *args,
                        uint32_t count, th_arg *out);

// ---- copying, for passes

// The part 'output' or 'mutated' of what a trace returns; NULL: it has none.
const th_arg *th_trace_result(const th_trace *trace, const char *part);

// Maps the values of one trace to those of the next.
typedef struct th_remap {
  const th_trace *from;
  th_builder *to;
  th_value **map; // by id of the old value
} th_remap;

// For a trace that shares no inputs with `from`; else see th_remap_begin.
void th_remap_init(th_remap *m, const th_trace *from, th_builder *to);
// Begins the trace that follows `from`: like it, its inputs copied and mapped,
// no statements; `to` is set up to build it.
th_trace *th_remap_begin(th_remap *m, const th_trace *from, th_builder *to);
// Maps the result, unless something failed; the builder's status.
th_status th_remap_end(th_remap *m);
th_arg th_remap_arg(th_remap *m, const th_arg *arg);
// Copies one statement with everything it holds, maps its results; keeps name,
// executor, label, scope, location and body.  Types are inferred again when
// an operand's type has changed.
th_stmt *th_remap_stmt(th_remap *m, const th_stmt *stmt);
static inline void th_remap_set(th_remap *m, const th_value *from,
                                th_value *to) {
  m->map[from->id] = to;
}

// Calls fn for every value that an argument (or list, or dict) mentions.
void th_arg_values(const th_arg *arg, void (*fn)(void *user, th_value *value),
                   void *user);
// Calls fn for every operand: arguments, and what sub-traces capture.
void th_stmt_operands(const th_stmt *stmt,
                      void (*fn)(void *user, th_value *value), void *user);
// For every number: in arguments and in the types of results.
void th_stmt_numbers(const th_stmt *stmt,
                     void (*fn)(void *user, const th_expr *num), void *user);

// ---- text (print.c, parse.c, verify.c)

typedef struct th_print_options {
  bool expand;       // show the expansion of composites under them
  bool no_locations; // leave scope and source lines out
  bool mask_time;    // (took N ms)
} th_print_options;

void th_trace_print(th_buffer *buffer, const th_trace *trace,
                    const th_print_options *options);
// One statement, without newline, for diagnostics and dumps.
void th_stmt_print(th_buffer *buffer, const th_stmt *stmt);

// Reads one trace.  `name` is the file in diagnostics.  Unknown operations,
// types that differ from what the rule infers, names used before they are
// made: one located error each, up to 20.
th_status th_trace_parse(th_ir *ir, const char *name, const char *text,
                         size_t size, th_trace **out_trace);

// Checks everything that a pass may rely on: single assignment, definitions
// before uses, arity, inferred types, region inputs and outputs, del.
th_status th_trace_verify(const th_trace *trace);

// Same structure, names, types and order (provenance and times apart).
bool th_trace_equal(const th_trace *a, const th_trace *b);

#endif

// From the graph of an archive to a trace.
//
//   graph.c    a program: inputs, nodes, result
//   node.c     one node: its arguments by the schema, its results
//   aten.c     what a target means: rows of aten.def, templates
//   aten_*.c   targets that need code
//   alias.c    values that share memory, writes through them
//   numbers.c  sizes, Python's arithmetic on them, symbolic expressions
//   hop.c      higher-order operations: regions and branches
//   treespec.c the shape of arguments and results
#ifndef TH_FRONTEND_GRAPH_H
#define TH_FRONTEND_GRAPH_H

#include "frontend/archive.h"
#include "frontend/schema.h"

// A tensor of the graph.  Memory is not part of a trace, so a tensor knows
// which memory it is a window on: its base, and the views that lead to it.  A
// write makes a new value of the base; other windows are derived again when
// they are read (alias.c).
typedef struct th_pt2_tensor {
  th_value *value;              // its contents after `version` writes
  uint32_t version;             //
  struct th_pt2_tensor *parent; // of a view; NULL: a base
  struct th_pt2_tensor *base;   // itself for a base
  th_value *from, *made;        // the view: statements from `from` to `made`
  uint32_t depth;               // views up to the base
  uint32_t writes;              // into a base, so far
  bool is_operand;              // a base that a branch must not write
  const th_json *meta;          // TensorMeta of the archive, or NULL
} th_pt2_tensor;

typedef enum th_pt2_arg_kind {
  TH_PT2_NONE,
  TH_PT2_TENSOR,
  TH_PT2_NUM,
  TH_PT2_STRING,
  TH_PT2_DTYPE,
  TH_PT2_LIST,
  TH_PT2_GRAPH,
  TH_PT2_IGNORED, // device, layout, memory format
} th_pt2_arg_kind;

// An argument or a result of a node.
typedef struct th_pt2_arg {
  th_pt2_arg_kind kind;
  uint32_t count; // LIST
  union {
    th_pt2_tensor *tensor;
    const th_expr *num;
    const char *text;
    th_dtype dtype;
    struct th_pt2_arg *items;
    const th_json *json; // GRAPH: {"name", "graph"}; IGNORED: the value
  };
} th_pt2_arg;

typedef struct th_pt2_graph {
  th_pt2 *archive;
  th_pt2_program *program;
  th_json_place place;
  th_ir *ir;
  th_arena *arena; // scratch
  th_builder *b;
  th_map *names;         // of the graph being read: th_pt2_arg
  th_map *metas;         // its tensor_values: th_json
  const th_json *json;   // the graph
  th_map *symbols;       // of the archive: th_expr
  th_map *rows;          // targets: th_aten_row
  th_schemas *schemas;   //
  const th_json *ranges; // range_constraints
  bool no_grad;
  bool autocast;
  th_dtype autocast_dtype;
  uint32_t depth; // of graphs inside graphs
  // Where the newest node stands, and the texts that said so.
  th_loc loc;
  const char *scope;
  const char *last_trace, *last_stack;
  // The node being read, for errors.
  uint32_t node;
  const char *target; // "aten.add.Tensor"
} th_pt2_graph;

// One node.
typedef struct th_call {
  th_pt2_graph *graph;
  const th_schema *schema; // NULL: a target without one
  th_pt2_arg *args;        // follow the schema
  uint32_t arg_count;
  th_pt2_arg *outs; // what it gives; set by the handler
  uint32_t out_count;
  const th_json *json;
} th_call;

typedef th_status (*th_call_fn)(th_call *call);

// An error with the node and its target, at the source line of the model.
th_status th_call_error(const th_pt2_graph *graph, th_status status,
                        const char *fmt, ...) TH_PRINTF(3, 4);

// ---- node.c

th_status th_pt2_read_node(th_pt2_graph *graph, const th_json *node);
// One union {"as_...": value} as an argument.
th_status th_pt2_read_arg(th_pt2_graph *graph, const th_json *value,
                          const char *name, th_pt2_arg *out_arg);
// Gives a result its name, checks it against the archive's TensorMeta.
th_status th_pt2_bind(th_pt2_graph *graph, const char *name, th_pt2_arg arg);
// "torch.ops.aten.add.Tensor" -> "aten.add.Tensor".
const char *th_pt2_target(const th_json *node);
// Location and module path of a node, where the archive has them.
void th_pt2_node_place(th_pt2_graph *graph, const th_json *node);

// ---- graph.c

// Reads nodes of a graph, whose inputs have names already.
th_status th_pt2_read_nodes(th_pt2_graph *graph, const th_json *json);
// A graph inside: names of its own, which `job` fills and uses.
typedef struct th_pt2_scope {
  th_map names, metas;
  th_map *outer_names, *outer_metas;
  const th_json *outer_json;
} th_pt2_scope;
th_status th_pt2_enter(th_pt2_graph *graph, const th_json *json,
                       th_pt2_scope *scope);
void th_pt2_leave(th_pt2_graph *graph, th_pt2_scope *scope);

// ---- aten.c

typedef struct th_aten_row {
  const char *name;     // "aten.add.Tensor"
  const char *template; // NULL: fn
  th_call_fn fn;
  const char *schema; // NULL: that of schemas.def
} th_aten_row;

void th_aten_rows(th_map *out_rows);
// The row that gives the meaning of a target, functionally: "add_.Tensor" is
// that of "add.Tensor".  NULL: none.
typedef struct th_target {
  const th_aten_row *row;
  const th_schema *schema;
  bool in_place; // the result is written into the first argument
  bool out;      // ... into the arguments that follow those of the schema
  const char *const *outs; // their names
} th_target;
bool th_aten_find(const th_pt2_graph *graph, const char *target,
                  th_target *out_target);

// Runs a template for a call.
th_status th_aten_template(th_call *call, const char *text);

// ---- arguments of a call, for handlers

const th_pt2_arg *th_call_arg(const th_call *call, const char *name);
bool th_call_given(const th_call *call, const char *name); // and not None
th_value *th_call_tensor(th_call *call, const char *name); // NULL: None
const th_expr *th_call_num(const th_call *call, const char *name);
// Constants; the schema's kind is taken as given.
int64_t th_call_int(const th_call *call, const char *name);
bool th_call_bool(const th_call *call, const char *name);
// As an operand of a statement; tensors as they are now.
th_arg th_call_operand(th_call *call, const char *name);
th_arg th_call_value(th_call *call, const th_pt2_arg *arg);

// Results: fresh memory; `value` NULL: none.
th_status th_call_return(th_call *call, th_value *value);
th_status th_call_return_list(th_call *call, th_value *const *values,
                              uint32_t count);
th_status th_call_return_arg(th_call *call, th_pt2_arg arg);
th_status th_call_return_num(th_call *call, const th_expr *num);

// ---- alias.c

th_pt2_tensor *th_alias_base(th_pt2_graph *graph, th_value *value);
// `made` as a window on the memory of `parent`, if statements that are views
// lead from its present value to `made`; else fresh memory.
th_pt2_tensor *th_alias_view(th_pt2_graph *graph, th_pt2_tensor *parent,
                             th_value *made);
th_value *th_alias_read(th_pt2_graph *graph, th_pt2_tensor *tensor);
// The contents become `value`, converted and expanded to the tensor's type.
th_status th_alias_write(th_pt2_graph *graph, th_pt2_tensor *tensor,
                         th_value *value);
// Whether PyTorch gives a window (true) or a copy, by the strides that the
// archive has: a reshape of `tensor` to this shape, or `contiguous`.
bool th_alias_would_view(th_pt2_graph *graph, const th_pt2_tensor *tensor,
                         const th_type *shape);
bool th_alias_is_contiguous(th_pt2_graph *graph, const th_pt2_tensor *tensor);

// ---- numbers.c

// A SymInt, SymBool or SymFloat object of the archive; NULL: a form or a symbol
// that is not known.
const th_expr *th_pt2_number(th_pt2_graph *graph, const th_json *value);
// The name of a bare symbol; NULL: something else.
const char *th_pt2_symbol_name(th_pt2_graph *graph, const th_json *value);
// Makes an archive's symbol stand for a number of the trace.
void th_pt2_bind_symbol(th_pt2_graph *graph, const char *name,
                        const th_expr *num);
// Symbols of the inputs become symbols of the trace.
th_status th_pt2_declare_symbols(th_pt2_graph *graph, const th_json *value);
// The dims of a TensorMeta; NULL for those that are not known.
th_status th_pt2_meta_type(th_pt2_graph *graph, const th_json *meta,
                           th_type *out_type);
// _operator.add and the like.
bool th_numbers_find(const char *target, th_call_fn *out_fn);

// ---- hop.c

bool th_hop_find(const char *target, th_call_fn *out_fn);

// ---- treespec.c

// The result of a program as a tree over its leaves.
th_status th_pt2_result_tree(th_pt2_graph *graph, const th_json *out_spec,
                             const th_arg *leaves, uint32_t count,
                             th_arg *out_tree);

#endif

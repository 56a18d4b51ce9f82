// The inside of a tracer.
//
// Every public call runs protected: memory that is out becomes the tracer's
// status, since nothing may unwind through the user's function.
#ifndef TH_TRACER_H
#define TH_TRACER_H

#include "ir/infer.h"
#include "tensor/tensor.h"
#include "thunder/module.h"
#include "thunder/trace.h"

// A tensor that the trace got from a module or as a constant.
typedef struct th_tracer_state {
  th_value *input;
  th_tensor *tensor; // borrowed: of the module, or retained by `constants`
} th_tracer_state;

struct th_tracer {
  th_builder *b;
  th_builder own;      // what b points to, unless it is somebody else's
  th_tracer *around;   // of a branch: the trace that it belongs to
  bool is_placed;      // statements stand for another and keep its place
  bool only_types;     // statements of an expansion that is thrown away
  const char **scopes; // paths, innermost last
  uint32_t scope_count, scope_cap;
  // Tracing a function.
  th_module *module;
  th_map states; // FQN -> th_tracer_state
  th_map now;    // name of an input that was set -> its new value
  th_value **user_inputs;
  uint32_t user_input_count;
  // What symbols are in this call, by index.
  th_scalar *symbols;
  bool *symbol_known;
  uint32_t symbol_cap, known_cap;
  const th_expr **assumed; // true in this call, to be checked in others
  uint32_t assumed_count, assumed_cap;
  // Rewriting a trace.
  th_remap *remap;
  void *pipeline; // th_pipeline, for built-in passes
  th_trace *made; // the next trace, when a pass made all of it
};

// Starts on an empty trace of `ir`, or on somebody's builder.
void th_tracer_init(th_tracer *t, th_ir *ir, const char *name);
void th_tracer_wrap(th_tracer *t, th_builder *b);
// The result and the mutations; inputs in the order of th_trace.inputs.
th_status th_tracer_finish(th_tracer *t, th_value *const *out, size_t count);

// A number as a value; NULL: an earlier error.
th_value *th_tracer_number(th_tracer *t, const th_expr *num);
// Runs `fn` protected, with the place as location; keeps the status.
th_status th_tracer_run(th_tracer *t, const char *file, int line,
                        th_status (*fn)(void *), void *arg);
// The operand as an argument.  Unwinds.
th_status th_tracer_arg(th_tracer *t, const th_operand *operand, th_arg *out);
// Is it of the trace that `t` builds (what is no tensor is of any)?  And the
// error when it is not.
bool th_tracer_owns(const th_tracer *t, const th_value *value);
th_status th_tracer_foreign(const th_tracer *t, const th_value *value);
// What a symbol is in this call.  Unwinds.
void th_tracer_set_symbol(th_tracer *t, const th_expr *symbol, th_scalar value);
// What a number is in this call; false: it depends on data, or divides by zero.
bool th_tracer_eval(const th_tracer *t, const th_expr *num, th_scalar *out);
// Notes that `condition` holds.
void th_tracer_assume(th_tracer *t, const th_expr *condition);

// One operation with the results that it has; NULL: an error, now or before.
th_value *th_tracer_op(th_tracer *t, const char *file, int line, th_op op,
                       const th_operand *operands, size_t count);
th_status th_tracer_ops(th_tracer *t, const char *file, int line,
                        const th_op_info *op, const th_operand *operands,
                        size_t count, th_value **out, size_t out_count);

#endif

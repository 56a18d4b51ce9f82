// Shape rules: what a rule gets and how it answers.
#ifndef TH_IR_INFER_H
#define TH_IR_INFER_H

#include "ir/trace.h"

// One question.  args follow the row's parameters, all filled in and of the
// right kinds; a rule writes outs[0 .. out_count).
typedef struct th_infer {
  th_ir *ir;
  const th_op_info *op;
  const th_arg *args;
  uint32_t arg_count;
  th_loc loc;
  const char *scope;
  th_type *outs; // room for out_cap
  uint32_t out_count, out_cap;
  const th_value *culprit; // whose producer a note should name
  // A statement that is inferred again: the types that its results have.  A
  // size that depends on data keeps its symbol so, where it would get a fresh
  // one.  NULL: a new statement.
  const th_type *known;
  uint32_t known_count;
} th_infer;

// Runs the row's rule; what it reports has the statement's location.
th_status th_infer_run(th_infer *in);

// ---- for rules

th_status th_infer_error(th_infer *in, th_status status, const char *fmt, ...)
    TH_PRINTF(3, 4);
const th_type *th_infer_tensor(th_infer *in, uint32_t arg); // NULL: None
// The number of a NUM argument (NULL: None) and its constant.
const th_expr *th_infer_num(th_infer *in, uint32_t arg);
bool th_infer_int(th_infer *in, uint32_t arg, int64_t *out);
bool th_infer_bool(th_infer *in, uint32_t arg);
// -rank <= dim < rank, wrapped; rank 0 counts as 1.
th_status th_infer_dim(th_infer *in, int64_t dim, uint8_t rank,
                       uint8_t *out_dim);
// Two sizes that must be equal: false when they are known to differ.  When it
// is not known they are taken as equal, the constant one being preferred.
bool th_infer_same_dim(th_infer *in, const th_expr *a, const th_expr *b,
                       const th_expr **out);

// PyTorch's promotion over tensors (with dims, then 0-dim) and numbers: the
// highest category decides, then the highest-ranked group that has it.
// Source: PyTorch documentation, "torch.result_type" / tensor attributes.
th_dtype th_promote_types(th_dtype a, th_dtype b);
th_dtype th_promote_args(const th_arg *args, uint32_t count);
// The dtype in which an elementwise statement computes: operands are converted
// to it first.  F32 for f16 and bf16 results is the executor's own business.
th_dtype th_compute_dtype(const th_stmt *stmt);

// Broadcast of several shapes (right-aligned).
th_status th_broadcast(th_infer *in, const th_type *const *types,
                       uint32_t count, th_type *out);
// Strides of a view with new dims, or false when a copy is needed
// (https://pytorch.org/docs: Tensor.view).
bool th_view_strides(th_ir *ir, const th_type *type, uint8_t rank,
                     const th_expr *const *dims, const th_expr **out_strides);
// Is a statement only a window on its operand's memory?  (A reshape that has to
// copy is not.)  Such a statement needs no executor.
bool th_stmt_is_window(th_ir *ir, const th_stmt *stmt);

#endif

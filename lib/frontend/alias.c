// Memory behind the values of a graph.
//
// A base is a tensor with memory of its own; a view is a window on its parent,
// found by walking from its value back to the parent's through statements that
// are views.  Values are never changed; a write to a view makes a new value of
// each tensor on the way to the base, by the inverse of each view:
//
//   base x -- slice -- y -- permute -- z        z.add_(1) becomes
//
//   z' = add(z, 1)
//   y' = permute(z', back)
//   x' = slice_scatter(x, y', ...)
//
// The base counts its writes.  A window that was read before the last one is
// derived again from its parent when somebody reads it.
#include "frontend/graph.h"

#include "ir/infer.h"

#include <string.h>

enum { ALIAS_CHAIN = 32, ALIAS_DEPTH = 256 };

th_pt2_tensor *th_alias_base(th_pt2_graph *graph, th_value *value) {
  th_pt2_tensor *tensor = TH_NEW(graph->arena, th_pt2_tensor);
  tensor->value = value;
  tensor->base = tensor;
  return tensor;
}

// ---- the statements of a view ----------------------------------------------

typedef struct alias_step {
  const th_stmt *stmt;
  uint32_t out;
} alias_step;

// From `from` to `made`, first statement first; -1: other statements lie
// between.
static int alias_chain(const th_value *from, const th_value *made,
                       alias_step *steps) {
  int count = 0;
  for (const th_value *v = made; v != from; count++) {
    const th_stmt *stmt = v->def;
    if (!stmt || count == ALIAS_CHAIN || !(stmt->op->traits & TH_VIEW) ||
        stmt->args[0].kind != TH_ARG_VALUE) {
      return -1;
    }
    steps[count].stmt = stmt;
    steps[count].out = 0;
    while (stmt->outs[steps[count].out] != v) {
      steps[count].out++;
    }
    v = stmt->args[0].value;
  }
  for (int i = 0; i < count / 2; i++) {
    alias_step step = steps[i];
    steps[i] = steps[count - 1 - i];
    steps[count - 1 - i] = step;
  }
  return count;
}

th_pt2_tensor *th_alias_view(th_pt2_graph *graph, th_pt2_tensor *parent,
                             th_value *made) {
  alias_step steps[ALIAS_CHAIN];
  th_pt2_tensor *tensor = th_alias_base(graph, made);
  if (!made || alias_chain(parent->value, made, steps) < 0) {
    return tensor;
  }
  tensor->parent = parent;
  tensor->base = parent->base;
  tensor->version = parent->base->writes;
  tensor->from = parent->value;
  tensor->made = made;
  tensor->depth = parent->depth + 1;
  return tensor;
}

// The step once more, over another value.
static th_value *alias_apply(th_builder *b, const alias_step *step,
                             th_value *on) {
  th_arg args[TH_MAX_PARAMS];
  memcpy(args, step->stmt->args, step->stmt->arg_count * sizeof *args);
  args[0] = th_v(on);
  th_stmt *stmt =
      th_build(b, step->stmt->op, args, step->stmt->arg_count, NULL);
  return stmt ? stmt->outs[step->out] : NULL;
}

static th_status alias_too_deep(th_pt2_graph *graph) {
  return graph->b->status = th_call_error(
             graph, TH_UNSUPPORTED, "views of views are nested too deeply");
}

th_value *th_alias_read(th_pt2_graph *graph, th_pt2_tensor *tensor) {
  if (tensor->version == tensor->base->writes || !tensor->parent) {
    return tensor->value;
  }
  if (tensor->depth > ALIAS_DEPTH) {
    alias_too_deep(graph);
    return NULL;
  }
  alias_step steps[ALIAS_CHAIN];
  int count = alias_chain(tensor->from, tensor->made, steps);
  th_value *value = th_alias_read(graph, tensor->parent);
  for (int i = 0; i < count; i++) {
    value = alias_apply(graph->b, &steps[i], value);
  }
  tensor->value = value;
  tensor->version = tensor->base->writes;
  return value;
}

// ---- inverses --------------------------------------------------------------

static th_value *alias_reshape_like(th_builder *b, th_value *value,
                                    const th_value *like) {
  return TH_BUILD(b, reshape, th_v(value),
                  th_nums(b->ir, like->type.dims, like->type.rank));
}

static th_value *alias_unpermute(th_builder *b, const th_stmt *stmt,
                                 th_value *value) {
  int64_t inverse[TH_MAX_RANK];
  uint32_t rank = stmt->args[1].count;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t dim = stmt->args[1].items[i].num->i;
    inverse[dim < 0 ? dim + rank : dim] = i;
  }
  return TH_BUILD(b, permute, th_v(value), th_ints(b->ir, inverse, rank));
}

static bool alias_same_dims(const th_type *a, const th_type *b) {
  if (a->rank != b->rank) {
    return false;
  }
  for (uint8_t i = 0; i < a->rank; i++) {
    if (a->dims[i] != b->dims[i]) {
      return false;
    }
  }
  return true;
}

// A part of split as the slice that it is.
static th_value *alias_unsplit(th_builder *b, const alias_step *step,
                               th_value *whole, th_value *part) {
  const th_arg *args = step->stmt->args;
  const th_expr *start = th_int(b->ir, 0);
  for (uint32_t i = 0; i < step->out; i++) {
    start = th_expr_add(b->ir, start, args[1].items[i].num);
  }
  const th_expr *end = th_expr_add(b->ir, start, args[1].items[step->out].num);
  return TH_BUILD(b, slice_scatter, th_v(whole), th_v(part), args[2],
                  th_n(start), th_n(end), th_i(b->ir, 1));
}

// Where unfold's elements lie in a row-major tensor.
static th_value *alias_unfold_back(th_builder *b, const alias_step *step,
                                   th_value *whole, th_value *part) {
  const th_type *type = &whole->type;
  th_type row_major = th_tensor_type(type->dtype, type->rank, type->dims);
  int64_t dim = step->stmt->args[1].num->i;
  dim = dim < 0 ? dim + type->rank : dim;
  const th_expr *strides[TH_MAX_RANK + 1];
  for (uint8_t i = 0; i < type->rank; i++) {
    strides[i] = th_type_stride(b->ir, &row_major, i);
  }
  strides[type->rank] = strides[dim];
  strides[dim] = th_expr_mul(b->ir, strides[dim], step->stmt->args[3].num);
  return TH_BUILD(b, as_strided_scatter, th_v(whole), th_v(part),
                  th_nums(b->ir, part->type.dims, part->type.rank),
                  th_nums(b->ir, strides, part->type.rank), th_i(b->ir, 0));
}

// `whole` with the window of `step` replaced by `part`.
static th_value *alias_put_back(th_pt2_graph *graph, const alias_step *step,
                                th_value *whole, th_value *part) {
  th_builder *b = graph->b;
  const th_stmt *stmt = step->stmt;
  const th_arg *a = stmt->args;
  if (!whole || !part) {
    return NULL;
  }
  switch (stmt->op->op) {
  case TH_OP_reshape:
  case TH_OP_squeeze:
  case TH_OP_unsqueeze:
    return alias_reshape_like(b, part, whole);
  case TH_OP_permute:
    return alias_unpermute(b, stmt, part);
  case TH_OP_detach:
    return part;
  case TH_OP_slice:
    return alias_same_dims(&whole->type, &part->type)
               ? part
               : TH_BUILD(b, slice_scatter, th_v(whole), th_v(part), a[1], a[2],
                          a[3], a[4]);
  case TH_OP_select:
    return TH_BUILD(b, select_scatter, th_v(whole), th_v(part), a[1], a[2]);
  case TH_OP_unbind:
    return TH_BUILD(b, select_scatter, th_v(whole), th_v(part), a[1],
                    th_i(b->ir, step->out));
  case TH_OP_split:
    return alias_unsplit(b, step, whole, part);
  case TH_OP_diagonal:
    return TH_BUILD(b, diagonal_scatter, th_v(whole), th_v(part), a[1], a[2],
                    a[3]);
  case TH_OP_as_strided:
    return TH_BUILD(b, as_strided_scatter, th_v(whole), th_v(part), a[1], a[2],
                    a[3]);
  case TH_OP_unfold:
    return alias_unfold_back(b, step, whole, part);
  case TH_OP_expand:
    if (th_type_numel(b->ir, &whole->type) ==
        th_type_numel(b->ir, &part->type)) {
      return alias_reshape_like(b, part, whole);
    }
    break;
  default:
    break;
  }
  b->status = th_call_error(graph, TH_UNSUPPORTED,
                            "writes through '%s', where elements share memory",
                            stmt->op->name);
  return NULL;
}

// ---- writes ----------------------------------------------------------------

// `value` with the dtype and the dims of `like`.
static th_value *alias_fit(th_builder *b, th_value *value,
                           const th_type *like) {
  if (value && value->type.dtype != like->dtype) {
    value = TH_BUILD(b, to, th_v(value), th_d(like->dtype));
  }
  if (value && !alias_same_dims(&value->type, like)) {
    value = TH_BUILD(b, expand, th_v(value),
                     th_nums(b->ir, like->dims, like->rank));
  }
  return value;
}

// The parent's value once the window `tensor` on it holds `part`.
static th_value *alias_into_parent(th_pt2_graph *graph,
                                   const th_pt2_tensor *tensor, th_value *whole,
                                   th_value *part) {
  alias_step steps[ALIAS_CHAIN];
  th_value *wholes[ALIAS_CHAIN + 1] = {NULL};
  int count = alias_chain(tensor->from, tensor->made, steps);
  wholes[0] = whole;
  for (int i = 0; i + 1 < count; i++) {
    wholes[i + 1] = alias_apply(graph->b, &steps[i], wholes[i]);
  }
  for (int i = count - 1; i >= 0; i--) {
    part = alias_put_back(graph, &steps[i], wholes[i], part);
  }
  return part;
}

th_status th_alias_write(th_pt2_graph *graph, th_pt2_tensor *tensor,
                         th_value *value) {
  th_value *old = th_alias_read(graph, tensor);
  if (!old || !value) {
    return graph->b->status;
  }
  if (tensor->depth > ALIAS_DEPTH) {
    return alias_too_deep(graph);
  }
  if (tensor->base->is_operand) {
    return th_call_error(graph, TH_UNSUPPORTED,
                         "a branch writes to a value from outside of it");
  }
  th_pt2_tensor *base = tensor->base;
  value = alias_fit(graph->b, value, &old->type);
  uint32_t version = base->writes + 1;
  for (th_pt2_tensor *at = tensor; at; at = at->parent) {
    th_value *whole = at->parent ? th_alias_read(graph, at->parent) : NULL;
    th_value *part = value;
    if (at->parent) {
      value = alias_into_parent(graph, at, whole, part);
    }
    at->value = part;
    at->version = version;
  }
  base->writes = version;
  return graph->b->status;
}

// ---- what PyTorch would do -------------------------------------------------

// The type with the strides of the archive; false: not all of them are known.
static bool alias_recorded(th_pt2_graph *graph, const th_pt2_tensor *tensor,
                           th_type *out_type) {
  if (!tensor->meta ||
      th_pt2_meta_type(graph, tensor->meta, out_type) != TH_OK) {
    return false;
  }
  for (uint8_t i = 0; i < out_type->rank; i++) {
    if (!out_type->dims[i] || !out_type->strides[i]) {
      return false;
    }
  }
  return true;
}

bool th_alias_is_contiguous(th_pt2_graph *graph, const th_pt2_tensor *tensor) {
  th_type type;
  return !alias_recorded(graph, tensor, &type) ||
         th_type_is_contiguous(graph->ir, &type);
}

bool th_alias_would_view(th_pt2_graph *graph, const th_pt2_tensor *tensor,
                         const th_type *shape) {
  th_type type;
  const th_expr *strides[TH_MAX_RANK];
  return !alias_recorded(graph, tensor, &type) ||
         th_view_strides(graph->ir, &type, shape->rank, shape->dims, strides);
}

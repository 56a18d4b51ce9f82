// Shape rules of operations that read or write where an index says, of sizes
// that depend on data, and of control.
//
// A scatter is its first operand with some elements replaced: its result has
// the operand's shape and is row-major.
#include "ir/infer_util.h"

// ---- gather

th_status th_infer_rule_embedding(th_infer *in) {
  const th_type *w = th_infer_tensor(in, 0), *index = th_infer_tensor(in, 1);
  th_device device;
  TH_TRY(th_infer_device(in, &device));
  TH_TRY(th_infer_need_rank(in, 0, 2, 2));
  TH_TRY(th_infer_need_index(in, 1));
  th_shape shape = th_shape_of(in, index);
  th_shape_push(&shape, w->dims[1], NULL);
  return th_infer_out(in, w->dtype, device, &shape);
}

// The index has the operand's rank and nowhere exceeds it, `dim` apart.
static th_status gather_need_inside(th_infer *in, uint32_t arg,
                                    const th_type *whole, const char *name,
                                    int dim) {
  const th_type *index = th_infer_tensor(in, arg);
  const th_expr *numel = th_type_numel(in->ir, index);
  uint32_t rank = index->rank ? index->rank : 1;
  if (numel && th_is_int(numel, 0)) { // as PyTorch: reads and writes nothing
    return TH_OK;
  }
  bool fits = rank == (whole->rank ? whole->rank : 1u);
  for (uint8_t d = 0; fits && d < index->rank && d < whole->rank; d++) {
    fits = d == dim ||
           !th_infer_never(in, TH_X_LE, index->dims[d], whole->dims[d]);
  }
  if (fits) {
    return TH_OK;
  }
  th_infer_blame(in, arg);
  return th_infer_error(in, TH_SHAPE,
                        "'%s' is %s; it must have the rank of '%s', %s, and be "
                        "no larger",
                        in->op->params[arg].name, th_infer_text(in, index),
                        name, th_infer_text(in, whole));
}

th_status th_infer_rule_gather(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0), *index = th_infer_tensor(in, 2);
  uint8_t dim = 0;
  TH_TRY(th_infer_arg_dim(in, 1, x->rank, &dim));
  TH_TRY(th_infer_need_index(in, 2));
  TH_TRY(gather_need_inside(in, 2, x, "x", dim));
  th_shape shape = th_shape_of(in, index);
  return th_infer_out(in, x->dtype, x->device, &shape);
}

static th_status gather_need_list(th_infer *in, uint32_t arg,
                                  const th_expr **out_count) {
  const th_type *index = th_infer_tensor(in, arg);
  TH_TRY(th_infer_need_index(in, arg));
  TH_TRY(th_infer_need_rank(in, arg, 0, 1));
  *out_count = index->rank ? index->dims[0] : th_int(in->ir, 1);
  return TH_OK;
}

th_status th_infer_rule_index_select(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  const th_expr *count = NULL;
  TH_TRY(th_infer_arg_dim(in, 1, x->rank, &dim));
  TH_TRY(gather_need_list(in, 2, &count));
  th_shape shape = th_shape_of(in, x);
  if (x->rank) {
    shape.dims[dim] = count;
  }
  return th_infer_out(in, x->dtype, x->device, &shape);
}

// x[indices]: the broadcast of the index tensors replaces the dimensions that
// they index; it stands at the first of these when they are neighbours, else
// in front.
static th_status gather_indexed(th_infer *in, th_shape *out) {
  const th_type *x = th_infer_tensor(in, 0), *types[TH_MAX_RANK];
  const th_arg *list = &in->args[1];
  uint32_t count = 0, first = 0, last = 0;
  if (list->count > x->rank) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE, "%u indices for %s", list->count,
                          th_infer_text(in, x));
  }
  for (uint32_t i = 0; i < list->count; i++) {
    const th_arg *item = &list->items[i];
    if (item->kind != TH_ARG_VALUE) {
      continue;
    }
    const th_type *type = &item->value->type;
    if (type->dtype != TH_I64 && type->dtype != TH_I32) {
      in->culprit = item->value;
      return th_infer_error(in, TH_DTYPE,
                            "index %u is %s; it must be i64 or i32 (a mask "
                            "goes through nonzero)",
                            i, th_infer_text(in, type));
    }
    first = count ? first : i;
    last = i;
    types[count++] = type;
  }
  if (!count) {
    return th_infer_error(in, TH_INVALID, "no index is given");
  }
  th_type joined = {0};
  TH_TRY(th_broadcast(in, types, count, &joined));
  uint32_t at = last - first + 1 == count ? first : 0;
  *out = (th_shape){0};
  for (uint32_t d = 0; d <= x->rank; d++) {
    for (uint8_t k = 0; d == at && k < joined.rank; k++) {
      th_shape_push(out, joined.dims[k], NULL);
    }
    bool is_indexed = d < list->count && list->items[d].kind == TH_ARG_VALUE;
    if (d < x->rank && !is_indexed) {
      th_shape_push(out, x->dims[d], NULL);
    }
  }
  return TH_OK;
}

th_status th_infer_rule_index(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  th_shape shape;
  TH_TRY(gather_indexed(in, &shape));
  return th_infer_out(in, x->dtype, x->device, &shape);
}

// ---- scatter

th_status th_infer_rule_scatter(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0), *src = th_infer_tensor(in, 3);
  uint8_t dim = 0;
  TH_TRY(th_infer_arg_dim(in, 1, x->rank, &dim));
  TH_TRY(th_infer_need_index(in, 2));
  TH_TRY(gather_need_inside(in, 2, x, "x", dim));
  if (src) {
    TH_TRY(th_infer_same_dtype(in, 0, 3));
    TH_TRY(gather_need_inside(in, 2, src, "src", -1));
  }
  return th_infer_rule_copy(in);
}

th_status th_infer_rule_index_put(th_infer *in) {
  const th_type *values = th_infer_tensor(in, 2);
  th_shape shape, have = th_shape_of(in, values);
  TH_TRY(gather_indexed(in, &shape));
  TH_TRY(th_infer_same_dtype(in, 0, 2));
  if (!th_infer_fits(in, &have, &shape)) {
    return th_infer_need_shape(in, 2, &shape, "what it has to broadcast to");
  }
  return th_infer_rule_copy(in);
}

th_status th_infer_rule_index_copy(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  const th_expr *count = NULL;
  TH_TRY(th_infer_arg_dim(in, 1, x->rank, &dim));
  TH_TRY(gather_need_list(in, 2, &count));
  TH_TRY(th_infer_same_dtype(in, 0, 3));
  th_shape shape = th_shape_of(in, x);
  if (x->rank) {
    shape.dims[dim] = count;
    TH_TRY(th_infer_need_shape(in, 3, &shape, "the shape of what is indexed"));
  } else {
    TH_TRY(th_infer_need_rank(in, 3, 0, 1));
  }
  return th_infer_rule_copy(in);
}

// src replaces a view of x.
static th_status gather_replace(th_infer *in, const th_shape *view) {
  TH_TRY(th_infer_same_dtype(in, 0, 1));
  if (view->rank > TH_MAX_RANK) {
    return th_infer_error(in, TH_SHAPE, "the view has %u dimensions",
                          view->rank);
  }
  TH_TRY(th_infer_need_shape(in, 1, view, "the shape of what it replaces"));
  return th_infer_rule_copy(in);
}

th_status th_infer_rule_slice_scatter(th_infer *in) {
  th_shape shape;
  uint8_t dim = 0;
  TH_TRY(th_infer_sliced(in, 2, &shape, &dim));
  return gather_replace(in, &shape);
}

th_status th_infer_rule_select_scatter(th_infer *in) {
  th_shape shape;
  TH_TRY(th_infer_selected(in, 2, &shape));
  return gather_replace(in, &shape);
}

th_status th_infer_rule_diagonal_scatter(th_infer *in) {
  th_shape shape;
  TH_TRY(th_infer_diagonal(in, 2, &shape));
  return gather_replace(in, &shape);
}

th_status th_infer_rule_as_strided_scatter(th_infer *in) {
  th_shape shape;
  TH_TRY(th_infer_strided(in, 2, &shape));
  return gather_replace(in, &shape);
}

// ---- sizes and numbers that depend on data

// The symbol that the result had before, or a fresh one.
static const th_expr *gather_symbol(th_infer *in, const th_expr *before,
                                    const char *prefix, th_dtype dtype) {
  bool keep = before && before->op == TH_X_SYM && before->dtype == dtype;
  return keep ? before : th_sym_fresh(in->ir, prefix, dtype);
}

th_status th_infer_rule_nonzero(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  const th_type *known = in->known_count ? &in->known[0] : NULL;
  const th_expr *before =
      known && known->kind == TH_KIND_TENSOR && known->rank == 2
          ? known->dims[0]
          : NULL;
  const th_expr *count = gather_symbol(in, before, "u", TH_I64);
  if (count != before) {
    int64_t lo = 0, hi = INT64_MAX;
    const th_expr *numel = th_type_numel(in->ir, x);
    if (!numel || !th_expr_range(numel, &lo, &hi)) {
      hi = INT64_MAX;
    }
    th_sym_range(in->ir, count, 0, hi);
  }
  th_shape shape = {0};
  th_shape_push(&shape, count, NULL);
  th_shape_push(&shape, th_int(in->ir, x->rank), NULL);
  return th_infer_out(in, TH_I64, x->device, &shape);
}

th_status th_infer_rule_item(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  const th_type *known = in->known_count ? &in->known[0] : NULL;
  if (th_infer_never(in, TH_X_EQ, th_type_numel(in->ir, x),
                     th_int(in->ir, 1))) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE, "%s must have one element",
                          th_infer_text(in, x));
  }
  th_dtype dtype = x->dtype == TH_BOOL           ? TH_BOOL
                   : th_dtype_is_float(x->dtype) ? TH_F64
                                                 : TH_I64;
  const char *prefix = dtype == TH_BOOL ? "b" : dtype == TH_F64 ? "f" : "u";
  const th_expr *before =
      known && known->kind == TH_KIND_NUMBER ? known->num : NULL;
  th_type type = th_number_type(gather_symbol(in, before, prefix, dtype));
  return th_infer_out_type(in, &type);
}

// ---- control

// The leaves of what a branch returns, in order.
static th_status control_leaves(th_infer *in, const th_arg *arg,
                                th_type *leaves, uint32_t cap,
                                uint32_t *count) {
  if (arg->kind == TH_ARG_LIST || arg->kind == TH_ARG_TUPLE ||
      arg->kind == TH_ARG_DICT) {
    for (uint32_t i = 0; i < arg->count; i++) {
      TH_TRY(control_leaves(in, &arg->items[i], leaves, cap, count));
    }
    return TH_OK;
  }
  if (*count == cap) {
    return th_infer_error(in, TH_UNSUPPORTED,
                          "a branch has more than %u results", cap);
  }
  if (arg->kind == TH_ARG_VALUE) {
    leaves[(*count)++] = arg->value->type;
  } else if (arg->kind == TH_ARG_NUM) {
    leaves[(*count)++] = th_number_type(arg->num);
  }
  return TH_OK;
}

static bool control_agree(th_infer *in, const th_type *a, const th_type *b,
                          th_shape *out) {
  *out = (th_shape){0};
  if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank ||
      (a->kind == TH_KIND_TENSOR && !th_device_equal(a->device, b->device))) {
    return false;
  }
  for (uint8_t d = 0; d < a->rank; d++) {
    const th_expr *joined = NULL;
    if (!th_infer_same_dim(in, a->dims[d], b->dims[d], &joined)) {
      return false;
    }
    th_shape_push(out, joined, NULL);
  }
  return true;
}

static th_status control_operands(th_infer *in, uint32_t branch) {
  const th_trace *trace = in->args[branch].trace;
  const th_arg *operands = &in->args[3];
  const char *name = in->op->params[branch].name;
  if (trace->input_count != operands->count) {
    return th_infer_error(in, TH_INVALID,
                          "'%s' takes %u operands, %u are given", name,
                          trace->input_count, operands->count);
  }
  for (uint32_t i = 0; i < operands->count; i++) {
    const th_type *want = &trace->inputs[i]->type;
    const th_type *have = &operands->items[i].value->type;
    th_shape shape;
    if (!control_agree(in, want, have, &shape)) {
      in->culprit = operands->items[i].value;
      return th_infer_error(in, TH_SHAPE, "operand %u is %s; '%s' takes %s", i,
                            th_infer_text(in, have), name,
                            th_infer_text(in, want));
    }
  }
  return TH_OK;
}

static th_status control_condition(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  if (!x || !th_infer_never(in, TH_X_EQ, th_type_numel(in->ir, x),
                            th_int(in->ir, 1))) {
    return TH_OK;
  }
  th_infer_blame(in, 0);
  return th_infer_error(in, TH_SHAPE,
                        "the condition is %s; it must have one element",
                        th_infer_text(in, x));
}

// Numbers that the branches compute come out as fresh numbers.
static th_status control_out(th_infer *in, uint32_t i, const th_type *leaf,
                             const th_type *other, const th_shape *shape) {
  if (leaf->kind == TH_KIND_TENSOR) {
    return th_infer_out(in, leaf->dtype, leaf->device, shape);
  }
  if (leaf->num == other->num) {
    return th_infer_out_type(in, leaf);
  }
  const th_expr *before = i < in->known_count ? in->known[i].num : NULL;
  const char *prefix = leaf->dtype == TH_BOOL  ? "b"
                       : leaf->dtype == TH_F64 ? "f"
                                               : "u";
  th_type type = th_number_type(gather_symbol(in, before, prefix, leaf->dtype));
  return th_infer_out_type(in, &type);
}

th_status th_infer_rule_cond(th_infer *in) {
  uint32_t cap = in->out_cap, counts[2] = {0, 0};
  th_type *leaves[2];
  TH_TRY(control_condition(in));
  for (uint32_t i = 0; i < 2; i++) {
    TH_TRY(control_operands(in, 1 + i));
    leaves[i] = TH_NEW_ARRAY(&in->ir->arena, th_type, cap + 1);
    TH_TRY(control_leaves(in, &in->args[1 + i].trace->result, leaves[i], cap,
                          &counts[i]));
  }
  if (counts[0] != counts[1]) {
    return th_infer_error(in, TH_INVALID, "the branches have %u and %u results",
                          counts[0], counts[1]);
  }
  for (uint32_t i = 0; i < counts[0]; i++) {
    th_shape shape;
    if (!control_agree(in, &leaves[0][i], &leaves[1][i], &shape)) {
      return th_infer_error(in, TH_SHAPE,
                            "result %u is %s in one branch and %s in the "
                            "other; they must agree",
                            i, th_infer_text(in, &leaves[0][i]),
                            th_infer_text(in, &leaves[1][i]));
    }
    TH_TRY(control_out(in, i, &leaves[0][i], &leaves[1][i], &shape));
  }
  return TH_OK;
}

th_status th_infer_rule_nothing(th_infer *in) {
  in->out_count = 0;
  return TH_OK;
}

// What a region, a kernel or a del results in stands in its body, not in its
// operands: the caller's results are left as they are.
th_status th_infer_rule_structure(th_infer *in) {
  (void)in;
  return TH_OK;
}

// Shape rules of operations that copy elements to new places, and of those
// that make a tensor from numbers.  Results are row-major.
#include "ir/infer_util.h"

#include <math.h>

static th_status shape_out_like(th_infer *in, const th_type *x,
                                const th_shape *shape) {
  return th_infer_out(in, x->dtype, x->device, shape);
}

th_status th_infer_rule_copy(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  th_shape shape = th_shape_of(in, x);
  return shape_out_like(in, x, &shape);
}

th_status th_infer_rule_triangle(th_infer *in) {
  int64_t diagonal = 0;
  TH_TRY(th_infer_need_rank(in, 0, 2, TH_MAX_RANK));
  TH_TRY(th_infer_need_int(in, 1, &diagonal));
  return th_infer_rule_copy(in);
}

// ---- concatenation

// PyTorch leaves tensors of the shape [0] out, whatever ranks the others have.
static bool shape_is_skipped(const th_type *type) {
  return type->rank == 1 && th_is_int(type->dims[0], 0);
}

static th_status shape_cat_error(th_infer *in, const th_type *a,
                                 const th_arg *b, uint8_t dim) {
  in->culprit = b->value;
  return th_infer_error(
      in, TH_SHAPE, "%s and %s; sizes must be equal except in dimension %u",
      th_infer_text(in, a), th_infer_text(in, &b->value->type), dim);
}

static th_status shape_cat_join(th_infer *in, const th_type *first,
                                const th_arg *arg, uint8_t dim,
                                th_shape *shape) {
  const th_type *type = &arg->value->type;
  if (type->rank != first->rank) {
    return shape_cat_error(in, first, arg, dim);
  }
  for (uint8_t d = 0; d < type->rank; d++) {
    if (d == dim) {
      shape->dims[d] = th_expr_add(in->ir, shape->dims[d], type->dims[d]);
    } else if (!th_infer_same_dim(in, shape->dims[d], type->dims[d],
                                  &shape->dims[d])) {
      return shape_cat_error(in, first, arg, dim);
    }
  }
  return TH_OK;
}

static th_status shape_list_dtype(th_infer *in, th_dtype *out_dtype) {
  const th_arg *list = &in->args[0];
  if (list->count == 0) {
    return th_infer_error(in, TH_INVALID, "the list of tensors is empty");
  }
  *out_dtype = th_promote_args(list->items, list->count);
  return *out_dtype < TH_DTYPE_COUNT
             ? TH_OK
             : th_infer_error(in, TH_DTYPE,
                              "the tensors have no common dtype; convert them "
                              "with 'to'");
}

th_status th_infer_rule_cat(th_infer *in) {
  const th_arg *list = &in->args[0];
  th_dtype dtype = TH_F32;
  th_device device;
  TH_TRY(shape_list_dtype(in, &dtype));
  TH_TRY(th_infer_device(in, &device));
  const th_type *first = NULL;
  th_shape shape = {0};
  uint8_t dim = 0;
  for (uint32_t i = 0; i < list->count; i++) {
    const th_type *type = &list->items[i].value->type;
    if (shape_is_skipped(type)) {
      continue;
    }
    if (type->rank == 0) {
      in->culprit = list->items[i].value;
      return th_infer_error(in, TH_SHAPE,
                            "tensor %u is 0-dim; at least 1 dimension is "
                            "needed (unsqueeze it)",
                            i);
    }
    if (first) {
      TH_TRY(shape_cat_join(in, first, &list->items[i], dim, &shape));
    } else {
      first = type;
      shape = th_shape_of(in, type);
      TH_TRY(th_infer_arg_dim(in, 1, type->rank, &dim));
    }
  }
  if (!first) {
    th_shape_push(&shape, th_int(in->ir, 0), NULL);
    TH_TRY(th_infer_arg_dim(in, 1, 1, &dim));
  }
  return th_infer_out(in, dtype, device, &shape);
}

th_status th_infer_rule_stack(th_infer *in) {
  const th_arg *list = &in->args[0];
  th_dtype dtype = TH_F32;
  th_device device;
  uint8_t dim = 0;
  TH_TRY(shape_list_dtype(in, &dtype));
  TH_TRY(th_infer_device(in, &device));
  const th_type *first = &list->items[0].value->type;
  TH_TRY(th_infer_arg_dim(in, 1, (uint8_t)(first->rank + 1), &dim));
  th_shape shape = th_shape_of(in, first);
  for (uint32_t i = 1; i < list->count; i++) {
    // No dimension may differ: the one that is excepted does not exist.
    TH_TRY(shape_cat_join(in, first, &list->items[i], TH_MAX_RANK, &shape));
  }
  th_shape_insert(&shape, dim, th_int(in->ir, list->count), NULL);
  return th_infer_out(in, dtype, device, &shape);
}

// ---- moving

th_status th_infer_rule_flip(th_infer *in) {
  uint8_t dims[TH_MAX_RANK];
  uint32_t count = 0;
  TH_TRY(th_infer_arg_dims(in, 1, th_infer_tensor(in, 0)->rank, dims, &count));
  return th_infer_rule_copy(in);
}

th_status th_infer_rule_roll(th_infer *in) {
  uint32_t shifts = th_infer_count(in, 1), count = th_infer_count(in, 2);
  if (shifts != count && !(count == 0 && shifts == 1)) {
    return th_infer_error(in, TH_INVALID,
                          "%u shifts and %u dims; as many are needed, or one "
                          "shift and no dims",
                          shifts, count);
  }
  const th_type *x = th_infer_tensor(in, 0);
  for (uint32_t i = 0; i < shifts; i++) {
    const th_expr *shift = NULL;
    int64_t dim = 0;
    uint8_t wrapped = 0;
    TH_TRY(th_infer_item(in, 1, i, &shift));
    if (i < count) { // one dimension may come twice
      TH_TRY(th_infer_need_item(in, 2, i, &dim));
      TH_TRY(th_infer_dim(in, dim, x->rank, &wrapped));
    }
  }
  return th_infer_rule_copy(in);
}

th_status th_infer_rule_repeat(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint32_t count = th_infer_count(in, 1);
  if (count < x->rank) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "%u repeats for %s; one for each dimension is needed",
                          count, th_infer_text(in, x));
  }
  th_shape shape = {0};
  for (uint32_t i = 0; i < count; i++) {
    const th_expr *size = NULL;
    TH_TRY(th_infer_item(in, 1, i, &size));
    if (i >= count - x->rank) {
      size = th_expr_mul(in->ir, size, x->dims[i - (count - x->rank)]);
    }
    th_shape_push(&shape, size, NULL);
  }
  return shape_out_like(in, x, &shape);
}

th_status th_infer_rule_repeat_interleave(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  TH_TRY(th_infer_need_rank(in, 0, 1, TH_MAX_RANK));
  TH_TRY(th_infer_arg_dim(in, 2, x->rank, &dim));
  th_shape shape = th_shape_of(in, x);
  shape.dims[dim] = th_expr_mul(in->ir, shape.dims[dim], th_infer_num(in, 1));
  return shape_out_like(in, x, &shape);
}

th_status th_infer_rule_pad(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint32_t count = th_infer_count(in, 1);
  if (count % 2 || count / 2 > x->rank) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "%u amounts for %s; two for each dimension, the last "
                          "one first, and none for others are needed",
                          count, th_infer_text(in, x));
  }
  th_shape shape = th_shape_of(in, x);
  for (uint32_t i = 0; i < count; i++) {
    const th_expr *amount = NULL;
    uint32_t d = x->rank - 1u - i / 2;
    TH_TRY(th_infer_item(in, 1, i, &amount));
    shape.dims[d] = th_expr_add(in->ir, shape.dims[d], amount);
  }
  return shape_out_like(in, x, &shape);
}

th_status th_infer_rule_one_hot(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  int64_t classes = 0;
  TH_TRY(th_infer_need_index(in, 0));
  if (th_infer_int(in, 1, &classes) && classes < 0) {
    return th_infer_error(in, TH_UNSUPPORTED,
                          "%lld classes; their number must be given",
                          (long long)classes);
  }
  th_shape shape = th_shape_of(in, x);
  th_shape_push(&shape, th_infer_num(in, 1), NULL);
  return th_infer_out(in, TH_I64, x->device, &shape);
}

// ---- creation

th_status th_infer_rule_full(th_infer *in) {
  th_shape shape = {0};
  for (uint32_t i = 0; i < th_infer_count(in, 0); i++) {
    const th_expr *size = NULL;
    TH_TRY(th_infer_item(in, 0, i, &size));
    th_shape_push(&shape, size, NULL);
  }
  return th_infer_out(in, in->args[2].dtype, in->args[3].device, &shape);
}

th_status th_infer_rule_scalar(th_infer *in) {
  th_shape shape = {0};
  return th_infer_out(in, in->args[1].dtype, in->args[2].device, &shape);
}

th_status th_infer_rule_eye(th_infer *in) {
  th_shape shape = {0};
  th_shape_push(&shape, th_infer_num(in, 0), NULL);
  th_shape_push(&shape, th_infer_num(in, 1), NULL);
  return th_infer_out(in, in->args[2].dtype, in->args[3].device, &shape);
}

// Steps of an integer range; the sign of a symbolic step must be known.
static th_status shape_arange_ints(th_infer *in, const th_expr *start,
                                   const th_expr *end, const th_expr *step,
                                   const th_expr **out_size) {
  th_ir *ir = in->ir;
  const th_expr *zero = th_int(ir, 0);
  bool is_up = th_infer_certain(in, TH_X_LT, zero, step);
  if (!is_up && !th_infer_certain(in, TH_X_LT, step, zero)) {
    return th_infer_error(in, TH_INVALID,
                          "the step is %s; it must be known not to be 0 and "
                          "have one sign",
                          th_infer_num_text(in, step));
  }
  const th_expr *low = is_up ? start : end, *high = is_up ? end : start;
  if (th_infer_never(in, TH_X_LE, low, high)) {
    return th_infer_error(
        in, TH_INVALID, "a step of %s does not lead from %s to %s",
        th_infer_num_text(in, step), th_infer_num_text(in, start),
        th_infer_num_text(in, end));
  }
  *out_size =
      th_infer_steps(in, low, high, is_up ? step : th_expr_sub(ir, zero, step));
  return TH_OK;
}

static th_status shape_arange_floats(th_infer *in, const th_expr *start,
                                     const th_expr *end, const th_expr *step,
                                     const th_expr **out_size) {
  th_ir *ir = in->ir;
  const th_expr *length = th_expr_make(
      ir, TH_X_DIV, (const th_expr *[]){th_expr_sub(ir, end, start), step}, 2);
  bool is_const = length && th_is_const(length);
  double steps = is_const ? ceil(length->f) : 0;
  // The bound keeps the conversion defined; larger ones fit in no memory.
  if (!length || (is_const && !(steps >= 0 && steps < 0x1p62))) {
    return th_infer_error(
        in, TH_INVALID, "a step of %s does not lead from %s to %s",
        th_infer_num_text(in, step), th_infer_num_text(in, start),
        th_infer_num_text(in, end));
  }
  *out_size = is_const ? th_int(ir, (int64_t)steps)
                       : th_expr_make(ir, TH_X_CEIL, &length, 1);
  return TH_OK;
}

th_status th_infer_rule_arange(th_infer *in) {
  const th_expr *start = th_infer_num(in, 0), *end = th_infer_num(in, 1);
  const th_expr *step = th_infer_num(in, 2), *size = NULL;
  bool is_float =
      start->dtype == TH_F64 || end->dtype == TH_F64 || step->dtype == TH_F64;
  TH_TRY((is_float ? shape_arange_floats : shape_arange_ints)(in, start, end,
                                                              step, &size));
  th_shape shape = {0};
  th_shape_push(&shape, size, NULL);
  return th_infer_out(in, in->args[3].dtype, in->args[4].device, &shape);
}

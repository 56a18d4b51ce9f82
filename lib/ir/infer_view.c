// Shape rules of views: the elements stay where they are, so the results have
// strides, left out when they are those of a row-major tensor.  `reshape` is a
// view where the strides allow one and a row-major copy elsewhere.
#include "ir/infer_util.h"

#include <string.h>

bool th_view_strides(th_ir *ir, const th_type *type, uint8_t rank,
                     const th_expr *const *dims, const th_expr **out_strides) {
  const th_expr *stride = th_int(ir, 1);
  bool is_empty = false;
  for (uint8_t i = rank; i-- > 0;) {
    out_strides[i] = stride;
    stride = th_expr_mul(ir, stride, dims[i]);
    is_empty = is_empty || th_is_int(dims[i], 0);
  }
  if (is_empty || th_type_is_contiguous(ir, type)) {
    return true;
  }
  // Dimensions of the source are joined into runs that lie densely; each run
  // must be the product of whole dimensions of the view, last ones first.
  uint32_t left = rank;
  const th_expr *run = th_int(ir, 1), *base = type->strides[type->rank - 1];
  for (uint8_t i = type->rank; i-- > 0;) {
    run = th_expr_mul(ir, run, type->dims[i]);
    if (i && (th_is_int(type->dims[i - 1], 1) ||
              type->strides[i - 1] == th_expr_mul(ir, run, base))) {
      continue;
    }
    const th_expr *taken = th_int(ir, 1);
    while (left && (taken != run || th_is_int(dims[left - 1], 1))) {
      out_strides[--left] = th_expr_mul(ir, taken, base);
      taken = th_expr_mul(ir, taken, dims[left]);
    }
    if (!run || taken != run) {
      return false;
    }
    run = th_int(ir, 1);
    base = i ? type->strides[i - 1] : base;
  }
  return left == 0;
}

// ---- reshape

// num / den, where the caller knows that it is exact.
static const th_expr *view_divide(th_ir *ir, const th_expr *num,
                                  const th_expr *den) {
  if (num && den && num->op == TH_X_ADD && den->op == TH_X_ADD) {
    const th_expr *quotient = th_expr_floordiv(ir, num->args[0], den->args[0]);
    if (quotient && th_expr_mul(ir, quotient, den) == num) {
      return quotient;
    }
  }
  return th_expr_floordiv(ir, num, den);
}

static const th_expr *view_product(th_ir *ir, const th_expr *const *dims,
                                   uint32_t count) {
  const th_expr *product = th_int(ir, 1);
  for (uint32_t i = 0; i < count; i++) {
    if (dims[i]) {
      product = th_expr_mul(ir, product, dims[i]);
    }
  }
  return product;
}

// The size that -1 stands for.  Equal sizes on both sides cancel first: a
// product of sums is multiplied out in the normal form and divides badly.
static const th_expr *view_unknown_size(th_ir *ir, const th_type *x,
                                        const th_shape *shape, uint32_t hole) {
  const th_expr *num[TH_MAX_RANK], *den[TH_MAX_RANK];
  memcpy(num, x->dims, x->rank * sizeof *num);
  memcpy(den, shape->dims, shape->rank * sizeof *den);
  den[hole] = NULL;
  for (uint32_t i = 0; i < shape->rank; i++) {
    for (uint32_t k = 0; den[i] && k < x->rank; k++) {
      if (num[k] == den[i] && !th_is_int(den[i], 0)) {
        num[k] = den[i] = NULL;
      }
    }
  }
  const th_expr *a = view_product(ir, num, x->rank);
  const th_expr *b = view_product(ir, den, shape->rank);
  const th_expr *rest = th_expr_mod(ir, a, b);
  return rest && th_is_const(rest) && rest->i != 0 ? NULL
                                                   : view_divide(ir, a, b);
}

static th_status view_reshape_error(th_infer *in, const th_type *x) {
  th_buffer text;
  th_buffer_init(&text, &in->ir->arena);
  for (uint32_t i = 0; i < th_infer_count(in, 1); i++) {
    const th_expr *size = NULL;
    TH_TRY(th_infer_item(in, 1, i, &size));
    th_buffer_puts(&text, i ? ", " : "");
    th_expr_print(&text, size);
  }
  th_infer_blame(in, 0);
  return th_infer_error(in, TH_SHAPE, "%s does not fit into the shape [%s]",
                        th_infer_text(in, x), text.data ? text.data : "");
}

th_status th_infer_rule_reshape(th_infer *in) {
  th_ir *ir = in->ir;
  const th_type *x = th_infer_tensor(in, 0);
  th_shape shape = {0};
  uint32_t hole = TH_MAX_RANK, holes = 0;
  for (uint32_t i = 0; i < th_infer_count(in, 1); i++) {
    const th_expr *size = NULL;
    TH_TRY(th_infer_item(in, 1, i, &size));
    if (th_is_int(size, -1)) {
      hole = i;
      holes++;
    }
    th_shape_push(&shape, size, NULL);
  }
  if (shape.rank > TH_MAX_RANK || holes > 1) {
    return shape.rank > TH_MAX_RANK
               ? th_infer_out(in, x->dtype, x->device, &shape)
               : th_infer_error(in, TH_SHAPE, "-1 stands twice in the shape");
  }
  if (holes) {
    shape.dims[hole] = view_unknown_size(ir, x, &shape, hole);
    if (!shape.dims[hole]) {
      return view_reshape_error(in, x);
    }
  }
  const th_expr *numel = view_product(ir, shape.dims, shape.rank);
  const th_expr *joined = NULL;
  if (!numel || !th_infer_same_dim(in, th_type_numel(ir, x), numel, &joined)) {
    return view_reshape_error(in, x);
  }
  if (th_view_strides(ir, x, (uint8_t)shape.rank, shape.dims, shape.strides)) {
    return th_infer_view(in, x, &shape);
  }
  return th_infer_out(in, x->dtype, x->device, &shape);
}

// ---- other views

th_status th_infer_rule_same(th_infer *in) {
  return th_infer_out_type(in, th_infer_tensor(in, 0));
}

th_status th_infer_rule_permute(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t order[TH_MAX_RANK];
  uint32_t count = 0;
  TH_TRY(th_infer_arg_dims(in, 1, x->rank, order, &count));
  if (count != x->rank) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE, "%s has %u dimensions, %u are listed",
                          th_infer_text(in, x), x->rank, count);
  }
  th_shape from = th_shape_of(in, x), to = {0};
  for (uint32_t i = 0; i < count; i++) {
    th_shape_push(&to, from.dims[order[i]], from.strides[order[i]]);
  }
  return th_infer_view(in, x, &to);
}

// One dimension of an expansion.
static th_status view_expand_dim(th_infer *in, const th_shape *from,
                                 uint32_t lead, uint32_t i, th_shape *to) {
  const th_expr *zero = th_int(in->ir, 0), *size = NULL;
  TH_TRY(th_infer_item(in, 1, i, &size));
  if (i < lead) {
    if (th_is_int(size, -1)) {
      return th_infer_error(in, TH_SHAPE,
                            "-1 stands for dimension %u, which is new", i);
    }
    th_shape_push(to, size, zero);
    return TH_OK;
  }
  const th_expr *have = from->dims[i - lead];
  const th_expr *stride = from->strides[i - lead], *joined = have;
  if (th_is_int(size, -1) || size == have) {
    th_shape_push(to, have, stride);
  } else if (th_is_int(have, 1)) {
    th_shape_push(to, size, zero);
  } else if (th_infer_same_dim(in, size, have, &joined)) {
    th_shape_push(to, joined, stride);
  } else {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "%s: a size of %s cannot become %s (dimension %u); "
                          "only a size of 1 can",
                          th_infer_text(in, th_infer_tensor(in, 0)),
                          th_infer_num_text(in, have),
                          th_infer_num_text(in, size), i);
  }
  return TH_OK;
}

th_status th_infer_rule_expand(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint32_t count = th_infer_count(in, 1);
  if (count < x->rank) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "%s has more dimensions than the shape, which has %u",
                          th_infer_text(in, x), count);
  }
  th_shape from = th_shape_of(in, x), to = {0};
  for (uint32_t i = 0; i < count; i++) {
    TH_TRY(view_expand_dim(in, &from, count - x->rank, i, &to));
  }
  return th_infer_view(in, x, &to);
}

th_status th_infer_rule_squeeze(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dims[TH_MAX_RANK];
  uint32_t count = 0;
  TH_TRY(th_infer_arg_dims(in, 1, x->rank, dims, &count));
  bool gone[TH_MAX_RANK] = {false};
  for (uint32_t i = 0; i < count; i++) {
    gone[dims[i]] = true;
  }
  th_shape from = th_shape_of(in, x), to = {0};
  for (uint8_t d = 0; d < x->rank; d++) {
    if (!gone[d] || !th_is_int(x->dims[d], 1)) {
      th_shape_push(&to, from.dims[d], from.strides[d]);
    }
  }
  return th_infer_view(in, x, &to);
}

th_status th_infer_rule_unsqueeze(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  TH_TRY(th_infer_arg_dim(in, 1, (uint8_t)(x->rank + 1), &dim));
  th_shape shape = th_shape_of(in, x);
  th_shape_insert(&shape, dim, th_int(in->ir, 1), th_int(in->ir, 1));
  return th_infer_view(in, x, &shape);
}

th_status th_infer_sliced(th_infer *in, uint32_t arg, th_shape *shape,
                          uint8_t *out_dim) {
  const th_type *x = th_infer_tensor(in, 0);
  int64_t step = 0;
  TH_TRY(th_infer_need_rank(in, 0, 1, TH_MAX_RANK));
  TH_TRY(th_infer_arg_dim(in, arg, x->rank, out_dim));
  TH_TRY(th_infer_need_int(in, arg + 3, &step));
  if (step <= 0) {
    return th_infer_error(in, TH_INVALID,
                          "the step is %lld; it must be "
                          "positive",
                          (long long)step);
  }
  *shape = th_shape_of(in, x);
  const th_expr *size = x->dims[*out_dim], *zero = th_int(in->ir, 0);
  const th_expr *start =
      th_infer_clamped(in, th_infer_num(in, arg + 1), size, zero);
  const th_expr *end =
      th_infer_clamped(in, th_infer_num(in, arg + 2), size, size);
  const th_expr *by = th_int(in->ir, step);
  shape->dims[*out_dim] = th_infer_steps(in, start, end, by);
  shape->strides[*out_dim] = th_expr_mul(in->ir, shape->strides[*out_dim], by);
  return TH_OK;
}

th_status th_infer_rule_slice(th_infer *in) {
  th_shape shape;
  uint8_t dim = 0;
  TH_TRY(th_infer_sliced(in, 1, &shape, &dim));
  return th_infer_view(in, th_infer_tensor(in, 0), &shape);
}

th_status th_infer_selected(th_infer *in, uint32_t arg, th_shape *shape) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  TH_TRY(th_infer_need_rank(in, 0, 1, TH_MAX_RANK));
  TH_TRY(th_infer_arg_dim(in, arg, x->rank, &dim));
  const th_expr *index = th_infer_num(in, arg + 1), *size = x->dims[dim];
  const th_expr *lowest = th_expr_sub(in->ir, th_int(in->ir, 0), size);
  if (th_infer_never(in, TH_X_LT, index, size) ||
      th_infer_never(in, TH_X_LE, lowest, index)) {
    th_infer_blame(in, 0);
    return th_infer_error(
        in, TH_SHAPE, "index %s is out of range for dimension %u of %s",
        th_infer_num_text(in, index), dim, th_infer_text(in, x));
  }
  *shape = th_shape_of(in, x);
  th_shape_remove(shape, dim);
  return TH_OK;
}

th_status th_infer_rule_select(th_infer *in) {
  th_shape shape;
  TH_TRY(th_infer_selected(in, 1, &shape));
  return th_infer_view(in, th_infer_tensor(in, 0), &shape);
}

th_status th_infer_rule_split(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  TH_TRY(th_infer_need_rank(in, 0, 1, TH_MAX_RANK));
  TH_TRY(th_infer_arg_dim(in, 2, x->rank, &dim));
  th_shape shape = th_shape_of(in, x);
  const th_expr *sum = th_int(in->ir, 0), *joined = NULL;
  for (uint32_t i = 0; i < th_infer_count(in, 1); i++) {
    TH_TRY(th_infer_item(in, 1, i, &shape.dims[dim]));
    sum = th_expr_add(in->ir, sum, shape.dims[dim]);
    TH_TRY(th_infer_view(in, x, &shape));
  }
  if (!th_infer_same_dim(in, sum, x->dims[dim], &joined)) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "the sizes add up to %s; dimension %u of %s needs %s",
                          th_infer_num_text(in, sum), dim, th_infer_text(in, x),
                          th_infer_num_text(in, x->dims[dim]));
  }
  return TH_OK;
}

th_status th_infer_rule_unbind(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  TH_TRY(th_infer_need_rank(in, 0, 1, TH_MAX_RANK));
  TH_TRY(th_infer_arg_dim(in, 1, x->rank, &dim));
  if (!th_is_const(x->dims[dim])) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_UNSUPPORTED,
                          "dimension %u of %s must have a constant size", dim,
                          th_infer_text(in, x));
  }
  th_shape shape = th_shape_of(in, x);
  th_shape_remove(&shape, dim);
  for (int64_t i = 0; i < x->dims[dim]->i; i++) {
    TH_TRY(th_infer_view(in, x, &shape));
  }
  return TH_OK;
}

th_status th_infer_diagonal(th_infer *in, uint32_t arg, th_shape *shape) {
  th_ir *ir = in->ir;
  const th_type *x = th_infer_tensor(in, 0);
  int64_t offset = 0;
  uint8_t a = 0, b = 0;
  TH_TRY(th_infer_need_rank(in, 0, 2, TH_MAX_RANK));
  TH_TRY(th_infer_need_int(in, arg, &offset));
  TH_TRY(th_infer_arg_dim(in, arg + 1, x->rank, &a));
  TH_TRY(th_infer_arg_dim(in, arg + 2, x->rank, &b));
  if (a == b) {
    return th_infer_error(in, TH_SHAPE, "dimension %u is both dim1 and dim2",
                          a);
  }
  *shape = th_shape_of(in, x);
  const th_expr *rows = shape->dims[a], *columns = shape->dims[b];
  if (offset >= 0) {
    columns = th_expr_sub(ir, columns, th_int(ir, offset));
  } else {
    rows = th_expr_add(ir, rows, th_int(ir, offset));
  }
  const th_expr *size =
      th_expr_max(ir, th_int(ir, 0), th_expr_min(ir, rows, columns));
  const th_expr *stride = th_expr_add(ir, shape->strides[a], shape->strides[b]);
  th_shape_remove(shape, a > b ? a : b);
  th_shape_remove(shape, a > b ? b : a);
  th_shape_push(shape, size, stride);
  return TH_OK;
}

th_status th_infer_rule_diagonal(th_infer *in) {
  th_shape shape;
  TH_TRY(th_infer_diagonal(in, 1, &shape));
  return th_infer_view(in, th_infer_tensor(in, 0), &shape);
}

th_status th_infer_rule_unfold(th_infer *in) {
  th_ir *ir = in->ir;
  const th_type *x = th_infer_tensor(in, 0);
  uint8_t dim = 0;
  int64_t size = 0, step = 0;
  TH_TRY(th_infer_arg_dim(in, 1, x->rank, &dim));
  TH_TRY(th_infer_need_int(in, 2, &size));
  TH_TRY(th_infer_need_int(in, 3, &step));
  th_shape shape = th_shape_of(in, x);
  if (!x->rank) { // counts as one element in one dimension
    th_shape_push(&shape, th_int(ir, 1), th_int(ir, 1));
  }
  const th_expr *window = th_int(ir, size);
  if (size < 0 || step <= 0 ||
      th_infer_never(in, TH_X_LE, window, shape.dims[dim])) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "windows of %lld at a step of %lld do not fit "
                          "dimension %u of %s",
                          (long long)size, (long long)step, dim,
                          th_infer_text(in, x));
  }
  const th_expr *stride = shape.strides[dim], *by = th_int(ir, step);
  const th_expr *count = th_expr_add(
      ir, th_expr_floordiv(ir, th_expr_sub(ir, shape.dims[dim], window), by),
      th_int(ir, 1));
  shape.dims[dim] = count;
  shape.strides[dim] = th_expr_mul(ir, stride, by);
  if (x->rank) {
    th_shape_push(&shape, window, stride);
  } else {
    shape.dims[0] = window;
  }
  return th_infer_view(in, x, &shape);
}

th_status th_infer_strided(th_infer *in, uint32_t arg, th_shape *shape) {
  th_ir *ir = in->ir;
  const th_type *x = th_infer_tensor(in, 0);
  const th_expr *zero = th_int(ir, 0), *last = th_infer_num(in, arg + 2);
  *shape = (th_shape){0};
  last = last ? last : zero;
  bool is_valid = th_infer_count(in, arg) == th_infer_count(in, arg + 1) &&
                  !th_infer_never(in, TH_X_LE, zero, last);
  bool is_empty = false;
  for (uint32_t i = 0; is_valid && i < th_infer_count(in, arg); i++) {
    const th_expr *size = NULL, *stride = NULL;
    TH_TRY(th_infer_item(in, arg, i, &size));
    TH_TRY(th_infer_item(in, arg + 1, i, &stride));
    is_valid = !th_infer_never(in, TH_X_LE, zero, stride);
    is_empty = is_empty || th_is_int(size, 0);
    const th_expr *reach =
        th_expr_mul(ir, th_expr_sub(ir, size, th_int(ir, 1)), stride);
    last = th_expr_add(ir, last, reach);
    th_shape_push(shape, size, stride);
  }
  if (!is_valid || !last ||
      (!is_empty && th_infer_never(in, TH_X_LT, last, th_type_numel(ir, x)))) {
    th_infer_blame(in, 0);
    return th_infer_error(in, TH_SHAPE,
                          "sizes, strides and offset reach outside %s",
                          th_infer_text(in, x));
  }
  return TH_OK;
}

th_status th_infer_rule_as_strided(th_infer *in) {
  const th_type *x = th_infer_tensor(in, 0);
  th_shape shape;
  TH_TRY(th_infer_strided(in, 1, &shape));
  if (!th_type_is_contiguous(in->ir, x)) { // a row-major copy comes first
    return th_infer_out(in, x->dtype, x->device, &shape);
  }
  return th_infer_view(in, x, &shape);
}

// A view is a window whenever its rule could give it strides, i.e. always but
// for a reshape that has to copy and an as_strided over what is not row-major.
bool th_stmt_is_window(th_ir *ir, const th_stmt *stmt) {
  const th_value *out = NULL; // a split may have lost its first part alone
  for (uint16_t i = 0; i < stmt->out_count && !out; i++) {
    out = stmt->outs[i];
  }
  if (!(stmt->op->traits & TH_VIEW) || !out) {
    return false;
  }
  const th_type *from = &stmt->args[0].value->type;
  if (stmt->op->op == TH_OP_as_strided) {
    return th_type_is_contiguous(ir, from);
  }
  if (stmt->op->op != TH_OP_reshape) {
    return true;
  }
  const th_expr *strides[TH_MAX_RANK];
  return th_view_strides(ir, from, out->type.rank, out->type.dims, strides);
}

// What the shape rules share: arguments, results, errors, index arithmetic;
// and th_infer_run, which checks what holds for every result.
#include "ir/infer_util.h"

#include <string.h>

// ---- shapes

void th_shape_push(th_shape *shape, const th_expr *dim, const th_expr *stride) {
  if (shape->rank < TH_MAX_RANK) {
    shape->dims[shape->rank] = dim;
    shape->strides[shape->rank] = stride;
  }
  shape->rank++;
}

th_shape th_shape_of(th_infer *in, const th_type *type) {
  th_shape shape = {.rank = type->rank};
  const th_expr *stride = th_int(in->ir, 1);
  for (uint8_t i = type->rank; i-- > 0;) {
    shape.dims[i] = type->dims[i];
    shape.strides[i] = type->strides ? type->strides[i] : stride;
    stride = th_expr_mul(in->ir, stride, type->dims[i]);
  }
  return shape;
}

void th_shape_remove(th_shape *shape, uint32_t at) {
  for (uint32_t i = at; i + 1 < shape->rank && i + 1 < TH_MAX_RANK; i++) {
    shape->dims[i] = shape->dims[i + 1];
    shape->strides[i] = shape->strides[i + 1];
  }
  shape->rank--;
}

void th_shape_insert(th_shape *shape, uint32_t at, const th_expr *dim,
                     const th_expr *stride) {
  for (uint32_t i = shape->rank < TH_MAX_RANK ? shape->rank : TH_MAX_RANK - 1;
       i > at; i--) {
    shape->dims[i] = shape->dims[i - 1];
    shape->strides[i] = shape->strides[i - 1];
  }
  if (at < TH_MAX_RANK) {
    shape->dims[at] = dim;
    shape->strides[at] = stride;
  }
  shape->rank++;
}

// ---- results

th_status th_infer_out_type(th_infer *in, const th_type *type) {
  if (in->out_count == in->out_cap) {
    return th_infer_error(in, TH_UNSUPPORTED,
                          "more than %u results, which is the most",
                          in->out_cap);
  }
  in->outs[in->out_count++] = *type;
  return TH_OK;
}

static th_status infer_store(th_infer *in, th_dtype dtype, th_device device,
                             const th_shape *shape, bool is_view) {
  if (shape->rank > TH_MAX_RANK) {
    return th_infer_error(in, TH_SHAPE,
                          "the result has %u dimensions; at most %d are "
                          "supported",
                          shape->rank, TH_MAX_RANK);
  }
  th_arena *arena = &in->ir->arena;
  const th_expr **dims = TH_NEW_ARRAY(arena, const th_expr *, shape->rank + 1);
  memcpy(dims, shape->dims, shape->rank * sizeof *dims);
  th_type type = th_tensor_type(dtype, (uint8_t)shape->rank, dims);
  type.device = device;
  bool is_empty = false;
  for (uint32_t i = 0; i < shape->rank; i++) {
    is_empty = is_empty || (dims[i] && th_is_int(dims[i], 0));
    if (!dims[i] || (is_view && !shape->strides[i])) {
      return th_infer_error(in, TH_SHAPE,
                            "dimension %u of the result does not fit into 64 "
                            "bits, or its size is a division by zero",
                            i);
    }
  }
  if (is_view && !is_empty) {
    const th_expr **strides =
        TH_NEW_ARRAY(arena, const th_expr *, shape->rank + 1);
    memcpy(strides, shape->strides, shape->rank * sizeof *strides);
    type.strides = strides;
    if (th_type_is_contiguous(in->ir, &type)) {
      type.strides = NULL;
    }
  }
  return th_infer_out_type(in, &type);
}

th_status th_infer_out(th_infer *in, th_dtype dtype, th_device device,
                       const th_shape *shape) {
  return infer_store(in, dtype, device, shape, false);
}

th_status th_infer_view(th_infer *in, const th_type *of,
                        const th_shape *shape) {
  return infer_store(in, of->dtype, of->device, shape, true);
}

// ---- errors

const char *th_infer_text(th_infer *in, const th_type *type) {
  th_buffer text;
  th_buffer_init(&text, &in->ir->arena);
  th_type_print(&text, type);
  return strncmp(text.data, "cpu ", 4) == 0 ? text.data + 4 : text.data;
}

const char *th_infer_num_text(th_infer *in, const th_expr *num) {
  if (!num) {
    return "None";
  }
  th_buffer text;
  th_buffer_init(&text, &in->ir->arena);
  th_expr_print(&text, num);
  return text.data;
}

void th_infer_blame(th_infer *in, uint32_t arg) {
  in->culprit = in->args[arg].kind == TH_ARG_VALUE ? in->args[arg].value : NULL;
}

static void infer_note(th_infer *in) {
  const th_value *value = in->culprit;
  if (value->def) {
    th_note(in->ir->ctx, value->def->loc, "'%s' is the result of '%s' here",
            value->name, value->def->op->name);
  } else if (value->input && value->input->fqn) {
    th_note(in->ir->ctx, TH_NOWHERE, "'%s' is '%s' of the model", value->name,
            value->input->fqn);
  } else if (value->input) {
    th_note(in->ir->ctx, TH_NOWHERE, "'%s' is an input", value->name);
  }
}

th_status th_infer_error(th_infer *in, th_status status, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  const char *text = th_arena_vprintf(&in->ir->arena, fmt, args);
  va_end(args);
  bool has_scope = in->scope && *in->scope && !in->loc.file;
  th_error(in->ir->ctx, status, in->loc, "%s: %s%s%s%s", in->op->name, text,
           has_scope ? " (in " : "", has_scope ? in->scope : "",
           has_scope ? ")" : "");
  if (in->culprit) {
    infer_note(in);
  }
  return status;
}

// ---- the run

static th_status infer_check_tensor(th_infer *in, const th_type *type) {
  for (uint8_t i = 0; i < type->rank; i++) {
    int64_t lo = 0, hi = 0;
    if (th_expr_range(type->dims[i], &lo, &hi) && hi < 0) {
      return th_infer_error(in, TH_SHAPE,
                            "dimension %u of the result would have the size "
                            "%s",
                            i, th_infer_num_text(in, type->dims[i]));
    }
  }
  const th_expr *bytes =
      th_expr_mul(in->ir, th_type_numel(in->ir, type),
                  th_int(in->ir, (int64_t)th_dtype_size(type->dtype)));
  if (!bytes) {
    return th_infer_error(in, TH_SHAPE,
                          "the size of the result, %s, does not fit into 64 "
                          "bits",
                          th_infer_text(in, type));
  }
  return TH_OK;
}

th_status th_infer_run(th_infer *in) {
  if (!in->op->infer) {
    return th_infer_error(in, TH_UNSUPPORTED,
                          "the operation has no shape rule");
  }
  TH_TRY(in->op->infer(in));
  for (uint32_t i = 0; i < in->out_count; i++) {
    if (in->outs[i].kind == TH_KIND_TENSOR) {
      TH_TRY(infer_check_tensor(in, &in->outs[i]));
    }
  }
  return TH_OK;
}

// ---- arguments

const th_type *th_infer_tensor(th_infer *in, uint32_t arg) {
  const th_arg *a = &in->args[arg];
  return a->kind == TH_ARG_VALUE && a->value->type.kind == TH_KIND_TENSOR
             ? &a->value->type
             : NULL;
}

const th_expr *th_infer_num(th_infer *in, uint32_t arg) {
  const th_arg *a = &in->args[arg];
  if (a->kind == TH_ARG_VALUE && a->value->type.kind == TH_KIND_NUMBER) {
    return a->value->type.num;
  }
  return a->kind == TH_ARG_NUM ? a->num : NULL;
}

static bool infer_const_int(const th_expr *num, int64_t *out) {
  if (!num || !th_is_const(num) || num->dtype == TH_F64) {
    return false;
  }
  *out = num->i;
  return true;
}

bool th_infer_int(th_infer *in, uint32_t arg, int64_t *out) {
  return infer_const_int(th_infer_num(in, arg), out);
}

bool th_infer_bool(th_infer *in, uint32_t arg) {
  int64_t value = 0;
  return th_infer_int(in, arg, &value) && value != 0;
}

th_status th_infer_need_int(th_infer *in, uint32_t arg, int64_t *out) {
  if (!th_infer_int(in, arg, out)) {
    return th_infer_error(in, TH_UNSUPPORTED,
                          "argument '%s' is %s; it must be a constant integer",
                          in->op->params[arg].name,
                          th_infer_num_text(in, th_infer_num(in, arg)));
  }
  return TH_OK;
}

uint32_t th_infer_count(th_infer *in, uint32_t arg) {
  return in->args[arg].kind == TH_ARG_LIST ? in->args[arg].count : 0;
}

th_status th_infer_item(th_infer *in, uint32_t arg, uint32_t i,
                        const th_expr **out) {
  const th_arg *a = &in->args[arg].items[i];
  *out = a->kind == TH_ARG_NUM ? a->num : NULL;
  if (a->kind == TH_ARG_VALUE && a->value->type.kind == TH_KIND_NUMBER) {
    *out = a->value->type.num;
  }
  if (!*out || (*out)->dtype == TH_F64) {
    return th_infer_error(in, TH_INVALID,
                          "argument '%s': element %u is no integer",
                          in->op->params[arg].name, i);
  }
  return TH_OK;
}

th_status th_infer_need_item(th_infer *in, uint32_t arg, uint32_t i,
                             int64_t *out) {
  const th_expr *num = NULL;
  TH_TRY(th_infer_item(in, arg, i, &num));
  if (!infer_const_int(num, out)) {
    return th_infer_error(in, TH_UNSUPPORTED,
                          "argument '%s': element %u is %s; it must be a "
                          "constant",
                          in->op->params[arg].name, i,
                          th_infer_num_text(in, num));
  }
  return TH_OK;
}

th_status th_infer_dim(th_infer *in, int64_t dim, uint8_t rank,
                       uint8_t *out_dim) {
  int64_t count = rank ? rank : 1;
  if (dim < -count || dim >= count) {
    return th_infer_error(in, TH_SHAPE,
                          "dimension %lld is out of range; it must lie in "
                          "[%lld, %lld]",
                          (long long)dim, (long long)-count,
                          (long long)(count - 1));
  }
  *out_dim = (uint8_t)(dim < 0 ? dim + count : dim);
  return TH_OK;
}

th_status th_infer_arg_dim(th_infer *in, uint32_t arg, uint8_t rank,
                           uint8_t *out_dim) {
  int64_t dim = 0;
  TH_TRY(th_infer_need_int(in, arg, &dim));
  return th_infer_dim(in, dim, rank, out_dim);
}

th_status th_infer_arg_dims(th_infer *in, uint32_t arg, uint8_t rank,
                            uint8_t dims[TH_MAX_RANK], uint32_t *out_count) {
  bool seen[TH_MAX_RANK] = {false};
  *out_count = 0;
  for (uint32_t i = 0; i < th_infer_count(in, arg); i++) {
    int64_t dim = 0;
    uint8_t wrapped = 0;
    TH_TRY(th_infer_need_item(in, arg, i, &dim));
    TH_TRY(th_infer_dim(in, dim, rank, &wrapped));
    if (seen[wrapped]) {
      return th_infer_error(in, TH_SHAPE,
                            "argument '%s' names dimension %u twice",
                            in->op->params[arg].name, wrapped);
    }
    seen[wrapped] = true;
    dims[(*out_count)++] = wrapped;
  }
  return TH_OK;
}

typedef struct infer_devices {
  th_infer *in;
  const th_value *first; // that has dims, or is not on the CPU
  const th_value *other; // on another device
  bool has_tensor;
} infer_devices;

static void infer_see_device(void *user, th_value *value) {
  infer_devices *seen = user;
  if (value->type.kind != TH_KIND_TENSOR) {
    return;
  }
  seen->has_tensor = true;
  if (value->type.rank == 0 && value->type.device.type == TH_CPU) {
    return;
  }
  if (!seen->first) {
    seen->first = value;
  } else if (!th_device_equal(seen->first->type.device, value->type.device)) {
    seen->other = value;
  }
}

th_status th_infer_device(th_infer *in, th_device *out_device) {
  infer_devices seen = {.in = in};
  for (uint32_t i = 0; i < in->arg_count; i++) {
    th_arg_values(&in->args[i], infer_see_device, &seen);
  }
  if (seen.other) {
    char a[24], b[24];
    in->culprit = seen.other;
    return th_infer_error(
        in, TH_INVALID,
        "operands are on two devices: '%s' on %s and '%s' on %s",
        seen.first->name, th_device_text(seen.first->type.device, a, sizeof a),
        seen.other->name, th_device_text(seen.other->type.device, b, sizeof b));
  }
  *out_device = seen.first ? seen.first->type.device : (th_device){TH_CPU, 0};
  return TH_OK;
}

th_status th_infer_same_dtype(th_infer *in, uint32_t a, uint32_t b) {
  const th_type *x = th_infer_tensor(in, a), *y = th_infer_tensor(in, b);
  if (x && y && x->dtype != y->dtype) {
    th_infer_blame(in, b);
    return th_infer_error(in, TH_DTYPE,
                          "'%s' is %s and '%s' is %s; their dtypes must be "
                          "equal",
                          in->op->params[a].name, th_infer_text(in, x),
                          in->op->params[b].name, th_infer_text(in, y));
  }
  return TH_OK;
}

th_status th_infer_need_rank(th_infer *in, uint32_t arg, uint8_t min,
                             uint8_t max) {
  const th_type *x = th_infer_tensor(in, arg);
  if (x->rank >= min && x->rank <= max) {
    return TH_OK;
  }
  th_infer_blame(in, arg);
  const char *name = in->op->params[arg].name;
  if (min == max) {
    return th_infer_error(in, TH_SHAPE, "'%s' is %s; it must have %u %s", name,
                          th_infer_text(in, x), min,
                          min == 1 ? "dimension" : "dimensions");
  }
  if (max == TH_MAX_RANK) {
    return th_infer_error(
        in, TH_SHAPE, "'%s' is %s; it must have at least %u %s", name,
        th_infer_text(in, x), min, min == 1 ? "dimension" : "dimensions");
  }
  return th_infer_error(in, TH_SHAPE,
                        "'%s' is %s; it must have %u to %u dimensions", name,
                        th_infer_text(in, x), min, max);
}

th_status th_infer_need_float(th_infer *in, uint32_t arg) {
  const th_type *x = th_infer_tensor(in, arg);
  if (!x || th_dtype_is_float(x->dtype)) {
    return TH_OK;
  }
  th_infer_blame(in, arg);
  return th_infer_error(in, TH_DTYPE,
                        "'%s' is %s; a floating-point dtype is needed",
                        in->op->params[arg].name, th_infer_text(in, x));
}

// PyTorch asks an index that is empty for no dtype.
th_status th_infer_need_index(th_infer *in, uint32_t arg) {
  const th_type *x = th_infer_tensor(in, arg);
  const th_expr *numel = th_type_numel(in->ir, x);
  bool is_empty = numel && th_is_int(numel, 0) && !th_dtype_is_float(x->dtype);
  if (x->dtype == TH_I64 || x->dtype == TH_I32 || is_empty) {
    return TH_OK;
  }
  th_infer_blame(in, arg);
  return th_infer_error(in, TH_DTYPE, "'%s' is %s; an index must be i64 or i32",
                        in->op->params[arg].name, th_infer_text(in, x));
}

th_status th_infer_need_shape(th_infer *in, uint32_t arg,
                              const th_shape *wanted, const char *what) {
  const th_type *x = th_infer_tensor(in, arg);
  bool same = x->rank == wanted->rank;
  for (uint8_t i = 0; same && i < x->rank; i++) {
    const th_expr *joined = NULL;
    same = th_infer_same_dim(in, x->dims[i], wanted->dims[i], &joined);
  }
  if (same) {
    return TH_OK;
  }
  th_infer_blame(in, arg);
  th_type type = th_tensor_type(x->dtype, (uint8_t)wanted->rank, wanted->dims);
  return th_infer_error(in, TH_SHAPE, "'%s' is %s; %s is %s",
                        in->op->params[arg].name, th_infer_text(in, x), what,
                        th_infer_text(in, &type));
}

bool th_infer_fits(th_infer *in, const th_shape *shape, const th_shape *to) {
  if (shape->rank > to->rank) {
    return false;
  }
  for (uint32_t i = 0; i < shape->rank; i++) {
    const th_expr *joined = NULL;
    if (!th_is_int(shape->dims[i], 1) &&
        !th_infer_same_dim(in, shape->dims[i],
                           to->dims[to->rank - shape->rank + i], &joined)) {
      return false;
    }
  }
  return true;
}

// ---- numbers

bool th_infer_certain(th_infer *in, th_expr_op op, const th_expr *a,
                      const th_expr *b) {
  return a && b && th_expr_known(in->ir, op, a, b) == 1;
}

static void infer_remember(th_ir *ir, th_expr_op op, const th_expr *a,
                           const th_expr *b) {
  const th_expr *args[] = {a, b};
  const th_expr *condition = th_expr_make(ir, op, args, 2);
  for (uint32_t i = 0; i < ir->assumed_count; i++) {
    if (ir->assumed[i] == condition) {
      return;
    }
  }
  if (condition && !th_is_const(condition)) {
    TH_PUSH(&ir->arena, ir->assumed, ir->assumed_count, ir->assumed_cap) =
        condition;
  }
}

bool th_infer_never(th_infer *in, th_expr_op op, const th_expr *a,
                    const th_expr *b) {
  int known = a && b ? th_expr_known(in->ir, op, a, b) : 1;
  if (known < 0) {
    infer_remember(in->ir, op, a, b);
  }
  return known == 0;
}

bool th_infer_same_dim(th_infer *in, const th_expr *a, const th_expr *b,
                       const th_expr **out) {
  int known = a == b || !a || !b ? 1 : th_expr_known(in->ir, TH_X_EQ, a, b);
  if (known == 0 || (known < 0 && in->ir->assume &&
                     !in->ir->assume(in->ir->assume_user, a, b))) {
    return false;
  }
  if (known < 0) {
    infer_remember(in->ir, TH_X_EQ, a, b);
  }
  *out = a && b && th_is_const(b) ? b : a;
  return true;
}

const th_expr *th_infer_where(th_infer *in, const th_expr *condition,
                              const th_expr *a, const th_expr *b) {
  const th_expr *args[] = {condition, a, b};
  return th_expr_make(in->ir, TH_X_ITE, args, 3);
}

const th_expr *th_infer_clamped(th_infer *in, const th_expr *index,
                                const th_expr *size, const th_expr *missing) {
  th_ir *ir = in->ir;
  const th_expr *zero = th_int(ir, 0);
  if (!index) {
    return missing;
  }
  if (th_is_int(index, INT64_MAX)) {
    return size;
  }
  const th_expr *is_negative =
      th_expr_make(ir, TH_X_LT, (const th_expr *[]){index, zero}, 2);
  // A constant near the smallest integer plus a size cannot overflow.
  const th_expr *wrapped =
      th_infer_where(in, is_negative, th_expr_add(ir, index, size), index);
  return th_expr_max(ir, zero, th_expr_min(ir, wrapped, size));
}

const th_expr *th_infer_steps(th_infer *in, const th_expr *start,
                              const th_expr *end, const th_expr *step) {
  th_ir *ir = in->ir;
  const th_expr *length =
      th_expr_max(ir, th_int(ir, 0), th_expr_sub(ir, end, start));
  return th_is_int(step, 1) ? length : th_expr_ceildiv(ir, length, step);
}

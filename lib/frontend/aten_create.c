// Creation, filling and conversion.
#include "frontend/aten.h"

#include "ir/infer.h"

#include <string.h>

static bool create_is_like(const th_call *call) {
  static const char *const names[] = {"zeros_like", "ones_like", "full_like",
                                      "empty_like"};
  for (size_t i = 0; i < TH_COUNT(names); i++) {
    if (th_call_is(call, names[i])) {
      return true;
    }
  }
  return false;
}

static th_dtype create_of_number(const th_expr *num) {
  return num->dtype == TH_F64 ? TH_F32 : num->dtype;
}

// What zeros, new_full, ones_like ... fill with.
static const th_expr *create_value(const th_call *call) {
  th_ir *ir = call->graph->ir;
  static const char *const given[] = {"fill_value", "s"};
  for (size_t i = 0; i < TH_COUNT(given); i++) {
    const th_expr *num = th_call_num(call, given[i]);
    if (num) {
      return num;
    }
  }
  bool one = th_call_is(call, "ones") || th_call_is(call, "ones_like") ||
             th_call_is(call, "new_ones");
  return th_int(ir, one);
}

th_status th_aten_full(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_value *self = th_call_tensor(call, "self");
  const th_expr *value = create_value(call);
  const th_pt2_arg *asked = th_call_arg(call, "dtype");
  th_dtype dtype = asked->kind == TH_PT2_DTYPE ? asked->dtype
                   : self                      ? self->type.dtype
                   : th_call_is(call, "full")  ? create_of_number(value)
                                               : TH_F32;
  th_arg shape = create_is_like(call) && self ? th_call_shape(call, self)
                                              : th_call_operand(call, "size");
  if (shape.kind != TH_ARG_LIST) {
    shape = th_list(graph->ir, NULL, 0); // scalar_tensor
  }
  return th_call_return_copy(
      call, TH_BUILD(graph->b, full, shape, th_n(value), th_d(dtype)));
}

th_status th_aten_arange(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_ir *ir = graph->ir;
  const th_expr *start = th_call_num(call, "start");
  const th_expr *end = th_call_num(call, "end");
  const th_expr *step = th_call_num(call, "step");
  start = start ? start : th_int(ir, 0);
  step = step ? step : th_int(ir, 1);
  bool is_float =
      start->dtype == TH_F64 || end->dtype == TH_F64 || step->dtype == TH_F64;
  const th_pt2_arg *asked = th_call_arg(call, "dtype");
  th_dtype dtype = asked->kind == TH_PT2_DTYPE ? asked->dtype
                   : is_float                  ? TH_F32
                                               : TH_I64;
  return th_call_return(call, TH_BUILD(graph->b, arange, th_n(start), th_n(end),
                                       th_n(step), th_d(dtype)));
}

// From both ends towards the middle, as PyTorch counts.
th_status th_aten_linspace(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  const th_pt2_arg *asked = th_call_arg(call, "dtype");
  th_dtype dtype = asked->kind == TH_PT2_DTYPE ? asked->dtype : TH_F32;
  th_dtype inner = dtype == TH_F32 ? TH_F32 : TH_F64;
  int64_t steps = th_call_int(call, "steps");
  const th_expr *start = th_call_num(call, "start");
  const th_expr *end = th_call_num(call, "end");
  if (steps < 2) {
    return th_call_return(call, TH_BUILD(b, full, th_ints(ir, &steps, 1),
                                         th_n(start), th_d(dtype)));
  }
  const th_expr *pair[] = {th_expr_sub(ir, end, start), th_int(ir, steps - 1)};
  if (start->op != TH_X_CONST || end->op != TH_X_CONST) {
    return th_call_unsupported(call, "a range between symbolic numbers");
  }
  double from = start->dtype == TH_F64 ? start->f : (double)start->i;
  double to = end->dtype == TH_F64 ? end->f : (double)end->i;
  double step = (to - from) / (double)(steps - 1);
  (void)pair;
  th_value *at = TH_BUILD(b, arange, th_i(ir, 0), th_i(ir, steps), th_i(ir, 1),
                          th_d(inner));
  th_value *up = TH_BUILD(b, mul, th_v(at), th_f(ir, step));
  up = TH_BUILD(b, add, th_v(up), th_f(ir, from));
  th_value *left = TH_BUILD(b, sub, th_i(ir, steps - 1), th_v(at));
  th_value *down = TH_BUILD(b, mul, th_v(left), th_f(ir, step));
  down = TH_BUILD(b, sub, th_f(ir, to), th_v(down));
  th_value *first = TH_BUILD(b, lt, th_v(at), th_i(ir, steps / 2));
  th_value *y = TH_BUILD(b, where, th_v(first), th_v(up), th_v(down));
  return th_call_return(
      call, dtype == inner ? y : TH_BUILD(b, to, th_v(y), th_d(dtype)));
}

th_status th_aten_eye(th_call *call) {
  th_builder *b = call->graph->b;
  const th_pt2_arg *asked = th_call_arg(call, "dtype");
  th_dtype dtype = asked->kind == TH_PT2_DTYPE ? asked->dtype : TH_F32;
  th_arg rows = th_call_operand(call, "n");
  th_arg columns = th_call_given(call, "m") ? th_call_operand(call, "m") : rows;
  return th_call_return(call, TH_BUILD(b, eye, rows, columns, th_d(dtype)));
}

// ---- filling ---------------------------------------------------------------

// `value` in the dtype and shape of `like`.
static th_value *create_fitted(th_builder *b, th_value *value,
                               const th_value *like) {
  if (value && value->type.dtype != like->type.dtype) {
    value = TH_BUILD(b, to, th_v(value), th_d(like->type.dtype));
  }
  bool same = value && value->type.rank == like->type.rank;
  for (uint8_t i = 0; same && i < like->type.rank; i++) {
    same = value->type.dims[i] == like->type.dims[i];
  }
  return same || !value
             ? value
             : TH_BUILD(b, expand, th_v(value),
                        th_nums(b->ir, like->type.dims, like->type.rank));
}

th_status th_aten_fill(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *self = th_call_tensor(call, "self");
  th_arg value = th_call_operand(call, "value");
  if (!self) {
    return b->status;
  }
  if (value.kind == TH_ARG_VALUE) {
    return th_call_return(call, create_fitted(b, value.value, self));
  }
  return th_call_return(call, TH_BUILD(b, full, th_call_shape(call, self),
                                       value, th_d(self->type.dtype)));
}

th_status th_aten_zero(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *self = th_call_tensor(call, "self");
  if (!self) {
    return b->status;
  }
  return th_call_return(call, TH_BUILD(b, full, th_call_shape(call, self),
                                       th_i(b->ir, 0), th_d(self->type.dtype)));
}

th_status th_aten_copy(th_call *call) {
  th_value *self = th_call_tensor(call, "self");
  th_arg source = th_call_operand(call, "src");
  if (!self || source.kind == TH_ARG_NONE) {
    return call->graph->b->status;
  }
  if (source.kind == TH_ARG_NUM) {
    return th_call_return(call, TH_BUILD(call->graph->b, full,
                                         th_call_shape(call, self), source,
                                         th_d(self->type.dtype)));
  }
  return th_call_return(call,
                        create_fitted(call->graph->b, source.value, self));
}

// ---- conversion ------------------------------------------------------------

th_status th_aten_to(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *self = th_call_tensor(call, "self");
  const th_pt2_arg *asked = th_call_arg(call, "dtype");
  th_value *other = th_call_tensor(call, "other");
  if (!self) {
    return b->status;
  }
  th_dtype dtype = asked->kind == TH_PT2_DTYPE ? asked->dtype
                   : other                     ? other->type.dtype
                                               : self->type.dtype;
  if (dtype != self->type.dtype) {
    return th_call_return_copy(call, TH_BUILD(b, to, th_v(self), th_d(dtype)));
  }
  bool copies = th_call_is(call, "_to_copy") || th_call_bool(call, "copy");
  return copies ? th_call_return_copy(call, self) : th_call_return(call, self);
}

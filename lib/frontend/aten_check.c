// Sizes and numbers of tensors, and assertions.
#include "frontend/aten.h"

#include "ir/infer.h"

#include <string.h>

th_status th_aten_sym_size(th_call *call) {
  th_value *x = th_call_tensor(call, "self");
  if (!x) {
    return call->graph->b->status;
  }
  int dim = th_call_dim(call, "dim", x->type.rank);
  if (dim < 0 || x->type.rank == 0) {
    return th_call_error(call->graph, TH_INVALID, "no such dimension");
  }
  return th_call_return_num(call, x->type.dims[dim]);
}

th_status th_aten_sym_numel(th_call *call) {
  th_value *x = th_call_tensor(call, "self");
  const th_expr *numel = x ? th_type_numel(call->graph->ir, &x->type) : NULL;
  return numel ? th_call_return_num(call, numel) : call->graph->b->status;
}

// The archive's strides: those of the eager model.
th_status th_aten_sym_stride(th_call *call) {
  th_pt2_graph *graph = call->graph;
  const th_pt2_arg *self = th_call_arg(call, "self");
  th_value *x = th_call_tensor(call, "self");
  if (!x) {
    return graph->b->status;
  }
  int dim = th_call_dim(call, "dim", x->type.rank);
  th_type type;
  if (dim < 0 || x->type.rank == 0 || !self->tensor->meta ||
      th_pt2_meta_type(graph, self->tensor->meta, &type) != TH_OK ||
      !type.strides[dim]) {
    return th_call_error(graph, TH_INVALID, "no such stride");
  }
  return th_call_return_num(call, type.strides[dim]);
}

th_status th_aten_sym_offset(th_call *call) {
  th_pt2_graph *graph = call->graph;
  const th_pt2_arg *self = th_call_arg(call, "self");
  const th_json *known = self->kind == TH_PT2_TENSOR
                             ? th_json_get(self->tensor->meta, "storage_offset")
                             : NULL;
  const th_expr *num = known ? th_pt2_number(graph, known) : NULL;
  return th_call_return_num(call, num ? num : th_int(graph->ir, 0));
}

th_status th_aten_item(th_call *call) {
  th_value *x = th_call_tensor(call, "self");
  if (!x) {
    return call->graph->b->status;
  }
  return th_call_return(call, TH_BUILD(call->graph->b, item, th_v(x)));
}

th_status th_aten_nothing(th_call *call) {
  (void)call;
  return TH_OK;
}

// Dtype and sizes are known here; what the archive adds of layout is not ours.
th_status th_aten_assert_metadata(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_value *x = th_call_tensor(call, "a");
  const th_pt2_arg *dtype = th_call_arg(call, "dtype");
  const th_pt2_arg *size = th_call_arg(call, "size");
  if (!x) {
    return graph->b->status;
  }
  if (dtype->kind == TH_PT2_DTYPE && dtype->dtype != x->type.dtype) {
    return th_call_error(graph, TH_DTYPE, "a tensor is %s, and should be %s",
                         th_dtype_name(x->type.dtype),
                         th_dtype_name(dtype->dtype));
  }
  if (size->kind != TH_PT2_LIST) {
    return TH_OK;
  }
  bool same = size->count == x->type.rank;
  for (uint32_t i = 0; same && i < size->count; i++) {
    same = size->items[i].kind == TH_PT2_NUM &&
           th_expr_known(graph->ir, TH_X_EQ, size->items[i].num,
                         x->type.dims[i]) != 0;
  }
  return same ? TH_OK
              : th_call_error(graph, TH_SHAPE, "a tensor has other sizes");
}

static th_arg check_message(th_call *call) {
  const th_pt2_arg *message = th_call_arg(call, "assert_msg");
  return th_s(message->kind == TH_PT2_STRING
                  ? message->text
                  : th_ir_string(call->graph->ir, "assertion failed"));
}

th_status th_aten_assert_scalar(th_call *call) {
  th_pt2_graph *graph = call->graph;
  const th_expr *condition = th_call_num(call, "self");
  if (!condition) {
    return th_call_error(graph, TH_INVALID, "needs a number");
  }
  if (condition->op == TH_X_CONST && condition->dtype != TH_F64) {
    return condition->i ? TH_OK
                        : th_call_error(graph, TH_INVALID, "%s",
                                        check_message(call).text);
  }
  th_arg args[] = {th_n(condition), check_message(call)};
  th_build(graph->b, th_op_row(TH_OP_assert_number), args, 2, NULL);
  return graph->b->status;
}

th_status th_aten_assert_async(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_arg args[] = {th_call_operand(call, "self"), check_message(call)};
  th_build(graph->b, th_op_row(TH_OP_assert_tensor), args, 2, NULL);
  return graph->b->status;
}

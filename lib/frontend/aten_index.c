// Reading and writing by index.  Masks become positions (nonzero), unless a
// write can be said as a choice between old and new.
#include "frontend/aten.h"

#include <string.h>

static bool index_is_mask(const th_value *value) {
  return value->type.dtype == TH_BOOL || value->type.dtype == TH_U8;
}

// Indices with each mask of k dimensions as k lists of positions.
static th_status index_positions(th_call *call, th_arg *out_list) {
  th_pt2_graph *graph = call->graph;
  th_builder *b = graph->b;
  const th_pt2_arg *indices = th_call_arg(call, "indices");
  th_arg items[2 * TH_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t i = 0; i < indices->count; i++) {
    th_arg item = th_call_value(call, &indices->items[i]);
    if (n + TH_MAX_RANK > TH_COUNT(items)) {
      return th_call_error(graph, TH_INVALID, "too many indices");
    }
    if (item.kind != TH_ARG_VALUE || !index_is_mask(item.value)) {
      items[n++] = item;
      continue;
    }
    th_value *where = TH_BUILD(b, nonzero, item);
    for (uint8_t k = 0; where && k < item.value->type.rank; k++) {
      items[n++] = th_v(
          TH_BUILD(b, select, th_v(where), th_i(b->ir, 1), th_i(b->ir, k)));
    }
  }
  *out_list = th_list(graph->ir, items, n);
  return b->status;
}

th_status th_aten_index(th_call *call) {
  th_arg list;
  th_value *x = th_call_tensor(call, "self");
  if (!x) {
    return call->graph->b->status;
  }
  TH_TRY(index_positions(call, &list));
  return th_call_return(call, TH_BUILD(call->graph->b, index, th_v(x), list));
}

// x[mask] = v where v does not depend on which elements the mask takes: v
// broadcasts over the dimensions behind the mask.  NULL: it does, or there are
// other indices.
static th_value *index_put_mask(th_call *call, th_value *x, th_value *values) {
  th_builder *b = call->graph->b;
  const th_pt2_arg *indices = th_call_arg(call, "indices");
  if (th_call_bool(call, "accumulate") || indices->count == 0 ||
      indices->items[0].kind != TH_PT2_TENSOR) {
    return NULL;
  }
  for (uint32_t i = 1; i < indices->count; i++) {
    if (indices->items[i].kind != TH_PT2_NONE) {
      return NULL;
    }
  }
  th_value *mask = th_call_value(call, &indices->items[0]).value;
  if (!mask || !index_is_mask(mask) || mask->type.rank > x->type.rank ||
      values->type.rank > x->type.rank - mask->type.rank) {
    return NULL;
  }
  if (mask->type.dtype != TH_BOOL) {
    mask = TH_BUILD(b, to, th_v(mask), th_d(TH_BOOL));
  }
  while (mask && mask->type.rank < x->type.rank) {
    mask = TH_BUILD(b, unsqueeze, th_v(mask), th_i(b->ir, -1));
  }
  return TH_BUILD(b, where, th_v(mask), th_v(values), th_v(x));
}

th_status th_aten_index_put(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  th_value *values = th_call_tensor(call, "values");
  if (!x || !values) {
    return b->status ? b->status
                     : th_call_error(call->graph, TH_INVALID, "needs tensors");
  }
  if (values->type.dtype != x->type.dtype) {
    values = TH_BUILD(b, to, th_v(values), th_d(x->type.dtype));
  }
  th_value *chosen = values ? index_put_mask(call, x, values) : NULL;
  if (chosen) {
    return th_call_return(call, chosen);
  }
  th_arg list;
  TH_TRY(index_positions(call, &list));
  return th_call_return(call,
                        TH_BUILD(b, index_put, th_v(x), list, th_v(values),
                                 th_call_operand(call, "accumulate")));
}

th_status th_aten_index_fill(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  th_value *index = th_call_tensor(call, "index");
  th_arg value = th_call_operand(call, "value");
  if (!x || !index) {
    return b->status;
  }
  int dim = th_call_dim(call, "dim", x->type.rank);
  bool single = x->type.rank == 0;
  if (single) {
    x = TH_BUILD(b, unsqueeze, th_v(x), th_i(b->ir, 0));
  }
  if (!x || dim < 0) {
    return b->status
               ? b->status
               : th_call_error(call->graph, TH_INVALID, "no such dimension");
  }
  if (index->type.rank == 0) {
    index = TH_BUILD(b, unsqueeze, th_v(index), th_i(b->ir, 0));
  }
  const th_expr *dims[TH_MAX_RANK];
  memcpy(dims, x->type.dims, x->type.rank * sizeof *dims);
  dims[dim] = index ? index->type.dims[0] : dims[dim];
  th_arg shape = th_nums(b->ir, dims, x->type.rank);
  th_value *source;
  if (value.kind == TH_ARG_VALUE) {
    source = TH_BUILD(b, to, value, th_d(x->type.dtype));
    source = TH_BUILD(b, expand, th_v(source), shape);
  } else {
    source = TH_BUILD(b, full, shape, value, th_d(x->type.dtype));
  }
  th_value *y = TH_BUILD(b, index_copy, th_v(x), th_i(b->ir, dim), th_v(index),
                         th_v(source));
  if (single) {
    y = TH_BUILD(b, squeeze, th_v(y), th_ints(b->ir, (int64_t[]){0}, 1));
  }
  return th_call_return(call, y);
}

th_status th_aten_one_hot(th_call *call) {
  th_builder *b = call->graph->b;
  const th_expr *classes = th_call_num(call, "num_classes");
  if (!classes || th_is_int(classes, -1)) {
    return th_call_unsupported(call,
                               "a number of classes that depends on data");
  }
  return th_call_return(
      call, TH_BUILD(b, one_hot, th_call_operand(call, "self"), th_n(classes)));
}

// Both get the sizes of the other where they have 1, but for `dim`.
static th_value *index_matched(th_builder *b, th_value *value,
                               const th_value *other, int dim) {
  const th_expr *dims[TH_MAX_RANK];
  bool same = true;
  for (uint8_t i = 0; i < value->type.rank; i++) {
    bool one = i != dim && th_is_int(value->type.dims[i], 1);
    dims[i] = one ? other->type.dims[i] : value->type.dims[i];
    same &= dims[i] == value->type.dims[i];
  }
  return same ? value
              : TH_BUILD(b, expand, th_v(value),
                         th_nums(b->ir, dims, value->type.rank));
}

th_status th_aten_take_along_dim(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  th_value *index = th_call_tensor(call, "indices");
  int dim = 0;
  if (!x || !index) {
    return b->status;
  }
  if (!th_call_given(call, "dim")) {
    th_arg flat = th_ints(b->ir, (const int64_t[]){-1}, 1);
    x = TH_BUILD(b, reshape, th_v(x), flat);
    index = TH_BUILD(b, reshape, th_v(index), flat);
  } else {
    dim = th_call_dim(call, "dim", x->type.rank);
  }
  if (!x || !index || dim < 0 || x->type.rank != index->type.rank) {
    return b->status ? b->status
                     : th_call_error(call->graph, TH_INVALID,
                                     "needs tensors of one rank");
  }
  th_value *wide = index_matched(b, x, index, dim);
  index = index_matched(b, index, x, dim);
  return th_call_return(
      call, TH_BUILD(b, gather, th_v(wide), th_i(b->ir, dim), th_v(index)));
}

th_status th_aten_masked_select(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  th_value *mask = th_call_tensor(call, "mask");
  if (!x || !mask) {
    return b->status;
  }
  th_arg flat = th_ints(b->ir, (const int64_t[]){-1}, 1);
  // Broadcast by a choice between equal things.
  th_value *wide = TH_BUILD(b, where, th_v(mask), th_v(x), th_v(x));
  mask =
      wide ? TH_BUILD(b, expand, th_v(mask), th_call_shape(call, wide)) : NULL;
  mask = TH_BUILD(b, reshape, th_v(mask), flat);
  wide = TH_BUILD(b, reshape, th_v(wide), flat);
  th_value *at = TH_BUILD(b, nonzero, th_v(mask));
  at = TH_BUILD(b, select, th_v(at), th_i(b->ir, 1), th_i(b->ir, 0));
  return th_call_return(
      call, TH_BUILD(b, index_select, th_v(wide), th_i(b->ir, 0), th_v(at)));
}

th_status th_aten_nonzero_numpy(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  th_value *parts[TH_MAX_RANK];
  if (!x) {
    return b->status;
  }
  if (x->type.rank == 0) {
    x = TH_BUILD(b, unsqueeze, th_v(x), th_i(b->ir, 0));
  }
  th_value *at = x ? TH_BUILD(b, nonzero, th_v(x)) : NULL;
  for (uint8_t i = 0; at && i < x->type.rank; i++) {
    parts[i] = TH_BUILD(b, select, th_v(at), th_i(b->ir, 1), th_i(b->ir, i));
  }
  return at ? th_call_return_list(call, parts, x->type.rank) : b->status;
}

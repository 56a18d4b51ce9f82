// Order statistics by sorting, distances, and diagonals.
#include "frontend/aten.h"

#include <string.h>

// Element `index` along `dim` of a sorted tensor, and where it was.
static th_status order_pick(th_call *call, th_value *x, int dim,
                            const th_expr *index, bool keep) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  th_arg args[] = {th_v(x), th_i(ir, dim), th_b(ir, false), th_b(ir, true)};
  const th_stmt *sorted = th_build(b, th_op_row(TH_OP_sort), args, 4, NULL);
  th_value *outs[2] = {NULL, NULL};
  for (int i = 0; sorted && index && i < 2; i++) {
    outs[i] =
        TH_BUILD(b, select, th_v(sorted->outs[i]), th_i(ir, dim), th_n(index));
    if (keep) {
      outs[i] = TH_BUILD(b, unsqueeze, th_v(outs[i]), th_i(ir, dim));
    }
  }
  return th_call_return_list(call, outs, 2);
}

static th_status order_needs(th_call *call) {
  return call->graph->b->status
             ? call->graph->b->status
             : th_call_error(call->graph, TH_INVALID, "no such dimension");
}

static th_value *order_flat(th_builder *b, th_value *x) {
  return TH_BUILD(b, reshape, th_v(x),
                  th_ints(b->ir, (const int64_t[]){-1}, 1));
}

// The lower of two middles.  A NaN sorts last, and is the median of its row
// wherever it stands.
th_status th_aten_median(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  th_value *x = th_call_tensor(call, "self");
  bool whole = !th_call_given(call, "dim");
  bool keep = th_call_bool(call, "keepdim") && x && x->type.rank > 0;
  if (x && (whole || x->type.rank == 0)) {
    x = order_flat(b, x);
  }
  int dim = !x ? -1 : whole ? 0 : th_call_dim(call, "dim", x->type.rank);
  if (dim < 0) {
    return order_needs(call);
  }
  if (th_dtype_is_float(x->type.dtype)) {
    th_value *bad = TH_BUILD(b, isnan, th_v(x));
    bad = TH_BUILD(b, any, th_v(bad), th_ints(ir, (int64_t[]){dim}, 1),
                   th_b(ir, true));
    x = TH_BUILD(b, where, th_v(bad), th_f(ir, __builtin_nan("")), th_v(x));
  }
  if (!x) {
    return b->status;
  }
  const th_expr *last = th_expr_sub(ir, x->type.dims[dim], th_int(ir, 1));
  const th_expr *middle =
      last ? th_expr_floordiv(ir, last, th_int(ir, 2)) : NULL;
  return order_pick(call, x, dim, middle, keep);
}

th_status th_aten_kthvalue(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  const th_expr *k = th_call_num(call, "k");
  bool keep = th_call_bool(call, "keepdim") && x && x->type.rank > 0;
  if (x && x->type.rank == 0) {
    x = order_flat(b, x);
  }
  int dim = x ? th_call_dim(call, "dim", x->type.rank) : -1;
  if (dim < 0 || !k) {
    return order_needs(call);
  }
  return order_pick(call, x, dim, th_expr_sub(b->ir, k, th_int(b->ir, 1)),
                    keep);
}

// How many of the sorted numbers are below each value (or not above it).
th_status th_aten_searchsorted(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  bool buckets = th_call_is(call, "bucketize");
  th_value *sorted =
      th_call_tensor(call, buckets ? "boundaries" : "sorted_sequence");
  th_value *x = th_call_tensor(call, "self");
  const th_pt2_arg *side = th_call_arg(call, "side");
  bool right = th_call_bool(call, "right") ||
               (side->kind == TH_PT2_STRING && !strcmp(side->text, "right"));
  th_value *sorter = th_call_tensor(call, "sorter");
  if (sorted && sorter) {
    sorted = TH_BUILD(b, gather, th_v(sorted), th_i(ir, -1), th_v(sorter));
  }
  if (!x || !sorted) {
    return order_needs(call);
  }
  th_value *each = TH_BUILD(b, unsqueeze, th_v(x), th_i(ir, -1));
  if (sorted->type.rank > 1) {
    sorted = TH_BUILD(b, unsqueeze, th_v(sorted), th_i(ir, -2));
  }
  // Not (s >= x), so that NaN comes after all.
  th_value *after = right ? TH_BUILD(b, gt, th_v(sorted), th_v(each))
                          : TH_BUILD(b, ge, th_v(sorted), th_v(each));
  th_value *before = TH_BUILD(b, logical_not, th_v(after));
  th_value *count =
      TH_BUILD(b, sum, th_v(before), th_ints(ir, (const int64_t[]){-1}, 1));
  if (th_call_bool(call, "out_int32")) {
    count = TH_BUILD(b, to, th_v(count), th_d(TH_I32));
  }
  return th_call_return(call, count);
}

// ---- diagonals -------------------------------------------------------------

// A tensor of zeros with the last dimension of x along a diagonal.
static th_value *order_embed(th_call *call, th_value *x, int64_t offset,
                             int dim1, int dim2) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  const th_expr *dims[TH_MAX_RANK + 1];
  uint8_t rank = x->type.rank + 1;
  int64_t more = offset < 0 ? -offset : offset;
  const th_expr *side =
      th_expr_add(ir, x->type.dims[rank - 2], th_int(ir, more));
  for (uint8_t i = 0, next = 0; i < rank; i++) {
    dims[i] = i == dim1 || i == dim2 ? side : x->type.dims[next++];
  }
  th_value *zeros = TH_BUILD(b, full, th_nums(ir, dims, rank), th_i(ir, 0),
                             th_d(x->type.dtype));
  return TH_BUILD(b, diagonal_scatter, th_v(zeros), th_v(x), th_i(ir, offset),
                  th_i(ir, dim1), th_i(ir, dim2));
}

th_status th_aten_diag_embed(th_call *call) {
  th_value *x = th_call_tensor(call, "self");
  uint8_t rank = x ? x->type.rank + 1 : 1;
  int dim1 = th_call_dim(call, "dim1", rank);
  int dim2 = th_call_dim(call, "dim2", rank);
  if (!x || rank < 2 || rank > TH_MAX_RANK || dim1 < 0 || dim2 < 0 ||
      dim1 == dim2) {
    return order_needs(call);
  }
  return th_call_return(
      call, order_embed(call, x, th_call_int(call, "offset"), dim1, dim2));
}

th_status th_aten_diag(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  bool flatten = th_call_is(call, "diagflat");
  const char *name = flatten ? "offset" : "diagonal";
  if (x && (flatten || x->type.rank == 0)) {
    x = order_flat(b, x);
  }
  if (!x) {
    return b->status;
  }
  if (x->type.rank == 1) {
    return th_call_return(call,
                          order_embed(call, x, th_call_int(call, name), 0, 1));
  }
  return th_call_return(
      call, TH_BUILD(b, diagonal, th_v(x), th_call_operand(call, name)));
}

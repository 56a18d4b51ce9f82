// Views and the moving of elements, where the shape needs code.
#include "frontend/aten.h"

#include "ir/infer.h"

#include <string.h>

// ---- reshapes --------------------------------------------------------------

// Sizes with those from `first` to `last` joined.
static th_arg shape_flattened(th_call *call, const th_value *x, int first,
                              int last) {
  th_ir *ir = call->graph->ir;
  const th_expr *dims[TH_MAX_RANK + 1];
  uint32_t n = 0;
  if (x->type.rank == 0) {
    dims[n++] = th_int(ir, 1);
  }
  for (int i = 0; i < x->type.rank; i++) {
    if (i > first && i <= last && n > 0) {
      dims[n - 1] = th_expr_mul(ir, dims[n - 1], x->type.dims[i]);
    } else {
      dims[n++] = x->type.dims[i];
    }
  }
  return th_nums(ir, dims, n);
}

static th_arg shape_unflattened(th_call *call, const th_value *x, int dim) {
  const th_pt2_arg *sizes = th_call_arg(call, "sizes");
  th_arg items[2 * TH_MAX_RANK];
  uint32_t n = 0;
  for (int i = 0; i < x->type.rank; i++) {
    if (i != dim) {
      items[n++] = th_n(x->type.dims[i]);
      continue;
    }
    for (uint32_t k = 0; k < sizes->count && k < TH_MAX_RANK; k++) {
      items[n++] = th_call_value(call, &sizes->items[k]);
    }
  }
  return th_list(call->graph->ir, items, n);
}

static th_status shape_wanted(th_call *call, th_value *x, th_arg *out) {
  uint8_t rank = x->type.rank;
  if (th_call_is(call, "reshape")) {
    *out = th_call_operand(call, "shape");
  } else if (th_call_is(call, "view_as") || th_call_is(call, "reshape_as")) {
    th_value *other = th_call_tensor(call, "other");
    *out = other ? th_call_shape(call, other) : th_none();
  } else if (th_call_is(call, "flatten")) {
    int first = th_call_dim(call, "start_dim", rank);
    int last = th_call_dim(call, "end_dim", rank);
    if (first < 0 || last < first) {
      return th_call_error(call->graph, TH_INVALID, "no such dimensions");
    }
    *out = shape_flattened(call, x, first, last);
  } else if (th_call_is(call, "unflatten")) {
    *out = shape_unflattened(call, x, th_call_dim(call, "dim", rank));
  } else if (th_call_is(call, "ravel")) {
    *out = shape_flattened(call, x, 0, rank);
  } else {
    *out = th_call_operand(call, "size");
  }
  return TH_OK;
}

th_status th_aten_reshape(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_value *x = th_call_tensor(call, "self");
  if (!x) {
    return graph->b->status;
  }
  th_arg shape;
  TH_TRY(shape_wanted(call, x, &shape));
  th_value *y = TH_BUILD(graph->b, reshape, th_v(x), shape);
  if (!y) {
    return graph->b->status;
  }
  const th_pt2_arg *self = th_call_arg(call, "self");
  bool may_copy = th_call_is(call, "reshape") || th_call_is(call, "flatten") ||
                  th_call_is(call, "reshape_as") || th_call_is(call, "ravel");
  return may_copy && !th_alias_would_view(graph, self->tensor, &y->type)
             ? th_call_return_copy(call, y)
             : th_call_return(call, y);
}

th_status th_aten_atleast(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_value *x = th_call_tensor(call, "self");
  if (!x) {
    return graph->b->status;
  }
  uint8_t wanted = th_call_is(call, "atleast_1d")   ? 1
                   : th_call_is(call, "atleast_2d") ? 2
                                                    : 3;
  // [n] is [1, n], and [1, n, 1]; [m, n] is [m, n, 1].
  while (x && x->type.rank < wanted) {
    bool in_front = x->type.rank == 0 || x->type.rank == 1;
    x = TH_BUILD(graph->b, unsqueeze, th_v(x),
                 th_i(graph->ir, in_front ? 0 : -1));
  }
  return th_call_return(call, x);
}

th_status th_aten_contiguous(th_call *call) {
  // A trace has no memory: where PyTorch copies, the value is the same and
  // only the window is new.
  const th_pt2_arg *self = th_call_arg(call, "self");
  th_value *x = th_call_tensor(call, "self");
  return self->kind == TH_PT2_TENSOR &&
                 th_alias_is_contiguous(call->graph, self->tensor)
             ? th_call_return(call, x)
             : th_call_return_copy(call, x);
}

// ---- permutations ----------------------------------------------------------

static bool shape_swapped(th_call *call, uint8_t rank, int64_t *dims) {
  static const char *const names[][2] = {{"dim0", "dim1"}, {"axis0", "axis1"}};
  int a = rank - 2, b = rank - 1;
  if (th_call_is(call, "numpy_T")) {
    for (uint8_t i = 0; i < rank; i++) {
      dims[i] = rank - 1 - i;
    }
    return true;
  }
  for (size_t i = 0; i < TH_COUNT(names); i++) {
    if (th_call_given(call, names[i][0])) {
      a = th_call_dim(call, names[i][0], rank);
      b = th_call_dim(call, names[i][1], rank);
    }
  }
  if (a < 0 || b < 0) {
    return rank < 2; // t of a vector, transpose(0, 0) of a scalar
  }
  if (rank) {
    dims[a] = b;
    dims[b] = a;
  }
  return true;
}

th_status th_aten_transpose(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_value *x = th_call_tensor(call, "self");
  int64_t dims[TH_MAX_RANK];
  if (!x) {
    return graph->b->status;
  }
  for (uint8_t i = 0; i < x->type.rank; i++) {
    dims[i] = i;
  }
  if (!shape_swapped(call, x->type.rank, dims)) {
    return th_call_error(graph, TH_INVALID, "no such dimensions");
  }
  return th_call_return(call, TH_BUILD(graph->b, permute, th_v(x),
                                       th_ints(graph->ir, dims, x->type.rank)));
}

th_status th_aten_movedim(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_value *x = th_call_tensor(call, "self");
  int64_t from[TH_MAX_RANK], to[TH_MAX_RANK], dims[TH_MAX_RANK];
  bool taken[TH_MAX_RANK] = {false}, placed[TH_MAX_RANK] = {false};
  uint32_t count = 1, count_to = 1;
  if (!x) {
    return graph->b->status;
  }
  if (!th_call_ints(call, "source", from, TH_MAX_RANK, &count) ||
      !th_call_ints(call, "destination", to, TH_MAX_RANK, &count_to)) {
    from[0] = th_call_int(call, "source");
    to[0] = th_call_int(call, "destination");
  }
  int64_t rank = x->type.rank;
  for (uint32_t i = 0; i < count; i++) {
    int64_t a = from[i] < 0 ? from[i] + rank : from[i];
    int64_t b = to[i] < 0 ? to[i] + rank : to[i];
    if (count_to != count || a < 0 || a >= rank || b < 0 || b >= rank) {
      return th_call_error(graph, TH_INVALID, "no such dimensions");
    }
    dims[b] = a;
    taken[a] = placed[b] = true;
  }
  int64_t next = 0;
  for (int64_t i = 0; i < rank; i++) {
    if (placed[i]) {
      continue;
    }
    while (next < rank && taken[next]) {
      next++;
    }
    dims[i] = next++;
  }
  return th_call_return(call,
                        TH_BUILD(graph->b, permute, th_v(x),
                                 th_ints(graph->ir, dims, (uint32_t)rank)));
}

th_status th_aten_rot90(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  int64_t dims[2];
  uint32_t count = 0;
  if (!x || !th_call_ints(call, "dims", dims, 2, &count) || count != 2) {
    return b->status ? b->status
                     : th_call_error(call->graph, TH_INVALID, "needs two dims");
  }
  int64_t rank = x->type.rank;
  int64_t times = ((th_call_int(call, "k") % 4) + 4) % 4;
  int64_t p = dims[0] < 0 ? dims[0] + rank : dims[0];
  int64_t q = dims[1] < 0 ? dims[1] + rank : dims[1];
  if (p < 0 || p >= rank || q < 0 || q >= rank) {
    return th_call_error(call->graph, TH_INVALID, "no such dimensions");
  }
  int64_t order[TH_MAX_RANK];
  for (int64_t i = 0; i < rank; i++) {
    order[i] = i == p ? q : i == q ? p : i;
  }
  th_arg swap = th_ints(b->ir, order, (uint32_t)rank);
  th_arg both = th_ints(b->ir, (const int64_t[]){p, q}, 2);
  if (times == 2) {
    x = TH_BUILD(b, flip, th_v(x), both);
  } else if (times) {
    th_value *flipped =
        TH_BUILD(b, flip, th_v(x), th_ints(b->ir, times == 1 ? &q : &p, 1));
    x = TH_BUILD(b, permute, th_v(flipped), swap);
  } else {
    x = TH_BUILD(b, clone, th_v(x));
  }
  return th_call_return(call, x);
}

// ---- parts -----------------------------------------------------------------

// How many results the archive names: sizes may be symbolic.
static uint32_t shape_parts(const th_call *call) {
  const th_json *outputs = th_json_get(call->json, "outputs");
  const th_json *list =
      th_json_is(outputs, TH_JSON_ARRAY) && outputs->count == 1
          ? th_json_get(th_json_first(outputs), "as_tensors")
          : NULL;
  return th_json_is(list, TH_JSON_ARRAY) ? list->count : 0;
}

static th_status shape_split(th_call *call, th_value *x, int dim,
                             const th_expr *const *sizes, uint32_t count) {
  th_pt2_graph *graph = call->graph;
  th_arg args[] = {th_v(x), th_nums(graph->ir, sizes, count),
                   th_i(graph->ir, dim)};
  return th_call_return_stmt(
      call, th_build(graph->b, th_op_row(TH_OP_split), args, 3, NULL));
}

th_status th_aten_split(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_ir *ir = graph->ir;
  th_value *x = th_call_tensor(call, "self");
  uint32_t count = shape_parts(call);
  if (!x) {
    return graph->b->status;
  }
  int dim = th_call_dim(call, "dim", x->type.rank);
  if (dim < 0 || x->type.rank == 0 || count == 0) {
    return th_call_error(graph, TH_INVALID, "no such dimension, or no parts");
  }
  const th_expr *whole = x->type.dims[dim];
  const th_expr *size =
      th_call_given(call, "chunks")
          ? th_expr_ceildiv(ir, whole, th_call_num(call, "chunks"))
          : th_call_num(call, "split_size");
  const th_expr **sizes = TH_NEW_ARRAY(graph->arena, const th_expr *, count);
  for (uint32_t i = 0; size && i < count; i++) {
    bool last = i + 1 == count;
    const th_expr *before = th_expr_mul(ir, size, th_int(ir, i));
    sizes[i] = last && before ? th_expr_sub(ir, whole, before) : size;
  }
  if (!size || !sizes[count - 1]) {
    return th_call_error(graph, TH_INVALID, "the sizes of parts overflow");
  }
  return shape_split(call, x, dim, sizes, count);
}

static int shape_split_dim(const th_call *call, uint8_t rank) {
  return th_call_is(call, "hsplit")   ? (rank > 1)
         : th_call_is(call, "vsplit") ? 0
         : th_call_is(call, "dsplit") ? 2
                                      : th_call_dim(call, "dim", rank);
}

// Before each index, and after the last; out of order they are empty.
static th_status shape_split_at(th_call *call, th_value *x, int dim) {
  th_builder *b = call->graph->b;
  const th_pt2_arg *indices = th_call_arg(call, "indices");
  uint32_t count = indices->count + 1;
  th_value **parts = TH_NEW_ARRAY(call->graph->arena, th_value *, count);
  th_arg start = th_none();
  for (uint32_t i = 0; i < count; i++) {
    th_arg end =
        i + 1 < count ? th_call_value(call, &indices->items[i]) : th_none();
    parts[i] = TH_BUILD(b, slice, th_v(x), th_i(b->ir, dim), start, end);
    start = end;
  }
  return th_call_return_list(call, parts, count);
}

th_status th_aten_tensor_split(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_value *x = th_call_tensor(call, "self");
  if (!x) {
    return graph->b->status;
  }
  int dim = shape_split_dim(call, x->type.rank);
  if (dim < 0 || dim >= x->type.rank) {
    return th_call_error(graph, TH_INVALID, "no such dimension");
  }
  if (th_call_given(call, "indices")) {
    return shape_split_at(call, x, dim);
  }
  int64_t parts = th_call_int(call, "sections");
  const th_expr *whole = x->type.dims[dim];
  if (parts < 1 || parts > 1024 || whole->op != TH_X_CONST) {
    return th_call_unsupported(call, "a split into symbolic sizes");
  }
  const th_expr **sizes =
      TH_NEW_ARRAY(graph->arena, const th_expr *, (uint32_t)parts);
  for (int64_t i = 0; i < parts; i++) {
    sizes[i] = th_int(graph->ir, whole->i / parts + (i < whole->i % parts));
  }
  return shape_split(call, x, dim, sizes, (uint32_t)parts);
}

// ---- strides ---------------------------------------------------------------

// The elements of a base in the order of its memory; NULL: they do not lie
// densely.
static th_value *shape_in_memory(th_call *call, th_pt2_tensor *base) {
  th_pt2_graph *graph = call->graph;
  th_value *value = th_alias_read(graph, base);
  th_type type;
  if (!value || th_alias_is_contiguous(graph, base)) {
    return value;
  }
  if (th_pt2_meta_type(graph, base->meta, &type) != TH_OK) {
    return NULL;
  }
  int64_t order[TH_MAX_RANK];
  for (uint8_t i = 0; i < type.rank; i++) {
    // By falling strides; insertion keeps equal ones in order.
    int k = i;
    for (;
         k > 0 && th_expr_known(graph->ir, TH_X_LT, type.strides[order[k - 1]],
                                type.strides[i]) == 1;
         k--) {
      order[k] = order[k - 1];
    }
    order[k] = i;
  }
  const th_expr *dims[TH_MAX_RANK], *strides[TH_MAX_RANK];
  for (uint8_t i = 0; i < type.rank; i++) {
    dims[i] = type.dims[order[i]];
    strides[i] = type.strides[order[i]];
  }
  type.dims = dims;
  type.strides = strides;
  return th_type_is_contiguous(graph->ir, &type)
             ? TH_BUILD(graph->b, permute, th_v(value),
                        th_ints(graph->ir, order, type.rank))
             : NULL;
}

// A window on the memory itself, not on the tensor that it is asked of.
th_status th_aten_as_strided(th_call *call) {
  th_pt2_graph *graph = call->graph;
  const th_pt2_arg *self = th_call_arg(call, "self");
  if (self->kind != TH_PT2_TENSOR) {
    return th_call_error(graph, TH_INVALID, "needs a tensor");
  }
  th_pt2_tensor *base = self->tensor->base;
  th_value *memory = shape_in_memory(call, base);
  if (!memory) {
    return graph->b->status ? graph->b->status
                            : th_call_unsupported(call, "memory with gaps");
  }
  th_arg offset = th_call_operand(call, "storage_offset");
  if (offset.kind == TH_ARG_NONE) {
    const th_json *known = th_json_get(self->tensor->meta, "storage_offset");
    const th_expr *num = known ? th_pt2_number(graph, known) : NULL;
    offset = th_n(num ? num : th_int(graph->ir, 0));
  }
  th_value *y = TH_BUILD(graph->b, as_strided, th_v(memory),
                         th_call_operand(call, "size"),
                         th_call_operand(call, "stride"), offset);
  if (!y || th_call_is(call, "as_strided_copy")) {
    return th_call_return_copy(call, y);
  }
  return th_call_return_arg(
      call, (th_pt2_arg){.kind = TH_PT2_TENSOR,
                         .tensor = th_alias_view(graph, base, y)});
}

// ---- several tensors -------------------------------------------------------

static uint32_t shape_tensors(th_call *call, const char *name,
                              th_value ***out_values) {
  const th_pt2_arg *list = th_call_arg(call, name);
  uint32_t count = list->kind == TH_PT2_LIST ? list->count : 0;
  *out_values = TH_NEW_ARRAY(call->graph->arena, th_value *, count);
  for (uint32_t i = 0; i < count; i++) {
    th_arg item = th_call_value(call, &list->items[i]);
    (*out_values)[i] = item.kind == TH_ARG_VALUE ? item.value : NULL;
    if (!(*out_values)[i]) {
      return 0;
    }
  }
  return count;
}

static th_status shape_no_tensors(th_call *call) {
  return call->graph->b->status
             ? call->graph->b->status
             : th_call_error(call->graph, TH_INVALID, "needs tensors");
}

// Joins in one dtype.  A tensor of shape [0] joins with anything.
static th_value *shape_cat(th_call *call, th_value *const *values,
                           uint32_t count, int64_t dim) {
  th_builder *b = call->graph->b;
  th_arg *args = TH_NEW_ARRAY(call->graph->arena, th_arg, count);
  uint32_t n = 0;
  bool others = false;
  for (uint32_t i = 0; i < count; i++) {
    others |= values[i]->type.rank != 1;
  }
  for (uint32_t i = 0; i < count; i++) {
    args[i] = th_v(values[i]);
  }
  th_dtype dtype = th_promote_args(args, count);
  for (uint32_t i = 0; i < count; i++) {
    const th_type *type = &values[i]->type;
    if (others && type->rank == 1 && th_is_int(type->dims[0], 0)) {
      continue;
    }
    args[n++] = type->dtype == dtype
                    ? th_v(values[i])
                    : th_v(TH_BUILD(b, to, th_v(values[i]), th_d(dtype)));
  }
  return TH_BUILD(b, cat, th_list(b->ir, args, n), th_i(b->ir, dim));
}

th_status th_aten_cat(th_call *call) {
  th_value **values;
  uint32_t count = shape_tensors(call, "tensors", &values);
  if (count == 0) {
    return shape_no_tensors(call);
  }
  return th_call_return(
      call, shape_cat(call, values, count, th_call_int(call, "dim")));
}

th_status th_aten_hstack(th_call *call) {
  th_builder *b = call->graph->b;
  th_value **values;
  uint32_t count = shape_tensors(call, "tensors", &values);
  if (count == 0) {
    return shape_no_tensors(call);
  }
  bool columns = th_call_is(call, "column_stack");
  uint8_t wanted = th_call_is(call, "hstack")   ? 1
                   : th_call_is(call, "dstack") ? 3
                                                : 2;
  for (uint32_t i = 0; i < count; i++) {
    while (values[i] && values[i]->type.rank < wanted) {
      uint8_t rank = values[i]->type.rank;
      bool in_front = rank == 0 || (rank == 1 && !columns);
      values[i] = TH_BUILD(b, unsqueeze, th_v(values[i]),
                           th_i(b->ir, in_front ? 0 : -1));
    }
    if (!values[i]) {
      return b->status;
    }
  }
  int64_t dim = th_call_is(call, "vstack")   ? 0
                : th_call_is(call, "dstack") ? 2
                : columns                    ? 1
                                             : values[0]->type.rank > 1;
  return th_call_return(call, shape_cat(call, values, count, dim));
}

th_status th_aten_broadcast_tensors(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_value **values;
  uint32_t count = shape_tensors(call, "tensors", &values);
  if (count == 0) {
    return shape_no_tensors(call);
  }
  const th_type **types = TH_NEW_ARRAY(graph->arena, const th_type *, count);
  for (uint32_t i = 0; i < count; i++) {
    types[i] = &values[i]->type;
  }
  th_infer in = {.ir = graph->ir,
                 .op = th_op_row(TH_OP_expand),
                 .loc = graph->b->loc,
                 .scope = graph->b->scope};
  th_type shape;
  TH_TRY(th_broadcast(&in, types, count, &shape));
  for (uint32_t i = 0; i < count; i++) {
    values[i] = TH_BUILD(graph->b, expand, th_v(values[i]),
                         th_nums(graph->ir, shape.dims, shape.rank));
  }
  return th_call_return_list(call, values, count);
}

// Vectors as a grid; with 'xy' the first two dimensions change places.
th_status th_aten_meshgrid(th_call *call) {
  th_pt2_graph *graph = call->graph;
  th_builder *b = graph->b;
  th_value **values;
  uint32_t count = shape_tensors(call, "tensors", &values);
  if (count == 0 || count > TH_MAX_RANK) {
    return shape_no_tensors(call);
  }
  const th_pt2_arg *indexing = th_call_arg(call, "indexing");
  bool swap = count > 1 && indexing->kind == TH_PT2_STRING &&
              strcmp(indexing->text, "xy") == 0;
  const th_expr *dims[TH_MAX_RANK];
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = swap && i < 2 ? 1 - i : i;
    dims[at] =
        values[i]->type.rank ? values[i]->type.dims[0] : th_int(graph->ir, 1);
  }
  th_arg shape = th_nums(graph->ir, dims, count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = swap && i < 2 ? 1 - i : i;
    int64_t line[TH_MAX_RANK];
    for (uint32_t k = 0; k < count; k++) {
      line[k] = k == at ? -1 : 1;
    }
    th_value *column =
        TH_BUILD(b, reshape, th_v(values[i]), th_ints(graph->ir, line, count));
    values[i] = TH_BUILD(b, expand, th_v(column), shape);
  }
  return th_call_return_list(call, values, count);
}

// ---- repetition ------------------------------------------------------------

th_status th_aten_roll(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  const th_pt2_arg *dims = th_call_arg(call, "dims");
  if (!x) {
    return b->status;
  }
  if (dims->count > 0) {
    return th_call_return(call, TH_BUILD(b, roll, th_v(x),
                                         th_call_operand(call, "shifts"),
                                         th_call_operand(call, "dims")));
  }
  th_value *flat =
      TH_BUILD(b, reshape, th_v(x), th_ints(b->ir, (const int64_t[]){-1}, 1));
  flat = TH_BUILD(b, roll, th_v(flat), th_call_operand(call, "shifts"),
                  th_ints(b->ir, (const int64_t[]){0}, 1));
  return th_call_return(
      call, TH_BUILD(b, reshape, th_v(flat), th_call_shape(call, x)));
}

th_status th_aten_tile(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  const th_pt2_arg *dims = th_call_arg(call, "dims");
  if (!x) {
    return b->status;
  }
  th_arg repeats[2 * TH_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t i = dims->count; i < x->type.rank; i++) {
    repeats[n++] = th_i(b->ir, 1);
  }
  for (uint32_t i = 0; i < dims->count && i < TH_MAX_RANK; i++) {
    repeats[n++] = th_call_value(call, &dims->items[i]);
  }
  return th_call_return(
      call, TH_BUILD(b, repeat, th_v(x), th_list(b->ir, repeats, n)));
}

th_status th_aten_repeat_interleave(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  th_arg dim = th_call_operand(call, "dim");
  if (x && dim.kind == TH_ARG_NONE) {
    x = TH_BUILD(b, reshape, th_v(x), th_ints(b->ir, (const int64_t[]){-1}, 1));
    dim = th_i(b->ir, 0);
  }
  return th_call_return(call, TH_BUILD(b, repeat_interleave, th_v(x),
                                       th_call_operand(call, "repeats"), dim));
}

// ---- padding ---------------------------------------------------------------

// Positions -low .. size + high of a dimension as positions inside it.  A
// circle is that of what negative numbers leave.
static th_value *shape_circle(th_builder *b, const th_expr *size,
                              const th_expr *low, const th_expr *high) {
  th_ir *ir = b->ir;
  const th_expr *none = th_int(ir, 0);
  const th_expr *before = th_expr_max(ir, low, none);
  const th_expr *after = th_expr_max(ir, high, none);
  const th_expr *cut = th_expr_sub(ir, before, low);
  const th_expr *left =
      th_expr_sub(ir, th_expr_sub(ir, size, cut), th_expr_sub(ir, after, high));
  th_value *at =
      TH_BUILD(b, arange, th_n(th_expr_sub(ir, none, before)),
               th_n(th_expr_add(ir, left, after)), th_i(ir, 1), th_d(TH_I64));
  at = TH_BUILD(b, remainder, th_v(at), th_n(left));
  return TH_BUILD(b, add, th_v(at), th_n(cut));
}

static th_value *shape_mirror(th_builder *b, const char *mode,
                              const th_expr *size, const th_expr *low,
                              const th_expr *high) {
  th_ir *ir = b->ir;
  if (strcmp(mode, "circular") == 0) {
    return shape_circle(b, size, low, high);
  }
  th_arg last = th_n(th_expr_sub(ir, size, th_int(ir, 1)));
  const th_expr *start = th_expr_sub(ir, th_int(ir, 0), low);
  const th_expr *end = th_expr_add(ir, size, high);
  th_value *at =
      TH_BUILD(b, arange, th_n(start), th_n(end), th_i(ir, 1), th_d(TH_I64));
  if (strcmp(mode, "replicate") == 0) {
    return TH_BUILD(b, clamp, th_v(at), th_i(ir, 0), last);
  }
  at = TH_BUILD(b, abs, th_v(at));
  at = TH_BUILD(b, sub, last, th_v(at));
  at = TH_BUILD(b, abs, th_v(at));
  return TH_BUILD(b, sub, last, th_v(at));
}

th_status th_aten_pad(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  bool named = th_call_is(call, "pad");
  const th_pt2_arg *pad = th_call_arg(call, named ? "pad" : "padding");
  const th_pt2_arg *asked = th_call_arg(call, "mode");
  const char *mode = asked->kind == TH_PT2_STRING                ? asked->text
                     : strstr(call->graph->target, "reflection") ? "reflect"
                                                                 : "replicate";
  if (!x) {
    return b->status;
  }
  if (strcmp(mode, "constant") == 0) {
    th_arg value = th_call_operand(call, "value");
    value = value.kind == TH_ARG_NONE ? th_i(b->ir, 0) : value;
    return th_call_return(
        call, TH_BUILD(b, pad, th_v(x), th_call_value(call, pad), value));
  }
  for (uint32_t i = 0; x && i + 1 < pad->count; i += 2) {
    int dim = x->type.rank - 1 - (int)(i / 2);
    th_arg low = th_call_value(call, &pad->items[i]);
    th_arg high = th_call_value(call, &pad->items[i + 1]);
    if (dim < 0 || low.kind != TH_ARG_NUM || high.kind != TH_ARG_NUM) {
      return th_call_error(call->graph, TH_INVALID, "too much padding");
    }
    th_value *index =
        shape_mirror(b, mode, x->type.dims[dim], low.num, high.num);
    x = TH_BUILD(b, index_select, th_v(x), th_i(b->ir, dim), th_v(index));
  }
  return th_call_return(call, x);
}

// ---- channels --------------------------------------------------------------

// [.., c*r*r, h, w] <-> [.., c, h*r, w*r]
th_status th_aten_pixel_shuffle(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  th_value *x = th_call_tensor(call, "self");
  bool back = th_call_is(call, "pixel_unshuffle");
  int64_t factor =
      th_call_int(call, back ? "downscale_factor" : "upscale_factor");
  if (!x || x->type.rank < 3 || factor < 1 || factor > 65536) {
    return b->status ? b->status
                     : th_call_error(call->graph, TH_INVALID,
                                     "needs three dimensions and a factor");
  }
  uint8_t lead = x->type.rank - 3;
  const th_expr *r = th_int(ir, factor), *dims[TH_MAX_RANK + 3];
  if (lead + 6 > TH_MAX_RANK) {
    return th_call_unsupported(call, "so many dimensions");
  }
  memcpy(dims, x->type.dims, lead * sizeof *dims);
  const th_expr *const *d = x->type.dims + lead;
  const th_expr *rr = th_expr_mul(ir, r, r);
  const th_expr *c = back ? d[0] : th_expr_floordiv(ir, d[0], rr);
  const th_expr *h = back ? th_expr_floordiv(ir, d[1], r) : d[1];
  const th_expr *w = back ? th_expr_floordiv(ir, d[2], r) : d[2];
  const th_expr *parts[2][5] = {{c, r, r, h, w}, {c, h, r, w, r}};
  static const int64_t orders[2][5] = {{0, 3, 1, 4, 2}, {0, 2, 4, 1, 3}};
  memcpy(dims + lead, parts[back], sizeof parts[back]);
  int64_t order[TH_MAX_RANK];
  for (uint8_t i = 0; i < lead + 5; i++) {
    order[i] = i < lead ? i : lead + orders[back][i - lead];
  }
  x = TH_BUILD(b, reshape, th_v(x), th_nums(ir, dims, lead + 5u));
  x = TH_BUILD(b, permute, th_v(x), th_ints(ir, order, lead + 5u));
  dims[lead] = back ? th_expr_mul(ir, c, rr) : c;
  dims[lead + 1] = back ? h : th_expr_mul(ir, h, r);
  dims[lead + 2] = back ? w : th_expr_mul(ir, w, r);
  return th_call_return(
      call, TH_BUILD(b, reshape, th_v(x), th_nums(ir, dims, lead + 3u)));
}

th_status th_aten_channel_shuffle(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  th_value *x = th_call_tensor(call, "self");
  const th_expr *groups = th_call_num(call, "groups");
  if (!x || x->type.rank < 2 || x->type.rank >= TH_MAX_RANK || !groups) {
    return b->status ? b->status
                     : th_call_error(call->graph, TH_INVALID,
                                     "needs channels and groups");
  }
  const th_expr *dims[TH_MAX_RANK];
  int64_t order[TH_MAX_RANK];
  uint8_t rank = x->type.rank;
  dims[0] = x->type.dims[0];
  dims[1] = groups;
  dims[2] = th_expr_floordiv(ir, x->type.dims[1], groups);
  memcpy(dims + 3, x->type.dims + 2, (rank - 2u) * sizeof *dims);
  for (uint8_t i = 0; i <= rank; i++) {
    order[i] = i == 1 ? 2 : i == 2 ? 1 : i;
  }
  th_value *y = TH_BUILD(b, reshape, th_v(x), th_nums(ir, dims, rank + 1u));
  y = TH_BUILD(b, permute, th_v(y), th_ints(ir, order, rank + 1u));
  return th_call_return(call,
                        TH_BUILD(b, reshape, th_v(y), th_call_shape(call, x)));
}

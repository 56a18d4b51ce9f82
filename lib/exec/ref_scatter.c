// The first operand with some elements replaced.  Writes happen in order, so of
// two to one place the last one stays.
#include "exec/ref.h"
#include "exec/ref_indexed.h"

// The result starts as the operand; in place it is the operand.
static void scatter_start(const th_run *run) {
  if (!run->stmt->in_place) {
    th_ref_copy(th_run_out(run, 0), th_run_tensor(run, 0));
  }
}

// to[at] += alpha * from[at], rounded to the dtype after each step.
static void scatter_add(const th_view *to, int64_t to_offset,
                        const th_view *from, int64_t from_offset, double alpha,
                        int64_t int_alpha) {
  void *sum = th_ref_at(to, to_offset);
  const void *more = th_ref_at(from, from_offset);
  if (th_ref_is_float(to->dtype)) {
    char product[8];
    th_element_set(to->dtype, product,
                   alpha * th_element_get(from->dtype, more));
    th_element_set(to->dtype, sum,
                   th_element_get(to->dtype, sum) +
                       th_element_get(to->dtype, product));
    return;
  }
  uint64_t product =
      (uint64_t)th_element_get_int(from->dtype, more) * (uint64_t)int_alpha;
  uint64_t total = (uint64_t)th_element_get_int(to->dtype, sum) + product;
  th_element_set_int(to->dtype, sum, (int64_t)total);
}

static void scatter_write(bool add, const th_view *to, int64_t to_offset,
                          const th_view *from, int64_t from_offset) {
  if (add) {
    scatter_add(to, to_offset, from, from_offset, 1, 1);
  } else {
    th_ref_move(to, to_offset, from, from_offset);
  }
}

// The operand that is written.  In place it may be a window on the memory that
// is written to, so it is copied first.
static th_status scatter_source(th_run *run, uint32_t arg, th_ref_box *out) {
  return th_ref_flatten(run, th_run_tensor(run, arg), out);
}

// A number as a tensor of the shape of `like` that reads it everywhere.
static th_status scatter_number(th_run *run, uint32_t arg, th_dtype dtype,
                                const th_view *like, th_ref_box *out) {
  void *element = th_ref_alloc(run, 1, sizeof(double));
  if (!element) {
    return TH_NO_MEMORY;
  }
  th_ref_box_dense(out, dtype, element, 0, NULL);
  th_ref_fill(run, arg, &out->view);
  out->view.rank = like->rank;
  for (int i = 0; i < like->rank; i++) {
    out->dims[i] = like->dims[i];
    out->strides[i] = 0;
  }
  return TH_OK;
}

// out[p, but p[dim] = index[p]] = src[p]
TH_REF(scatter) {
  const th_view *index = th_run_tensor(run, 2), *out = th_run_out(run, 0);
  int dim = th_ref_dim(run, 1, out->rank);
  bool add = run->stmt->op->op == TH_OP_scatter_add;
  int64_t *places = th_ref_pack_ints(run, index);
  int64_t position[TH_MAX_RANK] = {0};
  th_ref_box src;
  if (!places) {
    return TH_NO_MEMORY;
  }
  TH_TRY(th_run_tensor(run, 3)
             ? scatter_source(run, 3, &src)
             : scatter_number(run, 3, out->dtype, index, &src));
  TH_TRY(th_ref_inside(run, index, out->rank, out->dims, dim));
  TH_TRY(th_ref_inside(run, index, src.view.rank, src.dims, -1));
  scatter_start(run);
  for (int64_t i = 0; i < th_ref_numel(index); i++) {
    int64_t at = 0, to = 0;
    TH_TRY(th_ref_index(run, places[i], out->rank ? out->dims[dim] : 1, &at));
    for (int d = 0; d < out->rank; d++) {
      to += (d == dim ? at : position[d]) * out->strides[d];
    }
    scatter_write(add, out, to, &src.view, th_ref_offset(&src.view, position));
    th_ref_next(position, index->rank, index->dims);
  }
  return TH_OK;
}

// out[indices] = values, or += values.
TH_REF(index_put) {
  const th_view *out = th_run_out(run, 0), *values = th_run_tensor(run, 2);
  bool add = th_run_bool(run, 3);
  int64_t position[TH_MAX_RANK] = {0}, count = 1, to = 0;
  th_ref_indices indices;
  th_ref_box src;
  TH_TRY(th_ref_indexed(run, out, 1, &indices));
  TH_TRY(scatter_source(run, 2, &src));
  int lead = indices.rank - values->rank; // values are broadcast
  TH_TRY(th_ref_fits(run, values, indices.rank, indices.dims));
  for (int d = 0; d < indices.rank; d++) {
    count *= indices.dims[d];
  }
  for (int d = 0; d < values->rank; d++) {
    src.strides[d] = src.dims[d] == 1 ? 0 : src.strides[d];
  }
  scatter_start(run);
  for (int64_t i = 0; i < count; i++) {
    TH_TRY(th_ref_indexed_offset(run, &indices, position, &to));
    scatter_write(add, out, to, &src.view,
                  th_ref_offset(&src.view, position + lead));
    th_ref_next(position, indices.rank, indices.dims);
  }
  return TH_OK;
}

// Slices of src at the places that the index lists: index_copy, index_add.
TH_REF(index_copy) {
  const th_view *index = th_run_tensor(run, 2), *out = th_run_out(run, 0);
  int dim = th_ref_dim(run, 1, out->rank);
  bool add = run->stmt->op->op == TH_OP_index_add;
  int64_t *places = th_ref_pack_ints(run, index);
  int64_t position[TH_MAX_RANK] = {0};
  th_ref_box src;
  if (!places) {
    return TH_NO_MEMORY;
  }
  TH_TRY(scatter_source(run, 3, &src));
  TH_TRY(th_ref_inside(run, &src.view, out->rank, out->dims, dim));
  if (src.view.rank && src.dims[dim] > th_ref_numel(index)) {
    return th_run_error(run, TH_SHAPE, "%lld indices for %lld slices",
                        (long long)th_ref_numel(index),
                        (long long)src.dims[dim]);
  }
  scatter_start(run);
  for (int64_t i = 0; i < th_ref_numel(&src.view); i++) {
    int64_t size = out->rank ? out->dims[dim] : 1, at = 0, to = 0;
    TH_TRY(th_ref_index(run, places[position[dim]], size, &at));
    for (int d = 0; d < out->rank; d++) {
      to += (d == dim ? at : position[d]) * out->strides[d];
    }
    int64_t from = th_ref_offset(&src.view, position);
    if (add) {
      scatter_add(out, to, &src.view, from, th_run_float(run, 4),
                  th_run_int(run, 4));
    } else {
      th_ref_move(out, to, &src.view, from);
    }
    th_ref_next(position, src.view.rank, src.dims);
  }
  return TH_OK;
}

// ---- src replaces a view of the operand

static int64_t window_clamped(const th_run *run, uint32_t arg, int64_t size,
                              int64_t missing) {
  if (th_run_is_none(run, arg)) {
    return missing;
  }
  int64_t at = th_run_int(run, arg);
  at = at < 0 ? at + size : at;
  return at < 0 ? 0 : at > size ? size : at;
}

static int64_t window_steps(const th_run *run, int64_t size) {
  int64_t start = window_clamped(run, 3, size, 0), step = th_run_int(run, 5);
  int64_t end = window_clamped(run, 4, size, size);
  return end > start ? (end - start + step - 1) / step : 0;
}

static void window_diagonal(const th_run *run, th_ref_box *box) {
  int rank = box->view.rank, last = rank - 1;
  int64_t offset = th_run_int(run, 2);
  int a = th_ref_dim(run, 3, rank), b = th_ref_dim(run, 4, rank);
  int64_t rows = box->dims[a] + (offset < 0 ? offset : 0);
  int64_t columns = box->dims[b] - (offset > 0 ? offset : 0);
  int64_t size = rows < columns ? rows : columns;
  size = size > 0 ? size : 0;
  th_ref_box_slice(box, a, offset < 0 ? -offset : 0, size, 1);
  th_ref_box_slice(box, b, offset > 0 ? offset : 0, size, 1);
  int64_t stride = box->strides[a] + box->strides[b];
  th_ref_box_move(box, a, last);
  th_ref_box_drop(box, b > a ? b - 1 : b);
  box->strides[last - 1] = stride;
}

// Narrows the box over the whole to the view; as_strided counts in row-major
// elements, which is what the box then has.
static th_status window_narrow(th_run *run, const th_view *src,
                               th_ref_box *box) {
  int64_t at = 0;
  int dim = th_ref_dim(run, 2, box->view.rank);
  int64_t size = box->view.rank ? box->dims[dim] : 1;
  switch (run->stmt->op->op) {
  case TH_OP_slice_scatter:
    th_ref_box_slice(box, dim, window_clamped(run, 3, size, 0),
                     window_steps(run, size), th_run_int(run, 5));
    return TH_OK;
  case TH_OP_select_scatter:
    TH_TRY(th_ref_index(run, th_run_int(run, 3), size, &at));
    th_ref_box_slice(box, dim, at, 1, 1);
    th_ref_box_drop(box, dim);
    return TH_OK;
  case TH_OP_diagonal_scatter:
    window_diagonal(run, box);
    return TH_OK;
  default:
    break;
  }
  int64_t numel = th_ref_numel(&box->view), last = 0;
  at = th_run_is_none(run, 4) ? 0 : th_run_int(run, 4);
  last = at;
  box->view.data = th_ref_at(&box->view, at);
  box->view.rank = src->rank;
  for (int i = 0; i < src->rank; i++) {
    box->dims[i] = src->dims[i];
    box->strides[i] = th_run_list_int(run, 3, (uint32_t)i);
    last += (src->dims[i] - 1) * box->strides[i];
  }
  return th_ref_numel(src) == 0 || (at >= 0 && last < numel)
             ? TH_OK
             : th_run_error(run, TH_SHAPE,
                            "the view reaches outside %lld elements",
                            (long long)numel);
}

TH_REF(window_scatter) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  th_ref_box src, whole, narrow;
  TH_TRY(scatter_source(run, 1, &src));
  TH_TRY(th_ref_flatten(run, x, &whole));
  th_ref_box_like(&narrow, &whole.view);
  TH_TRY(window_narrow(run, &src.view, &narrow));
  TH_TRY(th_ref_fits(run, &src.view, narrow.view.rank, narrow.dims));
  th_ref_copy(&narrow.view, &src.view);
  th_ref_copy(out, &whole.view);
  return TH_OK;
}

// Operations that only move elements or make them from numbers.
#include "exec/ref.h"

// reshape, clone, detach: the elements in row-major order.
TH_REF(copy) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  th_ref_box flat, shaped;
  if (th_ref_numel(x) != th_ref_numel(out)) {
    return th_run_error(run, TH_SHAPE, "%lld elements, %lld are needed",
                        (long long)th_ref_numel(x),
                        (long long)th_ref_numel(out));
  }
  TH_TRY(th_ref_flatten(run, x, &flat));
  th_ref_box_dense(&shaped, out->dtype, flat.view.data, out->rank, out->dims);
  th_ref_copy(out, &shaped.view);
  return TH_OK;
}

// Over the row-major elements of x, wherever they lie.
TH_REF(as_strided) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  int64_t offset = th_run_is_none(run, 3) ? 0 : th_run_int(run, 3);
  int64_t last = offset;
  th_ref_box flat, view;
  TH_TRY(th_ref_flatten(run, x, &flat));
  th_ref_box_dense(&view, x->dtype, flat.view.data, out->rank, out->dims);
  for (int i = 0; i < out->rank; i++) {
    view.strides[i] = th_run_list_int(run, 2, (uint32_t)i);
    last += (out->dims[i] - 1) * view.strides[i];
  }
  if (th_ref_numel(out) == 0) {
    return TH_OK;
  }
  if (offset < 0 || last >= th_ref_numel(x)) {
    return th_run_error(
        run, TH_SHAPE, "element %lld is out of range for %lld elements",
        (long long)(offset < 0 ? offset : last), (long long)th_ref_numel(x));
  }
  view.view.data = th_ref_at(&flat.view, offset);
  th_ref_copy(out, &view.view);
  return TH_OK;
}

// Tensors of the shape [0] are left out, whatever ranks the others have.
TH_REF(cat) {
  const th_view *out = th_run_out(run, 0);
  int dim = th_ref_dim(run, 1, out->rank);
  int64_t start = 0;
  for (uint32_t i = 0; i < th_run_list_count(run, 0); i++) {
    const th_view *x = th_run_list_tensor(run, 0, i);
    th_ref_box part;
    if (x->rank != out->rank) {
      continue;
    }
    th_ref_box_like(&part, out);
    int64_t left = out->dims[dim] - start;
    int64_t size = x->dims[dim] < left ? x->dims[dim] : left;
    th_ref_box_slice(&part, dim, start, size, 1);
    TH_TRY(th_ref_fits(run, x, out->rank, part.dims));
    start += size;
    void *data = th_ref_pack(run, x);
    if (!data) {
      return TH_NO_MEMORY;
    }
    th_ref_unpack(&part.view, th_ref_wide(x->dtype), data, x->dtype);
  }
  return TH_OK;
}

TH_REF(flip) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  th_ref_box from;
  th_ref_box_like(&from, x);
  for (uint32_t i = 0; i < th_run_list_count(run, 1) && x->rank; i++) {
    int64_t dim = th_run_list_int(run, 1, i);
    int d = (int)(dim < 0 ? dim + x->rank : dim);
    th_ref_box_slice(&from, d, x->dims[d] - 1, x->dims[d], -1);
  }
  th_ref_copy(out, &from.view);
  return TH_OK;
}

// Amounts may be negative: then elements are cut off.
TH_REF(pad) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  th_ref_box from, to;
  th_ref_fill(run, 2, out);
  th_ref_box_like(&from, x);
  th_ref_box_like(&to, out);
  for (uint32_t i = 0; i + 1 < th_run_list_count(run, 1); i += 2) {
    int d = x->rank - 1 - (int)(i / 2);
    int64_t before = th_run_list_int(run, 1, i);
    int64_t first = before > 0 ? before : 0;
    int64_t skipped = before < 0 ? -before : 0;
    int64_t left = x->dims[d] - skipped, room = out->dims[d] - first;
    int64_t size = left < room ? left : room;
    size = size > 0 ? size : 0;
    th_ref_box_slice(&from, d, skipped, size, 1);
    th_ref_box_slice(&to, d, first, size, 1);
  }
  th_ref_copy(&to.view, &from.view);
  return TH_OK;
}

TH_REF(full) {
  th_ref_fill(run, 1, th_run_out(run, 0));
  return TH_OK;
}

TH_REF(arange) {
  const th_view *out = th_run_out(run, 0);
  th_dtype wide = th_ref_wide(out->dtype);
  int64_t n = th_ref_numel(out);
  union {
    double *f;
    int64_t *i;
    void *data;
  } r = {.data = th_ref_alloc(run, n, sizeof(double))};
  if (!r.data) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < n; i++) {
    if (wide == TH_F64) {
      r.f[i] = th_run_float(run, 0) + (double)i * th_run_float(run, 2);
    } else {
      r.i[i] = th_run_int(run, 0) + i * th_run_int(run, 2);
    }
  }
  th_ref_unpack(out, wide, r.data, out->dtype);
  return TH_OK;
}

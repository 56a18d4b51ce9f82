// Reads where an index says.
#include "exec/ref.h"
#include "exec/ref_indexed.h"

TH_REF(embedding) {
  const th_view *weight = th_run_tensor(run, 0), *index = th_run_tensor(run, 1);
  const th_view *out = th_run_out(run, 0);
  int64_t *rows = th_ref_pack_ints(run, index), row = 0;
  int64_t position[TH_MAX_RANK] = {0}, width = weight->dims[1];
  if (!rows) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < th_ref_numel(index); i++) {
    TH_TRY(th_ref_index(run, rows[i], weight->dims[0], &row));
    th_ref_unravel(i, index->rank, index->dims, position);
    position[index->rank] = 0;
    int64_t to = th_ref_offset(out, position);
    for (int64_t k = 0; k < width; k++) {
      th_ref_move(out, to + k * out->strides[index->rank], weight,
                  row * weight->strides[0] + k * weight->strides[1]);
    }
  }
  return TH_OK;
}

// out[p] = x[p, but p[dim] = index[p]]
TH_REF(gather) {
  const th_view *x = th_run_tensor(run, 0), *index = th_run_tensor(run, 2);
  const th_view *out = th_run_out(run, 0);
  int dim = th_ref_dim(run, 1, x->rank);
  int64_t *places = th_ref_pack_ints(run, index);
  int64_t position[TH_MAX_RANK] = {0};
  if (!places) {
    return TH_NO_MEMORY;
  }
  TH_TRY(th_ref_inside(run, index, x->rank, x->dims, dim));
  for (int64_t i = 0; i < th_ref_numel(index); i++) {
    int64_t at = 0;
    TH_TRY(th_ref_index(run, places[i], x->rank ? x->dims[dim] : 1, &at));
    int64_t to = th_ref_offset(out, position);
    int64_t from = 0;
    for (int d = 0; d < x->rank; d++) {
      from += (d == dim ? at : position[d]) * x->strides[d];
    }
    th_ref_move(out, to, x, from);
    th_ref_next(position, index->rank, index->dims);
  }
  return TH_OK;
}

TH_REF(index_select) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  const th_view *index = th_run_tensor(run, 2);
  int dim = th_ref_dim(run, 1, x->rank);
  int64_t *places = th_ref_pack_ints(run, index), at = 0;
  if (!places) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < th_ref_numel(index); i++) {
    th_ref_box from, to;
    th_ref_box_like(&from, x);
    th_ref_box_like(&to, out);
    TH_TRY(th_ref_index(run, places[i], x->rank ? x->dims[dim] : 1, &at));
    if (x->rank) {
      th_ref_box_slice(&from, dim, at, 1, 1);
      th_ref_box_slice(&to, dim, i, 1, 1);
    }
    th_ref_copy(&to.view, &from.view);
  }
  return TH_OK;
}

// ---- x[indices]

// Broadcasts the shape of one more index tensor into the joined one.
static void indexed_join(th_ref_indices *in, const th_view *index) {
  int shift = index->rank - in->joined_rank;
  if (shift > 0) {
    for (int d = in->joined_rank; d-- > 0;) {
      in->joined[d + shift] = in->joined[d];
    }
    for (int d = 0; d < shift; d++) {
      in->joined[d] = 1;
    }
    in->joined_rank = index->rank;
  }
  for (int d = 0; d < index->rank; d++) {
    int64_t *dim = &in->joined[in->joined_rank - index->rank + d];
    *dim = index->dims[d] == 1 ? *dim : index->dims[d];
  }
}

// The whole shape: dimensions of x that are not indexed, and the joined ones.
static void indexed_shape(th_ref_indices *in) {
  for (int d = 0; d <= in->x->rank; d++) {
    for (int k = 0; d == in->at && k < in->joined_rank; k++) {
      in->dims[in->rank++] = in->joined[k];
    }
    if (d < in->x->rank && !in->index[d]) {
      in->dims[in->rank++] = in->x->dims[d];
    }
  }
}

th_status th_ref_indexed(th_run *run, const th_view *x, uint32_t list_arg,
                         th_ref_indices *out) {
  uint32_t count = th_run_list_count(run, list_arg);
  int first = 0, last = 0, used = 0;
  *out = (th_ref_indices){.x = x};
  for (uint32_t i = 0; i < count; i++) {
    const th_view *index = th_run_list_tensor(run, list_arg, i);
    if (index) {
      indexed_join(out, index);
      first = used++ ? first : (int)i;
      last = (int)i;
    }
  }
  for (uint32_t i = 0; i < count; i++) {
    const th_view *index = th_run_list_tensor(run, list_arg, i);
    if (index) {
      TH_TRY(th_ref_fits(run, index, out->joined_rank, out->joined));
      out->index[i] = th_ref_pack_to(run, index, out->joined_rank, out->joined,
                                     TH_I64, TH_I64);
      if (!out->index[i]) {
        return TH_NO_MEMORY;
      }
    }
  }
  out->at = last - first + 1 == used ? first : 0;
  indexed_shape(out);
  return TH_OK;
}

th_status th_ref_indexed_offset(th_run *run, const th_ref_indices *in,
                                const int64_t *position, int64_t *out_offset) {
  int64_t linear = 0, offset = 0, at = 0;
  int plain = 0; // dimensions without index so far
  for (int k = 0; k < in->joined_rank; k++) {
    linear = linear * in->joined[k] + position[in->at + k];
  }
  for (int d = 0; d < in->x->rank; d++) {
    if (in->index[d]) {
      TH_TRY(th_ref_index(run, in->index[d][linear], in->x->dims[d], &at));
    } else {
      at = position[plain < in->at ? plain : plain + in->joined_rank];
      plain++;
    }
    offset += at * in->x->strides[d];
  }
  *out_offset = offset;
  return TH_OK;
}

TH_REF(index) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  th_ref_indices indices;
  int64_t position[TH_MAX_RANK] = {0}, from = 0;
  TH_TRY(th_ref_indexed(run, x, 1, &indices));
  TH_TRY(th_ref_inside(run, out, indices.rank, indices.dims, -1));
  for (int64_t i = th_ref_numel(out); i-- > 0;) {
    TH_TRY(th_ref_indexed_offset(run, &indices, position, &from));
    th_ref_move(out, th_ref_offset(out, position), x, from);
    th_ref_next(position, out->rank, out->dims);
  }
  return TH_OK;
}

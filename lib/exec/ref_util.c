// Packing, unpacking and indexing for the reference executor.
#include "exec/ref.h"

#include <string.h>

int64_t th_ref_numel(const th_view *view) {
  return th_ref_extent(view, 0, view->rank);
}

int64_t th_ref_extent(const th_view *view, int from, int to) {
  int64_t n = 1;
  for (int i = from; i < to; i++) {
    n *= view->dims[i];
  }
  return n;
}

void *th_ref_alloc(th_run *run, int64_t count, size_t size) {
  void *memory = th_run_scratch(run, (size_t)(count > 0 ? count : 1) * size);
  if (!memory) {
    th_run_error(run, TH_NO_MEMORY, "out of memory");
  }
  return memory;
}

int th_ref_dim(const th_run *run, uint32_t arg, int rank) {
  int64_t dim = th_run_int(run, arg);
  return (int)(dim < 0 ? dim + (rank ? rank : 1) : dim);
}

void th_ref_unravel(int64_t index, int rank, const int64_t *dims,
                    int64_t *out_position) {
  for (int i = rank; i-- > 0;) {
    out_position[i] = index % dims[i];
    index /= dims[i];
  }
}

int64_t th_ref_offset(const th_view *view, const int64_t *position) {
  int64_t offset = 0;
  for (int i = 0; i < view->rank; i++) {
    offset += position[i] * view->strides[i];
  }
  return offset;
}

void th_ref_move(const th_view *to, int64_t to_offset, const th_view *from,
                 int64_t from_offset) {
  memcpy(th_ref_at(to, to_offset), th_ref_at(from, from_offset),
         th_dtype_size(to->dtype));
}

th_status th_ref_index(th_run *run, int64_t index, int64_t size,
                       int64_t *out_index) {
  if (index < -size || index >= size) {
    return th_run_error(run, TH_INVALID,
                        "index %lld is out of range for size %lld",
                        (long long)index, (long long)size);
  }
  *out_index = index < 0 ? index + size : index;
  return TH_OK;
}

static th_status ref_sizes_differ(th_run *run, int64_t a, int64_t b, int dim) {
  return th_run_error(run, TH_SHAPE,
                      "sizes differ: %lld and %lld in dimension %d",
                      (long long)a, (long long)b, dim);
}

th_status th_ref_fits(th_run *run, const th_view *view, int rank,
                      const int64_t *dims) {
  for (int i = 0; i < view->rank; i++) {
    int d = rank - view->rank + i;
    if (view->dims[i] != 1 && view->dims[i] != dims[d]) {
      return ref_sizes_differ(run, view->dims[i], dims[d], d);
    }
  }
  return TH_OK;
}

th_status th_ref_inside(th_run *run, const th_view *view, int rank,
                        const int64_t *dims, int except) {
  if (th_ref_numel(view) == 0) { // of any shape: reads and writes nothing
    return TH_OK;
  }
  for (int i = 0; i < view->rank && i < rank; i++) {
    if (i != except && view->dims[i] > dims[i]) {
      return ref_sizes_differ(run, view->dims[i], dims[i], i);
    }
  }
  return TH_OK;
}

// Calls for each row (last dimension) of `dims` with the offsets in `view`,
// whose strides are broadcast against dims.
typedef struct ref_rows {
  int rank;
  const int64_t *dims;
  int64_t strides[TH_MAX_RANK];
  int64_t count, length, step;
} ref_rows;

static ref_rows ref_rows_of(const th_view *view, int rank,
                            const int64_t *dims) {
  ref_rows r = {.rank = rank, .dims = dims, .count = 1, .length = 1};
  for (int i = 0; i < rank; i++) {
    int k = i - (rank - view->rank);
    r.strides[i] = k < 0 || view->dims[k] == 1 ? 0 : view->strides[k];
    r.count *= i < rank - 1 ? dims[i] : 1;
  }
  if (rank) {
    r.length = dims[rank - 1];
    r.step = r.strides[rank - 1];
  }
  r.count = r.length ? r.count : 0;
  return r;
}

static int64_t ref_row_offset(const ref_rows *r, int64_t row) {
  int64_t offset = 0;
  for (int i = r->rank - 1; i-- > 0;) {
    offset += row % r->dims[i] * r->strides[i];
    row /= r->dims[i];
  }
  return offset;
}

void *th_ref_pack_to(th_run *run, const th_view *view, int rank,
                     const int64_t *dims, th_dtype via, th_dtype wide) {
  ref_rows r = ref_rows_of(view, rank, dims);
  int64_t n = r.count * r.length;
  int64_t step = (int64_t)th_dtype_size(view->dtype);
  int64_t via_size = (int64_t)th_dtype_size(via);
  char *out = th_ref_alloc(run, n, sizeof(double));
  char *row = th_ref_alloc(run, r.length, sizeof(double));
  if (!out || !row) {
    return NULL;
  }
  for (int64_t i = 0; i < r.count; i++) {
    const char *from = th_ref_at(view, ref_row_offset(&r, i));
    th_convert_row(via, row, via_size, view->dtype, from, r.step * step,
                   r.length);
    th_convert_row(wide, out + i * r.length * 8, 8, via, row, via_size,
                   r.length);
  }
  return out;
}

void *th_ref_pack(th_run *run, const th_view *view) {
  return th_ref_pack_to(run, view, view->rank, view->dims, view->dtype,
                        th_ref_wide(view->dtype));
}

double *th_ref_pack_floats(th_run *run, const th_view *view) {
  return th_ref_pack_to(run, view, view->rank, view->dims, view->dtype, TH_F64);
}

int64_t *th_ref_pack_ints(th_run *run, const th_view *view) {
  return th_ref_pack_to(run, view, view->rank, view->dims, view->dtype, TH_I64);
}

void th_ref_unpack(const th_view *out, th_dtype wide, const void *data,
                   th_dtype via) {
  enum { CHUNK = 256 };
  char chunk[CHUNK * 8];
  ref_rows r = ref_rows_of(out, out->rank, out->dims);
  int64_t step = r.step * (int64_t)th_dtype_size(out->dtype);
  int64_t via_size = (int64_t)th_dtype_size(via);
  for (int64_t i = 0; i < r.count; i++) {
    const char *from = (const char *)data + i * r.length * 8;
    char *to = th_ref_at(out, ref_row_offset(&r, i));
    for (int64_t k = 0; k < r.length; k += CHUNK) {
      int64_t n = r.length - k < CHUNK ? r.length - k : CHUNK;
      th_convert_row(via, chunk, via_size, wide, from + k * 8, 8, n);
      th_convert_row(out->dtype, to + k * step, step, via, chunk, via_size, n);
    }
  }
}

void th_ref_copy(const th_view *to, const th_view *from) {
  ref_rows a = ref_rows_of(to, to->rank, to->dims);
  ref_rows b = ref_rows_of(from, to->rank, to->dims);
  for (int64_t i = 0; i < a.count; i++) {
    int64_t x = ref_row_offset(&a, i), y = ref_row_offset(&b, i);
    for (int64_t k = 0; k < a.length; k++) {
      th_ref_move(to, x + k * a.step, from, y + k * b.step);
    }
  }
}

// Strides of 0 read the number again and again.
void th_ref_fill(const th_run *run, uint32_t arg, const th_view *out) {
  static const int64_t none[TH_MAX_RANK];
  char element[8] = {0};
  if (th_run_is_float(run, arg)) {
    th_element_set(out->dtype, element, th_run_float(run, arg));
  } else {
    th_element_set_int(out->dtype, element, th_run_int(run, arg));
  }
  th_view from = *out;
  from.data = element;
  from.strides = none;
  th_ref_copy(out, &from);
}

// ---- boxes

void th_ref_box_like(th_ref_box *box, const th_view *view) {
  box->view = *view;
  box->view.dims = box->dims;
  box->view.strides = box->strides;
  for (int i = 0; i < view->rank; i++) {
    box->dims[i] = view->dims[i];
    box->strides[i] = view->strides[i];
  }
}

void th_ref_box_dense(th_ref_box *box, th_dtype dtype, void *data, int rank,
                      const int64_t *dims) {
  box->view = (th_view){.data = data,
                        .dtype = dtype,
                        .rank = rank,
                        .dims = box->dims,
                        .strides = box->strides};
  int64_t stride = 1;
  for (int i = rank; i-- > 0;) {
    box->dims[i] = dims[i];
    box->strides[i] = stride;
    stride *= dims[i];
  }
}

th_status th_ref_flatten(th_run *run, const th_view *view, th_ref_box *out) {
  void *data =
      th_ref_alloc(run, th_ref_numel(view), th_dtype_size(view->dtype));
  if (!data) {
    return TH_NO_MEMORY;
  }
  th_ref_box_dense(out, view->dtype, data, view->rank, view->dims);
  th_ref_copy(&out->view, view);
  return TH_OK;
}

void th_ref_box_move(th_ref_box *box, int from, int to) {
  if (box->view.rank == 0) {
    box->view.rank = 1;
    box->dims[0] = 1;
    box->strides[0] = 1;
  }
  int64_t dim = box->dims[from], stride = box->strides[from];
  int step = from < to ? 1 : -1;
  for (int i = from; i != to; i += step) {
    box->dims[i] = box->dims[i + step];
    box->strides[i] = box->strides[i + step];
  }
  box->dims[to] = dim;
  box->strides[to] = stride;
}

void th_ref_box_slice(th_ref_box *box, int dim, int64_t start, int64_t size,
                      int64_t step) {
  if (size > 0) { // else `start` may lie outside
    box->view.data = th_ref_at(&box->view, start * box->strides[dim]);
  }
  box->dims[dim] = size;
  box->strides[dim] *= step;
}

void th_ref_box_drop(th_ref_box *box, int dim) {
  th_ref_box_move(box, dim, box->view.rank - 1);
  box->view.rank--;
}

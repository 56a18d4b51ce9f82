// Sorting, counting, and finding what is not zero.
#include "exec/ref.h"

#include <math.h>
#include <string.h>

// ---- sort: stable; NaN is greater than every number

typedef struct sort_row {
  const double *f; // one of the two
  const int64_t *i;
  bool descending;
} sort_row;

// Does element a have to stand before element b, which came first?
static bool sort_overtakes(const sort_row *row, int64_t a, int64_t b) {
  if (row->i) {
    return row->descending ? row->i[a] > row->i[b] : row->i[a] < row->i[b];
  }
  double x = row->f[a], y = row->f[b];
  if (isnan(x) || isnan(y)) {
    return row->descending ? isnan(x) && !isnan(y) : isnan(y) && !isnan(x);
  }
  return row->descending ? x > y : x < y;
}

// Merges runs of growing length; order ends in the first array.
static void sort_merge(const sort_row *row, int64_t *order, int64_t *spare,
                       int64_t n) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t low = 0; low < n; low += 2 * width) {
      int64_t middle = low + width < n ? low + width : n;
      int64_t high = low + 2 * width < n ? low + 2 * width : n;
      int64_t a = low, b = middle;
      for (int64_t k = low; k < high; k++) {
        bool second = a == middle ||
                      (b < high && sort_overtakes(row, order[b], order[a]));
        spare[k] = second ? order[b++] : order[a++];
      }
    }
    memcpy(order, spare, (size_t)n * sizeof *order);
  }
}

static void sort_unpack(const th_view *out, int dim, th_dtype wide,
                        const void *data, th_dtype via) {
  th_ref_box to;
  if (out) {
    th_ref_box_like(&to, out);
    th_ref_box_move(&to, dim, to.view.rank ? to.view.rank - 1 : 0);
    th_ref_unpack(&to.view, wide, data, via);
  }
}

TH_REF(sort) {
  const th_view *x = th_run_tensor(run, 0);
  int dim = th_ref_dim(run, 1, x->rank);
  th_ref_box from;
  th_ref_box_like(&from, x);
  th_ref_box_move(&from, dim, from.view.rank ? from.view.rank - 1 : 0);
  int64_t total = th_ref_numel(x);
  int64_t n = from.dims[from.view.rank - 1];
  int64_t *data = th_ref_pack(run, &from.view);
  int64_t *sorted = th_ref_alloc(run, total, sizeof *sorted);
  int64_t *order = th_ref_alloc(run, total, sizeof *order);
  int64_t *spare = th_ref_alloc(run, n, sizeof *spare);
  if (!data || !sorted || !order || !spare) {
    return TH_NO_MEMORY;
  }
  bool is_float = th_ref_is_float(x->dtype);
  for (int64_t at = 0; at < total; at += n) {
    sort_row row = {.descending = th_run_bool(run, 2)};
    row.f = is_float ? (const double *)(const void *)(data + at) : NULL;
    row.i = is_float ? NULL : data + at;
    for (int64_t i = 0; i < n; i++) {
      order[at + i] = i;
    }
    sort_merge(&row, order + at, spare, n);
    for (int64_t i = 0; i < n; i++) { // bits: doubles and integers alike
      sorted[at + i] = data[at + order[at + i]];
    }
  }
  sort_unpack(th_run_out(run, 0), dim, th_ref_wide(x->dtype), sorted, x->dtype);
  sort_unpack(th_run_out(run, 1), dim, TH_I64, order, TH_I64);
  return TH_OK;
}

// ---- histc

// `value` rounded to the dtype in which PyTorch finds the bin.
static double histc_round(th_dtype dtype, double value) {
  char element[8];
  th_element_set(dtype, element, value);
  return th_element_get(dtype, element);
}

static th_status histc_range(th_run *run, const double *x, int64_t n,
                             double *min, double *max) {
  *min = th_run_float(run, 2);
  *max = th_run_float(run, 3);
  if (*min == *max && n) {
    *min = *max = x[0];
    for (int64_t i = 0; i < n; i++) {
      *min = x[i] < *min || isnan(x[i]) ? x[i] : *min;
      *max = x[i] > *max || isnan(x[i]) ? x[i] : *max;
    }
  }
  if (*min == *max) {
    *min -= 1;
    *max += 1;
  }
  if (!isfinite(*min) || !isfinite(*max) || *min > *max) {
    return th_run_error(run, TH_INVALID, "the range [%g, %g] has no bins", *min,
                        *max);
  }
  return TH_OK;
}

// Equal bins over [min, max]; what lies outside is not counted.
TH_REF(histc) {
  const th_view *view = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  int64_t n = th_ref_numel(view), bins = out->dims[0];
  double *x = th_ref_pack_floats(run, view), min, max;
  double *counts = th_ref_alloc(run, bins, sizeof *counts);
  if (!x || !counts) {
    return TH_NO_MEMORY;
  }
  TH_TRY(histc_range(run, x, n, &min, &max));
  memset(counts, 0, (size_t)bins * sizeof *counts);
  th_dtype dtype = view->dtype;
  double width = histc_round(dtype, max - min);
  for (int64_t i = 0; i < n; i++) {
    if (!(x[i] >= min && x[i] <= max)) {
      continue;
    }
    double at = histc_round(dtype, x[i] - min);
    at = histc_round(dtype, at * (double)bins);
    int64_t bin = (int64_t)histc_round(dtype, at / width);
    counts[bin < bins ? bin : bins - 1]++;
  }
  th_ref_unpack(out, TH_F64, counts, out->dtype);
  return TH_OK;
}

// ---- nonzero: positions in row-major order, one in each row

TH_REF(nonzero) {
  const th_view *x = th_run_tensor(run, 0), *out = NULL;
  int64_t n = th_ref_numel(x), count = 0, row = 0;
  void *data = th_ref_pack_to(run, x, x->rank, x->dims, TH_BOOL, TH_I64);
  const int64_t *is_set = data;
  if (!data) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < n; i++) {
    count += is_set[i];
  }
  TH_TRY(th_run_alloc(run, 0, 2, (int64_t[]){count, x->rank}, &out));
  int64_t position[TH_MAX_RANK];
  for (int64_t i = 0; i < n; i++) {
    if (!is_set[i]) {
      continue;
    }
    th_ref_unravel(i, x->rank, x->dims, position);
    for (int d = 0; d < x->rank; d++) {
      int64_t at = row * out->strides[0] + d * out->strides[1];
      memcpy(th_ref_at(out, at), &position[d], sizeof position[d]);
    }
    row++;
  }
  return TH_OK;
}

// ---- numbers and checks

TH_REF(item) {
  const th_view *x = th_run_tensor(run, 0);
  th_scalar value;
  if (th_ref_numel(x) != 1) {
    return th_run_error(run, TH_SHAPE, "a tensor of %lld elements is no number",
                        (long long)th_ref_numel(x));
  }
  if (th_ref_is_float(x->dtype)) {
    value.f = th_element_get(x->dtype, x->data);
  } else {
    value.i = th_element_get_int(x->dtype, x->data);
  }
  th_run_set_number(run, 0, value);
  return TH_OK;
}

TH_REF(assert_tensor) {
  const th_view *x = th_run_tensor(run, 0);
  void *data = th_ref_pack_to(run, x, x->rank, x->dims, TH_BOOL, TH_I64);
  const int64_t *is_set = data;
  if (!data) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < th_ref_numel(x); i++) {
    if (!is_set[i]) {
      return th_run_error(run, TH_INVALID, "%s", th_run_string(run, 1));
    }
  }
  return TH_OK;
}

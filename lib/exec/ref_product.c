// Matrix products and convolutions: packed operands, sums in double (floats)
// or modulo 2^64 (integers), rounded once at the end.
#include "exec/ref.h"

#include <string.h>

// ---- matmul

// c[m, n] += a[m, k] b[k, n], row by row so that the inner loop is dense.
static void product_floats(double *c, const double *a, const double *b,
                           int64_t m, int64_t k, int64_t n) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t p = 0; p < k; p++) {
      double x = a[i * k + p];
      for (int64_t j = 0; j < n; j++) {
        c[i * n + j] += x * b[p * n + j];
      }
    }
  }
}

static void product_ints(uint64_t *c, const uint64_t *a, const uint64_t *b,
                         int64_t m, int64_t k, int64_t n) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t p = 0; p < k; p++) {
      for (int64_t j = 0; j < n; j++) {
        c[i * n + j] += a[i * k + p] * b[p * n + j];
      }
    }
  }
}

static void product_any(bool is_float, void *c, const void *a, const void *b,
                        int64_t m, int64_t k, int64_t n) {
  if (is_float) {
    product_floats(c, a, b, m, k, n);
  } else {
    product_ints(c, a, b, m, k, n);
  }
}

static void *product_zeros(th_run *run, int64_t count) {
  void *data = th_ref_alloc(run, count, sizeof(double));
  if (data) {
    memset(data, 0, (size_t)count * sizeof(double));
  }
  return data;
}

// One operand: a stack of matrices, packed; a batch dimension of 1 is read
// again and again.
typedef struct product_stack {
  char *data;
  int64_t rows, columns;
  int rank; // of the stack
  int64_t dims[TH_MAX_RANK], strides[TH_MAX_RANK];
} product_stack;

// A vector is a row on the left and a column on the right.
static th_status product_pack(th_run *run, const th_view *view, bool is_left,
                              product_stack *out) {
  bool is_vector = view->rank == 1;
  out->rank = is_vector ? 0 : view->rank - 2;
  int64_t last = view->dims[view->rank - 1];
  out->rows = is_vector ? (is_left ? 1 : last) : view->dims[view->rank - 2];
  out->columns = is_vector && !is_left ? 1 : last;
  int64_t stride = out->rows * out->columns;
  for (int i = out->rank; i-- > 0;) {
    out->dims[i] = view->dims[i];
    out->strides[i] = view->dims[i] == 1 ? 0 : stride;
    stride *= view->dims[i];
  }
  out->data = th_ref_pack(run, view);
  return out->data ? TH_OK : TH_NO_MEMORY;
}

static th_status product_batch_fits(th_run *run, const product_stack *s,
                                    int rank, const int64_t *batch) {
  th_view stack = {.rank = s->rank, .dims = s->dims};
  return th_ref_fits(run, &stack, rank, batch);
}

static const void *product_at(const product_stack *s, int rank,
                              const int64_t *position) {
  int64_t offset = 0;
  for (int i = 0; i < s->rank; i++) {
    offset += position[rank - s->rank + i] * s->strides[i];
  }
  return s->data + offset * 8;
}

TH_REF(matmul) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  bool is_float = th_ref_is_float(x->dtype);
  product_stack a, b;
  int64_t batch[TH_MAX_RANK], position[TH_MAX_RANK] = {0}, count = 1;
  TH_TRY(product_pack(run, x, true, &a));
  TH_TRY(product_pack(run, th_run_tensor(run, 1), false, &b));
  if (a.columns != b.rows) {
    return th_run_error(run, TH_SHAPE, "inner sizes differ: %lld vs %lld",
                        (long long)a.columns, (long long)b.rows);
  }
  int rank = a.rank > b.rank ? a.rank : b.rank;
  for (int i = 0; i < rank; i++) {
    batch[i] = out->dims[i];
    count *= batch[i];
  }
  TH_TRY(product_batch_fits(run, &a, rank, batch));
  TH_TRY(product_batch_fits(run, &b, rank, batch));
  char *c = product_zeros(run, th_ref_numel(out));
  if (!c) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < count; i++) {
    product_any(is_float, c + i * a.rows * b.columns * 8,
                product_at(&a, rank, position), product_at(&b, rank, position),
                a.rows, a.columns, b.columns);
    th_ref_next(position, rank, batch);
  }
  th_ref_unpack(out, th_ref_wide(x->dtype), c, out->dtype);
  return TH_OK;
}

// ---- grouped_mm: rows [offsets[e - 1], offsets[e]) times matrix e; rows after
// the last offset are 0

TH_REF(grouped_mm) {
  const th_view *x = th_run_tensor(run, 0), *w = th_run_tensor(run, 1);
  const th_view *out = th_run_out(run, 0);
  int64_t *offsets = th_ref_pack_ints(run, th_run_tensor(run, 2));
  char *a = th_ref_pack(run, x), *b = th_ref_pack(run, w);
  char *c = product_zeros(run, th_ref_numel(out));
  if (!offsets || !a || !b || !c) {
    return TH_NO_MEMORY;
  }
  int64_t k = w->dims[1], n = w->dims[2], start = 0;
  if (x->dims[1] != k || th_run_tensor(run, 2)->dims[0] != w->dims[0]) {
    return th_run_error(run, TH_SHAPE, "sizes of operands and groups differ");
  }
  for (int64_t e = 0; e < w->dims[0]; e++) {
    if (offsets[e] < start || offsets[e] > x->dims[0]) {
      return th_run_error(run, TH_INVALID,
                          "offset %lld of group %lld is outside [%lld, %lld]",
                          (long long)offsets[e], (long long)e, (long long)start,
                          (long long)x->dims[0]);
    }
    product_any(th_ref_is_float(x->dtype), c + start * n * 8, a + start * k * 8,
                b + e * k * n * 8, offsets[e] - start, k, n);
    start = offsets[e];
  }
  th_ref_unpack(out, th_ref_wide(x->dtype), c, out->dtype);
  return TH_OK;
}

// ---- convolution
//
// Both directions walk the same pairs of positions: `near` on the grid of
// windows, and far = near * stride - padding + tap * dilation on the grid that
// the windows look at.  A convolution reads far and adds to near; a transposed
// one reads near and adds to far.

typedef struct conv_grid {
  int spatial;
  const int64_t *near_dims, *far_dims, *kernel;
  int64_t stride[TH_MAX_RANK], padding[TH_MAX_RANK], dilation[TH_MAX_RANK];
  int64_t near_size, far_size, kernel_size;
} conv_grid;

typedef struct conv_shape {
  bool is_transposed;
  int64_t batch, in_channels, out_channels, groups;
} conv_shape;

static int64_t conv_int(const th_run *run, uint32_t arg, int i) {
  bool one_for_all = th_run_list_count(run, arg) == 1;
  return th_run_list_int(run, arg, one_for_all ? 0 : (uint32_t)i);
}

static void conv_read(const th_run *run, conv_grid *g, conv_shape *s) {
  const th_view *x = th_run_tensor(run, 0), *w = th_run_tensor(run, 1);
  const th_view *out = th_run_out(run, 0);
  *s = (conv_shape){th_run_bool(run, 6), x->dims[0], x->dims[1], out->dims[1],
                    th_run_int(run, 8)};
  *g = (conv_grid){.spatial = x->rank - 2};
  g->kernel = w->dims + 2;
  g->near_dims = (s->is_transposed ? x : out)->dims + 2;
  g->far_dims = (s->is_transposed ? out : x)->dims + 2;
  g->near_size = g->far_size = g->kernel_size = 1;
  for (int i = 0; i < g->spatial; i++) {
    g->stride[i] = conv_int(run, 3, i);
    g->padding[i] = conv_int(run, 4, i);
    g->dilation[i] = conv_int(run, 5, i);
    g->near_size *= g->near_dims[i];
    g->far_size *= g->far_dims[i];
    g->kernel_size *= g->kernel[i];
  }
}

// The sizes of the weight that are not those of the result.
static th_status conv_channels_fit(th_run *run, const conv_shape *s) {
  const th_view *w = th_run_tensor(run, 1);
  int64_t wanted = s->is_transposed ? w->dims[0] : w->dims[1] * s->groups;
  if (wanted != s->in_channels || s->in_channels % s->groups ||
      s->out_channels % s->groups) {
    return th_run_error(
        run, TH_SHAPE, "%lld channels; the weight needs %lld in %lld groups",
        (long long)s->in_channels, (long long)wanted, (long long)s->groups);
  }
  return TH_OK;
}

// Calls for the last dimension of the grids: near[i] belongs to
// far[i * stride + shift], for all i in [0, size) for which that exists.
static void conv_row(const conv_grid *g, bool is_transposed, double weight,
                     int64_t tap, const double *from, double *to) {
  int d = g->spatial - 1;
  int64_t step = g->stride[d];
  int64_t shift = tap * g->dilation[d] - g->padding[d];
  for (int64_t i = 0; i < g->near_dims[d]; i++) {
    int64_t far = i * step + shift;
    if (far < 0 || far >= g->far_dims[d]) {
      continue;
    }
    if (is_transposed) {
      to[far] += weight * from[i];
    } else {
      to[i] += weight * from[far];
    }
  }
}

// One tap of one kernel over whole planes.
static void conv_tap(const conv_grid *g, bool is_transposed, double weight,
                     const int64_t *tap, const double *from, double *to) {
  int last = g->spatial - 1;
  int64_t position[TH_MAX_RANK] = {0};
  do {
    int64_t near = 0, far = 0;
    bool inside = true;
    for (int i = 0; i < last; i++) {
      int64_t at =
          position[i] * g->stride[i] - g->padding[i] + tap[i] * g->dilation[i];
      inside = inside && at >= 0 && at < g->far_dims[i];
      near = near * g->near_dims[i] + position[i];
      far = far * g->far_dims[i] + at;
    }
    if (inside) {
      near *= g->near_dims[last];
      far *= g->far_dims[last];
      conv_row(g, is_transposed, weight, tap[last],
               from + (is_transposed ? near : far),
               to + (is_transposed ? far : near));
    }
  } while (th_ref_next(position, last, g->near_dims));
}

// The planes of one input channel into those of one output channel.
static void conv_planes(const conv_grid *g, bool is_transposed,
                        const double *kernel, const double *from, double *to) {
  int64_t tap[TH_MAX_RANK] = {0};
  for (int64_t k = 0; k < g->kernel_size; k++) {
    conv_tap(g, is_transposed, kernel[k], tap, from, to);
    th_ref_next(tap, g->spatial, g->kernel);
  }
}

static void conv_all(const conv_grid *g, const conv_shape *s, const double *x,
                     const double *w, double *out) {
  int64_t from_size = s->is_transposed ? g->near_size : g->far_size;
  int64_t to_size = s->is_transposed ? g->far_size : g->near_size;
  int64_t ins = s->in_channels / s->groups, outs = s->out_channels / s->groups;
  if (g->near_size == 0 || g->far_size == 0) {
    return;
  }
  for (int64_t n = 0; n < s->batch; n++) {
    for (int64_t o = 0; o < s->out_channels; o++) {
      for (int64_t k = 0; k < ins; k++) {
        int64_t i = o / outs * ins + k;
        // [out, in / groups, ...], transposed [in, out / groups, ...]
        int64_t kernel = s->is_transposed ? i * outs + o % outs : o * ins + k;
        conv_planes(g, s->is_transposed, w + kernel * g->kernel_size,
                    x + (n * s->in_channels + i) * from_size,
                    out + (n * s->out_channels + o) * to_size);
      }
    }
  }
}

// Integers also go through double: exact up to 2^53.
TH_REF(convolution) {
  const th_view *out = th_run_out(run, 0), *bias_view = th_run_tensor(run, 2);
  double *x = th_ref_pack_floats(run, th_run_tensor(run, 0));
  double *w = th_ref_pack_floats(run, th_run_tensor(run, 1));
  double *bias = bias_view ? th_ref_pack_floats(run, bias_view) : NULL;
  double *sums = product_zeros(run, th_ref_numel(out));
  if (!x || !w || !sums || (bias_view && !bias)) {
    return TH_NO_MEMORY;
  }
  conv_grid grid;
  conv_shape shape;
  conv_read(run, &grid, &shape);
  TH_TRY(conv_channels_fit(run, &shape));
  if (bias) {
    TH_TRY(th_ref_fits(run, bias_view, 1, &shape.out_channels));
  }
  int64_t plane = th_ref_extent(out, 2, out->rank);
  for (int64_t i = 0; bias && i < th_ref_numel(out); i++) {
    sums[i] = bias[i / plane % bias_view->dims[0]];
  }
  conv_all(&grid, &shape, x, w, sums);
  th_ref_unpack(out, TH_F64, sums, out->dtype);
  return TH_OK;
}

// Pooling and resizing: the last dimensions are windows, the ones before them
// are planes that do not meet.
#include "exec/ref.h"

#include <math.h>

typedef struct pool_grid {
  int lead, spatial;
  int64_t planes, in_size, out_size; // elements of a plane
  const int64_t *in_dims, *out_dims;
} pool_grid;

static pool_grid pool_grid_of(const th_view *x, const th_view *out,
                              uint32_t spatial) {
  int lead = x->rank - (int)spatial;
  return (pool_grid){lead,
                     (int)spatial,
                     th_ref_extent(x, 0, lead),
                     th_ref_extent(x, lead, x->rank),
                     th_ref_extent(out, lead, x->rank),
                     x->dims + lead,
                     out->dims + lead};
}

// An element of a list argument; one stands for all, none for `missing`.
static int64_t pool_int(const th_run *run, uint32_t arg, int i,
                        int64_t missing) {
  uint32_t n = th_run_list_count(run, arg);
  return n ? th_run_list_int(run, arg, n == 1 ? 0 : (uint32_t)i) : missing;
}

// One window: positions first + k * step with k in [0, count), all inside.
typedef struct pool_window {
  int64_t first[TH_MAX_RANK], step[TH_MAX_RANK], count[TH_MAX_RANK];
} pool_window;

static bool pool_is_empty(const pool_window *w, int spatial) {
  for (int i = 0; i < spatial; i++) {
    if (w->count[i] <= 0) {
      return true;
    }
  }
  return false;
}

static int64_t pool_offset(const pool_grid *g, const pool_window *w,
                           const int64_t *position) {
  int64_t offset = 0;
  for (int i = 0; i < g->spatial; i++) {
    offset = offset * g->in_dims[i] + w->first[i] + position[i] * w->step[i];
  }
  return offset;
}

// The window at an output position, without what lies in the padding.
// *full: how many positions it has when padding on the right ends it.
static pool_window pool_window_at(const th_run *run, const pool_grid *g,
                                  const int64_t *out, uint32_t dilation_arg,
                                  int64_t *full) {
  pool_window w;
  *full = 1;
  for (int i = 0; i < g->spatial; i++) {
    int64_t kernel = pool_int(run, 1, i, 1);
    int64_t stride = pool_int(run, 2, i, kernel);
    int64_t padding = pool_int(run, 3, i, 0);
    int64_t step = dilation_arg ? pool_int(run, dilation_arg, i, 1) : 1;
    int64_t start = out[i] * stride - padding;
    int64_t skipped = start < 0 ? (-start + step - 1) / step : 0;
    w.step[i] = step;
    w.first[i] = start + skipped * step;
    int64_t room = (g->in_dims[i] - w.first[i] + step - 1) / step;
    w.count[i] = kernel - skipped < room ? kernel - skipped : room;
    int64_t padded = g->in_dims[i] + padding - start;
    *full *= kernel < padded ? kernel : padded;
  }
  return w;
}

// ---- max_pool: NaN wins, the first of equals

typedef struct pool_data {
  const double *f; // one of the two
  const int64_t *i;
} pool_data;

static bool pool_beats(const pool_data *x, int64_t a, int64_t b) {
  return x->f ? x->f[a] > x->f[b] || isnan(x->f[a]) : x->i[a] > x->i[b];
}

static int64_t pool_greatest(const pool_grid *g, const pool_window *w,
                             const pool_data *x, int64_t plane) {
  int64_t position[TH_MAX_RANK] = {0};
  int64_t base = plane * g->in_size, best = pool_offset(g, w, position);
  do {
    int64_t at = pool_offset(g, w, position);
    best = pool_beats(x, base + at, base + best) ? at : best;
  } while (th_ref_next(position, g->spatial, w->count));
  return best;
}

TH_REF(max_pool) {
  const th_view *x = th_run_tensor(run, 0), *values = th_run_out(run, 0);
  const th_view *indices = th_run_out(run, 1);
  const th_view *shape = values ? values : indices;
  pool_grid g = pool_grid_of(x, shape, th_run_list_count(run, 1));
  int64_t n = th_ref_numel(shape);
  int64_t *data = th_ref_pack(run, x);
  int64_t *greatest = th_ref_alloc(run, n, sizeof *greatest);
  int64_t *places = th_ref_alloc(run, n, sizeof *places);
  if (!data || !greatest || !places) {
    return TH_NO_MEMORY;
  }
  pool_data in = {0};
  in.f = th_ref_is_float(x->dtype) ? (const double *)(const void *)data : NULL;
  in.i = in.f ? NULL : data;
  int64_t position[TH_MAX_RANK] = {0};
  for (int64_t o = 0; o < g.out_size && n; o++) {
    int64_t full = 0;
    pool_window w = pool_window_at(run, &g, position, 4, &full);
    if (pool_is_empty(&w, g.spatial)) {
      return th_run_error(run, TH_SHAPE, "a window lies in the padding");
    }
    for (int64_t p = 0; p < g.planes; p++) {
      int64_t at = pool_greatest(&g, &w, &in, p);
      places[p * g.out_size + o] = at;
      greatest[p * g.out_size + o] = data[p * g.in_size + at]; // bits
    }
    th_ref_next(position, g.spatial, g.out_dims);
  }
  if (values) {
    th_ref_unpack(values, th_ref_wide(x->dtype), greatest, x->dtype);
  }
  if (indices) {
    th_ref_unpack(indices, TH_I64, places, TH_I64);
  }
  return TH_OK;
}

// ---- means

static double pool_sum(const pool_grid *g, const pool_window *w,
                       const double *plane) {
  int64_t position[TH_MAX_RANK] = {0};
  double sum = 0;
  if (pool_is_empty(w, g->spatial)) {
    return 0;
  }
  do {
    sum += plane[pool_offset(g, w, position)];
  } while (th_ref_next(position, g->spatial, w->count));
  return sum;
}

static int64_t pool_count(const pool_grid *g, const pool_window *w) {
  int64_t n = 1;
  for (int i = 0; i < g->spatial; i++) {
    n *= w->count[i] > 0 ? w->count[i] : 0;
  }
  return n;
}

// [o * in / out, ceil((o + 1) * in / out))
static pool_window pool_adaptive_at(const pool_grid *g, const int64_t *out) {
  pool_window w;
  for (int i = 0; i < g->spatial; i++) {
    int64_t n = g->in_dims[i], m = g->out_dims[i];
    w.step[i] = 1;
    w.first[i] = out[i] * n / m;
    w.count[i] = ((out[i] + 1) * n + m - 1) / m - w.first[i];
  }
  return w;
}

static double pool_divisor(const th_run *run, const pool_grid *g,
                           const pool_window *w, int64_t full) {
  if (!th_run_is_none(run, 6)) {
    return (double)th_run_int(run, 6);
  }
  return (double)(th_run_bool(run, 5) ? full : pool_count(g, w));
}

static th_status pool_means(th_run *run, bool is_adaptive) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  pool_grid g = pool_grid_of(x, out, th_run_list_count(run, 1));
  double *data = th_ref_pack_floats(run, x);
  double *means = th_ref_alloc(run, th_ref_numel(out), sizeof *means);
  if (!data || !means) {
    return TH_NO_MEMORY;
  }
  int64_t position[TH_MAX_RANK] = {0};
  for (int64_t o = 0; o < g.out_size && g.planes; o++) {
    int64_t full = 0;
    pool_window w = is_adaptive ? pool_adaptive_at(&g, position)
                                : pool_window_at(run, &g, position, 0, &full);
    double divisor = is_adaptive ? (double)pool_count(&g, &w)
                                 : pool_divisor(run, &g, &w, full);
    for (int64_t p = 0; p < g.planes; p++) {
      double sum = pool_sum(&g, &w, data + p * g.in_size);
      // PyTorch leaves a window without elements at 0.
      means[p * g.out_size + o] =
          pool_is_empty(&w, g.spatial) ? 0 : sum / divisor;
    }
    th_ref_next(position, g.spatial, g.out_dims);
  }
  th_ref_unpack(out, TH_F64, means, out->dtype);
  return TH_OK;
}

TH_REF(avg_pool) { return pool_means(run, false); }

TH_REF(adaptive_avg_pool) { return pool_means(run, true); }

// Element floor(o * in / out) of each resized dimension.
TH_REF(upsample_nearest) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  int lead = x->rank - (int)th_run_list_count(run, 1);
  int64_t position[TH_MAX_RANK] = {0};
  if (th_ref_numel(out) == 0) {
    return TH_OK;
  }
  do {
    int64_t from = 0;
    for (int i = 0; i < x->rank; i++) {
      int64_t at =
          i < lead ? position[i] : position[i] * x->dims[i] / out->dims[i];
      from += at * x->strides[i];
    }
    th_ref_move(out, th_ref_offset(out, position), x, from);
  } while (th_ref_next(position, out->rank, out->dims));
  return TH_OK;
}

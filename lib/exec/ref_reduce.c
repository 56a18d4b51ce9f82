// Reductions and running sums: the dimensions that go are moved to the end and
// packed, so that each result comes from one row.
#include "exec/ref.h"

#include <math.h>

// What is left of `arg` (None, one dimension, a list) in a rank.
static void reduce_gone(const th_run *run, uint32_t arg, int rank, bool *gone) {
  uint32_t count = th_run_list_count(run, arg);
  bool is_list = run->args[arg].kind == TH_ARG_LIST;
  for (int d = 0; d < rank; d++) {
    gone[d] = th_run_is_none(run, arg) || (is_list && count == 0);
  }
  for (uint32_t i = 0; i < count && rank; i++) {
    int64_t dim = th_run_list_int(run, arg, i);
    gone[dim < 0 ? dim + rank : dim] = true;
  }
  if (rank && !is_list && !th_run_is_none(run, arg)) {
    gone[th_ref_dim(run, arg, rank)] = true;
  }
}

typedef struct reduce_rows {
  void *data; // count rows of `length` doubles or integers
  int64_t count, length;
} reduce_rows;

static th_status reduce_pack(th_run *run, const th_view *x, const bool *gone,
                             th_dtype via, reduce_rows *out) {
  th_ref_box turned;
  int n = 0;
  *out = (reduce_rows){NULL, 1, 1};
  th_ref_box_like(&turned, x);
  for (int pass = 0; pass < 2; pass++) {
    for (int d = 0; d < x->rank; d++) {
      if (gone[d] == (pass == 1)) {
        turned.dims[n] = x->dims[d];
        turned.strides[n++] = x->strides[d];
        *(pass ? &out->length : &out->count) *= x->dims[d];
      }
    }
  }
  out->data = th_ref_pack_to(run, &turned.view, x->rank, turned.dims, via,
                             th_ref_wide(via));
  return out->data ? TH_OK : TH_NO_MEMORY;
}

static double reduce_floats(th_op op, const double *x, int64_t n) {
  double r = op == TH_OP_sum    ? 0
             : op == TH_OP_prod ? 1
             : op == TH_OP_amax ? -INFINITY
                                : INFINITY;
  for (int64_t i = 0; i < n; i++) {
    switch (op) {
    case TH_OP_sum:
      r += x[i];
      break;
    case TH_OP_prod:
      r *= x[i];
      break;
    case TH_OP_amax:
      r = isnan(x[i]) || x[i] > r ? x[i] : r;
      break;
    default:
      r = isnan(x[i]) || x[i] < r ? x[i] : r;
      break;
    }
    if (isnan(r)) {
      return r;
    }
  }
  return r;
}

// What an extremum begins with: the other end of the dtype.
static int64_t reduce_end(th_op op, th_dtype dtype) {
  bool is_unsigned = dtype == TH_U8 || dtype == TH_BOOL;
  unsigned bits = dtype == TH_BOOL ? 1 : 8u * (unsigned)th_dtype_size(dtype);
  int64_t most = (int64_t)(UINT64_MAX >> (64 - bits + !is_unsigned));
  return op == TH_OP_amin ? most : is_unsigned ? 0 : -most - 1;
}

static int64_t reduce_ints(th_op op, th_dtype dtype, const int64_t *x,
                           int64_t n) {
  bool zero = op == TH_OP_sum || op == TH_OP_any;
  bool one = op == TH_OP_prod || op == TH_OP_all;
  int64_t r = zero ? 0 : one ? 1 : reduce_end(op, dtype);
  for (int64_t i = 0; i < n; i++) {
    switch (op) {
    case TH_OP_sum:
      r = (int64_t)((uint64_t)r + (uint64_t)x[i]);
      break;
    case TH_OP_prod:
      r = (int64_t)((uint64_t)r * (uint64_t)x[i]);
      break;
    case TH_OP_any:
      r = r || x[i];
      break;
    case TH_OP_all:
      r = r && x[i];
      break;
    case TH_OP_amax:
      r = x[i] > r ? x[i] : r;
      break;
    default:
      r = x[i] < r ? x[i] : r;
      break;
    }
  }
  return r;
}

// The dtype that the operand is converted to before anything is added.
static th_dtype reduce_via(const th_run *run) {
  switch (run->stmt->op->op) {
  case TH_OP_any:
  case TH_OP_all:
    return TH_BOOL;
  case TH_OP_sum:
  case TH_OP_prod:
    return th_run_out(run, 0)->dtype;
  default:
    return th_run_tensor(run, 0)->dtype;
  }
}

static th_status reduce_not_empty(th_run *run, const reduce_rows *rows) {
  return rows->length || !rows->count
             ? TH_OK
             : th_run_error(run, TH_SHAPE, "there is no element to choose");
}

TH_REF(reduce) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  th_op op = run->stmt->op->op;
  th_dtype via = reduce_via(run);
  bool gone[TH_MAX_RANK];
  reduce_rows rows;
  reduce_gone(run, 1, x->rank, gone);
  TH_TRY(reduce_pack(run, x, gone, via, &rows));
  bool is_float = th_ref_is_float(via);
  double *f = is_float ? rows.data : NULL;
  int64_t *n = is_float ? NULL : rows.data;
  void *result = th_ref_alloc(run, rows.count, sizeof(double));
  if (!result) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < rows.count; i++) {
    int64_t at = i * rows.length;
    if (is_float) {
      ((double *)result)[i] = reduce_floats(op, f + at, rows.length);
    } else {
      ((int64_t *)result)[i] = reduce_ints(op, via, n + at, rows.length);
    }
  }
  th_ref_unpack(out, th_ref_wide(via), result, via);
  return TH_OK;
}

// Does x[i] beat x[best]?  NaN beats every number, the first one stays.
static bool reduce_beats(bool most, const reduce_rows *rows, bool is_float,
                         int64_t i, int64_t best) {
  if (is_float) {
    const double *x = rows->data;
    if (isnan(x[best]) || isnan(x[i])) {
      return !isnan(x[best]);
    }
    return most ? x[i] > x[best] : x[i] < x[best];
  }
  const int64_t *x = rows->data;
  return most ? x[i] > x[best] : x[i] < x[best];
}

TH_REF(argmax) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  bool most = run->stmt->op->op == TH_OP_argmax;
  bool is_float = th_ref_is_float(x->dtype), gone[TH_MAX_RANK];
  reduce_rows rows;
  reduce_gone(run, 1, x->rank, gone);
  TH_TRY(reduce_pack(run, x, gone, x->dtype, &rows));
  TH_TRY(reduce_not_empty(run, &rows));
  int64_t *result = th_ref_alloc(run, rows.count, sizeof *result);
  if (!result) {
    return TH_NO_MEMORY;
  }
  for (int64_t i = 0; i < rows.count; i++) {
    int64_t first = i * rows.length, best = first;
    for (int64_t k = first; k < first + rows.length; k++) {
      best = reduce_beats(most, &rows, is_float, k, best) ? k : best;
    }
    result[i] = best - first;
  }
  th_ref_unpack(out, TH_I64, result, TH_I64);
  return TH_OK;
}

static void reduce_run_up(bool product, bool is_float, void *row, int64_t n) {
  double *f = row;
  uint64_t *u = row;
  for (int64_t i = 1; i < n; i++) {
    if (is_float) {
      f[i] = product ? f[i] * f[i - 1] : f[i] + f[i - 1];
    } else {
      u[i] = product ? u[i] * u[i - 1] : u[i] + u[i - 1];
    }
  }
}

TH_REF(cumulate) {
  const th_view *x = th_run_tensor(run, 0), *out = th_run_out(run, 0);
  int dim = th_ref_dim(run, 1, x->rank);
  bool product = run->stmt->op->op == TH_OP_cumprod;
  bool is_float = th_ref_is_float(out->dtype), gone[TH_MAX_RANK] = {false};
  th_ref_box to;
  reduce_rows rows;
  gone[dim] = true;
  TH_TRY(reduce_pack(run, x, gone, out->dtype, &rows));
  for (int64_t i = 0; i < rows.count; i++) {
    char *row = (char *)rows.data + i * rows.length * 8;
    reduce_run_up(product, is_float, row, rows.length);
  }
  th_ref_box_like(&to, out);
  th_ref_box_move(&to, dim, to.view.rank ? to.view.rank - 1 : 0);
  th_ref_unpack(&to.view, th_ref_wide(out->dtype), rows.data, out->dtype);
  return TH_OK;
}

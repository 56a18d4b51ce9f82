// Resizing of images: one dimension after the other, by picking rows (nearest)
// or by mixing two (linear).
#include "frontend/aten.h"

#include <math.h>
#include <string.h>

typedef struct resample_job {
  th_call *call;
  th_builder *b;
  bool linear, exact, corners;
  const th_expr *size; // of the dimension, and of the result
  const th_expr *wanted;
  double factor;  // as given; 0: from the sizes
  th_dtype dtype; // of positions
} resample_job;

static double resample_number(const th_expr *num) {
  return !num || num->op != TH_X_CONST ? 0
         : num->dtype == TH_F64        ? num->f
                                       : (double)num->i;
}

// Source elements for each element of the result.
static th_arg resample_ratio(const resample_job *job) {
  th_ir *ir = job->b->ir;
  const th_expr *from = job->size, *to = job->wanted;
  if (job->corners) {
    from = th_expr_sub(ir, from, th_int(ir, 1));
    to = th_expr_max(ir, th_expr_sub(ir, to, th_int(ir, 1)), th_int(ir, 1));
  } else if (job->factor > 0) {
    return th_f(ir, 1 / job->factor);
  }
  const th_expr *pair[] = {from, to};
  const th_expr *ratio = th_expr_make(ir, TH_X_DIV, pair, 2);
  return ratio ? th_n(ratio) : th_none();
}

// Positions in the source, in the type that the mixing is done in.
static th_value *resample_positions(const resample_job *job) {
  th_builder *b = job->b;
  th_ir *ir = b->ir;
  th_value *at = TH_BUILD(b, arange, th_i(ir, 0), th_n(job->wanted),
                          th_i(ir, 1), th_d(job->dtype));
  bool centred = job->exact || (job->linear && !job->corners);
  if (centred) {
    at = TH_BUILD(b, add, th_v(at), th_f(ir, 0.5));
  }
  at = TH_BUILD(b, mul, th_v(at), resample_ratio(job));
  if (centred && job->linear) {
    at = TH_BUILD(b, sub, th_v(at), th_f(ir, 0.5));
    at = TH_BUILD(b, clamp, th_v(at), th_i(ir, 0));
  }
  return at;
}

static th_value *resample_row(const resample_job *job, th_value *x, int dim,
                              th_value *index) {
  th_builder *b = job->b;
  const th_expr *last = th_expr_sub(b->ir, job->size, th_int(b->ir, 1));
  index = TH_BUILD(b, to, th_v(index), th_d(TH_I64));
  index = TH_BUILD(b, clamp, th_v(index), th_i(b->ir, 0), th_n(last));
  return TH_BUILD(b, index_select, th_v(x), th_i(b->ir, dim), th_v(index));
}

static th_value *resample_dim(const resample_job *job, th_value *x, int dim) {
  th_builder *b = job->b;
  th_ir *ir = b->ir;
  th_value *at = resample_positions(job);
  th_value *low = TH_BUILD(b, floor, th_v(at));
  th_value *first = resample_row(job, x, dim, low);
  if (!job->linear || !first) {
    return first;
  }
  th_value *high = TH_BUILD(b, add, th_v(low), th_i(ir, 1));
  th_value *second = resample_row(job, x, dim, high);
  th_value *weight = TH_BUILD(b, sub, th_v(at), th_v(low));
  int64_t line[TH_MAX_RANK];
  for (int i = 0; i < x->type.rank; i++) {
    line[i] = i == dim ? -1 : 1;
  }
  weight = TH_BUILD(b, reshape, th_v(weight), th_ints(ir, line, x->type.rank));
  th_value *gap = TH_BUILD(b, sub, th_v(second), th_v(first));
  gap = TH_BUILD(b, mul, th_v(gap), th_v(weight));
  return TH_BUILD(b, add, th_v(first), th_v(gap));
}

// The size of the result in one dimension.
static const th_expr *resample_wanted(const resample_job *job,
                                      const th_pt2_arg *sizes, uint32_t i) {
  th_ir *ir = job->b->ir;
  if (sizes->kind == TH_PT2_LIST) {
    return i < sizes->count ? sizes->items[i].num : NULL;
  }
  double whole = floor(job->factor);
  if (job->factor <= 0 || job->factor > 1e6) {
    return NULL;
  }
  if (job->size->op == TH_X_CONST) {
    return th_int(ir, (int64_t)floor((double)job->size->i * job->factor));
  }
  return whole == job->factor
             ? th_expr_mul(ir, job->size, th_int(ir, (int64_t)whole))
             : NULL;
}

static th_status resample_malformed(th_call *call) {
  return call->graph->b->status
             ? call->graph->b->status
             : th_call_unsupported(call, "such a size or scale");
}

th_status th_aten_upsample(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "input");
  const th_pt2_arg *sizes = th_call_arg(call, "output_size");
  const th_pt2_arg *scales = th_call_arg(call, "scale_factors");
  if (!x || x->type.rank < 3) {
    return resample_malformed(call);
  }
  th_dtype own = x->type.dtype;
  const char *target = call->graph->target;
  resample_job job = {.call = call,
                      .b = b,
                      .linear = strstr(target, "linear") != NULL,
                      .exact = strstr(target, "exact") != NULL,
                      .corners = th_call_bool(call, "align_corners"),
                      .dtype = own == TH_F64 ? TH_F64 : TH_F32};
  if (job.linear && own != TH_F32 && own != TH_F64) {
    x = TH_BUILD(b, to, th_v(x), th_d(TH_F32));
  }
  uint32_t spatial = x ? x->type.rank - 2u : 0;
  for (uint32_t i = 0; x && i < spatial; i++) {
    bool given = scales->kind == TH_PT2_LIST && i < scales->count &&
                 scales->items[i].kind == TH_PT2_NUM;
    job.factor = given ? resample_number(scales->items[i].num) : 0;
    job.size = x->type.dims[i + 2];
    job.wanted = resample_wanted(&job, sizes, i);
    if (!job.wanted) {
      return resample_malformed(call);
    }
    x = resample_dim(&job, x, (int)i + 2);
  }
  if (x && x->type.dtype != own) {
    if (!th_dtype_is_float(own)) {
      x = TH_BUILD(b, round, th_v(x));
    }
    x = TH_BUILD(b, to, th_v(x), th_d(own));
  }
  return th_call_return(call, x);
}

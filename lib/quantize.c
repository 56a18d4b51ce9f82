// Rounding is to nearest, ties to even; I8 uses -127 to 127.
#include "quantize.h"

#include "tensor/element.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { QUANTIZE_LEAST = 4096 }; // elements of a weight

// ---- the trace

typedef struct quantize_state {
  th_ir *ir;
  const th_trace *in;
  th_builder b;
  th_remap m;
  uint32_t *readers, *as_weight; // by value id: all, and linear's weight
  th_value **scales;             // by old value id
  th_dtype dtype;
} quantize_state;

static void quantize_count(void *user, th_value *value) {
  quantize_state *s = user;
  s->readers[value->id]++;
}

static void quantize_count_readers(quantize_state *s) {
  for (uint32_t i = 0; i < s->in->stmt_count; i++) {
    const th_stmt *stmt = s->in->stmts[i];
    th_stmt_operands(stmt, quantize_count, s);
    if (stmt->op->op == TH_OP_linear) {
      s->as_weight[stmt->args[1].value->id]++;
    }
  }
  th_arg_values(&s->in->result, quantize_count, s);
}

static bool quantize_takes(const quantize_state *s, const th_value *w) {
  const th_type *t = &w->type;
  return w->input && w->input->kind == TH_INPUT_PARAM &&
         t->kind == TH_KIND_TENSOR && t->dtype == TH_F32 && t->rank == 2 &&
         !t->strides && th_is_const(t->dims[0]) && th_is_const(t->dims[1]) &&
         t->dims[1]->i > 0 && t->dims[0]->i >= QUANTIZE_LEAST / t->dims[1]->i &&
         s->as_weight[w->id] > 0 && s->as_weight[w->id] == s->readers[w->id];
}

static void quantize_input(quantize_state *s, const th_value *w) {
  th_value *now = s->m.map[w->id];
  char fqn[1024], name[1024];
  now->type.dtype = s->dtype;
  if (s->dtype == TH_I8) {
    th_type type = th_tensor_type(TH_F32, 1, &w->type.dims[0]);
    type.device = w->type.device;
    snprintf(fqn, sizeof fqn, "%.1000s.scale", w->input->fqn);
    snprintf(name, sizeof name, "%.1000s_scale", w->name);
    th_input input = {.kind = TH_INPUT_PARAM, .fqn = fqn};
    s->scales[w->id] = th_trace_input(s->b.trace, &type, name, &input);
  }
}

static void quantize_linear(quantize_state *s, const th_stmt *stmt) {
  th_builder *b = &s->b;
  const th_value *w = stmt->args[1].value;
  th_arg x = th_remap_arg(&s->m, &stmt->args[0]);
  th_arg bias = th_remap_arg(&s->m, &stmt->args[2]);
  th_arg none = {.kind = TH_ARG_NONE};
  th_value *scale = s->scales[w->id];
  b->scope = stmt->scope;
  b->loc = stmt->loc;
  th_arg f32 = {.kind = TH_ARG_DTYPE, .dtype = TH_F32};
  th_value *wide = TH_BUILD(b, to, th_v(s->m.map[w->id]), f32);
  if (!wide) {
    return; // the builder has the status
  }
  th_value *y = TH_BUILD(b, linear, x, th_v(wide), scale ? none : bias);
  y = y && scale ? TH_BUILD(b, mul, th_v(y), th_v(scale)) : y;
  y = y && scale && bias.kind == TH_ARG_VALUE ? TH_BUILD(b, add, th_v(y), bias)
                                              : y;
  if (y) {
    th_value_rename(b->trace, y, stmt->outs[0]->name);
    th_remap_set(&s->m, stmt->outs[0], y);
  }
}

th_status th_quantize_trace(th_ir *ir, const th_trace *in, th_dtype dtype,
                            th_trace **out) {
  quantize_state s = {.ir = ir, .in = in, .dtype = dtype};
  s.readers = TH_NEW_ARRAY(&ir->arena, uint32_t, in->value_count);
  s.as_weight = TH_NEW_ARRAY(&ir->arena, uint32_t, in->value_count);
  s.scales = TH_NEW_ARRAY(&ir->arena, th_value *, in->value_count);
  quantize_count_readers(&s);
  *out = th_remap_begin(&s.m, in, &s.b);
  for (uint32_t i = 0; i < in->input_count; i++) {
    if (quantize_takes(&s, in->inputs[i])) {
      quantize_input(&s, in->inputs[i]);
    }
  }
  for (uint32_t i = 0; i < in->stmt_count; i++) {
    const th_stmt *stmt = in->stmts[i];
    if (stmt->op->op == TH_OP_linear && stmt->outs[0] &&
        quantize_takes(&s, stmt->args[1].value)) {
      quantize_linear(&s, stmt);
    } else {
      th_remap_stmt(&s.m, stmt);
    }
  }
  return th_remap_end(&s.m);
}

bool th_quantize_is_scale(const th_trace *trace, const th_value *input,
                          const char **out_fqn) {
  const char *fqn = input->input->fqn;
  size_t size = fqn ? strlen(fqn) : 0, tail = strlen(".scale");
  if (size <= tail || strcmp(fqn + size - tail, ".scale") != 0) {
    return false;
  }
  for (uint32_t i = 0; i < trace->input_count; i++) {
    const th_value *w = trace->inputs[i];
    if (w->type.kind == TH_KIND_TENSOR && w->type.dtype == TH_I8 &&
        w->input->fqn && strlen(w->input->fqn) == size - tail &&
        strncmp(w->input->fqn, fqn, size - tail) == 0) {
      *out_fqn = w->input->fqn;
      return true;
    }
  }
  return false;
}

// ---- the weights

// Row `row` as f32s that lie behind each other.
static void quantize_row(const th_tensor *w, int64_t row, float *out) {
  const char *from =
      w->data + row * w->strides[0] * (int64_t)th_dtype_size(w->dtype);
  th_convert_row(TH_F32, out, sizeof(float), w->dtype, from,
                 (ptrdiff_t)(w->strides[1] * (int64_t)th_dtype_size(w->dtype)),
                 (size_t)w->dims[1]);
}

static float quantize_largest(const float *row, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; i++) {
    float size = fabsf(row[i]);
    largest = size > largest || isnan(size) ? size : largest;
    if (isnan(largest)) {
      return largest;
    }
  }
  return largest;
}

// A row of zeros has the scale 1.
static float quantize_row_scale(float largest) {
  float scale = largest / 127;
  return scale > 0 ? scale : 1;
}

static void quantize_row_i8(const float *row, int64_t count, float scale,
                            signed char *out) {
  for (int64_t i = 0; i < count; i++) {
    long q = lrintf(row[i] / scale); // a subnormal scale may give more
    out[i] = (signed char)(q > 127 ? 127 : q < -127 ? -127 : q);
  }
}

static void quantize_measure(const float *row, const float *rounded,
                             int64_t count, float largest,
                             th_quantize_error *error) {
  for (int64_t i = 0; i < count; i++) {
    double off = fabs((double)row[i] - (double)rounded[i]);
    double share = largest > 0 ? off / (double)largest : 0;
    error->sum += off;
    error->size += fabs((double)row[i]);
    error->largest = share > error->largest ? share : error->largest;
  }
}

static th_status quantize_rows(th_context *ctx, const char *fqn,
                               const th_tensor *w, float *row, float *rounded,
                               th_quantize_error *error, th_tensor *out) {
  int64_t count = w->dims[1];
  ptrdiff_t size = (ptrdiff_t)th_dtype_size(out->dtype);
  for (int64_t i = 0; i < w->dims[0]; i++) {
    char *to = out->data + i * count * size;
    quantize_row(w, i, row);
    float largest = quantize_largest(row, count), scale = 1;
    if (out->dtype == TH_I8) {
      if (!isfinite(largest)) {
        return th_error(ctx, TH_INVALID, TH_NOWHERE,
                        "weight '%s': row %lld is not finite, i8 cannot hold "
                        "it",
                        fqn, (long long)i);
      }
      scale = quantize_row_scale(largest);
      quantize_row_i8(row, count, scale, (signed char *)to);
    } else {
      th_convert_row(out->dtype, to, size, TH_F32, row, sizeof(float),
                     (size_t)count);
    }
    th_convert_row(TH_F32, rounded, sizeof(float), out->dtype, to, size,
                   (size_t)count);
    for (int64_t k = 0; scale != 1 && k < count; k++) {
      rounded[k] *= scale;
    }
    quantize_measure(row, rounded, count, largest, error);
  }
  error->tensors++;
  return TH_OK;
}

th_status th_quantize_weight(th_context *ctx, const char *fqn,
                             const th_tensor *weight, th_quantize_error *error,
                             th_tensor *out) {
  th_tensor *rows = NULL;
  const int64_t two[] = {2, weight->dims[1]};
  TH_TRY(th_tensor_empty(ctx, TH_F32, 2, two, &rows));
  float *row = (float *)(void *)rows->data;
  th_status status =
      quantize_rows(ctx, fqn, weight, row, row + weight->dims[1], error, out);
  th_tensor_release(rows);
  return status;
}

th_status th_quantize_scale(th_context *ctx, const th_tensor *weight,
                            th_tensor **out) {
  th_tensor *row = NULL;
  TH_TRY(th_tensor_empty(ctx, TH_F32, 1, &weight->dims[1], &row));
  th_status status = th_tensor_empty(ctx, TH_F32, 1, &weight->dims[0], out);
  for (int64_t i = 0; status == TH_OK && i < weight->dims[0]; i++) {
    float *at = (float *)(void *)row->data;
    quantize_row(weight, i, at);
    ((float *)(void *)(*out)->data)[i] =
        quantize_row_scale(quantize_largest(at, weight->dims[1]));
  }
  th_tensor_release(row);
  return status;
}

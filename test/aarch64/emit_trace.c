// The kernels of fused traces, as the host executor would run them.  Vectors
// are shorter on AArch64, so sums are taken in another order: results are
// compared with a tolerance.

#include "emit.h"

#include "base/file.h"
#include "base/half.h"
#include "ir/trace.h"
#include "lowering/lower.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BUFFERS 32

static uint32_t trace_random(uint32_t *state) {
  *state = *state * 1664525U + 1013904223U;
  return *state >> 8;
}

// Numbers of a size that keeps sums near one; integers serve as indices.
static void trace_fill(void *to, th_dtype dtype, int64_t count,
                       uint32_t *state) {
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits = trace_random(state);
    float real = (float)bits / (1 << 23) - 1.0F;
    switch (dtype) {
    case TH_F32:
      ((float *)to)[i] = real;
      break;
    case TH_F64:
      ((double *)to)[i] = real;
      break;
    case TH_F16:
      ((uint16_t *)to)[i] = th_f16_from_f32(real);
      break;
    case TH_BF16:
      ((uint16_t *)to)[i] = th_bf16_from_f32(real);
      break;
    case TH_I64:
      ((int64_t *)to)[i] = bits % 4;
      break;
    case TH_I32:
      ((int32_t *)to)[i] = (int32_t)(bits % 4);
      break;
    default:
      ((uint8_t *)to)[i] = bits & 1;
      break;
    }
  }
}

static int64_t trace_eval(const th_expr *e) {
  th_scalar value = {0};
  th_expr_eval(e, NULL, &value);
  return value.i;
}

static bool trace_is_result(const th_stmt *kernel, const th_value *value) {
  for (uint16_t i = 0; i < kernel->out_count; i++) {
    if (kernel->outs[i] == value) {
      return true;
    }
  }
  return false;
}

static void trace_buffers(const th_stmt *stmt, const th_kernel *kernel,
                          case_buffer *buffers, void **data) {
  uint32_t state = 7;
  for (uint32_t i = 0; i < kernel->buffer_count; i++) {
    const th_value *value = kernel->buffers[i];
    int64_t count = 1;
    for (uint8_t d = 0; d < value->type.rank; d++) {
      count *= trace_eval(value->type.dims[d]);
    }
    buffers[i] = (case_buffer){.dtype = value->type.dtype,
                               .count = count,
                               .is_output = trace_is_result(stmt, value)};
    data[i] = calloc((size_t)count + 1, th_dtype_size(value->type.dtype));
    if (!buffers[i].is_output) {
      trace_fill(data[i], value->type.dtype, count, &state);
    }
  }
}

static th_status trace_run(emitter *m, const th_stmt *stmt,
                           const th_kernel *kernel, const char *name) {
  case_buffer buffers[MAX_BUFFERS];
  void *data[MAX_BUFFERS];
  int64_t numbers[MAX_BUFFERS];
  if (kernel->buffer_count > MAX_BUFFERS ||
      kernel->number_count > MAX_BUFFERS) {
    return th_error(m->ctx, TH_UNSUPPORTED, TH_NOWHERE, "%s is too large",
                    name);
  }
  emit_case c = {.name = name,
                 .extent = trace_eval(kernel->extent),
                 .numbers = numbers,
                 .number_count = kernel->number_count,
                 .data = data,
                 .buffers = buffers,
                 .buffer_count = kernel->buffer_count};
  for (uint32_t i = 0; i < kernel->number_count; i++) {
    numbers[i] = trace_eval(kernel->numbers[i]);
  }
  snprintf(c.symbol, sizeof c.symbol, "%s", stmt->label);
  trace_buffers(stmt, kernel, buffers, data);
  th_kernel_error error = {0};
  kernel->fn(data, numbers, 0, c.extent, &error);
  emit_case_write(m, &c);
  for (uint32_t i = 0; i < kernel->buffer_count; i++) {
    free(data[i]);
  }
  return error.code == 0 ? TH_OK
                         : th_error(m->ctx, TH_INVALID, TH_NOWHERE,
                                    "%s stops with fault %d", name, error.code);
}

static th_status trace_kernel(emitter *m, const char *path, th_trace *trace,
                              th_stmt *stmt) {
  char name[128];
  char symbol[32];
  th_kernel *kernel;
  const char *slash = strrchr(path, '/');
  snprintf(name, sizeof name, "%s %s", slash ? slash + 1 : path, stmt->label);
  emit_symbol(m, symbol);
  stmt->label = symbol;
  TH_TRY(
      th_lower_kernels(m->ctx, (const th_stmt *const *)&stmt, 1, 1, &kernel));
  th_status status = trace_run(m, stmt, kernel, name);
  th_lower_kernel_release(kernel);
  TH_TRY(status);

  th_buffer text;
  th_buffer_init(&text, &trace->ir->arena);
  setenv("TH_CPU", "aarch64", 1);
  status = th_lower_text(m->ctx, stmt, TH_LOWER_ASM, &text);
  unsetenv("TH_CPU");
  TH_TRY(status);
  return emit_file(m, symbol, ".s", text.data, text.size);
}

static th_status trace_kernels(emitter *m, const char *path, th_trace *trace) {
  int before = m->count;
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    const th_stmt *region = trace->stmts[i];
    for (uint32_t k = 0; k < region->body_count; k++) {
      TH_TRY(trace_kernel(m, path, trace, region->body[k]));
    }
  }
  return m->count > before
             ? TH_OK
             : th_error(m->ctx, TH_INVALID, TH_NOWHERE, "%s: no kernels", path);
}

th_status emit_trace(emitter *m, const char *path) {
  th_file file;
  th_trace *trace;
  TH_TRY(th_file_map(m->ctx, path, &file));
  th_ir *ir = th_ir_new(m->ctx);
  th_status status = th_trace_parse(ir, path, file.data, file.size, &trace);
  if (status == TH_OK) {
    status = trace_kernels(m, path, trace);
  }
  th_ir_release(ir);
  th_file_unmap(&file);
  return status;
}

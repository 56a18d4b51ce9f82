// Functions of lowering/math.h over vectors of samples.  The same IR goes
// through both code generators and strict numerics leave nothing to choose, so
// equal bits are wanted.

#include "emit.h"

#include "base/alloc.h"
#include "lowering/codegen.h"
#include "lowering/emit.h"
#include "lowering/math.h"
#include "lowering/orc.h"

#include <math.h>
#include <stdlib.h>

#define SAMPLES 4096
#define LANES 4

typedef struct sample {
  char name[64];
  bool binary;
  bool wide; // f64
  int op;
} sample;

static void emit_body(th_emit *e, const sample *s) {
  LLVMTypeRef element = s->wide ? e->f64 : e->f32;
  LLVMTypeRef type = th_emit_type_vector(element, LANES);
  LLVMValueRef buffers = LLVMGetParam(e->function, 0), buffer[3];
  unsigned align = s->wide ? 8 : 4;
  for (int i = 0; i < 3; i++) {
    buffer[i] = th_emit_load(
        e, e->ptr, th_emit_gep(e, e->ptr, buffers, th_emit_i64(e, i)), 8);
  }
  th_emit_loop loop = {.begin = LLVMGetParam(e->function, 2),
                       .end = LLVMGetParam(e->function, 3),
                       .step = th_emit_i64(e, LANES)};
  th_emit_loop_begin(e, &loop, NULL, 0);
  LLVMValueRef x = th_emit_load(
      e, type, th_emit_gep(e, element, buffer[0], loop.index), align);
  LLVMValueRef y;
  if (s->binary) {
    LLVMValueRef z = th_emit_load(
        e, type, th_emit_gep(e, element, buffer[1], loop.index), align);
    y = th_math_binary(e, (th_math_binary_op)s->op, x, z);
  } else {
    y = th_math_unary(e, (th_math_unary_op)s->op, x);
  }
  th_emit_store(e, y, th_emit_gep(e, element, buffer[2], loop.index), align);
  th_emit_loop_end(e, &loop, NULL, NULL);
  LLVMBuildRet(e->builder, th_emit_i32(e, 0));
}

static th_status emit_object(th_context *ctx, const char *cpu, const sample *s,
                             const char *symbol, th_bytes *out_object) {
  const th_target *target;
  TH_TRY(th_target_get(ctx, cpu, &target));
  th_codegen *codegen;
  TH_TRY(th_codegen_new(ctx, target, &codegen));
  LLVMModuleRef module = th_codegen_module(codegen, symbol);
  th_emit e;
  th_emit_init(&e, module, TH_EMIT_HOST);
  LLVMTypeRef params[] = {e.ptr, e.ptr, e.i64, e.i64, e.ptr};
  th_emit_function(&e, symbol, e.i32, params, 5);
  th_codegen_define(codegen, e.function);
  emit_body(&e, s);
  th_emit_deinit(&e);
  th_status status = th_codegen_object(ctx, codegen, module, out_object);
  th_codegen_free(codegen);
  return status;
}

// Samples over all magnitudes, and special values first.
static double input_value(int i, unsigned *state) {
  static const double special[] = {0.0,       -0.0,   1.0,    -1.0,      0.5,
                                   2.0,       1e-40,  1e38,   INFINITY,  -8e15,
                                   1e300,     88.8,   -104.0, 3.1415926, NAN,
                                   -INFINITY, 1e-310, 710.0,  25165824.0};
  if (i < (int)TH_COUNT(special)) {
    return special[i];
  }
  *state = *state * 1664525U + 1013904223U;
  double unit = (double)(*state >> 8) / (1 << 24);
  *state = *state * 1664525U + 1013904223U;
  double size = ldexp(unit + 0.5, (int)(*state >> 16) % 40 - 25);
  return *state & 0x8000 ? -size : size;
}

static void fill(void *to, bool wide, unsigned seed) {
  for (int i = 0; i < SAMPLES; i++) {
    double value = input_value(i, &seed);
    if (wide) {
      ((double *)to)[i] = value;
    } else {
      ((float *)to)[i] = (float)value;
    }
  }
}

static th_status host_result(emitter *m, const sample *s, const char *symbol,
                             void *const *buffers) {
  th_bytes object;
  th_code *code;
  TH_TRY(emit_object(m->ctx, "host", s, symbol, &object));
  th_status status =
      th_code_load(m->ctx, object.data, object.size, symbol, &code);
  th_free(object.data);
  TH_TRY(status);
  union {
    void *data;
    th_kernel_fn call;
  } kernel = {th_code_address(code)};
  th_kernel_error error = {0};
  kernel.call(buffers, NULL, 0, SAMPLES, &error);
  th_code_release(code);
  return TH_OK;
}

static th_status write_object(emitter *m, const sample *s, const char *symbol) {
  th_bytes object;
  TH_TRY(emit_object(m->ctx, "aarch64", s, symbol, &object));
  th_status status = emit_file(m, symbol, ".o", object.data, object.size);
  th_free(object.data);
  return status;
}

static th_status emit_sample(emitter *m, const sample *s) {
  emit_case c = {
      .name = s->name, .extent = SAMPLES, .buffer_count = 3, .exact = true};
  case_buffer buffers[3];
  void *data[3];
  emit_symbol(m, c.symbol);
  for (unsigned i = 0; i < 3; i++) {
    buffers[i] = (case_buffer){.dtype = s->wide ? TH_F64 : TH_F32,
                               .count = SAMPLES,
                               .is_output = i == 2};
    data[i] = calloc(SAMPLES, sizeof(double));
    fill(data[i], s->wide, i + 1);
  }
  th_status status = host_result(m, s, c.symbol, data);
  if (status == TH_OK) {
    status = write_object(m, s, c.symbol);
  }
  c.data = data;
  c.buffers = buffers;
  emit_case_write(m, &c);
  for (int i = 0; i < 3; i++) {
    free(data[i]);
  }
  return status;
}

th_status emit_math(emitter *m) {
  for (int wide = 0; wide < 2; wide++) {
    const char *type = wide ? "f64" : "f32";
    for (int op = 0; op < TH_MATH_UNARY_COUNT; op++) {
      sample s = {.wide = wide, .op = op};
      snprintf(s.name, sizeof s.name, "%s.%s",
               th_math_unary_name((th_math_unary_op)op), type);
      TH_TRY(emit_sample(m, &s));
    }
    for (int op = 0; op < TH_MATH_BINARY_COUNT; op++) {
      sample s = {.wide = wide, .op = op, .binary = true};
      snprintf(s.name, sizeof s.name, "%s.%s",
               th_math_binary_name((th_math_binary_op)op), type);
      TH_TRY(emit_sample(m, &s));
    }
  }
  return TH_OK;
}

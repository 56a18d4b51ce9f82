// Callables from archives and from trace texts.
#include "callable.h"
#include "frontend/archive.h"
#include "quantize.h"

#include "base/alloc.h"
#include "thunder/transform.h"

#include <stdio.h>
#include <string.h>

// Where a trace comes from: an archive, a text, or a text with the weights of
// an archive.
typedef struct load_source {
  th_pt2 *archive;
  const char *program;
  const char *name, *text; // NULL: the archive's own graph
  size_t size;
  th_ir *ir;
  th_trace *trace;
  const char *weights; // "bf16", "i8"; NULL: as they are
  th_quantize_error error;
  th_storage *rounded; // all weights in fewer bits: one block, since large ones
  int64_t used;        // stand in huge pages
} load_source;

static th_status load_trace(void *user) {
  load_source *l = user;
  TH_TRY(l->text ? th_trace_parse(l->ir, l->name, l->text, l->size, &l->trace)
                 : th_pt2_trace(l->archive, l->program, l->ir, &l->trace));
  if (!l->weights || strcmp(l->weights, "f32") == 0) {
    return TH_OK;
  }
  bool bytes = strcmp(l->weights, "i8") == 0;
  return th_quantize_trace(l->ir, l->trace, bytes ? TH_I8 : TH_BF16, &l->trace);
}

static bool load_is_rounded(const th_value *in) {
  const th_type *t = &in->type;
  return in->input->kind == TH_INPUT_PARAM && t->kind == TH_KIND_TENSOR &&
         (t->dtype == TH_BF16 || t->dtype == TH_I8) && t->rank == 2 &&
         !t->strides && th_is_const(t->dims[0]) && th_is_const(t->dims[1]);
}

// Bytes in the block, which begins each at a line of the cache.
static int64_t load_rounded_size(const th_value *in) {
  enum { LINE = 64 };
  int64_t count = in->type.dims[0]->i * in->type.dims[1]->i;
  int64_t size = count * (int64_t)th_dtype_size(in->type.dtype);
  return (size + LINE - 1) / LINE * LINE;
}

static th_status load_block(load_source *l) {
  int64_t size = 0;
  for (uint32_t i = 0; i < l->trace->input_count; i++) {
    if (load_is_rounded(l->trace->inputs[i])) {
      size += load_rounded_size(l->trace->inputs[i]);
    }
  }
  return size ? th_storage_new(l->ir->ctx, (size_t)size, &l->rounded) : TH_OK;
}

static th_status load_rounded(load_source *l, const th_value *in,
                              const th_tensor *weight, th_tensor **out) {
  th_context *ctx = l->ir->ctx;
  const int64_t strides[] = {weight->dims[1], 1};
  if (weight->dims[0] != in->type.dims[0]->i ||
      weight->dims[1] != in->type.dims[1]->i) {
    return th_error(ctx, TH_SHAPE, TH_NOWHERE,
                    "weight '%s' has other sizes than the program",
                    in->input->fqn);
  }
  TH_TRY(th_tensor_make(ctx, l->rounded, in->type.dtype, 2, weight->dims,
                        strides, l->used, out));
  l->used += load_rounded_size(in);
  return th_quantize_weight(ctx, in->input->fqn, weight, &l->error, *out);
}

// A weight of the archive, in fewer bits where the trace wants it so.
static th_status load_weight(load_source *l, const th_value *in,
                             th_tensor **out) {
  th_context *ctx = l->ir->ctx;
  const char *fqn = in->input->fqn;
  th_tensor *weight = NULL;
  bool scale = th_quantize_is_scale(l->trace, in, &fqn);
  TH_TRY(th_pt2_weight(l->archive, l->program, fqn, &weight));
  if (!scale &&
      !(load_is_rounded(in) && weight->dtype == TH_F32 && weight->rank == 2)) {
    *out = weight;
    return TH_OK;
  }
  th_status status = scale ? th_quantize_scale(ctx, weight, out)
                           : load_rounded(l, in, weight, out);
  th_tensor_release(weight);
  return status;
}

// One tensor for each parameter, buffer and constant.
static th_status load_weights(load_source *l, th_tensor **bound) {
  TH_TRY(load_block(l));
  for (uint32_t i = 0; i < l->trace->input_count; i++) {
    const th_value *in = l->trace->inputs[i];
    if (in->input->kind != TH_INPUT_USER && in->type.kind == TH_KIND_TENSOR) {
      TH_TRY(load_weight(l, in, &bound[i]));
    }
  }
  return TH_OK;
}

// Archives and texts have no th_module that a transform could change.
static th_status load_check(const th_callable *c, const load_source *l) {
  TH_TRY(th_callable_check_weights(c, l->archive != NULL));
  for (size_t i = 0; i < c->options.transform_count; i++) {
    if (c->options.transforms[i].stage == TH_ON_MODULE) {
      return th_error(c->ctx, TH_INVALID, TH_NOWHERE,
                      "transform '%s' is on the module, and there is none",
                      c->options.transforms[i].name);
    }
  }
  return TH_OK;
}

static th_status load_bound(th_callable *c, load_source *l) {
  bool wanted = l->archive && !c->options.compile_only;
  uint32_t n = l->trace->input_count;
  th_entry *entry = NULL;
  th_tensor **bound = th_calloc(n + 1, sizeof *bound);
  th_status status =
      !bound   ? th_error(c->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory")
      : wanted ? load_weights(l, bound)
               : TH_OK;
  if (status == TH_OK) {
    status = th_callable_add(c, l->trace, bound, &entry);
    c->newest = entry;
  } else {
    th_ir_release(l->ir);
  }
  for (uint32_t i = 0; bound && i < n; i++) {
    th_tensor_release(bound[i]);
  }
  th_storage_release(l->rounded);
  th_free(bound);
  return status;
}

static th_status load_callable(th_context *ctx, load_source *l,
                               const th_jit_options *options,
                               th_callable **out_callable) {
  th_callable *c = NULL;
  *out_callable = NULL;
  TH_TRY(th_callable_new(ctx, options, &c));
  c->options.constant_weights |= l->archive != NULL;
  l->weights = c->options.weights;
  th_status status = load_check(c, l);
  l->ir = status == TH_OK ? th_ir_new(ctx) : NULL;
  if (status == TH_OK) {
    status = l->ir ? th_protect(&ctx->unwind, load_trace, l) : TH_NO_MEMORY;
  }
  if (status != TH_OK) {
    th_ir_release(l->ir);
  } else {
    status = load_bound(c, l);
  }
  if (status != TH_OK) {
    th_callable_free(c);
    return status;
  }
  c->misses = 1;
  c->weights_rounded = l->error.tensors;
  c->weight_error = l->error.size > 0 ? l->error.sum / l->error.size : 0;
  c->weight_error_largest = l->error.largest;
  snprintf(c->reason_text, sizeof c->reason_text, "the first call");
  *out_callable = c;
  return TH_OK;
}

th_status th_jit_pt2(th_context *ctx, th_pt2 *archive, const char *program,
                     const th_jit_options *options,
                     th_callable **out_callable) {
  load_source l = {.archive = archive, .program = program};
  if (!program) {
    l.program = th_pt2_default_program(archive);
  }
  return load_callable(ctx, &l, options, out_callable);
}

th_status th_jit_text(th_context *ctx, const char *name, const char *text,
                      size_t size, const th_jit_options *options,
                      th_callable **out_callable) {
  load_source l = {.name = name, .text = text ? text : "", .size = size};
  return load_callable(ctx, &l, options, out_callable);
}

th_status th_jit_pt2_text(th_context *ctx, th_pt2 *archive, const char *program,
                          const char *name, const char *text, size_t size,
                          const th_jit_options *options,
                          th_callable **out_callable) {
  load_source l = {.archive = archive,
                   .program = program,
                   .name = name,
                   .text = text ? text : "",
                   .size = size};
  if (!program) {
    l.program = th_pt2_default_program(archive);
  }
  return load_callable(ctx, &l, options, out_callable);
}

// Callables from archives and from trace texts.
#include "callable.h"
#include "frontend/archive.h"

#include "base/alloc.h"
#include "thunder/transform.h"

#include <stdio.h>

// Where a trace comes from: an archive, a text, or a text with the weights of
// an archive.
typedef struct load_source {
  th_pt2 *archive;
  const char *program;
  const char *name, *text; // NULL: the archive's own graph
  size_t size;
  th_ir *ir;
  th_trace *trace;
} load_source;

static th_status load_trace(void *user) {
  load_source *l = user;
  return l->text ? th_trace_parse(l->ir, l->name, l->text, l->size, &l->trace)
                 : th_pt2_trace(l->archive, l->program, l->ir, &l->trace);
}

// One tensor for each parameter, buffer and constant.
static th_status load_weights(const load_source *l, th_tensor **bound) {
  for (uint32_t i = 0; i < l->trace->input_count; i++) {
    const th_value *in = l->trace->inputs[i];
    if (in->input->kind != TH_INPUT_USER && in->type.kind == TH_KIND_TENSOR) {
      TH_TRY(th_pt2_weight(l->archive, l->program, in->input->fqn, &bound[i]));
    }
  }
  return TH_OK;
}

// Archives and texts have no th_module that a transform could change.
static th_status load_check(const th_callable *c) {
  for (size_t i = 0; i < c->options.transform_count; i++) {
    if (c->options.transforms[i].stage == TH_ON_MODULE) {
      return th_error(c->ctx, TH_INVALID, TH_NOWHERE,
                      "transform '%s' is on the module, and there is none",
                      c->options.transforms[i].name);
    }
  }
  return TH_OK;
}

static th_status load_bound(th_callable *c, const load_source *l) {
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
  th_status status = load_check(c);
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
  load_source l = {.name = name, .text = text, .size = size};
  return load_callable(ctx, &l, options, out_callable);
}

th_status th_jit_pt2_text(th_context *ctx, th_pt2 *archive, const char *program,
                          const char *name, const char *text, size_t size,
                          const th_jit_options *options,
                          th_callable **out_callable) {
  load_source l = {archive, program, name, text, size, NULL, NULL};
  if (!program) {
    l.program = th_pt2_default_program(archive);
  }
  return load_callable(ctx, &l, options, out_callable);
}

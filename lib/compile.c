// From a trace to a program, from top to bottom: passes, dumps, steps.
#include "compile.h"

#include "extend.h"

#include "base/clock.h"
#include "base/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// ---- around the passes

typedef struct compile_watch {
  th_context *ctx;
  const th_jit_options *options;
  th_manager_options manager;
  uint32_t number; // of dumps
  th_status status;
} compile_watch;

static void compile_dump(compile_watch *w, const char *pass,
                         const th_trace *trace) {
  char path[4096];
  th_buffer text;
  if (!w->options->dump_traces) {
    return;
  }
  if (w->number == 0) {
    (void)mkdir(w->options->dump_traces, 0777); // there already, or told below
  }
  th_buffer_init(&text, &trace->ir->arena);
  th_trace_print(&text, trace, NULL);
  snprintf(path, sizeof path, "%s/%02u-%s.trace", w->options->dump_traces,
           w->number++, pass);
  if (w->status == TH_OK) {
    w->status = th_file_write(w->ctx, path, text.data, text.size);
  }
}

static void compile_after(void *user, const th_pass_info *pass,
                          const th_trace *before, const th_trace *after,
                          int64_t nanoseconds) {
  (void)before;
  (void)nanoseconds;
  compile_dump(user, pass->name, after);
}

// The user's transforms of one stage.  What those behind `claim` added has to
// be claimed.
static th_status compile_transforms(void *user, th_pipeline *p,
                                    const th_pass_info *claim,
                                    th_history *history) {
  compile_watch *w = user;
  const th_jit_options *o = w->options;
  th_transform_stage stage = claim ? TH_AFTER_CLAIM : TH_BEFORE_CLAIM;
  bool ran = false;
  for (size_t i = 0; i < o->transform_count; i++) {
    const th_transform *t = &o->transforms[i];
    if (t->stage == stage) {
      th_pass_info pass = {.name = t->name, .fn = th_transform_run};
      p->transform = t;
      TH_TRY(th_manager_run_pass(p, &pass, &w->manager, history));
      ran = true;
    }
  }
  return claim && ran ? th_manager_run_pass(p, claim, &w->manager, history)
                      : TH_OK;
}

// ---- the compilation

typedef struct compile_args {
  th_context *ctx;
  th_trace *trace;
  const th_jit_options *options;
  const th_executor_list *executors;
  th_compiled *out;
} compile_args;

static th_status compile_passes(compile_args *a) {
  const th_jit_options *o = a->options;
  th_pipeline p = {
      .ir = a->out->ir, .executors = *a->executors, .fuel = o->fuel};
  compile_watch w = {.ctx = a->ctx, .options = o};
  w.manager = (th_manager_options){.verify_each = o->verify_each,
                                   .roundtrip_each = o->roundtrip_each,
                                   .after = compile_after,
                                   .around_claim = compile_transforms,
                                   .user = &w};
  compile_dump(&w, "input", a->trace);
  int64_t start = th_clock_ns();
  TH_TRY(th_manager_run(&p, o->passes ? o->passes : "default", &w.manager,
                        a->trace, &a->out->history));
  a->out->passes_ns = th_clock_ns() - start;
  return w.status;
}

static th_status compile_run(void *user) {
  compile_args *a = user;
  th_compiled *out = a->out;
  th_program_options options = {.no_cache = a->options->no_cache,
                                .threads = a->options->threads,
                                .constant_weights =
                                    a->options->constant_weights,
                                .before = a->options->before,
                                .after = a->options->after,
                                .user = a->options->user};
  TH_TRY(compile_passes(a));
  int64_t start = th_clock_ns();
  TH_TRY(th_program_new(a->ctx, out->history.traces[out->history.count - 1],
                        &options, &out->program));
  out->codegen_ns = th_clock_ns() - start;
  if (a->options->profile) {
    th_program_profile(out->program);
  }
  return TH_OK;
}

th_status th_compile(th_context *ctx, th_trace *trace,
                     const th_jit_options *options,
                     const th_executor_list *executors, th_compiled *out) {
  *out = (th_compiled){.ir = trace->ir};
  compile_args args = {ctx, trace, options, executors, out};
  uint64_t errors = th_error_count(ctx);
  th_status status = th_protect(&ctx->unwind, compile_run, &args);
  if (status != TH_OK && th_error_count(ctx) == errors) {
    th_error(ctx, status, TH_NOWHERE, "%s", th_status_text(status));
  }
  return status;
}

void th_compiled_deinit(th_compiled *compiled) {
  th_program_free(compiled->program);
  th_ir_release(compiled->ir);
  *compiled = (th_compiled){0};
}

static th_status compile_texts(void *user) {
  th_compiled *c = user;
  uint32_t n = c->history.count;
  const char **texts = TH_NEW_ARRAY(&c->ir->arena, const char *, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    th_buffer text;
    th_buffer_init(&text, &c->ir->arena);
    th_trace_print(&text, c->history.traces[i], NULL);
    texts[i] = text.data;
  }
  c->texts = texts;
  return TH_OK;
}

th_status th_compiled_texts(th_compiled *compiled, const char *const **out,
                            size_t *out_count) {
  if (!compiled->texts) {
    TH_TRY(th_protect(&compiled->ir->ctx->unwind, compile_texts, compiled));
  }
  *out = compiled->texts;
  *out_count = compiled->history.count;
  return TH_OK;
}

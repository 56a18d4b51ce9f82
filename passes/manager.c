// The pass manager: runs passes by name and keeps every trace.
#include "passes/pass.h"

#include "base/clock.h"
#include "passes/slab.h"

#include <string.h>

const th_pass_info th_passes[] = {
#define PASS(name, stage, summary)                                             \
  {#name, TH_STAGE_##stage, summary, th_pass_##name},
#include "passes/passes.def"
#undef PASS
};
const size_t th_pass_count = TH_COUNT(th_passes);

const th_pass_info *th_pass_find(const char *name, size_t length) {
  for (size_t i = 0; i < th_pass_count; i++) {
    if (strlen(th_passes[i].name) == length &&
        memcmp(th_passes[i].name, name, length) == 0) {
      return &th_passes[i];
    }
  }
  return NULL;
}

void th_history_push(th_ir *ir, th_history *history, const th_trace *trace,
                     int64_t nanoseconds) {
  if (history->count == history->cap) {
    uint32_t cap = history->cap;
    history->traces = th_arena_grow(&ir->arena, history->traces, &cap,
                                    sizeof *history->traces);
    history->nanoseconds =
        th_arena_grow(&ir->arena, history->nanoseconds, &history->cap,
                      sizeof *history->nanoseconds);
  }
  history->traces[history->count] = trace;
  history->nanoseconds[history->count++] = nanoseconds;
}

// What a pass printed must be what it built.
static th_status manager_roundtrip(th_pipeline *p, const char *pass,
                                   const th_trace *trace) {
  th_context *ctx = p->ir->ctx;
  th_ir *ir = th_ir_new(ctx);
  if (!ir) {
    return TH_NO_MEMORY;
  }
  th_buffer first, second;
  th_buffer_init(&first, &ir->arena);
  th_buffer_init(&second, &ir->arena);
  th_trace_print(&first, trace, NULL);
  th_trace *again = NULL;
  th_status status = th_trace_parse(ir, pass, first.data, first.size, &again);
  if (status == TH_OK) {
    th_trace_print(&second, again, NULL);
    if (strcmp(first.data, second.data) != 0 || !th_trace_equal(trace, again)) {
      status = th_error(ctx, TH_VERIFY, TH_NOWHERE,
                        "%s: the printed trace is read as another one", pass);
    }
  }
  th_ir_release(ir);
  return status;
}

static th_status manager_check(th_pipeline *p, const th_pass_info *pass,
                               const th_manager_options *options,
                               const th_trace *trace) {
  if (options->verify_each) {
    th_status status = th_trace_verify(trace);
    if (status != TH_OK) {
      th_note(p->ir->ctx, TH_NOWHERE, "the trace was made by pass '%s'",
              pass->name);
      return status;
    }
  }
  return options->roundtrip_each ? manager_roundtrip(p, pass->name, trace)
                                 : TH_OK;
}

static th_status manager_apply(th_pipeline *p, const th_pass_info *pass,
                               const th_trace *in, th_trace **out);

// Sub-traces (the branches of `cond`) go through the same pass.
static th_status manager_apply_inside(th_pipeline *p, const th_pass_info *pass,
                                      th_trace *trace) {
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    th_stmt *stmt = trace->stmts[i];
    for (uint16_t a = 0; a < stmt->arg_count; a++) {
      if (stmt->args[a].kind == TH_ARG_TRACE) {
        th_trace *inner = NULL;
        TH_TRY(manager_apply(p, pass, stmt->args[a].trace, &inner));
        stmt->args[a].trace = inner;
      }
    }
  }
  return TH_OK;
}

static bool manager_is_planned(const th_trace *trace) {
  bool planned = trace->slab_size >= 0;
  for (uint32_t i = 0; i < trace->stmt_count && !planned; i++) {
    planned = trace->stmts[i]->op->op == TH_OP_del || trace->stmts[i]->in_place;
  }
  return planned;
}

// A final trace that is read back has `del`, places in the slab and writes in
// place.  They hold for its order of statements and its uses alone, so a pass
// of an earlier stage gets the trace without them.
static th_status manager_unplan(const th_pass_info *pass,
                                const th_trace **trace) {
  if (pass->stage == TH_STAGE_PLAN || !manager_is_planned(*trace)) {
    return TH_OK;
  }
  th_builder b;
  th_remap m;
  th_trace *out = th_remap_begin(&m, *trace, &b);
  for (uint32_t i = 0; i < (*trace)->stmt_count; i++) {
    const th_stmt *stmt = (*trace)->stmts[i];
    th_stmt *copy = stmt->op->op == TH_OP_del ? NULL : th_remap_stmt(&m, stmt);
    if (copy) {
      copy->in_place = false;
    }
  }
  th_slab_forget(out);
  *trace = out;
  return th_remap_end(&m);
}

static th_status manager_apply(th_pipeline *p, const th_pass_info *pass,
                               const th_trace *in, th_trace **out) {
  TH_TRY(manager_unplan(pass, &in));
  TH_TRY(pass->fn(p, in, out));
  return manager_apply_inside(p, pass, *out);
}

th_status th_manager_run_pass(th_pipeline *p, const th_pass_info *pass,
                              const th_manager_options *options,
                              th_history *history) {
  const th_trace *in = history->traces[history->count - 1];
  th_trace *out = NULL;
  uint64_t errors = th_error_count(p->ir->ctx);
  int64_t start = th_clock_ns();
  th_status status = manager_apply(p, pass, in, &out);
  int64_t took = th_clock_ns() - start;
  if (status != TH_OK) {
    if (th_error_count(p->ir->ctx) == errors) {
      th_error(p->ir->ctx, status, TH_NOWHERE, "pass '%s': %s", pass->name,
               th_status_text(status));
    }
    return status;
  }
  out->provenance =
      th_arena_printf(&p->ir->arena, "Constructed by %s (took %lld ms)",
                      pass->name, (long long)((took + 500000) / 1000000));
  th_history_push(p->ir, history, out, took);
  if (options->after) {
    options->after(options->user, pass, in, out, took);
  }
  return manager_check(p, pass, options, out);
}

// A pass of the list, with what the options want around it.
static th_status manager_run_listed(th_pipeline *p, const th_pass_info *pass,
                                    const th_manager_options *options,
                                    th_history *history) {
  bool is_claim = options->around_claim && pass->stage == TH_STAGE_CLAIM;
  if (is_claim) {
    TH_TRY(options->around_claim(options->user, p, NULL, history));
  }
  TH_TRY(th_manager_run_pass(p, pass, options, history));
  return is_claim ? options->around_claim(options->user, p, pass, history)
                  : TH_OK;
}

static bool manager_is_default(const char *name, size_t length) {
  return length == strlen("default") && memcmp(name, "default", length) == 0;
}

th_status th_manager_check(th_context *ctx, const char *names) {
  for (const char *at = names; *at;) {
    size_t n = strcspn(at, ",");
    if (n && !manager_is_default(at, n) && !th_pass_find(at, n)) {
      return th_error(ctx, TH_NOT_FOUND, TH_NOWHERE, "there is no pass '%.*s'",
                      (int)n, at);
    }
    at += n + (at[n] == ',');
  }
  return TH_OK;
}

th_status th_manager_run(th_pipeline *p, const char *names,
                         const th_manager_options *options, const th_trace *in,
                         th_history *history) {
  static const th_manager_options none = {0};
  options = options ? options : &none;
  TH_TRY(th_manager_check(p->ir->ctx, names));
  if (history->count == 0) {
    th_history_push(p->ir, history, in, 0);
  }
  for (const char *at = names; *at;) {
    size_t n = strcspn(at, ",");
    const th_pass_info *pass = th_pass_find(at, n);
    if (manager_is_default(at, n)) {
      for (size_t i = 0; i < th_pass_count; i++) {
        TH_TRY(manager_run_listed(p, &th_passes[i], options, history));
      }
    } else if (pass) {
      TH_TRY(manager_run_listed(p, pass, options, history));
    }
    at += n + (at[n] == ',');
  }
  return TH_OK;
}

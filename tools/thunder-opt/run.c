// One trace on its way: read, extracted, through the passes, printed.
#include "opt.h"

#include "frontend/archive.h"
#include "lowering/lower.h"

#include <string.h>

typedef struct run_dump {
  const opt_options *options;
  th_ir *ir;
} run_dump;

static void run_print(FILE *out, const opt_options *options,
                      const th_trace *trace) {
  th_buffer text;
  th_buffer_init(&text, &trace->ir->arena);
  th_trace_print(&text, trace, &options->print);
  fwrite(text.data, 1, text.size, out);
}

static bool run_is_listed(const char *list, const char *name) {
  size_t n = strlen(name);
  if (!list) {
    return false;
  }
  if (!*list) {
    return true; // all
  }
  for (const char *at = list; *at;) {
    size_t size = strcspn(at, ",");
    if (size == n && memcmp(at, name, n) == 0) {
      return true;
    }
    at += size + (at[size] == ',');
  }
  return false;
}

static void run_after(void *user, const th_pass_info *pass,
                      const th_trace *before, const th_trace *after,
                      int64_t nanoseconds) {
  const opt_options *options = ((run_dump *)user)->options;
  (void)nanoseconds;
  bool changed = options->print_changed && !th_trace_equal(before, after);
  if (run_is_listed(options->print_after, pass->name) || changed) {
    fprintf(stderr, "# *** after %s ***\n", pass->name);
    run_print(stderr, options, after);
  } else if (options->print_changed) {
    fprintf(stderr, "# *** after %s: no change ***\n", pass->name);
  }
}

static void run_times(const th_history *history) {
  int64_t total = 0;
  fprintf(stderr, "# *** times ***\n");
  for (uint32_t i = 1; i < history->count; i++) {
    // "Constructed by dce (took 2 ms)"
    const char *who = history->traces[i]->provenance;
    static const char by[] = "Constructed by ";
    bool known = who && strncmp(who, by, strlen(by)) == 0;
    who = known ? who + strlen(by) : "pass";
    fprintf(stderr, "%12.3f ms  %.*s\n", (double)history->nanoseconds[i] / 1e6,
            (int)strcspn(who, " "), who);
    total += history->nanoseconds[i];
  }
  fprintf(stderr, "%12.3f ms  total\n", (double)total / 1e6);
}

// ---- code

static th_status run_emit_kernels(th_context *ctx, const opt_options *options,
                                  const th_stmt *const *stmts, uint32_t count,
                                  th_buffer *out, uint32_t *kernels) {
  for (uint32_t i = 0; i < count; i++) {
    const th_stmt *stmt = stmts[i];
    if (stmt->op->op == TH_OP_kernel) {
      th_buffer_printf(out, "; %s\n", stmt->label);
      TH_TRY(th_lower_text(
          ctx, stmt, options->emit == OPT_LLVM ? TH_LOWER_LLVM : TH_LOWER_ASM,
          out));
      ++*kernels;
    } else {
      TH_TRY(run_emit_kernels(ctx, options, (const th_stmt *const *)stmt->body,
                              stmt->body_count, out, kernels));
    }
  }
  return TH_OK;
}

static th_status run_emit(const opt_options *options, const th_trace *trace,
                          FILE *out) {
  if (options->emit == OPT_TRACE) {
    run_print(out, options, trace);
    return TH_OK;
  }
  th_buffer text;
  uint32_t kernels = 0;
  th_buffer_init(&text, &trace->ir->arena);
  TH_TRY(run_emit_kernels(trace->ir->ctx, options,
                          (const th_stmt *const *)trace->stmts,
                          trace->stmt_count, &text, &kernels));
  if (kernels == 0) {
    return th_error(trace->ir->ctx, TH_INVALID, TH_NOWHERE,
                    "the trace has no kernels to emit; --passes=default "
                    "makes them");
  }
  fwrite(text.data, 1, text.size, out);
  return TH_OK;
}

// ---- passes

static th_status run_passes(const opt_options *options, th_trace *trace,
                            const th_trace **out_trace) {
  th_ir *ir = trace->ir;
  th_buffer explanation;
  th_buffer_init(&explanation, &ir->arena);
  th_pipeline pipeline = {.ir = ir,
                          .fuel = options->fuel,
                          .explain = options->explain,
                          .explanation = &explanation};
  const char *executors = options->executors
                              ? options->executors
                              : th_executor_default(options->device.type);
  TH_TRY(
      th_executor_resolve(ir->ctx, &ir->arena, executors, &pipeline.executors));
  run_dump dump = {options, ir};
  th_manager_options manager = {.verify_each = options->verify_each,
                                .roundtrip_each = options->roundtrip_each,
                                .after = run_after,
                                .user = &dump};
  th_history history = {0};
  th_status status =
      th_manager_run(&pipeline, options->passes ? options->passes : "",
                     &manager, trace, &history);
  fwrite(explanation.data, 1, explanation.size, stderr);
  if (options->time_passes) {
    run_times(&history);
  }
  *out_trace = history.count ? history.traces[history.count - 1] : trace;
  return status;
}

static th_status run_trace(const opt_options *options, th_trace *trace,
                           FILE *out) {
  const th_trace *last = trace;
  if (options->extract) {
    TH_TRY(opt_extract(trace, options->extract, &trace));
  }
  TH_TRY(run_passes(options, trace, &last));
  return run_emit(options, last, out);
}

// ---- inputs

static void run_free_ir(void *ir) { th_ir_release(ir); }

static void run_free_archive(void *archive) { th_pt2_free(archive); }

th_status opt_run_part(th_context *ctx, const opt_options *options,
                       const opt_part *part, FILE *out) {
  th_ir *ir = th_ir_new(ctx);
  if (!ir) {
    return TH_NO_MEMORY;
  }
  th_arena_defer(&ctx->arena, run_free_ir, ir);
  th_trace *trace = NULL;
  TH_TRY(th_text_parse_part(ir, part->name, part->text, part->size,
                            part->first_line, &trace));
  return run_trace(options, trace, out);
}

th_status opt_run_archive(th_context *ctx, const opt_options *options,
                          FILE *out) {
  th_pt2 *archive = NULL;
  TH_TRY(th_pt2_open(ctx, options->input, NULL, &archive));
  th_arena_defer(&ctx->arena, run_free_archive, archive);
  th_ir *ir = th_ir_new(ctx);
  if (!ir) {
    return TH_NO_MEMORY;
  }
  th_arena_defer(&ctx->arena, run_free_ir, ir);
  const char *program =
      options->model ? options->model : th_pt2_default_program(archive);
  if (!options->model && th_pt2_program_count(archive) > 1) {
    fprintf(stderr, "thunder-opt: program '%s'\n", program);
  }
  th_trace *trace = NULL;
  TH_TRY(th_pt2_trace(archive, program, ir, &trace));
  return run_trace(options, trace, out);
}

// Contexts and their diagnostics.
//
// Reporting must work while memory is out and from under any th_protect, so
// it runs in a protected call of its own: a diagnostic that does not fit is
// counted, its status is kept, and the reader is told.
#include "base/context.h"

#include "base/alloc.h"
#include "base/buffer.h"

#include <string.h>

th_context *th_context_new(void) {
  th_context *ctx = th_calloc(1, sizeof *ctx);
  if (ctx) {
    th_arena_init(&ctx->arena, &ctx->unwind);
    th_arena_init(&ctx->diag_arena, &ctx->diag_unwind);
    th_arena_init(&ctx->joined_arena, &ctx->diag_unwind);
    pthread_mutex_init(&ctx->diag_lock, NULL);
  }
  return ctx;
}

void th_context_free(th_context *ctx) {
  if (!ctx) {
    return;
  }
  th_arena_deinit(&ctx->arena); // its releases may still report
  th_arena_deinit(&ctx->diag_arena);
  th_arena_deinit(&ctx->joined_arena);
  pthread_mutex_destroy(&ctx->diag_lock);
  th_free(ctx);
}

void th_set_log(th_context *ctx, th_log_level level, th_log_fn fn, void *user) {
  ctx->log = fn;
  ctx->log_user = user;
  ctx->log_level = level;
}

static bool context_logs(const th_context *ctx, th_log_level level) {
  return ctx->log && level <= ctx->log_level;
}

typedef struct context_report {
  th_context *ctx;
  th_severity severity;
  th_status status;
  th_loc loc;
  const char *fmt;
  va_list args;
} context_report;

// "model.c:42:7: error: "; what is not known is left out.
static void context_put_head(th_buffer *text, th_severity severity,
                             th_loc loc) {
  static const char *const names[] = {
      [TH_NOTE] = "note", [TH_WARNING] = "warning", [TH_ERROR] = "error"};
  if (loc.file) {
    th_buffer_puts(text, loc.file);
    if (loc.line > 0) {
      th_buffer_printf(text, ":%d", loc.line);
      if (loc.column > 0) {
        th_buffer_printf(text, ":%d", loc.column);
      }
    }
    th_buffer_puts(text, ": ");
  }
  th_buffer_puts(text, names[severity]);
  th_buffer_puts(text, ": ");
}

// Names from files may hold anything; a terminal must not obey them.
static void context_blank_controls(char *text) {
  for (; *text; text++) {
    if (((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t') ||
        *text == 0x7f) {
      *text = '?';
    }
  }
}

static th_status context_add(void *arg) {
  context_report *report = arg;
  th_context *ctx = report->ctx;
  th_arena *arena = &ctx->diag_arena;
  th_buffer text;
  th_buffer_init(&text, arena);
  context_put_head(&text, report->severity, report->loc);
  th_buffer_puts(&text, th_arena_vprintf(arena, report->fmt, report->args));
  context_blank_controls(text.data);
  TH_PUSH(arena, ctx->diags, ctx->diag_count, ctx->diag_cap) =
      (th_diagnostic){report->severity, report->status, text.data};
  return TH_OK;
}

static void context_log_diagnostic(th_context *ctx, th_severity severity,
                                   const char *text) {
  th_log_level level = severity == TH_ERROR ? TH_LOG_ERROR : TH_LOG_WARN;
  if (context_logs(ctx, level)) {
    ctx->log(ctx->log_user, level, text);
  }
}

static void context_add_or_lose(context_report *report) {
  th_context *ctx = report->ctx;
  const char *text = NULL;
  pthread_mutex_lock(&ctx->diag_lock);
  ctx->joined = NULL;
  if (report->severity == TH_ERROR) {
    ctx->error_count++;
  }
  if (th_protect(&ctx->diag_unwind, context_add, report) == TH_OK) {
    text = ctx->diags[ctx->diag_count - 1].text;
  } else {
    ctx->diag_lost++;
  }
  pthread_mutex_unlock(&ctx->diag_lock);
  if (text && !ctx->logs_no_diagnostics) {
    context_log_diagnostic(ctx, report->severity, text);
  }
}

th_status(th_error)(th_context *ctx, th_status status, th_loc loc,
                    const char *fmt, ...) {
  if (!ctx) {
    return status;
  }
  context_report report = {.ctx = ctx,
                           .severity = TH_ERROR,
                           .status = status,
                           .loc = loc,
                           .fmt = fmt};
  va_start(report.args, fmt);
  context_add_or_lose(&report);
  va_end(report.args);
  return status;
}

void th_note(th_context *ctx, th_loc loc, const char *fmt, ...) {
  context_report report = {
      .ctx = ctx, .severity = TH_NOTE, .status = TH_OK, .loc = loc, .fmt = fmt};
  va_start(report.args, fmt);
  context_add_or_lose(&report);
  va_end(report.args);
}

typedef struct context_once {
  th_context *ctx;
  const char *key;
  bool is_new;
} context_once;

static th_status context_mark(void *arg) {
  context_once *once = arg;
  th_context *ctx = once->ctx;
  th_map *warned = ctx->slots[TH_SLOT_WARNED];
  if (!warned) {
    warned = TH_NEW(&ctx->arena, th_map);
    th_map_init(warned, &ctx->arena);
    ctx->slots[TH_SLOT_WARNED] = warned;
  }
  once->is_new = !th_map_get(warned, once->key);
  if (once->is_new) {
    th_map_put(warned, once->key, warned);
  }
  return TH_OK;
}

void th_warn_once(th_context *ctx, const char *key, th_loc loc, const char *fmt,
                  ...) {
  context_once once = {ctx, key, true};
  // Out of memory: rather twice than never.
  (void)th_protect(&ctx->unwind, context_mark, &once);
  if (once.is_new) {
    context_report report = {.ctx = ctx,
                             .severity = TH_WARNING,
                             .status = TH_OK,
                             .loc = loc,
                             .fmt = fmt};
    va_start(report.args, fmt);
    context_add_or_lose(&report);
    va_end(report.args);
  }
}

typedef struct context_log {
  th_context *ctx;
  th_log_level level;
  const char *fmt;
  va_list args;
} context_log;

static th_status context_log_line(void *arg) {
  context_log *line = arg;
  th_context *ctx = line->ctx;
  th_arena arena;
  th_arena_init(&arena, &ctx->unwind);
  ctx->log(ctx->log_user, line->level,
           th_arena_vprintf(&arena, line->fmt, line->args));
  th_arena_deinit(&arena);
  return TH_OK;
}

void th_log(th_context *ctx, th_log_level level, const char *fmt, ...) {
  if (!context_logs(ctx, level)) {
    return;
  }
  context_log line = {.ctx = ctx, .level = level, .fmt = fmt};
  va_start(line.args, fmt);
  if (th_protect(&ctx->unwind, context_log_line, &line) != TH_OK) {
    ctx->log(ctx->log_user, level, fmt); // unformatted says more than nothing
  }
  va_end(line.args);
}

typedef struct context_moved {
  th_context *to;
  const th_diagnostic *from;
} context_moved;

static th_status context_move_one(void *arg) {
  const context_moved *m = arg;
  th_arena *arena = &m->to->diag_arena;
  th_diagnostic copy = *m->from;
  copy.text = th_arena_strdup(arena, copy.text);
  TH_PUSH(arena, m->to->diags, m->to->diag_count, m->to->diag_cap) = copy;
  return TH_OK;
}

void th_diagnostics_move(th_context *to, th_context *from) {
  if (to == from || !to) {
    return;
  }
  pthread_mutex_lock(&to->diag_lock);
  to->joined = NULL;
  for (uint32_t i = 0; i < from->diag_count; i++) {
    context_moved m = {to, &from->diags[i]};
    if (th_protect(&to->diag_unwind, context_move_one, &m) != TH_OK) {
      to->diag_lost++;
    }
    to->error_count += from->diags[i].severity == TH_ERROR;
  }
  to->diag_lost += from->diag_lost;
  pthread_mutex_unlock(&to->diag_lock);
  for (uint32_t i = 0; i < from->diag_count; i++) {
    context_log_diagnostic(to, from->diags[i].severity, from->diags[i].text);
  }
  th_diagnostics_clear(from);
}

uint64_t th_error_count(const th_context *ctx) { return ctx->error_count; }

size_t th_diagnostic_count(const th_context *ctx) { return ctx->diag_count; }

const char *th_diagnostic_text(const th_context *ctx, size_t index) {
  return index < ctx->diag_count ? ctx->diags[index].text : "";
}

th_severity th_diagnostic_severity(const th_context *ctx, size_t index) {
  return index < ctx->diag_count ? ctx->diags[index].severity : TH_NOTE;
}

void th_diagnostics_clear(th_context *ctx) {
  pthread_mutex_lock(&ctx->diag_lock);
  th_arena_deinit(&ctx->diag_arena);
  ctx->diags = NULL;
  ctx->joined = NULL;
  ctx->diag_count = ctx->diag_cap = ctx->diag_lost = 0;
  pthread_mutex_unlock(&ctx->diag_lock);
}

static th_status context_join(void *arg) {
  th_context *ctx = arg;
  th_buffer text;
  th_buffer_init(&text, &ctx->joined_arena);
  for (uint32_t i = 0; i < ctx->diag_count; i++) {
    th_buffer_puts(&text, ctx->diags[i].text);
    th_buffer_putc(&text, '\n');
  }
  if (ctx->diag_lost) {
    th_buffer_printf(&text, "error: out of memory; %u diagnostics lost\n",
                     ctx->diag_lost);
  }
  ctx->joined = text.data;
  return TH_OK;
}

const char *th_diagnostics_all(th_context *ctx) {
  pthread_mutex_lock(&ctx->diag_lock);
  if (!ctx->joined) {
    th_arena_deinit(&ctx->joined_arena);
    (void)th_protect(&ctx->diag_unwind, context_join, ctx);
  }
  const char *text = ctx->joined ? ctx->joined : "error: out of memory\n";
  pthread_mutex_unlock(&ctx->diag_lock);
  return text;
}

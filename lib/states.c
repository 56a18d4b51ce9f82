// States of executors as a JSON document, and back.
#include "callable.h"

#include "base/json.h"
#include "thunder/transform.h"

#include "base/alloc.h"

#include <string.h>

typedef struct states {
  th_context *ctx;
  const char *executor;
  uint32_t count; // call sites seen
  th_arena arena;
  th_buffer out;       // export
  const th_json *list; // import: the entries
} states;

// A call site: scope, operation, and its number among those of the executor.
static const char *states_site(states *s, const th_stmt *stmt) {
  return th_arena_printf(&s->arena, "%s#%u", stmt->scope, s->count);
}

static void states_quote(th_buffer *out, const char *text) {
  th_buffer_putc(out, '"');
  for (const char *p = text; *p; p++) {
    if ((unsigned char)*p < 0x20) {
      th_buffer_printf(out, "\\u%04x", (unsigned)(unsigned char)*p);
    } else {
      th_buffer_puts(out, *p == '"' || *p == '\\' ? "\\" : "");
      th_buffer_putc(out, *p);
    }
  }
  th_buffer_putc(out, '"');
}

// ---- export

static th_status states_export_one(void *user, const th_stmt *stmt,
                                   const th_state_hooks *hooks, void *state) {
  states *s = user;
  char *json = NULL;
  if (!hooks->export_state) {
    return th_error(s->ctx, TH_UNSUPPORTED, TH_NOWHERE,
                    "executor '%s' does not export its states", s->executor);
  }
  TH_TRY(hooks->export_state(state, &json));
  th_arena_defer(&s->arena, (void (*)(void *))th_text_free, json);
  th_buffer_puts(&s->out, s->count ? ",\n  {\"site\": " : "\n  {\"site\": ");
  states_quote(&s->out, states_site(s, stmt));
  th_buffer_puts(&s->out, ", \"op\": ");
  states_quote(&s->out, stmt->op->name);
  th_buffer_printf(&s->out, ", \"state\": %s}", json ? json : "null");
  s->count++;
  return TH_OK;
}

typedef struct states_call {
  states *s;
  th_program *program;
  char *text;
} states_call;

static th_status states_none(const states *s) {
  return th_error(s->ctx, TH_NOT_FOUND, TH_NOWHERE,
                  "no statement keeps a state of executor '%s'", s->executor);
}

static th_status states_export(void *user) {
  states_call *c = user;
  states *s = c->s;
  th_buffer_init(&s->out, &s->arena);
  th_buffer_puts(&s->out, "{\"executor\": ");
  states_quote(&s->out, s->executor);
  th_buffer_puts(&s->out, ", \"version\": 1, \"states\": [");
  TH_TRY(th_program_each_state(c->program, s->executor, states_export_one, s));
  th_buffer_puts(&s->out, "]}\n");
  c->text = th_strdup(s->out.data);
  return s->count == 0 ? states_none(s) : c->text ? TH_OK : TH_NO_MEMORY;
}

// ---- import

static const th_json *states_find(const states *s, const char *site,
                                  const th_stmt *stmt) {
  for (TH_JSON_EACH(entry, s->list)) {
    const th_json *at = th_json_get(entry, "site");
    const th_json *op = th_json_get(entry, "op");
    if (th_json_is(at, TH_JSON_STRING) && th_json_is(op, TH_JSON_STRING) &&
        strcmp(at->text, site) == 0 && strcmp(op->text, stmt->op->name) == 0) {
      return th_json_get(entry, "state");
    }
  }
  return NULL;
}

// A value of the document as JSON again.
static void states_write(th_buffer *out, const th_json *v) {
  const char *separator = "";
  switch (v->kind) {
  case TH_JSON_NULL:
    th_buffer_puts(out, "null");
    break;
  case TH_JSON_BOOL:
    th_buffer_puts(out, v->i ? "true" : "false");
    break;
  case TH_JSON_INT:
    th_buffer_printf(out, "%lld", (long long)v->i);
    break;
  case TH_JSON_FLOAT:
    th_buffer_printf(out, "%.17g", v->f);
    break;
  case TH_JSON_STRING:
    states_quote(out, v->text);
    break;
  case TH_JSON_ARRAY:
    th_buffer_putc(out, '[');
    for (TH_JSON_EACH(item, v)) {
      th_buffer_puts(out, separator);
      states_write(out, item);
      separator = ", ";
    }
    th_buffer_putc(out, ']');
    break;
  case TH_JSON_OBJECT:
    th_buffer_putc(out, '{');
    for (TH_JSON_EACH_KEY(key, v)) {
      th_buffer_puts(out, separator);
      states_quote(out, key->text);
      th_buffer_puts(out, ": ");
      states_write(out, key + 1);
      separator = ", ";
    }
    th_buffer_putc(out, '}');
    break;
  }
}

static th_status states_import_one(void *user, const th_stmt *stmt,
                                   const th_state_hooks *hooks, void *state) {
  states *s = user;
  const char *site = states_site(s, stmt);
  const th_json *json = states_find(s, site, stmt);
  th_buffer text;
  s->count++;
  if (!json || !hooks->import_state) {
    return th_error(s->ctx, json ? TH_UNSUPPORTED : TH_NOT_FOUND, TH_NOWHERE,
                    json ? "'%s' of executor '%s' cannot take a state"
                         : "the document has no state for '%s' of executor "
                           "'%s'",
                    site, s->executor);
  }
  th_buffer_init(&text, &s->arena);
  states_write(&text, json);
  return hooks->import_state(state, text.data);
}

static th_status states_import(void *user) {
  states_call *c = user;
  states *s = c->s;
  const th_json *document = NULL;
  TH_TRY(th_json_parse(s->ctx, &s->arena, "state", 0, c->text, strlen(c->text),
                       &document));
  const th_json *executor = th_json_get(document, "executor");
  s->list = th_json_get(document, "states");
  if (!th_json_is(executor, TH_JSON_STRING) ||
      !th_json_is(s->list, TH_JSON_ARRAY) ||
      strcmp(executor->text, s->executor) != 0) {
    return th_error(s->ctx, TH_PARSE, TH_NOWHERE,
                    "state: this is no document of executor '%s'", s->executor);
  }
  TH_TRY(th_program_each_state(c->program, s->executor, states_import_one, s));
  return s->count ? TH_OK : states_none(s);
}

static th_status states_reset_one(void *user, const th_stmt *stmt,
                                  const th_state_hooks *hooks, void *state) {
  states *s = user;
  (void)stmt;
  s->count++;
  return hooks->reset ? hooks->reset(state) : TH_OK;
}

static th_status states_reset(void *user) {
  states_call *c = user;
  TH_TRY(th_program_each_state(c->program, c->s->executor, states_reset_one,
                               c->s));
  return c->s->count ? TH_OK : states_none(c->s);
}

// ---- the public side

// Keeps calls away while `fn` works on the newest compilation.
static th_status states_with(th_callable *callable, const char *executor,
                             th_status (*fn)(void *), char **text) {
  th_context *ctx = callable->ctx;
  states s = {.ctx = ctx, .executor = executor};
  if (atomic_exchange(&callable->busy, true)) {
    return th_error(ctx, TH_BUSY, TH_NOWHERE, "a call is under way");
  }
  states_call call = {
      &s, callable->newest ? callable->newest->compiled.program : NULL, *text};
  th_arena_init(&s.arena, &ctx->unwind);
  th_status status =
      call.program ? th_protect(&ctx->unwind, fn, &call) : states_none(&s);
  th_arena_deinit(&s.arena);
  atomic_store(&callable->busy, false);
  *text = call.text;
  return status;
}

th_status th_callable_export_state(th_callable *callable, const char *executor,
                                   char **out_json) {
  *out_json = NULL;
  th_status status = states_with(callable, executor, states_export, out_json);
  if (status != TH_OK) {
    th_text_free(*out_json);
    *out_json = NULL;
  }
  return status;
}

th_status th_callable_import_state(th_callable *callable, const char *executor,
                                   const char *json) {
  char *text = (char *)(uintptr_t)json;
  return states_with(callable, executor, states_import, &text);
}

th_status th_callable_reset_state(th_callable *callable, const char *executor) {
  char *text = NULL;
  return states_with(callable, executor, states_reset, &text);
}

// Transforms: a user's functions as passes, and passes as transforms.
#include "extend.h"

#include "tracer.h"

#include "base/alloc.h"

#include <string.h>

// ---- running one

// Is it of the trace that is rewritten?
static bool extend_is_old(const th_tracer *t, const th_value *value) {
  const th_trace *from = t->remap->from;
  return value->id < from->value_count && from->values[value->id] == value;
}

typedef struct extend_check {
  const th_tracer *t;
  const th_value *foreign, *missing;
} extend_check;

static void extend_look(void *user, th_value *value) {
  extend_check *c = user;
  if (!extend_is_old(c->t, value)) {
    c->foreign = value;
  } else if (!c->missing && !c->t->remap->map[value->id]) {
    c->missing = value;
  }
}

static th_status extend_dropped(const th_tracer *t, const th_value *value,
                                th_loc loc, const char *by) {
  return th_error(t->b->ir->ctx, TH_INVALID, loc,
                  "'%s' was dropped by the transform, and %s uses it",
                  value->name, by);
}

static th_status extend_result(th_tracer *t, const th_trace *in) {
  extend_check check = {.t = t};
  th_arg_values(&in->result, extend_look, &check);
  if (check.missing) {
    return extend_dropped(t, check.missing, TH_NOWHERE, "the result");
  }
  return th_remap_end(t->remap);
}

th_status th_transform_run(th_pipeline *p, const th_trace *in, th_trace **out) {
  const th_transform *transform = p->transform;
  th_builder b;
  th_remap m;
  th_tracer t;
  th_remap_begin(&m, in, &b);
  th_tracer_wrap(&t, &b);
  t.remap = &m;
  t.pipeline = p;
  th_status status = transform->trace(&t, in, transform->user);
  TH_TRY(b.status);
  if (status != TH_OK) {
    return th_error(p->ir->ctx, status, TH_NOWHERE, "transform '%s': %s",
                    transform->name, th_status_text(status));
  }
  if (t.made) {
    *out = t.made;
    return TH_OK;
  }
  *out = b.trace;
  return extend_result(&t, in);
}

// ---- what a transform does

typedef struct extend_keep {
  th_tracer *t;
  const th_stmt *stmt;
} extend_keep;

static th_status extend_copy(void *user) {
  const extend_keep *k = user;
  extend_check check = {.t = k->t};
  if (!k->stmt) {
    return th_error(k->t->b->ir->ctx, TH_INVALID, k->t->b->loc,
                    "the statement to keep is NULL");
  }
  th_stmt_operands(k->stmt, extend_look, &check);
  if (check.foreign) {
    return th_tracer_foreign(k->t, check.foreign);
  }
  if (check.missing) {
    return extend_dropped(k->t, check.missing, k->stmt->loc, k->stmt->op->name);
  }
  th_remap_stmt(k->t->remap, k->stmt);
  return k->t->b->status;
}

static bool extend_rewrites(th_tracer *t) {
  if (!t->remap && t->b->status == TH_OK) {
    t->b->status = th_error(t->b->ir->ctx, TH_INVALID, t->b->loc,
                            "only a transform has a trace to take from");
  }
  return t->remap != NULL;
}

void th_keep(th_tracer *t, const th_stmt *stmt) {
  extend_keep keep = {t, stmt};
  if (extend_rewrites(t)) {
    (void)th_tracer_run(t, NULL, 0, extend_copy, &keep);
  }
}

typedef struct extend_replace {
  th_tracer *t;
  const th_value *old;
  th_value *value;
} extend_replace;

static th_status extend_put(void *user) {
  const extend_replace *r = user;
  if (!extend_is_old(r->t, r->old)) {
    return th_tracer_foreign(r->t, r->old);
  }
  if (!th_tracer_owns(r->t, r->value)) {
    return th_tracer_foreign(r->t, r->value);
  }
  th_remap_set(r->t->remap, r->old, r->value);
  th_value_rename(r->t->b->trace, r->value, r->old->name);
  return TH_OK;
}

void th_replace(th_tracer *t, const th_stmt *stmt, size_t out,
                th_value *value) {
  extend_replace replace = {t, th_stmt_out(stmt, out), value};
  if (!extend_rewrites(t) || t->b->status != TH_OK || !replace.old) {
    return;
  }
  if (!th_value_is_tensor(value)) {
    t->b->status = th_error(t->b->ir->ctx, TH_INVALID, stmt->loc,
                            "'%s' is replaced by something that is no tensor",
                            replace.old->name);
    return;
  }
  (void)th_tracer_run(t, NULL, 0, extend_put, &replace);
}

th_value *th_mapped(th_tracer *t, const th_value *value) {
  if (!t->remap || !value || t->b->status != TH_OK) {
    return NULL;
  }
  if (!extend_is_old(t, value)) {
    t->b->status = th_tracer_foreign(t, value);
    return NULL;
  }
  return t->remap->map[value->id];
}

void th_in_place_of(th_tracer *t, const th_stmt *stmt) {
  t->is_placed = stmt != NULL;
  t->b->scope = stmt ? stmt->scope : "";
  t->b->loc = stmt ? stmt->loc : TH_NOWHERE;
}

// ---- arguments for the trace that is built

typedef struct extend_operand {
  th_tracer *t;
  const th_arg *arg;
  th_operand out;
} extend_operand;

static th_value *extend_value(th_tracer *t, const th_arg *arg) {
  if (arg->kind == TH_ARG_NUM) {
    return th_tracer_number(t, arg->num);
  }
  if (arg->kind != TH_ARG_VALUE) {
    return NULL;
  }
  return t->remap ? th_mapped(t, arg->value) : arg->value;
}

static th_status extend_list(extend_operand *o) {
  th_value **values =
      TH_NEW_ARRAY(&o->t->b->ir->arena, th_value *, o->arg->count + 1);
  for (uint32_t i = 0; i < o->arg->count; i++) {
    values[i] = extend_value(o->t, &o->arg->items[i]);
  }
  o->out = th_operand_values(values, o->arg->count);
  return TH_OK;
}

static th_status extend_take(void *user) {
  extend_operand *o = user;
  const th_arg *arg = o->arg;
  switch (arg->kind) {
  case TH_ARG_VALUE:
  case TH_ARG_NUM:
    o->out = th_operand_value(extend_value(o->t, arg));
    break;
  case TH_ARG_STRING:
    o->out = th_operand_string(arg->text);
    break;
  case TH_ARG_DTYPE:
    o->out = th_operand_dtype(arg->dtype);
    break;
  case TH_ARG_DEVICE:
    o->out = th_operand_device(arg->device);
    break;
  case TH_ARG_LIST:
    return extend_list(o);
  default:
    break;
  }
  return TH_OK;
}

th_operand th_stmt_operand(th_tracer *t, const th_stmt *stmt, size_t arg) {
  static const th_arg none = {.kind = TH_ARG_NONE};
  extend_operand o = {t, arg < stmt->arg_count ? &stmt->args[arg] : &none,
                      th_operand_none()};
  if (t->remap) { // what is built of it stands in its place
    th_in_place_of(t, stmt);
  }
  (void)th_tracer_run(t, NULL, 0, extend_take, &o);
  return o.out;
}

th_value *th_argument(th_tracer *t, const th_stmt *stmt, size_t arg) {
  th_operand o = th_stmt_operand(t, stmt, arg);
  return o.kind == TH_OPERAND_VALUE ? o.as.value : NULL;
}

// ---- reading a trace

size_t th_trace_stmt_count(const th_trace *trace) { return trace->stmt_count; }

const th_stmt *th_trace_stmt(const th_trace *trace, size_t index) {
  return index < trace->stmt_count ? trace->stmts[index] : NULL;
}

size_t th_trace_input_count(const th_trace *trace) {
  return trace->input_count;
}

const th_value *th_trace_input_at(const th_trace *trace, size_t index) {
  return index < trace->input_count ? trace->inputs[index] : NULL;
}

typedef struct extend_uses {
  const th_value *value;
  bool found;
} extend_uses;

static void extend_match(void *user, th_value *value) {
  extend_uses *u = user;
  u->found = u->found || value == u->value;
}

size_t th_trace_uses(const th_trace *trace, const th_value *value) {
  size_t count = 0;
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    extend_uses uses = {value, false};
    th_stmt_operands(trace->stmts[i], extend_match, &uses);
    count += uses.found;
  }
  extend_uses uses = {value, false};
  th_arg_values(&trace->result, extend_match, &uses);
  return count + uses.found;
}

typedef struct extend_text {
  const th_trace *trace;
  const th_stmt *stmt;
  th_arena arena;
  char *text;
} extend_text;

static th_status extend_print(void *user) {
  extend_text *e = user;
  th_buffer out;
  th_buffer_init(&out, &e->arena);
  if (e->trace) {
    th_trace_print(&out, e->trace, NULL);
  } else {
    th_stmt_print(&out, e->stmt);
  }
  e->text = th_strdup(out.data);
  return TH_OK;
}

// `unwind` is where the trace's own memory goes when it runs out.
static char *extend_print_to(th_unwind *unwind, const th_trace *trace,
                             const th_stmt *stmt) {
  extend_text e = {.trace = trace, .stmt = stmt};
  th_arena_init(&e.arena, unwind);
  (void)th_protect(unwind, extend_print, &e);
  th_arena_deinit(&e.arena);
  return e.text;
}

char *th_trace_text(const th_trace *trace) {
  return extend_print_to(&trace->ir->ctx->unwind, trace, NULL);
}

char *th_stmt_text(const th_stmt *stmt) {
  th_unwind unwind = {NULL};
  return extend_print_to(&unwind, NULL, stmt);
}

char *th_text_copy(const char *text) { return th_strdup(text); }

void th_text_free(char *text) { th_free(text); }

// ---- built-in transforms

typedef struct extend_pass {
  th_tracer *t;
  const th_trace *in;
  const th_pass_info *pass;
} extend_pass;

static th_status extend_run_pass(void *user) {
  const extend_pass *a = user;
  return a->pass->fn(a->t->pipeline, a->in, &a->t->made);
}

static th_status extend_builtin_pass(th_tracer *t, const th_trace *in,
                                     void *user) {
  extend_pass args = {t, in, user};
  return th_tracer_run(t, NULL, 0, extend_run_pass, &args);
}

static th_status extend_builtin_print(th_tracer *t, const th_trace *in,
                                      void *user) {
  (void)user;
  char *text = th_trace_text(in);
  th_log(t->b->ir->ctx, TH_LOG_INFO, "%s", text ? text : "out of memory");
  th_text_free(text);
  for (size_t i = 0; i < th_trace_stmt_count(in); i++) {
    th_keep(t, th_trace_stmt(in, i));
  }
  return th_tracer_status(t);
}

// batch_norm with the statistics of the batch -> with the running ones, which
// stay as they are.
static void extend_freeze(th_tracer *t, const th_stmt *stmt) {
  enum { RUNNING_MEAN = 3, TRAINING = 5, COUNT = 8, NEW_MEAN = 3 };
  th_operand operands[COUNT];
  th_value *out = NULL;
  for (size_t i = 0; i < COUNT; i++) {
    operands[i] = th_stmt_operand(t, stmt, i);
  }
  operands[TRAINING] = th_operand_bool(false);
  (void)th_op(t, "batch_norm", operands, COUNT, &out, 1);
  th_replace(t, stmt, 0, out);
  for (size_t i = 0; i < 2; i++) {
    if (th_stmt_out(stmt, NEW_MEAN + i)) {
      th_replace(t, stmt, NEW_MEAN + i, th_argument(t, stmt, RUNNING_MEAN + i));
    }
  }
}

static th_status extend_builtin_freeze(th_tracer *t, const th_trace *in,
                                       void *user) {
  (void)user;
  for (size_t i = 0; i < th_trace_stmt_count(in); i++) {
    const th_stmt *stmt = th_trace_stmt(in, i);
    int64_t training = 0;
    if (strcmp(th_stmt_op_name(stmt), "batch_norm") == 0 &&
        th_stmt_arg_int(stmt, 5, &training) && training &&
        th_stmt_arg_value(stmt, 3)) {
      extend_freeze(t, stmt);
    } else {
      th_keep(t, stmt);
    }
  }
  return th_tracer_status(t);
}

th_status th_transform_builtin(const char *name, th_transform_stage stage,
                               th_transform *out_transform) {
  static const struct {
    const char *name;
    th_trace_transform fn;
  } own[] = {{"freeze_batch_norm", extend_builtin_freeze},
             {"print", extend_builtin_print}};
  const th_pass_info *pass = th_pass_find(name, strlen(name));
  th_transform found = {.size = out_transform->size, .stage = stage};
  if (pass) {
    found.name = pass->name;
    found.trace = extend_builtin_pass;
    found.user = (void *)(uintptr_t)pass;
  }
  for (size_t i = 0; i < TH_COUNT(own); i++) {
    if (strcmp(own[i].name, name) == 0) {
      found.name = own[i].name;
      found.trace = own[i].fn;
    }
  }
  if (!found.name) {
    return TH_NOT_FOUND;
  }
  memcpy(out_transform, &found,
         found.size < sizeof found ? found.size : sizeof found);
  return TH_OK;
}

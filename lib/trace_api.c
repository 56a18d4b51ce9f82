// Tracing: values, scopes, parameters, numbers, statements by name.
//
// Memory that is out must not unwind through the user's function, so each call
// runs protected (th_tracer_run) and leaves TH_NO_MEMORY in the tracer.
#include "tracer.h"

#include "module.h"

#include <stdio.h>
#include <string.h>

// ---- the tracer

static void tracer_clear(th_tracer *t, th_ir *ir) {
  *t = (th_tracer){0};
  th_map_init(&t->states, &ir->arena);
  th_map_init(&t->now, &ir->arena);
}

void th_tracer_init(th_tracer *t, th_ir *ir, const char *name) {
  tracer_clear(t, ir);
  th_builder_init(&t->own, th_trace_new(ir, name));
  t->b = &t->own;
}

void th_tracer_wrap(th_tracer *t, th_builder *b) {
  tracer_clear(t, b->ir);
  t->b = b;
}

th_status th_tracer_status(const th_tracer *t) { return t->b->status; }

static th_context *tracer_context(const th_tracer *t) { return t->b->ir->ctx; }

typedef struct tracer_place {
  th_tracer *t;
  const char *file;
  int line;
  th_status (*fn)(void *);
  void *arg;
} tracer_place;

static th_status tracer_located(void *user) {
  tracer_place *p = user;
  if (p->file) {
    p->t->b->loc = (th_loc){th_ir_string(p->t->b->ir, p->file), p->line, 0};
  }
  return p->fn(p->arg);
}

th_status th_tracer_run(th_tracer *t, const char *file, int line,
                        th_status (*fn)(void *), void *arg) {
  if (t->b->status != TH_OK) {
    return t->b->status;
  }
  tracer_place place = {t, t->is_placed ? NULL : file, line, fn, arg};
  th_context *ctx = tracer_context(t);
  uint64_t errors = th_error_count(ctx);
  th_status status = th_protect(&ctx->unwind, tracer_located, &place);
  if (status == TH_NO_MEMORY && th_error_count(ctx) == errors) {
    th_error(ctx, status, TH_NOWHERE, "out of memory");
  }
  if (status != TH_OK) {
    t->b->status = status;
  }
  return status;
}

th_status th_tracer_error_at(TH_PLACE, th_status status, const char *fmt, ...) {
  char text[512];
  va_list args;
  if (t->b->status != TH_OK) {
    return t->b->status;
  }
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  t->b->status = status == TH_OK ? TH_INVALID : status;
  return th_error(tracer_context(t), t->b->status, (th_loc){file, line, 0},
                  "%s", text);
}

static th_status tracer_error(const th_tracer *t, th_status status,
                              const char *fmt, const char *name) {
  return th_error(tracer_context(t), status, t->b->loc, fmt, name);
}

// ---- scopes

typedef struct tracer_scope {
  th_tracer *t;
  const char *name;
} tracer_scope;

static th_status tracer_push(void *user) {
  const tracer_scope *s = user;
  th_tracer *t = s->t;
  th_arena *arena = &t->b->ir->arena;
  const char *path = *t->b->scope
                         ? th_arena_printf(arena, "%s.%s", t->b->scope, s->name)
                         : s->name;
  TH_PUSH(arena, t->scopes, t->scope_count, t->scope_cap) = t->b->scope;
  t->b->scope = th_ir_string(t->b->ir, path);
  return TH_OK;
}

void th_scope_push(th_tracer *t, const char *name) {
  tracer_scope s = {t, name};
  (void)th_tracer_run(t, NULL, 0, tracer_push, &s);
}

void th_scope_pop(th_tracer *t) {
  if (t->b->status == TH_OK && t->scope_count == 0) {
    t->b->status = th_error(tracer_context(t), TH_INVALID, t->b->loc,
                            "th_scope_pop without a th_scope_push");
  }
  if (t->b->status == TH_OK) {
    t->b->scope = t->scopes[--t->scope_count];
  }
}

const char *th_scope_path(const th_tracer *t) { return t->b->scope; }

// ---- parameters, buffers, constants

static const char *tracer_fqn(th_tracer *t, const char *name) {
  return *t->b->scope
             ? th_arena_printf(&t->b->ir->arena, "%s.%s", t->b->scope, name)
             : name;
}

// A name of the module that ends alike, for the message.
static const char *tracer_near(const th_module *m, const char *name) {
  const char *own = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
  for (size_t i = 0; m && i < m->slots.count; i++) {
    const char *key = m->slots.entries[i].key;
    const char *last = strrchr(key, '.') ? strrchr(key, '.') + 1 : key;
    if (strcmp(own, last) == 0) {
      return key;
    }
  }
  return m && m->slots.count ? m->slots.entries[0].key : NULL;
}

static th_type tracer_type_of(th_ir *ir, const th_tensor *tensor) {
  const th_expr **dims =
      TH_NEW_ARRAY(&ir->arena, const th_expr *, tensor->rank + 1);
  for (int d = 0; d < tensor->rank; d++) {
    dims[d] = th_int(ir, tensor->dims[d]);
  }
  th_type type = th_tensor_type(tensor->dtype, (uint8_t)tensor->rank, dims);
  type.device = tensor->device;
  if (!th_tensor_is_contiguous(tensor)) {
    const th_expr **strides =
        TH_NEW_ARRAY(&ir->arena, const th_expr *, tensor->rank + 1);
    for (int d = 0; d < tensor->rank; d++) {
      strides[d] = th_int(ir, tensor->strides[d]);
    }
    type.strides = strides;
  }
  return type;
}

typedef struct tracer_state_args {
  th_tracer *t;
  const char *name;
  th_module_kind kind;
  th_tensor *tensor; // of a constant
  th_value *value;
} tracer_state_args;

static th_tracer_state *tracer_add_state(th_tracer *t, const char *fqn,
                                         th_tensor *tensor, th_input input) {
  th_ir *ir = t->b->ir;
  th_type type = tracer_type_of(ir, tensor);
  th_tracer_state *s = TH_NEW(&ir->arena, th_tracer_state);
  input.fqn = fqn;
  s->tensor = tensor;
  s->input =
      th_trace_input(t->b->trace, &type, th_name_of_fqn(ir, fqn), &input);
  th_map_put(&t->states, fqn, s);
  return s;
}

static th_status tracer_missing(const th_tracer *t, const char *fqn,
                                th_module_kind kind) {
  const char *near = tracer_near(t->module, fqn);
  const char *what = kind == TH_MODULE_PARAM ? "parameter" : "buffer";
  return th_error(tracer_context(t), TH_NOT_FOUND, t->b->loc,
                  "the module has no %s '%s'%s%s%s", what, fqn,
                  near ? "; it has '" : "", near ? near : "", near ? "'" : "");
}

static th_status tracer_state(void *user) {
  tracer_state_args *a = user;
  th_tracer *t = a->t;
  if (t->around) {
    return tracer_error(t, TH_UNSUPPORTED,
                        "'%s' inside a branch: give it as an operand", a->name);
  }
  const char *fqn = tracer_fqn(t, a->name);
  const th_module_slot *slot =
      t->module ? th_module_find(t->module, fqn) : NULL;
  if (!slot || slot->kind != a->kind) {
    return tracer_missing(t, fqn, a->kind);
  }
  const th_tracer_state *s = th_map_get(&t->states, slot->fqn);
  if (!s) {
    th_input_kind kind =
        a->kind == TH_MODULE_PARAM ? TH_INPUT_PARAM : TH_INPUT_BUFFER;
    s = tracer_add_state(
        t, slot->fqn, slot->tensor,
        (th_input){.kind = kind, .persistent = slot->persistent});
  }
  th_value *now = th_map_get(&t->now, s->input->name);
  a->value = now ? now : s->input;
  return TH_OK;
}

th_value *th_param_at(TH_PLACE, const char *name) {
  tracer_state_args a = {t, name, TH_MODULE_PARAM, NULL, NULL};
  return th_tracer_run(t, file, line, tracer_state, &a) ? NULL : a.value;
}

th_value *th_buffer_at(TH_PLACE, const char *name) {
  tracer_state_args a = {t, name, TH_MODULE_BUFFER, NULL, NULL};
  return th_tracer_run(t, file, line, tracer_state, &a) ? NULL : a.value;
}

typedef struct tracer_has {
  th_tracer *t;
  const char *name;
  bool found;
} tracer_has;

static th_status tracer_find_param(void *user) {
  tracer_has *h = user;
  const th_module_slot *slot =
      h->t->module ? th_module_find(h->t->module, tracer_fqn(h->t, h->name))
                   : NULL;
  h->found = slot && slot->kind == TH_MODULE_PARAM;
  return TH_OK;
}

bool th_has_param(th_tracer *t, const char *name) {
  tracer_has h = {t, name, false};
  return th_tracer_run(t, NULL, 0, tracer_find_param, &h) == TH_OK && h.found;
}

static void tracer_drop_tensor(void *tensor) { th_tensor_release(tensor); }

static th_status tracer_constant(void *user) {
  tracer_state_args *a = user;
  th_tracer *t = a->t;
  if (!a->name) {
    return th_error(tracer_context(t), TH_INVALID, t->b->loc,
                    "a constant has no name");
  }
  if (t->around || !a->tensor) {
    return tracer_error(t, TH_INVALID,
                        t->around ? "constant '%s' inside a branch"
                                  : "constant '%s' has no tensor",
                        a->name);
  }
  const char *fqn = th_ir_string(t->b->ir, tracer_fqn(t, a->name));
  const th_tracer_state *s = th_map_get(&t->states, fqn);
  if (s && s->tensor != a->tensor) {
    return tracer_error(t, TH_INVALID,
                        "'%s' names another tensor of this trace", fqn);
  }
  if (!s) {
    // Before anything that may fail: the arena releases it.
    th_arena_defer(&t->b->ir->arena, tracer_drop_tensor,
                   th_tensor_retain(a->tensor));
    s = tracer_add_state(t, fqn, a->tensor,
                         (th_input){.kind = TH_INPUT_CONSTANT});
  }
  a->value = s->input;
  return TH_OK;
}

th_value *th_constant_at(TH_PLACE, const char *name, th_tensor *tensor) {
  tracer_state_args a = {t, name, TH_MODULE_BUFFER, tensor, NULL};
  return th_tracer_run(t, file, line, tracer_constant, &a) ? NULL : a.value;
}

// ---- mutation

typedef struct tracer_set {
  th_tracer *t;
  const char *name; // of a buffer; NULL: input `index`
  size_t index;
  th_value *value;
} tracer_set;

static const char *tracer_type_text(const th_tracer *t, const th_type *type) {
  th_buffer out;
  th_buffer_init(&out, &t->b->ir->arena);
  th_type_print(&out, type);
  return out.data;
}

static bool tracer_same_shape(const th_type *a, const th_type *b) {
  bool same = a->kind == TH_KIND_TENSOR && b->kind == TH_KIND_TENSOR &&
              a->dtype == b->dtype && a->rank == b->rank;
  for (uint8_t d = 0; same && d < a->rank; d++) {
    same = a->dims[d] == b->dims[d];
  }
  return same;
}

static th_status tracer_put(th_tracer *t, th_value *input, th_value *value) {
  if (!value || !tracer_same_shape(&input->type, &value->type)) {
    return th_error(
        tracer_context(t), TH_SHAPE, t->b->loc,
        "'%s' is \"%s\" and cannot hold %s%s%s", input->name,
        tracer_type_text(t, &input->type), value ? "\"" : "no value",
        value ? tracer_type_text(t, &value->type) : "", value ? "\"" : "");
  }
  if (!th_tracer_owns(t, value)) {
    return th_tracer_foreign(t, value);
  }
  th_map_put(&t->now, input->name, value);
  return TH_OK;
}

static th_status tracer_set_buffer(void *user) {
  tracer_set *s = user;
  tracer_state_args a = {s->t, s->name, TH_MODULE_BUFFER, NULL, NULL};
  TH_TRY(tracer_state(&a));
  const th_module_slot *slot =
      th_module_find(s->t->module, tracer_fqn(s->t, s->name));
  const th_tracer_state *state = th_map_get(&s->t->states, slot->fqn);
  return tracer_put(s->t, state->input, s->value);
}

static th_status tracer_set_input(void *user) {
  tracer_set *s = user;
  if (s->t->around || s->index >= s->t->user_input_count) {
    return th_error(tracer_context(s->t), TH_INVALID, s->t->b->loc,
                    "there is no input %zu to set", s->index);
  }
  return tracer_put(s->t, s->t->user_inputs[s->index], s->value);
}

void th_buffer_set_at(TH_PLACE, const char *name, th_value *value) {
  tracer_set s = {t, name, 0, value};
  (void)th_tracer_run(t, file, line, tracer_set_buffer, &s);
}

void th_input_set_at(TH_PLACE, size_t index, th_value *value) {
  tracer_set s = {t, NULL, index, value};
  (void)th_tracer_run(t, file, line, tracer_set_input, &s);
}

// ---- numbers

th_value *th_tracer_number(th_tracer *t, const th_expr *num) {
  th_value *value = TH_NEW(&t->b->ir->arena, th_value);
  value->type = th_number_type(num);
  value->name = "a number";
  value->slab = -1;
  return value;
}

typedef struct tracer_num {
  th_tracer *t;
  th_dtype dtype;
  int64_t i;
  double f;
  th_value *value;
} tracer_num;

static th_status tracer_make_number(void *user) {
  tracer_num *n = user;
  th_ir *ir = n->t->b->ir;
  n->value =
      th_tracer_number(n->t, n->dtype == TH_F64    ? th_float(ir, n->f)
                             : n->dtype == TH_BOOL ? th_bool(ir, n->i != 0)
                                                   : th_int(ir, n->i));
  return TH_OK;
}

static th_value *tracer_new_number(tracer_num n) {
  return th_tracer_run(n.t, NULL, 0, tracer_make_number, &n) ? NULL : n.value;
}

th_value *th_number(th_tracer *t, double value) {
  return tracer_new_number((tracer_num){t, TH_F64, 0, value, NULL});
}

th_value *th_integer(th_tracer *t, int64_t value) {
  return tracer_new_number((tracer_num){t, TH_I64, value, 0, NULL});
}

th_value *th_boolean(th_tracer *t, bool value) {
  return tracer_new_number((tracer_num){t, TH_BOOL, value, 0, NULL});
}

typedef struct tracer_size {
  th_tracer *t;
  const th_value *x;
  bool all;
  int dim;
  th_value *value;
} tracer_size;

static th_status tracer_take_size(void *user) {
  tracer_size *s = user;
  if (!s->x || s->x->type.kind != TH_KIND_TENSOR) {
    return tracer_error(s->t, TH_INVALID, "%s is no tensor: it has no sizes",
                        s->x ? s->x->name : "NULL");
  }
  const th_type *type = &s->x->type;
  int dim = s->dim < 0 ? s->dim + type->rank : s->dim;
  if (!s->all && (dim < 0 || dim >= type->rank)) {
    return th_error(tracer_context(s->t), TH_SHAPE, s->t->b->loc,
                    "'%s' is \"%s\" and has no dimension %d", s->x->name,
                    tracer_type_text(s->t, type), s->dim);
  }
  const th_expr *num =
      s->all ? th_type_numel(s->t->b->ir, type) : type->dims[dim];
  s->value = th_tracer_number(s->t, num);
  return TH_OK;
}

th_value *th_size_at(TH_PLACE, th_value *x, int dim) {
  tracer_size s = {t, x, false, dim, NULL};
  return th_tracer_run(t, file, line, tracer_take_size, &s) ? NULL : s.value;
}

th_value *th_numel_at(TH_PLACE, th_value *x) {
  tracer_size s = {t, x, true, 0, NULL};
  return th_tracer_run(t, file, line, tracer_take_size, &s) ? NULL : s.value;
}

void th_tracer_set_symbol(th_tracer *t, const th_expr *symbol,
                          th_scalar value) {
  th_arena *arena = &t->b->ir->arena;
  uint32_t index = symbol->symbol->index;
  while (index >= t->symbol_cap) {
    t->symbols =
        th_arena_grow(arena, t->symbols, &t->symbol_cap, sizeof *t->symbols);
  }
  while (index >= t->known_cap) {
    t->symbol_known = th_arena_grow(arena, t->symbol_known, &t->known_cap,
                                    sizeof *t->symbol_known);
  }
  t->symbols[index] = value;
  t->symbol_known[index] = true;
}

typedef struct tracer_eval {
  const th_tracer *t;
  bool known;
} tracer_eval;

static void tracer_see_symbol(void *user, const th_symbol *symbol) {
  tracer_eval *e = user;
  e->known = e->known && symbol->index < e->t->known_cap &&
             e->t->symbol_known[symbol->index];
}

bool th_tracer_eval(const th_tracer *t, const th_expr *num, th_scalar *out) {
  tracer_eval e = {t, true};
  th_expr_symbols(num, tracer_see_symbol, &e);
  return e.known && th_expr_eval(num, t->symbols, out);
}

void th_tracer_assume(th_tracer *t, const th_expr *condition) {
  th_arena *arena = &t->b->ir->arena;
  for (uint32_t i = 0; i < t->assumed_count; i++) {
    if (t->assumed[i] == condition) {
      return;
    }
  }
  TH_PUSH(arena, t->assumed, t->assumed_count, t->assumed_cap) = condition;
}

typedef struct tracer_known {
  th_tracer *t;
  const th_value *number;
  double f;
  int64_t i;
} tracer_known;

// What a symbol makes of it in this call, and a guard for the others.
static th_status tracer_fix(void *user) {
  tracer_known *k = user;
  th_tracer *t = k->t;
  th_ir *ir = t->b->ir;
  if (!k->number || k->number->type.kind != TH_KIND_NUMBER) {
    return tracer_error(t, TH_INVALID, "%s is no number",
                        k->number ? k->number->name : "NULL");
  }
  const th_expr *e = k->number->type.num;
  th_scalar v = {0};
  while (t->around) {
    t = t->around;
  }
  if (!th_tracer_eval(t, e, &v)) {
    return tracer_error(k->t, TH_UNSUPPORTED,
                        "%s depends on data or divides by zero: its value is "
                        "not known",
                        k->number->name);
  }
  k->f = e->dtype == TH_F64 ? v.f : (double)v.i;
  k->i = e->dtype == TH_F64 ? (int64_t)v.f : v.i;
  if (!th_is_const(e)) {
    const th_expr *is = e->dtype == TH_F64    ? th_float(ir, v.f)
                        : e->dtype == TH_BOOL ? th_bool(ir, v.i)
                                              : th_int(ir, v.i);
    th_tracer_assume(t,
                     th_expr_make(ir, TH_X_EQ, (const th_expr *[]){e, is}, 2));
  }
  return TH_OK;
}

double th_number_value_at(TH_PLACE, const th_value *number) {
  tracer_known k = {t, number, 0, 0};
  return th_tracer_run(t, file, line, tracer_fix, &k) ? 0 : k.f;
}

int64_t th_integer_value_at(TH_PLACE, const th_value *number) {
  tracer_known k = {t, number, 0, 0};
  return th_tracer_run(t, file, line, tracer_fix, &k) ? 0 : k.i;
}

// ---- values

static bool value_is(const th_value *value, th_kind kind) {
  return value && value->type.kind == kind;
}

bool th_value_is_tensor(const th_value *value) {
  return value_is(value, TH_KIND_TENSOR);
}

bool th_value_is_number(const th_value *value) {
  return value_is(value, TH_KIND_NUMBER);
}

th_dtype th_value_dtype(const th_value *value) {
  return th_value_is_tensor(value) || th_value_is_number(value)
             ? value->type.dtype
             : TH_DTYPE_COUNT;
}

int th_value_rank(const th_value *value) {
  return th_value_is_tensor(value) ? value->type.rank : -1;
}

int64_t th_value_dim(const th_value *value, int dim) {
  int rank = th_value_rank(value);
  dim += dim < 0 ? rank : 0;
  return dim >= 0 && dim < rank && th_is_const(value->type.dims[dim])
             ? value->type.dims[dim]->i
             : -1;
}

th_device th_value_device(const th_value *value) {
  return value ? value->type.device : (th_device){TH_CPU, 0};
}

const char *th_value_name(const th_value *value) {
  return value ? value->name : NULL;
}

const char *th_value_string(const th_value *value) {
  return value_is(value, TH_KIND_STRING) ? value->type.text : NULL;
}

const th_stmt *th_value_def(const th_value *value) {
  return value ? value->def : NULL;
}

const char *th_value_fqn(const th_value *value) {
  return value && value->input ? value->input->fqn : NULL;
}

typedef struct tracer_name {
  th_tracer *t;
  th_value *value;
  const char *name;
} tracer_name;

static th_status tracer_rename(void *user) {
  const tracer_name *n = user;
  if (!th_tracer_owns(n->t, n->value)) {
    return th_tracer_foreign(n->t, n->value);
  }
  th_value_rename(n->t->b->trace, n->value, n->name);
  return TH_OK;
}

void th_rename(th_tracer *t, th_value *value, const char *name) {
  tracer_name n = {t, value, name};
  if (th_value_is_tensor(value)) {
    (void)th_tracer_run(t, NULL, 0, tracer_rename, &n);
  }
}

// ---- operands

static th_arg tracer_value_arg(const th_value *value) {
  if (!value || value->type.kind == TH_KIND_NONE) {
    return th_none();
  }
  if (value->type.kind == TH_KIND_NUMBER) {
    return th_n(value->type.num);
  }
  return value->type.kind == TH_KIND_STRING
             ? th_s(value->type.text)
             : th_v((th_value *)(uintptr_t)value);
}

static th_arg tracer_dims_arg(th_tracer *t, const th_dims *dims) {
  th_arg items[TH_MAX_RANK];
  int count = dims->count < TH_MAX_RANK ? dims->count : TH_MAX_RANK;
  for (int i = 0; i < count; i++) {
    items[i] = dims->number[i] ? tracer_value_arg(dims->number[i])
                               : th_i(t->b->ir, dims->item[i]);
  }
  return th_list(t->b->ir, items, (uint32_t)count);
}

bool th_tracer_owns(const th_tracer *t, const th_value *value) {
  const th_trace *trace = t->b->trace;
  return t->only_types || !th_value_is_tensor(value) ||
         (value->id < trace->value_count && trace->values[value->id] == value);
}

th_status th_tracer_foreign(const th_tracer *t, const th_value *value) {
  return tracer_error(t, TH_INVALID,
                      t->around
                          ? "'%s' is made outside of this branch: give it as "
                            "an operand"
                          : "'%s' belongs to another trace",
                      value->name);
}

static th_status tracer_values_arg(th_tracer *t, const th_operand *o,
                                   th_arg *out) {
  th_arg *items = TH_NEW_ARRAY(&t->b->ir->arena, th_arg, o->count + 1);
  for (size_t i = 0; i < o->count; i++) {
    if (!th_tracer_owns(t, o->as.values[i])) {
      return th_tracer_foreign(t, o->as.values[i]);
    }
    items[i] = tracer_value_arg(o->as.values[i]);
  }
  *out = th_list(t->b->ir, items, (uint32_t)o->count);
  return TH_OK;
}

th_status th_tracer_arg(th_tracer *t, const th_operand *o, th_arg *out) {
  th_ir *ir = t->b->ir;
  *out = th_none();
  switch (o->kind) {
  case TH_OPERAND_NONE:
    break;
  case TH_OPERAND_VALUE:
    if (!th_tracer_owns(t, o->as.value)) {
      return th_tracer_foreign(t, o->as.value);
    }
    *out = tracer_value_arg(o->as.value);
    break;
  case TH_OPERAND_INT:
    *out = th_i(ir, o->as.i);
    break;
  case TH_OPERAND_FLOAT:
    *out = th_f(ir, o->as.f);
    break;
  case TH_OPERAND_BOOL:
    *out = th_b(ir, o->as.i != 0);
    break;
  case TH_OPERAND_STRING:
    *out = o->as.text ? th_s(th_ir_string(ir, o->as.text)) : th_none();
    break;
  case TH_OPERAND_DTYPE:
    *out = th_d(o->as.dtype);
    break;
  case TH_OPERAND_DEVICE:
    *out = (th_arg){.kind = TH_ARG_DEVICE, .device = o->as.device};
    break;
  case TH_OPERAND_INTS:
    *out = th_ints(ir, o->as.ints, (uint32_t)o->count);
    break;
  case TH_OPERAND_VALUES:
    return tracer_values_arg(t, o, out);
  case TH_OPERAND_DIMS:
    *out = tracer_dims_arg(t, o->as.dims);
    break;
  }
  return TH_OK;
}

// ---- arithmetic on numbers

static const th_expr *number_rounded(th_ir *ir, const th_expr *e, bool down) {
  // Towards zero, or towards minus infinity, of a quotient.
  th_expr_op op = down ? TH_X_FLOOR : TH_X_TRUNC;
  return e ? th_expr_make(ir, op, &e, 1) : NULL;
}

static const th_expr *number_logic(th_ir *ir, th_op op, const th_expr *x,
                                   const th_expr *y) {
  const th_expr *xy[] = {x, y}, *yx[] = {y, x};
  switch ((int)op) {
  case TH_OP_eq:
    return th_expr_make(ir, TH_X_EQ, xy, 2);
  case TH_OP_ne:
    return th_expr_make(ir, TH_X_NE, xy, 2);
  case TH_OP_lt:
    return th_expr_make(ir, TH_X_LT, xy, 2);
  case TH_OP_le:
    return th_expr_make(ir, TH_X_LE, xy, 2);
  case TH_OP_gt:
    return th_expr_make(ir, TH_X_LT, yx, 2);
  case TH_OP_ge:
    return th_expr_make(ir, TH_X_LE, yx, 2);
  case TH_OP_logical_and:
    return th_expr_make(ir, TH_X_AND, xy, 2);
  case TH_OP_logical_or:
    return th_expr_make(ir, TH_X_OR, xy, 2);
  default:
    return NULL;
  }
}

static const th_expr *number_binary(th_ir *ir, th_op op, const th_expr *x,
                                    const th_expr *y) {
  const th_expr *xy[] = {x, y};
  bool whole = x->dtype != TH_F64 && y->dtype != TH_F64;
  switch ((int)op) {
  case TH_OP_add:
    return th_expr_add(ir, x, y);
  case TH_OP_sub:
    return th_expr_sub(ir, x, y);
  case TH_OP_mul:
    return th_expr_mul(ir, x, y);
  case TH_OP_div:
    return th_expr_make(ir, TH_X_DIV, xy, 2);
  case TH_OP_floor_divide:
    return whole ? th_expr_floordiv(ir, x, y)
                 : number_rounded(ir, th_expr_make(ir, TH_X_DIV, xy, 2), true);
  case TH_OP_remainder:
    return th_expr_mod(ir, x, y);
  case TH_OP_pow:
    return th_expr_make(ir, TH_X_POW, xy, 2);
  case TH_OP_maximum:
    return th_expr_max(ir, x, y);
  case TH_OP_minimum:
    return th_expr_min(ir, x, y);
  default:
    return number_logic(ir, op, x, y);
  }
}

static const th_expr *number_unary(th_ir *ir, th_op op, const th_expr *x) {
  switch ((int)op) {
  case TH_OP_neg:
    return th_expr_sub(ir, th_int(ir, 0), x);
  case TH_OP_sqrt:
    return th_expr_make(ir, TH_X_SQRT, &x, 1);
  case TH_OP_floor:
    return th_expr_make(ir, TH_X_FLOOR, &x, 1);
  case TH_OP_ceil:
    return th_expr_make(ir, TH_X_CEIL, &x, 1);
  case TH_OP_trunc:
    return th_expr_make(ir, TH_X_TRUNC, &x, 1);
  case TH_OP_logical_not:
    return th_expr_make(ir, TH_X_NOT, &x, 1);
  default:
    return NULL;
  }
}

// ---- statements

typedef struct tracer_call {
  th_tracer *t;
  const th_op_info *op;
  const char *name; // NULL op: to be found
  const th_operand *operands;
  size_t count;
  th_value **out;
  size_t out_count;
} tracer_call;

static bool tracer_only_numbers(const tracer_call *c, const th_arg *args) {
  bool numbers = c->count > 0 && c->op->traits & TH_EW;
  for (size_t i = 0; i < c->count; i++) {
    numbers = numbers && args[i].kind == TH_ARG_NUM && args[i].num;
  }
  return numbers;
}

static th_status tracer_number_call(tracer_call *c, const th_arg *args) {
  th_ir *ir = c->t->b->ir;
  const th_expr *e =
      c->count == 1   ? number_unary(ir, c->op->op, args[0].num)
      : c->count == 2 ? number_binary(ir, c->op->op, args[0].num, args[1].num)
                      : NULL;
  if (!e) {
    return tracer_error(c->t, TH_UNSUPPORTED,
                        "%s: cannot be computed on these numbers alone; make a "
                        "tensor of one with th_full",
                        c->op->name);
  }
  if (c->out_count) {
    c->out[0] = th_tracer_number(c->t, e);
  }
  return TH_OK;
}

// A tensor that the row needs and that is not there: name the parameter.
static th_status tracer_check(const tracer_call *c, const th_arg *args) {
  for (size_t i = 0; i < c->count && i < c->op->param_count; i++) {
    const th_param *p = &c->op->params[i];
    bool is_null =
        c->operands[i].kind == TH_OPERAND_VALUE && args[i].kind == TH_ARG_NONE;
    if (is_null && !p->optional) {
      return th_error(tracer_context(c->t), TH_INVALID, c->t->b->loc,
                      "%s: argument '%s' is NULL", c->op->name, p->name);
    }
  }
  return TH_OK;
}

static th_status tracer_build(tracer_call *c, const th_arg *args) {
  th_builder *b = c->t->b;
  th_stmt *stmt = th_build(b, c->op, args, (uint32_t)c->count, NULL);
  if (!stmt) {
    return b->status;
  }
  for (size_t i = 0; i < c->out_count && i < stmt->out_count; i++) {
    th_value *out = stmt->outs[i];
    c->out[i] = out && out->type.kind == TH_KIND_NUMBER
                    ? th_tracer_number(c->t, out->type.num)
                    : out;
  }
  return TH_OK;
}

static th_status tracer_apply(void *user) {
  tracer_call *c = user;
  th_tracer *t = c->t;
  if (!c->op) {
    c->op = th_op_find(tracer_context(t), c->name, strlen(c->name));
    if (!c->op || c->op->traits & TH_STRUCT) {
      return tracer_error(t, TH_NOT_FOUND, "there is no operation '%s'",
                          c->name);
    }
  }
  th_arg *args = TH_NEW_ARRAY(&t->b->ir->arena, th_arg, c->count + 1);
  for (size_t i = 0; i < c->count; i++) {
    TH_TRY(th_tracer_arg(t, &c->operands[i], &args[i]));
  }
  TH_TRY(tracer_check(c, args));
  return tracer_only_numbers(c, args) ? tracer_number_call(c, args)
                                      : tracer_build(c, args);
}

static th_status tracer_call_op(th_tracer *t, const char *file, int line,
                                tracer_call call) {
  for (size_t i = 0; i < call.out_count; i++) {
    call.out[i] = NULL;
  }
  return th_tracer_run(t, file, line, tracer_apply, &call);
}

th_status th_tracer_ops(th_tracer *t, const char *file, int line,
                        const th_op_info *op, const th_operand *operands,
                        size_t count, th_value **out, size_t out_count) {
  return tracer_call_op(
      t, file, line,
      (tracer_call){t, op, op->name, operands, count, out, out_count});
}

th_value *th_tracer_op(th_tracer *t, const char *file, int line, th_op op,
                       const th_operand *operands, size_t count) {
  th_value *out = NULL;
  (void)th_tracer_ops(t, file, line, th_op_row(op), operands, count, &out, 1);
  return out;
}

th_status th_op_at(TH_PLACE, const char *name, const th_operand *operands,
                   size_t count, th_value **out, size_t out_count) {
  return tracer_call_op(
      t, file, line,
      (tracer_call){t, NULL, name, operands, count, out, out_count});
}

// What depends on sizes: shapes, window offsets, the slab, kernel numbers.
#include "exec/program_impl.h"

#include "base/alloc.h"

#include <string.h>

static th_status size_eval(th_frame *call, const th_sizes *s, const th_expr *e,
                           int64_t *out) {
  th_scalar v;
  if (!th_expr_eval(e, s->symbols, &v)) {
    return th_error(call->ctx, TH_INVALID, TH_NOWHERE,
                    "a size divides by zero");
  }
  *out = e->dtype == TH_F64 ? (int64_t)v.f : v.i;
  return TH_OK;
}

// ---- windows

static const th_expr *size_dim_of(th_ir *ir, const th_arg *arg, uint8_t rank) {
  int64_t d = arg->num->i;
  return th_int(ir, d < 0 ? d + rank : d);
}

// A start that may be negative or beyond the end, as slice takes it.
static const th_expr *size_clamped(th_ir *ir, const th_expr *at,
                                   const th_expr *dim) {
  const th_expr *zero = th_int(ir, 0);
  if (th_is_const(at) && at->i < 0) {
    at = th_expr_max(ir, th_expr_add(ir, at, dim), zero);
  } else if (!th_is_const(at)) {
    const th_expr *args[] = {
        th_expr_make(ir, TH_X_LT, (const th_expr *[]){at, zero}, 2),
        th_expr_max(ir, th_expr_add(ir, at, dim), zero), at};
    at = th_expr_make(ir, TH_X_ITE, args, 3);
  }
  return th_expr_min(ir, at, dim);
}

static const th_expr *size_split_start(th_ir *ir, const th_stmt *stmt,
                                       uint32_t out) {
  const th_expr *at = th_int(ir, 0);
  for (uint32_t i = 0; i < out; i++) {
    at = th_expr_add(ir, at, stmt->args[1].items[i].num);
  }
  return at;
}

static const th_expr *size_diagonal_offset(th_ir *ir, const th_stmt *stmt) {
  const th_type *x = &stmt->args[0].value->type;
  const th_expr *offset = stmt->args[1].num;
  int64_t d1 = size_dim_of(ir, &stmt->args[2], x->rank)->i;
  int64_t d2 = size_dim_of(ir, &stmt->args[3], x->rank)->i;
  bool below = th_is_const(offset) && offset->i < 0;
  const th_expr *stride = th_type_stride(ir, x, (uint8_t)(below ? d1 : d2));
  const th_expr *steps = below ? th_int(ir, -offset->i) : offset;
  return th_expr_mul(ir, steps, stride);
}

// In elements.
const th_expr *th_window_offset(th_ir *ir, const th_stmt *stmt, uint32_t out) {
  const th_type *x = &stmt->args[0].value->type;
  const th_expr *zero = th_int(ir, 0);
  int64_t dim = 0;
  const th_expr *at = NULL;
  switch (stmt->op->op) {
  case TH_OP_select:
    dim = size_dim_of(ir, &stmt->args[1], x->rank)->i;
    at = stmt->args[2].num;
    if (th_is_const(at)) {
      at = at->i < 0 ? th_expr_add(ir, at, x->dims[dim]) : at;
    } else {
      const th_expr *args[] = {
          th_expr_make(ir, TH_X_LT, (const th_expr *[]){at, zero}, 2),
          th_expr_add(ir, at, x->dims[dim]), at};
      at = th_expr_make(ir, TH_X_ITE, args, 3);
    }
    break;
  case TH_OP_slice:
    dim = size_dim_of(ir, &stmt->args[1], x->rank)->i;
    if (stmt->args[2].kind == TH_ARG_NONE) {
      return zero;
    }
    at = size_clamped(ir, stmt->args[2].num, x->dims[dim]);
    break;
  case TH_OP_split:
    dim = size_dim_of(ir, &stmt->args[2], x->rank)->i;
    at = size_split_start(ir, stmt, out);
    break;
  case TH_OP_unbind:
    dim = size_dim_of(ir, &stmt->args[1], x->rank)->i;
    at = th_int(ir, out);
    break;
  case TH_OP_diagonal:
    return size_diagonal_offset(ir, stmt);
  case TH_OP_as_strided:
    return stmt->args[3].kind == TH_ARG_NONE ? zero : stmt->args[3].num;
  default:
    return zero;
  }
  return th_expr_mul(ir, at, th_type_stride(ir, x, (uint8_t)dim));
}

// ---- values

static th_status size_shape(th_frame *call, th_sizes *s,
                            const th_value *value) {
  const th_type *type = &value->type;
  th_view *view = &s->views[value->id];
  int64_t *dims = TH_NEW_ARRAY(&s->arena, int64_t, 2 * type->rank + 1);
  int64_t *strides = dims + type->rank;
  int64_t stride = 1;
  for (uint8_t i = type->rank; i-- > 0;) {
    TH_TRY(size_eval(call, s, type->dims[i], &dims[i]));
    if (dims[i] < 0) {
      return th_error(call->ctx, TH_SHAPE, TH_NOWHERE,
                      "'%s' would have the size %lld in dimension %u",
                      value->name, (long long)dims[i], i);
    }
    strides[i] = stride;
    if (type->strides) {
      TH_TRY(size_eval(call, s, type->strides[i], &strides[i]));
    }
    stride *= dims[i] > 0 ? dims[i] : 1;
  }
  *view = (th_view){.dtype = type->dtype,
                    .device = type->device,
                    .rank = type->rank,
                    .dims = dims,
                    .strides = strides};
  return TH_OK;
}

// Where a value that a window or an update in place made lies in its base.
static th_status size_offset(th_frame *call, th_sizes *s,
                             const th_value *value) {
  const th_window *w = &call->program->windows[value->id];
  if (!w->from) {
    return TH_OK;
  }
  const th_value *from = w->from;
  int64_t elements = 0;
  if (w->offset) {
    TH_TRY(size_eval(call, s, w->offset, &elements));
  }
  s->offsets[value->id] = s->offsets[from->id] +
                          elements * (int64_t)th_dtype_size(from->type.dtype);
  return TH_OK;
}

static th_status size_value(th_frame *call, th_sizes *s,
                            const th_value *value) {
  if (value->type.kind != TH_KIND_TENSOR) {
    return TH_OK;
  }
  TH_TRY(size_shape(call, s, value));
  return size_offset(call, s, value);
}

// From the first byte to the last one that the strides reach.
static int64_t size_bytes(const th_view *view) {
  int64_t elements = 1, step = 0, bytes = 0;
  for (int i = 0; i < view->rank; i++) {
    if (view->dims[i] == 0) {
      return 0;
    }
    if (__builtin_mul_overflow(view->dims[i] - 1, view->strides[i], &step) ||
        __builtin_add_overflow(elements, step, &elements)) {
      return -1;
    }
  }
  return __builtin_mul_overflow(elements, (int64_t)th_dtype_size(view->dtype),
                                &bytes)
             ? -1
             : bytes;
}

// ---- the slab

static th_status size_plan(th_frame *call, th_sizes *s) {
  th_program *p = call->program;
  if (p->trace->slab_size >= 0 && p->is_static) {
    s->slab_bytes = p->trace->slab_size;
    for (uint32_t i = 0; i < p->buffers.count; i++) {
      const th_value *owner = p->buffers.owner[i];
      s->offsets[owner->id] = owner->slab > 0 ? owner->slab : 0;
    }
    return TH_OK;
  }
  th_slab_item *items =
      TH_NEW_ARRAY(&s->arena, th_slab_item, p->buffers.count + 1);
  uint32_t *which = TH_NEW_ARRAY(&s->arena, uint32_t, p->buffers.count + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->buffers.count; i++) {
    if (p->base_of_buffer[i] != TH_BASE_SLAB) {
      continue;
    }
    items[n] =
        (th_slab_item){.size = size_bytes(&s->views[p->buffers.owner[i]->id]),
                       .first = p->buffers.first[i],
                       .last = p->buffers.last[i]};
    which[n++] = i;
  }
  s->slab_bytes = th_slab_plan(&s->arena, items, n);
  if (s->slab_bytes < 0) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE,
                    "the intermediate results do not fit into memory");
  }
  for (uint32_t i = 0; i < n; i++) {
    s->offsets[p->buffers.owner[which[i]]->id] = items[i].offset;
  }
  return TH_OK;
}

// ---- what the shape rules took for granted

typedef struct size_known {
  const bool *known; // by symbol index
  bool all;
} size_known;

static void size_is_known(void *user, const th_symbol *symbol) {
  size_known *k = user;
  k->all = k->all && k->known[symbol->index];
}

static void size_set_known(void *user, const th_symbol *symbol) {
  bool *known = user;
  known[symbol->index] = true;
}

// The symbols that the inputs give.
static void size_known_inputs(const th_program *p, bool *known) {
  for (uint32_t i = 0; i < p->rule_count; i++) {
    if (p->rules[i].bind) {
      known[p->rules[i].symbol] = true;
    }
  }
  for (uint32_t i = 0; i < p->trace->input_count; i++) {
    const th_type *type = &p->trace->inputs[i]->type;
    if (type->kind == TH_KIND_NUMBER) {
      th_expr_symbols(type->num, size_set_known, known);
    }
  }
}

static void size_known_results(const th_stmt *stmt, bool *known) {
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    const th_type *type = stmt->outs[i] ? &stmt->outs[i]->type : NULL;
    if (type && type->kind == TH_KIND_NUMBER) {
      th_expr_symbols(type->num, size_set_known, known);
    }
    for (uint8_t d = 0; type && d < type->rank; d++) {
      th_expr_symbols(type->dims[d], size_set_known, known);
    }
  }
}

static th_status size_refuse(th_frame *call, th_expr_op op, int64_t a,
                             int64_t b) {
  if (op == TH_X_EQ) {
    return th_error(call->ctx, TH_SHAPE, TH_NOWHERE,
                    "two sizes that have to be equal are %lld and %lld",
                    (long long)a, (long long)b);
  }
  return th_error(call->ctx, TH_SHAPE, TH_NOWHERE,
                  "a size or index is out of range: %lld %s %lld does not hold",
                  (long long)a, op == TH_X_LT ? "<" : "<=", (long long)b);
}

// Of the conditions that were not checked yet, those that can be.
static th_status size_check_assumed(th_frame *call, th_sizes *s) {
  const th_ir *ir = call->program->ir;
  for (uint32_t i = 0; i < ir->assumed_count && i < s->assumed_count; i++) {
    const th_expr *c = ir->assumed[i];
    size_known k = {s->known, true};
    th_scalar v = {1}, a = {0}, b = {0};
    th_expr_symbols(c, size_is_known, &k);
    if (s->checked[i] || !k.all) {
      continue;
    }
    s->checked[i] = true;
    if (th_expr_eval(c, s->symbols, &v) && v.i == 0 && c->arg_count == 2) {
      th_expr_eval(c->args[0], s->symbols, &a);
      th_expr_eval(c->args[1], s->symbols, &b);
      return size_refuse(call, c->op, a.i, b.i);
    }
  }
  return TH_OK;
}

static void size_start_assumed(th_frame *call, th_sizes *s) {
  const th_ir *ir = call->program->ir;
  s->assumed_count = ir->assumed_count;
  s->checked = TH_NEW_ARRAY(&s->arena, bool, s->assumed_count + 1);
  s->known = TH_NEW_ARRAY(&s->arena, bool, s->symbol_count + 1);
  if (call->inherit) { // a branch: the trace around it knows them
    memset(s->known, true, s->symbol_count);
  }
  size_known_inputs(call->program, s->known);
}

// ---- steps

// In a program whose sizes depend on data the steps before this one have run.
static th_status size_step(th_frame *call, th_sizes *s, uint32_t index) {
  if (call->program->data_sizes && index > 0) {
    size_known_results(call->program->steps[index - 1].stmt, s->known);
    TH_TRY(size_check_assumed(call, s));
  }
  const th_kernel *k = call->program->steps[index].kernel;
  if (!k) {
    return TH_OK;
  }
  s->numbers[index] = TH_NEW_ARRAY(&s->arena, int64_t, k->number_count + 1);
  for (uint32_t i = 0; i < k->number_count; i++) {
    th_scalar v;
    if (!th_expr_eval(k->numbers[i], s->symbols, &v)) {
      return th_error(call->ctx, TH_INVALID, TH_NOWHERE,
                      "a number divides by zero");
    }
    s->numbers[index][i] = v.i;
  }
  return size_eval(call, s, k->extent, &s->extents[index]);
}

// ---- what becomes known while the program runs

typedef struct size_late {
  th_frame *call;
  const th_value *value; // NULL: a step
  uint32_t step;
} size_late;

static th_status size_now(void *user) {
  const size_late *l = user;
  return l->value ? size_value(l->call, l->call->sizes, l->value)
                  : size_step(l->call, l->call->sizes, l->step);
}

th_status th_sizes_value(th_frame *call, const th_value *value) {
  size_late late = {call, value, 0};
  return th_protect(&call->unwind, size_now, &late);
}

th_status th_sizes_step(th_frame *call, uint32_t step) {
  size_late late = {call, NULL, step};
  return th_protect(&call->unwind, size_now, &late);
}

// ---- all of it

static th_status size_fill(th_frame *call, th_sizes *s) {
  th_program *p = call->program;
  const th_trace *t = p->trace;
  size_start_assumed(call, s);
  TH_TRY(size_check_assumed(call, s));
  for (uint32_t i = 0; i < t->input_count; i++) {
    TH_TRY(size_value(call, s, t->inputs[i]));
  }
  if (p->data_sizes) {
    return TH_OK; // the rest when the steps come
  }
  for (uint32_t i = 1; i < t->value_count; i++) {
    if (t->values[i]->type.kind == TH_KIND_TENSOR) {
      TH_TRY(size_shape(call, s, t->values[i]));
    }
  }
  TH_TRY(size_plan(call, s));
  for (uint32_t i = 1; i < t->value_count; i++) { // operands come first
    if (t->values[i]->type.kind == TH_KIND_TENSOR) {
      TH_TRY(size_offset(call, s, t->values[i]));
    }
  }
  for (uint32_t i = 0; i < p->step_count; i++) {
    TH_TRY(size_step(call, s, i));
  }
  return TH_OK;
}

typedef struct size_make_args {
  th_frame *call;
  th_sizes *sizes;
  const th_scalar *symbols; // NULL: the program reads none
} size_make_args;

static th_status size_make(void *user) {
  size_make_args *a = user;
  th_program *p = a->call->program;
  th_sizes *s = a->sizes;
  s->symbols = TH_NEW_ARRAY(&s->arena, th_scalar, s->symbol_count + 1);
  if (a->symbols) {
    memcpy(s->symbols, a->symbols, s->symbol_count * sizeof *s->symbols);
  }
  s->views = TH_NEW_ARRAY(&s->arena, th_view, p->trace->value_count);
  s->offsets = TH_NEW_ARRAY(&s->arena, int64_t, p->trace->value_count);
  s->numbers = TH_NEW_ARRAY(&s->arena, int64_t *, p->step_count + 1);
  s->extents = TH_NEW_ARRAY(&s->arena, int64_t, p->step_count + 1);
  return size_fill(a->call, s);
}

void th_sizes_free(th_sizes *sizes) {
  if (sizes) {
    th_arena_deinit(&sizes->arena);
    th_free(sizes);
  }
}

// Under the lock: out of the table, and gone when no call uses it.
static void size_retire(th_program *p, uint32_t slot) {
  th_sizes *s = p->sizes[slot];
  p->sizes[slot] = NULL;
  if (s && s->users == 0) {
    th_sizes_free(s);
  } else if (s) {
    s->retired = true;
  }
}

void th_sizes_put(th_frame *call) {
  th_program *p = call->program;
  th_sizes *s = call->sizes;
  call->sizes = NULL;
  if (!s || p->is_static) {
    return;
  }
  if (p->data_sizes) {
    th_sizes_free(s);
    return;
  }
  pthread_mutex_lock(&p->lock);
  if (--s->users == 0 && s->retired) {
    th_sizes_free(s);
  }
  pthread_mutex_unlock(&p->lock);
}

static th_status size_new(th_frame *call, const th_scalar *symbols,
                          th_sizes **out) {
  th_sizes *s = th_calloc(1, sizeof *s);
  if (!s) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  s->symbol_count = call->program->ir->symbol_count;
  s->serial = atomic_fetch_add(&call->program->serial, 1) + 1;
  th_arena_init(&s->arena, &call->unwind);
  size_make_args args = {call, s, symbols};
  th_status status = th_protect(&call->unwind, size_make, &args);
  if (status != TH_OK) {
    th_sizes_free(s);
    return status;
  }
  *out = s;
  return TH_OK;
}

// ---- the symbols that the inputs give

typedef struct size_wrong {
  th_frame *call;
  const th_size_rule *rule;
  int64_t wanted;
} size_wrong;

static th_status size_tell(void *user) {
  const size_wrong *w = user;
  const th_value *in = w->call->program->trace->inputs[w->rule->input];
  const th_tensor *tensor = w->call->inputs[w->rule->input].tensor;
  char got[512];
  th_buffer text;
  th_arena scratch;
  th_arena_init(&scratch, &w->call->unwind);
  th_buffer_init(&text, &scratch);
  th_type_print(&text, &in->type);
  th_tensor_describe(tensor, got, sizeof got);
  th_status status = th_error(
      w->call->ctx, TH_SHAPE, TH_NOWHERE,
      "input '%s': dimension %u is %lld, not %lld: %s where \"%s\" is wanted",
      in->name, w->rule->dim, (long long)tensor->dims[w->rule->dim],
      (long long)w->wanted, got, text.data);
  th_arena_deinit(&scratch);
  return status;
}

static th_status size_mismatch(th_frame *call, const th_size_rule *rule,
                               int64_t wanted) {
  size_wrong wrong = {call, rule, wanted};
  return th_protect(&call->unwind, size_tell, &wrong);
}

static th_status size_bind(th_frame *call, const th_size_rule *rule,
                           th_scalar *symbols) {
  int64_t got = call->inputs[rule->input].tensor->dims[rule->dim];
  const th_symbol *symbol = call->program->ir->symbol_list[rule->symbol];
  int64_t value = (got - rule->add) / rule->scale;
  if ((got - rule->add) % rule->scale != 0 || value < symbol->min ||
      value > symbol->max) {
    return th_error(call->ctx, TH_SHAPE, TH_NOWHERE,
                    "input '%s': dimension %u is %lld, outside what the model "
                    "allows (%s in [%lld, %lld])",
                    call->program->trace->inputs[rule->input]->name, rule->dim,
                    (long long)got, symbol->name, (long long)symbol->min,
                    (long long)symbol->max);
  }
  symbols[rule->symbol].i = value;
  return TH_OK;
}

static th_status size_check(th_frame *call, const th_size_rule *rule,
                            const th_scalar *symbols) {
  th_scalar want;
  int64_t got = call->inputs[rule->input].tensor->dims[rule->dim];
  if (!th_expr_eval(rule->number, symbols, &want) || want.i != got) {
    return size_mismatch(call, rule, want.i);
  }
  return TH_OK;
}

static th_status size_symbols(th_frame *call, th_scalar *symbols) {
  const th_program *p = call->program;
  for (uint32_t i = 0; i < p->rule_count; i++) {
    TH_TRY(p->rules[i].bind ? size_bind(call, &p->rules[i], symbols)
                            : size_check(call, &p->rules[i], symbols));
  }
  for (uint32_t i = 0; i < p->trace->input_count; i++) {
    const th_type *type = &p->trace->inputs[i]->type;
    if (type->kind == TH_KIND_NUMBER && type->num->op == TH_X_SYM) {
      symbols[type->num->symbol->index] = call->inputs[i].num;
    }
  }
  return TH_OK;
}

static th_sizes *size_find(th_program *p, const th_scalar *symbols,
                           uint32_t *out_slot) {
  uint32_t oldest = 0;
  for (uint32_t i = 0; i < TH_SIZES_KEPT; i++) {
    th_sizes *s = p->sizes[i];
    if (!s) {
      *out_slot = i;
      return NULL;
    }
    if (memcmp(s->symbols, symbols, s->symbol_count * sizeof *symbols) == 0) {
      s->used = ++p->clock;
      return s;
    }
    oldest = s->used < p->sizes[oldest]->used ? i : oldest;
  }
  *out_slot = oldest;
  return NULL;
}

// With the lock held.
static th_status size_get_kept(th_frame *call, const th_scalar *symbols,
                               th_sizes **out) {
  th_program *p = call->program;
  uint32_t slot = 0;
  *out = size_find(p, symbols, &slot);
  if (!*out) {
    TH_TRY(size_new(call, symbols, out));
    (*out)->used = ++p->clock;
    p->stats.plans++;
    p->stats.slab_bytes = (*out)->slab_bytes;
    size_retire(p, slot);
    p->sizes[slot] = *out;
  }
  (*out)->users++;
  return TH_OK;
}

static th_status size_get_for(th_frame *call, const th_scalar *symbols,
                              th_sizes **out) {
  th_program *p = call->program;
  if (p->data_sizes) {
    return size_new(call, symbols, out);
  }
  if (p->is_static && p->sizes[0]) {
    *out = p->sizes[0];
    return TH_OK;
  }
  pthread_mutex_lock(&p->lock);
  th_status status = size_get_kept(call, symbols, out);
  pthread_mutex_unlock(&p->lock);
  return status;
}

th_status th_sizes_get(th_frame *call, th_sizes **out) {
  enum { FEW = 64 };
  if (call->guarded && call->program->is_static) {
    *out = call->program->sizes[0];
    return TH_OK;
  }
  th_scalar few[FEW] = {{0}};
  uint32_t n = call->program->ir->symbol_count;
  th_scalar *symbols = n <= FEW ? few : th_calloc(n, sizeof *symbols);
  if (!symbols) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  if (call->inherit) {
    memcpy(symbols, call->inherit, n * sizeof *symbols);
  }
  th_status status = size_symbols(call, symbols);
  if (status == TH_OK) {
    status = size_get_for(call, symbols, out);
  }
  if (symbols != few) {
    th_free(symbols);
  }
  return status;
}

// The sizes of a program without symbols, before its first call.
th_status th_sizes_fixed(th_frame *call) {
  return size_new(call, NULL, &call->program->sizes[0]);
}

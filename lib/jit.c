// Traced functions: from a call to compiled code.
//
//   call -- guards of the entry used last hold ---------------> run
//     `---- hash -- table -- guards of an entry hold ---------> run
//             `---- lock -- trace -- compile -- insert -------> run
//
// A hit takes no lock: entries never change and live as long as the callable;
// the table's slots are atomic, and a table that became too small stays until
// the callable goes, since somebody may read it.  Compilations use a context of
// the callable's own, so that they may happen on any thread, one at a time.
#include "callable.h"
#include "guards.h"
#include "module.h"
#include "tracer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "thunder/transform.h"

#include <stdio.h>
#include <string.h>

#define JIT_MANY 64 // entries that are worth a word

typedef struct jit_entry {
  th_entry *entry;
  th_guards guards;
  uint64_t hash;
  atomic_uint_fast64_t version; // of the module, when tensors were bound
  struct jit_entry *same_hash;  // older ones
  struct jit_entry *next;       // all, newest first
} jit_entry;

typedef struct jit_table {
  struct jit_table *outgrown; // kept for its readers
  uint32_t mask, count;
  _Atomic(jit_entry *) slots[];
} jit_table;

typedef struct jit_function {
  th_function function;
  void *user;
  size_t output_count;
  th_module *module;
  bool trusting;    // the first compilation serves every call
  th_context *work; // for traces and compilations, under the lock
  _Atomic(jit_entry *) last;
  _Atomic(jit_table *) table;
  jit_entry *entries;
  uint32_t entry_count;
} jit_function;

static th_status jit_no_memory(th_context *ctx) {
  return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
}

// ---- the table

static uint64_t jit_version(const jit_function *f) {
  return f->module
             ? atomic_load_explicit(&f->module->version, memory_order_acquire)
             : 0;
}

static bool jit_is_current(const jit_function *f, const jit_entry *e) {
  return atomic_load_explicit(&e->version, memory_order_acquire) ==
         jit_version(f);
}

// The entries of a hash, newest first.
static jit_entry *jit_chain(const jit_table *table, uint64_t hash) {
  if (!table) {
    return NULL;
  }
  for (uint32_t i = (uint32_t)hash & table->mask;; i = (i + 1) & table->mask) {
    jit_entry *e = atomic_load_explicit(&table->slots[i], memory_order_acquire);
    if (!e || e->hash == hash) {
      return e;
    }
  }
}

static void jit_store(jit_table *table, jit_entry *e) {
  uint32_t i = (uint32_t)e->hash & table->mask;
  for (;; i = (i + 1) & table->mask) {
    const jit_entry *there =
        atomic_load_explicit(&table->slots[i], memory_order_relaxed);
    if (!there || there->hash == e->hash) {
      table->count += !there;
      atomic_store_explicit(&table->slots[i], e, memory_order_release);
      return;
    }
  }
}

// A table with room for one more hash.
static jit_table *jit_table_for(jit_function *f) {
  jit_table *old = atomic_load(&f->table);
  if (old && old->count * 2 <= old->mask) {
    return old;
  }
  uint32_t slots = old ? 2 * (old->mask + 1) : 8;
  jit_table *table = th_calloc(1, sizeof *table + slots * sizeof *table->slots);
  if (!table) {
    return NULL;
  }
  table->mask = slots - 1;
  table->outgrown = old;
  for (uint32_t i = 0; old && i <= old->mask; i++) {
    jit_entry *e = atomic_load(&old->slots[i]);
    if (e) {
      jit_store(table, e);
    }
  }
  atomic_store_explicit(&f->table, table, memory_order_release);
  return table;
}

static void jit_entry_free(jit_entry *e) {
  if (e) {
    th_entry_free(e->entry);
    th_free(e);
  }
}

// ---- the module changed: the same code, if its tensors are alike

static bool jit_tensors_alike(const th_tensor *a, const th_tensor *b) {
  size_t size = (size_t)a->rank * sizeof(int64_t);
  return a->dtype == b->dtype && a->rank == b->rank &&
         th_device_equal(a->device, b->device) &&
         memcmp(a->dims, b->dims, size) == 0 &&
         memcmp(a->strides, b->strides, size) == 0;
}

static th_tensor *jit_bound_now(const jit_function *f, const jit_entry *e,
                                uint32_t input) {
  const th_trace *t = e->entry->compiled.history.traces[0];
  const th_input *in = t->inputs[input]->input;
  bool of_module = in->kind == TH_INPUT_PARAM || in->kind == TH_INPUT_BUFFER;
  return of_module ? th_module_tensor(f->module, in->fqn)
                   : e->entry->bound[input];
}

// Under the lock.
static bool jit_rebind(const jit_function *f, jit_entry *e) {
  const th_trace *t = e->entry->compiled.history.traces[0];
  th_tensor **bound = e->entry->bound;
  for (uint32_t i = 0; i < t->input_count; i++) {
    const th_tensor *now = bound[i] ? jit_bound_now(f, e, i) : NULL;
    if (bound[i] && (!now || !jit_tensors_alike(now, bound[i]))) {
      return false;
    }
  }
  for (uint32_t i = 0; i < t->input_count; i++) {
    if (bound[i]) {
      th_tensor *now = th_tensor_retain(jit_bound_now(f, e, i));
      th_tensor_release(bound[i]);
      bound[i] = now;
    }
  }
  atomic_store_explicit(&e->version, jit_version(f), memory_order_release);
  return true;
}

// ---- tracing

typedef struct jit_trace {
  const jit_function *f;
  const th_leaf *inputs;
  size_t count;
  bool symbolic;
  th_ir *ir;
  th_tracer tracer;
  const th_expr **sizes; // symbols of sizes
  uint32_t size_count, size_cap;
  th_value **in, **out;
  th_tensor **bound;
} jit_trace;

// Equal sizes are one symbol: they are more often equal by nature than by
// chance, and by chance costs one more compilation.
static const th_expr *jit_size(jit_trace *j, int64_t size) {
  if (!j->symbolic || size < 2) {
    return th_int(j->ir, size);
  }
  for (uint32_t i = 0; i < j->size_count; i++) {
    if (j->tracer.symbols[j->sizes[i]->symbol->index].i == size) {
      return j->sizes[i];
    }
  }
  const th_expr *e = th_sym_fresh(j->ir, "s", TH_I64);
  th_sym_range(j->ir, e, 2, INT64_MAX);
  th_tracer_set_symbol(&j->tracer, e, (th_scalar){.i = size});
  TH_PUSH(&j->ir->arena, j->sizes, j->size_count, j->size_cap) = e;
  return e;
}

static th_type jit_tensor_type(jit_trace *j, const th_tensor *tensor) {
  th_arena *arena = &j->ir->arena;
  const th_expr **dims = TH_NEW_ARRAY(arena, const th_expr *, tensor->rank + 1);
  for (int d = 0; d < tensor->rank; d++) {
    dims[d] = jit_size(j, tensor->dims[d]);
  }
  th_type type = th_tensor_type(tensor->dtype, (uint8_t)tensor->rank, dims);
  type.device = tensor->device;
  if (!j->symbolic && !th_tensor_is_contiguous(tensor)) {
    const th_expr **strides =
        TH_NEW_ARRAY(arena, const th_expr *, tensor->rank + 1);
    for (int d = 0; d < tensor->rank; d++) {
      strides[d] = th_int(j->ir, tensor->strides[d]);
    }
    type.strides = strides;
  }
  return type;
}

static th_type jit_number_type(jit_trace *j, const th_leaf *leaf,
                               const char *name) {
  th_dtype dtype = leaf->kind == TH_LEAF_FLOAT ? TH_F64
                   : leaf->kind == TH_LEAF_INT ? TH_I64
                                               : TH_BOOL;
  th_scalar value = {.i = leaf->i};
  if (dtype == TH_F64) {
    value.f = leaf->f;
  }
  if (j->symbolic && dtype != TH_BOOL) {
    const th_expr *e = th_sym(j->ir, name, dtype);
    th_tracer_set_symbol(&j->tracer, e, value);
    return th_number_type(e);
  }
  return th_number_type(dtype == TH_F64    ? th_float(j->ir, value.f)
                        : dtype == TH_BOOL ? th_bool(j->ir, value.i != 0)
                                           : th_int(j->ir, value.i));
}

static th_status jit_input(jit_trace *j, size_t index) {
  const th_leaf *leaf = &j->inputs[index];
  const char *name = th_arena_printf(&j->ir->arena, "in%zu", index);
  th_type type = {.kind = TH_KIND_NONE};
  switch (leaf->kind) {
  case TH_LEAF_TENSOR:
    if (!leaf->tensor) {
      return th_error(j->f->work, TH_INVALID, TH_NOWHERE, "input %zu is NULL",
                      index);
    }
    type = jit_tensor_type(j, leaf->tensor);
    break;
  case TH_LEAF_INT:
  case TH_LEAF_FLOAT:
  case TH_LEAF_BOOL:
    type = jit_number_type(j, leaf, name);
    break;
  case TH_LEAF_STRING:
    type.kind = TH_KIND_STRING;
    type.text = th_ir_string(j->ir, leaf->text ? leaf->text : "");
    break;
  case TH_LEAF_NONE:
    break;
  }
  j->in[index] = th_trace_input(j->tracer.b->trace, &type, name, NULL);
  return TH_OK;
}

// Two sizes that a rule wants to be equal.
static bool jit_assume(void *user, const th_expr *a, const th_expr *b) {
  th_tracer *t = user;
  th_scalar x, y;
  const th_expr *args[] = {a, b};
  if (!th_tracer_eval(t, a, &x) || !th_tracer_eval(t, b, &y)) {
    return true; // known when the program runs
  }
  if (x.i != y.i) {
    return false;
  }
  th_tracer_assume(t, th_expr_make(t->b->ir, TH_X_EQ, args, 2));
  return true;
}

static th_status jit_begin(void *user) {
  jit_trace *j = user;
  th_arena *arena = &j->ir->arena;
  th_tracer_init(&j->tracer, j->ir, "computation");
  j->tracer.module = j->f->module;
  j->in = TH_NEW_ARRAY(arena, th_value *, j->count + 1);
  j->out = TH_NEW_ARRAY(arena, th_value *, j->f->output_count + 1);
  for (size_t i = 0; i < j->count; i++) {
    TH_TRY(jit_input(j, i));
  }
  j->tracer.user_inputs = j->in;
  j->tracer.user_input_count = (uint32_t)j->count;
  j->ir->assume = jit_assume;
  j->ir->assume_user = &j->tracer;
  return TH_OK;
}

static th_status jit_end(void *user) {
  jit_trace *j = user;
  TH_TRY(th_tracer_finish(&j->tracer, j->out, j->f->output_count));
  const th_trace *t = j->tracer.b->trace;
  j->bound = TH_NEW_ARRAY(&j->ir->arena, th_tensor *, t->input_count + 1);
  for (uint32_t i = 0; i < t->input_count; i++) {
    const char *fqn = t->inputs[i]->input->fqn;
    const th_tracer_state *s = fqn ? th_map_get(&j->tracer.states, fqn) : NULL;
    j->bound[i] = s ? s->tensor : NULL;
  }
  return TH_OK;
}

// The function itself runs unprotected: each of its calls protects itself.
static th_status jit_run_function(jit_trace *j) {
  const jit_function *f = j->f;
  th_context *ctx = f->work;
  TH_TRY(th_protect(&ctx->unwind, jit_begin, j));
  uint64_t errors = th_error_count(ctx);
  th_status status = f->function(&j->tracer, j->in, j->count, j->out,
                                 f->output_count, f->user);
  TH_TRY(th_tracer_status(&j->tracer));
  if (status != TH_OK) {
    return th_error_count(ctx) == errors
               ? th_error(ctx, status, TH_NOWHERE, "the function failed: %s",
                          th_status_text(status))
               : status;
  }
  return th_protect(&ctx->unwind, jit_end, j);
}

// ---- compiling

typedef struct jit_guards {
  const jit_trace *j;
  jit_entry *e;
} jit_guards;

static th_status jit_make_guards(void *user) {
  const jit_guards *a = user;
  const jit_trace *j = a->j;
  th_prologue from = {.computation = j->tracer.b->trace,
                      .conditions = j->tracer.assumed,
                      .condition_count = j->tracer.assumed_count,
                      .any_strides = j->symbolic};
  th_trace *prologue = NULL;
  TH_TRY(th_prologue_build(&from, &prologue));
  a->e->entry->prologue = prologue;
  return th_guards_read(prologue, &j->ir->arena, &a->e->guards);
}

static th_status jit_compile_as(th_callable *callable, const th_leaf *inputs,
                                size_t count, bool symbolic, jit_entry **out) {
  jit_function *f = callable->function;
  jit_trace j = {.f = f,
                 .inputs = inputs,
                 .count = count,
                 .symbolic = symbolic,
                 .ir = th_ir_new(f->work)};
  int64_t start = th_clock_ns();
  th_status status = j.ir ? jit_run_function(&j) : TH_NO_MEMORY;
  callable->trace_ns += th_clock_ns() - start;
  jit_entry *e = status == TH_OK ? th_calloc(1, sizeof *e) : NULL;
  if (!e) {
    th_ir_release(j.ir);
    return status == TH_OK ? jit_no_memory(f->work) : status;
  }
  jit_guards guards = {&j, e};
  status = th_callable_add(callable, j.tracer.b->trace, j.bound, &e->entry);
  if (status == TH_OK) {
    status = th_protect(&f->work->unwind, jit_make_guards, &guards);
    j.ir->assume = NULL;
  }
  if (status != TH_OK) {
    jit_entry_free(e);
    return status;
  }
  atomic_init(&e->version, jit_version(f));
  *out = e;
  return TH_OK;
}

// With symbols when that is asked for and possible.
static th_status jit_compile(th_callable *callable, const th_leaf *inputs,
                             size_t count, jit_entry **out) {
  jit_function *f = callable->function;
  bool symbolic = callable->options.cache == TH_CACHE_SYMBOLIC_VALUES;
  uint64_t errors = th_error_count(f->work);
  th_status status = jit_compile_as(callable, inputs, count, symbolic, out);
  if (symbolic && status != TH_OK && status != TH_NO_MEMORY) {
    th_diagnostics_clear(f->work);
    errors = th_error_count(f->work);
    status = jit_compile_as(callable, inputs, count, false, out);
  }
  if (status == TH_NO_MEMORY && th_error_count(f->work) == errors) {
    jit_no_memory(f->work);
  }
  return status;
}

static void jit_explain(th_callable *callable, const th_leaf *inputs,
                        size_t count) {
  const jit_function *f = callable->function;
  const jit_entry *newest = f->entries;
  char *buffer = callable->reason_text;
  size_t size = sizeof callable->reason_text;
  if (callable->options.cache == TH_CACHE_NONE) {
    snprintf(buffer, size, "nothing is cached");
  } else if (!newest) {
    snprintf(buffer, size, "the first call");
  } else {
    th_guards_reason(&newest->guards, inputs, count, buffer, size);
  }
}

// No entry ever goes, so a caller with ever new sizes or numbers should know.
static void jit_keep(th_callable *callable, jit_table *table, jit_entry *e) {
  jit_function *f = callable->function;
  e->next = f->entries;
  e->same_hash = jit_chain(table, e->hash);
  f->entries = e;
  jit_store(table, e);
  if (++f->entry_count == JIT_MANY) {
    th_log(f->work, TH_LOG_WARN,
           "%d compilations are kept for one callable, the newest because of "
           "%s (see th_cache_mode)",
           JIT_MANY, callable->reason_text);
  }
}

// Under the lock: traces, compiles, and keeps the entry unless its memory or
// the function fails.
static th_status jit_miss(th_callable *callable, th_context *diagnostics,
                          const th_leaf *inputs, size_t count, uint64_t hash,
                          jit_entry **out) {
  jit_function *f = callable->function;
  jit_entry *e = NULL;
  jit_table *table = jit_table_for(f);
  jit_explain(callable, inputs, count);
  callable->misses++;
  th_status status =
      table ? jit_compile(callable, inputs, count, &e) : jit_no_memory(f->work);
  th_diagnostics_move(diagnostics, f->work);
  TH_TRY(status);
  e->hash = hash;
  jit_keep(callable, table, e);
  callable->newest = e->entry;
  *out = e;
  return TH_OK;
}

// ---- finding

static bool jit_holds(const jit_function *f, const jit_entry *e,
                      const th_leaf *inputs, size_t count) {
  return f->trusting || th_guards_hold(&e->guards, inputs, count);
}

static jit_entry *jit_lookup(const jit_function *f, const th_leaf *inputs,
                             size_t count, uint64_t hash) {
  const jit_table *table =
      atomic_load_explicit(&f->table, memory_order_acquire);
  for (jit_entry *e = jit_chain(table, hash); e; e = e->same_hash) {
    if (jit_is_current(f, e) && jit_holds(f, e, inputs, count)) {
      return e;
    }
  }
  return NULL;
}

// Entries that only have other tensors to bind.
static jit_entry *jit_lookup_stale(const jit_function *f, const th_leaf *inputs,
                                   size_t count, uint64_t hash) {
  for (jit_entry *e = jit_chain(atomic_load(&f->table), hash); e;
       e = e->same_hash) {
    if (jit_holds(f, e, inputs, count) && jit_rebind(f, e)) {
      return e;
    }
  }
  return NULL;
}

static th_status jit_find_locked(th_callable *callable, th_context *diagnostics,
                                 const th_leaf *inputs, size_t count,
                                 uint64_t hash, jit_entry **out) {
  jit_function *f = callable->function;
  *out = jit_lookup(f, inputs, count, hash);
  if (!*out) {
    *out = jit_lookup_stale(f, inputs, count, hash);
  }
  if (*out) {
    atomic_fetch_add_explicit(&callable->hits, 1, memory_order_relaxed);
    return TH_OK;
  }
  return jit_miss(callable, diagnostics, inputs, count, hash, out);
}

static th_status jit_find(th_callable *callable, th_context *diagnostics,
                          const th_leaf *inputs, size_t count, th_entry **out) {
  jit_function *f = callable->function;
  jit_entry *e = atomic_load_explicit(&f->last, memory_order_acquire);
  bool hit = e && jit_is_current(f, e) && jit_holds(f, e, inputs, count);
  if (!hit) {
    bool symbolic = callable->options.cache == TH_CACHE_SYMBOLIC_VALUES;
    uint64_t hash = f->trusting ? 0 : th_guards_hash(inputs, count, symbolic);
    e = jit_lookup(f, inputs, count, hash);
    hit = e != NULL;
    if (!hit) {
      pthread_mutex_lock(&callable->lock);
      th_status status =
          jit_find_locked(callable, diagnostics, inputs, count, hash, &e);
      pthread_mutex_unlock(&callable->lock);
      TH_TRY(status);
    }
    atomic_store_explicit(&f->last, e, memory_order_release);
  }
  if (hit) {
    atomic_fetch_add_explicit(&callable->hits, 1, memory_order_relaxed);
  }
  *out = e->entry;
  return TH_OK;
}

// Every call traces and compiles; what the newest one left is kept for the
// reports.
static th_status jit_call_uncached(th_callable *callable,
                                   const th_call_args *call) {
  jit_function *f = callable->function;
  jit_entry *e = NULL;
  pthread_mutex_lock(&callable->lock);
  jit_explain(callable, call->inputs, call->input_count);
  callable->misses++;
  th_status status = jit_compile(callable, call->inputs, call->input_count, &e);
  th_diagnostics_move(call->ctx, f->work);
  if (status == TH_OK) {
    jit_entry_free(f->entries);
    f->entries = e;
    callable->newest = e->entry;
    status = th_entry_call(callable, e->entry, call);
  }
  pthread_mutex_unlock(&callable->lock);
  return status;
}

static th_status jit_call(th_callable *callable, const th_call_args *call) {
  th_entry *entry = NULL;
  if (callable->options.cache == TH_CACHE_NONE) {
    return jit_call_uncached(callable, call);
  }
  TH_TRY(
      jit_find(callable, call->ctx, call->inputs, call->input_count, &entry));
  th_call_args guarded = *call;
  guarded.guarded = !((const jit_function *)callable->function)->trusting;
  return th_entry_call(callable, entry, &guarded);
}

// ---- making and freeing

static void jit_release(th_callable *callable) {
  jit_function *f = callable->function;
  while (f->entries) {
    jit_entry *e = f->entries;
    f->entries = e->next;
    jit_entry_free(e);
  }
  for (jit_table *t = atomic_load(&f->table); t;) {
    jit_table *outgrown = t->outgrown;
    th_free(t);
    t = outgrown;
  }
  th_module_release(f->module);
  th_context_free(f->work);
  th_free(f);
}

// A context with the executors and operations that `from` has now.
static th_status jit_context(th_context *from, th_context **out) {
  *out = th_context_new();
  if (!*out) {
    return jit_no_memory(from);
  }
  th_set_log(*out, from->log_level, from->log, from->log_user);
  (*out)->logs_no_diagnostics = true;
  TH_TRY(th_ops_share(*out, from));
  return th_executors_share(*out, from);
}

static th_status jit_transform_module(const th_callable *c, th_module *module) {
  for (size_t i = 0; i < c->options.transform_count; i++) {
    const th_transform *t = &c->options.transforms[i];
    if (t->stage == TH_ON_MODULE) {
      th_status status = module ? t->module(module, t->user) : TH_INVALID;
      if (status != TH_OK) {
        return th_error(c->ctx, status, TH_NOWHERE, "transform '%s': %s",
                        t->name,
                        module ? th_status_text(status) : "there is no module");
      }
    }
  }
  return TH_OK;
}

th_status th_jit(th_context *ctx, th_function function, void *user,
                 th_module *module, size_t output_count,
                 const th_jit_options *options, th_callable **out_callable) {
  th_callable *c = NULL;
  *out_callable = NULL;
  if (!function) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "th_jit: the function is NULL");
  }
  TH_TRY(th_callable_new(ctx, options, &c));
  jit_function *f = th_calloc(1, sizeof *f);
  th_status status =
      f ? th_callable_check_weights(c, false) : jit_no_memory(ctx);
  if (status == TH_OK) {
    status = jit_context(ctx, &f->work);
  }
  if (f) {
    f->function = function;
    f->user = user;
    f->output_count = output_count;
    f->module = module ? th_module_retain(module) : NULL;
    f->trusting = c->options.cache == TH_CACHE_SAME_INPUT;
    c->function = f;
    c->call = jit_call;
    c->release = jit_release;
  }
  if (status == TH_OK) {
    status = jit_transform_module(c, module);
  }
  if (status != TH_OK) {
    th_callable_free(c);
    return status;
  }
  *out_callable = c;
  return TH_OK;
}

// Callables: entries, calls, reports.
#include "callable.h"

#include "base/alloc.h"
#include "base/pool.h"
#include "thunder/transform.h"

#include <string.h>

// ---- making

// What a caller got wrong in the options.
static th_status callable_check(th_context *ctx, const th_jit_options *o) {
  if ((unsigned)o->cache > TH_CACHE_NONE) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "th_jit_options: there is no cache mode %d", (int)o->cache);
  }
  if (o->threads < 0) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "th_jit_options: threads is %d", o->threads);
  }
  if (o->transform_count && !o->transforms) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "th_jit_options: transforms is NULL, not %zu of them",
                    o->transform_count);
  }
  return o->passes ? th_manager_check(ctx, o->passes) : TH_OK;
}

static th_status callable_check_transform(th_context *ctx,
                                          const th_transform *t) {
  if (!t->name) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE, "a transform has no name");
  }
  bool fits = t->stage == TH_ON_MODULE
                  ? t->module != NULL
                  : t->trace && (unsigned)t->stage <= TH_AFTER_CLAIM;
  return fits ? TH_OK
              : th_error(ctx, TH_INVALID, TH_NOWHERE,
                         "transform '%s' has no function for its stage",
                         t->name);
}

// Each as large as its writer knew it.
static th_status callable_copy_transforms(th_callable *c) {
  size_t count = c->options.transform_count;
  const char *at = (const char *)c->options.transforms;
  th_transform *copies = TH_NEW_ARRAY(&c->arena, th_transform, count + 1);
  for (size_t i = 0; i < count; i++) {
    size_t size = ((const th_transform *)(const void *)at)->size;
    if (size < sizeof size) {
      return th_error(c->ctx, TH_INVALID, TH_NOWHERE,
                      "transform %zu: size is %zu, not sizeof(th_transform)", i,
                      size);
    }
    memcpy(&copies[i], at, size < sizeof *copies ? size : sizeof *copies);
    TH_TRY(callable_check_transform(c->ctx, &copies[i]));
    copies[i].name = th_arena_strdup(&c->arena, copies[i].name);
    at += size;
  }
  c->options.transforms = copies;
  return TH_OK;
}

static const char *callable_copy_text(th_callable *c, const char *text) {
  return text ? th_arena_strdup(&c->arena, text) : NULL;
}

static th_status callable_copy_options(void *user) {
  th_callable *c = user;
  th_jit_options *o = &c->options;
  o->executors = callable_copy_text(c, o->executors);
  o->passes = callable_copy_text(c, o->passes);
  o->dump_traces = callable_copy_text(c, o->dump_traces);
  o->weights = callable_copy_text(c, o->weights);
  o->threads = th_pool_threads(o->threads);
  TH_TRY(callable_copy_transforms(c));
  return th_executor_resolve(
      c->ctx, &c->arena,
      o->executors ? o->executors : th_executor_default(TH_CPU), &c->executors);
}

th_status th_callable_check_weights(const th_callable *c, bool has_archive) {
  const char *w = c->options.weights;
  if (!w || strcmp(w, "f32") == 0) {
    return TH_OK;
  }
  if (strcmp(w, "bf16") != 0 && strcmp(w, "i8") != 0) {
    return th_error(c->ctx, TH_INVALID, TH_NOWHERE,
                    "weights in '%.40s': they can be f32, bf16 or i8", w);
  }
  return has_archive
             ? TH_OK
             : th_error(c->ctx, TH_INVALID, TH_NOWHERE,
                        "weights in '%s' are made of an archive's, and there "
                        "is none",
                        w);
}

th_status th_callable_new(th_context *ctx, const th_jit_options *options,
                          th_callable **out) {
  th_jit_options own = TH_JIT_OPTIONS_INIT;
  size_t n = options ? options->size : sizeof own;
  if (n < sizeof n) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "th_jit_options: size is %zu, not sizeof(th_jit_options)",
                    n);
  }
  if (options) {
    memcpy(&own, options, n < sizeof own ? n : sizeof own);
  }
  TH_TRY(callable_check(ctx, &own));
  th_callable *c = th_calloc(1, sizeof *c);
  if (!c) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  c->ctx = ctx;
  c->options = own;
  pthread_mutex_init(&c->lock, NULL);
  th_arena_init(&c->arena, &ctx->unwind);
  th_arena_init(&c->claims, &ctx->unwind);
  th_map_init(&c->types, &c->arena);
  th_status status = th_protect(&ctx->unwind, callable_copy_options, c);
  if (status != TH_OK) {
    th_callable_free(c);
    return status == TH_NO_MEMORY
               ? th_error(ctx, status, TH_NOWHERE, "out of memory")
               : status;
  }
  *out = c;
  return TH_OK;
}

void th_entry_free(th_entry *entry) {
  if (!entry) {
    return;
  }
  const th_history *h = &entry->compiled.history;
  uint32_t inputs = h->count ? h->traces[0]->input_count : 0;
  for (uint32_t i = 0; entry->bound && i < inputs; i++) {
    th_tensor_release(entry->bound[i]);
  }
  th_free(entry->bound);
  th_free(entry->user);
  th_compiled_deinit(&entry->compiled);
  th_free(entry);
}

void th_callable_free(th_callable *callable) {
  if (!callable) {
    return;
  }
  if (callable->release) {
    callable->release(callable);
  } else {
    th_entry_free(callable->newest);
  }
  pthread_mutex_destroy(&callable->lock);
  th_arena_deinit(&callable->claims);
  th_arena_deinit(&callable->arena);
  th_free(callable);
}

static const th_trace *entry_trace(const th_entry *entry) {
  return entry->compiled.history.traces[0];
}

static th_status entry_bind(th_context *ctx, th_entry *entry, uint32_t count,
                            th_tensor *const *bound) {
  entry->bound = th_calloc(count + 1, sizeof(th_tensor *));
  entry->user = th_calloc(count + 1, sizeof *entry->user);
  if (!entry->bound || !entry->user) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  for (uint32_t i = 0; i < count; i++) {
    if (bound && bound[i]) {
      entry->bound[i] = th_tensor_retain(bound[i]);
    } else {
      entry->user[entry->user_count++] = i;
    }
  }
  return TH_OK;
}

th_status th_callable_add(th_callable *callable, th_trace *trace,
                          th_tensor *const *bound, th_entry **out) {
  th_context *ctx = trace->ir->ctx;
  th_entry *entry = th_calloc(1, sizeof *entry);
  if (!entry) {
    th_ir_release(trace->ir);
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  th_status status = th_compile(ctx, trace, &callable->options,
                                &callable->executors, &entry->compiled);
  if (status == TH_OK) {
    status = entry_bind(ctx, entry, trace->input_count, bound);
  }
  if (status != TH_OK) {
    th_entry_free(entry);
    return status;
  }
  callable->passes_ns += entry->compiled.passes_ns;
  callable->codegen_ns += entry->compiled.codegen_ns;
  *out = entry;
  return TH_OK;
}

// ---- calling

static const char *call_leaf_text(th_leaf_kind kind) {
  static const char *const texts[] = {
      [TH_LEAF_NONE] = "None",      [TH_LEAF_TENSOR] = "a tensor",
      [TH_LEAF_INT] = "an integer", [TH_LEAF_FLOAT] = "a float",
      [TH_LEAF_BOOL] = "a bool",    [TH_LEAF_STRING] = "a string"};
  return (size_t)kind < TH_COUNT(texts) ? texts[kind] : "nothing known";
}

static const char *call_traced_text(const th_type *type) {
  switch (type->kind) {
  case TH_KIND_TENSOR:
    return "a tensor";
  case TH_KIND_NUMBER:
    return type->dtype == TH_F64 ? "a number" : "an integer or a bool";
  case TH_KIND_STRING:
    return "a string";
  default:
    return "None";
  }
}

static th_status call_input(th_context *ctx, const th_value *in,
                            const th_leaf *leaf, th_program_value *out) {
  bool fits = true;
  out->kind = in->type.kind;
  switch (in->type.kind) {
  case TH_KIND_TENSOR:
    fits = leaf->kind == TH_LEAF_TENSOR;
    out->tensor = leaf->tensor;
    break;
  case TH_KIND_NUMBER:
    fits = leaf->kind == TH_LEAF_INT || leaf->kind == TH_LEAF_BOOL ||
           leaf->kind == TH_LEAF_FLOAT;
    if (in->type.dtype == TH_F64) {
      out->num.f = leaf->kind == TH_LEAF_FLOAT ? leaf->f : (double)leaf->i;
    } else {
      fits = fits && leaf->kind != TH_LEAF_FLOAT;
      out->num.i = leaf->i;
    }
    break;
  case TH_KIND_STRING:
    fits = leaf->kind == TH_LEAF_STRING;
    break;
  default: // th_call has no other way to say None than a NULL tensor
    fits = leaf->kind == TH_LEAF_NONE ||
           (leaf->kind == TH_LEAF_TENSOR && !leaf->tensor);
    break;
  }
  if (!fits) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "input '%s' is %s; it was traced with %s", in->name,
                    call_leaf_text(leaf->kind), call_traced_text(&in->type));
  }
  return TH_OK;
}

// The kinds fit.
static bool call_is_constant(const th_value *in, const th_leaf *leaf,
                             const th_program_value *v) {
  if (in->type.kind == TH_KIND_STRING) {
    return strcmp(leaf->text ? leaf->text : "", in->type.text) == 0;
  }
  if (in->type.kind != TH_KIND_NUMBER || !th_is_const(in->type.num)) {
    return true;
  }
  th_scalar wanted = {.i = in->type.num->i};
  if (in->type.dtype == TH_F64) {
    wanted.f = in->type.num->f;
  }
  return wanted.i == v->num.i; // bits, so that NaN equals NaN
}

static th_status call_inputs(const th_entry *entry, const th_call_args *call,
                             th_program_value *values) {
  const th_trace *t = entry_trace(entry);
  for (uint32_t i = 0; i < t->input_count; i++) {
    values[i] = (th_program_value){TH_KIND_TENSOR, entry->bound[i], {0}};
  }
  for (uint32_t u = 0; u < entry->user_count; u++) {
    uint32_t i = entry->user[u];
    const th_value *in = t->inputs[i];
    if (in->type.kind == TH_KIND_TENSOR && call->guarded) {
      values[i].tensor = call->inputs[u].tensor;
      continue;
    }
    TH_TRY(call_input(call->ctx, in, &call->inputs[u], &values[i]));
    if (!call_is_constant(in, &call->inputs[u], &values[i])) {
      return th_error(call->ctx, TH_INVALID, TH_NOWHERE,
                      "input '%s' has another value than the constant that it "
                      "was traced with",
                      in->name);
    }
  }
  return TH_OK;
}

static void call_output(const th_arg *arg, const th_program_value *v,
                        th_leaf *out) {
  static const th_leaf_kind numbers[] = {[TH_BOOL] = TH_LEAF_BOOL,
                                         [TH_I64] = TH_LEAF_INT,
                                         [TH_F64] = TH_LEAF_FLOAT};
  *out = (th_leaf){.kind = TH_LEAF_NONE};
  if (v->kind == TH_KIND_TENSOR) {
    out->kind = TH_LEAF_TENSOR;
    out->tensor = v->tensor;
  } else if (v->kind == TH_KIND_NUMBER) {
    th_dtype dtype =
        arg->kind == TH_ARG_NUM ? arg->num->dtype : arg->value->type.dtype;
    out->kind = numbers[dtype];
    out->i = dtype == TH_F64 ? 0 : v->num.i;
    out->f = dtype == TH_F64 ? v->num.f : (double)v->num.i;
  } else if (v->kind == TH_KIND_STRING) {
    out->kind = TH_LEAF_STRING;
    out->text = arg->text;
  }
}

static th_status entry_run(const th_entry *entry, const th_call_args *call,
                           th_program_value *values) {
  uint32_t n = entry_trace(entry)->input_count;
  th_program_value *outs = values + n;
  TH_TRY(call_inputs(entry, call, values));
  for (size_t i = 0; i < call->output_count; i++) {
    outs[i] = (th_program_value){TH_KIND_TENSOR, call->outputs[i].tensor, {0}};
  }
  TH_TRY(th_program_run(entry->compiled.program, call->ctx, call->threads,
                        call->guarded, values, n, outs, call->output_count));
  for (size_t i = 0; i < call->output_count; i++) {
    call_output(th_program_leaf(entry->compiled.program, i), &outs[i],
                &call->outputs[i]);
  }
  return TH_OK;
}

static th_status entry_call(const th_callable *callable, th_entry *entry,
                            const th_call_args *call) {
  enum { FEW = 160 };
  th_program_value few[FEW];
  if (callable->options.compile_only) {
    return th_error(call->ctx, TH_INVALID, TH_NOWHERE,
                    "the callable was only compiled: it has no weights");
  }
  if (call->input_count != entry->user_count ||
      call->output_count != th_program_output_count(entry->compiled.program)) {
    return th_error(call->ctx, TH_INVALID, TH_NOWHERE,
                    "the callable takes %u inputs and gives %zu outputs, not "
                    "%zu and %zu",
                    entry->user_count,
                    th_program_output_count(entry->compiled.program),
                    call->input_count, call->output_count);
  }
  size_t n = entry_trace(entry)->input_count + call->output_count;
  th_program_value *values = n <= FEW ? few : th_malloc(n * sizeof *values);
  if (!values) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  th_status status = entry_run(entry, call, values);
  if (values != few) {
    th_free(values);
  }
  return status;
}

th_status th_entry_call(th_callable *callable, th_entry *entry,
                        const th_call_args *call) {
  if (!th_program_is_exclusive(entry->compiled.program)) {
    return entry_call(callable, entry, call);
  }
  // One at a time, whichever entries: they share buffers.
  if (atomic_exchange(&callable->busy, true)) {
    return th_error(call->ctx, TH_BUSY, TH_NOWHERE,
                    "another call is under way, and this callable writes to "
                    "its inputs or keeps state");
  }
  th_status status = entry_call(callable, entry, call);
  atomic_store(&callable->busy, false);
  return status;
}

static th_status call_options(const th_callable *callable,
                              const th_call_options *options,
                              th_call_options *out) {
  th_context *ctx = callable->ctx;
  *out = (th_call_options)TH_CALL_OPTIONS_INIT;
  if (options) {
    size_t n = options->size;
    if (n < sizeof n) {
      return th_error(
          ctx, TH_INVALID, TH_NOWHERE,
          "th_call_options: size is %zu, not sizeof(th_call_options)", n);
    }
    memcpy(out, options, n < sizeof *out ? n : sizeof *out);
  }
  out->diagnostics = out->diagnostics ? out->diagnostics : ctx;
  if (out->threads < 0) {
    return th_error(out->diagnostics, TH_INVALID, TH_NOWHERE,
                    "th_call_options: threads is %d", out->threads);
  }
  out->threads = out->threads ? out->threads : callable->options.threads;
  return TH_OK;
}

th_status th_call_leaves(th_callable *callable, const th_call_options *options,
                         const th_leaf *inputs, size_t input_count,
                         th_leaf *outputs, size_t output_count) {
  th_call_options own;
  TH_TRY(call_options(callable, options, &own));
  th_call_args call = {.ctx = own.diagnostics,
                       .threads = own.threads,
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count};
  return callable->call ? callable->call(callable, &call)
                        : th_entry_call(callable, callable->newest, &call);
}

th_status th_call(th_callable *callable, th_tensor *const *inputs,
                  size_t input_count, th_tensor **outputs,
                  size_t output_count) {
  enum { FEW = 128 };
  th_leaf few[FEW];
  size_t n = input_count + output_count;
  th_leaf *leaves = n <= FEW ? few : th_malloc(n * sizeof *leaves);
  if (!leaves) {
    return th_error(callable->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  for (size_t i = 0; i < n; i++) {
    th_tensor *t = i < input_count ? inputs[i] : outputs[i - input_count];
    leaves[i] = (th_leaf){.kind = TH_LEAF_TENSOR, .tensor = t};
  }
  th_leaf *outs = leaves + input_count;
  th_status status =
      th_call_leaves(callable, NULL, leaves, input_count, outs, output_count);
  for (size_t i = 0; status == TH_OK && i < output_count; i++) {
    outputs[i] = outs[i].tensor; // NULL where the result is no tensor
  }
  if (leaves != few) {
    th_free(leaves);
  }
  return status;
}

// ---- reports

static const th_value *callable_input(const th_callable *callable,
                                      size_t index) {
  const th_entry *e = callable->newest;
  return e && index < e->user_count ? entry_trace(e)->inputs[e->user[index]]
                                    : NULL;
}

size_t th_callable_input_count(const th_callable *callable) {
  return callable->newest ? callable->newest->user_count : 0;
}

size_t th_callable_output_count(const th_callable *callable) {
  return callable->newest
             ? th_program_output_count(callable->newest->compiled.program)
             : 0;
}

const char *th_callable_input_name(const th_callable *callable, size_t index) {
  const th_value *in = callable_input(callable, index);
  return in ? in->name : NULL;
}

typedef struct callable_text {
  th_callable *callable;
  const th_type *type;
  th_arena scratch;
  const char *text;
} callable_text;

static th_status callable_type_text(void *user) {
  callable_text *a = user;
  th_buffer out;
  th_buffer_init(&out, &a->scratch);
  th_type_print(&out, a->type);
  a->text = th_intern(&a->callable->types, out.data);
  return TH_OK;
}

const char *th_callable_input_type(th_callable *callable, size_t index) {
  const th_value *in = callable_input(callable, index);
  callable_text args = {.callable = callable, .type = in ? &in->type : NULL};
  if (!in) {
    return NULL;
  }
  th_arena_init(&args.scratch, &callable->ctx->unwind);
  (void)th_protect(&callable->ctx->unwind, callable_type_text, &args);
  th_arena_deinit(&args.scratch);
  return args.text;
}

th_leaf_kind th_callable_input_kind(const th_callable *callable, size_t index) {
  const th_value *in = callable_input(callable, index);
  if (!in || in->type.kind == TH_KIND_NONE) {
    return TH_LEAF_NONE;
  }
  if (in->type.kind == TH_KIND_STRING) {
    return TH_LEAF_STRING;
  }
  if (in->type.kind == TH_KIND_TENSOR) {
    return TH_LEAF_TENSOR;
  }
  return in->type.dtype == TH_F64    ? TH_LEAF_FLOAT
         : in->type.dtype == TH_BOOL ? TH_LEAF_BOOL
                                     : TH_LEAF_INT;
}

int th_callable_input_dtype(const th_callable *callable, size_t index) {
  const th_value *in = callable_input(callable, index);
  return in ? (int)in->type.dtype : -1;
}

int th_callable_input_rank(const th_callable *callable, size_t index) {
  const th_value *in = callable_input(callable, index);
  return in && in->type.kind == TH_KIND_TENSOR ? in->type.rank : -1;
}

int64_t th_callable_input_dim(const th_callable *callable, size_t index,
                              int dim, int64_t otherwise) {
  const th_value *in = callable_input(callable, index);
  if (!in || dim < 0 || dim >= in->type.rank ||
      !th_is_const(in->type.dims[dim])) {
    return otherwise;
  }
  return in->type.dims[dim]->i;
}

th_leaf th_callable_input_constant(const th_callable *callable, size_t index) {
  const th_value *in = callable_input(callable, index);
  th_leaf leaf = {.kind = th_callable_input_kind(callable, index)};
  if (leaf.kind == TH_LEAF_TENSOR) {
    leaf.kind = TH_LEAF_NONE;
  } else if (leaf.kind == TH_LEAF_STRING) {
    leaf.text = in->type.text;
  } else if (leaf.kind != TH_LEAF_NONE && th_is_const(in->type.num)) {
    leaf.i = leaf.kind == TH_LEAF_FLOAT ? 0 : in->type.num->i;
    leaf.f =
        leaf.kind == TH_LEAF_FLOAT ? in->type.num->f : (double)in->type.num->i;
  }
  return leaf;
}

// What only moves or converts its first operand still holds its numbers.
static bool callable_keeps_numbers(const th_stmt *stmt) {
  return stmt->op->traits & TH_MOVES || stmt->op->op == TH_OP_to;
}

// The size of the table that a statement reads with indices `value`; 0: none.
static int64_t callable_table(const th_stmt *stmt, const bool *same) {
  const th_arg *index = NULL;
  const th_type *table = NULL;
  int64_t dim = 0;
  if (stmt->op->op == TH_OP_embedding) {
    table = &stmt->args[0].value->type;
    index = &stmt->args[1];
  } else if (stmt->op->op == TH_OP_gather ||
             stmt->op->op == TH_OP_index_select ||
             stmt->op->op == TH_OP_index_copy) {
    table = &stmt->args[0].value->type;
    dim = stmt->args[1].num->i + (stmt->args[1].num->i < 0 ? table->rank : 0);
    index = &stmt->args[2];
  }
  if (!index || !same[index->value->id] || dim >= table->rank ||
      !th_is_const(table->dims[dim])) {
    return 0;
  }
  return table->dims[dim]->i;
}

int64_t th_callable_input_limit(const th_callable *callable, size_t index) {
  const th_value *in = callable_input(callable, index);
  const th_trace *t = in ? entry_trace(callable->newest) : NULL;
  bool *same = t ? th_calloc(t->value_count, sizeof *same) : NULL;
  int64_t limit = INT64_MAX;
  if (!same) {
    return 2;
  }
  same[in->id] = true;
  for (uint32_t i = 0; i < t->stmt_count; i++) {
    const th_stmt *stmt = t->stmts[i];
    int64_t size = callable_table(stmt, same);
    limit = size > 0 && size < limit ? size : limit;
    for (uint16_t o = 0; o < stmt->out_count; o++) {
      if (stmt->outs[o] && stmt->arg_count &&
          stmt->args[0].kind == TH_ARG_VALUE && callable_keeps_numbers(stmt)) {
        same[stmt->outs[o]->id] = same[stmt->args[0].value->id];
      }
    }
  }
  th_free(same);
  return limit == INT64_MAX ? 2 : limit;
}

th_tensor *th_callable_state(const th_callable *callable, const char *fqn) {
  const th_entry *e = callable->newest;
  const th_trace *t = e ? entry_trace(e) : NULL;
  for (uint32_t i = 0; t && i < t->input_count; i++) {
    const th_input *input = t->inputs[i]->input;
    if (e->bound[i] && input->fqn && strcmp(input->fqn, fqn) == 0) {
      return e->bound[i];
    }
  }
  return NULL;
}

typedef struct callable_prologue {
  th_entry *entry;
} callable_prologue;

static th_status callable_print_prologue(void *user) {
  th_entry *e = ((callable_prologue *)user)->entry;
  th_buffer out;
  th_buffer_init(&out, &e->compiled.ir->arena);
  th_trace_print(&out, e->prologue, NULL);
  e->prologue_text = out.data;
  return TH_OK;
}

static size_t callable_prologue_texts(th_entry *entry,
                                      const char *const **out_texts) {
  callable_prologue args = {entry};
  if (entry->prologue && !entry->prologue_text &&
      th_protect(&entry->compiled.ir->ctx->unwind, callable_print_prologue,
                 &args)) {
    return 0;
  }
  *out_texts = entry->prologue_text ? &entry->prologue_text : NULL;
  return entry->prologue_text != NULL;
}

size_t th_last_traces(th_callable *callable, th_trace_kind kind,
                      const char *const **out_texts) {
  const char *const *unwanted = NULL;
  size_t count = 0;
  out_texts = out_texts ? out_texts : &unwanted;
  *out_texts = NULL;
  pthread_mutex_lock(&callable->lock);
  th_entry *newest = callable->newest;
  if (newest && kind == TH_TRACES_COMPUTATION &&
      th_compiled_texts(&newest->compiled, out_texts, &count)) {
    count = 0;
  } else if (newest && kind == TH_TRACES_PROLOGUE) {
    count = callable_prologue_texts(newest, out_texts);
  }
  pthread_mutex_unlock(&callable->lock);
  return count;
}

void th_callable_statistics(th_callable *callable, th_statistics *out) {
  pthread_mutex_lock(&callable->lock);
  uint64_t hits = atomic_load(&callable->hits);
  memcpy(callable->reason_read, callable->reason_text,
         sizeof callable->reason_read);
  th_statistics s = {.size = out->size,
                     .calls = hits + callable->misses,
                     .cache_hits = hits,
                     .cache_misses = callable->misses,
                     .trace_ns = callable->trace_ns,
                     .passes_ns = callable->passes_ns,
                     .codegen_ns = callable->codegen_ns,
                     .weights_rounded = callable->weights_rounded,
                     .weight_error = callable->weight_error,
                     .weight_error_largest = callable->weight_error_largest,
                     .threads = callable->options.threads,
                     .reason = callable->reason_read};
  if (callable->newest) {
    th_program_stats p;
    th_program_get_stats(callable->newest->compiled.program, &p);
    if (!callable->call) { // one program for every call
      s.calls = s.cache_hits = p.calls;
    }
    s.kernels_compiled = p.kernels_compiled;
    s.kernels_from_disk = p.kernels_from_disk;
    s.kernels_shared = p.kernels_shared;
    s.slab_bytes = p.slab_bytes;
    s.plans = p.plans;
  }
  pthread_mutex_unlock(&callable->lock);
  memcpy(out, &s, out->size < sizeof s ? out->size : sizeof s);
}

// ---- claims

typedef struct callable_claims {
  th_callable *callable;
  th_claim_row *rows;
  uint32_t count, cap;
} callable_claims;

static void claims_add(callable_claims *c, const char *executor,
                       const th_stmt *stmt) {
  if (stmt->body_count) {
    for (uint32_t i = 0; i < stmt->body_count; i++) {
      claims_add(c, executor, stmt->body[i]);
    }
    return;
  }
  for (uint32_t i = 0; i < c->count; i++) {
    if (strcmp(c->rows[i].executor, executor) == 0 &&
        strcmp(c->rows[i].op, stmt->op->name) == 0) {
      c->rows[i].count++;
      return;
    }
  }
  TH_PUSH(&c->callable->claims, c->rows, c->count, c->cap) =
      (th_claim_row){executor, stmt->op->name, 1};
}

static void claims_of_trace(callable_claims *c, const th_trace *t) {
  for (uint32_t i = 0; i < t->stmt_count; i++) {
    const th_stmt *stmt = t->stmts[i];
    if (stmt->op->op == TH_OP_del) {
      continue;
    }
    for (uint16_t a = 0; a < stmt->arg_count; a++) {
      if (stmt->args[a].kind == TH_ARG_TRACE) {
        claims_of_trace(c, stmt->args[a].trace);
      }
    }
    bool run_time = stmt->op->traits & TH_CONTROL;
    claims_add(c,
               stmt->executor ? stmt->executor
               : run_time     ? "program"
                              : "window",
               stmt);
  }
}

static th_status claims_collect(void *user) {
  callable_claims *c = user;
  const th_history *h = &c->callable->newest->compiled.history;
  claims_of_trace(c, h->traces[h->count - 1]);
  return TH_OK;
}

size_t th_callable_claims(th_callable *callable,
                          const th_claim_row **out_rows) {
  callable_claims claims = {.callable = callable};
  const th_claim_row *unwanted = NULL;
  out_rows = out_rows ? out_rows : &unwanted;
  *out_rows = NULL;
  th_arena_deinit(&callable->claims);
  if (!callable->newest ||
      th_protect(&callable->ctx->unwind, claims_collect, &claims)) {
    return 0;
  }
  *out_rows = claims.rows;
  return claims.count;
}

// ---- profile

bool th_callable_profile(th_callable *callable, size_t index,
                         th_profile_row *out) {
  th_profile_row row = {.size = out->size};
  const th_entry *entry = callable->newest;
  if (!entry ||
      !th_program_profile_row(entry->compiled.program, &index, &row)) {
    return false;
  }
  memcpy(out, &row, out->size < sizeof row ? out->size : sizeof row);
  return true;
}

void th_callable_profile_reset(th_callable *callable) {
  const th_entry *entry = callable->newest;
  if (entry) {
    th_program_profile_reset(entry->compiled.program);
  }
}

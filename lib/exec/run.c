// One call: check the inputs, lay out memory, run the steps, hand over results.
#include "exec/program_impl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/pool.h"

#include <stdio.h>
#include <string.h>

th_status th_frame_error(th_frame *call, const th_stmt *stmt, th_status status,
                         const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return th_error(call->ctx, status, stmt->loc, "%s%s%s: %s",
                  stmt->label ? stmt->label : stmt->op->name,
                  *stmt->scope ? " in " : "", stmt->scope, text);
}

// ---- inputs

static th_status run_check_input(th_frame *call, uint32_t i) {
  const th_value *in = call->program->trace->inputs[i];
  const th_program_value *given = &call->inputs[i];
  if (in->type.kind != TH_KIND_TENSOR) {
    return TH_OK;
  }
  const th_tensor *t = given->kind == TH_KIND_TENSOR ? given->tensor : NULL;
  if (!t) {
    return th_error(call->ctx, TH_INVALID, TH_NOWHERE,
                    "input '%s' is missing: a tensor is wanted", in->name);
  }
  if (t->dtype != in->type.dtype) {
    return th_error(call->ctx, TH_DTYPE, TH_NOWHERE,
                    "input '%s' has dtype %s, not %s", in->name,
                    th_dtype_name(t->dtype), th_dtype_name(in->type.dtype));
  }
  if (t->rank != in->type.rank) {
    return th_error(call->ctx, TH_SHAPE, TH_NOWHERE,
                    "input '%s' has %d dimensions, not %u", in->name, t->rank,
                    in->type.rank);
  }
  return TH_OK;
}

static bool run_strides_fit(const th_tensor *t, const th_view *view) {
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] != 1 && t->strides[d] != view->strides[d]) {
      return false;
    }
  }
  return true;
}

// The input's memory, or that of a copy with the strides that the trace has.
static th_status run_bind_copy(th_frame *call, uint32_t i) {
  const th_value *in = call->program->trace->inputs[i];
  th_tensor *t = call->inputs[i].tensor;
  if (in->type.strides) {
    return th_error(call->ctx, TH_SHAPE, TH_NOWHERE,
                    "input '%s' has other strides than it was compiled for",
                    in->name);
  }
  TH_TRY(th_tensor_contiguous(call->ctx, t, &call->input_copies[i]));
  call->block->bases[i + 1] = call->input_copies[i]->data;
  return TH_OK;
}

// Bases of inputs follow the slab.
static th_status run_bind_inputs(th_frame *call) {
  const th_trace *trace = call->program->trace;
  bool as_typed = call->guarded && call->program->is_static;
  for (uint32_t i = 0; i < trace->input_count; i++) {
    const th_value *in = trace->inputs[i];
    const th_tensor *t = call->inputs[i].tensor;
    if (in->type.kind != TH_KIND_TENSOR) {
      call->block->bases[i + 1] = NULL;
    } else if (as_typed || run_strides_fit(t, &call->sizes->views[in->id]) ||
               th_tensor_numel(t) == 0) {
      call->block->bases[i + 1] = t->data;
    } else {
      TH_TRY(run_bind_copy(call, i));
    }
  }
  return TH_OK;
}

static bool run_is_other(const th_frame *call, uint32_t i, uint32_t j) {
  return i != j && call->inputs[j].kind == TH_KIND_TENSOR &&
         call->inputs[j].tensor && !call->input_copies[j] &&
         th_tensor_overlaps(call->inputs[i].tensor, call->inputs[j].tensor);
}

// Steps that write into an input know nothing of another one in the same
// memory: that one is read from a copy.
static th_status run_part_inputs(th_frame *call) {
  const th_program *p = call->program;
  for (uint32_t w = 0; w < p->written_count; w++) {
    for (uint32_t j = 0; j < p->trace->input_count; j++) {
      if (!run_is_other(call, p->written[w], j)) {
        continue;
      }
      const th_value *in = p->trace->inputs[j];
      if (in->type.strides) {
        return th_error(call->ctx, TH_INVALID, TH_NOWHERE,
                        "input '%s' lies in the memory of '%s', which is "
                        "written to, and is not row-major",
                        in->name, p->trace->inputs[p->written[w]]->name);
      }
      TH_TRY(th_tensor_clone(call->ctx, call->inputs[j].tensor,
                             &call->input_copies[j]));
      call->block->bases[j + 1] = call->input_copies[j]->data;
    }
  }
  return TH_OK;
}

// ---- memory of a call

void th_block_free(th_block *block) {
  if (block) {
    th_spares_free(block);
    th_free(block->slab);
    th_free(block);
  }
}

static th_block *run_block_take(th_program *p) {
  for (int i = 0; i < TH_BLOCKS_KEPT; i++) {
    th_block *block = atomic_exchange(&p->blocks[i], NULL);
    if (block) {
      return block;
    }
  }
  size_t views = p->trace->value_count * sizeof(th_view);
  size_t bases = p->base_count * sizeof(char *);
  th_block *block = th_calloc(1, sizeof *block + views + bases);
  if (block) {
    block->views = (th_view *)(block + 1);
    block->bases = (char **)((char *)block->views + views);
  }
  return block;
}

static void run_block_put(th_program *p, th_block *block) {
  for (int i = 0; block && i < TH_BLOCKS_KEPT; i++) {
    th_block *empty = NULL;
    if (atomic_compare_exchange_strong(&p->blocks[i], &empty, block)) {
      return;
    }
  }
  th_block_free(block);
}

static th_status run_slab(th_frame *call) {
  th_block *block = call->block;
  int64_t need = call->sizes->slab_bytes;
  if (need > block->slab_cap) {
    th_free(block->slab);
    block->slab_cap = 0;
    block->slab = th_aligned_alloc(TH_SLAB_ALIGN, (size_t)need);
    if (!block->slab) {
      return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE,
                      "no memory for %lld bytes of intermediate results",
                      (long long)need);
    }
    block->slab_cap = need;
  }
  block->bases[TH_BASE_SLAB] = block->slab;
  return TH_OK;
}

static void run_point(th_frame *call, const th_value *value) {
  th_view *view = &call->block->views[value->id];
  char *base = call->block->bases[call->program->base_of[value->id]];
  *view = call->sizes->views[value->id];
  view->data = base ? base + call->sizes->offsets[value->id] : NULL;
}

// Shapes stay in the block from call to call; addresses are new.
static void run_point_all(th_frame *call) {
  const th_program *p = call->program;
  const int64_t *offsets = call->sizes->offsets;
  th_block *block = call->block;
  uint32_t count = p->trace->value_count;
  if (block->views_serial != call->sizes->serial) {
    memcpy(block->views, call->sizes->views, count * sizeof *block->views);
    block->views_serial = call->sizes->serial;
  }
  for (uint32_t i = 1; i < count; i++) {
    char *base = block->bases[p->base_of[i]];
    block->views[i].data = base ? base + offsets[i] : NULL;
  }
}

// ---- programs whose sizes depend on data: memory and views step by step

static th_status run_lazy_value(th_frame *call, const th_value *value) {
  th_program *p = call->program;
  if (value->type.kind != TH_KIND_TENSOR) {
    return TH_OK;
  }
  uint32_t base = p->base_of[value->id];
  TH_TRY(th_sizes_value(call, value));
  if (!p->windows[value->id].from && !call->block->bases[base]) {
    const th_view *v = &call->sizes->views[value->id];
    TH_TRY(th_tensor_empty(call->ctx, v->dtype, v->rank, v->dims,
                           &call->owned[base]));
    call->block->bases[base] = call->owned[base]->data;
  }
  run_point(call, value);
  return TH_OK;
}

static th_status run_lazy_step(th_frame *call, uint32_t index) {
  const th_stmt *stmt = call->program->steps[index].stmt;
  bool made_by_step = stmt->op->traits & TH_MAKES;
  for (uint16_t i = 0; i < stmt->out_count && !made_by_step; i++) {
    if (stmt->outs[i]) {
      TH_TRY(run_lazy_value(call, stmt->outs[i]));
    }
  }
  return th_sizes_step(call, index);
}

// ---- kernels

typedef struct run_kernel {
  th_frame *call;
  const th_step *step;
  void **buffers;
  const int64_t *numbers;
  th_kernel_error error;
  pthread_mutex_t lock;
} run_kernel;

static void run_kernel_part(void *user, int64_t begin, int64_t end) {
  run_kernel *r = user;
  th_kernel_error error = {0};
  if (r->step->kernel->fn(r->buffers, r->numbers, begin, end, &error)) {
    pthread_mutex_lock(&r->lock);
    if (!r->error.code) {
      r->error = error;
    }
    pthread_mutex_unlock(&r->lock);
  }
}

static th_status run_kernel_failed(th_frame *call, const th_step *step,
                                   const th_kernel_error *error) {
  const th_stmt *stmt = step->stmt;
  if (error->stmt >= 0 && (uint32_t)error->stmt < stmt->body_count) {
    stmt = stmt->body[error->stmt];
  }
  switch (error->code) {
  case TH_KERNEL_INDEX:
    return th_frame_error(call, stmt, TH_INVALID,
                          "index %lld is out of range for size %lld",
                          (long long)error->value, (long long)error->limit);
  case TH_KERNEL_DIVIDE:
    return th_frame_error(call, stmt, TH_INVALID, "integer division by zero");
  default:
    return th_frame_error(call, stmt, TH_INVALID, "the condition is false");
  }
}

static th_status run_step_kernel(th_frame *call, uint32_t index) {
  enum { FEW = 64 };
  const th_step *step = &call->program->steps[index];
  const th_kernel *k = step->kernel;
  void *few[FEW];
  run_kernel r = {.call = call,
                  .step = step,
                  .buffers = few,
                  .numbers = call->sizes->numbers[index],
                  .lock = PTHREAD_MUTEX_INITIALIZER};
  if (k->buffer_count > FEW) {
    r.buffers = th_malloc(k->buffer_count * sizeof *r.buffers);
    if (!r.buffers) {
      return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
    }
  }
  for (uint32_t i = 0; i < k->buffer_count; i++) {
    r.buffers[i] = call->block->views[k->buffers[i]->id].data;
  }
  int64_t extent = call->sizes->extents[index];
  if (call->threads <= 1 || extent <= k->grain) {
    k->fn(r.buffers, r.numbers, 0, extent, &r.error);
  } else {
    th_parallel(call->threads, extent, k->grain, run_kernel_part, &r);
  }
  if (r.buffers != few) {
    th_free(r.buffers);
  }
  return r.error.code ? run_kernel_failed(call, step, &r.error) : TH_OK;
}

// ---- control

static bool run_condition(const th_frame *call, const th_arg *arg) {
  if (arg->kind == TH_ARG_NUM) {
    th_scalar v = {0};
    th_expr_eval(arg->num, call->sizes->symbols, &v);
    return arg->num->dtype == TH_F64 ? v.f != 0 : v.i != 0;
  }
  const th_view *view = th_call_view(call, arg->value);
  static const char zeros[8];
  return memcmp(view->data, zeros, th_dtype_size(view->dtype)) != 0;
}

static th_status run_operand(th_frame *call, const th_arg *arg,
                             th_program_value *out) {
  const th_view *v = th_call_view(call, arg->value);
  out->kind = TH_KIND_TENSOR;
  return th_tensor_from_data(call->ctx, v->data, v->dtype, v->rank, v->dims,
                             v->strides, NULL, NULL, &out->tensor);
}

// Row-major, as the trace says of a result; a branch may return a view.
static th_status run_branch_dense(th_frame *call, const th_view *v,
                                  th_tensor **tensor) {
  bool same = true;
  for (int d = 0; d < v->rank; d++) {
    same = same &&
           ((*tensor)->dims[d] == 1 || (*tensor)->strides[d] == v->strides[d]);
  }
  if (same) {
    return TH_OK;
  }
  th_tensor *dense = NULL;
  TH_TRY(th_tensor_empty(call->ctx, v->dtype, v->rank, v->dims, &dense));
  th_status status = th_tensor_copy(call->ctx, dense, *tensor);
  th_tensor_release(*tensor);
  *tensor = dense;
  return status;
}

// The result and every window on it; where sizes depend on data, windows are
// steps of their own.
static th_status run_branch_output(th_frame *call, const th_value *out,
                                   th_tensor **tensor) {
  th_program *p = call->program;
  uint32_t base = p->base_of[out->id];
  if (p->data_sizes) {
    TH_TRY(th_sizes_value(call, out));
  }
  TH_TRY(run_branch_dense(call, &call->sizes->views[out->id], tensor));
  th_tensor_release(call->owned[base]);
  call->owned[base] = *tensor;
  call->block->bases[base] = (*tensor)->data;
  *tensor = NULL;
  run_point(call, out);
  for (uint32_t i = 1; !p->data_sizes && i < p->trace->value_count; i++) {
    if (p->base_of[i] == base) {
      run_point(call, p->trace->values[i]);
    }
  }
  return TH_OK;
}

static th_status run_branch_outputs(th_frame *call, const th_stmt *stmt,
                                    th_program_value *outs) {
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i] && outs[i].tensor) {
      TH_TRY(run_branch_output(call, stmt->outs[i], &outs[i].tensor));
    }
  }
  return TH_OK;
}

static th_status run_step_cond(th_frame *call, th_step *step) {
  const th_stmt *stmt = step->stmt;
  const th_arg *operands = &stmt->args[3];
  bool first = run_condition(call, &stmt->args[0]);
  th_program *branch = step->branches[first ? 0 : 1];
  uint32_t n = operands->count, m = stmt->out_count;
  th_program_value *values = th_calloc(n + m + 1, sizeof *values);
  th_status status = values ? TH_OK : TH_NO_MEMORY;
  for (uint32_t i = 0; i < n && status == TH_OK; i++) {
    status = run_operand(call, &operands->items[i], &values[i]);
  }
  if (status == TH_OK) {
    th_frame inner = {.program = branch,
                      .ctx = call->ctx,
                      .threads = call->threads,
                      .inputs = values,
                      .inherit = call->sizes->symbols,
                      .outputs = values + n,
                      .output_count = m};
    status = th_program_run_call(&inner);
    call->branch_ns = inner.steps_ns;
  }
  if (status == TH_OK) {
    status = run_branch_outputs(call, stmt, values + n);
  }
  for (uint32_t i = 0; i < n + m && values; i++) {
    th_tensor_release(values[i].tensor);
  }
  th_free(values);
  return status;
}

static th_status run_step_assert(th_frame *call, const th_step *step) {
  const th_stmt *stmt = step->stmt;
  return run_condition(call, &stmt->args[0])
             ? TH_OK
             : th_frame_error(call, stmt, TH_INVALID, "%s", stmt->args[1].text);
}

// ---- steps

// Shows the user a statement's operands before it, its results after it.
static th_status run_watch(th_frame *call, const th_step *step, bool after) {
  const th_program_options *o = &call->program->options;
  const th_stmt *stmt = step->stmt;
  if (after ? !o->after : !o->before) {
    return TH_OK;
  }
  uint32_t n = after ? stmt->out_count : stmt->arg_count;
  const th_view **views = th_calloc(n + 1u, sizeof *views);
  if (!views) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  for (uint32_t i = 0; i < n; i++) {
    const th_arg *arg = after ? NULL : &stmt->args[i];
    const th_value *value = after                       ? stmt->outs[i]
                            : arg->kind == TH_ARG_VALUE ? arg->value
                                                        : NULL;
    views[i] = value ? th_call_view(call, value) : NULL;
  }
  if (after) {
    o->after(o->user, stmt, views, n);
  } else {
    o->before(o->user, stmt, views, n);
  }
  th_free(views);
  return TH_OK;
}

static th_status run_step(th_frame *call, uint32_t index) {
  th_step *step = &call->program->steps[index];
  switch (step->kind) {
  case TH_STEP_KERNEL:
    return run_step_kernel(call, index);
  case TH_STEP_CALL:
    return th_step_call(call, step);
  case TH_STEP_COND:
    return run_step_cond(call, step);
  case TH_STEP_ASSERT:
    return run_step_assert(call, step);
  case TH_STEP_WINDOW:
    return TH_OK;
  }
  return TH_OK;
}

static th_status run_steps(th_frame *call) {
  th_program *p = call->program;
  for (uint32_t i = 0; i < p->step_count; i++) {
    int64_t start = p->profile ? th_clock_ns() : 0;
    if (p->data_sizes) {
      TH_TRY(run_lazy_step(call, i));
    }
    TH_TRY(run_watch(call, &p->steps[i], false));
    TH_TRY(run_step(call, i));
    TH_TRY(run_watch(call, &p->steps[i], true));
    if (p->profile) {
      th_profile_add(call, i, start);
    }
  }
  return TH_OK;
}

// ---- the call

static th_status run_in_memory(th_frame *call) {
  th_program *p = call->program;
  uint32_t first = p->trace->input_count + 1;
  memset(call->block->bases + first, 0,
         (p->base_count - first) * sizeof(char *));
  TH_TRY(run_bind_inputs(call));
  TH_TRY(run_part_inputs(call));
  TH_TRY(run_slab(call));
  TH_TRY(th_outputs_check(call));
  if (!p->data_sizes) {
    TH_TRY(th_outputs_prepare(call));
  }
  run_point_all(call);
  TH_TRY(run_steps(call));
  return th_outputs_finish(call);
}

static void run_release(th_frame *call) {
  th_program *p = call->program;
  for (uint32_t i = 0; i < p->trace->input_count; i++) {
    if (call->input_copies[i]) {
      th_tensor_release(call->input_copies[i]);
    }
  }
  for (uint32_t i = p->trace->input_count + 1; i < p->base_count; i++) {
    if (call->owned[i]) {
      th_tensor_release(call->owned[i]);
    }
  }
}

th_status th_program_run_call(th_frame *call) {
  enum { FEW = 256 };
  th_program *p = call->program;
  th_tensor *few[FEW];
  uint32_t inputs = p->trace->input_count;
  for (uint32_t i = 0; i < inputs && !call->guarded; i++) {
    TH_TRY(run_check_input(call, i));
  }
  size_t n = inputs + p->base_count;
  th_tensor **tensors = n <= FEW ? few : th_malloc(n * sizeof *tensors);
  if (!tensors) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  memset(tensors, 0, n * sizeof *tensors);
  call->input_copies = tensors;
  call->owned = tensors + inputs;
  th_status status = th_sizes_get(call, &call->sizes);
  if (status == TH_OK) {
    call->block = run_block_take(p);
    status = call->block ? run_in_memory(call)
                         : th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE,
                                    "out of memory");
  }
  run_release(call);
  th_sizes_put(call);
  run_block_put(p, call->block);
  if (tensors != few) {
    th_free(tensors);
  }
  return status;
}

th_status th_program_run(th_program *program, th_context *ctx, int threads,
                         bool guarded, const th_program_value *inputs,
                         size_t input_count, th_program_value *outputs,
                         size_t output_count) {
  if (input_count != program->trace->input_count ||
      output_count != program->leaf_count) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "the program takes %u inputs and gives %u outputs, not "
                    "%zu and %zu",
                    program->trace->input_count, program->leaf_count,
                    input_count, output_count);
  }
  bool alone = th_program_is_exclusive(program);
  if (alone && atomic_exchange(&program->busy, true)) {
    return th_error(ctx, TH_BUSY, TH_NOWHERE,
                    "another call is under way, and this program writes to its "
                    "inputs or keeps state");
  }
  th_frame call = {.program = program,
                   .ctx = ctx,
                   .guarded = guarded,
                   .threads = threads,
                   .inputs = inputs,
                   .outputs = outputs,
                   .output_count = output_count};
  th_status status = th_program_run_call(&call);
  atomic_fetch_add_explicit(&program->calls, 1, memory_order_relaxed);
  if (alone) {
    atomic_store(&program->busy, false);
  }
  return status;
}

bool th_program_is_exclusive(const th_program *program) {
  return program->mutated_count > 0 || program->has_state;
}

th_status th_program_each_state(th_program *program, const char *executor,
                                th_state_fn fn, void *user) {
  for (uint32_t i = 0; i < program->step_count; i++) {
    const th_step *step = &program->steps[i];
    for (int k = 0; step->kind == TH_STEP_COND && k < 2; k++) {
      TH_TRY(th_program_each_state(step->branches[k], executor, fn, user));
    }
    if (step->hooks && step->state &&
        strcmp(step->stmt->executor, executor) == 0) {
      TH_TRY(fn(user, step->stmt, step->hooks, step->state));
    }
  }
  return TH_OK;
}

// ---- reports

size_t th_program_output_count(const th_program *program) {
  return program->leaf_count;
}

const th_arg *th_program_leaf(const th_program *program, size_t index) {
  return program->leaves[index];
}

void th_program_get_stats(th_program *program, th_program_stats *out) {
  pthread_mutex_lock(&program->lock);
  *out = program->stats;
  pthread_mutex_unlock(&program->lock);
  out->calls = atomic_load(&program->calls);
}

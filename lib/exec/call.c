// One statement of an executor: its arguments as values, and the calls by
// which a run function reads them.
#include "exec/program_impl.h"

#include "base/alloc.h"
#include "exec/ref.h"

#include <stdio.h>
#include <string.h>

// ---- scratch

// A block of scratch; what a step gave back waits in the call's block for the
// next step or call, since the system clears fresh memory.
typedef struct th_scratch {
  struct th_scratch *next;
  size_t size; // behind the header
} call_scratch;

enum {
  SCRATCH_HEADER = 64,
  SCRATCH_SPARES = 4,
  SCRATCH_LARGEST = 32 << 20, // that waits
};

// The smallest spare that holds `size`.
static call_scratch *call_spare(th_block *block, size_t size) {
  call_scratch **best = NULL;
  for (call_scratch **at = &block->spares; *at; at = &(*at)->next) {
    if ((*at)->size >= size && (!best || (*at)->size < (*best)->size)) {
      best = at;
    }
  }
  call_scratch *found = best ? *best : NULL;
  if (found) {
    *best = found->next;
    block->spare_count--;
  }
  return found;
}

void *th_run_scratch(th_run *run, size_t size) {
  th_frame *call = run->call;
  call_scratch *scratch = call_spare(call->block, size);
  if (!scratch && size <= PTRDIFF_MAX - SCRATCH_HEADER) {
    scratch = th_aligned_alloc(64, size + SCRATCH_HEADER);
    if (scratch) {
      scratch->size = size;
    }
  }
  if (!scratch) {
    return NULL;
  }
  scratch->next = call->scratch;
  call->scratch = scratch;
  return (char *)scratch + SCRATCH_HEADER;
}

// The largest ones wait.
static void call_put_spare(th_block *block, call_scratch *scratch) {
  if (scratch->size > SCRATCH_LARGEST) {
    th_free(scratch);
    return;
  }
  scratch->next = block->spares;
  block->spares = scratch;
  if (++block->spare_count > SCRATCH_SPARES) {
    th_free(call_spare(block, 0));
  }
}

void th_spares_free(th_block *block) {
  while (block->spares) {
    call_scratch *next = block->spares->next;
    th_free(block->spares);
    block->spares = next;
  }
}

static void call_drop_scratch(th_frame *call) {
  while (call->scratch) {
    call_scratch *scratch = call->scratch;
    call->scratch = scratch->next;
    call_put_spare(call->block, scratch);
  }
}

// ---- arguments

static uint32_t call_count_args(const th_arg *arg) {
  uint32_t n = 1;
  for (uint32_t i = 0; arg->kind == TH_ARG_LIST && i < arg->count; i++) {
    n += call_count_args(&arg->items[i]);
  }
  return n;
}

typedef struct call_pool {
  th_frame *call;
  th_rt_arg *next;
} call_pool;

static th_rt_arg call_arg(call_pool *pool, const th_arg *arg) {
  th_rt_arg out = {.kind = arg->kind};
  th_frame *call = pool->call;
  switch (arg->kind) {
  case TH_ARG_VALUE:
    if (arg->value->type.kind == TH_KIND_TENSOR) {
      out.tensor = th_call_view(call, arg->value);
    } else {
      out.kind = TH_ARG_NUM;
      out.dtype = arg->value->type.dtype;
      th_expr_eval(arg->value->type.num, call->sizes->symbols, &out.num);
    }
    break;
  case TH_ARG_NUM:
    out.dtype = arg->num->dtype;
    th_expr_eval(arg->num, call->sizes->symbols, &out.num);
    break;
  case TH_ARG_STRING:
    out.text = arg->text;
    break;
  case TH_ARG_DTYPE:
    out.dtype = arg->dtype;
    break;
  case TH_ARG_LIST: {
    th_rt_arg *items = pool->next;
    pool->next += arg->count;
    for (uint32_t i = 0; i < arg->count; i++) {
      items[i] = call_arg(pool, &arg->items[i]);
    }
    out.count = arg->count;
    out.items = items;
    break;
  }
  default:
    break;
  }
  return out;
}

// Numbers that the statement made become values of their symbols.
static void call_take_numbers(th_frame *call, const th_stmt *stmt,
                              const th_scalar *numbers) {
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    const th_value *out = stmt->outs[i];
    if (out && out->type.kind == TH_KIND_NUMBER &&
        out->type.num->op == TH_X_SYM) {
      call->sizes->symbols[out->type.num->symbol->index] = numbers[i];
    }
  }
}

// A result that waits for th_run_alloc; NULL: there is none, or it has memory.
static const th_value *call_late(const th_run *run, uint32_t out) {
  const th_stmt *stmt = run->stmt;
  const th_value *value = out < stmt->out_count ? stmt->outs[out] : NULL;
  bool late = value && value->type.kind == TH_KIND_TENSOR &&
              stmt->op->traits & TH_DATA_SIZE;
  return late && !run->call->owned[run->call->program->base_of[value->id]]
             ? value
             : NULL;
}

static th_status call_run(th_frame *call, th_step *step, th_rt_arg *args) {
  const th_stmt *stmt = step->stmt;
  const th_view *outs[1024];
  th_scalar numbers[TH_MAX_OUTS] = {{0}};
  call_pool pool = {call, args + stmt->arg_count};
  if (stmt->out_count > TH_COUNT(outs)) {
    return th_frame_error(call, stmt, TH_UNSUPPORTED, "too many results");
  }
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    args[i] = call_arg(&pool, &stmt->args[i]);
  }
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    outs[i] = stmt->outs[i] && stmt->outs[i]->type.kind == TH_KIND_TENSOR
                  ? th_call_view(call, stmt->outs[i])
                  : NULL;
  }
  th_run run = {.stmt = stmt,
                .args = args,
                .outs = outs,
                .numbers = numbers,
                .state = step->state,
                .call = call};
  th_status status = step->run(&run);
  call_drop_scratch(call);
  for (uint16_t i = 0; status == TH_OK && i < stmt->out_count; i++) {
    if (call_late(&run, i)) {
      status = th_run_error(&run, TH_INVALID, "result %u got no memory", i);
    }
  }
  if (status == TH_OK) {
    call_take_numbers(call, stmt, numbers);
  }
  return status;
}

th_status th_step_call(th_frame *call, th_step *step) {
  enum { FEW = 64 };
  th_rt_arg few[FEW];
  uint32_t n = 0;
  for (uint16_t i = 0; i < step->stmt->arg_count; i++) {
    n += call_count_args(&step->stmt->args[i]);
  }
  th_rt_arg *args = n <= FEW ? few : th_malloc(n * sizeof *args);
  if (!args) {
    return th_error(call->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  th_status status = TH_OK;
  if (step->hooks && step->hooks->before_run) {
    status = step->hooks->before_run(step->state);
  }
  if (status == TH_OK) {
    status = call_run(call, step, args);
  }
  if (status == TH_OK && step->hooks && step->hooks->after_run) {
    status = step->hooks->after_run(step->state);
  }
  if (args != few) {
    th_free(args);
  }
  return status;
}

// ---- what a run function asks

const th_stmt *th_run_stmt(const th_run *run) { return run->stmt; }

static const th_rt_arg *call_at(const th_run *run, uint32_t arg) {
  static const th_rt_arg none = {.kind = TH_ARG_NONE};
  return arg < run->stmt->arg_count ? &run->args[arg] : &none;
}

const th_view *th_run_tensor(const th_run *run, uint32_t arg) {
  const th_rt_arg *a = call_at(run, arg);
  return a->kind == TH_ARG_VALUE ? a->tensor : NULL;
}

bool th_run_is_none(const th_run *run, uint32_t arg) {
  return call_at(run, arg)->kind == TH_ARG_NONE;
}

bool th_run_is_float(const th_run *run, uint32_t arg) {
  const th_rt_arg *a = call_at(run, arg);
  return a->kind == TH_ARG_NUM && a->dtype == TH_F64;
}

static double call_float(const th_rt_arg *a) {
  if (a->kind != TH_ARG_NUM) {
    return 0;
  }
  return a->dtype == TH_F64 ? a->num.f : (double)a->num.i;
}

static int64_t call_int(const th_rt_arg *a) {
  if (a->kind != TH_ARG_NUM) {
    return 0;
  }
  return a->dtype == TH_F64 ? (int64_t)a->num.f : a->num.i;
}

double th_run_float(const th_run *run, uint32_t arg) {
  return call_float(call_at(run, arg));
}

int64_t th_run_int(const th_run *run, uint32_t arg) {
  return call_int(call_at(run, arg));
}

bool th_run_bool(const th_run *run, uint32_t arg) {
  return call_float(call_at(run, arg)) != 0;
}

const char *th_run_string(const th_run *run, uint32_t arg) {
  const th_rt_arg *a = call_at(run, arg);
  return a->kind == TH_ARG_STRING ? a->text : NULL;
}

th_dtype th_run_dtype(const th_run *run, uint32_t arg) {
  const th_rt_arg *a = call_at(run, arg);
  return a->kind == TH_ARG_DTYPE ? a->dtype : TH_DTYPE_COUNT;
}

bool th_run_is_constant(const th_run *run, uint32_t arg) {
  const th_program *p = run->call->program;
  if (!p->options.constant_weights || call_at(run, arg)->kind != TH_ARG_VALUE) {
    return false;
  }
  const th_value *value = run->stmt->args[arg].value;
  while (p->windows[value->id].from) {
    value = p->windows[value->id].from;
  }
  const th_input *input = value->input;
  bool constant = input && input->kind != TH_INPUT_USER;
  for (uint32_t i = 0; constant && i < p->written_count; i++) {
    constant = p->trace->inputs[p->written[i]] != value;
  }
  for (uint32_t i = 0; constant && i < p->mutated_count; i += 2) {
    constant = p->mutated[i] != value;
  }
  return constant;
}

uint32_t th_run_list_count(const th_run *run, uint32_t arg) {
  const th_rt_arg *a = call_at(run, arg);
  return a->kind == TH_ARG_LIST ? a->count : 0;
}

const th_view *th_run_list_tensor(const th_run *run, uint32_t arg,
                                  uint32_t index) {
  const th_rt_arg *a = call_at(run, arg);
  return a->kind == TH_ARG_LIST && index < a->count &&
                 a->items[index].kind == TH_ARG_VALUE
             ? a->items[index].tensor
             : NULL;
}

int64_t th_run_list_int(const th_run *run, uint32_t arg, uint32_t index) {
  const th_rt_arg *a = call_at(run, arg);
  return a->kind == TH_ARG_LIST && index < a->count ? call_int(&a->items[index])
                                                    : 0;
}

uint32_t th_run_out_count(const th_run *run) { return run->stmt->out_count; }

const th_view *th_run_out(const th_run *run, uint32_t out) {
  return out < run->stmt->out_count ? run->outs[out] : NULL;
}

static th_status call_fits(th_run *run, uint32_t out, const th_value *value,
                           const int64_t *dims) {
  const th_view *v = &run->call->sizes->views[value->id];
  for (int d = 0; d < v->rank; d++) {
    if (v->dims[d] != dims[d]) {
      return th_run_error(run, TH_INVALID,
                          "result %u: dimension %d is %lld, not %lld", out, d,
                          (long long)v->dims[d], (long long)dims[d]);
    }
  }
  return TH_OK;
}

th_status th_run_alloc(th_run *run, uint32_t out, int rank, const int64_t *dims,
                       const th_view **out_view) {
  th_frame *call = run->call;
  const th_value *value = call_late(run, out);
  *out_view = NULL;
  if (!value) {
    return th_run_error(run, TH_INVALID,
                        "there is no result %u that has no memory", out);
  }
  if (rank != value->type.rank) {
    return th_run_error(run, TH_INVALID, "result %u has %u dimensions, not %d",
                        out, value->type.rank, rank);
  }
  uint32_t base = call->program->base_of[value->id];
  th_sizes *s = call->sizes;
  TH_TRY(th_tensor_empty(call->ctx, value->type.dtype, rank, dims,
                         &call->owned[base]));
  const th_tensor *t = call->owned[base];
  for (int d = 0; d < rank; d++) {
    const th_expr *dim = value->type.dims[d];
    if (dim->op == TH_X_SYM) { // a size that becomes known here
      s->symbols[dim->symbol->index].i = dims[d];
    }
  }
  TH_TRY(th_sizes_value(call, value));
  TH_TRY(call_fits(run, out, value, dims));
  call->block->bases[base] = t->data;
  call->block->views[value->id] = s->views[value->id];
  call->block->views[value->id].data = t->data;
  *out_view = th_call_view(call, value);
  return TH_OK;
}

void th_run_set_number(th_run *run, uint32_t out, th_scalar value) {
  if (out < run->stmt->out_count && out < TH_MAX_OUTS) {
    run->numbers[out] = value;
  }
}

int th_run_threads(const th_run *run) { return run->call->threads; }

th_status th_run_dense(th_run *run, const th_view *view, int64_t *strides,
                       th_view *out) {
  int64_t count = 1;
  for (int i = view->rank - 1; i >= 0; i--) {
    strides[i] = count;
    count *= view->dims[i];
  }
  *out = *view;
  out->strides = strides;
  out->data = th_run_scratch(run, (size_t)count * th_dtype_size(view->dtype));
  if (!out->data) {
    return th_run_error(run, TH_NO_MEMORY, "out of memory");
  }
  th_ref_copy(out, view);
  return TH_OK;
}

void *th_run_state(const th_run *run) { return run->state; }

th_status th_run_error(th_run *run, th_status status, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return th_frame_error(run->call, run->stmt, status, "%s", text);
}

// From a final trace to a program: steps, bases, size rules, leaves.
#include "exec/program_impl.h"

#include "base/alloc.h"
#include "lowering/cache.h"

#include <string.h>

// ---- values

static void layout_windows(th_program *p) {
  const th_trace *t = p->trace;
  p->windows = TH_NEW_ARRAY(&p->arena, th_window, t->value_count);
  for (uint32_t i = 0; i < t->stmt_count; i++) {
    const th_stmt *stmt = t->stmts[i];
    bool window = !stmt->executor && th_stmt_is_window(p->ir, stmt);
    for (uint16_t o = 0; window && o < stmt->out_count; o++) {
      if (stmt->outs[o]) {
        p->windows[stmt->outs[o]->id] =
            (th_window){stmt->args[0].value, th_window_offset(p->ir, stmt, o)};
      }
    }
    if (stmt->in_place && stmt->outs[0]) {
      p->windows[stmt->outs[0]->id].from = stmt->args[0].value;
    }
    for (uint32_t k = 0; k < stmt->body_count; k++) {
      const th_stmt *kernel = stmt->body[k];
      if (kernel->in_place && kernel->outs[0]) {
        p->windows[kernel->outs[0]->id].from = kernel->args[0].value;
      }
    }
  }
}

// Memory of its own for everything that the slab does not hold.
static void layout_bases(th_program *p) {
  const th_trace *t = p->trace;
  p->base_of = TH_NEW_ARRAY(&p->arena, uint32_t, t->value_count);
  p->base_count = 1;
  for (uint32_t i = 0; i < t->input_count; i++) {
    p->base_of[t->inputs[i]->id] = p->base_count++;
  }
  th_slab_find(t, &p->buffers);
  p->base_of_buffer = TH_NEW_ARRAY(&p->arena, uint32_t, p->buffers.count + 1);
  for (uint32_t i = 0; i < p->buffers.count; i++) {
    if (p->data_sizes || p->buffers.last[i] == UINT32_MAX) {
      p->base_of_buffer[i] = p->base_count++;
    }
    p->base_of[p->buffers.owner[i]->id] = p->base_of_buffer[i];
  }
  for (uint32_t i = 1; i < t->value_count; i++) {
    const th_value *v = t->values[i];
    if (p->windows[i].from) {
      p->base_of[i] = p->base_of[p->windows[i].from->id];
    } else if (!v->input && !p->buffers.buffer_of[i] &&
               v->type.kind == TH_KIND_TENSOR) {
      p->base_of[i] = p->base_count++; // made by its step: nonzero, cond
    }
  }
}

// Results that lie in the memory of an input because they are written there.
static void layout_written(th_program *p, const th_stmt *stmt) {
  for (uint32_t k = 0; k < stmt->body_count; k++) {
    layout_written(p, stmt->body[k]);
  }
  if (!stmt->in_place || !stmt->outs[0]) {
    return;
  }
  uint32_t base = p->base_of[stmt->outs[0]->id];
  if (base != TH_BASE_SLAB && base <= p->trace->input_count) {
    TH_PUSH(&p->arena, p->written, p->written_count, p->written_cap) =
        base - 1; // bases of inputs follow the slab
  }
}

// ---- sizes

static void layout_push_rule(th_program *p, th_size_rule rule) {
  TH_PUSH(&p->arena, p->rules, p->rule_count, p->rule_cap) = rule;
}

// size = scale * symbol + add?
static bool layout_linear(const th_expr *e, th_size_rule *rule) {
  rule->add = 0;
  rule->scale = 1;
  if (e->op == TH_X_ADD && e->arg_count == 2 && th_is_const(e->args[1])) {
    rule->add = e->args[1]->i;
    e = e->args[0];
  }
  if (e->op == TH_X_MUL && e->arg_count == 2 && th_is_const(e->args[0])) {
    rule->scale = e->args[0]->i;
    e = e->args[1];
  }
  if (e->op != TH_X_SYM || rule->scale == 0) {
    return false;
  }
  rule->symbol = e->symbol->index;
  return true;
}

typedef struct layout_known {
  const bool *known;
  bool all;
} layout_known;

static void layout_is_known(void *user, const th_symbol *symbol) {
  layout_known *k = user;
  k->all = k->all && k->known[symbol->index];
}

static bool layout_all_known(const th_expr *e, const bool *known) {
  layout_known k = {known, true};
  th_expr_symbols(e, layout_is_known, &k);
  return k.all;
}

// First the sizes that give symbols their values, plain ones before linear
// ones, then the checks.
th_status th_layout_rules(th_program *p) {
  const th_trace *t = p->trace;
  bool *known = TH_NEW_ARRAY(&p->arena, bool, p->ir->symbol_count + 1);
  for (int pass = 0; pass < 3; pass++) {
    for (uint32_t i = 0; i < t->input_count; i++) {
      const th_type *type = &t->inputs[i]->type;
      if (type->kind == TH_KIND_NUMBER && type->num->op == TH_X_SYM) {
        known[type->num->symbol->index] = true;
      }
      for (uint8_t d = 0; type->kind == TH_KIND_TENSOR && d < type->rank; d++) {
        th_size_rule rule = {.input = i, .dim = d, .number = type->dims[d]};
        bool plain = type->dims[d]->op == TH_X_SYM;
        if (pass < 2 && layout_linear(type->dims[d], &rule) &&
            plain == (pass == 0) && !known[rule.symbol]) {
          rule.bind = true;
          known[rule.symbol] = true;
          layout_push_rule(p, rule);
        }
        if (pass == 2 && layout_all_known(type->dims[d], known)) {
          rule.bind = false;
          layout_push_rule(p, rule);
        }
      }
    }
  }
  return TH_OK;
}

// ---- the result

static void layout_leaves(th_program *p, const th_arg *arg) {
  if (arg->kind == TH_ARG_LIST || arg->kind == TH_ARG_TUPLE ||
      arg->kind == TH_ARG_DICT) {
    for (uint32_t i = 0; i < arg->count; i++) {
      layout_leaves(p, &arg->items[i]);
    }
    return;
  }
  TH_PUSH(&p->arena, p->leaves, p->leaf_count, p->leaf_cap) = arg;
}

static void layout_mutated(th_program *p, const th_arg *dict) {
  for (uint32_t i = 0; i < dict->count; i++) {
    th_value *input = th_map_get(&p->trace->names, dict->keys[i]);
    if (input && input->input && dict->items[i].kind == TH_ARG_VALUE) {
      TH_PUSH(&p->arena, p->mutated, p->mutated_count, p->mutated_cap) = input;
      TH_PUSH(&p->arena, p->mutated, p->mutated_count, p->mutated_cap) =
          dict->items[i].value;
    }
  }
}

static void layout_result(th_program *p) {
  const th_arg *output = th_trace_result(p->trace, "output");
  const th_arg *mutated = th_trace_result(p->trace, "mutated");
  layout_leaves(p, output ? output : &p->trace->result);
  if (output && mutated) {
    layout_mutated(p, mutated);
  }
}

// ---- steps

// Its code comes last, with all others (layout_compile).
static void layout_kernel(th_program *p, const th_stmt *kernel) {
  th_step *step = &p->steps[p->step_count++];
  step->kind = TH_STEP_KERNEL;
  step->stmt = kernel;
  p->kernel_count++;
}

static th_status layout_cond(th_program *p, const th_stmt *stmt,
                             th_step *step) {
  step->kind = TH_STEP_COND;
  for (int i = 0; i < 2; i++) {
    TH_TRY(th_program_new(p->ctx, stmt->args[1 + i].trace, &p->options,
                          &step->branches[i]));
    p->has_state = p->has_state || step->branches[i]->has_state;
  }
  return TH_OK;
}

// A trace that was read and whose passes did not run to the end.
static th_status layout_unclaimed(th_program *p, const th_stmt *stmt,
                                  const th_executor *e, const char *reason) {
  if (!stmt->executor) {
    return th_error(p->ctx, TH_UNSUPPORTED, stmt->loc,
                    "%s: no executor has claimed it; the passes 'default' do "
                    "all that a trace needs to run",
                    stmt->op->name);
  }
  if (e && e->fuse) {
    reason = "it runs regions alone, which the pass 'fuse' makes";
  } else if (!reason) {
    reason = e ? "not in its table" : "there is no such executor";
  }
  return th_error(p->ctx, TH_UNSUPPORTED, stmt->loc, "%s: executor '%s': %s",
                  stmt->op->name, stmt->executor, reason);
}

static th_status layout_call(th_program *p, const th_stmt *stmt,
                             th_step *step) {
  const th_executor *e =
      stmt->executor ? th_executor_find(p->ctx, stmt->executor) : NULL;
  const char *reason = NULL;
  step->kind = TH_STEP_CALL;
  const th_claim *claim = e ? th_executor_claim(e, stmt, &reason) : NULL;
  if (!claim) {
    return layout_unclaimed(p, stmt, e, reason);
  }
  step->run = claim->run;
  step->hooks = e->state;
  if (step->hooks && step->hooks->create) {
    TH_TRY(step->hooks->create(p->ctx, stmt, &step->state));
    p->has_state = true;
  }
  return TH_OK;
}

// A region of statements: its executor says what runs it.
static th_status layout_region(th_program *p, const th_stmt *region,
                               th_step *step) {
  const th_executor *e =
      region->executor ? th_executor_find(p->ctx, region->executor) : NULL;
  void *state = NULL;
  step->kind = TH_STEP_CALL;
  if (!e || !e->fuse_user) {
    return th_error(p->ctx, TH_UNSUPPORTED, region->loc,
                    "%s: no executor runs it: its body holds no kernels",
                    region->label);
  }
  th_status status = e->fuse_user(p->ctx, region, &step->run, &state);
  if (status == TH_OK) {
    step->release = e->release;
    step->state = state;
  }
  if (status != TH_OK || !step->run) {
    return th_error(p->ctx, status ? status : TH_INVALID, region->loc,
                    "%s: executor '%s' gives nothing that runs it",
                    region->label, e->name);
  }
  return TH_OK;
}

static th_status layout_stmt(th_program *p, const th_stmt *stmt) {
  th_step *step = &p->steps[p->step_count];
  step->stmt = stmt;
  switch (stmt->op->op) {
  case TH_OP_del:
    return TH_OK;
  case TH_OP_region:
    if (th_stmt_is_whole(stmt)) {
      TH_TRY(layout_region(p, stmt, step));
      break;
    }
    for (uint32_t k = 0; k < stmt->body_count; k++) {
      layout_kernel(p, stmt->body[k]);
    }
    return TH_OK;
  case TH_OP_kernel:
    layout_kernel(p, stmt);
    return TH_OK;
  case TH_OP_cond:
    TH_TRY(layout_cond(p, stmt, step));
    break;
  case TH_OP_assert_number:
    step->kind = TH_STEP_ASSERT;
    break;
  default:
    if (!stmt->executor && th_stmt_is_window(p->ir, stmt)) {
      if (!p->data_sizes) {
        return TH_OK;
      }
      step->kind = TH_STEP_WINDOW;
    } else {
      TH_TRY(layout_call(p, stmt, step));
    }
  }
  p->step_count++;
  return TH_OK;
}

static bool layout_has_data_sizes(const th_trace *t) {
  for (uint32_t i = 0; i < t->stmt_count; i++) {
    if (t->stmts[i]->op->traits & TH_DATA_SIZE) {
      return true;
    }
  }
  return false;
}

static th_status layout_steps(th_program *p) {
  uint32_t most = 1;
  for (uint32_t i = 0; i < p->trace->stmt_count; i++) {
    uint32_t kernels = p->trace->stmts[i]->body_count;
    most += kernels ? kernels : 1;
  }
  p->steps = TH_NEW_ARRAY(&p->arena, th_step, most);
  for (uint32_t i = 0; i < p->trace->stmt_count; i++) {
    TH_TRY(layout_stmt(p, p->trace->stmts[i]));
  }
  return TH_OK;
}

static th_status layout_compile(th_program *p) {
  uint32_t count = 0;
  const th_stmt **stmts =
      TH_NEW_ARRAY(&p->arena, const th_stmt *, p->kernel_count + 1u);
  th_kernel **kernels =
      TH_NEW_ARRAY(&p->arena, th_kernel *, p->kernel_count + 1u);
  for (uint32_t i = 0; i < p->step_count; i++) {
    if (p->steps[i].kind == TH_STEP_KERNEL) {
      stmts[count++] = p->steps[i].stmt;
    }
  }
  th_kernel_cache_options cache = {.no_disk = p->options.no_cache};
  TH_TRY(th_kernel_cache_configure(p->ctx, &cache));
  TH_TRY(th_lower_kernels(p->ctx, stmts, count, p->options.threads, kernels));
  for (uint32_t i = p->step_count; i-- > 0;) {
    if (p->steps[i].kind == TH_STEP_KERNEL) {
      p->steps[i].kernel = kernels[--count];
    }
  }
  return TH_OK;
}

static bool layout_is_static(const th_trace *t) {
  for (uint32_t i = 1; i < t->value_count; i++) {
    const th_type *type = &t->values[i]->type;
    if (type->kind == TH_KIND_NUMBER && !th_is_const(type->num)) {
      return false;
    }
    for (uint8_t d = 0; type->kind == TH_KIND_TENSOR && d < type->rank; d++) {
      if (!th_is_const(type->dims[d])) {
        return false;
      }
    }
  }
  return true;
}

static th_status layout_build(void *user) {
  th_program *p = user;
  p->data_sizes = layout_has_data_sizes(p->trace);
  p->is_static = !p->data_sizes && layout_is_static(p->trace);
  layout_windows(p);
  layout_bases(p);
  for (uint32_t i = 0; i < p->trace->stmt_count; i++) {
    layout_written(p, p->trace->stmts[i]);
  }
  layout_result(p);
  TH_TRY(th_layout_rules(p));
  th_kernel_stats before = th_kernel_stats_get(p->ctx);
  TH_TRY(layout_steps(p));
  TH_TRY(layout_compile(p));
  th_kernel_stats after = th_kernel_stats_get(p->ctx);
  p->stats.kernels_compiled = after.compiled - before.compiled;
  p->stats.kernels_from_disk = after.disk_hits - before.disk_hits;
  p->stats.kernels_shared = after.memory_hits - before.memory_hits;
  if (p->is_static) {
    th_frame call = {.program = p, .ctx = p->ctx};
    TH_TRY(th_sizes_fixed(&call));
    p->stats.plans = 1;
    p->stats.slab_bytes = p->sizes[0]->slab_bytes;
  }
  return TH_OK;
}

th_status th_program_new(th_context *ctx, const th_trace *trace,
                         const th_program_options *options,
                         th_program **out_program) {
  th_program *p = th_calloc(1, sizeof *p);
  *out_program = NULL;
  if (!p) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  uint64_t errors = th_error_count(ctx);
  p->ctx = ctx;
  p->trace = trace;
  p->ir = th_ir_retain(trace->ir);
  p->options = options ? *options : (th_program_options){0};
  pthread_mutex_init(&p->lock, NULL);
  th_arena_init(&p->arena, &ctx->unwind);
  th_status status = th_protect(&ctx->unwind, layout_build, p);
  if (status == TH_NO_MEMORY && th_error_count(ctx) == errors) {
    th_error(ctx, status, TH_NOWHERE, "out of memory");
  }
  if (status != TH_OK) {
    th_program_free(p);
    return status;
  }
  *out_program = p;
  return TH_OK;
}

static void layout_free_step(th_step *step) {
  th_lower_kernel_release(step->kernel);
  if (step->hooks && step->hooks->destroy) {
    step->hooks->destroy(step->state);
  }
  if (step->release) {
    step->release(step->state);
  }
  th_program_free(step->branches[0]);
  th_program_free(step->branches[1]);
}

void th_program_free(th_program *p) {
  if (!p) {
    return;
  }
  for (uint32_t i = 0; p->steps && i < p->step_count + 1; i++) {
    layout_free_step(&p->steps[i]);
  }
  for (int i = 0; i < TH_SIZES_KEPT; i++) {
    th_sizes_free(p->sizes[i]);
  }
  for (int i = 0; i < TH_BLOCKS_KEPT; i++) {
    th_block_free(atomic_load(&p->blocks[i]));
  }
  pthread_mutex_destroy(&p->lock);
  th_arena_deinit(&p->arena);
  th_ir_release(p->ir);
  th_free(p);
}

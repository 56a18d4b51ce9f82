// The end of a trace: its result, what it mutates, branches.
#include "module.h"
#include "tracer.h"

#include <string.h>

typedef struct finish_args {
  th_tracer *t;
  th_value *const *out;
  size_t count;
} finish_args;

static th_status finish_leaf(th_tracer *t, size_t index, const th_value *value,
                             th_arg *out) {
  th_operand o = th_operand_value((th_value *)(uintptr_t)value);
  if (!value) {
    return th_error(t->b->ir->ctx, TH_INVALID, t->b->loc,
                    "output %zu was not set", index);
  }
  return th_tracer_arg(t, &o, out);
}

static void finish_take(th_trace *trace, th_value **sorted, uint32_t *at,
                        const th_value *input) {
  for (uint32_t i = 0; i < trace->input_count; i++) {
    if (trace->inputs[i] == input) {
      sorted[(*at)++] = trace->inputs[i];
      trace->inputs[i] = NULL;
      return;
    }
  }
}

// Parameters and buffers as the module has them, not in the order in which the
// function happened to ask (arguments of a C call have none), constants, then
// the user's.
static void finish_order(th_tracer *t) {
  static const th_module_kind kinds[] = {TH_MODULE_PARAM, TH_MODULE_BUFFER};
  th_trace *trace = t->b->trace;
  uint32_t n = trace->input_count, at = 0;
  th_value **sorted = TH_NEW_ARRAY(&t->b->ir->arena, th_value *, n + 1);
  for (size_t k = 0; t->module && k < TH_COUNT(kinds); k++) {
    for (uint32_t i = 0; i < t->module->slots.count; i++) {
      const th_module_slot *slot = t->module->slots.entries[i].value;
      const th_tracer_state *s =
          slot->kind == kinds[k] ? th_map_get(&t->states, slot->fqn) : NULL;
      if (s) {
        finish_take(trace, sorted, &at, s->input);
      }
    }
  }
  for (int user = 0; user < 2; user++) {
    for (uint32_t i = 0; i < n; i++) {
      th_value *in = trace->inputs[i];
      if (in && (in->input->kind == TH_INPUT_USER) == user) {
        finish_take(trace, sorted, &at, in);
      }
    }
  }
  trace->inputs = sorted;
  trace->input_cap = n + 1;
}

static th_arg finish_mutated(const th_tracer *t) {
  th_ir *ir = t->b->ir;
  uint32_t n = t->now.count;
  const char **keys = TH_NEW_ARRAY(&ir->arena, const char *, n + 1);
  th_arg *items = TH_NEW_ARRAY(&ir->arena, th_arg, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    keys[i] = th_ir_string(ir, t->now.entries[i].key);
    items[i] = th_v(t->now.entries[i].value);
  }
  return th_dict(ir, keys, items, n);
}

static th_status finish(void *user) {
  const finish_args *a = user;
  th_tracer *t = a->t;
  th_ir *ir = t->b->ir;
  const char *keys[] = {"output", "mutated"};
  th_arg parts[2];
  th_arg *leaves = TH_NEW_ARRAY(&ir->arena, th_arg, a->count + 1);
  for (size_t i = 0; i < a->count; i++) {
    TH_TRY(finish_leaf(t, i, a->out[i], &leaves[i]));
  }
  parts[0] =
      a->count == 1 ? leaves[0] : th_tuple(ir, leaves, (uint32_t)a->count);
  parts[1] = finish_mutated(t);
  t->b->trace->result = th_dict(ir, keys, parts, t->now.count ? 2 : 1);
  finish_order(t);
  return TH_OK;
}

th_status th_tracer_finish(th_tracer *t, th_value *const *out, size_t count) {
  finish_args args = {t, out, count};
  if (t->b->status == TH_OK && t->scope_count) {
    t->b->status = th_error(t->b->ir->ctx, TH_INVALID, t->b->loc,
                            "scope '%s' was not left", t->b->scope);
  }
  return th_tracer_run(t, NULL, 0, finish, &args);
}

// ---- branches

typedef struct branch_args {
  th_tracer *t;
  th_value *condition;
  th_function branches[2];
  void *user;
  th_value *const *operands;
  size_t count;
  th_value **out;
  size_t out_count;
} branch_args;

static th_status branch_trace(const branch_args *a, th_function branch,
                              const char *name, th_trace **out_trace) {
  th_tracer inner;
  th_ir *ir = a->t->b->ir;
  th_tracer_init(&inner, ir, name);
  inner.around = a->t;
  inner.b->scope = a->t->b->scope;
  inner.b->loc = a->t->b->loc;
  th_value **in = TH_NEW_ARRAY(&ir->arena, th_value *, a->count + 1);
  th_value **out = TH_NEW_ARRAY(&ir->arena, th_value *, a->out_count + 1);
  th_arg *leaves = TH_NEW_ARRAY(&ir->arena, th_arg, a->out_count + 1);
  for (size_t i = 0; i < a->count; i++) {
    const th_value *o = a->operands[i];
    in[i] = th_trace_input(inner.b->trace, &o->type, o->name, NULL);
  }
  th_status status = branch(&inner, in, a->count, out, a->out_count, a->user);
  TH_TRY(inner.b->status);
  if (status != TH_OK) {
    return th_error(ir->ctx, status, a->t->b->loc, "the branch '%s' failed",
                    name);
  }
  for (size_t i = 0; i < a->out_count; i++) {
    TH_TRY(finish_leaf(&inner, i, out[i], &leaves[i]));
  }
  inner.b->trace->result = th_tuple(ir, leaves, (uint32_t)a->out_count);
  *out_trace = inner.b->trace;
  return TH_OK;
}

static th_status branch_build(void *user) {
  const branch_args *a = user;
  th_tracer *t = a->t;
  th_ir *ir = t->b->ir;
  static const char *const names[] = {"true_branch", "false_branch"};
  th_arg args[4];
  th_operand condition = th_operand_value(a->condition);
  th_operand operands = th_operand_values(a->operands, a->count);
  for (size_t i = 0; i < a->count; i++) {
    if (!th_value_is_tensor(a->operands[i])) {
      return th_error(ir->ctx, TH_INVALID, t->b->loc,
                      "cond: operand %zu is no tensor", i);
    }
  }
  TH_TRY(th_tracer_arg(t, &condition, &args[0]));
  TH_TRY(th_tracer_arg(t, &operands, &args[3]));
  for (int i = 0; i < 2; i++) {
    // Sub-traces are named apart in the text.
    const char *name =
        th_arena_printf(&ir->arena, "%s_%u", names[i], t->b->trace->stmt_count);
    args[1 + i] = (th_arg){.kind = TH_ARG_TRACE};
    TH_TRY(branch_trace(a, a->branches[i], name, &args[1 + i].trace));
  }
  th_stmt *stmt = th_build(t->b, th_op_row(TH_OP_cond), args, 4, NULL);
  for (size_t i = 0; stmt && i < a->out_count && i < stmt->out_count; i++) {
    a->out[i] = stmt->outs[i];
  }
  return t->b->status;
}

th_status th_cond_at(TH_PLACE, th_value *condition, th_function true_branch,
                     th_function false_branch, void *user,
                     th_value *const *operands, size_t count, th_value **out,
                     size_t out_count) {
  branch_args args = {t,    condition, {true_branch, false_branch},
                      user, operands,  count,
                      out,  out_count};
  for (size_t i = 0; i < out_count; i++) {
    out[i] = NULL;
  }
  if (!true_branch || !false_branch) {
    return th_tracer_error_at(t, file, line, TH_INVALID,
                              "cond: a branch is NULL");
  }
  return th_tracer_run(t, file, line, branch_build, &args);
}

// ---- reading statements

static const th_arg *stmt_arg(const th_stmt *stmt, size_t arg) {
  static const th_arg none = {.kind = TH_ARG_NONE};
  return arg < stmt->arg_count ? &stmt->args[arg] : &none;
}

size_t th_stmt_arg_count(const th_stmt *stmt) { return stmt->arg_count; }

th_value *th_stmt_arg_value(const th_stmt *stmt, size_t arg) {
  const th_arg *a = stmt_arg(stmt, arg);
  return a->kind == TH_ARG_VALUE ? a->value : NULL;
}

size_t th_stmt_list_count(const th_stmt *stmt, size_t arg) {
  const th_arg *a = stmt_arg(stmt, arg);
  return a->kind == TH_ARG_LIST ? a->count : 0;
}

th_value *th_stmt_list_value(const th_stmt *stmt, size_t arg, size_t index) {
  const th_arg *a = stmt_arg(stmt, arg);
  return a->kind == TH_ARG_LIST && index < a->count &&
                 a->items[index].kind == TH_ARG_VALUE
             ? a->items[index].value
             : NULL;
}

static const th_expr *stmt_constant(const th_stmt *stmt, size_t arg) {
  const th_arg *a = stmt_arg(stmt, arg);
  return a->kind == TH_ARG_NUM && th_is_const(a->num) ? a->num : NULL;
}

bool th_stmt_arg_int(const th_stmt *stmt, size_t arg, int64_t *out) {
  const th_expr *e = stmt_constant(stmt, arg);
  if (!e || e->dtype == TH_F64) {
    return false;
  }
  *out = e->i;
  return true;
}

bool th_stmt_arg_float(const th_stmt *stmt, size_t arg, double *out) {
  const th_expr *e = stmt_constant(stmt, arg);
  if (!e) {
    return false;
  }
  *out = e->dtype == TH_F64 ? e->f : (double)e->i;
  return true;
}

const char *th_stmt_arg_string(const th_stmt *stmt, size_t arg) {
  const th_arg *a = stmt_arg(stmt, arg);
  return a->kind == TH_ARG_STRING ? a->text : NULL;
}

size_t th_stmt_out_count(const th_stmt *stmt) { return stmt->out_count; }

th_value *th_stmt_out(const th_stmt *stmt, size_t index) {
  return index < stmt->out_count ? stmt->outs[index] : NULL;
}

const char *th_stmt_executor(const th_stmt *stmt) { return stmt->executor; }

// Marks the last use of each result with `del`, so that a reader and the plan
// see how long memory is held.  Inputs belong to the caller and are not
// deleted; results that are returned live on.
#include "passes/pass.h"

typedef struct del_uses {
  uint32_t *last; // by value id: statement index + 1; 0: not used
  uint32_t now;
} del_uses;

static void del_use(void *user, th_value *value) {
  del_uses *uses = user;
  uses->last[value->id] = uses->now;
}

static void del_scan(const th_trace *in, del_uses *uses) {
  for (uint32_t i = 0; i < in->stmt_count; i++) {
    const th_stmt *stmt = in->stmts[i];
    uses->now = i + 1;
    for (uint16_t o = 0; o < stmt->out_count; o++) {
      if (stmt->outs[o]) {
        del_use(uses, stmt->outs[o]);
      }
    }
    th_stmt_operands(stmt, del_use, uses);
  }
  uses->now = UINT32_MAX;
  th_arg_values(&in->result, del_use, uses);
}

typedef struct del_list {
  const del_uses *uses;
  th_remap *m;
  th_arena *arena;
  th_arg *args;
  uint32_t count, cap;
  uint32_t now;
} del_list;

static void del_collect(void *user, th_value *value) {
  del_list *list = user;
  if (list->uses->last[value->id] != list->now || value->input ||
      value->type.kind != TH_KIND_TENSOR) {
    return;
  }
  th_value *mapped = list->m->map[value->id];
  for (uint32_t i = 0; i < list->count; i++) {
    if (list->args[i].value == mapped) {
      return;
    }
  }
  TH_PUSH(list->arena, list->args, list->count, list->cap) = th_v(mapped);
}

th_status th_pass_del(th_pipeline *p, const th_trace *in, th_trace **out) {
  th_arena *arena = &p->ir->arena;
  th_builder b;
  th_remap m;
  del_uses uses = {TH_NEW_ARRAY(arena, uint32_t, in->value_count), 0};
  del_scan(in, &uses);
  *out = th_remap_begin(&m, in, &b);
  for (uint32_t i = 0; i < in->stmt_count && b.status == TH_OK; i++) {
    const th_stmt *stmt = in->stmts[i];
    if (stmt->op->op == TH_OP_del) {
      continue; // the pass ran before: its answer is made anew
    }
    th_remap_stmt(&m, stmt);
    del_list list = {&uses, &m, arena, NULL, 0, 0, i + 1};
    th_stmt_operands(stmt, del_collect, &list);
    for (uint16_t o = 0; o < stmt->out_count; o++) {
      if (stmt->outs[o]) {
        del_collect(&list, stmt->outs[o]);
      }
    }
    if (list.count) {
      b.scope = stmt->scope;
      b.loc = stmt->loc;
      th_build(&b, th_op_row(TH_OP_del), list.args, list.count, NULL);
    }
  }
  return th_remap_end(&m);
}

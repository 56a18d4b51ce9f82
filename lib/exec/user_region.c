// A region of a user's executor: the statements themselves, in order.  What
// runs it is asked of the executor when a program is made (layout.c).
#include "exec/executor.h"

#include <stdio.h>

typedef struct user_region {
  const th_fusion *fusion;
  th_arena *arena;
  uint32_t first; // id of the first value that the region makes
  th_arg *args;
  uint32_t arg_count, arg_cap;
} user_region;

static void user_region_operand(void *user, th_value *old) {
  user_region *s = user;
  th_value *now = s->fusion->remap->map[old->id];
  if (now->id >= s->first) {
    return;
  }
  for (uint32_t i = 0; i < s->arg_count; i++) {
    if (s->args[i].value == now) {
      return;
    }
  }
  TH_PUSH(s->arena, s->args, s->arg_count, s->arg_cap) = th_v(now);
}

// Nothing is written in place: a run sees only the region's results.
static th_stmt *user_region_copy(user_region *s, const th_stmt *stmt) {
  th_remap *m = s->fusion->remap;
  th_stmt *copy = TH_NEW(s->arena, th_stmt);
  *copy = *stmt;
  copy->executor = NULL;
  copy->in_place = false;
  copy->args = TH_NEW_ARRAY(s->arena, th_arg, stmt->arg_count + 1);
  copy->outs = TH_NEW_ARRAY(s->arena, th_value *, stmt->out_count + 1);
  th_stmt_operands(stmt, user_region_operand, s);
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    copy->args[i] = th_remap_arg(m, &stmt->args[i]);
  }
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    th_value *old = stmt->outs[i];
    if (old) {
      copy->outs[i] = th_trace_value(m->to->trace, &old->type, old->name);
      copy->outs[i]->def = copy;
      th_remap_set(m, old, copy->outs[i]);
    }
  }
  return copy;
}

// What is made inside and is no result cannot be seen any more.
static void user_region_set_outs(user_region *s, th_stmt *region) {
  const th_fusion *f = s->fusion;
  region->out_count = (uint16_t)f->out_count;
  region->outs = TH_NEW_ARRAY(s->arena, th_value *, f->out_count + 1);
  for (uint32_t i = 0; i < f->out_count; i++) {
    region->outs[i] = f->remap->map[f->outs[i]->id];
  }
  for (uint32_t i = 0; i < f->count; i++) {
    for (uint16_t k = 0; k < f->stmts[i]->out_count; k++) {
      if (f->stmts[i]->outs[k]) {
        th_remap_set(f->remap, f->stmts[i]->outs[k], NULL);
      }
    }
  }
  for (uint32_t i = 0; i < f->out_count; i++) {
    th_remap_set(f->remap, f->outs[i], region->outs[i]);
  }
}

th_status th_user_region(const th_executor *executor, th_fusion *fusion) {
  th_ir *ir = fusion->to->ir;
  th_trace *t = fusion->to->trace;
  user_region s = {
      .fusion = fusion, .arena = &ir->arena, .first = t->value_count};
  if (fusion->to->status != TH_OK) {
    return fusion->to->status;
  }
  const th_stmt *last = fusion->stmts[fusion->count - 1];
  th_stmt *region = TH_NEW(s.arena, th_stmt);
  char label[96];
  snprintf(label, sizeof label, "%.60sFusion%u", executor->name,
           (*fusion->region_number)++);
  region->op = th_op_row(TH_OP_region);
  region->label = th_ir_string(ir, label);
  region->executor = executor->name;
  region->scope = last->scope;
  region->loc = last->loc;
  region->body = TH_NEW_ARRAY(s.arena, th_stmt *, fusion->count + 1);
  for (uint32_t i = 0; i < fusion->count; i++) {
    region->body[i] = user_region_copy(&s, fusion->stmts[i]);
    region->body[i]->index = i;
  }
  region->body_count = fusion->count;
  region->args = s.args;
  region->arg_count = (uint16_t)s.arg_count;
  user_region_set_outs(&s, region);
  region->index = t->stmt_count;
  TH_PUSH(s.arena, t->stmts, t->stmt_count, t->stmt_cap) = region;
  return TH_OK;
}

// A region statement from the statements of a region: its kernels, in order.
#include "lowering/lower.h"

#include "lowering/partition.h"

#include <stdio.h>
#include <string.h>

typedef struct region_state {
  const th_lower_input *in;
  th_ir *ir;
  th_trace *trace;
  th_arena arena; // goes with the call
  th_map made;    // old value -> itself: made by a statement of the region
  th_map stored;  // old value -> the new one in memory
  th_stmt *region;
  th_value **args; // of the region, new values
  uint32_t arg_count, arg_cap;
} region_state;

static th_value *region_stored(const region_state *s, const th_value *old) {
  return th_map_get_bytes(&s->stored, &old, sizeof(void *));
}

static bool region_is_made(const region_state *s, const th_value *old) {
  return th_map_get_bytes(&s->made, &old, sizeof(void *)) != NULL;
}

static void region_add_arg(th_arena *arena, th_value ***args, uint32_t *count,
                           uint32_t *cap, th_value *value) {
  for (uint32_t i = 0; i < *count; i++) {
    if ((*args)[i] == value) {
      return;
    }
  }
  TH_PUSH(arena, *args, *count, *cap) = value;
}

static th_stmt *region_statement(region_state *s, th_op op, const char *prefix,
                                 uint32_t number) {
  th_stmt *stmt = TH_NEW(&s->ir->arena, th_stmt);
  char label[96];
  snprintf(label, sizeof label, "%.60s%s%u", s->in->executor, prefix, number);
  stmt->op = th_op_row(op);
  stmt->label = th_ir_string(s->ir, label);
  stmt->executor = s->in->executor;
  stmt->scope = "";
  return stmt;
}

static void region_set_args(region_state *s, th_stmt *stmt,
                            th_value *const *args, uint32_t count) {
  stmt->arg_count = (uint16_t)count;
  stmt->args = TH_NEW_ARRAY(&s->ir->arena, th_arg, count + 1);
  for (uint32_t i = 0; i < count; i++) {
    stmt->args[i] = th_v(args[i]);
  }
}

// ---- one kernel

typedef struct region_kernel {
  region_state *s;
  th_stmt *stmt;
  th_map local; // old value -> the new one made inside this kernel
  th_value **args;
  uint32_t arg_count, arg_cap;
  uint32_t body_cap;
} region_kernel;

static th_value *region_local(const region_kernel *k, const th_value *old) {
  return th_map_get_bytes(&k->local, &old, sizeof(void *));
}

// What a statement of the kernel reads: made here, by an earlier kernel, or
// outside.
static void region_map_operand(void *user, th_value *old) {
  region_kernel *k = user;
  region_state *s = k->s;
  th_remap *m = s->in->remap;
  th_value *local = region_local(k, old), *now = local;
  if (!now && region_is_made(s, old)) {
    now = region_stored(s, old);
    TH_ASSERT(now);
    region_add_arg(&s->arena, &k->args, &k->arg_count, &k->arg_cap, now);
  } else if (!now) {
    now = th_map_get_bytes(&s->stored, &old, sizeof(void *));
    if (!now) { // the first time that anyone looks outside for it
      now = m->map[old->id];
      th_map_put_bytes(&s->stored, &old, sizeof(void *), now);
      region_add_arg(&s->arena, &s->args, &s->arg_count, &s->arg_cap, now);
    }
    region_add_arg(&s->arena, &k->args, &k->arg_count, &k->arg_cap, now);
  }
  m->map[old->id] = now;
}

static th_stmt *region_append(region_kernel *k, const th_stmt *like) {
  th_arena *arena = &k->s->ir->arena;
  th_stmt *copy = TH_NEW(arena, th_stmt);
  *copy = *like;
  copy->executor = NULL;
  copy->index = k->stmt->body_count;
  copy->args = TH_NEW_ARRAY(arena, th_arg, like->arg_count + 1);
  copy->outs = TH_NEW_ARRAY(arena, th_value *, like->out_count + 1);
  TH_PUSH(arena, k->stmt->body, k->stmt->body_count, k->body_cap) = copy;
  return copy;
}

static void region_copy_stmt(region_kernel *k, const th_stmt *stmt) {
  region_state *s = k->s;
  th_stmt_operands(stmt, region_map_operand, k);
  th_stmt *copy = region_append(k, stmt);
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    copy->args[i] = th_remap_arg(s->in->remap, &stmt->args[i]);
  }
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    th_value *old = stmt->outs[i];
    if (!old) {
      continue;
    }
    th_value *now = th_trace_value(s->trace, &old->type, old->name);
    now->def = copy;
    copy->outs[i] = now;
    th_map_put_bytes(&k->local, &old, sizeof(void *), now);
  }
}

// A view that is stored becomes a row-major copy.
static th_value *region_dense(region_kernel *k, th_value *value) {
  region_state *s = k->s;
  if (!value->type.strides) {
    return value;
  }
  th_stmt clone = {.op = th_op_row(TH_OP_clone),
                   .arg_count = 1,
                   .out_count = 1,
                   .scope = value->def->scope,
                   .loc = value->def->loc};
  th_stmt *copy = region_append(k, &clone);
  th_type type = value->type;
  type.strides = NULL;
  copy->args[0] = th_v(value);
  copy->outs[0] = th_trace_value(s->trace, &type, value->name);
  copy->outs[0]->def = copy;
  return copy->outs[0];
}

// What a kernel overwrites is its first argument.
static void region_written_first(region_kernel *k) {
  const th_stmt *last = k->stmt->body[k->stmt->body_count - 1];
  for (uint32_t i = 0; last->in_place && i < k->arg_count; i++) {
    if (k->args[i] == last->args[0].value) {
      k->args[i] = k->args[0];
      k->args[0] = last->args[0].value;
    }
  }
}

static void region_add_kernel(region_state *s, const th_part *part,
                              uint32_t number) {
  th_arena *arena = &s->ir->arena;
  region_kernel k = {.s = s};
  th_map_init(&k.local, &s->arena);
  k.stmt = region_statement(s, TH_OP_kernel, "Kernel", number);
  k.stmt->in_place = part->in_place;
  for (uint32_t i = 0; i < part->stmt_count; i++) {
    region_copy_stmt(&k, s->in->stmts[part->stmts[i]]);
  }
  k.stmt->outs = TH_NEW_ARRAY(arena, th_value *, part->out_count + 1);
  k.stmt->out_count = (uint16_t)part->out_count;
  for (uint32_t i = 0; i < part->out_count; i++) {
    const th_value *old = part->outs[i];
    th_value *now = region_local(&k, old);
    now = part->in_place ? now : region_dense(&k, now);
    k.stmt->outs[i] = now;
    th_map_put_bytes(&s->stored, &old, sizeof(void *), now);
  }
  if (part->in_place) {
    region_written_first(&k);
  }
  region_set_args(s, k.stmt, k.args, k.arg_count);
  k.stmt->scope = k.stmt->body[k.stmt->body_count - 1]->scope;
  k.stmt->index = s->region->body_count;
  s->region->body[s->region->body_count++] = k.stmt;
}

// ---- the region

// Results that no reader needs do not exist in the copies; remap->map holds
// only what can be seen outside again.
static void region_restore_map(region_state *s) {
  th_remap *m = s->in->remap;
  for (uint32_t i = 0; i < s->in->count; i++) {
    const th_stmt *stmt = s->in->stmts[i];
    for (uint16_t k = 0; k < stmt->out_count; k++) {
      if (stmt->outs[k]) {
        m->map[stmt->outs[k]->id] = NULL;
      }
    }
  }
  for (uint32_t i = 0; i < s->in->out_count; i++) {
    m->map[s->in->outs[i]->id] = region_stored(s, s->in->outs[i]);
  }
}

static void region_find_made(region_state *s) {
  for (uint32_t i = 0; i < s->in->count; i++) {
    const th_stmt *stmt = s->in->stmts[i];
    for (uint16_t k = 0; k < stmt->out_count; k++) {
      th_value *out = stmt->outs[k];
      if (out) {
        th_map_put_bytes(&s->made, &out, sizeof(void *), out);
      }
    }
  }
}

static th_status region_build(void *user) {
  region_state *s = user;
  const th_lower_input *in = s->in;
  th_part *parts = NULL;
  uint32_t count = 0;
  th_map_init(&s->made, &s->arena);
  th_map_init(&s->stored, &s->arena);
  region_find_made(s);
  TH_TRY(th_partition(s->ir, &s->arena, in->stmts, in->count, in->outs,
                      in->out_count, &parts, &count));
  s->region =
      region_statement(s, TH_OP_region, "Fusion", (*in->region_number)++);
  s->region->scope = in->stmts[in->count - 1]->scope;
  s->region->loc = in->stmts[in->count - 1]->loc;
  s->region->body = TH_NEW_ARRAY(&s->ir->arena, th_stmt *, count + 1);
  for (uint32_t i = 0; i < count; i++) {
    region_add_kernel(s, &parts[i], (*in->kernel_number)++);
  }
  s->region->outs = TH_NEW_ARRAY(&s->ir->arena, th_value *, in->out_count + 1);
  s->region->out_count = (uint16_t)in->out_count;
  for (uint32_t i = 0; i < in->out_count; i++) {
    s->region->outs[i] = region_stored(s, in->outs[i]);
  }
  region_set_args(s, s->region, s->args, s->arg_count);
  region_restore_map(s);
  th_trace *t = s->trace;
  s->region->index = t->stmt_count;
  TH_PUSH(&s->ir->arena, t->stmts, t->stmt_count, t->stmt_cap) = s->region;
  return TH_OK;
}

th_status th_lower_region(const th_lower_input *in) {
  th_builder *to = in->remap->to;
  if (to->status != TH_OK) {
    return to->status;
  }
  region_state s = {.in = in, .ir = to->ir, .trace = to->trace};
  th_arena_init(&s.arena, &to->ir->ctx->unwind);
  th_status status = th_protect(&to->ir->ctx->unwind, region_build, &s);
  th_arena_deinit(&s.arena);
  return status;
}

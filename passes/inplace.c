// Updates in place: a scatter whose first operand nobody reads afterwards may
// write into it instead of copying it (key and value caches, optimisers).
//
// An operand that a statement made is free when it has no later use, counting
// every view of it.  An input is free when in addition the result is what is
// written back to it, and neither the scatter itself, which could stop half
// way, nor a later statement can fail: a call that fails changes nothing.  Of
// several caches with one index the first is copied, which checks the index,
// and the others are free.
#include "passes/pass.h"

#include <string.h>

typedef struct inplace_state {
  th_pipeline *p;
  const th_trace *in;
  uint32_t *base;     // by value id: id of the value whose memory it is
  uint32_t *last_use; // by value id of a base: statement index + 1
  uint32_t now;
  uint32_t safe; // from this statement on nothing can fail
} inplace_state;

static void inplace_use(void *user, th_value *value) {
  inplace_state *s = user;
  s->last_use[s->base[value->id]] = s->now;
}

static void inplace_scan(inplace_state *s) {
  const th_trace *t = s->in;
  for (uint32_t i = 0; i < t->value_count; i++) {
    s->base[i] = i;
  }
  for (uint32_t i = 0; i < t->stmt_count; i++) {
    const th_stmt *stmt = t->stmts[i];
    s->now = i + 1;
    if (th_stmt_is_window(s->p->ir, stmt)) {
      for (uint16_t o = 0; o < stmt->out_count; o++) {
        if (stmt->outs[o]) {
          s->base[stmt->outs[o]->id] = s->base[stmt->args[0].value->id];
        }
      }
    }
    th_stmt_operands(stmt, inplace_use, s);
  }
}

static void inplace_returned(void *user, th_value *value) {
  inplace_state *s = user;
  s->last_use[s->base[value->id]] = UINT32_MAX;
}

// Is `result` what is written back into the input `x`?
static bool inplace_writes_back(const th_trace *t, const th_value *x,
                                const th_value *result) {
  const th_arg *mutated = th_trace_result(t, "mutated");
  for (uint32_t i = 0; mutated && i < mutated->count; i++) {
    if (strcmp(mutated->keys[i], x->name) == 0) {
      return mutated->items[i].kind == TH_ARG_VALUE &&
             mutated->items[i].value == result;
    }
  }
  return false;
}

// A user's executor may stop a call for reasons of its own, and takes its
// results for memory that nothing else reads.
static bool inplace_is_foreign(const inplace_state *s, const th_stmt *stmt) {
  for (uint32_t i = 0; stmt->executor && i < s->p->executors.count; i++) {
    const th_executor *e = s->p->executors.items[i];
    if (strcmp(e->name, stmt->executor) == 0) {
      return !e->builtin;
    }
  }
  return false;
}

// An index that an earlier statement checked against the same size.
static bool inplace_checked_before(const inplace_state *s,
                                   const th_stmt *stmt) {
  if (stmt->op->op != TH_OP_index_copy) {
    return false;
  }
  const th_type *x = &stmt->args[0].value->type;
  int64_t dim = stmt->args[1].num->i + (stmt->args[1].num->i < 0 ? x->rank : 0);
  for (uint32_t i = 0; i < stmt->index; i++) {
    const th_stmt *other = s->in->stmts[i];
    if (other->op != stmt->op || other->args[2].value != stmt->args[2].value) {
      continue;
    }
    const th_type *y = &other->args[0].value->type;
    int64_t d = other->args[1].num->i;
    d += d < 0 ? y->rank : 0;
    if (y->dims[d] == x->dims[dim]) {
      return true;
    }
  }
  return false;
}

// May the run of a statement stop the call?
static bool inplace_may_fail(const inplace_state *s, const th_stmt *stmt) {
  bool foreign = stmt->op->op >= TH_OP_COUNT || inplace_is_foreign(s, stmt);
  return foreign || ((stmt->op->traits & TH_CHECKS) != 0 &&
                     !inplace_checked_before(s, stmt));
}

static uint32_t inplace_safe_from(const inplace_state *s) {
  uint32_t i = s->in->stmt_count;
  while (i > 0 && !inplace_may_fail(s, s->in->stmts[i - 1])) {
    i--;
  }
  return i;
}

typedef struct inplace_search {
  const inplace_state *s;
  uint32_t base;
  bool found;
} inplace_search;

static void inplace_find(void *user, th_value *value) {
  inplace_search *search = user;
  search->found |= search->s->base[value->id] == search->base;
}

// Does the statement read the memory in another operand, too?
static bool inplace_overlaps_operand(const inplace_state *s,
                                     const th_stmt *stmt, uint32_t base) {
  inplace_search search = {s, base, false};
  for (uint16_t a = 1; a < stmt->arg_count; a++) {
    th_arg_values(&stmt->args[a], inplace_find, &search);
  }
  return search.found;
}

static bool inplace_allowed(const inplace_state *s, const th_stmt *stmt) {
  if (!(stmt->op->traits & TH_SCATTER) || !stmt->outs[0] || stmt->in_place ||
      inplace_is_foreign(s, stmt)) {
    return false;
  }
  const th_value *x = stmt->args[0].value;
  uint32_t base = s->base[x->id];
  const th_value *root = s->in->values[base];
  if (root != x || !th_type_equal(&x->type, &stmt->outs[0]->type) ||
      s->last_use[base] > stmt->index + 1 ||
      inplace_overlaps_operand(s, stmt, base)) {
    return false;
  }
  return !root->input || (inplace_writes_back(s->in, root, stmt->outs[0]) &&
                          stmt->index >= s->safe);
}

th_status th_pass_inplace(th_pipeline *p, const th_trace *in, th_trace **out) {
  inplace_state s = {.p = p, .in = in};
  th_builder b;
  th_remap m;
  s.base = TH_NEW_ARRAY(&p->ir->arena, uint32_t, in->value_count);
  s.last_use = TH_NEW_ARRAY(&p->ir->arena, uint32_t, in->value_count);
  inplace_scan(&s);
  s.safe = inplace_safe_from(&s);
  th_arg_values(&in->result, inplace_returned, &s);
  *out = th_remap_begin(&m, in, &b);
  for (uint32_t i = 0; i < in->stmt_count && b.status == TH_OK; i++) {
    th_stmt *copy = th_remap_stmt(&m, in->stmts[i]);
    if (copy && inplace_allowed(&s, in->stmts[i])) {
      copy->in_place = true;
    }
  }
  return th_remap_end(&m);
}

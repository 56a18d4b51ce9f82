// Claims: each statement goes to the first executor of the list that accepts
// it, composites first; a composite that nobody accepts is expanded and its
// statements are asked about in turn.  What is left at the end is listed in one
// error, each operation once, with every executor's reason.
//
// Views of row-major or strided memory need no executor (they are windows).
//
// An executor with anchors gets runs of statements that have one in them.
//
// An executor that takes chains (a product with its bias, activation and
// residual) gets the statements behind the one it accepts as long as each is
// the only reader of the one before.  They are written together, where the last
// one stands; the fuse pass makes a region of them.
#include "passes/pass.h"

#include "ir/expand.h"

#include <string.h>

enum { CLAIM_ROUNDS = 16 }; // depth of composites; more is a bug of ours

typedef struct claim_chain {
  const th_executor *executor;
  const th_stmt **stmts;
  uint32_t count, cap;
} claim_chain;

typedef struct claim_state {
  th_pipeline *p;
  const th_trace *in;
  th_builder b;
  th_remap m;
  uint32_t expanded;
  uint32_t missing;
  th_map reported; // operation names
  // By value id: how many statements read it, and the last one's index.
  uint32_t *readers, *reader;
  uint32_t now;
  claim_chain **chains; // by statement index
  // By statement index: the executor with anchors whose run it is in.
  const th_executor **anchored;
} claim_state;

static void claim_explain(claim_state *s, const th_stmt *stmt,
                          const char *executor, const char *reason) {
  if (s->p->explain && s->p->explanation) {
    th_buffer_printf(s->p->explanation, "%s: %s: %s\n", stmt->op->name,
                     executor, reason ? reason : "not in its table");
  }
}

// A window is nobody's, unless it can be part of a region: its result has the
// strides of the operand's memory, which are not those of a buffer of its own.
static bool claim_accepts(const claim_state *s, const th_executor *e,
                          const th_stmt *stmt, const char **reason) {
  if (!th_stmt_is_window(s->p->ir, stmt) &&
      th_executor_claim(e, stmt, reason)) {
    return true;
  }
  if (!th_executor_can_fuse(e, stmt, reason)) {
    return false;
  }
  if (!e->anchors || s->anchored[stmt->index] == e) {
    return true;
  }
  *reason = "no anchor is in its run of statements";
  return false;
}

static const th_executor *claim_by(claim_state *s, const th_stmt *stmt) {
  for (uint32_t i = 0; i < s->p->executors.count; i++) {
    const th_executor *e = s->p->executors.items[i];
    const char *reason = NULL;
    if (claim_accepts(s, e, stmt, &reason)) {
      return e;
    }
    claim_explain(s, stmt, e->name, reason);
  }
  return NULL;
}

// Is the statement one that the executor at `index` of the list may get?
static bool claim_in_reach(const claim_state *s, uint32_t index,
                           const th_stmt *stmt) {
  const th_executor *e = s->p->executors.items[index];
  const char *reason = NULL;
  if (stmt->executor || stmt->op->traits & (TH_STRUCT | TH_CONTROL)) {
    return stmt->executor && strcmp(stmt->executor, e->name) == 0;
  }
  for (uint32_t i = 0; i < index; i++) {
    if (claim_accepts(s, s->p->executors.items[i], stmt, &reason)) {
      return false;
    }
  }
  return th_executor_can_fuse(e, stmt, &reason);
}

// Gives runs that have an anchor to the executor at `index`.
static void claim_anchor_runs(claim_state *s, uint32_t index) {
  const th_executor *e = s->p->executors.items[index];
  const char *reason = NULL;
  uint32_t count = s->in->stmt_count;
  for (uint32_t i = 0, end; i<count; i = end> i ? end : i + 1) {
    bool anchor = false;
    for (end = i; end < count; end++) {
      const th_stmt *stmt = s->in->stmts[end];
      if (!claim_in_reach(s, index, stmt)) {
        break;
      }
      anchor = anchor || e->anchors(stmt, &reason);
    }
    for (uint32_t k = i; anchor && k < end; k++) {
      s->anchored[k] = e;
    }
  }
}

static void claim_find_anchors(claim_state *s) {
  s->anchored = TH_NEW_ARRAY(&s->p->ir->arena, const th_executor *,
                             s->in->stmt_count + 1u);
  for (uint32_t i = 0; i < s->p->executors.count; i++) {
    if (s->p->executors.items[i]->anchors) {
      claim_anchor_runs(s, i);
    }
  }
}

static void claim_missing(claim_state *s, const th_stmt *stmt) {
  th_context *ctx = s->p->ir->ctx;
  s->missing++;
  if (th_map_get(&s->reported, stmt->op->name)) {
    return;
  }
  th_map_put(&s->reported, stmt->op->name, s);
  th_error(ctx, TH_UNSUPPORTED, stmt->loc,
           "%s: none of the executors accepts it%s%s", stmt->op->name,
           *stmt->scope ? ", in " : "", stmt->scope);
  for (uint32_t i = 0; i < s->p->executors.count; i++) {
    const th_executor *e = s->p->executors.items[i];
    const char *reason = NULL;
    if (!th_executor_claim(e, stmt, &reason)) {
      th_executor_can_fuse(e, stmt, &reason);
    }
    th_note(ctx, TH_NOWHERE, "%s: %s", e->name,
            reason ? reason : "not in its table");
  }
}

// Replaces a composite by its meaning.
static th_status claim_expand(claim_state *s, const th_stmt *stmt) {
  th_stmt here = *stmt;
  th_value *outs[TH_MAX_PARAMS * 64] = {0};
  here.args = TH_NEW_ARRAY(&s->p->ir->arena, th_arg, stmt->arg_count + 1);
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    here.args[i] = th_remap_arg(&s->m, &stmt->args[i]);
  }
  if (stmt->out_count > TH_COUNT(outs)) {
    return th_error(s->p->ir->ctx, TH_UNSUPPORTED, stmt->loc,
                    "%s: more than %zu results", stmt->op->name,
                    TH_COUNT(outs));
  }
  s->b.scope = stmt->scope;
  s->b.loc = stmt->loc;
  TH_TRY(th_expand(&s->b, &here, outs));
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i]) {
      th_remap_set(&s->m, stmt->outs[i], outs[i]);
      th_value_rename(s->b.trace, outs[i], stmt->outs[i]->name);
    }
  }
  s->expanded++;
  return TH_OK;
}

// ---- chains

static void claim_read(void *user, th_value *value) {
  claim_state *s = user;
  s->readers[value->id]++;
  s->reader[value->id] = s->now;
}

static void claim_count_readers(claim_state *s) {
  const th_trace *in = s->in;
  th_arena *arena = &s->p->ir->arena;
  s->readers = TH_NEW_ARRAY(arena, uint32_t, in->value_count);
  s->reader = TH_NEW_ARRAY(arena, uint32_t, in->value_count);
  s->chains = TH_NEW_ARRAY(arena, claim_chain *, in->stmt_count + 1u);
  for (s->now = 0; s->now < in->stmt_count; s->now++) {
    th_stmt_operands(in->stmts[s->now], claim_read, s);
  }
  th_arg_values(&in->result, claim_read, s); // reader: past the end
}

// The statement that alone reads what `stmt` makes: its first result, where
// nobody wants another.
static th_stmt *claim_next(const claim_state *s, const th_stmt *stmt) {
  const th_value *out = stmt->outs[0];
  for (uint16_t i = 1; i < stmt->out_count; i++) {
    out = stmt->outs[i] ? NULL : out;
  }
  bool one = out && s->readers[out->id] == 1;
  uint32_t index = one ? s->reader[out->id] : s->in->stmt_count;
  return index < s->in->stmt_count ? s->in->stmts[index] : NULL;
}

// Each statement that joins takes one of fuel.
static claim_chain *claim_make_chain(claim_state *s, const th_executor *e,
                                     const th_stmt *first) {
  th_arena *arena = &s->p->ir->arena;
  claim_chain *chain = TH_NEW(arena, claim_chain);
  chain->executor = e;
  for (const th_stmt *stmt = first; stmt;) {
    const char *reason = NULL;
    TH_PUSH(arena, chain->stmts, chain->count, chain->cap) = stmt;
    s->chains[stmt->index] = chain;
    const th_stmt *next = s->p->fuel ? claim_next(s, stmt) : NULL;
    bool joins = next && !next->executor && !s->chains[next->index] &&
                 e->follows(chain->stmts, chain->count, next, &reason);
    if (next && !joins) {
      claim_explain(s, next, e->name, reason);
    }
    s->p->fuel -= joins && s->p->fuel > 0;
    stmt = joins ? next : NULL;
  }
  return chain;
}

static th_status claim_put(claim_state *s, const th_stmt *stmt,
                           const th_executor *e) {
  th_stmt *copy = th_remap_stmt(&s->m, stmt);
  if (copy) {
    copy->executor = e->name;
  }
  return s->b.status;
}

typedef struct claim_find {
  const th_value *wanted;
  bool found;
} claim_find;

static void claim_find_value(void *user, th_value *value) {
  claim_find *f = user;
  f->found = f->found || value == f->wanted;
}

// The readers of what a chain makes; none when the trace returns it.
static const th_stmt **claim_readers(claim_state *s, const th_stmt *last,
                                     uint32_t *out_count) {
  const th_stmt **readers = NULL;
  uint32_t cap = 0;
  claim_find f = {.wanted = last->outs[0]};
  th_arg_values(&s->in->result, claim_find_value, &f);
  *out_count = 0;
  for (uint32_t i = last->index + 1; !f.found && i < s->in->stmt_count; i++) {
    claim_find here = {.wanted = last->outs[0]};
    th_stmt_operands(s->in->stmts[i], claim_find_value, &here);
    if (here.found) {
      TH_PUSH(&s->p->ir->arena, readers, *out_count, cap) = s->in->stmts[i];
    }
  }
  return readers;
}

static void claim_lay_out(claim_state *s, const claim_chain *chain) {
  const th_stmt *last = chain->stmts[chain->count - 1];
  uint32_t count = 0;
  const th_stmt **readers = claim_readers(s, last, &count);
  th_value *out = s->m.map[last->outs[0]->id];
  if (count) {
    s->b.scope = last->scope;
    s->b.loc = last->loc;
    th_remap_set(&s->m, last->outs[0],
                 chain->executor->lay_out(&s->b, out, readers, count));
  }
}

// Writes the chain where its last statement stands.
static th_status claim_put_chain(claim_state *s, const claim_chain *chain,
                                 const th_stmt *stmt) {
  if (stmt != chain->stmts[chain->count - 1]) {
    return TH_OK;
  }
  for (uint32_t i = 0; i < chain->count; i++) {
    TH_TRY(claim_put(s, chain->stmts[i], chain->executor));
  }
  if (chain->executor->lay_out && stmt->outs[0]) {
    claim_lay_out(s, chain);
  }
  return s->b.status;
}

// ---- statements

static th_status claim_stmt(claim_state *s, const th_stmt *stmt) {
  if (s->chains[stmt->index]) {
    return claim_put_chain(s, s->chains[stmt->index], stmt);
  }
  if (stmt->executor || stmt->op->traits & TH_STRUCT) {
    th_remap_stmt(&s->m, stmt);
    return s->b.status;
  }
  if (stmt->op->traits & TH_CONTROL) {
    th_remap_stmt(&s->m, stmt); // the program runs these itself
    return s->b.status;
  }
  const th_executor *e = claim_by(s, stmt);
  if (e && e->follows) {
    return claim_put_chain(s, claim_make_chain(s, e, stmt), stmt);
  }
  if (e) {
    return claim_put(s, stmt, e);
  }
  if (stmt->op->expand) {
    return claim_expand(s, stmt);
  }
  th_stmt *copy = th_remap_stmt(&s->m, stmt);
  if (copy && !th_stmt_is_window(s->p->ir, copy)) {
    claim_missing(s, stmt);
  }
  return s->b.status;
}

static th_status claim_round(th_pipeline *p, const th_trace *in, th_trace **out,
                             uint32_t *out_expanded) {
  claim_state s = {.p = p, .in = in};
  th_map_init(&s.reported, &p->ir->arena);
  claim_count_readers(&s);
  claim_find_anchors(&s);
  *out = th_remap_begin(&s.m, in, &s.b);
  for (uint32_t i = 0; i < in->stmt_count; i++) {
    TH_TRY(claim_stmt(&s, in->stmts[i]));
  }
  *out_expanded = s.expanded;
  if (s.missing) {
    return TH_UNSUPPORTED;
  }
  return th_remap_end(&s.m);
}

static th_status claim_trace(th_pipeline *p, const th_trace *in,
                             th_trace **out) {
  for (int round = 0; round < CLAIM_ROUNDS; round++) {
    uint32_t expanded = 0;
    TH_TRY(claim_round(p, in, out, &expanded));
    if (!expanded) {
      return TH_OK;
    }
    in = *out;
  }
  return th_error(p->ir->ctx, TH_VERIFY, TH_NOWHERE,
                  "composites expand without end");
}

th_status th_pass_claim(th_pipeline *p, const th_trace *in, th_trace **out) {
  th_trace *claimed = NULL;
  TH_TRY(claim_trace(p, in, &claimed));
  // Expansions leave what the caller of a composite does not need.
  return th_pass_dce(p, claimed, out);
}

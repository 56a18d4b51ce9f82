// Claims: each statement goes to the first executor of the list that accepts
// it, composites first; a composite that nobody accepts is expanded and its
// statements are asked about in turn.  What is left at the end is listed in one
// error, each operation once, with every executor's reason.
//
// Views of row-major or strided memory need no executor (they are windows).
#include "passes/pass.h"

#include "ir/expand.h"

#include <string.h>

enum { CLAIM_ROUNDS = 16 }; // depth of composites; more is a bug of ours

typedef struct claim_state {
  th_pipeline *p;
  th_builder b;
  th_remap m;
  uint32_t expanded;
  uint32_t missing;
  th_map reported; // operation names
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
static const char *claim_by(claim_state *s, const th_stmt *stmt, bool explain) {
  bool is_window = th_stmt_is_window(s->p->ir, stmt);
  for (uint32_t i = 0; i < s->p->executors.count; i++) {
    const th_executor *e = s->p->executors.items[i];
    const char *reason = NULL;
    if ((!is_window && th_executor_claim(e, stmt, &reason)) ||
        th_executor_can_fuse(e, stmt, &reason)) {
      return e->name;
    }
    if (explain) {
      claim_explain(s, stmt, e->name, reason);
    }
  }
  return NULL;
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

static th_status claim_stmt(claim_state *s, const th_stmt *stmt) {
  if (stmt->executor || stmt->op->traits & TH_STRUCT) {
    th_remap_stmt(&s->m, stmt);
    return s->b.status;
  }
  if (stmt->op->traits & TH_CONTROL) {
    th_remap_stmt(&s->m, stmt); // the program runs these itself
    return s->b.status;
  }
  const char *executor = claim_by(s, stmt, true);
  if (!executor && stmt->op->expand) {
    return claim_expand(s, stmt);
  }
  th_stmt *copy = th_remap_stmt(&s->m, stmt);
  if (copy) {
    copy->executor = executor;
    if (!executor && !th_stmt_is_window(s->p->ir, copy)) {
      claim_missing(s, stmt);
    }
  }
  return s->b.status;
}

static th_status claim_round(th_pipeline *p, const th_trace *in, th_trace **out,
                             uint32_t *out_expanded) {
  claim_state s = {.p = p};
  th_map_init(&s.reported, &p->ir->arena);
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

// Fusion, `consecutive`: maximal runs of statements that one fusing executor
// claimed become one region each, without reordering.
//
// A view at the border stays outside: what another statement reads of it is
// written again behind the region as a window, on an input or on a result of
// the region, so a region never copies for the sake of a view.
//
// Regions that a trace has already, since it was printed and read back, stay as
// they are.
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>

typedef struct fuse_state {
  th_pipeline *p;
  const th_trace *in;
  th_builder b;
  th_remap m;
  uint32_t *last_use; // by value id: statement index + 1, UINT32_MAX: result
  uint32_t *group_of; // by value id: group number that defines it, 0 none
  uint32_t now, group;
} fuse_state;

static void fuse_use(void *user, th_value *value) {
  fuse_state *s = user;
  s->last_use[value->id] = s->now;
}

// hostFusion7 is there: the next one is hostFusion8.
static void fuse_count_on(uint32_t *number, const char *label) {
  const char *digits = label + strlen(label);
  while (digits > label && digits[-1] >= '0' && digits[-1] <= '9') {
    digits--;
  }
  unsigned long next = 1 + strtoul(digits, NULL, 10);
  if (next > *number && next < UINT32_MAX) {
    *number = (uint32_t)next;
  }
}

static void fuse_scan_region(fuse_state *s, const th_stmt *region) {
  fuse_count_on(&s->p->region_number, region->label);
  for (uint32_t i = 0; i < region->body_count; i++) {
    if (region->body[i]->label) {
      fuse_count_on(&s->p->kernel_number, region->body[i]->label);
    }
  }
}

static void fuse_scan(fuse_state *s) {
  for (uint32_t i = 0; i < s->in->stmt_count; i++) {
    s->now = i + 1;
    if (s->in->stmts[i]->label) {
      fuse_scan_region(s, s->in->stmts[i]);
    }
    th_stmt_operands(s->in->stmts[i], fuse_use, s);
  }
  s->now = UINT32_MAX;
  th_arg_values(&s->in->result, fuse_use, s);
}

static const th_executor *fuse_executor(const fuse_state *s,
                                        const th_stmt *stmt) {
  if (stmt->label) {
    return NULL; // a region
  }
  for (uint32_t i = 0; stmt->executor && i < s->p->executors.count; i++) {
    const th_executor *e = s->p->executors.items[i];
    const char *reason = NULL;
    if (e->fuse && strcmp(e->name, stmt->executor) == 0 &&
        !th_executor_claim(e, stmt, &reason)) {
      return e;
    }
  }
  return NULL;
}

typedef struct fuse_outs {
  fuse_state *s;
  th_value **values; // results of the region
  uint32_t count, cap;
  th_stmt **views; // written again behind it, in order
  uint32_t view_count, view_cap;
  bool *seen; // by value id
} fuse_outs;

// Makes `value` available outside: as a result, or as a window on one.
static void fuse_need(fuse_outs *o, th_value *value) {
  fuse_state *s = o->s;
  if (o->seen[value->id] || s->group_of[value->id] != s->group) {
    return;
  }
  o->seen[value->id] = true;
  th_stmt *def = value->def;
  if (th_stmt_is_window(s->p->ir, def)) {
    fuse_need(o, def->args[0].value);
    for (uint16_t i = 0; i < def->out_count; i++) {
      if (def->outs[i]) {
        o->seen[def->outs[i]->id] = true;
      }
    }
    TH_PUSH(&s->p->ir->arena, o->views, o->view_count, o->view_cap) = def;
  } else {
    TH_PUSH(&s->p->ir->arena, o->values, o->count, o->cap) = value;
  }
}

static void fuse_find_outs(fuse_outs *o, th_stmt *const *stmts, uint32_t count,
                           uint32_t end) {
  for (uint32_t i = 0; i < count; i++) {
    for (uint16_t k = 0; k < stmts[i]->out_count; k++) {
      th_value *out = stmts[i]->outs[k];
      if (out && o->s->last_use[out->id] > end) {
        fuse_need(o, out);
      }
    }
  }
}

static bool fuse_only_windows(const fuse_state *s, th_stmt *const *stmts,
                              uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (!th_stmt_is_window(s->p->ir, stmts[i])) {
      return false;
    }
  }
  return true;
}

static void fuse_window(fuse_state *s, const th_stmt *stmt) {
  th_stmt *copy = th_remap_stmt(&s->m, stmt);
  if (copy) {
    copy->executor = NULL;
  }
}

static th_status fuse_region(fuse_state *s, const th_executor *e,
                             th_stmt *const *stmts, uint32_t count,
                             uint32_t end) {
  fuse_outs o = {.s = s};
  o.seen = TH_NEW_ARRAY(&s->p->ir->arena, bool, s->in->value_count);
  s->group++;
  for (uint32_t i = 0; i < count; i++) {
    for (uint16_t k = 0; k < stmts[i]->out_count; k++) {
      if (stmts[i]->outs[k]) {
        s->group_of[stmts[i]->outs[k]->id] = s->group;
      }
    }
  }
  fuse_find_outs(&o, stmts, count, end);
  if (o.count) {
    th_fusion fusion = {.to = &s->b,
                        .remap = &s->m,
                        .stmts = stmts,
                        .count = count,
                        .outs = o.values,
                        .out_count = o.count,
                        .executor = e->name,
                        .region_number = &s->p->region_number,
                        .kernel_number = &s->p->kernel_number};
    TH_TRY(e->fuse(e, &fusion));
  }
  for (uint32_t i = 0; i < o.view_count; i++) {
    fuse_window(s, o.views[i]);
  }
  return s->b.status;
}

// Does the statement at `index` alone read what the one before it makes?
static bool fuse_reads_alone(const fuse_state *s, uint32_t index) {
  const th_value *out = s->in->stmts[index - 1]->outs[0];
  return out && s->last_use[out->id] == index + 1;
}

// A chain is whole since it was claimed.
static uint32_t fuse_chain_end(const fuse_state *s, const th_executor *e,
                               uint32_t start) {
  const th_stmt *const *chain = (const th_stmt *const *)s->in->stmts + start;
  const char *reason = NULL;
  uint32_t count = 1, end = start + 1;
  while (end < s->in->stmt_count && fuse_executor(s, s->in->stmts[end]) == e &&
         fuse_reads_alone(s, end) &&
         e->follows(chain, count, s->in->stmts[end], &reason)) {
    count++;
    end++;
  }
  return end;
}

// Where the run of `e` that starts here ends.  Each statement that joins the
// one before it takes one of fuel, so that a miscompilation can be bisected.
static uint32_t fuse_run_end(const fuse_state *s, const th_executor *e,
                             uint32_t start) {
  if (e->follows) {
    return fuse_chain_end(s, e, start);
  }
  uint32_t end = start + 1;
  while (s->p->fuel != 0 && end < s->in->stmt_count &&
         fuse_executor(s, s->in->stmts[end]) == e) {
    s->p->fuel -= s->p->fuel > 0;
    end++;
  }
  return end;
}

th_status th_pass_fuse(th_pipeline *p, const th_trace *in, th_trace **out) {
  fuse_state s = {.p = p, .in = in};
  s.last_use = TH_NEW_ARRAY(&p->ir->arena, uint32_t, in->value_count);
  s.group_of = TH_NEW_ARRAY(&p->ir->arena, uint32_t, in->value_count);
  fuse_scan(&s);
  *out = th_remap_begin(&s.m, in, &s.b);
  for (uint32_t i = 0; i < in->stmt_count && s.b.status == TH_OK;) {
    const th_executor *e = fuse_executor(&s, in->stmts[i]);
    uint32_t end = e ? fuse_run_end(&s, e, i) : i + 1;
    th_stmt *const *run = in->stmts + i;
    if (!e) {
      th_remap_stmt(&s.m, in->stmts[i]);
    } else if (fuse_only_windows(&s, run, end - i)) {
      for (uint32_t k = i; k < end; k++) {
        fuse_window(&s, in->stmts[k]);
      }
    } else {
      TH_TRY(fuse_region(&s, e, run, end - i, end));
    }
    i = end;
  }
  return th_remap_end(&s.m);
}

// One region, or a kernel of one, as a trace of its own.  Weights among its
// inputs keep their FQNs, so that it runs with those of an archive.
//
// Its statements lose what passes have added (executors, kernels, places in
// the slab), so that the trace can be compiled again from the beginning.
#include "opt.h"

#include <string.h>

static const th_stmt *extract_find(th_stmt *const *stmts, uint32_t count,
                                   const char *label) {
  for (uint32_t i = 0; i < count; i++) {
    const th_stmt *stmt = stmts[i];
    if (stmt->label && strcmp(stmt->label, label) == 0) {
      return stmt;
    }
    stmt = extract_find(stmt->body, stmt->body_count, label);
    if (stmt) {
      return stmt;
    }
  }
  return NULL;
}

static void extract_list(th_buffer *out, th_stmt *const *stmts,
                         uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (stmts[i]->label) {
      th_buffer_printf(out, "%s%s", out->size ? ", " : "", stmts[i]->label);
    }
    extract_list(out, stmts[i]->body, stmts[i]->body_count);
  }
}

static th_status extract_missing(const th_trace *trace, const char *label) {
  th_buffer known;
  th_buffer_init(&known, &trace->ir->arena);
  extract_list(&known, trace->stmts, trace->stmt_count);
  return th_error(trace->ir->ctx, TH_NOT_FOUND, TH_NOWHERE,
                  "there is no region or kernel '%s'; there %s%s", label,
                  known.size ? "are " : "are none", known.data);
}

typedef struct extract_state {
  th_remap remap;
  th_trace *to;
} extract_state;

static void extract_input(void *user, th_value *value) {
  extract_state *state = user;
  if (!state->remap.map[value->id]) {
    th_type type = value->type;
    state->remap.map[value->id] =
        th_trace_input(state->to, &type, value->name, value->input);
  }
}

static void extract_body(extract_state *state, const th_stmt *stmt) {
  for (uint32_t i = 0; i < stmt->body_count; i++) {
    const th_stmt *inner = stmt->body[i];
    if (inner->body_count) {
      extract_body(state, inner);
      continue;
    }
    if (inner->op->op == TH_OP_del) {
      continue;
    }
    th_stmt *copy = th_remap_stmt(&state->remap, inner);
    for (uint16_t k = 0; copy && k < copy->out_count; k++) {
      if (copy->outs[k]) {
        copy->outs[k]->slab = -1;
      }
    }
    if (copy) {
      copy->executor = NULL;
    }
  }
}

th_status opt_extract(const th_trace *trace, const char *label,
                      th_trace **out_trace) {
  const th_stmt *region = extract_find(trace->stmts, trace->stmt_count, label);
  if (!region) {
    return extract_missing(trace, label);
  }
  th_ir *ir = trace->ir;
  extract_state state = {.to = th_trace_like(trace)};
  state.to->slab_size = -1;
  th_builder b;
  th_builder_init(&b, state.to);
  th_remap_init(&state.remap, trace, &b);
  th_stmt_operands(region, extract_input, &state);
  extract_body(&state, region);
  TH_TRY(b.status);
  th_arg *outs = TH_NEW_ARRAY(&ir->arena, th_arg, region->out_count + 1u);
  uint32_t count = 0;
  for (uint16_t i = 0; i < region->out_count; i++) {
    if (region->outs[i]) {
      outs[count++] = th_v(state.remap.map[region->outs[i]->id]);
    }
  }
  th_arg output = th_tuple(ir, outs, count);
  static const char *const keys[] = {"output"};
  state.to->result = th_dict(ir, keys, &output, 1);
  TH_TRY(th_trace_verify(state.to));
  *out_trace = state.to;
  return TH_OK;
}

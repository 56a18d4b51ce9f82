// Dead code elimination: one backward sweep for what is needed, one forward to
// copy it.  A statement stays when a result of it is needed, when a size or
// number that it makes is mentioned by something needed, or when it has an
// effect.  Unused results of statements that stay become `_`.
#include "passes/pass.h"

#include <string.h>

typedef struct dce_live {
  bool *values;  // by value id
  bool *symbols; // by symbol index
} dce_live;

static void dce_symbol(void *user, const th_symbol *symbol) {
  dce_live *live = user;
  live->symbols[symbol->index] = true;
}

static void dce_number(void *user, const th_expr *num) {
  th_expr_symbols(num, dce_symbol, user);
}

static void dce_value(void *user, th_value *value) {
  dce_live *live = user;
  live->values[value->id] = true;
}

static void dce_numbers_of_result(const th_arg *arg, dce_live *live) {
  if (arg->kind == TH_ARG_NUM) {
    dce_number(live, arg->num);
  }
  if (arg->kind == TH_ARG_LIST || arg->kind == TH_ARG_TUPLE ||
      arg->kind == TH_ARG_DICT) {
    for (uint32_t i = 0; i < arg->count; i++) {
      dce_numbers_of_result(&arg->items[i], live);
    }
  }
}

static bool dce_makes_live_symbol(const th_type *type, const dce_live *live) {
  if (type->kind == TH_KIND_NUMBER) {
    return type->num->op != TH_X_SYM || live->symbols[type->num->symbol->index];
  }
  for (uint8_t i = 0; i < type->rank; i++) {
    if (type->dims[i]->op == TH_X_SYM &&
        live->symbols[type->dims[i]->symbol->index]) {
      return true;
    }
  }
  return false;
}

static bool dce_needed(const th_stmt *stmt, const dce_live *live) {
  if (stmt->op->traits & TH_EFFECT) {
    return true;
  }
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    const th_value *out = stmt->outs[i];
    if (out &&
        (live->values[out->id] || ((stmt->op->traits & TH_DATA_SIZE) &&
                                   dce_makes_live_symbol(&out->type, live)))) {
      return true;
    }
  }
  return false;
}

static void dce_sweep(const th_trace *in, dce_live *live, bool *keep) {
  th_arg_values(&in->result, dce_value, live);
  dce_numbers_of_result(&in->result, live);
  for (uint32_t i = in->stmt_count; i-- > 0;) {
    const th_stmt *stmt = in->stmts[i];
    keep[i] = dce_needed(stmt, live);
    if (keep[i]) {
      th_stmt_operands(stmt, dce_value, live);
      th_stmt_numbers(stmt, dce_number, live);
    }
  }
}

// The statement with NULL for results that nobody reads.
static th_stmt dce_trim(th_arena *arena, const th_stmt *stmt,
                        const dce_live *live) {
  th_stmt trimmed = *stmt;
  if (stmt->out_count > 1 && !(stmt->op->traits & TH_STRUCT)) {
    trimmed.outs = TH_NEW_ARRAY(arena, th_value *, stmt->out_count);
    for (uint16_t i = 0; i < stmt->out_count; i++) {
      const th_value *out = stmt->outs[i];
      trimmed.outs[i] = out && live->values[out->id] ? stmt->outs[i] : NULL;
    }
  }
  return trimmed;
}

th_status th_pass_dce(th_pipeline *p, const th_trace *in, th_trace **out) {
  th_arena *arena = &p->ir->arena;
  th_builder b;
  th_remap m;
  dce_live live = {TH_NEW_ARRAY(arena, bool, in->value_count),
                   TH_NEW_ARRAY(arena, bool, p->ir->symbol_count + 1)};
  bool *keep = TH_NEW_ARRAY(arena, bool, in->stmt_count + 1);
  dce_sweep(in, &live, keep);
  *out = th_remap_begin(&m, in, &b);
  for (uint32_t i = 0; i < in->stmt_count; i++) {
    if (keep[i]) {
      th_stmt trimmed = dce_trim(arena, in->stmts[i], &live);
      th_remap_stmt(&m, &trimmed);
    }
  }
  return th_remap_end(&m);
}

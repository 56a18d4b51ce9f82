// Drops statements that do nothing.  Only what is exact for every input,
// NaN and the sign of zero included: no pass changes numerics.
#include "passes/pass.h"

// The operand that the statement returns unchanged, or NULL.
static th_value *fold_identity(const th_stmt *stmt) {
  if (stmt->out_count != 1 || !stmt->outs[0] || stmt->arg_count == 0 ||
      stmt->args[0].kind != TH_ARG_VALUE) {
    return NULL;
  }
  th_value *x = stmt->args[0].value;
  if (!th_type_equal(&x->type, &stmt->outs[0]->type)) {
    return NULL;
  }
  switch (stmt->op->op) {
  case TH_OP_to:
  case TH_OP_reshape:
  case TH_OP_expand:
  case TH_OP_squeeze:
  case TH_OP_slice: // nothing cut off: the type says so
  case TH_OP_clone:
  case TH_OP_detach:
    return x;
  case TH_OP_permute:
    for (uint32_t i = 0; i < stmt->args[1].count; i++) {
      int64_t d = stmt->args[1].items[i].num->i;
      if (d + (d < 0 ? (int64_t)stmt->args[1].count : 0) != (int64_t)i) {
        return NULL;
      }
    }
    return x;
  case TH_OP_mul:
  case TH_OP_div:
    return stmt->args[1].kind == TH_ARG_NUM && th_is_const(stmt->args[1].num) &&
                   (stmt->args[1].num->dtype == TH_F64
                        ? stmt->args[1].num->f == 1
                        : stmt->args[1].num->i == 1)
               ? x
               : NULL;
  default:
    return NULL;
  }
}

// A cut of a slice with a step keeps the size only when it keeps all.
static bool fold_slice_is_whole(const th_stmt *stmt) {
  return stmt->op->op != TH_OP_slice ||
         (stmt->args[2].kind == TH_ARG_NONE || th_is_int(stmt->args[2].num, 0));
}

th_status th_pass_fold(th_pipeline *p, const th_trace *in, th_trace **out) {
  (void)p;
  th_builder b;
  th_remap m;
  *out = th_remap_begin(&m, in, &b);
  for (uint32_t i = 0; i < in->stmt_count && b.status == TH_OK; i++) {
    const th_stmt *stmt = in->stmts[i];
    th_value *same = stmt->executor ? NULL : fold_identity(stmt);
    if (same && fold_slice_is_whole(stmt)) {
      th_remap_set(&m, stmt->outs[0], m.map[same->id]);
    } else {
      th_remap_stmt(&m, stmt);
    }
  }
  return th_remap_end(&m);
}

// One form for what can be written in several ways, so that cse and the kernel
// cache see equal things as equal:
//   - the number of a commutative operation stands on the right
//   - a reshape of a reshape is one reshape, a permute of a permute one permute
//   - gt and ge of a number on the left are turned around
#include "ir/infer.h"
#include "passes/pass.h"

#include <string.h>

static th_op canon_turned(th_op op) {
  switch (op) {
  case TH_OP_lt:
    return TH_OP_gt;
  case TH_OP_le:
    return TH_OP_ge;
  case TH_OP_gt:
    return TH_OP_lt;
  case TH_OP_ge:
    return TH_OP_le;
  default:
    return TH_OP_none;
  }
}

// Number on the left: x op y is y turned(op) x.
static const th_op_info *canon_operator(const th_stmt *stmt) {
  if (stmt->arg_count < 2 || stmt->args[0].kind != TH_ARG_NUM ||
      stmt->args[1].kind != TH_ARG_VALUE) {
    return NULL;
  }
  th_op turned = canon_turned(stmt->op->op);
  if (turned != TH_OP_none) {
    return th_op_row(turned);
  }
  return stmt->op->traits & TH_COMMUTES ? stmt->op : NULL;
}

// The statement (of the new trace) that made an operand, when it is `op`.
static const th_stmt *canon_def(const th_stmt *stmt, th_op op) {
  const th_stmt *def =
      stmt->args[0].kind == TH_ARG_VALUE ? stmt->args[0].value->def : NULL;
  return def && def->op->op == op && !def->executor ? def : NULL;
}

static void canon_permute(th_ir *ir, th_stmt *stmt, const th_stmt *inner) {
  th_arg items[TH_MAX_RANK];
  uint32_t rank = stmt->args[1].count;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t d = stmt->args[1].items[i].num->i;
    d += d < 0 ? rank : 0;
    items[i] = inner->args[1].items[d];
  }
  stmt->args[1] = th_list(ir, items, rank);
}

// Is the reshape free to skip the inner one?  Only if neither had to copy.
static bool canon_reshape(th_ir *ir, const th_stmt *stmt,
                          const th_stmt *inner) {
  return th_stmt_is_window(ir, inner) && th_stmt_is_window(ir, stmt) &&
         th_type_is_contiguous(ir, &inner->args[0].value->type);
}

// The strides of a view are part of its type, and those of dimensions of size
// 1 depend on the way: a row-major type in the middle forgets them.
static bool canon_keeps_type(th_ir *ir, const th_stmt *stmt) {
  th_type out;
  th_infer in = {.ir = ir,
                 .op = stmt->op,
                 .args = stmt->args,
                 .arg_count = stmt->arg_count,
                 .loc = stmt->loc,
                 .scope = stmt->scope,
                 .outs = &out,
                 .out_cap = 1};
  return th_infer_run(&in) == TH_OK &&
         th_type_equal(&out, &stmt->outs[0]->type);
}

static void canon_rewrite(th_ir *ir, th_stmt *copy) {
  th_op op = copy->op->op;
  if (op != TH_OP_reshape && op != TH_OP_permute) {
    return;
  }
  const th_stmt *inner = canon_def(copy, op);
  if (!inner || (op == TH_OP_reshape && !canon_reshape(ir, copy, inner))) {
    return;
  }
  th_arg before[2] = {copy->args[0], copy->args[1]};
  copy->args[0] = inner->args[0];
  if (op == TH_OP_permute) {
    canon_permute(ir, copy, inner);
  }
  if (!canon_keeps_type(ir, copy)) {
    memcpy(copy->args, before, sizeof before);
  }
}

th_status th_pass_canonicalize(th_pipeline *p, const th_trace *in,
                               th_trace **out) {
  th_builder b;
  th_remap m;
  *out = th_remap_begin(&m, in, &b);
  for (uint32_t i = 0; i < in->stmt_count && b.status == TH_OK; i++) {
    const th_stmt *stmt = in->stmts[i];
    th_stmt turned = *stmt;
    const th_op_info *op = canon_operator(stmt);
    if (op && !stmt->executor) {
      turned.op = op;
      turned.args = TH_NEW_ARRAY(&p->ir->arena, th_arg, stmt->arg_count);
      for (uint16_t a = 0; a < stmt->arg_count; a++) {
        turned.args[a] = stmt->args[a < 2 ? 1 - a : a];
      }
    }
    th_stmt *copy = th_remap_stmt(&m, &turned);
    if (copy && !copy->executor && copy->out_count == 1 && copy->outs[0]) {
      canon_rewrite(p->ir, copy);
    }
  }
  return th_remap_end(&m);
}

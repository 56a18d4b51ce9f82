// Nodes, once in each place.
#include "lowering/gen.h"

#include "lowering/convert.h"
#include "lowering/kernel.h"

void th_gen_forget(th_gen *g, uint32_t mark) {
  while (g->trail_count > mark) {
    g->values[g->trail[--g->trail_count]] = NULL;
  }
}

static void node_remember(th_gen *g, const th_node *node, LLVMValueRef v) {
  g->values[node->id] = v;
  TH_PUSH(g->nest->arena, g->trail, g->trail_count, g->trail_cap) = node->id;
}

static LLVMValueRef node_number(th_gen *g, const th_node *node) {
  LLVMTypeRef type = th_gen_register(g, node->dtype);
  const th_expr *e = node->expr;
  if (th_is_const(e) && th_dtype_is_float(node->dtype)) {
    double x = e->dtype == TH_F64 ? e->f : (double)e->i;
    return th_emit_const_float(&g->e, type, x);
  }
  if (th_is_const(e) && e->dtype != TH_F64) {
    int64_t x = node->dtype == TH_BOOL ? e->i != 0 : e->i;
    return th_emit_const_int(&g->e, type, x);
  }
  // Numbers are not rounded to half types: PyTorch computes with them in f32.
  th_dtype to =
      node->dtype == TH_F16 || node->dtype == TH_BF16 ? TH_F32 : node->dtype;
  return th_convert(&g->e, th_gen_expr(g, e), e->dtype, to);
}

static LLVMValueRef node_select_uniform(th_gen *g, const th_node *node,
                                        LLVMValueRef condition) {
  bool varies = th_gen_varies(g, node->depends) && g->lanes > 1;
  th_emit_if branch;
  LLVMValueRef yes, no, out;
  th_emit_if_begin(&g->e, &branch, condition);
  uint32_t mark = th_gen_mark(g);
  yes = th_gen_node(g, node->args[0]);
  yes = varies ? th_gen_widen(g, yes) : yes;
  th_gen_forget(g, mark);
  th_emit_if_else(&g->e, &branch, &yes, 1);
  no = th_gen_node(g, node->args[1]);
  no = varies ? th_gen_widen(g, no) : no;
  th_gen_forget(g, mark);
  th_emit_if_end(&g->e, &branch, &no, 1, &out);
  return out;
}

static LLVMValueRef node_masked(th_gen *g, th_node *node, LLVMValueRef mask) {
  LLVMValueRef outer = g->mask;
  bool outer_select = g->mask_is_select;
  g->mask = outer ? th_emit_and(&g->e, outer, mask) : mask;
  g->mask_is_select = true;
  uint32_t mark = th_gen_mark(g);
  LLVMValueRef v = th_gen_widen(g, th_gen_node(g, node));
  th_gen_forget(g, mark);
  g->mask = outer;
  g->mask_is_select = outer_select;
  return v;
}

// Numbers and positions exist everywhere.
static bool node_is_free(const th_node *node) {
  return node->kind == TH_NODE_NUMBER || node->kind == TH_NODE_INDEX;
}

static LLVMValueRef node_select(th_gen *g, const th_node *node) {
  LLVMValueRef c = th_gen_expr(g, node->expr);
  if (th_emit_type_lanes(LLVMTypeOf(c)) == 1) {
    return node_select_uniform(g, node, c);
  }
  LLVMValueRef v[2];
  for (int i = 0; i < 2; i++) {
    th_node *arg = node->args[i];
    v[i] = node_is_free(arg)
               ? th_gen_widen(g, th_gen_node(g, arg))
               : node_masked(g, arg, i ? th_emit_not(&g->e, c) : c);
  }
  return th_emit_select(&g->e, c, v[0], v[1]);
}

// Counted from the end when negative; outside, the kernel ends with an error.
static LLVMValueRef node_check(th_gen *g, const th_node *node) {
  th_emit *e = &g->e;
  LLVMValueRef v = th_gen_node(g, node->args[0]);
  LLVMValueRef size = th_gen_expr(g, node->expr);
  if (th_emit_type_lanes(LLVMTypeOf(v)) > 1) {
    size = th_gen_widen(g, size);
  }
  LLVMValueRef zero = th_emit_int(e, v, 0);
  LLVMValueRef negative = th_emit_icmp(e, LLVMIntSLT, v, zero);
  LLVMValueRef wrapped =
      th_emit_select(e, negative, th_emit_add(e, v, size), v);
  LLVMValueRef bad = th_emit_icmp(e, LLVMIntUGE, wrapped, size);
  th_gen_check(g, bad, node->stmt, TH_KERNEL_INDEX, v, size);
  return wrapped;
}

static LLVMValueRef node_apply(th_gen *g, const th_node *node) {
  LLVMValueRef args[4];
  TH_ASSERT(node->arg_count <= TH_COUNT(args));
  for (uint32_t i = 0; i < node->arg_count; i++) {
    args[i] = th_gen_node(g, node->args[i]);
  }
  return th_gen_apply(g, node, args);
}

static LLVMValueRef node_kept(th_gen *g, const th_node *node) {
  return th_gen_load(g, &(th_node){.kind = TH_NODE_LOAD,
                                   .dtype = node->dtype,
                                   .buffer = g->plan->keep.buffer,
                                   .expr = g->plan->keep.offset});
}

LLVMValueRef th_gen_node(th_gen *g, th_node *node) {
  if (g->values[node->id]) {
    return g->values[node->id];
  }
  LLVMValueRef v = NULL;
  if (g->kept && node == g->plan->keep.node) {
    v = node_kept(g, node);
    node_remember(g, node, v);
    return v;
  }
  switch (node->kind) {
  case TH_NODE_LOAD:
    v = th_gen_load(g, node);
    break;
  case TH_NODE_NUMBER:
    v = node_number(g, node);
    break;
  case TH_NODE_INDEX:
    v = th_gen_expr(g, node->expr);
    break;
  case TH_NODE_CONVERT:
    v = th_convert(&g->e, th_gen_node(g, node->args[0]), node->args[0]->dtype,
                   node->dtype);
    break;
  case TH_NODE_APPLY:
    v = node_apply(g, node);
    break;
  case TH_NODE_SELECT:
    v = node_select(g, node);
    break;
  case TH_NODE_REDUCE:
    if (g->product) {
      v = th_gen_product_sum(g);
      break;
    }
    th_gen_reduce(g, &node, 1); // remembers
    return g->values[node->id];
  case TH_NODE_CHECK:
    v = node_check(g, node);
    break;
  }
  node_remember(g, node, v);
  return v;
}

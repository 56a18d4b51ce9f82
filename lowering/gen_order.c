// Running sums and products, and sorting: rows in which one element waits for
// another.
#include "lowering/gen.h"

#include "lowering/convert.h"

// ---- running sums

typedef struct gen_scan {
  th_store *store;
  LLVMValueRef slot;
  th_dtype dtype;
} gen_scan;

// Sums of f32 are kept in f64, as PyTorch does.
static th_dtype gen_scan_dtype(th_dtype dtype) {
  return dtype == TH_F32 ? TH_F64 : dtype;
}

static void gen_scan_step(th_gen *g, void *user) {
  gen_scan *s = user;
  th_emit *e = &g->e;
  th_dtype to = s->store->node->dtype;
  LLVMValueRef x = th_gen_node(g, s->store->node);
  x = g->lanes > 1 ? th_gen_widen(g, x) : x;
  x = th_convert(&g->e, x, to, s->dtype);
  LLVMValueRef old = LLVMBuildLoad2(e->builder, LLVMTypeOf(x), s->slot, "");
  bool is_float = th_dtype_is_float(s->dtype);
  LLVMValueRef next =
      s->store->op == TH_OP_cumprod
          ? (is_float ? th_emit_fmul(e, old, x) : th_emit_mul(e, old, x))
          : (is_float ? th_emit_fadd(e, old, x) : th_emit_add(e, old, x));
  LLVMBuildStore(e->builder, next, s->slot);
  LLVMValueRef out = th_convert(&g->e, next, s->dtype, to);
  g->values[s->store->node->id] = th_convert_round(&g->e, out, to);
  th_gen_store(g, s->store);
}

void th_gen_scan(th_gen *g, th_store *store) {
  th_emit *e = &g->e;
  gen_scan s = {.store = store, .dtype = gen_scan_dtype(store->node->dtype)};
  LLVMTypeRef type = th_emit_type_vector(th_gen_register(g, s.dtype), g->lanes);
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
  LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(e->function);
  LLVMPositionBuilderBefore(e->builder, LLVMGetFirstInstruction(entry));
  s.slot = LLVMBuildAlloca(e->builder, type, "running");
  LLVMPositionBuilderAtEnd(e->builder, here);
  double start = store->op == TH_OP_cumprod ? 1 : 0;
  LLVMValueRef first = th_dtype_is_float(s.dtype)
                           ? th_emit_const_float(e, type, start)
                           : th_emit_const_int(e, type, (int64_t)start);
  LLVMBuildStore(e->builder, first, s.slot);
  th_gen_loops(g, (th_var_set)1 << store->scan_var, gen_scan_step, &s);
}

// ---- sorting

// Address and step of one side at the first element of a row.
static void gen_sort_side(th_gen *g, uint16_t buffer, const th_expr *offset,
                          int var, LLVMValueRef *out_at,
                          LLVMValueRef *out_stride) {
  const th_space *s = &g->nest->space;
  const th_expr *coeff = NULL, *rest = NULL;
  bool linear = th_space_linear(s, offset, s->vars[var].symbol, &coeff, &rest);
  if (!linear) {
    th_nest_fail(g->nest, NULL, "a row to sort has no stride");
    coeff = rest = th_int(g->nest->ir, 0);
  }
  th_dtype dtype = g->nest->buffers[buffer].type.dtype;
  *out_at = th_emit_gep(&g->e, th_gen_memory(g, dtype), g->buffers[buffer],
                        th_gen_expr(g, rest));
  *out_stride = th_gen_expr(g, coeff);
}

void th_gen_sort(th_gen *g, uint32_t phase) {
  th_emit *e = &g->e;
  th_nest *n = g->nest;
  LLVMValueRef null = LLVMConstNull(e->ptr), zero = th_emit_i64(e, 0);
  LLVMValueRef args[8] = {NULL, NULL, NULL, null, zero, null, zero, NULL};
  LLVMTypeRef types[8] = {e->ptr, e->i64, e->i64, e->ptr,
                          e->i64, e->ptr, e->i64, e->i64};
  for (uint32_t i = 0; i < n->store_count; i++) {
    const th_store *s = &n->stores[i];
    if (s->phase != phase || s->kind != TH_STORE_SORT) {
      continue;
    }
    const th_node *keys = s->node;
    gen_sort_side(g, keys->buffer, keys->expr, s->scan_var, &args[0], &args[1]);
    gen_sort_side(g, s->buffer, s->offset, s->scan_var, &args[s->order ? 5 : 3],
                  &args[s->order ? 6 : 4]);
    args[2] = th_gen_expr(g, n->space.vars[s->scan_var].extent);
    int64_t order = (int64_t)keys->dtype + (s->descending ? 256 : 0);
    args[7] = th_emit_i64(e, order);
  }
  LLVMTypeRef type = LLVMFunctionType(e->void_, types, 8, false);
  LLVMValueRef function = LLVMGetNamedFunction(e->module, "th_rt_sort");
  if (!function) {
    function = LLVMAddFunction(e->module, "th_rt_sort", type);
  }
  LLVMBuildCall2(e->builder, type, function, args, 8, "");
}

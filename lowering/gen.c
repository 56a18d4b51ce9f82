// The function of a kernel: its outer loop, its phases, its stores.
#include "lowering/gen.h"

#include "lowering/stream.h"

#include "lowering/convert.h"

#include <string.h>

// ---- loops

static void gen_loops_from(th_gen *g, th_var_set vars, th_gen_body body,
                           void *user) {
  if (!vars) {
    body(g, user);
    return;
  }
  int var = __builtin_ctzll(vars);
  LLVMValueRef extent = th_gen_expr(g, g->nest->space.vars[var].extent);
  th_emit_loop loop = {
      .begin = th_emit_i64(&g->e, 0), .end = extent, .name = "inner"};
  th_emit_loop_begin(&g->e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  LLVMValueRef outside = g->vars[var];
  g->vars[var] = loop.index;
  gen_loops_from(g, vars & (vars - 1), body, user);
  g->vars[var] = outside;
  th_gen_forget(g, mark);
  th_emit_loop_end(&g->e, &loop, NULL, NULL);
}

void th_gen_loops(th_gen *g, th_var_set vars, th_gen_body body, void *user) {
  gen_loops_from(g, vars, body, user);
}

// One variant of a lane loop over [at, end).
static void gen_variant(th_gen *g, int var, LLVMValueRef at, LLVMValueRef end,
                        LLVMValueRef limit, th_variant v, th_gen_body body,
                        void *user) {
  th_emit *e = &g->e;
  th_emit_loop loop = {.begin = at,
                       .end = end,
                       .step = th_emit_i64(e, v.lanes),
                       .name = "lanes"};
  LLVMValueRef outside = g->vars[var];
  th_emit_loop_begin(e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  g->vars[var] = loop.index;
  g->lane = var;
  g->lanes = v.lanes;
  g->mask = v.masked ? th_emit_tail_mask(e, th_emit_sub(e, limit, loop.index),
                                         v.lanes)
                     : NULL;
  g->mask_is_select = false;
  body(g, user);
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &loop, NULL, NULL);
  g->vars[var] = outside;
  g->mask = NULL;
  g->lane = -1;
  g->lanes = 1;
}

void th_gen_lanes(th_gen *g, int var, LLVMValueRef lo, LLVMValueRef hi,
                  const th_expr *extent, th_gen_body body, void *user) {
  th_emit *e = &g->e;
  const th_phase *phase = g->phase;
  // How many are left, when that is known: loops without turns are left out.
  int64_t left = extent && th_is_const(extent) ? extent->i : -1;
  LLVMValueRef at = lo;
  uint32_t outside = g->variant;
  for (uint32_t i = 0; i < phase->variant_count && left != 0; i++) {
    th_variant v = phase->variants[i];
    if (v.masked && left > 0 && left % v.lanes == 0) {
      v.masked = false;
    }
    if (!v.masked && left >= 0 && left < v.lanes) {
      continue;
    }
    LLVMValueRef end = hi;
    if (left >= 0) {
      int64_t taken = v.masked ? left : left - left % v.lanes;
      end = v.masked ? hi : th_emit_add(e, at, th_emit_i64(e, taken));
      left -= taken;
    } else if (!v.masked && v.lanes > 1) {
      LLVMValueRef whole = th_emit_and(e, th_emit_sub(e, hi, at),
                                       th_emit_i64(e, -(int64_t)v.lanes));
      end = th_emit_add(e, at, whole);
    }
    g->variant = i;
    gen_variant(g, var, at, end, hi, v, body, user);
    at = end;
  }
  g->variant = outside;
}

// ---- errors

void th_gen_check(th_gen *g, LLVMValueRef bad, uint16_t stmt, int code,
                  LLVMValueRef value, LLVMValueRef limit) {
  th_emit *e = &g->e;
  LLVMBuilderRef b = e->builder;
  unsigned lanes = th_emit_type_lanes(LLVMTypeOf(bad));
  if (g->mask) {
    LLVMValueRef mask =
        lanes > 1 || g->lanes == 1 ? g->mask : th_emit_any(e, g->mask);
    bad = th_emit_and(e, bad, mask);
  }
  LLVMBasicBlockRef error = th_emit_block(e, "error");
  LLVMBasicBlockRef next = th_emit_block(e, "next");
  LLVMBuildCondBr(b, th_emit_any(e, bad), error, next);
  LLVMPositionBuilderAtEnd(b, error);
  if (th_emit_type_lanes(LLVMTypeOf(value)) > 1) { // the first bad lane
    LLVMValueRef first = th_emit_extract(e, value, lanes - 1);
    for (unsigned i = lanes - 1; i-- > 0;) {
      first = th_emit_select(e, th_emit_extract(e, bad, i),
                             th_emit_extract(e, value, i), first);
    }
    value = first;
    limit = th_emit_extract(e, limit, 0);
  }
  LLVMValueRef at = g->error;
  th_emit_store(e, th_emit_i32(e, code), at, 4);
  at = th_emit_gep(e, e->i8, g->error, th_emit_i64(e, 4));
  th_emit_store(e, th_emit_i32(e, stmt), at, 4);
  at = th_emit_gep(e, e->i8, g->error, th_emit_i64(e, 8));
  th_emit_store(e, value, at, 8);
  at = th_emit_gep(e, e->i8, g->error, th_emit_i64(e, 16));
  th_emit_store(e, limit, at, 8);
  LLVMBuildRet(b, th_emit_i32(e, code));
  LLVMPositionBuilderAtEnd(b, next);
}

// ---- stores

typedef struct gen_group {
  th_store *stores[64];
  uint32_t count;
  th_var_set vars; // inner
  int lane;
} gen_group;

void th_gen_store_all(th_gen *g, void *user) {
  (void)user;
  for (uint32_t i = 0; i < g->nest->store_count; i++) {
    th_gen_store(g, &g->nest->stores[i]);
  }
}

static void gen_store_group(th_gen *g, void *user) {
  gen_group *group = user;
  for (uint32_t i = 0; i < group->count; i++) {
    th_gen_store(g, group->stores[i]);
  }
}

static void gen_store_lanes(th_gen *g, void *user) {
  gen_group *group = user;
  if (group->lane < 0) {
    gen_store_group(g, user);
    return;
  }
  const th_expr *extent = g->nest->space.vars[group->lane].extent;
  th_gen_lanes(g, group->lane, th_emit_i64(&g->e, 0), th_gen_expr(g, extent),
               extent, gen_store_group, user);
}

static void gen_group_stores(th_gen *g, gen_group *group) {
  th_node *roots[TH_COUNT(group->stores)];
  const th_expr *offsets[TH_COUNT(group->stores)];
  for (uint32_t i = 0; i < group->count; i++) {
    roots[i] = group->stores[i]->node;
    offsets[i] = group->stores[i]->offset;
  }
  group->lane = -1;
  if (g->lane < 0 && g->phase->lane < 0) {
    int score = 0;
    group->lane = th_plan_lane(g->plan, group->vars, roots, group->count,
                               offsets, &score);
  }
  th_var_set own = group->lane < 0 ? 0 : (th_var_set)1 << group->lane;
  th_gen_loops(g, group->vars & ~own, gen_store_lanes, group);
}

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

static void gen_scan_store(th_gen *g, th_store *store) {
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

static void gen_sort(th_gen *g, uint32_t phase) {
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

// ---- phases

// Everything at one position of the outer variables (of one or more lanes).
static void gen_position(th_gen *g, void *user) {
  (void)user;
  th_nest *n = g->nest;
  uint32_t phase = (uint32_t)(g->phase - g->plan->phases);
  th_node **roots = TH_NEW_ARRAY(n->arena, th_node *, n->store_count + 1);
  uint32_t count = 0;
  for (uint32_t i = 0; i < n->store_count; i++) {
    if (n->stores[i].phase == phase && n->stores[i].kind != TH_STORE_SORT) {
      roots[count++] = n->stores[i].node;
    }
  }
  th_gen_hoist(g, roots, count, g->phase->outer);
  bool *done = TH_NEW_ARRAY(n->arena, bool, n->store_count + 1);
  bool sorts = false;
  for (uint32_t i = 0; i < n->store_count; i++) {
    th_store *first = &n->stores[i];
    if (first->phase != phase || done[i]) {
      continue;
    }
    if (first->kind == TH_STORE_SCAN) {
      gen_scan_store(g, first);
      continue;
    }
    if (first->kind == TH_STORE_SORT) {
      if (!sorts) {
        gen_sort(g, phase);
      }
      sorts = true;
      continue;
    }
    gen_group group = {.vars = first->vars & ~g->phase->outer};
    for (uint32_t k = i; k < n->store_count; k++) {
      th_store *s = &n->stores[k];
      if (s->phase == phase && !done[k] && s->kind == first->kind &&
          s->vars == first->vars && group.count < TH_COUNT(group.stores)) {
        group.stores[group.count++] = s;
        done[k] = true;
      }
    }
    gen_group_stores(g, &group);
  }
}

// The lane variable from lo to hi, or one position in row mode.
static void gen_phase_lanes(th_gen *g, LLVMValueRef lo, LLVMValueRef hi,
                            const th_expr *extent) {
  if (g->phase->lane < 0) {
    gen_position(g, NULL);
  } else {
    th_gen_lanes(g, g->phase->lane, lo, hi, extent, gen_position, NULL);
  }
}

static void gen_whole_lane(th_gen *g, void *user) {
  (void)user;
  int lane = g->phase->lane;
  const th_expr *extent = lane < 0 ? NULL : g->nest->space.vars[lane].extent;
  gen_phase_lanes(g, th_emit_i64(&g->e, 0),
                  extent ? th_gen_expr(g, extent) : NULL, extent);
}

static th_var_set gen_outer_without_lane(const th_phase *phase) {
  th_var_set own = phase->lane < 0 ? 0 : (th_var_set)1 << phase->lane;
  return phase->outer & ~own;
}

static void gen_sequential(th_gen *g) {
  for (uint32_t i = 0; i < g->plan->phase_count; i++) {
    g->phase = &g->plan->phases[i];
    uint32_t mark = th_gen_mark(g);
    th_gen_loops(g, gen_outer_without_lane(g->phase), gen_whole_lane, NULL);
    th_gen_forget(g, mark);
  }
}

// p counts positions; its digits are the outer variables, the last fastest.
static void gen_parallel(th_gen *g, LLVMValueRef begin, LLVMValueRef end) {
  th_emit *e = &g->e;
  const th_space *s = &g->nest->space;
  g->phase = &g->plan->phases[0];
  int lane = g->phase->lane;
  const th_expr *extent = lane < 0 ? NULL : s->vars[lane].extent;
  th_emit_loop loop = {.begin = begin, .end = end, .name = "outer"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  LLVMValueRef rest = loop.index, lo = th_emit_i64(e, 0), hi = NULL;
  if (extent) {
    hi = th_gen_expr(g, extent);
  }
  if (g->plan->chunk) {
    LLVMValueRef chunk = th_emit_i64(e, g->plan->chunk);
    LLVMValueRef more = th_emit_i64(e, g->plan->chunk - 1);
    LLVMValueRef chunks =
        LLVMBuildUDiv(e->builder, th_emit_add(e, hi, more), chunk, "");
    LLVMValueRef q = LLVMBuildUDiv(e->builder, rest, chunks, "");
    LLVMValueRef which = th_emit_sub(e, rest, th_emit_mul(e, q, chunks));
    rest = q;
    lo = th_emit_mul(e, which, chunk);
    LLVMValueRef next = th_emit_add(e, lo, chunk);
    hi = th_emit_select(e, th_emit_icmp(e, LLVMIntSLT, next, hi), next, hi);
    extent = NULL;
  }
  th_var_set vars = gen_outer_without_lane(g->phase);
  while (vars) {
    int var = 63 - __builtin_clzll(vars);
    vars &= ~((th_var_set)1 << var);
    LLVMValueRef size = th_gen_expr(g, s->vars[var].extent);
    LLVMValueRef q =
        vars ? LLVMBuildUDiv(e->builder, rest, size, "") : th_emit_i64(e, 0);
    g->vars[var] = th_emit_sub(e, rest, th_emit_mul(e, q, size));
    rest = q;
  }
  gen_phase_lanes(g, lo, hi, extent);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

// ---- the functions

static void gen_load_symbols(th_gen *g, LLVMValueRef symbols) {
  th_emit *e = &g->e;
  for (uint32_t i = 0; i < g->nest->symbol_count; i++) {
    bool is_float = g->nest->symbols[i]->dtype == TH_F64;
    LLVMTypeRef type = is_float ? e->f64 : e->i64;
    LLVMValueRef at = th_emit_gep(e, e->i64, symbols, th_emit_i64(e, i));
    LLVMValueRef v = th_emit_load(e, type, at, 8);
    if (g->nest->symbols[i]->dtype == TH_BOOL) {
      v = th_emit_icmp(e, LLVMIntNE, v, th_emit_i64(e, 0));
    }
    g->symbols[i] = v;
  }
}

// The body gets its buffers as parameters, which can say that they do not
// overlap.
static LLVMValueRef gen_body(th_gen *g, th_codegen *codegen) {
  th_emit *e = &g->e;
  th_nest *n = g->nest;
  uint32_t fixed = 4, count = fixed + n->buffer_count;
  LLVMTypeRef *types = TH_NEW_ARRAY(n->arena, LLVMTypeRef, count);
  types[0] = types[3] = e->ptr;
  types[1] = types[2] = e->i64;
  for (uint32_t i = fixed; i < count; i++) {
    types[i] = e->ptr;
  }
  th_emit_function(e, "body", e->i32, types, count);
  th_codegen_define(codegen, e->function);
  LLVMSetLinkage(e->function, LLVMInternalLinkage);
  for (uint32_t i = 0; i < n->buffer_count; i++) {
    g->buffers[i] = LLVMGetParam(e->function, fixed + i);
    if (!g->in_place) {
      th_emit_attribute_enum(e, fixed + i + 1, "noalias", 0);
    }
    if (!n->buffers[i].is_output) {
      th_emit_attribute_enum(e, fixed + i + 1, "readonly", 0);
    }
  }
  th_emit_attribute_enum(e, 1, "noalias", 0);
  gen_load_symbols(g, LLVMGetParam(e->function, 0));
  g->error = LLVMGetParam(e->function, 3);
  LLVMBasicBlockRef start = th_emit_block(e, "start");
  LLVMBuildBr(e->builder, start);
  LLVMPositionBuilderAtEnd(e->builder, start);
  if (n->sequential) {
    gen_sequential(g);
  } else if (g->plan->product.reduce) {
    th_gen_product(g, LLVMGetParam(e->function, 1),
                   LLVMGetParam(e->function, 2));
  } else {
    gen_parallel(g, LLVMGetParam(e->function, 1), LLVMGetParam(e->function, 2));
  }
  if (g->streams) { // such stores are in no order with others
    LLVMBuildFence(e->builder, LLVMAtomicOrderingSequentiallyConsistent, false,
                   "");
  }
  LLVMBuildRet(e->builder, th_emit_i32(e, 0));
  th_gen_forget(g, 0);
  return e->function;
}

static LLVMValueRef gen_text(th_gen *g, const char *text) {
  th_emit *e = &g->e;
  LLVMValueRef data =
      LLVMConstStringInContext2(e->context, text, strlen(text), false);
  LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(data), "text");
  LLVMSetInitializer(global, data);
  LLVMSetLinkage(global, LLVMInternalLinkage);
  LLVMSetGlobalConstant(global, true);
  return global;
}

// Do all results that would be streamed begin where that needs it?
static LLVMValueRef gen_is_aligned(th_gen *g, const bool *streams,
                                   const LLVMValueRef *buffers) {
  th_emit *e = &g->e;
  LLVMValueRef bits = th_emit_i64(e, 0);
  for (uint32_t i = 0; i < g->nest->buffer_count; i++) {
    if (streams[i]) {
      LLVMValueRef at = LLVMBuildPtrToInt(e->builder, buffers[i], e->i64, "");
      bits = LLVMBuildOr(e->builder, bits, at, "");
    }
  }
  bits =
      LLVMBuildAnd(e->builder, bits, th_emit_i64(e, TH_STREAM_ALIGN - 1), "");
  return th_emit_icmp(e, LLVMIntEQ, bits, th_emit_i64(e, 0));
}

static void gen_return_call(th_gen *g, LLVMValueRef body, LLVMValueRef *args,
                            uint32_t count) {
  th_emit *e = &g->e;
  LLVMBuildRet(e->builder,
               LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(body), body,
                              args, count, ""));
}

// `streaming` NULL: there is one body only.
static void gen_entry(th_gen *g, th_codegen *codegen, LLVMValueRef body,
                      LLVMValueRef streaming, const bool *streams,
                      const char *symbol, const char *description) {
  th_emit *e = &g->e;
  th_nest *n = g->nest;
  LLVMTypeRef types[] = {e->ptr, e->ptr, e->i64, e->i64, e->ptr};
  th_emit_function(e, symbol, e->i32, types, 5);
  th_codegen_define(codegen, e->function);
  LLVMValueRef params[5];
  for (unsigned i = 0; i < 5; i++) {
    params[i] = LLVMGetParam(e->function, i);
  }
  LLVMBasicBlockRef question = th_emit_block(e, "question");
  LLVMBasicBlockRef run = th_emit_block(e, "run");
  LLVMValueRef asked =
      th_emit_icmp(e, LLVMIntSLT, params[2], th_emit_i64(e, 0));
  LLVMBuildCondBr(e->builder, asked, question, run);
  LLVMPositionBuilderAtEnd(e->builder, question);
  th_emit_store(e, gen_text(g, description),
                th_emit_gep(e, e->i8, params[4], th_emit_i64(e, 8)), 8);
  LLVMBuildRet(e->builder, th_emit_i32(e, 0));
  LLVMPositionBuilderAtEnd(e->builder, run);
  uint32_t count = 4 + n->buffer_count;
  LLVMValueRef *args = TH_NEW_ARRAY(n->arena, LLVMValueRef, count);
  args[0] = params[1];
  args[1] = params[2];
  args[2] = params[3];
  args[3] = params[4];
  for (uint32_t i = 0; i < n->buffer_count; i++) {
    LLVMValueRef at = th_emit_gep(e, e->ptr, params[0], th_emit_i64(e, i));
    args[4 + i] = th_emit_load(e, e->ptr, at, 8);
  }
  if (streaming) {
    LLVMBasicBlockRef past = th_emit_block(e, "stream");
    LLVMBasicBlockRef through = th_emit_block(e, "plain");
    LLVMBuildCondBr(e->builder, gen_is_aligned(g, streams, args + 4), past,
                    through);
    LLVMPositionBuilderAtEnd(e->builder, past);
    gen_return_call(g, streaming, args, count);
    LLVMPositionBuilderAtEnd(e->builder, through);
  }
  gen_return_call(g, body, args, count);
}

// ---- the description: what a program must know before it runs the kernel

// The outer loop's extent in prefix notation; symbols by number.
static void gen_describe_expr(th_gen *g, th_buffer *out, const th_expr *e) {
  if (e->op == TH_X_CONST) {
    th_buffer_printf(out, " %lld", (long long)e->i);
    return;
  }
  if (e->op == TH_X_SYM) {
    for (uint32_t i = 0; i < g->nest->symbol_count; i++) {
      if (g->nest->symbols_here[i] == e) {
        th_buffer_printf(out, " $%u", i);
        return;
      }
    }
    th_nest_fail(g->nest, NULL, "the outer loop's extent is not a size");
    return;
  }
  th_buffer_printf(out, " #%d/%u", (int)e->op, e->arg_count);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    gen_describe_expr(g, out, e->args[i]);
  }
}

static const th_expr *gen_extent(const th_gen *g) {
  th_nest *n = g->nest;
  const th_phase *phase = &g->plan->phases[0];
  const th_expr *extent = th_int(n->ir, 1);
  if (n->sequential) {
    return extent;
  }
  if (g->plan->product.reduce) {
    return th_gen_product_extent(n, &g->plan->product);
  }
  th_var_set vars = gen_outer_without_lane(phase);
  for (uint32_t v = 0; v < n->space.var_count; v++) {
    if (vars >> v & 1) {
      extent = th_expr_mul(n->ir, extent, n->space.vars[v].extent);
    }
  }
  if (g->plan->chunk) {
    const th_expr *chunks =
        th_expr_ceildiv(n->ir, n->space.vars[phase->lane].extent,
                        th_int(n->ir, g->plan->chunk));
    extent = th_expr_mul(n->ir, extent, chunks);
  }
  return extent;
}

// A guess of how many elements one outer iteration takes, for the grain.
static int64_t gen_iteration_cost(const th_gen *g) {
  enum { UNKNOWN = 512, MOST = 1 << 20 };
  th_nest *n = g->nest;
  th_var_set outer = gen_outer_without_lane(&g->plan->phases[0]);
  th_var_set used = 0;
  int64_t cost = 1;
  for (uint32_t i = 0; i < n->store_count; i++) {
    used |= n->stores[i].vars;
  }
  for (uint32_t i = 0; i < n->node_count; i++) {
    used |= n->nodes[i]->vars;
  }
  for (uint32_t v = 0; v < n->space.var_count; v++) {
    if (!((used & ~outer) >> v & 1)) {
      continue;
    }
    const th_expr *extent = n->space.vars[v].extent;
    int64_t size = th_is_const(extent) ? extent->i : UNKNOWN;
    if ((int)v == g->plan->phases[0].lane && g->plan->chunk) {
      size = g->plan->chunk;
    }
    cost *= size < 1 ? 1 : size;
    cost = cost > MOST ? MOST : cost;
  }
  return cost;
}

static const char *gen_describe(th_gen *g) {
  enum { WORTH = 1 << 15 };
  th_buffer out;
  th_buffer_init(&out, g->nest->arena);
  bool heavy = g->plan->product.reduce;
  int64_t grain = heavy ? 1 : WORTH / gen_iteration_cost(g);
  th_buffer_printf(&out, "%lld", (long long)(grain < 1 ? 1 : grain));
  gen_describe_expr(g, &out, gen_extent(g));
  return out.data;
}

static void gen_release(void *emit) { th_emit_deinit(emit); }

th_status th_gen_module(th_context *ctx, th_codegen *codegen,
                        const th_plan *plan, const char *symbol,
                        LLVMModuleRef *out_module) {
  th_nest *n = plan->nest;
  th_gen *g = TH_NEW(n->arena, th_gen);
  g->ctx = ctx;
  g->plan = plan;
  g->nest = n;
  g->lane = -1;
  g->lanes = 1;
  g->values = TH_NEW_ARRAY(n->arena, LLVMValueRef, n->node_count + 1);
  g->buffers = TH_NEW_ARRAY(n->arena, LLVMValueRef, n->buffer_count + 1);
  g->symbols = TH_NEW_ARRAY(n->arena, LLVMValueRef, n->symbol_count + 1);
  for (uint32_t i = 0; i < n->kernel->body_count; i++) {
    g->in_place = g->in_place || n->kernel->body[i]->in_place;
  }
  *out_module = th_codegen_module(codegen, symbol);
  th_emit_init(&g->e, *out_module, TH_EMIT_HOST);
  g->e.half_by_bits = codegen->target->isa == TH_ISA_SSE;
  th_arena_defer(n->arena, gen_release, &g->e);
  LLVMValueRef body = gen_body(g, codegen), streaming = NULL;
  const bool *streams = th_stream_buffers(plan);
  if (streams) {
    g->streams = streams;
    streaming = gen_body(g, codegen);
    g->streams = NULL;
  }
  gen_entry(g, codegen, body, streaming, streams, symbol, gen_describe(g));
  TH_TRY(n->status);
  return TH_OK;
}

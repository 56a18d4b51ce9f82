// The two functions of a kernel, and what it says about itself.
#include "lowering/gen.h"

#include "lowering/stream.h"

#include <string.h>

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

static void gen_stack(th_gen *g) {
  const th_keep *keep = &g->plan->keep;
  if (keep->stack) {
    LLVMTypeRef row = LLVMArrayType2(th_gen_memory(g, keep->node->dtype),
                                     (uint64_t)keep->stack);
    LLVMValueRef at = LLVMBuildAlloca(g->e.builder, row, "row");
    LLVMSetAlignment(at, 64);
    g->buffers[g->nest->buffer_count] = at;
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
  gen_stack(g);
  LLVMBasicBlockRef start = th_emit_block(e, "start");
  LLVMBuildBr(e->builder, start);
  LLVMPositionBuilderAtEnd(e->builder, start);
  if (n->sequential) {
    th_gen_sequential(g);
  } else if (g->plan->product.reduce) {
    th_gen_product(g, LLVMGetParam(e->function, 1),
                   LLVMGetParam(e->function, 2));
  } else {
    th_gen_parallel(g, LLVMGetParam(e->function, 1),
                    LLVMGetParam(e->function, 2));
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
  th_var_set vars = th_gen_outer_without_lane(phase);
  for (uint32_t v = 0; v < n->space.var_count; v++) {
    if (vars >> v & 1) {
      const th_expr *own = n->space.vars[v].extent;
      bool tiled = (int)v == g->plan->tile;
      own = tiled ? th_expr_ceildiv(n->ir, own, th_int(n->ir, TH_PLAN_TILE))
                  : own;
      extent = th_expr_mul(n->ir, extent, own);
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
  th_var_set outer = th_gen_outer_without_lane(&g->plan->phases[0]);
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
  g->e.has_scale = codegen->target->isa == TH_ISA_AVX512;
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

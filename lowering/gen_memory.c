// Loads and stores: side by side, one value for all lanes, or lane by lane.
#include "lowering/gen.h"

#include "lowering/stream.h"

#include "lowering/convert.h"

#include <string.h>

// What is kept on the stack lies in the buffer behind those of the kernel.
static bool memory_is_stack(const th_gen *g, uint16_t buffer) {
  return buffer == g->nest->buffer_count;
}

static unsigned memory_align(th_dtype dtype) {
  return (unsigned)th_dtype_size(dtype);
}

// How an offset moves with the lane variable.
typedef enum memory_stride {
  MEMORY_UNIFORM,
  MEMORY_FORWARD,
  MEMORY_BACKWARD,
  MEMORY_ANY,
} memory_stride;

static memory_stride memory_stride_of(const th_gen *g, const th_expr *offset) {
  const th_space *s = &g->nest->space;
  const th_expr *coeff = NULL, *rest = NULL;
  if (!th_gen_varies(g, th_space_depends(s, offset))) {
    return MEMORY_UNIFORM;
  }
  if (!th_space_linear(s, offset, s->vars[g->lane].symbol, &coeff, &rest) ||
      th_gen_varies(g, th_space_depends(s, rest))) {
    return MEMORY_ANY;
  }
  return th_is_int(coeff, 1)    ? MEMORY_FORWARD
         : th_is_int(coeff, -1) ? MEMORY_BACKWARD
                                : MEMORY_ANY;
}

static LLVMValueRef memory_reverse(th_gen *g, LLVMValueRef v) {
  int lanes[TH_EMIT_MAX_LANES];
  for (uint32_t i = 0; i < g->lanes; i++) {
    lanes[i] = (int)(g->lanes - 1 - i);
  }
  return th_emit_shuffle(&g->e, v, v, lanes, g->lanes);
}

// The address of the lowest lane.
static LLVMValueRef memory_address(th_gen *g, uint16_t buffer, th_dtype dtype,
                                   const th_expr *offset, bool backward) {
  LLVMValueRef at = th_gen_expr_base(g, offset);
  if (backward) {
    at = th_emit_sub(&g->e, at, th_emit_i64(&g->e, g->lanes - 1));
  }
  return th_emit_gep(&g->e, th_gen_memory(g, dtype), g->buffers[buffer], at);
}

static LLVMValueRef memory_call(th_gen *g, const char *name,
                                LLVMTypeRef *overloads, unsigned overload_count,
                                LLVMValueRef *args, unsigned count,
                                unsigned pointer, unsigned align) {
  th_emit *e = &g->e;
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn =
      LLVMGetIntrinsicDeclaration(e->module, id, overloads, overload_count);
  LLVMTypeRef type =
      LLVMIntrinsicGetType(e->context, id, overloads, overload_count);
  LLVMValueRef call = LLVMBuildCall2(e->builder, type, fn, args, count, "");
  unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
  LLVMAddCallSiteAttribute(call, pointer + 1,
                           LLVMCreateEnumAttribute(e->context, kind, align));
  return call;
}

static LLVMValueRef memory_mask(th_gen *g) {
  if (g->mask) {
    return g->mask;
  }
  return LLVMConstAllOnes(th_emit_type_vector(g->e.i1, g->lanes));
}

static LLVMValueRef memory_pointers(th_gen *g, uint16_t buffer, th_dtype dtype,
                                    const th_expr *offset) {
  return th_emit_gep(&g->e, th_gen_memory(g, dtype), g->buffers[buffer],
                     th_gen_widen(g, th_gen_expr(g, offset)));
}

static LLVMValueRef memory_gather(th_gen *g, const th_node *node) {
  th_emit *e = &g->e;
  LLVMTypeRef type =
      th_emit_type_vector(th_gen_memory(g, node->dtype), g->lanes);
  LLVMValueRef pointers =
      memory_pointers(g, node->buffer, node->dtype, node->expr);
  LLVMTypeRef overloads[] = {type, LLVMTypeOf(pointers)};
  LLVMValueRef args[] = {pointers, memory_mask(g), LLVMConstNull(type)};
  (void)e;
  return memory_call(g, "llvm.masked.gather", overloads, 2, args, 3, 0,
                     memory_align(node->dtype));
}

// Asks for the lines that the loop will read a while later.  Operands that no
// cache holds come from memory, and the arithmetic between two loads keeps the
// processor from seeing far enough ahead: a gelu chain went from 0.66 to 0.95
// of memcpy.
static void memory_prefetch(th_gen *g, th_dtype dtype, LLVMValueRef address,
                            int64_t ahead) {
  enum { LINE = 64 };
  th_emit *e = &g->e;
  LLVMTypeRef overloads[] = {e->ptr};
  unsigned id = LLVMLookupIntrinsicID("llvm.prefetch", 13);
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, overloads, 1);
  LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overloads, 1);
  int64_t bytes = (int64_t)g->lanes * (int64_t)th_dtype_size(dtype);
  for (int64_t at = 0; at < bytes; at += LINE) {
    LLVMValueRef args[] = {
        th_emit_gep(e, e->i8, address, th_emit_i64(e, ahead + at)),
        th_emit_i32(e, 0), th_emit_i32(e, 3), th_emit_i32(e, 1)};
    LLVMBuildCall2(e->builder, type, fn, args, 4, "");
  }
}

// How many bytes ahead; 0: not worth it.  Where rows are walked several times
// the last time asks for the next row.
static int64_t memory_ahead(const th_gen *g, const th_node *node) {
  enum { AHEAD = 2048, LONGEST_ROW = 1 << 15 };
  const th_space *s = &g->nest->space;
  const th_expr *coeff = NULL, *rest = NULL;
  if (!g->streams || memory_is_stack(g, node->buffer) ||
      !th_stream_is_large(&g->nest->buffers[node->buffer])) {
    return 0;
  }
  if (g->phase->lane >= 0) {
    return AHEAD;
  }
  th_var_set outer = g->phase->outer;
  int row = outer ? 63 - __builtin_clzll(outer) : -1;
  bool linear =
      row >= 0 && g->stores_row &&
      th_space_linear(s, node->expr, s->vars[row].symbol, &coeff, &rest) &&
      th_is_const(coeff);
  int64_t bytes = linear ? coeff->i * (int64_t)th_dtype_size(node->dtype) : 0;
  return bytes <= LONGEST_ROW ? bytes : 0;
}

static LLVMValueRef memory_load_lanes(th_gen *g, const th_node *node,
                                      bool backward) {
  th_emit *e = &g->e;
  LLVMTypeRef type =
      th_emit_type_vector(th_gen_memory(g, node->dtype), g->lanes);
  LLVMValueRef address =
      memory_address(g, node->buffer, node->dtype, node->expr, backward);
  unsigned align = memory_align(node->dtype);
  LLVMValueRef mask =
      g->mask && backward ? memory_reverse(g, g->mask) : g->mask;
  LLVMValueRef v = mask ? th_emit_masked_load(e, type, address, mask, align)
                        : th_emit_load(e, type, address, align);
  int64_t ahead = mask || backward ? 0 : memory_ahead(g, node);
  if (ahead) {
    memory_prefetch(g, node->dtype, address, ahead);
  }
  return backward ? memory_reverse(g, v) : v;
}

// One value for all lanes; not read when no lane is there.
static LLVMValueRef memory_load_one(th_gen *g, const th_node *node) {
  th_emit *e = &g->e;
  LLVMTypeRef type = th_gen_memory(g, node->dtype);
  LLVMValueRef address =
      memory_address(g, node->buffer, node->dtype, node->expr, false);
  unsigned align = memory_align(node->dtype);
  if (g->mask && g->mask_is_select) {
    return th_emit_masked_load(e, type, address, th_emit_any(e, g->mask),
                               align);
  }
  return th_emit_load(e, type, address, align);
}

LLVMValueRef th_gen_load(th_gen *g, const th_node *node) {
  memory_stride stride = memory_stride_of(g, node->expr);
  LLVMValueRef v = NULL;
  if (g->lanes == 1 || stride == MEMORY_UNIFORM) {
    v = memory_load_one(g, node);
  } else if (stride == MEMORY_ANY) {
    v = memory_gather(g, node);
  } else {
    v = memory_load_lanes(g, node, stride == MEMORY_BACKWARD);
  }
  return th_convert_from_memory(&g->e, v, node->dtype);
}

// ---- stores

static void memory_scatter(th_gen *g, const th_store *store, LLVMValueRef v,
                           th_dtype dtype) {
  LLVMValueRef pointers =
      memory_pointers(g, store->buffer, dtype, store->offset);
  LLVMTypeRef overloads[] = {LLVMTypeOf(v), LLVMTypeOf(pointers)};
  LLVMValueRef args[] = {v, pointers, memory_mask(g)};
  memory_call(g, "llvm.masked.scatter", overloads, 2, args, 3, 1,
              memory_align(dtype));
}

static void memory_store_lanes(th_gen *g, const th_store *store, LLVMValueRef v,
                               th_dtype dtype, bool backward) {
  LLVMValueRef address =
      memory_address(g, store->buffer, dtype, store->offset, backward);
  LLVMValueRef mask = g->mask;
  if (backward) {
    v = memory_reverse(g, v);
    mask = mask ? memory_reverse(g, mask) : NULL;
  }
  bool streams = g->streams && !memory_is_stack(g, store->buffer) &&
                 g->streams[store->buffer] &&
                 g->lanes * th_dtype_size(dtype) % TH_STREAM_ALIGN == 0;
  if (mask) {
    th_emit_masked_store(&g->e, v, address, mask, memory_align(dtype));
  } else if (streams && !backward) {
    th_emit_set_nontemporal(&g->e,
                            th_emit_store(&g->e, v, address, TH_STREAM_ALIGN));
  } else {
    th_emit_store(&g->e, v, address, memory_align(dtype));
  }
}

// What is there now, as a node would load it.
static LLVMValueRef memory_old(th_gen *g, const th_store *store,
                               th_dtype dtype) {
  th_node load = {.kind = TH_NODE_LOAD,
                  .dtype = dtype,
                  .buffer = store->buffer,
                  .expr = store->offset};
  return th_gen_load(g, &load);
}

static LLVMValueRef memory_sum(th_gen *g, const th_store *store, LLVMValueRef v,
                               th_dtype dtype) {
  LLVMValueRef args[] = {memory_old(g, store, dtype), v};
  th_node add = {.kind = TH_NODE_APPLY,
                 .op = TH_OP_add,
                 .dtype = dtype,
                 .arg_count = 2,
                 .args = (th_node *[]){store->node, store->node}};
  return th_gen_apply(g, &add, args);
}

void th_gen_store(th_gen *g, const th_store *store) {
  th_dtype dtype = memory_is_stack(g, store->buffer)
                       ? store->node->dtype
                       : g->nest->buffers[store->buffer].type.dtype;
  LLVMValueRef v = th_gen_node(g, store->node);
  memory_stride stride = memory_stride_of(g, store->offset);
  if (g->lanes > 1 && stride != MEMORY_UNIFORM) {
    v = th_gen_widen(g, v);
  }
  if (store->kind == TH_STORE_ADD) {
    v = memory_sum(g, store, v, dtype);
  }
  v = th_convert_to_memory(&g->e, v, dtype);
  if (g->lanes == 1 || stride == MEMORY_UNIFORM) {
    th_emit_store(&g->e, v,
                  memory_address(g, store->buffer, dtype, store->offset, false),
                  memory_align(dtype));
  } else if (stride == MEMORY_ANY) {
    memory_scatter(g, store, v, dtype);
  } else {
    memory_store_lanes(g, store, v, dtype, stride == MEMORY_BACKWARD);
  }
}

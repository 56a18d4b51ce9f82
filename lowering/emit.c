// Types, constants, arithmetic and vectors of emit.h.
#include "lowering/emit.h"

#include "base/context.h"

#include <string.h>

static const char *const emit_intrinsic_names[TH_INTRINSIC_COUNT] = {
#define X(name, text) [TH_INTRINSIC_##name] = text,
    TH_INTRINSIC_MAP(X)
#undef X
};

void th_emit_init(th_emit *e, LLVMModuleRef module, th_emit_target target) {
  LLVMContextRef context = LLVMGetModuleContext(module);
  *e = (th_emit){
      .context = context,
      .module = module,
      .builder = LLVMCreateBuilderInContext(context),
      .target = target,
      .i1 = LLVMInt1TypeInContext(context),
      .i8 = LLVMInt8TypeInContext(context),
      .i16 = LLVMInt16TypeInContext(context),
      .i32 = LLVMInt32TypeInContext(context),
      .i64 = LLVMInt64TypeInContext(context),
      .f16 = LLVMHalfTypeInContext(context),
      .bf16 = LLVMBFloatTypeInContext(context),
      .f32 = LLVMFloatTypeInContext(context),
      .f64 = LLVMDoubleTypeInContext(context),
      .ptr = LLVMPointerTypeInContext(context, target == TH_EMIT_NVPTX),
      .void_ = LLVMVoidTypeInContext(context),
  };
  for (unsigned i = 0; i < TH_INTRINSIC_COUNT; i++) {
    const char *name = emit_intrinsic_names[i];
    e->intrinsics[i] = LLVMLookupIntrinsicID(name, strlen(name));
    TH_ASSERT(e->intrinsics[i] != 0);
  }
}

void th_emit_deinit(th_emit *e) {
  LLVMDisposeBuilder(e->builder);
  e->builder = NULL;
}

void th_emit_function(th_emit *e, const char *name, LLVMTypeRef result,
                      LLVMTypeRef *params, unsigned count) {
  LLVMTypeRef type = LLVMFunctionType(result, params, count, false);
  e->function = LLVMAddFunction(e->module, name, type);
  th_emit_attribute_enum(e, LLVMAttributeFunctionIndex, "nounwind", 0);
  LLVMPositionBuilderAtEnd(e->builder, th_emit_block(e, "entry"));
}

static LLVMAttributeRef emit_enum_attribute(const th_emit *e, const char *name,
                                            uint64_t value) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  TH_ASSERT(kind != 0);
  return LLVMCreateEnumAttribute(e->context, kind, value);
}

void th_emit_attribute_enum(th_emit *e, unsigned index, const char *name,
                            uint64_t value) {
  LLVMAddAttributeAtIndex(e->function, index,
                          emit_enum_attribute(e, name, value));
}

// ---- types and constants ----

static bool type_is_vector(LLVMTypeRef type) {
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind;
}

LLVMTypeRef th_emit_type_element(LLVMTypeRef type) {
  return type_is_vector(type) ? LLVMGetElementType(type) : type;
}

unsigned th_emit_type_lanes(LLVMTypeRef type) {
  return type_is_vector(type) ? LLVMGetVectorSize(type) : 1;
}

LLVMTypeRef th_emit_type_vector(LLVMTypeRef element, unsigned lanes) {
  TH_ASSERT(lanes >= 1 && lanes <= TH_EMIT_MAX_LANES);
  return lanes == 1 ? element : LLVMVectorType(element, lanes);
}

// Not th_emit_type_vector: a vector of one lane stays one.
LLVMTypeRef th_emit_type_like(LLVMTypeRef like, LLVMTypeRef element) {
  return type_is_vector(like) ? LLVMVectorType(element, LLVMGetVectorSize(like))
                              : element;
}

LLVMTypeRef th_emit_type_bits(const th_emit *e, LLVMTypeRef type) {
  switch (LLVMGetTypeKind(th_emit_type_element(type))) {
  case LLVMDoubleTypeKind:
    return th_emit_type_like(type, e->i64);
  case LLVMFloatTypeKind:
    return th_emit_type_like(type, e->i32);
  default:
    return th_emit_type_like(type, e->i16);
  }
}

static LLVMValueRef const_splat(LLVMTypeRef type, LLVMValueRef scalar) {
  if (!type_is_vector(type)) {
    return scalar;
  }
  LLVMValueRef lanes[TH_EMIT_MAX_LANES];
  unsigned count = LLVMGetVectorSize(type);
  TH_ASSERT(count <= TH_EMIT_MAX_LANES);
  for (unsigned i = 0; i < count; i++) {
    lanes[i] = scalar;
  }
  return LLVMConstVector(lanes, count);
}

LLVMValueRef th_emit_const_float(const th_emit *e, LLVMTypeRef type, double x) {
  (void)e;
  return const_splat(type, LLVMConstReal(th_emit_type_element(type), x));
}

LLVMValueRef th_emit_const_int(const th_emit *e, LLVMTypeRef type, int64_t x) {
  (void)e;
  LLVMTypeRef element = th_emit_type_element(type);
  unsigned width = LLVMGetIntTypeWidth(element);
  uint64_t bits = (uint64_t)x;
  if (width < 64) {
    bits &= (UINT64_C(1) << width) - 1;
  }
  return const_splat(type, LLVMConstInt(element, bits, x < 0));
}

LLVMValueRef th_emit_float(const th_emit *e, LLVMValueRef like, double x) {
  return th_emit_const_float(e, LLVMTypeOf(like), x);
}

LLVMValueRef th_emit_int(const th_emit *e, LLVMValueRef like, int64_t x) {
  return th_emit_const_int(e, LLVMTypeOf(like), x);
}

LLVMValueRef th_emit_i64(const th_emit *e, int64_t x) {
  return LLVMConstInt(e->i64, (uint64_t)x, true);
}

LLVMValueRef th_emit_i32(const th_emit *e, int32_t x) {
  return LLVMConstInt(e->i32, (uint32_t)x, false);
}

// ---- arithmetic ----

static LLVMValueRef emit_flags(th_emit *e, LLVMValueRef v) {
  if (e->float_flags != LLVMFastMathNone && LLVMIsAInstruction(v) &&
      LLVMCanValueUseFastMathFlags(v)) {
    LLVMSetFastMathFlags(v, e->float_flags);
  }
  return v;
}

LLVMValueRef th_emit_fadd(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return emit_flags(e, LLVMBuildFAdd(e->builder, a, b, ""));
}

LLVMValueRef th_emit_fsub(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return emit_flags(e, LLVMBuildFSub(e->builder, a, b, ""));
}

LLVMValueRef th_emit_fmul(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return emit_flags(e, LLVMBuildFMul(e->builder, a, b, ""));
}

LLVMValueRef th_emit_fdiv(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return emit_flags(e, LLVMBuildFDiv(e->builder, a, b, ""));
}

LLVMValueRef th_emit_fneg(th_emit *e, LLVMValueRef a) {
  return emit_flags(e, LLVMBuildFNeg(e->builder, a, ""));
}

static LLVMValueRef emit_call(th_emit *e, th_emit_intrinsic_id which,
                              LLVMTypeRef *overloads, unsigned overload_count,
                              LLVMValueRef *args, unsigned count) {
  unsigned id = e->intrinsics[which];
  LLVMValueRef callee =
      LLVMGetIntrinsicDeclaration(e->module, id, overloads, overload_count);
  LLVMTypeRef type =
      LLVMIntrinsicGetType(e->context, id, overloads, overload_count);
  return LLVMBuildCall2(e->builder, type, callee, args, count, "");
}

LLVMValueRef th_emit_intrinsic(th_emit *e, th_emit_intrinsic_id which,
                               LLVMValueRef *args, unsigned count) {
  LLVMTypeRef type = LLVMTypeOf(args[0]);
  return emit_flags(e, emit_call(e, which, &type, 1, args, count));
}

LLVMValueRef th_emit_fma(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                         LLVMValueRef c) {
  return th_emit_intrinsic(e, TH_INTRINSIC_fma, (LLVMValueRef[]){a, b, c}, 3);
}

LLVMValueRef th_emit_copysign(th_emit *e, LLVMValueRef size,
                              LLVMValueRef sign) {
  return th_emit_intrinsic(e, TH_INTRINSIC_copysign,
                           (LLVMValueRef[]){size, sign}, 2);
}

LLVMValueRef th_emit_fmin(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return th_emit_intrinsic(e, TH_INTRINSIC_minnum, (LLVMValueRef[]){a, b}, 2);
}

LLVMValueRef th_emit_fmax(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return th_emit_intrinsic(e, TH_INTRINSIC_maxnum, (LLVMValueRef[]){a, b}, 2);
}

bool th_emit_has_scale(const th_emit *e, LLVMTypeRef type) {
  unsigned lanes = th_emit_type_lanes(type);
  return e->has_scale && th_emit_type_element(type) == e->f32 && lanes >= 8 &&
         (lanes & (lanes - 1)) == 0;
}

// One register of 8 or 16 lanes.
static LLVMValueRef emit_scale(th_emit *e, LLVMValueRef p, LLVMValueRef n,
                               LLVMValueRef mask) {
  enum { AS_THE_MODE_SAYS = 4 };
  bool wide = th_emit_type_lanes(LLVMTypeOf(p)) == 16;
  const char *name = wide ? "llvm.x86.avx512.mask.scalef.ps.512"
                          : "llvm.x86.avx512.mask.scalef.ps.256";
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, NULL, 0);
  LLVMValueRef bits =
      LLVMBuildBitCast(e->builder, mask, wide ? e->i16 : e->i8, "");
  LLVMValueRef args[] = {p, n, LLVMConstNull(LLVMTypeOf(p)), bits,
                         th_emit_i32(e, AS_THE_MODE_SAYS)};
  LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, NULL, 0);
  return LLVMBuildCall2(e->builder, type, fn, args, wide ? 5 : 4, "");
}

LLVMValueRef th_emit_scale(th_emit *e, LLVMValueRef p, LLVMValueRef n,
                           LLVMValueRef mask) {
  unsigned lanes = th_emit_type_lanes(LLVMTypeOf(p)), half = lanes / 2;
  int both[TH_EMIT_MAX_LANES];
  if (lanes <= 16) {
    return emit_scale(e, p, n, mask);
  }
  LLVMValueRef low = th_emit_scale(e, th_emit_slice(e, p, 0, half),
                                   th_emit_slice(e, n, 0, half),
                                   th_emit_slice(e, mask, 0, half));
  LLVMValueRef high = th_emit_scale(e, th_emit_slice(e, p, half, half),
                                    th_emit_slice(e, n, half, half),
                                    th_emit_slice(e, mask, half, half));
  for (unsigned i = 0; i < lanes; i++) {
    both[i] = (int)i;
  }
  return th_emit_shuffle(e, low, high, both, lanes);
}

LLVMValueRef th_emit_fabs(th_emit *e, LLVMValueRef a) {
  return th_emit_intrinsic(e, TH_INTRINSIC_fabs, &a, 1);
}

LLVMValueRef th_emit_sqrt(th_emit *e, LLVMValueRef a) {
  return th_emit_intrinsic(e, TH_INTRINSIC_sqrt, &a, 1);
}

LLVMValueRef th_emit_rint(th_emit *e, LLVMValueRef a) {
  return th_emit_intrinsic(e, TH_INTRINSIC_rint, &a, 1);
}

LLVMValueRef th_emit_floor(th_emit *e, LLVMValueRef a) {
  return th_emit_intrinsic(e, TH_INTRINSIC_floor, &a, 1);
}

LLVMValueRef th_emit_ceil(th_emit *e, LLVMValueRef a) {
  return th_emit_intrinsic(e, TH_INTRINSIC_ceil, &a, 1);
}

LLVMValueRef th_emit_trunc(th_emit *e, LLVMValueRef a) {
  return th_emit_intrinsic(e, TH_INTRINSIC_trunc, &a, 1);
}

LLVMValueRef th_emit_add(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAdd(e->builder, a, b, "");
}

LLVMValueRef th_emit_sub(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildSub(e->builder, a, b, "");
}

LLVMValueRef th_emit_mul(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildMul(e->builder, a, b, "");
}

LLVMValueRef th_emit_and(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildAnd(e->builder, a, b, "");
}

LLVMValueRef th_emit_or(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildOr(e->builder, a, b, "");
}

LLVMValueRef th_emit_xor(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildXor(e->builder, a, b, "");
}

LLVMValueRef th_emit_not(th_emit *e, LLVMValueRef a) {
  return LLVMBuildNot(e->builder, a, "");
}

LLVMValueRef th_emit_shl(th_emit *e, LLVMValueRef a, unsigned bits) {
  return LLVMBuildShl(e->builder, a, th_emit_int(e, a, bits), "");
}

LLVMValueRef th_emit_lshr(th_emit *e, LLVMValueRef a, unsigned bits) {
  return LLVMBuildLShr(e->builder, a, th_emit_int(e, a, bits), "");
}

LLVMValueRef th_emit_ashr(th_emit *e, LLVMValueRef a, unsigned bits) {
  return LLVMBuildAShr(e->builder, a, th_emit_int(e, a, bits), "");
}

LLVMValueRef th_emit_icmp(th_emit *e, LLVMIntPredicate p, LLVMValueRef a,
                          LLVMValueRef b) {
  return LLVMBuildICmp(e->builder, p, a, b, "");
}

LLVMValueRef th_emit_fcmp(th_emit *e, LLVMRealPredicate p, LLVMValueRef a,
                          LLVMValueRef b) {
  return emit_flags(e, LLVMBuildFCmp(e->builder, p, a, b, ""));
}

LLVMValueRef th_emit_is_nan(th_emit *e, LLVMValueRef a) {
  return LLVMBuildFCmp(e->builder, LLVMRealUNO, a, a, "");
}

LLVMValueRef th_emit_select(th_emit *e, LLVMValueRef condition,
                            LLVMValueRef yes, LLVMValueRef no) {
  return LLVMBuildSelect(e->builder, condition, yes, no, "");
}

LLVMValueRef th_emit_bits(th_emit *e, LLVMValueRef a) {
  return LLVMBuildBitCast(e->builder, a, th_emit_type_bits(e, LLVMTypeOf(a)),
                          "");
}

LLVMValueRef th_emit_from_bits(th_emit *e, LLVMValueRef a, LLVMTypeRef type) {
  return LLVMBuildBitCast(e->builder, a, type, "");
}

LLVMValueRef th_emit_sext(th_emit *e, LLVMValueRef a, LLVMTypeRef element) {
  LLVMTypeRef type = th_emit_type_like(LLVMTypeOf(a), element);
  return LLVMBuildIntCast2(e->builder, a, type, true, "");
}

LLVMValueRef th_emit_zext(th_emit *e, LLVMValueRef a, LLVMTypeRef element) {
  LLVMTypeRef type = th_emit_type_like(LLVMTypeOf(a), element);
  return LLVMBuildIntCast2(e->builder, a, type, false, "");
}

// ---- vectors ----

LLVMValueRef th_emit_splat(th_emit *e, LLVMValueRef scalar, unsigned lanes) {
  if (lanes == 1) {
    return scalar;
  }
  LLVMTypeRef type = th_emit_type_vector(LLVMTypeOf(scalar), lanes);
  if (LLVMIsConstant(scalar)) {
    return const_splat(type, scalar);
  }
  LLVMValueRef first = LLVMBuildInsertElement(e->builder, LLVMGetPoison(type),
                                              scalar, th_emit_i32(e, 0), "");
  LLVMValueRef zeros = LLVMConstNull(th_emit_type_vector(e->i32, lanes));
  return LLVMBuildShuffleVector(e->builder, first, LLVMGetPoison(type), zeros,
                                "");
}

LLVMValueRef th_emit_extract(th_emit *e, LLVMValueRef vector, unsigned lane) {
  if (!type_is_vector(LLVMTypeOf(vector))) {
    return vector;
  }
  LLVMValueRef index = th_emit_i32(e, (int32_t)lane);
  return LLVMBuildExtractElement(e->builder, vector, index, "");
}

LLVMValueRef th_emit_insert(th_emit *e, LLVMValueRef vector,
                            LLVMValueRef scalar, unsigned lane) {
  if (!type_is_vector(LLVMTypeOf(vector))) {
    return scalar;
  }
  LLVMValueRef index = th_emit_i32(e, (int32_t)lane);
  return LLVMBuildInsertElement(e->builder, vector, scalar, index, "");
}

LLVMValueRef th_emit_iota(th_emit *e, LLVMTypeRef element, unsigned lanes) {
  if (lanes == 1) {
    return th_emit_const_int(e, element, 0);
  }
  LLVMValueRef values[TH_EMIT_MAX_LANES];
  TH_ASSERT(lanes <= TH_EMIT_MAX_LANES);
  for (unsigned i = 0; i < lanes; i++) {
    values[i] = th_emit_const_int(e, element, (int64_t)i);
  }
  return LLVMConstVector(values, lanes);
}

LLVMValueRef th_emit_shuffle(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                             const int *lanes, unsigned count) {
  LLVMValueRef mask[TH_EMIT_MAX_LANES];
  TH_ASSERT(count <= TH_EMIT_MAX_LANES);
  for (unsigned i = 0; i < count; i++) {
    mask[i] = lanes[i] < 0 ? LLVMGetPoison(e->i32) : th_emit_i32(e, lanes[i]);
  }
  return LLVMBuildShuffleVector(e->builder, a, b, LLVMConstVector(mask, count),
                                "");
}

LLVMValueRef th_emit_slice(th_emit *e, LLVMValueRef vector, unsigned first,
                           unsigned count) {
  if (count == 1) {
    return th_emit_extract(e, vector, first);
  }
  int lanes[TH_EMIT_MAX_LANES];
  TH_ASSERT(count <= TH_EMIT_MAX_LANES);
  for (unsigned i = 0; i < count; i++) {
    lanes[i] = (int)(first + i);
  }
  return th_emit_shuffle(e, vector, LLVMGetPoison(LLVMTypeOf(vector)), lanes,
                         count);
}

// Compared in 32 bits, which hold any lane number: `active` is limited first.
LLVMValueRef th_emit_tail_mask(th_emit *e, LLVMValueRef active,
                               unsigned lanes) {
  LLVMValueRef few = th_emit_icmp(e, LLVMIntSLT, active, th_emit_i64(e, lanes));
  LLVMValueRef limit = th_emit_select(e, few, active, th_emit_i64(e, lanes));
  if (lanes == 1) {
    return th_emit_icmp(e, LLVMIntSGT, limit, th_emit_i64(e, 0));
  }
  LLVMValueRef narrow = th_emit_splat(e, th_emit_sext(e, limit, e->i32), lanes);
  return th_emit_icmp(e, LLVMIntSLT, th_emit_iota(e, e->i32, lanes), narrow);
}

LLVMValueRef th_emit_any(th_emit *e, LLVMValueRef mask) {
  if (!type_is_vector(LLVMTypeOf(mask))) {
    return mask;
  }
  return th_emit_intrinsic(e, TH_INTRINSIC_reduce_or, &mask, 1);
}

LLVMValueRef th_emit_reduce_lanes(th_emit *e, LLVMValueRef vector,
                                  th_emit_combine_fn fn, void *user) {
  unsigned lanes = th_emit_type_lanes(LLVMTypeOf(vector));
  TH_ASSERT((lanes & (lanes - 1)) == 0);
  while (lanes > 1) {
    lanes /= 2;
    LLVMValueRef low = th_emit_slice(e, vector, 0, lanes);
    LLVMValueRef high = th_emit_slice(e, vector, lanes, lanes);
    vector = fn(e, low, high, user);
  }
  return th_emit_extract(e, vector, 0);
}

// ---- memory ----

LLVMValueRef th_emit_gep(th_emit *e, LLVMTypeRef type, LLVMValueRef pointer,
                         LLVMValueRef index) {
  return LLVMBuildGEP2(e->builder, type, pointer, &index, 1, "");
}

LLVMValueRef th_emit_load(th_emit *e, LLVMTypeRef type, LLVMValueRef pointer,
                          unsigned align) {
  LLVMValueRef load = LLVMBuildLoad2(e->builder, type, pointer, "");
  LLVMSetAlignment(load, align);
  return load;
}

LLVMValueRef th_emit_store(th_emit *e, LLVMValueRef value, LLVMValueRef pointer,
                           unsigned align) {
  LLVMValueRef store = LLVMBuildStore(e->builder, value, pointer);
  LLVMSetAlignment(store, align);
  return store;
}

// Since LLVM 22 the alignment is an attribute of the pointer argument.
static void memory_set_align(th_emit *e, LLVMValueRef call, unsigned argument,
                             unsigned align) {
  LLVMAddCallSiteAttribute(call, argument + 1,
                           emit_enum_attribute(e, "align", align));
}

LLVMValueRef th_emit_masked_load(th_emit *e, LLVMTypeRef type,
                                 LLVMValueRef pointer, LLVMValueRef mask,
                                 unsigned align) {
  LLVMValueRef zero = LLVMConstNull(type);
  if (!type_is_vector(type)) {
    th_emit_if branch;
    th_emit_if_begin(e, &branch, mask);
    LLVMValueRef loaded = th_emit_load(e, type, pointer, align), out;
    th_emit_if_then_end(e, &branch, &loaded, &zero, 1, &out);
    return out;
  }
  LLVMTypeRef overloads[] = {type, LLVMTypeOf(pointer)};
  LLVMValueRef args[] = {pointer, mask, zero};
  LLVMValueRef call =
      emit_call(e, TH_INTRINSIC_masked_load, overloads, 2, args, 3);
  memory_set_align(e, call, 0, align);
  return call;
}

void th_emit_masked_store(th_emit *e, LLVMValueRef value, LLVMValueRef pointer,
                          LLVMValueRef mask, unsigned align) {
  LLVMTypeRef type = LLVMTypeOf(value);
  if (!type_is_vector(type)) {
    th_emit_if branch;
    th_emit_if_begin(e, &branch, mask);
    th_emit_store(e, value, pointer, align);
    th_emit_if_then_end(e, &branch, NULL, NULL, 0, NULL);
    return;
  }
  LLVMTypeRef overloads[] = {type, LLVMTypeOf(pointer)};
  LLVMValueRef args[] = {value, pointer, mask};
  LLVMValueRef call =
      emit_call(e, TH_INTRINSIC_masked_store, overloads, 2, args, 3);
  memory_set_align(e, call, 1, align);
}

static void memory_set_metadata(th_emit *e, LLVMValueRef v, const char *kind,
                                LLVMMetadataRef *operands, size_t count) {
  LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, operands, count);
  unsigned id =
      LLVMGetMDKindIDInContext(e->context, kind, (unsigned)strlen(kind));
  LLVMSetMetadata(v, id, LLVMMetadataAsValue(e->context, node));
}

void th_emit_set_nontemporal(th_emit *e, LLVMValueRef store) {
  LLVMMetadataRef one = LLVMValueAsMetadata(th_emit_i32(e, 1));
  memory_set_metadata(e, store, "nontemporal", &one, 1);
}

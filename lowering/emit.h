// A thin layer over the LLVM-C builder: what every emitter of kernels needs
// and the C API says in five lines.
//
// It knows nothing of traces.  Values are LLVMValueRef, scalar or fixed vector
// alike: an operation on a vector is the same call as on a scalar, and
// constants are made "like" another value.  The same calls serve the host and
// NVPTX; only intrinsics of the list below are used, because one that a target
// cannot select ends the process.
//
// Floating point is strict: no flag is set on any instruction unless the
// caller puts flags into th_emit.float_flags (numerics `fast`), and the
// functions of math.h clear them for their own inside.
//
// It does not create modules for a target, run passes or make objects
// (codegen.h, which also verifies the module: LLVM aborts on malformed ones).
#ifndef TH_LOWERING_EMIT_H
#define TH_LOWERING_EMIT_H

#include "thunder/base.h"

#include <llvm-c/Core.h>

// The widest vector that constants and shuffles are made for.
#define TH_EMIT_MAX_LANES 256
// The most values that a loop or a branch carries.
#define TH_EMIT_MAX_CARRIED 64

// The intrinsics that host (x86-64, AArch64) and NVPTX all select, by value of
// their first overloaded type.
#define TH_INTRINSIC_MAP(X)                                                    \
  X(fma, "llvm.fma")                                                           \
  X(sqrt, "llvm.sqrt")                                                         \
  X(fabs, "llvm.fabs")                                                         \
  X(copysign, "llvm.copysign")                                                 \
  X(minnum, "llvm.minnum")                                                     \
  X(maxnum, "llvm.maxnum")                                                     \
  X(rint, "llvm.rint")                                                         \
  X(floor, "llvm.floor")                                                       \
  X(ceil, "llvm.ceil")                                                         \
  X(trunc, "llvm.trunc")                                                       \
  X(smin, "llvm.smin")                                                         \
  X(smax, "llvm.smax")                                                         \
  X(umin, "llvm.umin")                                                         \
  X(umax, "llvm.umax")                                                         \
  X(ctpop, "llvm.ctpop")                                                       \
  X(ctlz, "llvm.ctlz")                                                         \
  X(masked_load, "llvm.masked.load")                                           \
  X(masked_store, "llvm.masked.store")                                         \
  X(reduce_or, "llvm.vector.reduce.or")                                        \
  X(reduce_and, "llvm.vector.reduce.and")                                      \
  X(reduce_add, "llvm.vector.reduce.add")                                      \
  X(reduce_mul, "llvm.vector.reduce.mul")                                      \
  X(reduce_xor, "llvm.vector.reduce.xor")                                      \
  X(reduce_smin, "llvm.vector.reduce.smin")                                    \
  X(reduce_smax, "llvm.vector.reduce.smax")                                    \
  X(reduce_umin, "llvm.vector.reduce.umin")                                    \
  X(reduce_umax, "llvm.vector.reduce.umax")

typedef enum th_emit_intrinsic_id {
#define X(name, text) TH_INTRINSIC_##name,
  TH_INTRINSIC_MAP(X)
#undef X
      TH_INTRINSIC_COUNT
} th_emit_intrinsic_id;

typedef enum th_emit_target {
  TH_EMIT_HOST,
  TH_EMIT_NVPTX,
} th_emit_target;

typedef struct th_emit {
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  LLVMValueRef function; // the one that blocks are appended to
  th_emit_target target;
  LLVMFastMathFlags float_flags; // none when strict
  bool half_by_bits; // f16 converted without instructions of its own
  bool has_scale;    // AVX-512
  LLVMTypeRef i1, i8, i16, i32, i64, f16, bf16, f32, f64;
  LLVMTypeRef ptr;   // to memory of tensors: address space 1 on NVPTX
  LLVMTypeRef void_; // the result of a function that gives none
  unsigned intrinsics[TH_INTRINSIC_COUNT]; // LLVM's numbers
} th_emit;

// In the caller's storage.  The module is borrowed; the builder is owned and
// released by th_emit_deinit.
void th_emit_init(th_emit *e, LLVMModuleRef module, th_emit_target target);
void th_emit_deinit(th_emit *e);

// ---- functions ----

// Adds a function that does not unwind, and puts the builder at its entry.
// Its parameters are LLVMGetParam(e->function, i).
void th_emit_function(th_emit *e, const char *name, LLVMTypeRef result,
                      LLVMTypeRef *params, unsigned count);
// An attribute of LLVM's own; `index` 0 is the result, 1 the first parameter,
// LLVMAttributeFunctionIndex the function.
void th_emit_attribute_enum(th_emit *e, unsigned index, const char *name,
                            uint64_t value);

// ---- types and constants ----

// The type with the lanes of `like` (scalar when it is a scalar) and the given
// element; the element of a scalar or vector; its lanes (1 for a scalar).
LLVMTypeRef th_emit_type_like(LLVMTypeRef like, LLVMTypeRef element);
LLVMTypeRef th_emit_type_element(LLVMTypeRef type);
unsigned th_emit_type_lanes(LLVMTypeRef type);
LLVMTypeRef th_emit_type_vector(LLVMTypeRef element, unsigned lanes);
// The integer type of the same width and lanes as a float type.
LLVMTypeRef th_emit_type_bits(const th_emit *e, LLVMTypeRef type);

// A constant of the type of `like`, in all lanes.
LLVMValueRef th_emit_float(const th_emit *e, LLVMValueRef like, double x);
LLVMValueRef th_emit_int(const th_emit *e, LLVMValueRef like, int64_t x);
// The same by type; scalars for address arithmetic.
LLVMValueRef th_emit_const_float(const th_emit *e, LLVMTypeRef type, double x);
LLVMValueRef th_emit_const_int(const th_emit *e, LLVMTypeRef type, int64_t x);
LLVMValueRef th_emit_i64(const th_emit *e, int64_t x);
LLVMValueRef th_emit_i32(const th_emit *e, int32_t x);

// ---- arithmetic ----

LLVMValueRef th_emit_fadd(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_fsub(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_fmul(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_fdiv(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_fneg(th_emit *e, LLVMValueRef a);
// a * b + c rounded once.
LLVMValueRef th_emit_fma(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                         LLVMValueRef c);
// p * 2^n for integral n of any size, 0 where the mask is not set, in one
// instruction for the types that have it.
bool th_emit_has_scale(const th_emit *e, LLVMTypeRef type);
LLVMValueRef th_emit_scale(th_emit *e, LLVMValueRef p, LLVMValueRef n,
                           LLVMValueRef mask);
LLVMValueRef th_emit_fabs(th_emit *e, LLVMValueRef a);
LLVMValueRef th_emit_sqrt(th_emit *e, LLVMValueRef a);
LLVMValueRef th_emit_copysign(th_emit *e, LLVMValueRef size, LLVMValueRef sign);
// The other operand when one is NaN: one instruction when `b` is a constant.
LLVMValueRef th_emit_fmin(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_fmax(th_emit *e, LLVMValueRef a, LLVMValueRef b);
// To an integral value; ties of rint to even.
LLVMValueRef th_emit_rint(th_emit *e, LLVMValueRef a);
LLVMValueRef th_emit_floor(th_emit *e, LLVMValueRef a);
LLVMValueRef th_emit_ceil(th_emit *e, LLVMValueRef a);
LLVMValueRef th_emit_trunc(th_emit *e, LLVMValueRef a);

// Integers; all wrap.
LLVMValueRef th_emit_add(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_sub(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_mul(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_and(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_or(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_xor(th_emit *e, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef th_emit_not(th_emit *e, LLVMValueRef a);
// By a constant less than the width.
LLVMValueRef th_emit_shl(th_emit *e, LLVMValueRef a, unsigned bits);
LLVMValueRef th_emit_lshr(th_emit *e, LLVMValueRef a, unsigned bits);
LLVMValueRef th_emit_ashr(th_emit *e, LLVMValueRef a, unsigned bits);

LLVMValueRef th_emit_icmp(th_emit *e, LLVMIntPredicate p, LLVMValueRef a,
                          LLVMValueRef b);
LLVMValueRef th_emit_fcmp(th_emit *e, LLVMRealPredicate p, LLVMValueRef a,
                          LLVMValueRef b);
LLVMValueRef th_emit_is_nan(th_emit *e, LLVMValueRef a);
LLVMValueRef th_emit_select(th_emit *e, LLVMValueRef condition,
                            LLVMValueRef yes, LLVMValueRef no);

// Bits of a float as integers of that width, and back.
LLVMValueRef th_emit_bits(th_emit *e, LLVMValueRef a);
LLVMValueRef th_emit_from_bits(th_emit *e, LLVMValueRef a, LLVMTypeRef type);
// Integers of another width; th_emit_sext and th_emit_zext also truncate.
LLVMValueRef th_emit_sext(th_emit *e, LLVMValueRef a, LLVMTypeRef element);
LLVMValueRef th_emit_zext(th_emit *e, LLVMValueRef a, LLVMTypeRef element);

// Calls an intrinsic of the list with one overloaded type, that of args[0].
LLVMValueRef th_emit_intrinsic(th_emit *e, th_emit_intrinsic_id which,
                               LLVMValueRef *args, unsigned count);

// ---- vectors ----

// A scalar in every lane; the value itself when lanes is 1.
LLVMValueRef th_emit_splat(th_emit *e, LLVMValueRef scalar, unsigned lanes);
LLVMValueRef th_emit_extract(th_emit *e, LLVMValueRef vector, unsigned lane);
LLVMValueRef th_emit_insert(th_emit *e, LLVMValueRef vector,
                            LLVMValueRef scalar, unsigned lane);
// {0, 1, 2, ...} of an integer element; 0 when lanes is 1.
LLVMValueRef th_emit_iota(th_emit *e, LLVMTypeRef element, unsigned lanes);
// Lanes [first, first + count) of a vector.
LLVMValueRef th_emit_slice(th_emit *e, LLVMValueRef vector, unsigned first,
                           unsigned count);
// Lanes of a, then lanes of b, picked by number; a negative one is undefined.
LLVMValueRef th_emit_shuffle(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                             const int *lanes, unsigned count);
// True in the lanes below `active` (i64); <lanes x i1>, i1 when lanes is 1.
LLVMValueRef th_emit_tail_mask(th_emit *e, LLVMValueRef active, unsigned lanes);
// i1: true when any lane of an i1 vector (or the i1) is.
LLVMValueRef th_emit_any(th_emit *e, LLVMValueRef mask);

// Combines two values of one type into one.
typedef LLVMValueRef (*th_emit_combine_fn)(th_emit *e, LLVMValueRef a,
                                           LLVMValueRef b, void *user);
// Reduces the lanes to a scalar: upper half onto lower half until one is left,
// always in this order, so that results repeat.  Lanes are a power of two.
LLVMValueRef th_emit_reduce_lanes(th_emit *e, LLVMValueRef vector,
                                  th_emit_combine_fn fn, void *user);

// ---- memory ----

// The address of element `index` (i64) of `type` after `pointer`.
LLVMValueRef th_emit_gep(th_emit *e, LLVMTypeRef type, LLVMValueRef pointer,
                         LLVMValueRef index);
LLVMValueRef th_emit_load(th_emit *e, LLVMTypeRef type, LLVMValueRef pointer,
                          unsigned align);
LLVMValueRef th_emit_store(th_emit *e, LLVMValueRef value, LLVMValueRef pointer,
                           unsigned align);
// Lanes without mask are neither read nor written; they load as zero.  A scalar
// type with an i1 mask reads through a branch.
LLVMValueRef th_emit_masked_load(th_emit *e, LLVMTypeRef type,
                                 LLVMValueRef pointer, LLVMValueRef mask,
                                 unsigned align);
void th_emit_masked_store(th_emit *e, LLVMValueRef value, LLVMValueRef pointer,
                          LLVMValueRef mask, unsigned align);
// Marks a store as one that should pass by the caches.
void th_emit_set_nontemporal(th_emit *e, LLVMValueRef store);

// ---- structure ----

LLVMBasicBlockRef th_emit_block(th_emit *e, const char *name);

//   th_emit_loop loop = {.begin = lo, .end = hi, .step = s};
//   th_emit_loop_begin(e, &loop, init, 1);   // loop.index, loop.carried[0]
//   next = ... loop.carried[0] ...
//   th_emit_loop_end(e, &loop, &next, &out);
// for (index = begin; index < end; index += step), signed; `out` are the values
// after the last turn, or `init` when there is none.
typedef struct th_emit_loop {
  LLVMValueRef begin, end, step; // step NULL: 1
  const char *name;              // NULL: "loop"
  LLVMValueRef index;
  LLVMValueRef branch; // the back edge, for metadata
  LLVMValueRef carried[TH_EMIT_MAX_CARRIED];
  LLVMValueRef init[TH_EMIT_MAX_CARRIED];
  unsigned count;
  LLVMBasicBlockRef before, body, after;
} th_emit_loop;

void th_emit_loop_begin(th_emit *e, th_emit_loop *loop,
                        const LLVMValueRef *init, unsigned count);
void th_emit_loop_end(th_emit *e, th_emit_loop *loop, const LLVMValueRef *next,
                      LLVMValueRef *out);

//   th_emit_while loop;
//   th_emit_while_begin(e, &loop, init, n);       // loop.carried
//   th_emit_while_test(e, &loop, condition);      // i1, from loop.carried
//   ... th_emit_while_end(e, &loop, next);        // values after: loop.carried
typedef struct th_emit_while {
  LLVMValueRef carried[TH_EMIT_MAX_CARRIED];
  unsigned count;
  LLVMBasicBlockRef head, after;
} th_emit_while;

void th_emit_while_begin(th_emit *e, th_emit_while *loop,
                         const LLVMValueRef *init, unsigned count);
void th_emit_while_test(th_emit *e, th_emit_while *loop,
                        LLVMValueRef condition);
void th_emit_while_end(th_emit *e, th_emit_while *loop,
                       const LLVMValueRef *next);

//   th_emit_if branch;
//   th_emit_if_begin(e, &branch, condition);
//   ... th_emit_if_else(e, &branch, yes, n); ... th_emit_if_end(e, &branch, no,
//   n, out);
// or, where the values `otherwise` of the other way exist before the branch,
//   ... th_emit_if_then_end(e, &branch, yes, otherwise, n, out);
// out[i] is the value of the way that was taken.
typedef struct th_emit_if {
  LLVMBasicBlockRef no, after, yes_end;
  LLVMValueRef yes[TH_EMIT_MAX_CARRIED];
} th_emit_if;

void th_emit_if_begin(th_emit *e, th_emit_if *branch, LLVMValueRef condition);
void th_emit_if_else(th_emit *e, th_emit_if *branch, const LLVMValueRef *yes,
                     unsigned count);
void th_emit_if_end(th_emit *e, th_emit_if *branch, const LLVMValueRef *no,
                    unsigned count, LLVMValueRef *out);
void th_emit_if_then_end(th_emit *e, th_emit_if *branch,
                         const LLVMValueRef *yes, const LLVMValueRef *otherwise,
                         unsigned count, LLVMValueRef *out);

#endif

// The builder layer: what its loops, branches, masks and reductions compute.
#include "lowering/emit.h"

#include "base/alloc.h"
#include "lowering/codegen.h"
#include "lowering/orc.h"

#include <criterion/criterion.h>

#include <string.h>

static th_context *ctx;
static th_codegen *codegen;
static th_emit e;
static th_code *code;

// A function f(int64_t a, int64_t b, float *in, float *out) of i64.
typedef int64_t (*emitted)(int64_t a, int64_t b, float *in, float *out);

static void emit_setup(void) {
  const th_target *target = NULL;
  ctx = th_context_new();
  cr_assert_eq(th_target_get(ctx, "host", &target), TH_OK);
  cr_assert_eq(th_codegen_new(ctx, target, &codegen), TH_OK);
  th_emit_init(&e, th_codegen_module(codegen, "m"), TH_EMIT_HOST);
  LLVMTypeRef params[] = {e.i64, e.i64, e.ptr, e.ptr};
  th_emit_function(&e, "f", e.i64, params, 4);
  th_codegen_define(codegen, e.function);
}

static void emit_teardown(void) {
  th_code_release(code);
  th_emit_deinit(&e);
  th_codegen_free(codegen);
  th_context_free(ctx);
}

TestSuite(emit, .init = emit_setup, .fini = emit_teardown);

static LLVMValueRef param(unsigned i) { return LLVMGetParam(e.function, i); }

static emitted finish(LLVMValueRef result) {
  LLVMBuildRet(e.builder, result);
  th_bytes object;
  cr_assert_eq(th_codegen_object(ctx, codegen, e.module, &object), TH_OK, "%s",
               th_diagnostics_all(ctx));
  cr_assert_eq(th_code_load(ctx, object.data, object.size, "f", &code), TH_OK,
               "%s", th_diagnostics_all(ctx));
  th_free(object.data);
  emitted fn;
  void *address = th_code_address(code);
  memcpy(&fn, &address, sizeof fn);
  return fn;
}

Test(emit, loop_carries_values_and_steps) {
  th_emit_loop loop = {
      .begin = param(0), .end = param(1), .step = th_emit_i64(&e, 3)};
  LLVMValueRef init[] = {th_emit_i64(&e, 100), th_emit_i64(&e, 0)}, out[2];
  th_emit_loop_begin(&e, &loop, init, 2);
  LLVMValueRef next[] = {
      th_emit_add(&e, loop.carried[0], loop.index),
      th_emit_add(&e, loop.carried[1], th_emit_i64(&e, 10000))};
  th_emit_loop_end(&e, &loop, next, out);
  emitted f = finish(th_emit_add(&e, out[0], out[1]));
  cr_expect_eq(f(0, 10, NULL, NULL), 100 + 0 + 3 + 6 + 9 + 40000);
  cr_expect_eq(f(-4, 0, NULL, NULL), 100 - 4 - 1 + 20000);
  cr_expect_eq(f(5, 5, NULL, NULL), 100, "no turn gives the first values");
  cr_expect_eq(f(5, -5, NULL, NULL), 100);
}

Test(emit, loops_nest) {
  LLVMValueRef zero = th_emit_i64(&e, 0), out, inner_out;
  th_emit_loop outer = {.begin = zero, .end = param(0)};
  th_emit_loop_begin(&e, &outer, &zero, 1);
  th_emit_loop inner = {.begin = outer.index, .end = param(1)};
  th_emit_loop_begin(&e, &inner, outer.carried, 1);
  LLVMValueRef next = th_emit_add(&e, inner.carried[0], th_emit_i64(&e, 1));
  th_emit_loop_end(&e, &inner, &next, &inner_out);
  th_emit_loop_end(&e, &outer, &inner_out, &out);
  cr_expect_eq(finish(out)(4, 6, NULL, NULL), 6 + 5 + 4 + 3);
}

Test(emit, while_tests_before_each_turn) {
  th_emit_while loop;
  LLVMValueRef init[] = {param(0), th_emit_i64(&e, 0)};
  th_emit_while_begin(&e, &loop, init, 2);
  LLVMValueRef more = th_emit_icmp(&e, LLVMIntSGT, loop.carried[0], param(1));
  th_emit_while_test(&e, &loop, more);
  LLVMValueRef next[] = {th_emit_ashr(&e, loop.carried[0], 1),
                         th_emit_add(&e, loop.carried[1], th_emit_i64(&e, 1))};
  th_emit_while_end(&e, &loop, next);
  emitted f = finish(loop.carried[1]);
  cr_expect_eq(f(64, 1, NULL, NULL), 6);
  cr_expect_eq(f(1, 1, NULL, NULL), 0);
}

Test(emit, branches_choose) {
  LLVMValueRef ten = th_emit_i64(&e, 10), out, inner_out;
  th_emit_if outer, inner;
  th_emit_if_begin(&e, &outer, th_emit_icmp(&e, LLVMIntSLT, param(0), ten));
  LLVMValueRef yes = th_emit_add(&e, param(0), ten);
  th_emit_if_else(&e, &outer, &yes, 1);
  th_emit_if_begin(&e, &inner, th_emit_icmp(&e, LLVMIntSLT, param(1), ten));
  LLVMValueRef small = th_emit_i64(&e, -1), large = th_emit_i64(&e, -2);
  th_emit_if_then_end(&e, &inner, &small, &large, 1, &inner_out);
  th_emit_if_end(&e, &outer, &inner_out, 1, &out);
  emitted f = finish(out);
  cr_expect_eq(f(5, 0, NULL, NULL), 15);
  cr_expect_eq(f(50, 0, NULL, NULL), -1);
  cr_expect_eq(f(50, 50, NULL, NULL), -2);
}

// Lanes at and beyond the count are neither read nor written.
Test(emit, masks_cover_the_tail) {
  LLVMValueRef mask = th_emit_tail_mask(&e, param(0), 16);
  LLVMTypeRef type = th_emit_type_vector(e.f32, 16);
  LLVMValueRef x = th_emit_masked_load(&e, type, param(2), mask, 4);
  x = th_emit_fadd(&e, x, th_emit_float(&e, x, 1.0));
  th_emit_masked_store(&e, x, param(3), mask, 4);
  LLVMValueRef any = th_emit_zext(&e, th_emit_any(&e, mask), e.i64);
  emitted f = finish(any);
  float in[16], out[20];
  for (int n = -1; n <= 20; n++) {
    int active = n < 0 ? 0 : n > 16 ? 16 : n;
    for (int i = 0; i < 20; i++) {
      out[i] = -1;
      in[i < 16 ? i : 0] = (float)(i < 16 ? i : 0);
    }
    // With a single lane left, what lies behind it need not exist.
    cr_expect_eq(f(n, 0, in + 16 - active, out), active > 0);
    for (int i = 0; i < 20; i++) {
      float want = i < active ? (float)(16 - active + i + 1) : -1;
      cr_expect_eq(out[i], want, "%d of %d: %g", i, n, (double)out[i]);
    }
  }
}

Test(emit, masked_scalars_branch) {
  LLVMValueRef mask = th_emit_tail_mask(&e, param(0), 1);
  LLVMValueRef x = th_emit_masked_load(&e, e.f32, param(2), mask, 4);
  th_emit_masked_store(&e, x, param(3), mask, 4);
  emitted f = finish(th_emit_i64(&e, 0));
  float in = 3, out = 0;
  f(0, 0, NULL, NULL);
  f(1, 0, &in, &out);
  cr_expect_eq(out, 3);
}

static LLVMValueRef add(th_emit *emit, LLVMValueRef a, LLVMValueRef b,
                        void *user) {
  ++*(int *)user;
  return th_emit_fadd(emit, a, b);
}

// The order of a reduction is part of the result: halves onto halves.
Test(emit, lanes_reduce_in_a_fixed_order) {
  int calls = 0;
  LLVMTypeRef type = th_emit_type_vector(e.f32, 8);
  LLVMValueRef x = th_emit_load(&e, type, param(2), 4);
  LLVMValueRef sum = th_emit_reduce_lanes(&e, x, add, &calls);
  th_emit_store(&e, sum, param(3), 4);
  emitted f = finish(th_emit_i64(&e, 0));
  cr_expect_eq(calls, 3);
  float in[8] = {1e8f, 1, -1e8f, 3, 5, 1e-3f, 7, 1e8f}, out;
  volatile float h[4];
  for (int i = 0; i < 4; i++) {
    h[i] = in[i] + in[i + 4];
  }
  volatile float q0 = h[0] + h[2], q1 = h[1] + h[3];
  f(0, 0, in, &out);
  cr_expect_eq(out, q0 + q1);
}

Test(emit, shuffles_and_lanes) {
  LLVMTypeRef type = th_emit_type_vector(e.f32, 4);
  LLVMValueRef x = th_emit_load(&e, type, param(2), 4);
  const int order[] = {3, 4, 0, 7};
  LLVMValueRef twice = th_emit_fadd(&e, x, x);
  LLVMValueRef y = th_emit_shuffle(&e, x, twice, order, 4);
  y = th_emit_insert(&e, y, th_emit_extract(&e, x, 1), 2);
  LLVMValueRef base = th_emit_splat(&e, th_emit_extract(&e, x, 0), 4);
  th_emit_store(&e, th_emit_fadd(&e, y, base), param(3), 4);
  LLVMValueRef iota = th_emit_iota(&e, e.i64, 4);
  LLVMValueRef last = th_emit_slice(&e, iota, 2, 2);
  emitted f = finish(th_emit_extract(&e, last, 1));
  float in[4] = {10, 20, 30, 40}, out[4];
  cr_expect_eq(f(0, 0, in, out), 3);
  const float want[] = {50, 30, 30, 90};
  for (int i = 0; i < 4; i++) {
    cr_expect_eq(out[i], want[i], "%d: %g", i, (double)out[i]);
  }
}

Test(emit, constants_and_types) {
  LLVMTypeRef wide = th_emit_type_vector(e.f64, 4);
  cr_expect_eq(th_emit_type_lanes(wide), 4);
  cr_expect_eq(th_emit_type_element(wide), e.f64);
  cr_expect_eq(th_emit_type_bits(&e, wide), th_emit_type_vector(e.i64, 4));
  cr_expect_eq(th_emit_type_bits(&e, e.bf16), e.i16);
  cr_expect_eq(th_emit_type_vector(e.i8, 1), e.i8, "one lane is a scalar");
  LLVMValueRef minus = th_emit_const_int(&e, e.i8, -1);
  cr_expect_eq(LLVMConstIntGetSExtValue(minus), -1);
  cr_expect_eq(LLVMConstIntGetZExtValue(minus), 255);
  cr_expect(LLVMIsConstant(th_emit_splat(&e, minus, 8)));
  finish(th_emit_i64(&e, 0));
}

// A thing of a load or store that does not change what it computes.
Test(emit, access_marks_are_printed) {
  LLVMValueRef load = th_emit_load(&e, e.f32, param(2), 16);
  LLVMValueRef store = th_emit_store(&e, load, param(3), 32);
  th_emit_set_nontemporal(&e, store);
  char *text = LLVMPrintModuleToString(e.module);
  cr_expect(strstr(text, "align 32, !nontemporal") != NULL, "%s", text);
  LLVMDisposeMessage(text);
  finish(th_emit_i64(&e, 0));
}

// The reference executor, and kernels of the host, against numbers that were
// worked out by hand.
#include "exec/executor.h"
#include "run_text.h"
#include "tensor/tensor.h"
#include "torture.h"

#include <criterion/criterion.h>
#include <string.h>

#define REF_ALL(cases)                                                         \
  RUN_ALL("ref", cases)                                                        \
  RUN_ALL_PASSES("host", "default", cases)

// What reads past the end of a tensor ends there.
static void ref_setup(void) { th_guard_pages_set(true); }

TestSuite(ref, .init = ref_setup);

// Every primitive that is no view and no control is in the table.
Test(ref, claims_every_primitive) {
  th_context *ctx = th_context_new();
  const th_executor *ref = th_executor_find(ctx, "ref");
  cr_assert_not_null(ref);
  for (int i = TH_OP_none + 1; i < TH_OP_COUNT; i++) {
    const th_op_info *row = th_op_row((th_op)i);
    bool is_other = row->expand ||
                    row->traits & (TH_STRUCT | TH_VIEW | TH_GUARD) ||
                    i == TH_OP_cond || i == TH_OP_assert_number;
    cr_expect(is_other || th_map_get(&ref->claims, row->name), "%s", row->name);
  }
  cr_expect(th_map_get(&ref->claims, "reshape"));
  cr_expect(th_map_get(&ref->claims, "as_strided"));
  th_context_free(ctx);
}

Test(ref, one_operand) {
  static const run_case cases[] = {
      {"x f32[3] = -1.5 0 2", "t = abs(x)", "t = 1.5 0 2", 0},
      {"x i8[2] = -128 5", "t = abs(x)", "t = -128 5", 0},
      {"x u8[2] = 1 0", "t = neg(x)", "t = 255 0", 0},
      {"x f32[3] = -3 -0.0 nan", "t = sign(x)", "t = -1 0 0", 0},
      {"x f64[4] = -0.5 0.5 1.5 2.5", "t = round(x)", "t = -0.0 0 2 2", 0},
      {"x f32[2] = -1.5 1.5", "t = floor(x)", "t = -2 1", 0},
      {"x f32[2] = -1.5 1.5", "t = ceil(x)", "t = -1 2", 0},
      {"x f32[2] = -1.5 1.5", "t = trunc(x)", "t = -1 1", 0},
      {"x b8[2] = 0 1", "t = bitwise_not(x)", "t = 1 0", 0},
      {"x i16[2] = 0 5", "t = bitwise_not(x)", "t = -1 -6", 0},
      {"x i64[2] = 0 1", "t = exp(x)", "t = 1 2.7182818", 1e-7},
      {"x f64[2] = 0 3", "t = exp2(x)", "t = 1 8", 0},
      {"x f64[1] = 1e-9", "t = expm1(x)", "t = 1.0000000005e-9", 1e-18},
      {"x f32[3] = 1 0 -1", "t = log(x)", "t = 0 -inf nan", 0},
      {"x f64[2] = 8 0.5", "t = log2(x)", "t = 3 -1", 0},
      {"x f64[1] = 1000", "t = log10(x)", "t = 3", 1e-15},
      {"x f64[1] = 1e-9", "t = log1p(x)", "t = 9.999999995e-10", 1e-18},
      {"x f32[3] = 4 2 -1", "t = sqrt(x)", "t = 2 0x1.6a09e6p+0 nan", 0},
      {"x f32[2] = 4 0", "t = rsqrt(x)", "t = 0.5 inf", 0},
      {"x i32[2] = 4 -2", "t = reciprocal(x)", "t = 0.25 -0.5", 0},
      {"x f64[1] = 1", "t = sin(x)", "t = 0.8414709848078965", 1e-15},
      {"x f64[1] = 1", "t = cos(x)", "t = 0.5403023058681398", 1e-15},
      {"x f64[1] = 1", "t = tan(x)", "t = 1.5574077246549023", 1e-15},
      {"x f64[1] = 1", "t = asin(x)", "t = 1.5707963267948966", 1e-15},
      {"x f64[1] = 0.5", "t = acos(x)", "t = 1.0471975511965979", 1e-15},
      {"x f64[1] = 1", "t = atan(x)", "t = 0.7853981633974483", 1e-15},
      {"x f64[1] = 1", "t = sinh(x)", "t = 1.1752011936438014", 1e-15},
      {"x f64[1] = 1", "t = cosh(x)", "t = 1.5430806348152437", 1e-15},
      {"x f64[2] = 1 100", "t = tanh(x)", "t = 0.7615941559557649 1", 1e-15},
      {"x f64[1] = 1", "t = fast_tanh(x)", "t = 0.7615941559557649", 1e-15},
      {"x f64[1] = 1", "t = asinh(x)", "t = 0.881373587019543", 1e-15},
      {"x f64[1] = 2", "t = acosh(x)", "t = 1.3169578969248166", 1e-15},
      {"x f64[1] = 0.5", "t = atanh(x)", "t = 0.5493061443340548", 1e-15},
      {"x f64[1] = 1", "t = erf(x)", "t = 0.8427007929497149", 1e-15},
      {"x f64[1] = 1", "t = erfc(x)", "t = 0.15729920705028513", 1e-15},
      {"x f32[3] = 0 100 -200", "t = sigmoid(x)", "t = 0.5 1 0", 0},
      {"x f32[3] = nan inf 1", "t = isnan(x)", "t = 1 0 0", 0},
      {"x f32[3] = nan -inf 1", "t = isinf(x)", "t = 0 1 0", 0},
      {"x f32[3] = nan inf 1", "t = isfinite(x)", "t = 0 0 1", 0},
      {"x i32[2] = 0 7", "t = isfinite(x)", "t = 1 1", 0},
      {"x f32[3] = nan 0 1", "t = logical_not(x)", "t = 0 1 0", 0},
      {"x f32[0] = ", "t = exp(x)", "t = ", 0},
  };
  REF_ALL(cases)
}

Test(ref, sizes_at_run_time) {
  static const run_case cases[] = {
      {"x f32[s0=2] = 1 2; y f32[s1=3] = 1 2 3", "t = add(x, y)",
       "error: two sizes that have to be equal are 2 and 3", 0},
      {"x f32[1, s0=2] = 1 2; y f32[s1=3, 1] = 1 2 3", "t = matmul(x, y)",
       "error: two sizes that have to be equal are 2 and 3", 0},
  };
  REF_ALL(cases)
}

// The kernels give the rows that exist.
Test(ref, faults_of_ref_alone) {
  static const run_case cases[] = {
      {"x f32[3, 1] = 1 2 3; w f32[2, 1, 2] = 1 2 10 20; o i32[2] = 1 4",
       "t = grouped_mm(x, w, o)", "error: offset 4 of group 1", 0},
  };
  RUN_ALL("ref", cases)
}

Test(ref, two_operands) {
  static const run_case cases[] = {
      {"x f32[2] = 1 2; y f32[2, 1] = 10 20", "t = add(x, y)",
       "t = 11 12 21 22", 0},
      // Rounded to f16 once: 1 + 2^-11 is half way and becomes even.
      {"x f16[2] = 1 1", "t = add(x, 0.00048828125)", "t = 1 1", 0},
      {"x i8[1] = 127", "t = add(x, 1)", "t = -128", 0},
      {"x u8[1] = 0", "t = sub(x, 1)", "t = 255", 0},
      {"x b8[2] = 1 0; y b8[2] = 1 1", "t = mul(x, y)", "t = 1 0", 0},
      {"x f32[1] = 0.1; y f32[1] = 0.2", "t = add(x, y)", "t = 0x1.333334p-2",
       0},
      {"x i64[2] = 7 -7", "t = div(x, 2)", "t = 3.5 -3.5", 0},
      {"x i64[3] = 7 -7 7; y i64[3] = 2 2 -2", "t = floor_divide(x, y)",
       "t = 3 -4 -4", 0},
      {"x i64[3] = 7 -7 7; y i64[3] = 2 2 -2", "t = trunc_divide(x, y)",
       "t = 3 -3 -3", 0},
      {"x i64[3] = 7 -7 7; y i64[3] = 3 3 -3", "t = remainder(x, y)",
       "t = 1 2 -2", 0},
      {"x i64[3] = 7 -7 7; y i64[3] = 3 3 -3", "t = fmod(x, y)", "t = 1 -1 1",
       0},
      {"x i64[1] = -9223372036854775808", "t = floor_divide(x, -1)",
       "t = -9223372036854775808", 0},
      {"x f32[4] = 7 -7 1 0; y f32[4] = 2 2 0 0", "t = floor_divide(x, y)",
       "t = 3 -4 inf nan", 0},
      {"x f32[2] = -7 7", "t = remainder(x, 3.0)", "t = 2 1", 0},
      {"x i32[2] = 1 2; y i32[2] = 1 0", "t = floor_divide(x, y)",
       "error: integer division by zero", 0},
      {"x i64[4] = 2 -2 -1 3; y i64[4] = 10 3 -3 -1", "t = pow(x, y)",
       "t = 1024 -8 -1 0", 0},
      {"x f32[2] = -inf 4", "t = pow(x, 0.5)", "t = nan 2", 0},
      {"x f32[2] = 4 0", "t = pow(x, -0.5)", "t = 0.5 inf", 0},
      {"x f64[2] = 3 2", "t = pow(x, 3)", "t = 27 8", 0},
      {"x f64[2] = 1 -1; y f64[2] = -1 -1", "t = atan2(x, y)",
       "t = 2.356194490192345 -2.356194490192345", 1e-15},
      {"x f32[1] = 3; y f32[1] = 4", "t = hypot(x, y)", "t = 5", 0},
      {"x f32[2] = 3 -3; y f32[2] = -0.0 0", "t = copysign(x, y)", "t = -3 3",
       0},
      {"x f32[3] = nan 1 2; y f32[3] = 1 nan 1", "t = maximum(x, y)",
       "t = nan nan 2", 0},
      {"x f32[3] = nan 1 2; y f32[3] = 1 nan 1", "t = fmin(x, y)", "t = 1 1 1",
       0},
      {"x i32[2] = 12 -1; y i32[2] = 10 3", "t = bitwise_and(x, y)", "t = 8 3",
       0},
      {"x i32[2] = 12 -1; y i32[2] = 10 3", "t = bitwise_or(x, y)", "t = 14 -1",
       0},
      {"x i32[2] = 12 -1; y i32[2] = 10 3", "t = bitwise_xor(x, y)", "t = 6 -4",
       0},
      {"x i8[3] = 1 1 1; y i8[3] = 7 8 -1", "t = shift_left(x, y)",
       "t = -128 0 0", 0},
      {"x i8[3] = -128 -1 64; y i8[3] = 7 9 -1", "t = shift_right(x, y)",
       "t = -1 -1 0", 0},
      {"x f32[3] = 1 nan 2; y f32[3] = 1 nan 3", "t = ne(x, y)", "t = 0 1 1",
       0},
      {"x i64[2] = 9007199254740993 1", "t = gt(x, 9007199254740992)",
       "t = 1 0", 0},
      {"x f32[3] = 0 2 nan; y f32[3] = 0 0 1", "t = logical_xor(x, y)",
       "t = 0 1 0", 0},
      {"x f32[2] = 1 2; y f32[2] = 2 2", "t = le(x, y)", "t = 1 1", 0},
      {"c b8[2] = 1 0; x i64[1] = 5", "t = where(c, x, 0.5)", "t = 5 0.5", 0},
      {"x f32[4] = 1.9 -1.9 nan 300", "t = to(x, i64)",
       "t = 1 -1 -9223372036854775808 300", 0},
      {"x f32[2] = 300 -1", "t = to(x, u8)", "t = 44 255", 0},
      {"x f64[2] = 0 1e-300", "t = to(x, b8)", "t = 0 1", 0},
  };
  REF_ALL(cases)
}

Test(ref, shapes) {
  static const run_case cases[] = {
      {"x f32[2, 3] = 1 2 3 4 5 6",
       "p = permute(x, [1, 0])\nt = reshape(p, [2, 3])", "t = 1 4 2 5 3 6", 0},
      {"x f32[2, 2] = 1 2 3 4", "p = permute(x, [1, 0])\nt = clone(p)",
       "t = 1 3 2 4", 0},
      {"x i32[2, 2] = 1 2 3 4",
       "p = permute(x, [1, 0])\nt = as_strided(p, [2, 2], [1, 1], 1)",
       "t = 3 2 2 4", 0},
      {"x f32[2, 1] = 1 2; y i64[2, 2] = 3 4 5 6", "t = cat([x, y], 1)",
       "t = 1 3 4 2 5 6", 0},
      {"x f32[0] = ; y f32[1, 2] = 3 4", "t = cat([x, y], -1)", "t = 3 4", 0},
      {"x f32[2, 3] = 1 2 3 4 5 6", "t = flip(x, [0, -1])", "t = 6 5 4 3 2 1",
       0},
      {"x f32[2, 0] = ", "t = flip(x, [0, 1])", "t = ", 0},
      {"x f32[2, 2] = 1 2 3 4", "t = pad(x, [1, 0, 0, 1], 9)",
       "t = 9 1 2 9 3 4 9 9 9", 0},
      {"x f32[4] = 1 2 3 4", "t = pad(x, [-1, -2])", "t = 2", 0},
      {"x f32[4] = 1 2 3 4", "t = pad(x, [2, -3])", "t = 0 0 1", 0},
      {"x f32[1] = 1", "t = pad(x, [-1, 2], 3)", "t = 3 3", 0},
      {"x f32[1] = 0", "t = full([2, 2], 1.5, i32)", "t = 1 1 1 1", 0},
      {"x f32[1] = 0", "t = full([], True, f16)", "t = 1", 0},
      {"x f32[1] = 0", "t = arange(5, -1, -2, i32)", "t = 5 3 1", 0},
      {"x f32[1] = 0", "t = arange(0, 1, 0.25, f32)", "t = 0 0.25 0.5 0.75", 0},
  };
  REF_ALL(cases)
}

Test(ref, reductions) {
  static const run_case cases[] = {
      {"x f32[2, 3] = 1 2 3 4 5 6", "t = sum(x, [0])", "t = 5 7 9", 0},
      {"x f32[2, 3] = 1 2 3 4 5 6",
       "p = permute(x, [1, 0])\nt = sum(p, [-1], True)", "t = 5 7 9", 0},
      {"x f32[2, 3] = 1 2 3 4 5 6", "t = sum(x)", "t = 21", 0},
      {"x f32[2, 3] = 1 2 3 4 5 6", "t = sum(x, [])", "t = 21", 0},
      {"x b8[3] = 1 1 1", "t = sum(x)", "t = 3", 0},
      {"x f32[2] = 1.7 1.7", "t = sum(x, None, False, i64)", "t = 2", 0},
      {"x f16[3] = 2048 1 1", "t = sum(x)", "t = 2050", 0},
      {"x f32[2, 0] = ", "t = sum(x, [1])", "t = 0 0", 0},
      {"x f32[] = 3", "t = sum(x, [0])", "t = 3", 0},
      {"x i32[3] = 2 3 4", "t = prod(x)", "t = 24", 0},
      {"x f32[0] = ", "t = prod(x)", "t = 1", 0},
      {"x f32[2, 2] = 1 nan 3 2", "t = amax(x, [1])", "t = nan 3", 0},
      {"x i64[2, 2] = 1 5 3 2", "t = amin(x, [0])", "t = 1 2", 0},
      {"x f32[2, 2] = 0 nan 0 0", "t = any(x, [1])", "t = 1 0", 0},
      {"x u8[3] = 1 0 2", "t = all(x)", "t = 0", 0},
      {"x f32[0] = ", "t = all(x)", "t = 1", 0},
      {"x f32[4] = 1 3 3 2", "t = argmax(x)", "t = 1", 0},
      {"x f32[4] = 1 nan 3 nan", "t = argmin(x)", "t = 1", 0},
      {"x i64[2, 3] = 1 3 2 9 8 7", "t = argmax(x, 1, True)", "t = 1 0", 0},
      {"x f32[s0=0, 2] = ", "t = amax(x, [0])", "t = -inf -inf", 0},
      {"x f32[2, 2] = 1 2 3 4", "t = cumsum(x, 0)", "t = 1 2 4 6", 0},
      {"x i8[3] = 100 100 100", "t = cumsum(x, 0)", "t = 100 200 300", 0},
      {"x f32[] = 2", "t = cumprod(x, 0)", "t = 2", 0},
      {"x f32[3] = 2 3 4", "t = cumprod(x, -1)", "t = 2 6 24", 0},
  };
  REF_ALL(cases)
}

Test(ref, sorting) {
  static const run_case cases[] = {
      {"x f32[5] = 2 nan 1 2 -inf", "(v, i) = sort(x)",
       "v = -inf 1 2 2 nan; i = 4 2 0 3 1", 0},
      {"x f32[5] = 2 nan 1 2 -inf", "(v, i) = sort(x, -1, True)",
       "v = nan 2 2 1 -inf; i = 1 0 3 2 4", 0},
      {"x i64[2, 2] = 3 1 2 4", "(v, i) = sort(x, 0)",
       "v = 2 1 3 4; i = 1 0 0 1", 0},
      {"x i64[] = 3", "(v, i) = sort(x, 0)", "v = 3; i = 0", 0},
      {"x i64[2, 0] = ", "(v, i) = sort(x)", "v = ; i = ", 0},
      {"x f32[5] = 0 1 2 4 nan", "t = histc(x, 4, 0, 4)", "t = 1 1 1 1", 0},
      {"x f32[3] = 1 2 3", "t = histc(x, 2)", "t = 1 2", 0},
      {"x f32[1] = 5", "t = histc(x, 2)", "t = 0 1", 0},
      {"x f32[1] = inf", "t = histc(x, 2)", "error: has no bins", 0},
      {"x f32[2, 2] = 0 nan 3 0", "t = nonzero(x)", "t = 0 1 1 0", 0},
      {"x b8[2] = 0 0", "t = nonzero(x)", "t = ", 0},
      {"x f32[2] = 1 -2", "u = sum(x)\nn = item(u)\nt = mul(x, n)", "t = -1 2",
       0},
      {"x i64[1] = 3", "n = item(x)\nt = full([n], 2, i64)", "t = 2 2 2", 0},
      {"x b8[2] = 1 0; y f32[1] = 1", "assert_tensor(x, 'both')\nt = add(y, 1)",
       "error: both", 0},
      {"x b8[2] = 1 1; y f32[1] = 1", "assert_tensor(x, 'both')\nt = add(y, 1)",
       "t = 2", 0},
  };
  REF_ALL(cases)
}

Test(ref, products) {
  static const run_case cases[] = {
      {"x f32[2, 3] = 1 2 3 4 5 6; y f32[3, 2] = 1 0 0 1 1 1",
       "t = matmul(x, y)", "t = 4 5 10 11", 0},
      {"x f32[3] = 1 2 3; y f32[3] = 4 5 6", "t = matmul(x, y)", "t = 32", 0},
      {"x f32[2] = 1 2; y f32[2, 2] = 1 2 3 4", "t = matmul(x, y)", "t = 7 10",
       0},
      {"x f32[2, 2] = 1 2 3 4; y f32[2] = 1 2", "t = matmul(x, y)", "t = 5 11",
       0},
      {"x i64[2, 1, 1, 2] = 1 2 3 4; y i64[3, 2, 1] = 1 0 0 1 1 1",
       "t = matmul(x, y)", "t = 1 2 3 3 4 7", 0},
      {"x f32[2, 0] = ; y f32[0, 1] = ", "t = matmul(x, y)", "t = 0 0", 0},
      {"x f32[1, 2] = 0 1; y f32[2, 1] = inf 1", "t = matmul(x, y)", "t = nan",
       0},
      // The sum begins with a zero that the next row needs too, in a register.
      {"x f32[3, 1] = 1 2 3; y f32[1, 4] = 1 2 3 4", "t = matmul(x, y)",
       "t = 1 2 3 4 2 4 6 8 3 6 9 12", 0},
      {"x f16[1, 3] = 2048 1 1; y f16[3, 1] = 1 1 1", "t = matmul(x, y)",
       "t = 2050", 0},
      {"x f32[3, 1] = 1 2 3; w f32[2, 1, 2] = 1 2 10 20; o i32[2] = 1 2",
       "t = grouped_mm(x, w, o)", "t = 1 2 20 40 0 0", 0},
  };
  REF_ALL(cases)
}

Test(ref, convolutions) {
  static const run_case cases[] = {
      {"x f32[1, 1, 4] = 1 2 3 4; w f32[1, 1, 2] = 1 10; b f32[1] = 100",
       "t = convolution(x, w, b, [1], [0], [1], False, [0], 1)",
       "t = 121 132 143", 0},
      {"x f32[1, 1, 4] = 1 2 3 4; w f32[1, 1, 2] = 1 10",
       "t = convolution(x, w, None, [2], [1], [2], False, [0], 1)", "t = 20 42",
       0},
      {"x f32[1, 2, 2] = 1 2 3 4; w f32[2, 1, 1] = 10 100",
       "t = convolution(x, w, None, [1], [0], [1], False, [0], 2)",
       "t = 10 20 300 400", 0},
      {"x f32[1, 1, 2, 2] = 1 2 3 4; w f32[1, 1, 2, 2] = 1 2 3 4",
       "t = convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0], 1)",
       "t = 4 11 6 14 30 14 6 11 4", 0},
      {"x f32[1, 1, 2] = 1 2; w f32[1, 1, 3] = 1 10 100",
       "t = convolution(x, w, None, [2], [0], [1], True, [0], 1)",
       "t = 1 10 102 20 200", 0},
      {"x f32[1, 1, 2] = 1 2; w f32[1, 1, 3] = 1 10 100",
       "t = convolution(x, w, None, [2], [1], [1], True, [1], 1)",
       "t = 10 102 20 200", 0},
      {"x f32[1, 2, 1] = 1 2; w f32[2, 2, 1] = 1 10 100 1000",
       "t = convolution(x, w, None, [1], [0], [1], True, [0], 2)",
       "t = 1 10 200 2000", 0},
      {"x f32[1, 1, 1, 1, 2] = 1 2; w f32[2, 1, 1, 1, 1] = 3 4",
       "t = convolution(x, w, None, [1], [0], [1], False, [0], 1)",
       "t = 3 6 4 8", 0},
      {"x f32[0, 1, 2] = ; w f32[1, 1, 1] = 3",
       "t = convolution(x, w, None, [1], [0], [1], False, [0], 1)", "t = ", 0},
  };
  REF_ALL(cases)
}

Test(ref, windows) {
  static const run_case cases[] = {
      {"x f32[1, 4] = 1 3 2 3", "(v, i) = max_pool(x, [2], [1], [0], [1])",
       "v = 3 3 3; i = 1 1 3", 0},
      {"x f32[1, 3] = 1 nan 2", "(v, i) = max_pool(x, [2], [2], [1], [1])",
       "v = 1 nan; i = 0 1", 0},
      {"x f32[1, 3] = -5 -6 -7",
       "(v, i) = max_pool(x, [2], [2], [0], [1], True)", "v = -5 -7; i = 0 2",
       0},
      {"x i64[1, 2, 2] = 1 2 3 4", "(v, i) = max_pool(x, [2, 2], [], [0], [1])",
       "v = 4; i = 3", 0},
      {"x f32[1, 5] = 1 2 3 4 5", "(v, i) = max_pool(x, [2], [1], [0], [3])",
       "v = 4 5; i = 3 4", 0},
      {"x f32[1, 3] = 2 4 6", "t = avg_pool(x, [2], [2], [1])", "t = 1 5", 0},
      {"x f32[1, 3] = 2 4 6", "t = avg_pool(x, [2], [2], [1], False, False)",
       "t = 2 5", 0},
      {"x f32[1, 3] = 2 4 6", "t = avg_pool(x, [2], [2], [0], True)", "t = 3 6",
       0},
      {"x f32[1, 3] = 2 4 6", "t = avg_pool(x, [2], [1], [0], False, True, 4)",
       "t = 1.5 2.5", 0},
      {"x f32[1, 5] = 1 2 3 4 5", "t = adaptive_avg_pool(x, [3])",
       "t = 1.5 3 4.5", 0},
      {"x f32[1, 1, 2, 2] = 1 2 3 4", "t = adaptive_avg_pool(x, [1, 2])",
       "t = 2 3", 0},
      {"x f32[1, 1, 3] = 1 2 3", "t = upsample_nearest(x, [5])",
       "t = 1 1 2 2 3", 0},
      {"x f32[1, 1, 1, 2] = 1 2", "t = upsample_nearest(x, [2, 3])",
       "t = 1 1 2 1 1 2", 0},
  };
  REF_ALL(cases)
}

Test(ref, gathers) {
  static const run_case cases[] = {
      {"w f32[3, 2] = 1 2 3 4 5 6; i i64[2] = 2 0", "t = embedding(w, i)",
       "t = 5 6 1 2", 0},
      {"w f32[3, 2] = 1 2 3 4 5 6; i i32[1] = 3", "t = embedding(w, i)",
       "error: index 3 is out of range for size 3", 0},
      {"x f32[2, 2] = 1 2 3 4; i i64[2, 1] = 1 0", "t = gather(x, 1, i)",
       "t = 2 3", 0},
      {"x f32[2, 2] = 1 2 3 4; i i64[1, 2] = 1 0", "t = gather(x, 0, i)",
       "t = 3 2", 0},
      {"x f32[] = 7; i i64[] = 0", "t = gather(x, 0, i)", "t = 7", 0},
      {"x f32[2] = 1 2; i i64[1] = -3", "t = gather(x, 0, i)",
       "error: index -3 is out of range for size 2", 0},
      {"x f32[2, 2] = 1 2 3 4; i i64[3] = 1 0 1", "t = index_select(x, 1, i)",
       "t = 2 1 2 4 3 4", 0},
      {"x f32[2, 2, 2] = 1 2 3 4 5 6 7 8; i i64[2] = 1 0",
       "t = index(x, [None, i])", "t = 3 4 1 2 7 8 5 6", 0},
      {"x f32[2, 2, 2] = 1 2 3 4 5 6 7 8; i i64[2, 1] = 1 -2; j i64[2] = 0 1",
       "t = index(x, [i, j])", "t = 5 6 7 8 1 2 3 4", 0},
      {"x f32[2, 2, 2] = 1 2 3 4 5 6 7 8; i i64[1] = 1; j i64[3] = 0 1 0",
       "t = index(x, [i, None, j])", "t = 5 7 6 8 5 7", 0},
      {"x f32[2] = 1 2; i i64[1] = 2", "t = index(x, [i])",
       "error: index 2 is out of range for size 2", 0},
  };
  REF_ALL(cases)
}

Test(ref, scatters) {
  static const run_case cases[] = {
      {"x f32[2, 2] = 1 2 3 4; i i64[2, 1] = 1 0; s f32[2, 1] = 8 9",
       "t = scatter(x, 1, i, s)", "t = 1 8 9 4", 0},
      {"x i64[3] = 1 2 3; i i64[2] = 0 0", "t = scatter(x, 0, i, 5)",
       "t = 5 2 3", 0},
      {"x f32[3] = 1 2 3; i i64[3] = 0 0 2; s f32[3] = 1 1 1",
       "t = scatter_add(x, 0, i, s)", "t = 3 2 4", 0},
      {"x b8[2] = 0 0; i i64[2] = 1 1; s b8[2] = 1 1",
       "t = scatter_add(x, 0, i, s)", "t = 0 1", 0},
      {"x f32[2] = 1 2; i i64[1] = 2; s f32[1] = 0", "t = scatter(x, 0, i, s)",
       "error: index 2 is out of range for size 2", 0},
      {"x f32[2, 2] = 1 2 3 4; i i64[2] = 0 0; v f32[2] = 5 6",
       "t = index_put(x, [i, i], v)", "t = 6 2 3 4", 0},
      {"x f32[2, 2] = 1 2 3 4; i i64[2] = 0 0; v f32[1] = 5",
       "t = index_put(x, [None, i], v, True)", "t = 11 2 13 4", 0},
      {"x f32[2, 2] = 1 2 3 4; i i64[1] = 1; s f32[2, 1] = 8 9",
       "t = index_copy(x, 1, i, s)", "t = 1 8 3 9", 0},
      {"x f32[2] = 1 2; i i64[2] = 1 1; s f32[2] = 1 2",
       "t = index_add(x, 0, i, s, 10)", "t = 1 32", 0},
      {"x f32[] = 1; i i64[] = 0; s f32[] = 2", "t = index_add(x, 0, i, s)",
       "t = 3", 0},
      {"x f32[5] = 1 2 3 4 5; s f32[2] = 8 9",
       "t = slice_scatter(x, s, 0, 1, -1, 2)", "t = 1 8 3 9 5", 0},
      {"x f32[2, 2] = 1 2 3 4; s f32[2] = 8 9",
       "t = select_scatter(x, s, 1, -1)", "t = 1 8 3 9", 0},
      {"x f32[2, 3] = 1 2 3 4 5 6; s f32[2] = 8 9",
       "t = diagonal_scatter(x, s, 1)", "t = 1 8 3 4 5 9", 0},
      {"x f32[2, 1, 2] = 1 2 3 4; s f32[1, 1] = 9",
       "t = diagonal_scatter(x, s, -1, 0, 2)", "t = 1 2 9 4", 0},
      {"x f32[2, 2] = 1 2 3 4; s f32[2] = 8 9",
       "t = as_strided_scatter(x, s, [2], [2], 1)", "t = 1 8 3 9", 0},
      // In place: what the operand shares memory with is changed as well.
      {"x f32[3] = 1 2 3; i i64[1] = 1; s f32[1] = 9",
       "c = clone(x)\nt = index_copy_(c, 0, i, s)", "t = 1 9 3", 0},
  };
  REF_ALL(cases)
}

// ---- memory that is out

static th_status ref_work(void *user) {
  const char *text = user;
  th_context *ctx = th_context_new();
  th_callable *callable = NULL;
  th_tensor *x = NULL, *out = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "ref";
  options.threads = 1;
  th_status status = ctx ? TH_OK : TH_NO_MEMORY;
  if (status == TH_OK) {
    status = th_tensor_new(ctx, TH_F32, 2, (int64_t[]){2, 2}, &x);
  }
  if (status == TH_OK) {
    status = th_jit_text(ctx, "test", text, strlen(text), &options, &callable);
  }
  if (status == TH_OK) {
    status = th_call(callable, &x, 1, &out, 1);
  }
  th_tensor_release(out);
  th_tensor_release(x);
  th_callable_free(callable);
  th_context_free(ctx);
  return status;
}

Test(ref, survives_memory_that_is_out) {
  torture(ref_work, (void *)"def computation(x):\n"
                            "  # x: \"cpu f32[2, 2]\"\n"
                            "  a = matmul(x, x)\n"
                            "  (b, i) = sort(a, 0)\n"
                            "  c = gather(b, 1, i)\n"
                            "  d = index(c, [i])\n"
                            "  e = sum(d, [0])\n"
                            "  f = scatter(e, 1, i, 2.0)\n"
                            "  (g, p) = max_pool(f, [2], [1], [0], [1])\n"
                            "  h = cat([g, e], 1)\n"
                            "  m = add(h, h)\n"
                            "  return {'output': (m,)}\n");
}

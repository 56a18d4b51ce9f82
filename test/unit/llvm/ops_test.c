// The operations of ops.h: each becomes the statement that its name says, with
// its operands where the schema has them.
#include "thunder/thunder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

// What is traced, and the statements that have to come, without results and
// types.
typedef struct ops_case {
  th_status (*build)(th_tracer *t, th_value *const *in);
  const char *const *want;
  size_t count;
} ops_case;

static th_status ops_build(th_tracer *t, th_value *const *in, size_t in_count,
                           th_value **out, size_t out_count, void *user) {
  (void)in_count, (void)out_count;
  const ops_case *c = user;
  out[0] = in[0];
  return c->build(t, in);
}

// "  t0 = abs(in0)  # t0: ..." -> "abs(in0)"; false: no statement.
static bool ops_statement(const char *line, char *out, size_t size) {
  size_t n = strcspn(line, "\n");
  const char *equals = strstr(line, " = ");
  if (strncmp(line, "  ", 2) != 0 || line[2] == '#' || !equals ||
      equals >= line + n) {
    return false;
  }
  const char *start = equals + 3, *end = strstr(start, "  #");
  end = end && end < line + n ? end : line + n;
  snprintf(out, size, "%.*s", (int)(end - start), start);
  return true;
}

static th_tensor *ops_tensor(th_context *ctx, th_dtype dtype, int rank,
                             const int64_t *dims) {
  th_tensor *tensor = NULL;
  cr_assert_eq(th_tensor_new(ctx, dtype, rank, dims, &tensor), TH_OK);
  return tensor;
}

static void ops_compare(const ops_case *c, const char *text) {
  size_t k = 0;
  char got[256];
  for (const char *line = text; *line;) {
    if (ops_statement(line, got, sizeof got)) {
      cr_expect_str_eq(got, k < c->count ? c->want[k] : "(nothing)");
      k++;
    }
    line += strcspn(line, "\n");
    line += *line == '\n';
  }
  cr_expect_eq(k, c->count, "%zu statements, not %zu", k, c->count);
}

// in0 f32[2, 3], in1 f32[2, 3], in2 b8[2, 3], in3 i64[2], in4 f32[2, 4, 8, 8],
// in5 f32[3], in6 i64[2, 3], in7 f32[2, 2, 3].
static void ops_run(const ops_case *c) {
  static const struct {
    th_dtype dtype;
    int rank;
    int64_t dims[4];
  } inputs[] = {{TH_F32, 2, {2, 3}},       {TH_F32, 2, {2, 3}},
                {TH_BOOL, 2, {2, 3}},      {TH_I64, 1, {2}},
                {TH_F32, 4, {2, 4, 8, 8}}, {TH_F32, 1, {3}},
                {TH_I64, 2, {2, 3}},       {TH_F32, 3, {2, 2, 3}}};
  th_context *ctx = th_context_new();
  th_tensor *in[LENGTH(inputs)], *out = NULL;
  for (size_t i = 0; i < LENGTH(inputs); i++) {
    in[i] = ops_tensor(ctx, inputs[i].dtype, inputs[i].rank, inputs[i].dims);
  }
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "ref";
  options.verify_each = true;
  th_callable *f = NULL;
  cr_assert_eq(th_jit(ctx, ops_build, (void *)c, NULL, 1, &options, &f), TH_OK);
  th_status status = th_call(f, in, LENGTH(in), &out, 1);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(ctx));
  const char *const *texts = NULL;
  cr_assert(th_last_traces(f, TH_TRACES_COMPUTATION, &texts) > 0);
  ops_compare(c, texts[0]);
  th_tensor_release(out);
  for (size_t i = 0; i < LENGTH(in); i++) {
    th_tensor_release(in[i]);
  }
  th_callable_free(f);
  th_context_free(ctx);
}

#define OPS(name, ...)                                                         \
  static th_status ops_##name(th_tracer *t, th_value *const *in);              \
  Test(ops, name) {                                                            \
    static const char *const want[] = {__VA_ARGS__};                           \
    ops_run(&(ops_case){ops_##name, want, LENGTH(want)});                      \
  }                                                                            \
  static th_status ops_##name(th_tracer *t, th_value *const *in)

OPS(unary, "abs(in0)", "neg(in0)", "sign(in0)", "floor(in0)", "ceil(in0)",
    "trunc(in0)", "round(in0)", "bitwise_not(in6)", "exp(in0)", "exp2(in0)",
    "expm1(in0)", "log(in0)", "log2(in0)", "log10(in0)", "log1p(in0)",
    "sqrt(in0)", "rsqrt(in0)", "reciprocal(in0)", "mul(in0, in0)", "sin(in0)",
    "cos(in0)", "tan(in0)", "asin(in0)", "acos(in0)", "atan(in0)", "sinh(in0)",
    "cosh(in0)", "tanh(in0)", "asinh(in0)", "acosh(in0)", "atanh(in0)",
    "erf(in0)", "erfc(in0)", "sigmoid(in0)", "isnan(in0)", "isinf(in0)",
    "isfinite(in0)", "logical_not(in2)") {
  th_value *x = in[0];
  (void)th_abs(t, x), (void)th_neg(t, x), (void)th_sign(t, x);
  (void)th_floor(t, x), (void)th_ceil(t, x), (void)th_trunc(t, x);
  (void)th_round(t, x), (void)th_bitwise_not(t, in[6]), (void)th_exp(t, x);
  (void)th_exp2(t, x), (void)th_expm1(t, x), (void)th_log(t, x);
  (void)th_log2(t, x), (void)th_log10(t, x), (void)th_log1p(t, x);
  (void)th_sqrt(t, x), (void)th_rsqrt(t, x), (void)th_reciprocal(t, x);
  (void)th_square(t, x), (void)th_sin(t, x), (void)th_cos(t, x);
  (void)th_tan(t, x), (void)th_asin(t, x), (void)th_acos(t, x);
  (void)th_atan(t, x), (void)th_sinh(t, x), (void)th_cosh(t, x);
  (void)th_tanh(t, x), (void)th_asinh(t, x), (void)th_acosh(t, x);
  (void)th_atanh(t, x), (void)th_erf(t, x), (void)th_erfc(t, x);
  (void)th_sigmoid(t, x), (void)th_isnan(t, x), (void)th_isinf(t, x);
  (void)th_isfinite(t, x), (void)th_logical_not(t, in[2]);
  return th_tracer_status(t);
}

OPS(binary, "add(in0, in1)", "sub(in0, in1)", "mul(in0, in1)", "div(in0, in1)",
    "floor_divide(in0, in1)", "trunc_divide(in0, in1)", "remainder(in0, in1)",
    "fmod(in0, in1)", "pow(in0, in1)", "atan2(in0, in1)", "hypot(in0, in1)",
    "copysign(in0, in1)", "maximum(in0, in1)", "minimum(in0, in1)",
    "fmax(in0, in1)", "fmin(in0, in1)", "bitwise_and(in6, in6)",
    "bitwise_or(in6, in6)", "bitwise_xor(in6, in6)", "shift_left(in6, in6)",
    "shift_right(in6, in6)", "eq(in0, in1)", "ne(in0, in1)", "lt(in0, in1)",
    "le(in0, in1)", "gt(in0, in1)", "ge(in0, in1)", "logical_and(in0, in1)",
    "logical_or(in0, in1)", "logical_xor(in0, in1)", "add(in0, 1.5)",
    "sub(in0, 1.5)", "mul(in0, 1.5)", "div(in0, 1.5)", "pow(in0, 1.5)",
    "sub(1.5, in0)") {
  th_value *x = in[0], *y = in[1], *i = in[6];
  (void)th_add(t, x, y), (void)th_sub(t, x, y), (void)th_mul(t, x, y);
  (void)th_div(t, x, y), (void)th_floor_divide(t, x, y);
  (void)th_trunc_divide(t, x, y), (void)th_remainder(t, x, y);
  (void)th_fmod(t, x, y), (void)th_pow(t, x, y), (void)th_atan2(t, x, y);
  (void)th_hypot(t, x, y), (void)th_copysign(t, x, y);
  (void)th_maximum(t, x, y), (void)th_minimum(t, x, y);
  (void)th_fmax(t, x, y), (void)th_fmin(t, x, y);
  (void)th_bitwise_and(t, i, i), (void)th_bitwise_or(t, i, i);
  (void)th_bitwise_xor(t, i, i), (void)th_shift_left(t, i, i);
  (void)th_shift_right(t, i, i), (void)th_eq(t, x, y), (void)th_ne(t, x, y);
  (void)th_lt(t, x, y), (void)th_le(t, x, y), (void)th_gt(t, x, y);
  (void)th_ge(t, x, y), (void)th_logical_and(t, x, y);
  (void)th_logical_or(t, x, y), (void)th_logical_xor(t, x, y);
  (void)th_add_scalar(t, x, 1.5), (void)th_sub_scalar(t, x, 1.5);
  (void)th_mul_scalar(t, x, 1.5), (void)th_div_scalar(t, x, 1.5);
  (void)th_pow_scalar(t, x, 1.5), (void)th_rsub_scalar(t, x, 1.5);
  return th_tracer_status(t);
}

OPS(elementwise, "where(in2, in0, in1)", "to(in0, f16)", "clamp(in0, max=2.0)",
    "clamp(in0, 1.0)", "lerp(in0, in1, 0.5)", "addcmul(in0, in1, in0, 2.0)",
    "addcdiv(in0, in1, in0, 2.0)", "masked_fill(in0, in2, 3.0)", "relu(in0)",
    "hardtanh(in0, 0, 6)", "silu(in0)", "mish(in0)", "selu(in0)",
    "hardsigmoid(in0)", "hardswish(in0)", "logsigmoid(in0)", "abs(in0)",
    "add(t16, 1)", "div(in0, t17)", "tanh(in0)", "sub(in0, t19)",
    "gelu(in0, 'tanh')", "elu(in0, 0.5)", "celu(in0, 0.5)",
    "leaky_relu(in0, 0.5)", "hardtanh(in0, -2.0, 3.0)",
    "softplus(in0, 2.0, 30.0)", "split(in4, [2, 2], 1)", "sigmoid(t28)",
    "mul(t27, t29)") {
  th_value *x = in[0], *y = in[1], *m = in[2];
  (void)th_where(t, m, x, y), (void)th_to(t, x, TH_F16);
  (void)th_clamp(t, x, NULL, th_number(t, 2));
  (void)th_clamp(t, x, th_number(t, 1), NULL);
  (void)th_lerp(t, x, y, th_number(t, 0.5));
  (void)th_addcmul(t, x, y, x, 2), (void)th_addcdiv(t, x, y, x, 2);
  (void)th_masked_fill(t, x, m, th_number(t, 3));
  (void)th_relu(t, x), (void)th_relu6(t, x), (void)th_silu(t, x);
  (void)th_mish(t, x), (void)th_selu(t, x), (void)th_hardsigmoid(t, x);
  (void)th_hardswish(t, x), (void)th_logsigmoid(t, x);
  (void)th_softsign(t, x), (void)th_tanhshrink(t, x);
  (void)th_gelu(t, x, "tanh"), (void)th_elu(t, x, 0.5);
  (void)th_celu(t, x, 0.5), (void)th_leaky_relu(t, x, 0.5);
  (void)th_hardtanh(t, x, -2, 3), (void)th_softplus(t, x, 2, 30);
  (void)th_glu(t, in[4], 1);
  return th_tracer_status(t);
}

OPS(shape, "reshape(in0, [3, -1])", "reshape(in4, [2, 256])",
    "permute(in0, [1, 0])", "permute(in4, [0, 2, 1, 3])",
    "expand(in5, [4, -1])", "unsqueeze(in0, 1)", "unsqueeze(in0, 0)",
    "squeeze(t6, [0])", "slice(in0, 1, 1, step=2)", "slice(in0, 1, 1, 3)",
    "select(in0, 1, 2)", "diagonal(in4, 1, 2, 3)", "unfold(in4, 3, 4, 2)",
    "detach(in0)", "clone(in0)", "split(in0, [1, 2], 1)",
    "split(in4, [2, 2], 1)", "unbind(in0)", "cat([in0, in1], 1)",
    "stack([in0, in1], 1)", "flip(in0, [1])", "roll(in0, [2], [1])",
    "repeat(in0, [2, 1])", "repeat_interleave(in0, 2, 1)",
    "pad(in0, [1, 2, 3, 4], 0.5)", "tril(in0, 1)", "triu(in0, -1)") {
  th_value *x = in[0], *pieces[4], *list[2] = {in[0], in[1]};
  const int64_t sizes[] = {1, 2}, pads[] = {1, 2, 3, 4};
  (void)th_reshape(t, x, TH_DIMS(3, -1)), (void)th_flatten(t, in[4], 1, -1);
  (void)th_permute(t, x, TH_DIMS(1, 0)), (void)th_transpose(t, in[4], 1, 2);
  (void)th_expand(t, in[5], TH_DIMS(4, -1));
  (void)th_unsqueeze(t, x, 1);
  (void)th_squeeze(t, th_unsqueeze(t, x, 0), TH_DIMS(0));
  (void)th_slice(t, x, 1, 1, INT64_MAX, 2);
  (void)th_narrow(t, x, 1, th_integer(t, 1), th_integer(t, 2));
  (void)th_select(t, x, 1, 2), (void)th_diagonal(t, in[4], 1, 2, 3);
  (void)th_unfold(t, in[4], 3, 4, 2), (void)th_detach(t, x);
  (void)th_clone(t, x), (void)th_split(t, x, sizes, 2, 1, pieces);
  (void)th_chunk(t, in[4], 2, 1, pieces), (void)th_unbind(t, x, 0, pieces, 2);
  (void)th_cat(t, list, 2, 1), (void)th_stack(t, list, 2, 1);
  (void)th_flip(t, x, TH_DIMS(1)), (void)th_roll(t, x, TH_DIMS(2), TH_DIMS(1));
  (void)th_repeat(t, x, TH_DIMS(2, 1)), (void)th_repeat_interleave(t, x, 2, 1);
  (void)th_pad(t, x, pads, 4, 0.5), (void)th_tril(t, x, 1);
  (void)th_triu(t, x, -1);
  return th_tracer_status(t);
}

OPS(creation, "full([2, 3], 1.5, f32)", "full([2], 0, i64)",
    "full([3], 1, f16)", "full([2, 3], 2.0, f32)", "full([2, 3], 0, f32)",
    "full([2, 3], 1, f32)", "eye(2, 3, f32)", "arange(0, 5, 1, i64)",
    "arange(1, 9, 2, f32)") {
  (void)th_full(t, TH_DIMS(2, 3), th_number(t, 1.5), TH_F32);
  (void)th_zeros(t, TH_DIMS(2), TH_I64), (void)th_ones(t, TH_DIMS(3), TH_F16);
  (void)th_full_like(t, in[0], th_number(t, 2)), (void)th_zeros_like(t, in[0]);
  (void)th_ones_like(t, in[0]), (void)th_eye(t, 2, 3, TH_F32);
  (void)th_arange(t, NULL, th_integer(t, 5), NULL, TH_I64);
  (void)th_arange(t, th_integer(t, 1), th_integer(t, 9), th_integer(t, 2),
                  TH_F32);
  return th_tracer_status(t);
}

OPS(reductions, "sum(in0)", "mean(in0, [1], True)", "prod(in0, [0])",
    "amax(in0, [1], True)", "amin(in0, [0, 1])", "any(in2, [1], True)",
    "all(in2, [0])", "var(in0, [1], keepdim=True)", "std(in0, [0], 0)",
    "logsumexp(in0, [1], True)", "mul(in0, in0)", "sum(t10, [1], True)",
    "sqrt(t11)", "argmax(in0, 1, True)", "argmin(in0, 0)",
    "max_dim(in0, 1, True)", "min_dim(in0, 0)", "cumsum(in0, 1)",
    "cumprod(in0, 0)", "sort(in0, 1, True)", "topk(in0, 2, 1, False)") {
  th_value *x = in[0], *indices = NULL;
  (void)th_sum(t, x, TH_NO_DIMS, false), (void)th_mean(t, x, TH_DIMS(1), true);
  (void)th_prod(t, x, TH_DIMS(0), false), (void)th_amax(t, x, TH_DIMS(1), true);
  (void)th_amin(t, x, TH_DIMS(0, 1), false);
  (void)th_any(t, in[2], TH_DIMS(1), true),
      (void)th_all(t, in[2], TH_DIMS(0), false);
  (void)th_var(t, x, TH_DIMS(1), 1, true),
      (void)th_std(t, x, TH_DIMS(0), 0, false);
  (void)th_logsumexp(t, x, TH_DIMS(1), true),
      (void)th_norm(t, x, TH_DIMS(1), true);
  (void)th_argmax(t, x, 1, true), (void)th_argmin(t, x, 0, false);
  (void)th_max_dim(t, x, 1, true, &indices),
      (void)th_min_dim(t, x, 0, false, NULL);
  (void)th_cumsum(t, x, 1), (void)th_cumprod(t, x, 0);
  (void)th_sort(t, x, 1, true, &indices),
      (void)th_topk(t, x, 2, 1, false, NULL);
  return th_tracer_status(t);
}

OPS(norms, "softmax(in0, 1)", "log_softmax(in0, -1)",
    "layer_norm(in0, [3], in5, eps=0.5)", "rms_norm(in0, [3], in5, 0.5)",
    "group_norm(in4, 2, eps=0.5)",
    "batch_norm(in0, in5, None, in5, in5, False, 0.1, 0.5)",
    "batch_norm(in0, None, in5, in5, in5, True, 0.25, 0.5)") {
  th_value *x = in[0], *w = in[5], *mean = NULL, *var = NULL;
  (void)th_softmax(t, x, 1), (void)th_log_softmax(t, x, -1);
  (void)th_layer_norm(t, x, 1, w, NULL, 0.5),
      (void)th_rms_norm(t, x, 1, w, 0.5);
  (void)th_group_norm(t, in[4], 2, NULL, NULL, 0.5);
  (void)th_batch_norm(t, x, w, NULL, w, w, 0.5);
  (void)th_batch_norm_train(t, x, NULL, w, w, w, 0.25, 0.5, &mean, &var);
  return th_tracer_status(t);
}

OPS(products, "permute(in1, [1, 0])", "permute(in7, [0, 2, 1])",
    "matmul(in0, t0)", "matmul(in7, t1)", "unsqueeze(in5, -1)", "mul(t4, in5)",
    "linear(in0, in1)", "full([2, 2], 1, f32)", "addmm(t7, in0, t0, 0.5, 2)",
    "matmul(in7, t1)", "baddbmm(t9, in7, t1, 0.5, 2)", "slice(in4, 2, 0, 3)",
    "convolution(in4, t11, None, [2, 2], [1, 2], [1, 1], False, [0, 0], 1)",
    "permute(in4, [1, 0, 2, 3])",
    "convolution(in4, t13, None, [2, 2], [1, 1], [1, 1], True, [0, 0], 1)",
    "scaled_dot_product_attention(in4, in4, in4, is_causal=True)",
    "scaled_dot_product_attention(in4, in4, in4, scale=0.5, enable_gqa=True)",
    "max_pool(in4, [2, 2], [2, 2], [1, 1], [1, 1])",
    "avg_pool(in4, [2, 4], [1, 1], [0, 0])", "adaptive_avg_pool(in4, [2, 4])",
    "upsample_nearest(in4, [16, 24])") {
  th_value *x = in[0], *y = th_permute(t, in[1], TH_DIMS(1, 0)), *b = in[7];
  th_value *bt = th_transpose(t, b, 1, 2), *w = in[4];
  (void)th_matmul(t, x, y), (void)th_bmm(t, b, bt),
      (void)th_outer(t, in[5], in[5]);
  (void)th_linear(t, x, in[1], NULL);
  (void)th_addmm(t, th_ones(t, TH_DIMS(2, 2), TH_F32), x, y, 0.5, 2);
  (void)th_baddbmm(t, th_bmm(t, b, bt), b, bt, 0.5, 2);
  (void)th_conv(t, w, th_slice(t, w, 2, 0, 3, 1), NULL, TH_DIMS(2),
                TH_DIMS(1, 2), TH_DIMS(1), 1);
  (void)th_conv_transpose(t, w, th_transpose(t, w, 0, 1), NULL, TH_DIMS(2),
                          TH_DIMS(1), TH_DIMS(0), TH_DIMS(1), 1);
  (void)th_attention(t, w, w, w, NULL, true, 0, false);
  (void)th_attention(t, w, w, w, NULL, false, 0.5, true);
  (void)th_max_pool(t, w, TH_DIMS(2), TH_NO_DIMS, TH_DIMS(1));
  (void)th_avg_pool(t, w, TH_DIMS(2, 4), TH_DIMS(1), TH_DIMS(0));
  (void)th_adaptive_avg_pool(t, w, TH_DIMS(2, 4));
  (void)th_upsample_nearest(t, w, TH_DIMS(16, 24));
  return th_tracer_status(t);
}

OPS(gathers, "embedding(in0, in3)", "gather(in0, 1, in6)",
    "index_select(in0, 1, in3)", "index(in0, [None, in3])", "one_hot(in3, 5)",
    "scatter(in0, 1, in6, in1)", "scatter_add(in0, 1, in6, in1)",
    "full([2, 2], 1.0, f32)", "index_put(in0, [None, in3], t7, True)",
    "index_copy(in0, 0, in3, in1)", "index_add(in0, 0, in3, in1)",
    "slice_scatter(in0, in1, 1, 0)", "select_scatter(in0, in5, 0, 1)",
    "nonzero(in0)", "sum(in0)", "item(t14)", "sub(in0, in1)", "mul(t16, t16)",
    "mean(t17)", "log_softmax(in0, 1)", "unsqueeze(in3, 1)",
    "gather(t19, 1, t20)", "mean(t21)", "neg(t22)") {
  th_value *x = in[0], *i = in[3], *j = in[6], *y = in[1],
           *some[2] = {NULL, in[3]};
  (void)th_embedding(t, x, i), (void)th_gather(t, x, 1, j);
  (void)th_index_select(t, x, 1, i), (void)th_index(t, x, some, 2);
  (void)th_one_hot(t, i, 5), (void)th_scatter(t, x, 1, j, y);
  (void)th_scatter_add(t, x, 1, j, y);
  (void)th_index_put(t, x, some, 2,
                     th_full(t, TH_DIMS(2, 2), th_number(t, 1), TH_F32), true);
  (void)th_index_copy(t, x, 0, i, y), (void)th_index_add(t, x, 0, i, y);
  (void)th_slice_scatter(t, x, y, 1, 0, INT64_MAX, 1);
  (void)th_select_scatter(t, x, in[5], 0, 1);
  (void)th_nonzero(t, x), (void)th_item(t, th_sum(t, x, TH_NO_DIMS, false));
  (void)th_mse_loss(t, x, y), (void)th_cross_entropy(t, x, i);
  return th_tracer_status(t);
}

// The operations, as users of torch.nn.functional know them.
//
// Meanings, defaults and promotion are PyTorch's.  An operand of an elementwise
// operation is a tensor or a number (trace.h); numbers alone give a number.
// `dim` and dims may be negative.  What may be left out is NULL.  Each is a
// macro that records its line, over a function with `_at` behind its name.
#ifndef THUNDER_OPS_H
#define THUNDER_OPS_H

#include "thunder/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- elementwise, one operand

TH_API th_value *th_abs_at(TH_PLACE, th_value *x);
#define th_abs(t, x) th_abs_at(TH_HERE(t), x)
TH_API th_value *th_neg_at(TH_PLACE, th_value *x);
#define th_neg(t, x) th_neg_at(TH_HERE(t), x)
TH_API th_value *th_sign_at(TH_PLACE, th_value *x);
#define th_sign(t, x) th_sign_at(TH_HERE(t), x)
TH_API th_value *th_floor_at(TH_PLACE, th_value *x);
#define th_floor(t, x) th_floor_at(TH_HERE(t), x)
TH_API th_value *th_ceil_at(TH_PLACE, th_value *x);
#define th_ceil(t, x) th_ceil_at(TH_HERE(t), x)
TH_API th_value *th_trunc_at(TH_PLACE, th_value *x);
#define th_trunc(t, x) th_trunc_at(TH_HERE(t), x)
TH_API th_value *th_round_at(TH_PLACE, th_value *x);
#define th_round(t, x) th_round_at(TH_HERE(t), x)
TH_API th_value *th_bitwise_not_at(TH_PLACE, th_value *x);
#define th_bitwise_not(t, x) th_bitwise_not_at(TH_HERE(t), x)
TH_API th_value *th_exp_at(TH_PLACE, th_value *x);
#define th_exp(t, x) th_exp_at(TH_HERE(t), x)
TH_API th_value *th_exp2_at(TH_PLACE, th_value *x);
#define th_exp2(t, x) th_exp2_at(TH_HERE(t), x)
TH_API th_value *th_expm1_at(TH_PLACE, th_value *x);
#define th_expm1(t, x) th_expm1_at(TH_HERE(t), x)
TH_API th_value *th_log_at(TH_PLACE, th_value *x);
#define th_log(t, x) th_log_at(TH_HERE(t), x)
TH_API th_value *th_log2_at(TH_PLACE, th_value *x);
#define th_log2(t, x) th_log2_at(TH_HERE(t), x)
TH_API th_value *th_log10_at(TH_PLACE, th_value *x);
#define th_log10(t, x) th_log10_at(TH_HERE(t), x)
TH_API th_value *th_log1p_at(TH_PLACE, th_value *x);
#define th_log1p(t, x) th_log1p_at(TH_HERE(t), x)
TH_API th_value *th_sqrt_at(TH_PLACE, th_value *x);
#define th_sqrt(t, x) th_sqrt_at(TH_HERE(t), x)
TH_API th_value *th_rsqrt_at(TH_PLACE, th_value *x);
#define th_rsqrt(t, x) th_rsqrt_at(TH_HERE(t), x)
TH_API th_value *th_reciprocal_at(TH_PLACE, th_value *x);
#define th_reciprocal(t, x) th_reciprocal_at(TH_HERE(t), x)
TH_API th_value *th_square_at(TH_PLACE, th_value *x);
#define th_square(t, x) th_square_at(TH_HERE(t), x)
TH_API th_value *th_sin_at(TH_PLACE, th_value *x);
#define th_sin(t, x) th_sin_at(TH_HERE(t), x)
TH_API th_value *th_cos_at(TH_PLACE, th_value *x);
#define th_cos(t, x) th_cos_at(TH_HERE(t), x)
TH_API th_value *th_tan_at(TH_PLACE, th_value *x);
#define th_tan(t, x) th_tan_at(TH_HERE(t), x)
TH_API th_value *th_asin_at(TH_PLACE, th_value *x);
#define th_asin(t, x) th_asin_at(TH_HERE(t), x)
TH_API th_value *th_acos_at(TH_PLACE, th_value *x);
#define th_acos(t, x) th_acos_at(TH_HERE(t), x)
TH_API th_value *th_atan_at(TH_PLACE, th_value *x);
#define th_atan(t, x) th_atan_at(TH_HERE(t), x)
TH_API th_value *th_sinh_at(TH_PLACE, th_value *x);
#define th_sinh(t, x) th_sinh_at(TH_HERE(t), x)
TH_API th_value *th_cosh_at(TH_PLACE, th_value *x);
#define th_cosh(t, x) th_cosh_at(TH_HERE(t), x)
TH_API th_value *th_tanh_at(TH_PLACE, th_value *x);
#define th_tanh(t, x) th_tanh_at(TH_HERE(t), x)
TH_API th_value *th_asinh_at(TH_PLACE, th_value *x);
#define th_asinh(t, x) th_asinh_at(TH_HERE(t), x)
TH_API th_value *th_acosh_at(TH_PLACE, th_value *x);
#define th_acosh(t, x) th_acosh_at(TH_HERE(t), x)
TH_API th_value *th_atanh_at(TH_PLACE, th_value *x);
#define th_atanh(t, x) th_atanh_at(TH_HERE(t), x)
TH_API th_value *th_erf_at(TH_PLACE, th_value *x);
#define th_erf(t, x) th_erf_at(TH_HERE(t), x)
TH_API th_value *th_erfc_at(TH_PLACE, th_value *x);
#define th_erfc(t, x) th_erfc_at(TH_HERE(t), x)
TH_API th_value *th_sigmoid_at(TH_PLACE, th_value *x);
#define th_sigmoid(t, x) th_sigmoid_at(TH_HERE(t), x)
// Booleans.
TH_API th_value *th_isnan_at(TH_PLACE, th_value *x);
#define th_isnan(t, x) th_isnan_at(TH_HERE(t), x)
TH_API th_value *th_isinf_at(TH_PLACE, th_value *x);
#define th_isinf(t, x) th_isinf_at(TH_HERE(t), x)
TH_API th_value *th_isfinite_at(TH_PLACE, th_value *x);
#define th_isfinite(t, x) th_isfinite_at(TH_HERE(t), x)
TH_API th_value *th_logical_not_at(TH_PLACE, th_value *x);
#define th_logical_not(t, x) th_logical_not_at(TH_HERE(t), x)

// ---- elementwise, two operands

TH_API th_value *th_add_at(TH_PLACE, th_value *x, th_value *y);
#define th_add(t, x, y) th_add_at(TH_HERE(t), x, y)
TH_API th_value *th_sub_at(TH_PLACE, th_value *x, th_value *y);
#define th_sub(t, x, y) th_sub_at(TH_HERE(t), x, y)
TH_API th_value *th_mul_at(TH_PLACE, th_value *x, th_value *y);
#define th_mul(t, x, y) th_mul_at(TH_HERE(t), x, y)
TH_API th_value *th_div_at(TH_PLACE, th_value *x, th_value *y);
#define th_div(t, x, y) th_div_at(TH_HERE(t), x, y)
TH_API th_value *th_floor_divide_at(TH_PLACE, th_value *x, th_value *y);
#define th_floor_divide(t, x, y) th_floor_divide_at(TH_HERE(t), x, y)
TH_API th_value *th_trunc_divide_at(TH_PLACE, th_value *x, th_value *y);
#define th_trunc_divide(t, x, y) th_trunc_divide_at(TH_HERE(t), x, y)
TH_API th_value *th_remainder_at(TH_PLACE, th_value *x, th_value *y);
#define th_remainder(t, x, y) th_remainder_at(TH_HERE(t), x, y)
TH_API th_value *th_fmod_at(TH_PLACE, th_value *x, th_value *y);
#define th_fmod(t, x, y) th_fmod_at(TH_HERE(t), x, y)
TH_API th_value *th_pow_at(TH_PLACE, th_value *x, th_value *y);
#define th_pow(t, x, y) th_pow_at(TH_HERE(t), x, y)
TH_API th_value *th_atan2_at(TH_PLACE, th_value *x, th_value *y);
#define th_atan2(t, x, y) th_atan2_at(TH_HERE(t), x, y)
TH_API th_value *th_hypot_at(TH_PLACE, th_value *x, th_value *y);
#define th_hypot(t, x, y) th_hypot_at(TH_HERE(t), x, y)
TH_API th_value *th_copysign_at(TH_PLACE, th_value *x, th_value *y);
#define th_copysign(t, x, y) th_copysign_at(TH_HERE(t), x, y)
TH_API th_value *th_maximum_at(TH_PLACE, th_value *x, th_value *y);
#define th_maximum(t, x, y) th_maximum_at(TH_HERE(t), x, y)
TH_API th_value *th_minimum_at(TH_PLACE, th_value *x, th_value *y);
#define th_minimum(t, x, y) th_minimum_at(TH_HERE(t), x, y)
TH_API th_value *th_fmax_at(TH_PLACE, th_value *x, th_value *y);
#define th_fmax(t, x, y) th_fmax_at(TH_HERE(t), x, y)
TH_API th_value *th_fmin_at(TH_PLACE, th_value *x, th_value *y);
#define th_fmin(t, x, y) th_fmin_at(TH_HERE(t), x, y)
TH_API th_value *th_bitwise_and_at(TH_PLACE, th_value *x, th_value *y);
#define th_bitwise_and(t, x, y) th_bitwise_and_at(TH_HERE(t), x, y)
TH_API th_value *th_bitwise_or_at(TH_PLACE, th_value *x, th_value *y);
#define th_bitwise_or(t, x, y) th_bitwise_or_at(TH_HERE(t), x, y)
TH_API th_value *th_bitwise_xor_at(TH_PLACE, th_value *x, th_value *y);
#define th_bitwise_xor(t, x, y) th_bitwise_xor_at(TH_HERE(t), x, y)
TH_API th_value *th_shift_left_at(TH_PLACE, th_value *x, th_value *y);
#define th_shift_left(t, x, y) th_shift_left_at(TH_HERE(t), x, y)
TH_API th_value *th_shift_right_at(TH_PLACE, th_value *x, th_value *y);
#define th_shift_right(t, x, y) th_shift_right_at(TH_HERE(t), x, y)
// Booleans.
TH_API th_value *th_eq_at(TH_PLACE, th_value *x, th_value *y);
#define th_eq(t, x, y) th_eq_at(TH_HERE(t), x, y)
TH_API th_value *th_ne_at(TH_PLACE, th_value *x, th_value *y);
#define th_ne(t, x, y) th_ne_at(TH_HERE(t), x, y)
TH_API th_value *th_lt_at(TH_PLACE, th_value *x, th_value *y);
#define th_lt(t, x, y) th_lt_at(TH_HERE(t), x, y)
TH_API th_value *th_le_at(TH_PLACE, th_value *x, th_value *y);
#define th_le(t, x, y) th_le_at(TH_HERE(t), x, y)
TH_API th_value *th_gt_at(TH_PLACE, th_value *x, th_value *y);
#define th_gt(t, x, y) th_gt_at(TH_HERE(t), x, y)
TH_API th_value *th_ge_at(TH_PLACE, th_value *x, th_value *y);
#define th_ge(t, x, y) th_ge_at(TH_HERE(t), x, y)
TH_API th_value *th_logical_and_at(TH_PLACE, th_value *x, th_value *y);
#define th_logical_and(t, x, y) th_logical_and_at(TH_HERE(t), x, y)
TH_API th_value *th_logical_or_at(TH_PLACE, th_value *x, th_value *y);
#define th_logical_or(t, x, y) th_logical_or_at(TH_HERE(t), x, y)
TH_API th_value *th_logical_xor_at(TH_PLACE, th_value *x, th_value *y);
#define th_logical_xor(t, x, y) th_logical_xor_at(TH_HERE(t), x, y)
// With a floating-point number; for an integer there is th_integer.
TH_API th_value *th_add_scalar_at(TH_PLACE, th_value *x, double y);
#define th_add_scalar(t, x, y) th_add_scalar_at(TH_HERE(t), x, y)
TH_API th_value *th_sub_scalar_at(TH_PLACE, th_value *x, double y);
#define th_sub_scalar(t, x, y) th_sub_scalar_at(TH_HERE(t), x, y)
TH_API th_value *th_mul_scalar_at(TH_PLACE, th_value *x, double y);
#define th_mul_scalar(t, x, y) th_mul_scalar_at(TH_HERE(t), x, y)
TH_API th_value *th_div_scalar_at(TH_PLACE, th_value *x, double y);
#define th_div_scalar(t, x, y) th_div_scalar_at(TH_HERE(t), x, y)
TH_API th_value *th_pow_scalar_at(TH_PLACE, th_value *x, double y);
#define th_pow_scalar(t, x, y) th_pow_scalar_at(TH_HERE(t), x, y)
TH_API th_value *th_rsub_scalar_at(TH_PLACE, th_value *x, double y);
#define th_rsub_scalar(t, x, y) th_rsub_scalar_at(TH_HERE(t), x, y)

// ---- elementwise, more

TH_API th_value *th_where_at(TH_PLACE, th_value *condition, th_value *x,
                             th_value *y);
#define th_where(t, condition, x, y) th_where_at(TH_HERE(t), condition, x, y)
TH_API th_value *th_to_at(TH_PLACE, th_value *x, th_dtype dtype);
#define th_to(t, x, dtype) th_to_at(TH_HERE(t), x, dtype)
// Either bound may be NULL.
TH_API th_value *th_clamp_at(TH_PLACE, th_value *x, th_value *min,
                             th_value *max);
#define th_clamp(t, x, min, max) th_clamp_at(TH_HERE(t), x, min, max)
TH_API th_value *th_lerp_at(TH_PLACE, th_value *x, th_value *y,
                            th_value *weight);
#define th_lerp(t, x, y, weight) th_lerp_at(TH_HERE(t), x, y, weight)
// x + value * y * z and x + value * y / z.
TH_API th_value *th_addcmul_at(TH_PLACE, th_value *x, th_value *y, th_value *z,
                               double value);
#define th_addcmul(t, x, y, z, value) th_addcmul_at(TH_HERE(t), x, y, z, value)
TH_API th_value *th_addcdiv_at(TH_PLACE, th_value *x, th_value *y, th_value *z,
                               double value);
#define th_addcdiv(t, x, y, z, value) th_addcdiv_at(TH_HERE(t), x, y, z, value)
TH_API th_value *th_masked_fill_at(TH_PLACE, th_value *x, th_value *mask,
                                   th_value *value);
#define th_masked_fill(t, x, mask, value)                                      \
  th_masked_fill_at(TH_HERE(t), x, mask, value)

// ---- activations

TH_API th_value *th_relu_at(TH_PLACE, th_value *x);
#define th_relu(t, x) th_relu_at(TH_HERE(t), x)
TH_API th_value *th_relu6_at(TH_PLACE, th_value *x);
#define th_relu6(t, x) th_relu6_at(TH_HERE(t), x)
TH_API th_value *th_silu_at(TH_PLACE, th_value *x);
#define th_silu(t, x) th_silu_at(TH_HERE(t), x)
TH_API th_value *th_mish_at(TH_PLACE, th_value *x);
#define th_mish(t, x) th_mish_at(TH_HERE(t), x)
TH_API th_value *th_selu_at(TH_PLACE, th_value *x);
#define th_selu(t, x) th_selu_at(TH_HERE(t), x)
TH_API th_value *th_hardsigmoid_at(TH_PLACE, th_value *x);
#define th_hardsigmoid(t, x) th_hardsigmoid_at(TH_HERE(t), x)
TH_API th_value *th_hardswish_at(TH_PLACE, th_value *x);
#define th_hardswish(t, x) th_hardswish_at(TH_HERE(t), x)
TH_API th_value *th_logsigmoid_at(TH_PLACE, th_value *x);
#define th_logsigmoid(t, x) th_logsigmoid_at(TH_HERE(t), x)
TH_API th_value *th_softsign_at(TH_PLACE, th_value *x);
#define th_softsign(t, x) th_softsign_at(TH_HERE(t), x)
TH_API th_value *th_tanhshrink_at(TH_PLACE, th_value *x);
#define th_tanhshrink(t, x) th_tanhshrink_at(TH_HERE(t), x)
// `approximate` is "none" or "tanh".
TH_API th_value *th_gelu_at(TH_PLACE, th_value *x, const char *approximate);
#define th_gelu(t, x, approximate) th_gelu_at(TH_HERE(t), x, approximate)
TH_API th_value *th_elu_at(TH_PLACE, th_value *x, double alpha);
#define th_elu(t, x, alpha) th_elu_at(TH_HERE(t), x, alpha)
TH_API th_value *th_celu_at(TH_PLACE, th_value *x, double alpha);
#define th_celu(t, x, alpha) th_celu_at(TH_HERE(t), x, alpha)
TH_API th_value *th_leaky_relu_at(TH_PLACE, th_value *x, double negative_slope);
#define th_leaky_relu(t, x, negative_slope)                                    \
  th_leaky_relu_at(TH_HERE(t), x, negative_slope)
TH_API th_value *th_hardtanh_at(TH_PLACE, th_value *x, double min, double max);
#define th_hardtanh(t, x, min, max) th_hardtanh_at(TH_HERE(t), x, min, max)
TH_API th_value *th_softplus_at(TH_PLACE, th_value *x, double beta,
                                double threshold);
#define th_softplus(t, x, beta, threshold)                                     \
  th_softplus_at(TH_HERE(t), x, beta, threshold)
// One half times the sigmoid of the other.
TH_API th_value *th_glu_at(TH_PLACE, th_value *x, int dim);
#define th_glu(t, x, dim) th_glu_at(TH_HERE(t), x, dim)

// ---- shape

// -1: what is left.
TH_API th_value *th_reshape_at(TH_PLACE, th_value *x, th_dims shape);
#define th_reshape(t, x, shape) th_reshape_at(TH_HERE(t), x, shape)
TH_API th_value *th_flatten_at(TH_PLACE, th_value *x, int first, int last);
#define th_flatten(t, x, first, last) th_flatten_at(TH_HERE(t), x, first, last)
TH_API th_value *th_permute_at(TH_PLACE, th_value *x, th_dims dims);
#define th_permute(t, x, dims) th_permute_at(TH_HERE(t), x, dims)
TH_API th_value *th_transpose_at(TH_PLACE, th_value *x, int dim0, int dim1);
#define th_transpose(t, x, dim0, dim1)                                         \
  th_transpose_at(TH_HERE(t), x, dim0, dim1)
// -1: as it is.
TH_API th_value *th_expand_at(TH_PLACE, th_value *x, th_dims shape);
#define th_expand(t, x, shape) th_expand_at(TH_HERE(t), x, shape)
TH_API th_value *th_squeeze_at(TH_PLACE, th_value *x, th_dims dims);
#define th_squeeze(t, x, dims) th_squeeze_at(TH_HERE(t), x, dims)
TH_API th_value *th_unsqueeze_at(TH_PLACE, th_value *x, int dim);
#define th_unsqueeze(t, x, dim) th_unsqueeze_at(TH_HERE(t), x, dim)
// Elements [start, end) of a dimension, every `step`th; INT64_MAX: to the end.
TH_API th_value *th_slice_at(TH_PLACE, th_value *x, int dim, int64_t start,
                             int64_t end, int64_t step);
#define th_slice(t, x, dim, start, end, step)                                  \
  th_slice_at(TH_HERE(t), x, dim, start, end, step)
// `length` elements from `start`; numbers.
TH_API th_value *th_narrow_at(TH_PLACE, th_value *x, int dim, th_value *start,
                              th_value *length);
#define th_narrow(t, x, dim, start, length)                                    \
  th_narrow_at(TH_HERE(t), x, dim, start, length)
TH_API th_value *th_select_at(TH_PLACE, th_value *x, int dim, int64_t index);
#define th_select(t, x, dim, index) th_select_at(TH_HERE(t), x, dim, index)
TH_API th_value *th_diagonal_at(TH_PLACE, th_value *x, int64_t offset, int dim1,
                                int dim2);
#define th_diagonal(t, x, offset, dim1, dim2)                                  \
  th_diagonal_at(TH_HERE(t), x, offset, dim1, dim2)
TH_API th_value *th_unfold_at(TH_PLACE, th_value *x, int dim, int64_t size,
                              int64_t step);
#define th_unfold(t, x, dim, size, step)                                       \
  th_unfold_at(TH_HERE(t), x, dim, size, step)
TH_API th_value *th_detach_at(TH_PLACE, th_value *x);
#define th_detach(t, x) th_detach_at(TH_HERE(t), x)
TH_API th_value *th_clone_at(TH_PLACE, th_value *x);
#define th_clone(t, x) th_clone_at(TH_HERE(t), x)
// out[0 .. count): pieces of these sizes; `count` pieces as equal as can be;
// one for each index.
TH_API th_status th_split_at(TH_PLACE, th_value *x, const int64_t *sizes,
                             size_t count, int dim, th_value **out);
#define th_split(t, x, sizes, count, dim, out)                                 \
  th_split_at(TH_HERE(t), x, sizes, count, dim, out)
TH_API th_status th_chunk_at(TH_PLACE, th_value *x, size_t count, int dim,
                             th_value **out);
#define th_chunk(t, x, count, dim, out)                                        \
  th_chunk_at(TH_HERE(t), x, count, dim, out)
TH_API th_status th_unbind_at(TH_PLACE, th_value *x, int dim, th_value **out,
                              size_t count);
#define th_unbind(t, x, dim, out, count)                                       \
  th_unbind_at(TH_HERE(t), x, dim, out, count)
TH_API th_value *th_cat_at(TH_PLACE, th_value *const *tensors, size_t count,
                           int dim);
#define th_cat(t, tensors, count, dim)                                         \
  th_cat_at(TH_HERE(t), tensors, count, dim)
TH_API th_value *th_stack_at(TH_PLACE, th_value *const *tensors, size_t count,
                             int dim);
#define th_stack(t, tensors, count, dim)                                       \
  th_stack_at(TH_HERE(t), tensors, count, dim)
TH_API th_value *th_flip_at(TH_PLACE, th_value *x, th_dims dims);
#define th_flip(t, x, dims) th_flip_at(TH_HERE(t), x, dims)
TH_API th_value *th_roll_at(TH_PLACE, th_value *x, th_dims shifts,
                            th_dims dims);
#define th_roll(t, x, shifts, dims) th_roll_at(TH_HERE(t), x, shifts, dims)
TH_API th_value *th_repeat_at(TH_PLACE, th_value *x, th_dims repeats);
#define th_repeat(t, x, repeats) th_repeat_at(TH_HERE(t), x, repeats)
TH_API th_value *th_repeat_interleave_at(TH_PLACE, th_value *x, int64_t repeats,
                                         int dim);
#define th_repeat_interleave(t, x, repeats, dim)                               \
  th_repeat_interleave_at(TH_HERE(t), x, repeats, dim)
// Before and after, the last dimension first: {left, right, top, bottom}.
TH_API th_value *th_pad_at(TH_PLACE, th_value *x, const int64_t *pads,
                           size_t count, double value);
#define th_pad(t, x, pads, count, value)                                       \
  th_pad_at(TH_HERE(t), x, pads, count, value)
TH_API th_value *th_tril_at(TH_PLACE, th_value *x, int64_t diagonal);
#define th_tril(t, x, diagonal) th_tril_at(TH_HERE(t), x, diagonal)
TH_API th_value *th_triu_at(TH_PLACE, th_value *x, int64_t diagonal);
#define th_triu(t, x, diagonal) th_triu_at(TH_HERE(t), x, diagonal)

// ---- creation, on the CPU

TH_API th_value *th_full_at(TH_PLACE, th_dims shape, th_value *value,
                            th_dtype dtype);
#define th_full(t, shape, value, dtype)                                        \
  th_full_at(TH_HERE(t), shape, value, dtype)
TH_API th_value *th_zeros_at(TH_PLACE, th_dims shape, th_dtype dtype);
#define th_zeros(t, shape, dtype) th_zeros_at(TH_HERE(t), shape, dtype)
TH_API th_value *th_ones_at(TH_PLACE, th_dims shape, th_dtype dtype);
#define th_ones(t, shape, dtype) th_ones_at(TH_HERE(t), shape, dtype)
TH_API th_value *th_full_like_at(TH_PLACE, th_value *x, th_value *value);
#define th_full_like(t, x, value) th_full_like_at(TH_HERE(t), x, value)
TH_API th_value *th_zeros_like_at(TH_PLACE, th_value *x);
#define th_zeros_like(t, x) th_zeros_like_at(TH_HERE(t), x)
TH_API th_value *th_ones_like_at(TH_PLACE, th_value *x);
#define th_ones_like(t, x) th_ones_like_at(TH_HERE(t), x)
// Numbers; NULL start: 0, NULL step: 1.
TH_API th_value *th_arange_at(TH_PLACE, th_value *start, th_value *end,
                              th_value *step, th_dtype dtype);
#define th_arange(t, start, end, step, dtype)                                  \
  th_arange_at(TH_HERE(t), start, end, step, dtype)
TH_API th_value *th_eye_at(TH_PLACE, int64_t rows, int64_t columns,
                           th_dtype dtype);
#define th_eye(t, rows, columns, dtype)                                        \
  th_eye_at(TH_HERE(t), rows, columns, dtype)

// ---- reductions; TH_NO_DIMS: over everything

TH_API th_value *th_sum_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim);
#define th_sum(t, x, dims, keepdim) th_sum_at(TH_HERE(t), x, dims, keepdim)
TH_API th_value *th_mean_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim);
#define th_mean(t, x, dims, keepdim) th_mean_at(TH_HERE(t), x, dims, keepdim)
TH_API th_value *th_prod_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim);
#define th_prod(t, x, dims, keepdim) th_prod_at(TH_HERE(t), x, dims, keepdim)
TH_API th_value *th_amax_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim);
#define th_amax(t, x, dims, keepdim) th_amax_at(TH_HERE(t), x, dims, keepdim)
TH_API th_value *th_amin_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim);
#define th_amin(t, x, dims, keepdim) th_amin_at(TH_HERE(t), x, dims, keepdim)
TH_API th_value *th_any_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim);
#define th_any(t, x, dims, keepdim) th_any_at(TH_HERE(t), x, dims, keepdim)
TH_API th_value *th_all_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim);
#define th_all(t, x, dims, keepdim) th_all_at(TH_HERE(t), x, dims, keepdim)
TH_API th_value *th_var_at(TH_PLACE, th_value *x, th_dims dims,
                           double correction, bool keepdim);
#define th_var(t, x, dims, correction, keepdim)                                \
  th_var_at(TH_HERE(t), x, dims, correction, keepdim)
TH_API th_value *th_std_at(TH_PLACE, th_value *x, th_dims dims,
                           double correction, bool keepdim);
#define th_std(t, x, dims, correction, keepdim)                                \
  th_std_at(TH_HERE(t), x, dims, correction, keepdim)
TH_API th_value *th_logsumexp_at(TH_PLACE, th_value *x, th_dims dims,
                                 bool keepdim);
#define th_logsumexp(t, x, dims, keepdim)                                      \
  th_logsumexp_at(TH_HERE(t), x, dims, keepdim)
// The Euclidean norm.
TH_API th_value *th_norm_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim);
#define th_norm(t, x, dims, keepdim) th_norm_at(TH_HERE(t), x, dims, keepdim)
TH_API th_value *th_argmax_at(TH_PLACE, th_value *x, int dim, bool keepdim);
#define th_argmax(t, x, dim, keepdim) th_argmax_at(TH_HERE(t), x, dim, keepdim)
TH_API th_value *th_argmin_at(TH_PLACE, th_value *x, int dim, bool keepdim);
#define th_argmin(t, x, dim, keepdim) th_argmin_at(TH_HERE(t), x, dim, keepdim)
// Values and their indices.
TH_API th_value *th_max_dim_at(TH_PLACE, th_value *x, int dim, bool keepdim,
                               th_value **out_indices);
#define th_max_dim(t, x, dim, keepdim, out_indices)                            \
  th_max_dim_at(TH_HERE(t), x, dim, keepdim, out_indices)
TH_API th_value *th_min_dim_at(TH_PLACE, th_value *x, int dim, bool keepdim,
                               th_value **out_indices);
#define th_min_dim(t, x, dim, keepdim, out_indices)                            \
  th_min_dim_at(TH_HERE(t), x, dim, keepdim, out_indices)
TH_API th_value *th_cumsum_at(TH_PLACE, th_value *x, int dim);
#define th_cumsum(t, x, dim) th_cumsum_at(TH_HERE(t), x, dim)
TH_API th_value *th_cumprod_at(TH_PLACE, th_value *x, int dim);
#define th_cumprod(t, x, dim) th_cumprod_at(TH_HERE(t), x, dim)
TH_API th_value *th_sort_at(TH_PLACE, th_value *x, int dim, bool descending,
                            th_value **out_indices);
#define th_sort(t, x, dim, descending, out_indices)                            \
  th_sort_at(TH_HERE(t), x, dim, descending, out_indices)
TH_API th_value *th_topk_at(TH_PLACE, th_value *x, int64_t k, int dim,
                            bool largest, th_value **out_indices);
#define th_topk(t, x, k, dim, largest, out_indices)                            \
  th_topk_at(TH_HERE(t), x, k, dim, largest, out_indices)

// ---- softmax and norms

TH_API th_value *th_softmax_at(TH_PLACE, th_value *x, int dim);
#define th_softmax(t, x, dim) th_softmax_at(TH_HERE(t), x, dim)
TH_API th_value *th_log_softmax_at(TH_PLACE, th_value *x, int dim);
#define th_log_softmax(t, x, dim) th_log_softmax_at(TH_HERE(t), x, dim)
// Over the last `count` dimensions.
TH_API th_value *th_layer_norm_at(TH_PLACE, th_value *x, int count,
                                  th_value *weight, th_value *bias, double eps);
#define th_layer_norm(t, x, count, weight, bias, eps)                          \
  th_layer_norm_at(TH_HERE(t), x, count, weight, bias, eps)
TH_API th_value *th_rms_norm_at(TH_PLACE, th_value *x, int count,
                                th_value *weight, double eps);
#define th_rms_norm(t, x, count, weight, eps)                                  \
  th_rms_norm_at(TH_HERE(t), x, count, weight, eps)
TH_API th_value *th_group_norm_at(TH_PLACE, th_value *x, int64_t groups,
                                  th_value *weight, th_value *bias, double eps);
#define th_group_norm(t, x, groups, weight, bias, eps)                         \
  th_group_norm_at(TH_HERE(t), x, groups, weight, bias, eps)
// With running statistics, and with the batch's own: then *out_mean and
// *out_var are the new running ones (NULL: not wanted).
TH_API th_value *th_batch_norm_at(TH_PLACE, th_value *x, th_value *weight,
                                  th_value *bias, th_value *running_mean,
                                  th_value *running_var, double eps);
#define th_batch_norm(t, x, weight, bias, running_mean, running_var, eps)      \
  th_batch_norm_at(TH_HERE(t), x, weight, bias, running_mean, running_var, eps)
TH_API th_value *th_batch_norm_train_at(TH_PLACE, th_value *x, th_value *weight,
                                        th_value *bias, th_value *running_mean,
                                        th_value *running_var, double momentum,
                                        double eps, th_value **out_mean,
                                        th_value **out_var);
#define th_batch_norm_train(t, x, weight, bias, running_mean, running_var,     \
                            momentum, eps, out_mean, out_var)                  \
  th_batch_norm_train_at(TH_HERE(t), x, weight, bias, running_mean,            \
                         running_var, momentum, eps, out_mean, out_var)

// ---- products

TH_API th_value *th_matmul_at(TH_PLACE, th_value *x, th_value *y);
#define th_matmul(t, x, y) th_matmul_at(TH_HERE(t), x, y)
TH_API th_value *th_bmm_at(TH_PLACE, th_value *x, th_value *y);
#define th_bmm(t, x, y) th_bmm_at(TH_HERE(t), x, y)
TH_API th_value *th_outer_at(TH_PLACE, th_value *x, th_value *y);
#define th_outer(t, x, y) th_outer_at(TH_HERE(t), x, y)
// x weight^T + bias.
TH_API th_value *th_linear_at(TH_PLACE, th_value *x, th_value *weight,
                              th_value *bias);
#define th_linear(t, x, weight, bias) th_linear_at(TH_HERE(t), x, weight, bias)
// beta * input + alpha * (x y).
TH_API th_value *th_addmm_at(TH_PLACE, th_value *input, th_value *x,
                             th_value *y, double beta, double alpha);
#define th_addmm(t, input, x, y, beta, alpha)                                  \
  th_addmm_at(TH_HERE(t), input, x, y, beta, alpha)
TH_API th_value *th_baddbmm_at(TH_PLACE, th_value *input, th_value *x,
                               th_value *y, double beta, double alpha);
#define th_baddbmm(t, input, x, y, beta, alpha)                                \
  th_baddbmm_at(TH_HERE(t), input, x, y, beta, alpha)
// Lists have one item for all spatial dimensions or one for each.
TH_API th_value *th_conv_at(TH_PLACE, th_value *x, th_value *weight,
                            th_value *bias, th_dims stride, th_dims padding,
                            th_dims dilation, int64_t groups);
#define th_conv(t, x, weight, bias, stride, padding, dilation, groups)         \
  th_conv_at(TH_HERE(t), x, weight, bias, stride, padding, dilation, groups)
TH_API th_value *th_conv_transpose_at(TH_PLACE, th_value *x, th_value *weight,
                                      th_value *bias, th_dims stride,
                                      th_dims padding, th_dims output_padding,
                                      th_dims dilation, int64_t groups);
#define th_conv_transpose(t, x, weight, bias, stride, padding, output_padding, \
                          dilation, groups)                                    \
  th_conv_transpose_at(TH_HERE(t), x, weight, bias, stride, padding,           \
                       output_padding, dilation, groups)
// `scale` 0: 1 / sqrt(size of a head).  `enable_gqa`: fewer heads of key and
// value than of query.
TH_API th_value *th_attention_at(TH_PLACE, th_value *query, th_value *key,
                                 th_value *value, th_value *mask,
                                 bool is_causal, double scale, bool enable_gqa);
#define th_attention(t, query, key, value, mask, is_causal, scale, enable_gqa) \
  th_attention_at(TH_HERE(t), query, key, value, mask, is_causal, scale,       \
                  enable_gqa)

// ---- pooling

// TH_NO_DIMS as stride: that of the kernel.
TH_API th_value *th_max_pool_at(TH_PLACE, th_value *x, th_dims kernel,
                                th_dims stride, th_dims padding);
#define th_max_pool(t, x, kernel, stride, padding)                             \
  th_max_pool_at(TH_HERE(t), x, kernel, stride, padding)
TH_API th_value *th_avg_pool_at(TH_PLACE, th_value *x, th_dims kernel,
                                th_dims stride, th_dims padding);
#define th_avg_pool(t, x, kernel, stride, padding)                             \
  th_avg_pool_at(TH_HERE(t), x, kernel, stride, padding)
TH_API th_value *th_adaptive_avg_pool_at(TH_PLACE, th_value *x, th_dims size);
#define th_adaptive_avg_pool(t, x, size)                                       \
  th_adaptive_avg_pool_at(TH_HERE(t), x, size)
TH_API th_value *th_upsample_nearest_at(TH_PLACE, th_value *x, th_dims size);
#define th_upsample_nearest(t, x, size)                                        \
  th_upsample_nearest_at(TH_HERE(t), x, size)

// ---- gather and scatter

TH_API th_value *th_embedding_at(TH_PLACE, th_value *weight, th_value *indices);
#define th_embedding(t, weight, indices)                                       \
  th_embedding_at(TH_HERE(t), weight, indices)
TH_API th_value *th_gather_at(TH_PLACE, th_value *x, int dim, th_value *index);
#define th_gather(t, x, dim, index) th_gather_at(TH_HERE(t), x, dim, index)
TH_API th_value *th_index_select_at(TH_PLACE, th_value *x, int dim,
                                    th_value *index);
#define th_index_select(t, x, dim, index)                                      \
  th_index_select_at(TH_HERE(t), x, dim, index)
// One index for each leading dimension, NULL: all of it.
TH_API th_value *th_index_at(TH_PLACE, th_value *x, th_value *const *indices,
                             size_t count);
#define th_index(t, x, indices, count)                                         \
  th_index_at(TH_HERE(t), x, indices, count)
TH_API th_value *th_one_hot_at(TH_PLACE, th_value *x, int64_t classes);
#define th_one_hot(t, x, classes) th_one_hot_at(TH_HERE(t), x, classes)
TH_API th_value *th_scatter_at(TH_PLACE, th_value *x, int dim, th_value *index,
                               th_value *src);
#define th_scatter(t, x, dim, index, src)                                      \
  th_scatter_at(TH_HERE(t), x, dim, index, src)
TH_API th_value *th_scatter_add_at(TH_PLACE, th_value *x, int dim,
                                   th_value *index, th_value *src);
#define th_scatter_add(t, x, dim, index, src)                                  \
  th_scatter_add_at(TH_HERE(t), x, dim, index, src)
TH_API th_value *th_index_put_at(TH_PLACE, th_value *x,
                                 th_value *const *indices, size_t count,
                                 th_value *values, bool accumulate);
#define th_index_put(t, x, indices, count, values, accumulate)                 \
  th_index_put_at(TH_HERE(t), x, indices, count, values, accumulate)
TH_API th_value *th_index_copy_at(TH_PLACE, th_value *x, int dim,
                                  th_value *index, th_value *src);
#define th_index_copy(t, x, dim, index, src)                                   \
  th_index_copy_at(TH_HERE(t), x, dim, index, src)
TH_API th_value *th_index_add_at(TH_PLACE, th_value *x, int dim,
                                 th_value *index, th_value *src);
#define th_index_add(t, x, dim, index, src)                                    \
  th_index_add_at(TH_HERE(t), x, dim, index, src)
TH_API th_value *th_slice_scatter_at(TH_PLACE, th_value *x, th_value *src,
                                     int dim, int64_t start, int64_t end,
                                     int64_t step);
#define th_slice_scatter(t, x, src, dim, start, end, step)                     \
  th_slice_scatter_at(TH_HERE(t), x, src, dim, start, end, step)
TH_API th_value *th_select_scatter_at(TH_PLACE, th_value *x, th_value *src,
                                      int dim, int64_t index);
#define th_select_scatter(t, x, src, dim, index)                               \
  th_select_scatter_at(TH_HERE(t), x, src, dim, index)
// Sizes and numbers that depend on data.
TH_API th_value *th_nonzero_at(TH_PLACE, th_value *x);
#define th_nonzero(t, x) th_nonzero_at(TH_HERE(t), x)
TH_API th_value *th_item_at(TH_PLACE, th_value *x);
#define th_item(t, x) th_item_at(TH_HERE(t), x)

// ---- losses, means over everything

TH_API th_value *th_mse_loss_at(TH_PLACE, th_value *x, th_value *target);
#define th_mse_loss(t, x, target) th_mse_loss_at(TH_HERE(t), x, target)
// Classes along dimension 1 of `logits`, or its only one; i64 targets.
TH_API th_value *th_cross_entropy_at(TH_PLACE, th_value *logits,
                                     th_value *target);
#define th_cross_entropy(t, logits, target)                                    \
  th_cross_entropy_at(TH_HERE(t), logits, target)

#ifdef __cplusplus
}
#endif
#endif

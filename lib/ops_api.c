// The operations of ops.h, in its order: each is a row of the table, or a few.
//
// What is built of several rows gets NULL from the first that fails; the others
// are silent then.
#include "tracer.h"

#include "thunder/ops.h"

#include <math.h>

// ---- short forms

#define ROW(op, ...)                                                           \
  ops_row(t, file, line, TH_OP_##op, (const th_operand[]){__VA_ARGS__},        \
          TH_COUNT(((const th_operand[]){__VA_ARGS__})))
#define V(x) th_operand_value(x)
#define I(x) th_operand_int(x)
#define F(x) th_operand_float(x)
#define B(x) th_operand_bool(x)
#define D(x) th_operand_dims(&(x))
#define NONE th_operand_none()
#define HERE t, file, line

static th_value *ops_row(TH_PLACE, th_op op, const th_operand *operands,
                         size_t count) {
  return th_tracer_op(t, file, line, op, operands, count);
}

// None when there are none: all dimensions.
static th_operand ops_dims(const th_dims *dims) {
  return dims->count ? th_operand_dims(dims) : NONE;
}

static th_operand ops_optional_int(int64_t value, int64_t none) {
  return value == none ? NONE : I(value);
}

static int ops_rank(const th_value *x) {
  int rank = th_value_rank(x);
  return rank < 0 ? 0 : rank;
}

static int ops_wrap(const th_value *x, int dim) {
  return dim < 0 ? dim + ops_rank(x) : dim;
}

// One item for each of `count` spatial dimensions.
static th_dims ops_spread(th_dims dims, int count) {
  if (dims.count == 1) {
    for (int i = 1; i < count && i < TH_MAX_RANK; i++) {
      dims.item[i] = dims.item[0];
      dims.number[i] = dims.number[0];
    }
    dims.count = count < 0 ? 0 : count < TH_MAX_RANK ? count : TH_MAX_RANK;
  }
  return dims;
}

static th_dims ops_filled(int count, int64_t item) {
  return ops_spread(th_dims_of(&item, 1), count);
}

// The sizes of x, symbols included.
static th_dims ops_shape(th_tracer *t, th_value *x) {
  th_dims shape = ops_filled(ops_rank(x), 0);
  shape.count = ops_rank(x);
  for (int d = 0; d < shape.count; d++) {
    shape.number[d] = th_size_at(t, NULL, 0, x, d);
  }
  return shape;
}

static void ops_two(TH_PLACE, th_op op, const th_operand *operands,
                    size_t count, th_value **out) {
  (void)th_tracer_ops(t, file, line, th_op_row(op), operands, count, out, 2);
}

// ---- elementwise

#define UNARY(op)                                                              \
  th_value *th_##op##_at(TH_PLACE, th_value *x) { return ROW(op, V(x)); }
#define BINARY(op)                                                             \
  th_value *th_##op##_at(TH_PLACE, th_value *x, th_value *y) {                 \
    return ROW(op, V(x), V(y));                                                \
  }
#define SCALAR(op)                                                             \
  th_value *th_##op##_scalar_at(TH_PLACE, th_value *x, double y) {             \
    return ROW(op, V(x), F(y));                                                \
  }

UNARY(abs)
UNARY(neg)
UNARY(sign)
UNARY(floor)
UNARY(ceil)
UNARY(trunc)
UNARY(round)
UNARY(bitwise_not)
UNARY(exp)
UNARY(exp2)
UNARY(expm1)
UNARY(log)
UNARY(log2)
UNARY(log10)
UNARY(log1p)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(reciprocal)

th_value *th_square_at(TH_PLACE, th_value *x) { return ROW(mul, V(x), V(x)); }

UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(asin)
UNARY(acos)
UNARY(atan)
UNARY(sinh)
UNARY(cosh)
UNARY(tanh)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
UNARY(erf)
UNARY(erfc)
UNARY(sigmoid)
UNARY(isnan)
UNARY(isinf)
UNARY(isfinite)
UNARY(logical_not)

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(floor_divide)
BINARY(trunc_divide)
BINARY(remainder)
BINARY(fmod)
BINARY(pow)
BINARY(atan2)
BINARY(hypot)
BINARY(copysign)
BINARY(maximum)
BINARY(minimum)
BINARY(fmax)
BINARY(fmin)
BINARY(bitwise_and)
BINARY(bitwise_or)
BINARY(bitwise_xor)
BINARY(shift_left)
BINARY(shift_right)
BINARY(eq)
BINARY(ne)
BINARY(lt)
BINARY(le)
BINARY(gt)
BINARY(ge)
BINARY(logical_and)
BINARY(logical_or)
BINARY(logical_xor)

SCALAR(add)
SCALAR(sub)
SCALAR(mul)
SCALAR(div)
SCALAR(pow)

th_value *th_rsub_scalar_at(TH_PLACE, th_value *x, double y) {
  return ROW(sub, F(y), V(x));
}

th_value *th_where_at(TH_PLACE, th_value *condition, th_value *x, th_value *y) {
  return ROW(where, V(condition), V(x), V(y));
}

th_value *th_to_at(TH_PLACE, th_value *x, th_dtype dtype) {
  return ROW(to, V(x), th_operand_dtype(dtype));
}

th_value *th_clamp_at(TH_PLACE, th_value *x, th_value *min, th_value *max) {
  return ROW(clamp, V(x), V(min), V(max));
}

th_value *th_lerp_at(TH_PLACE, th_value *x, th_value *y, th_value *weight) {
  return ROW(lerp, V(x), V(y), V(weight));
}

th_value *th_addcmul_at(TH_PLACE, th_value *x, th_value *y, th_value *z,
                        double value) {
  return ROW(addcmul, V(x), V(y), V(z), F(value));
}

th_value *th_addcdiv_at(TH_PLACE, th_value *x, th_value *y, th_value *z,
                        double value) {
  return ROW(addcdiv, V(x), V(y), V(z), F(value));
}

th_value *th_masked_fill_at(TH_PLACE, th_value *x, th_value *mask,
                            th_value *value) {
  return ROW(masked_fill, V(x), V(mask), V(value));
}

// ---- activations

UNARY(relu)

th_value *th_relu6_at(TH_PLACE, th_value *x) {
  return ROW(hardtanh, V(x), I(0), I(6));
}

UNARY(silu)
UNARY(mish)
UNARY(selu)
UNARY(hardsigmoid)
UNARY(hardswish)
UNARY(logsigmoid)

th_value *th_softsign_at(TH_PLACE, th_value *x) {
  th_value *below = ROW(add, V(ROW(abs, V(x))), I(1));
  return ROW(div, V(x), V(below));
}

th_value *th_tanhshrink_at(TH_PLACE, th_value *x) {
  return ROW(sub, V(x), V(ROW(tanh, V(x))));
}

th_value *th_gelu_at(TH_PLACE, th_value *x, const char *approximate) {
  return ROW(gelu, V(x), th_operand_string(approximate));
}

th_value *th_elu_at(TH_PLACE, th_value *x, double alpha) {
  return ROW(elu, V(x), F(alpha));
}

th_value *th_celu_at(TH_PLACE, th_value *x, double alpha) {
  return ROW(celu, V(x), F(alpha));
}

th_value *th_leaky_relu_at(TH_PLACE, th_value *x, double negative_slope) {
  return ROW(leaky_relu, V(x), F(negative_slope));
}

th_value *th_hardtanh_at(TH_PLACE, th_value *x, double min, double max) {
  return ROW(hardtanh, V(x), F(min), F(max));
}

th_value *th_softplus_at(TH_PLACE, th_value *x, double beta, double threshold) {
  return ROW(softplus, V(x), F(beta), F(threshold));
}

th_value *th_glu_at(TH_PLACE, th_value *x, int dim) {
  th_value *half[2];
  (void)th_chunk_at(HERE, x, 2, dim, half);
  return ROW(mul, V(half[0]), V(ROW(sigmoid, V(half[1]))));
}

// ---- shape

th_value *th_reshape_at(TH_PLACE, th_value *x, th_dims shape) {
  return ROW(reshape, V(x), D(shape));
}

th_value *th_flatten_at(TH_PLACE, th_value *x, int first, int last) {
  th_dims from = ops_shape(t, x), to = ops_filled(0, 0);
  first = ops_wrap(x, first);
  last = ops_wrap(x, last);
  to.count = 0;
  for (int d = 0; d < from.count; d++) {
    if (d > first && d <= last) {
      th_value **joined = &to.number[to.count - 1];
      *joined = ROW(mul, V(*joined), V(from.number[d]));
    } else {
      to.number[to.count++] = from.number[d];
    }
  }
  to.count += to.count == 0; // a scalar becomes [1]
  to.item[0] = 1;
  return ROW(reshape, V(x), D(to));
}

th_value *th_permute_at(TH_PLACE, th_value *x, th_dims dims) {
  return ROW(permute, V(x), D(dims));
}

th_value *th_transpose_at(TH_PLACE, th_value *x, int dim0, int dim1) {
  int rank = ops_rank(x), a = ops_wrap(x, dim0), b = ops_wrap(x, dim1);
  th_dims dims = ops_filled(rank, 0);
  dims.count = rank;
  for (int d = 0; d < rank; d++) {
    dims.item[d] = d == a ? b : d == b ? a : d;
  }
  if (th_value_is_tensor(x) && (a < 0 || a >= rank || b < 0 || b >= rank)) {
    dims.item[0] = dim0; // the rule says what is wrong
    dims.item[rank > 1] = dim1;
  }
  return ROW(permute, V(x), D(dims));
}

th_value *th_expand_at(TH_PLACE, th_value *x, th_dims shape) {
  return ROW(expand, V(x), D(shape));
}

th_value *th_squeeze_at(TH_PLACE, th_value *x, th_dims dims) {
  return ROW(squeeze, V(x), D(dims));
}

th_value *th_unsqueeze_at(TH_PLACE, th_value *x, int dim) {
  return ROW(unsqueeze, V(x), I(dim));
}

th_value *th_slice_at(TH_PLACE, th_value *x, int dim, int64_t start,
                      int64_t end, int64_t step) {
  return ROW(slice, V(x), I(dim), I(start), ops_optional_int(end, INT64_MAX),
             I(step));
}

th_value *th_narrow_at(TH_PLACE, th_value *x, int dim, th_value *start,
                       th_value *length) {
  th_value *end = ROW(add, V(start), V(length));
  return ROW(slice, V(x), I(dim), V(start), V(end), I(1));
}

th_value *th_select_at(TH_PLACE, th_value *x, int dim, int64_t index) {
  return ROW(select, V(x), I(dim), I(index));
}

th_value *th_diagonal_at(TH_PLACE, th_value *x, int64_t offset, int dim1,
                         int dim2) {
  return ROW(diagonal, V(x), I(offset), I(dim1), I(dim2));
}

th_value *th_unfold_at(TH_PLACE, th_value *x, int dim, int64_t size,
                       int64_t step) {
  return ROW(unfold, V(x), I(dim), I(size), I(step));
}

UNARY(detach)
UNARY(clone)

th_status th_split_at(TH_PLACE, th_value *x, const int64_t *sizes, size_t count,
                      int dim, th_value **out) {
  const th_operand operands[] = {V(x), th_operand_ints(sizes, count), I(dim)};
  return th_tracer_ops(HERE, th_op_row(TH_OP_split), operands, 3, out, count);
}

th_status th_chunk_at(TH_PLACE, th_value *x, size_t count, int dim,
                      th_value **out) {
  enum { MOST = 64 };
  int64_t sizes[MOST];
  int64_t size = th_value_dim(x, dim);
  for (size_t i = 0; i < count; i++) {
    out[i] = NULL;
  }
  if (th_tracer_status(t) == TH_OK && (size < 0 || !count || count > MOST)) {
    return th_tracer_error_at(
        HERE, TH_UNSUPPORTED,
        "chunk: %zu pieces of dimension %d: its size must be a constant, and "
        "there may be 1 to %d pieces",
        count, dim, MOST);
  }
  int64_t most = count ? (size + (int64_t)count - 1) / (int64_t)count : 0;
  for (size_t i = 0; i < count && i < MOST; i++) {
    sizes[i] = size < most ? size : most;
    size -= sizes[i];
  }
  return th_split_at(HERE, x, sizes, count, dim, out);
}

th_status th_unbind_at(TH_PLACE, th_value *x, int dim, th_value **out,
                       size_t count) {
  const th_operand operands[] = {V(x), I(dim)};
  return th_tracer_ops(HERE, th_op_row(TH_OP_unbind), operands, 2, out, count);
}

th_value *th_cat_at(TH_PLACE, th_value *const *tensors, size_t count, int dim) {
  return ROW(cat, th_operand_values(tensors, count), I(dim));
}

th_value *th_stack_at(TH_PLACE, th_value *const *tensors, size_t count,
                      int dim) {
  return ROW(stack, th_operand_values(tensors, count), I(dim));
}

th_value *th_flip_at(TH_PLACE, th_value *x, th_dims dims) {
  return ROW(flip, V(x), D(dims));
}

th_value *th_roll_at(TH_PLACE, th_value *x, th_dims shifts, th_dims dims) {
  return ROW(roll, V(x), D(shifts), D(dims));
}

th_value *th_repeat_at(TH_PLACE, th_value *x, th_dims repeats) {
  return ROW(repeat, V(x), D(repeats));
}

th_value *th_repeat_interleave_at(TH_PLACE, th_value *x, int64_t repeats,
                                  int dim) {
  return ROW(repeat_interleave, V(x), I(repeats), I(dim));
}

th_value *th_pad_at(TH_PLACE, th_value *x, const int64_t *pads, size_t count,
                    double value) {
  return ROW(pad, V(x), th_operand_ints(pads, count), F(value));
}

th_value *th_tril_at(TH_PLACE, th_value *x, int64_t diagonal) {
  return ROW(tril, V(x), I(diagonal));
}

th_value *th_triu_at(TH_PLACE, th_value *x, int64_t diagonal) {
  return ROW(triu, V(x), I(diagonal));
}

// ---- creation

th_value *th_full_at(TH_PLACE, th_dims shape, th_value *value, th_dtype dtype) {
  return ROW(full, D(shape), V(value), th_operand_dtype(dtype));
}

th_value *th_zeros_at(TH_PLACE, th_dims shape, th_dtype dtype) {
  return ROW(full, D(shape), I(0), th_operand_dtype(dtype));
}

th_value *th_ones_at(TH_PLACE, th_dims shape, th_dtype dtype) {
  return ROW(full, D(shape), I(1), th_operand_dtype(dtype));
}

th_value *th_full_like_at(TH_PLACE, th_value *x, th_value *value) {
  th_dims shape = ops_shape(t, x);
  return ROW(full, D(shape), V(value), th_operand_dtype(th_value_dtype(x)),
             th_operand_device(th_value_device(x)));
}

th_value *th_zeros_like_at(TH_PLACE, th_value *x) {
  return th_full_like_at(HERE, x, th_integer(t, 0));
}

th_value *th_ones_like_at(TH_PLACE, th_value *x) {
  return th_full_like_at(HERE, x, th_integer(t, 1));
}

th_value *th_arange_at(TH_PLACE, th_value *start, th_value *end, th_value *step,
                       th_dtype dtype) {
  return ROW(arange, start ? V(start) : I(0), V(end), step ? V(step) : I(1),
             th_operand_dtype(dtype));
}

th_value *th_eye_at(TH_PLACE, int64_t rows, int64_t columns, th_dtype dtype) {
  return ROW(eye, I(rows), I(columns), th_operand_dtype(dtype));
}

// ---- reductions

#define REDUCTION(op)                                                          \
  th_value *th_##op##_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim) {  \
    return ROW(op, V(x), ops_dims(&dims), B(keepdim));                         \
  }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(prod)
REDUCTION(amax)
REDUCTION(amin)
REDUCTION(any)
REDUCTION(all)

// PyTorch's correction is an integer where it is whole.
static th_operand ops_number(double value) {
  return value == floor(value) && fabs(value) < 1e15 ? I((int64_t)value)
                                                     : F(value);
}

th_value *th_var_at(TH_PLACE, th_value *x, th_dims dims, double correction,
                    bool keepdim) {
  return ROW(var, V(x), ops_dims(&dims), ops_number(correction), B(keepdim));
}

th_value *th_std_at(TH_PLACE, th_value *x, th_dims dims, double correction,
                    bool keepdim) {
  return ROW(std, V(x), ops_dims(&dims), ops_number(correction), B(keepdim));
}

th_value *th_logsumexp_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim) {
  return ROW(logsumexp, V(x), D(dims), B(keepdim));
}

th_value *th_norm_at(TH_PLACE, th_value *x, th_dims dims, bool keepdim) {
  th_value *squares = ROW(mul, V(x), V(x));
  return ROW(sqrt, V(ROW(sum, V(squares), ops_dims(&dims), B(keepdim))));
}

th_value *th_argmax_at(TH_PLACE, th_value *x, int dim, bool keepdim) {
  return ROW(argmax, V(x), I(dim), B(keepdim));
}

th_value *th_argmin_at(TH_PLACE, th_value *x, int dim, bool keepdim) {
  return ROW(argmin, V(x), I(dim), B(keepdim));
}

static th_value *ops_pair(TH_PLACE, th_op op, const th_operand *operands,
                          size_t count, th_value **out_second) {
  th_value *outs[2];
  ops_two(HERE, op, operands, count, outs);
  if (out_second) {
    *out_second = outs[1];
  }
  return outs[0];
}

th_value *th_max_dim_at(TH_PLACE, th_value *x, int dim, bool keepdim,
                        th_value **out_indices) {
  const th_operand operands[] = {V(x), I(dim), B(keepdim)};
  return ops_pair(HERE, TH_OP_max_dim, operands, 3, out_indices);
}

th_value *th_min_dim_at(TH_PLACE, th_value *x, int dim, bool keepdim,
                        th_value **out_indices) {
  const th_operand operands[] = {V(x), I(dim), B(keepdim)};
  return ops_pair(HERE, TH_OP_min_dim, operands, 3, out_indices);
}

th_value *th_cumsum_at(TH_PLACE, th_value *x, int dim) {
  return ROW(cumsum, V(x), I(dim));
}

th_value *th_cumprod_at(TH_PLACE, th_value *x, int dim) {
  return ROW(cumprod, V(x), I(dim));
}

th_value *th_sort_at(TH_PLACE, th_value *x, int dim, bool descending,
                     th_value **out_indices) {
  const th_operand operands[] = {V(x), I(dim), B(descending)};
  return ops_pair(HERE, TH_OP_sort, operands, 3, out_indices);
}

th_value *th_topk_at(TH_PLACE, th_value *x, int64_t k, int dim, bool largest,
                     th_value **out_indices) {
  const th_operand operands[] = {V(x), I(k), I(dim), B(largest)};
  return ops_pair(HERE, TH_OP_topk, operands, 4, out_indices);
}

// ---- softmax and norms

th_value *th_softmax_at(TH_PLACE, th_value *x, int dim) {
  return ROW(softmax, V(x), I(dim));
}

th_value *th_log_softmax_at(TH_PLACE, th_value *x, int dim) {
  return ROW(log_softmax, V(x), I(dim));
}

// The sizes of the last `count` dimensions.
static th_dims ops_last(th_tracer *t, th_value *x, int count) {
  th_dims shape = ops_shape(t, x);
  int first = shape.count > count ? shape.count - count : 0;
  th_dims last = ops_filled(0, 0);
  last.count = shape.count - first;
  for (int d = 0; d < last.count; d++) {
    last.number[d] = shape.number[first + d];
  }
  return last;
}

th_value *th_layer_norm_at(TH_PLACE, th_value *x, int count, th_value *weight,
                           th_value *bias, double eps) {
  th_dims shape = ops_last(t, x, count);
  return ROW(layer_norm, V(x), D(shape), V(weight), V(bias), F(eps));
}

th_value *th_rms_norm_at(TH_PLACE, th_value *x, int count, th_value *weight,
                         double eps) {
  th_dims shape = ops_last(t, x, count);
  return ROW(rms_norm, V(x), D(shape), V(weight), F(eps));
}

th_value *th_group_norm_at(TH_PLACE, th_value *x, int64_t groups,
                           th_value *weight, th_value *bias, double eps) {
  return ROW(group_norm, V(x), I(groups), V(weight), V(bias), F(eps));
}

th_value *th_batch_norm_at(TH_PLACE, th_value *x, th_value *weight,
                           th_value *bias, th_value *running_mean,
                           th_value *running_var, double eps) {
  return ROW(batch_norm, V(x), V(weight), V(bias), V(running_mean),
             V(running_var), B(false), F(0.1), F(eps));
}

th_value *th_batch_norm_train_at(TH_PLACE, th_value *x, th_value *weight,
                                 th_value *bias, th_value *running_mean,
                                 th_value *running_var, double momentum,
                                 double eps, th_value **out_mean,
                                 th_value **out_var) {
  th_value *outs[5];
  const th_operand operands[] = {
      V(x),           V(weight), V(bias),     V(running_mean),
      V(running_var), B(true),   F(momentum), F(eps)};
  (void)th_tracer_ops(HERE, th_op_row(TH_OP_batch_norm), operands, 8, outs, 5);
  if (out_mean) {
    *out_mean = outs[3];
  }
  if (out_var) {
    *out_var = outs[4];
  }
  return outs[0];
}

// ---- products

BINARY(matmul)

th_value *th_bmm_at(TH_PLACE, th_value *x, th_value *y) {
  int a = th_value_rank(x), b = th_value_rank(y);
  if (a >= 0 && b >= 0 && (a != 3 || b != 3)) {
    (void)th_tracer_error_at(HERE, TH_SHAPE,
                             "bmm: the operands have %d and %d dimensions, "
                             "not 3",
                             a, b);
  }
  return ROW(matmul, V(x), V(y));
}

th_value *th_outer_at(TH_PLACE, th_value *x, th_value *y) {
  th_value *column = ROW(unsqueeze, V(x), I(-1));
  return ROW(mul, V(column), V(y));
}

th_value *th_linear_at(TH_PLACE, th_value *x, th_value *weight,
                       th_value *bias) {
  return ROW(linear, V(x), V(weight), V(bias));
}

th_value *th_addmm_at(TH_PLACE, th_value *input, th_value *x, th_value *y,
                      double beta, double alpha) {
  return ROW(addmm, V(input), V(x), V(y), ops_number(beta), ops_number(alpha));
}

th_value *th_baddbmm_at(TH_PLACE, th_value *input, th_value *x, th_value *y,
                        double beta, double alpha) {
  return ROW(baddbmm, V(input), V(x), V(y), ops_number(beta),
             ops_number(alpha));
}

th_value *th_conv_at(TH_PLACE, th_value *x, th_value *weight, th_value *bias,
                     th_dims stride, th_dims padding, th_dims dilation,
                     int64_t groups) {
  int n = ops_rank(weight) - 2;
  th_dims zeros = ops_filled(n, 0);
  stride = ops_spread(stride, n);
  padding = ops_spread(padding, n);
  dilation = ops_spread(dilation, n);
  return ROW(convolution, V(x), V(weight), V(bias), D(stride), D(padding),
             D(dilation), B(false), D(zeros), I(groups));
}

th_value *th_conv_transpose_at(TH_PLACE, th_value *x, th_value *weight,
                               th_value *bias, th_dims stride, th_dims padding,
                               th_dims output_padding, th_dims dilation,
                               int64_t groups) {
  int n = ops_rank(weight) - 2;
  stride = ops_spread(stride, n);
  padding = ops_spread(padding, n);
  output_padding = ops_spread(output_padding, n);
  dilation = ops_spread(dilation, n);
  return ROW(convolution, V(x), V(weight), V(bias), D(stride), D(padding),
             D(dilation), B(true), D(output_padding), I(groups));
}

th_value *th_attention_at(TH_PLACE, th_value *query, th_value *key,
                          th_value *value, th_value *mask, bool is_causal,
                          double scale, bool enable_gqa) {
  return ROW(scaled_dot_product_attention, V(query), V(key), V(value), V(mask),
             F(0), B(is_causal), scale == 0 ? NONE : F(scale), B(enable_gqa));
}

// ---- pooling

static int ops_spatial(const th_value *x, const th_dims *kernel) {
  int most = ops_rank(x) > 1 ? ops_rank(x) - 2 : 0;
  return kernel->count > 1 ? kernel->count : most;
}

th_value *th_max_pool_at(TH_PLACE, th_value *x, th_dims kernel, th_dims stride,
                         th_dims padding) {
  int n = ops_spatial(x, &kernel);
  th_dims ones = ops_filled(n, 1);
  kernel = ops_spread(kernel, n);
  stride = stride.count ? ops_spread(stride, n) : kernel;
  padding = ops_spread(padding, n);
  return ROW(max_pool, V(x), D(kernel), D(stride), D(padding), D(ones));
}

th_value *th_avg_pool_at(TH_PLACE, th_value *x, th_dims kernel, th_dims stride,
                         th_dims padding) {
  int n = ops_spatial(x, &kernel);
  kernel = ops_spread(kernel, n);
  stride = stride.count ? ops_spread(stride, n) : kernel;
  padding = ops_spread(padding, n);
  return ROW(avg_pool, V(x), D(kernel), D(stride), D(padding));
}

th_value *th_adaptive_avg_pool_at(TH_PLACE, th_value *x, th_dims size) {
  return ROW(adaptive_avg_pool, V(x), D(size));
}

th_value *th_upsample_nearest_at(TH_PLACE, th_value *x, th_dims size) {
  return ROW(upsample_nearest, V(x), D(size));
}

// ---- gather and scatter

th_value *th_embedding_at(TH_PLACE, th_value *weight, th_value *indices) {
  return ROW(embedding, V(weight), V(indices));
}

th_value *th_gather_at(TH_PLACE, th_value *x, int dim, th_value *index) {
  return ROW(gather, V(x), I(dim), V(index));
}

th_value *th_index_select_at(TH_PLACE, th_value *x, int dim, th_value *index) {
  return ROW(index_select, V(x), I(dim), V(index));
}

th_value *th_index_at(TH_PLACE, th_value *x, th_value *const *indices,
                      size_t count) {
  return ROW(index, V(x), th_operand_values(indices, count));
}

th_value *th_one_hot_at(TH_PLACE, th_value *x, int64_t classes) {
  return ROW(one_hot, V(x), I(classes));
}

th_value *th_scatter_at(TH_PLACE, th_value *x, int dim, th_value *index,
                        th_value *src) {
  return ROW(scatter, V(x), I(dim), V(index), V(src));
}

th_value *th_scatter_add_at(TH_PLACE, th_value *x, int dim, th_value *index,
                            th_value *src) {
  return ROW(scatter_add, V(x), I(dim), V(index), V(src));
}

th_value *th_index_put_at(TH_PLACE, th_value *x, th_value *const *indices,
                          size_t count, th_value *values, bool accumulate) {
  return ROW(index_put, V(x), th_operand_values(indices, count), V(values),
             B(accumulate));
}

th_value *th_index_copy_at(TH_PLACE, th_value *x, int dim, th_value *index,
                           th_value *src) {
  return ROW(index_copy, V(x), I(dim), V(index), V(src));
}

th_value *th_index_add_at(TH_PLACE, th_value *x, int dim, th_value *index,
                          th_value *src) {
  return ROW(index_add, V(x), I(dim), V(index), V(src));
}

th_value *th_slice_scatter_at(TH_PLACE, th_value *x, th_value *src, int dim,
                              int64_t start, int64_t end, int64_t step) {
  return ROW(slice_scatter, V(x), V(src), I(dim), I(start),
             ops_optional_int(end, INT64_MAX), I(step));
}

th_value *th_select_scatter_at(TH_PLACE, th_value *x, th_value *src, int dim,
                               int64_t index) {
  return ROW(select_scatter, V(x), V(src), I(dim), I(index));
}

UNARY(nonzero)
UNARY(item)

// ---- losses

th_value *th_mse_loss_at(TH_PLACE, th_value *x, th_value *target) {
  th_value *difference = ROW(sub, V(x), V(target));
  return ROW(mean, V(ROW(mul, V(difference), V(difference))));
}

th_value *th_cross_entropy_at(TH_PLACE, th_value *logits, th_value *target) {
  int dim = ops_rank(logits) > 1;
  th_value *log_p = ROW(log_softmax, V(logits), I(dim));
  th_value *index = ROW(unsqueeze, V(target), I(dim));
  th_value *picked = ROW(gather, V(log_p), I(dim), V(index));
  return ROW(neg, V(ROW(mean, V(picked))));
}

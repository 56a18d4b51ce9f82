// Activations as arithmetic.  Sources: PyTorch's documentation of each and its
// CPU kernels (aten/src/ATen/native/cpu/Activation.cpp).
#include "ir/expand_util.h"

#include <string.h>

// x in the dtype in which the activation computes.
static th_value *activation_start(th_builder *b, const th_stmt *stmt) {
  th_dtype dtype = th_expand_type(b, stmt, 0).dtype;
  return th_expand_to(b, th_expand_arg(stmt, 0), th_expand_compute(dtype));
}

th_status th_expand_rule_relu(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  // NaN stays: the larger one of NaN and 0 is NaN.
  th_value *y = TH_EI(maximum, th_expand_arg(stmt, 0), 0);
  return th_expand_out(b, stmt, 0, y, outs);
}

// x * 0.5 * (1 + erf(x / sqrt(2)))
static th_value *activation_gelu_erf(th_builder *b, th_value *x) {
  th_value *erf = TH_E1(erf, TH_EF(mul, x, 0.70710678118654752440));
  return TH_E2(mul, TH_EF(mul, x, 0.5), TH_EF(add, erf, 1));
}

// x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
static th_value *activation_gelu_tanh(th_builder *b, th_value *x) {
  th_value *cube = TH_E2(mul, TH_E2(mul, x, x), x);
  th_value *inner = TH_E2(add, x, TH_EF(mul, cube, 0.044715));
  th_value *t = TH_E1(fast_tanh, TH_EF(mul, inner, 0.79788456080286535588));
  return TH_E2(mul, TH_EF(mul, x, 0.5), TH_EF(add, t, 1));
}

th_status th_expand_rule_gelu(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  th_value *x = activation_start(b, stmt);
  const char *form = stmt->args[1].text;
  bool is_tanh = strcmp(form, "tanh") == 0;
  if (!is_tanh && strcmp(form, "none") != 0) {
    return th_error(b->ir->ctx, TH_INVALID, stmt->loc,
                    "gelu: 'approximate' is 'none' or 'tanh', not '%s'", form);
  }
  return th_expand_out(
      b, stmt, 0,
      is_tanh ? activation_gelu_tanh(b, x) : activation_gelu_erf(b, x), outs);
}

th_status th_expand_rule_silu(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  th_value *x = activation_start(b, stmt);
  return th_expand_out(b, stmt, 0, TH_E2(mul, x, TH_E1(sigmoid, x)), outs);
}

th_status th_expand_rule_mish(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  th_value *x = activation_start(b, stmt);
  th_value *t = TH_E1(tanh, TH_E1(log1p, TH_E1(exp, x)));
  return th_expand_out(b, stmt, 0, TH_E2(mul, x, t), outs);
}

// x where positive, else (exp(x * input_scale) - 1) * alpha; all times scale.
static th_status activation_elu(th_builder *b, const th_stmt *stmt,
                                th_arg alpha, th_arg scale, th_arg input_scale,
                                th_value **outs) {
  th_value *x = activation_start(b, stmt);
  th_value *negative = TH_E1(expm1, th_expand_scale(b, x, input_scale));
  negative = th_expand_scale(b, th_expand_scale(b, negative, alpha), scale);
  th_value *y = TH_BUILD(b, where, th_v(TH_EI(le, x, 0)), th_v(negative),
                         th_v(th_expand_scale(b, x, scale)));
  return th_expand_out(b, stmt, 0, y, outs);
}

th_status th_expand_rule_elu(th_builder *b, const th_stmt *stmt,
                             th_value **outs) {
  return activation_elu(b, stmt, stmt->args[1], stmt->args[2], stmt->args[3],
                        outs);
}

// Klambauer et al., "Self-normalizing neural networks", 2017.
th_status th_expand_rule_selu(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  return activation_elu(b, stmt, th_f(b->ir, 1.6732632423543772848),
                        th_f(b->ir, 1.0507009873554804934), th_i(b->ir, 1),
                        outs);
}

th_status th_expand_rule_celu(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  const th_expr *args[] = {th_int(b->ir, 1), stmt->args[1].num};
  th_arg inverse = th_expand_num(b, th_expr_make(b->ir, TH_X_DIV, args, 2));
  return activation_elu(b, stmt, stmt->args[1], th_i(b->ir, 1), inverse, outs);
}

th_status th_expand_rule_leaky_relu(th_builder *b, const th_stmt *stmt,
                                    th_value **outs) {
  th_value *x = activation_start(b, stmt);
  th_value *y = TH_BUILD(b, where, th_v(TH_EI(gt, x, 0)), th_v(x),
                         th_v(TH_BUILD(b, mul, th_v(x), stmt->args[1])));
  return th_expand_out(b, stmt, 0, y, outs);
}

th_status th_expand_rule_hardtanh(th_builder *b, const th_stmt *stmt,
                                  th_value **outs) {
  th_dtype dtype = th_expand_arg(stmt, 0)->type.dtype;
  th_arg min = th_expand_scalar(b, stmt, 1, dtype);
  th_arg max = th_expand_scalar(b, stmt, 2, dtype);
  th_value *y = TH_BUILD(b, clamp, stmt->args[0], min, max);
  return th_expand_out(b, stmt, 0, y, outs);
}

// min(max(x + 3, 0), 6)
static th_value *activation_ramp(th_builder *b, th_value *x) {
  return TH_EI(minimum, TH_EI(maximum, TH_EI(add, x, 3), 0), 6);
}

th_status th_expand_rule_hardsigmoid(th_builder *b, const th_stmt *stmt,
                                     th_value **outs) {
  th_value *ramp = activation_ramp(b, activation_start(b, stmt));
  return th_expand_out(b, stmt, 0, TH_EI(div, ramp, 6), outs);
}

th_status th_expand_rule_hardswish(th_builder *b, const th_stmt *stmt,
                                   th_value **outs) {
  th_value *x = activation_start(b, stmt);
  th_value *y = TH_E2(mul, x, activation_ramp(b, x));
  return th_expand_out(b, stmt, 0, TH_EI(div, y, 6), outs);
}

// log(1 + exp(beta x)) / beta, and x where beta x exceeds the threshold.
th_status th_expand_rule_softplus(th_builder *b, const th_stmt *stmt,
                                  th_value **outs) {
  th_value *x = activation_start(b, stmt);
  th_value *scaled = th_expand_scale(b, x, stmt->args[1]);
  th_value *soft = TH_E1(log1p, TH_E1(exp, scaled));
  if (!th_expand_is(&stmt->args[1], 1)) {
    soft = TH_BUILD(b, div, th_v(soft), stmt->args[1]);
  }
  th_value *is_linear = TH_BUILD(b, gt, th_v(scaled), stmt->args[2]);
  th_value *y = TH_BUILD(b, where, th_v(is_linear), th_v(x), th_v(soft));
  return th_expand_out(b, stmt, 0, y, outs);
}

// min(x, 0) - log1p(exp(-|x|))
th_status th_expand_rule_logsigmoid(th_builder *b, const th_stmt *stmt,
                                    th_value **outs) {
  th_value *x = activation_start(b, stmt);
  th_value *tail = TH_E1(log1p, TH_E1(exp, TH_E1(neg, TH_E1(abs, x))));
  return th_expand_out(b, stmt, 0, TH_E2(sub, TH_EI(minimum, x, 0), tail),
                       outs);
}

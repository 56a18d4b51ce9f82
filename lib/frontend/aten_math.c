// Elementwise operations, norms and losses whose form depends on arguments.
#include "frontend/aten.h"

#include "ir/infer.h"

#include <float.h>
#include <math.h>
#include <string.h>

th_status th_aten_div_mode(th_call *call) {
  th_builder *b = call->graph->b;
  const th_pt2_arg *mode = th_call_arg(call, "rounding_mode");
  th_arg x = th_call_operand(call, "self");
  th_arg y = th_call_operand(call, "other");
  const char *text = mode->kind == TH_PT2_STRING ? mode->text : "";
  if (strcmp(text, "floor") == 0) {
    return th_call_return(call, TH_BUILD(b, floor_divide, x, y));
  }
  return th_call_return(call, strcmp(text, "trunc") == 0
                                  ? TH_BUILD(b, trunc_divide, x, y)
                                  : TH_BUILD(b, div, x, y));
}

// round(x * 10^d) / 10^d
th_status th_aten_round_decimals(th_call *call) {
  th_builder *b = call->graph->b;
  int64_t decimals = th_call_int(call, "decimals");
  th_arg x = th_call_operand(call, "self");
  if (decimals == 0) {
    return th_call_return(call, TH_BUILD(b, round, x));
  }
  bool up = decimals > 0;
  th_arg scale = th_f(b->ir, pow(10, (double)(up ? decimals : -decimals)));
  th_value *y = up ? TH_BUILD(b, mul, x, scale) : TH_BUILD(b, div, x, scale);
  y = TH_BUILD(b, round, th_v(y));
  return th_call_return(call, up ? TH_BUILD(b, div, th_v(y), scale)
                                 : TH_BUILD(b, mul, th_v(y), scale));
}

// log(x / (1 - x)); below eps x is eps, else at most 1 - eps
th_status th_aten_logit(th_call *call) {
  th_builder *b = call->graph->b;
  th_arg x = th_call_operand(call, "self");
  const th_expr *eps = th_call_num(call, "eps");
  if (eps) {
    double low = eps->dtype == TH_F64 ? eps->f : (double)eps->i;
    th_value *below = TH_BUILD(b, lt, x, th_n(eps));
    th_value *cut = TH_BUILD(b, minimum, x, th_f(b->ir, 1 - low));
    x = th_v(TH_BUILD(b, where, th_v(below), th_n(eps), th_v(cut)));
  }
  th_value *rest = TH_BUILD(b, sub, th_i(b->ir, 1), x);
  th_value *odds = TH_BUILD(b, div, x, th_v(rest));
  return th_call_return(call, TH_BUILD(b, log, th_v(odds)));
}

static double math_largest(th_dtype dtype) {
  switch (dtype) {
  case TH_F16:
    return 65504;
  case TH_BF16:
    return 0x1.fep127;
  case TH_F64:
    return DBL_MAX;
  default:
    return FLT_MAX;
  }
}

th_status th_aten_nan_to_num(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  th_value *x = th_call_tensor(call, "self");
  if (!x || !th_dtype_is_float(x->type.dtype)) {
    return th_call_return(call, x);
  }
  double largest = math_largest(x->type.dtype);
  const th_expr *nan = th_call_num(call, "nan");
  const th_expr *above = th_call_num(call, "posinf");
  const th_expr *below = th_call_num(call, "neginf");
  th_value *is_nan = TH_BUILD(b, isnan, th_v(x));
  th_value *is_above = TH_BUILD(b, eq, th_v(x), th_f(ir, INFINITY));
  th_value *is_below = TH_BUILD(b, eq, th_v(x), th_f(ir, -INFINITY));
  th_value *y = TH_BUILD(b, where, th_v(is_nan),
                         th_n(nan ? nan : th_float(ir, 0)), th_v(x));
  y = TH_BUILD(b, where, th_v(is_above),
               th_n(above ? above : th_float(ir, largest)), th_v(y));
  return th_call_return(
      call, TH_BUILD(b, where, th_v(is_below),
                     th_n(below ? below : th_float(ir, -largest)), th_v(y)));
}

// ---- norms -----------------------------------------------------------------

// sum(|x|^p)^(1/p), with the limits for p of 0 and of infinity
static th_value *math_norm(th_builder *b, th_value *x, double p, th_arg dims,
                           th_arg keep) {
  th_ir *ir = b->ir;
  th_value *size = TH_BUILD(b, abs, th_v(x));
  if (isinf(p)) {
    return p > 0 ? TH_BUILD(b, amax, th_v(size), dims, keep)
                 : TH_BUILD(b, amin, th_v(size), dims, keep);
  }
  if (p == 0) {
    th_value *some = TH_BUILD(b, ne, th_v(size), th_i(ir, 0));
    if (some) {
      some = TH_BUILD(b, to, th_v(some), th_d(size->type.dtype));
    }
    return TH_BUILD(b, sum, th_v(some), dims, keep);
  }
  th_value *power = p == 1   ? size
                    : p == 2 ? TH_BUILD(b, mul, th_v(size), th_v(size))
                             : TH_BUILD(b, pow, th_v(size), th_f(ir, p));
  th_value *total = TH_BUILD(b, sum, th_v(power), dims, keep);
  return p == 1   ? total
         : p == 2 ? TH_BUILD(b, sqrt, th_v(total))
                  : TH_BUILD(b, pow, th_v(total), th_f(ir, 1 / p));
}

th_status th_aten_vector_norm(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  const th_expr *order = th_call_num(call, "ord");
  order = order ? order : th_call_num(call, "p");
  double p = !order ? 2 : order->dtype == TH_F64 ? order->f : (double)order->i;
  th_arg x = th_call_operand(call, "self");
  th_arg dims = th_call_operand(call, "dim");
  th_arg keep = th_call_given(call, "keepdim")
                    ? th_call_operand(call, "keepdim")
                    : th_b(ir, false);
  const th_pt2_arg *dtype = th_call_arg(call, "dtype");
  if (dtype->kind == TH_PT2_DTYPE) {
    x = th_v(TH_BUILD(b, to, x, th_d(dtype->dtype)));
  }
  if (x.kind != TH_ARG_VALUE) {
    return b->status;
  }
  th_dtype own = x.value->type.dtype;
  if (own == TH_F16 || own == TH_BF16) { // powers would overflow
    th_value *norm =
        math_norm(b, TH_BUILD(b, to, x, th_d(TH_F32)), p, dims, keep);
    return th_call_return(call, TH_BUILD(b, to, th_v(norm), th_d(own)));
  }
  return th_call_return(call, math_norm(b, x.value, p, dims, keep));
}

// |x - y|_p along the last dimension; of all pairs of rows for cdist.
th_status th_aten_distance(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  bool pairs = th_call_is(call, "cdist") || th_call_is(call, "_cdist_forward");
  bool whole = th_call_is(call, "dist");
  th_value *x = th_call_tensor(call, whole ? "self" : "x1");
  th_value *y = th_call_tensor(call, whole ? "other" : "x2");
  const th_expr *order = th_call_num(call, "p");
  if (!x || !y || !order) {
    return b->status;
  }
  if (pairs) {
    x = TH_BUILD(b, unsqueeze, th_v(x), th_i(ir, -2));
    y = TH_BUILD(b, unsqueeze, th_v(y), th_i(ir, -3));
  }
  th_value *gap = TH_BUILD(b, sub, th_v(x), th_v(y));
  const th_expr *eps = th_call_num(call, "eps");
  if (eps) {
    gap = TH_BUILD(b, add, th_v(gap), th_n(eps));
  }
  th_arg dims = whole ? th_none() : th_ints(ir, (const int64_t[]){-1}, 1);
  double p = order->dtype == TH_F64 ? order->f : (double)order->i;
  return gap ? th_call_return(
                   call, math_norm(b, gap, p, dims,
                                   th_b(ir, th_call_bool(call, "keepdim"))))
             : b->status;
}

// ---- losses ----------------------------------------------------------------

static th_value *math_square(th_builder *b, th_value *x) {
  return TH_BUILD(b, mul, th_v(x), th_v(x));
}

th_status th_aten_simple_loss(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *gap = TH_BUILD(b, sub, th_call_operand(call, "self"),
                           th_call_operand(call, "target"));
  if (th_call_is(call, "mse_loss")) {
    return th_call_return(call, th_call_reduce(call, math_square(b, gap)));
  }
  gap = TH_BUILD(b, abs, th_v(gap));
  bool smooth = th_call_is(call, "smooth_l1_loss");
  const th_expr *beta = th_call_num(call, smooth ? "beta" : "delta");
  double edge = !beta ? 0 : beta->dtype == TH_F64 ? beta->f : (double)beta->i;
  if (th_call_is(call, "l1_loss") || (smooth && edge == 0)) {
    return th_call_return(call, th_call_reduce(call, gap));
  }
  // Below the edge half the square, above it a line; huber is `edge` times
  // smooth_l1.
  th_ir *ir = b->ir;
  th_value *inner = TH_BUILD(b, mul, th_v(math_square(b, gap)),
                             th_f(ir, smooth ? 0.5 / edge : 0.5));
  th_value *outer = TH_BUILD(b, sub, th_v(gap), th_f(ir, 0.5 * edge));
  if (!smooth) {
    outer = TH_BUILD(b, mul, th_v(outer), th_f(ir, edge));
  }
  th_value *small = TH_BUILD(b, lt, th_v(gap), th_f(ir, edge));
  return th_call_return(
      call, th_call_reduce(call, TH_BUILD(b, where, th_v(small), th_v(inner),
                                          th_v(outer))));
}

static th_value *math_weighted(th_call *call, th_value *loss) {
  th_value *weight = th_call_tensor(call, "weight");
  return weight ? TH_BUILD(call->graph->b, mul, th_v(loss), th_v(weight))
                : loss;
}

// (1 - y) x + (1 + (w - 1) y) (log(1 + exp(-|x|)) + max(-x, 0))
th_status th_aten_bce_logits(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  th_arg x = th_call_operand(call, "self");
  th_arg y = th_call_operand(call, "target");
  th_value *positive = th_call_tensor(call, "pos_weight");
  th_value *rest = TH_BUILD(b, sub, th_i(ir, 1), y);
  th_value *loss = TH_BUILD(b, mul, th_v(rest), x);
  th_value *soft = TH_BUILD(b, logsigmoid, x);
  if (positive) {
    th_value *more = TH_BUILD(b, sub, th_v(positive), th_i(ir, 1));
    more = TH_BUILD(b, mul, th_v(more), y);
    more = TH_BUILD(b, add, th_v(more), th_i(ir, 1));
    soft = TH_BUILD(b, mul, th_v(more), th_v(soft));
  }
  loss = TH_BUILD(b, sub, th_v(loss), th_v(soft));
  return th_call_return(call, th_call_reduce(call, math_weighted(call, loss)));
}

// -(y max(log x, -100) + (1 - y) max(log(1 - x), -100))
th_status th_aten_bce(th_call *call) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  th_arg x = th_call_operand(call, "self");
  th_arg y = th_call_operand(call, "target");
  th_value *yes = TH_BUILD(b, log, x);
  yes = TH_BUILD(b, clamp, th_v(yes), th_i(ir, -100));
  th_value *no = TH_BUILD(b, neg, x);
  no = TH_BUILD(b, log1p, th_v(no));
  no = TH_BUILD(b, clamp, th_v(no), th_i(ir, -100));
  th_value *rest = TH_BUILD(b, sub, y, th_i(ir, 1));
  th_value *left = TH_BUILD(b, mul, th_v(rest), th_v(no));
  th_value *right = TH_BUILD(b, mul, y, th_v(yes));
  th_value *loss = TH_BUILD(b, sub, th_v(left), th_v(right));
  return th_call_return(call, th_call_reduce(call, math_weighted(call, loss)));
}

// y (log y - x), or exp(y) (y - x) for a target of logarithms
th_status th_aten_kl_div(th_call *call) {
  th_builder *b = call->graph->b;
  th_arg x = th_call_operand(call, "self");
  th_arg y = th_call_operand(call, "target");
  th_value *loss;
  if (th_call_bool(call, "log_target")) {
    th_value *gap = TH_BUILD(b, sub, y, x);
    th_value *p = TH_BUILD(b, exp, y);
    loss = TH_BUILD(b, mul, th_v(p), th_v(gap));
  } else {
    th_value *zero = TH_BUILD(b, eq, y, th_i(b->ir, 0));
    th_value *p = TH_BUILD(b, log, y);
    p = TH_BUILD(b, mul, th_v(p), y);
    p = TH_BUILD(b, where, th_v(zero), th_i(b->ir, 0), th_v(p));
    th_value *q = TH_BUILD(b, mul, y, x);
    loss = TH_BUILD(b, sub, th_v(p), th_v(q));
  }
  return th_call_return(call, th_call_reduce(call, loss));
}

// The weight of each target: that of its class, 0 for the ignored one.
static th_value *math_class_weight(th_call *call, th_value *target,
                                   th_value *safe, th_dtype dtype) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  th_value *weight = th_call_tensor(call, "weight");
  th_value *used =
      TH_BUILD(b, ne, th_v(target), th_call_operand(call, "ignore_index"));
  used = TH_BUILD(b, to, th_v(used), th_d(dtype));
  if (!weight || !safe) {
    return used;
  }
  th_value *flat =
      TH_BUILD(b, reshape, th_v(safe), th_ints(ir, (const int64_t[]){-1}, 1));
  th_value *own =
      TH_BUILD(b, index_select, th_v(weight), th_i(ir, 0), th_v(flat));
  own = TH_BUILD(b, reshape, th_v(own), th_call_shape(call, safe));
  return TH_BUILD(b, mul, th_v(own), th_v(used));
}

// Losses weighted and reduced; a mean is over the weights.
static th_value *math_class_reduce(th_call *call, th_value *loss,
                                   th_value *weight) {
  th_builder *b = call->graph->b;
  int64_t how = th_call_int(call, "reduction");
  if (how == 0) {
    return loss;
  }
  loss = TH_BUILD(b, sum, th_v(loss));
  if (how == 2) {
    return loss;
  }
  th_value *total = TH_BUILD(b, sum, th_v(weight));
  return TH_BUILD(b, div, th_v(loss), th_v(total));
}

// -w[t] x[t] over classes in dimension 1 (0 without a batch); `smoothing` mixes
// in the mean over all classes.
static th_status math_nll(th_call *call, th_value *x, th_value *target,
                          double smoothing) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  int dim = x->type.rank > 1;
  if (target->type.dtype != TH_I64) {
    target = TH_BUILD(b, to, th_v(target), th_d(TH_I64));
  }
  th_value *used =
      TH_BUILD(b, ne, th_v(target), th_call_operand(call, "ignore_index"));
  th_value *safe = TH_BUILD(b, where, th_v(used), th_v(target), th_i(ir, 0));
  th_value *at = TH_BUILD(b, unsqueeze, th_v(safe), th_i(ir, dim));
  th_value *own = TH_BUILD(b, gather, th_v(x), th_i(ir, dim), th_v(at));
  own = TH_BUILD(b, squeeze, th_v(own), th_ints(ir, (int64_t[]){dim}, 1));
  th_value *weight = math_class_weight(call, target, safe, x->type.dtype);
  th_value *loss = TH_BUILD(b, mul, th_v(own), th_v(weight));
  loss = TH_BUILD(b, neg, th_v(loss));
  if (smoothing == 0) {
    return th_call_return(call, math_class_reduce(call, loss, weight));
  }
  const th_expr *classes = x->type.dims[dim];
  th_value *each = x, *by_class = th_call_tensor(call, "weight");
  if (by_class) {
    int64_t line[TH_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
      line[i] = i == dim ? -1 : 1;
    }
    by_class =
        TH_BUILD(b, reshape, th_v(by_class), th_ints(ir, line, x->type.rank));
    each = TH_BUILD(b, mul, th_v(x), th_v(by_class));
  }
  th_value *all =
      TH_BUILD(b, sum, th_v(each), th_ints(ir, (int64_t[]){dim}, 1));
  th_value *zeroed = TH_BUILD(b, where, th_v(used), th_v(all), th_i(ir, 0));
  zeroed = TH_BUILD(b, neg, th_v(zeroed));
  loss = math_class_reduce(call, loss, weight);
  th_value *smooth = math_class_reduce(call, zeroed, weight);
  loss = TH_BUILD(b, mul, th_v(loss), th_f(ir, 1 - smoothing));
  smooth = TH_BUILD(b, mul, th_v(smooth), th_f(ir, smoothing));
  smooth = TH_BUILD(b, div, th_v(smooth), th_n(classes));
  return th_call_return(call, TH_BUILD(b, add, th_v(loss), th_v(smooth)));
}

static bool math_fits_classes(const th_value *x, const th_value *target) {
  return x && target && x->type.rank > 0 &&
         target->type.rank + 1 == x->type.rank &&
         !th_dtype_is_float(target->type.dtype);
}

th_status th_aten_nll_loss(th_call *call) {
  th_value *x = th_call_tensor(call, "self");
  th_value *target = th_call_tensor(call, "target");
  if (!math_fits_classes(x, target)) {
    return call->graph->b->status ? call->graph->b->status
                                  : th_call_unsupported(call, "such a target");
  }
  return math_nll(call, x, target, 0);
}

// Targets that are probabilities: -sum(w p log_softmax(x)).
static th_status math_soft_targets(th_call *call, th_value *x, th_value *target,
                                   double smoothing) {
  th_builder *b = call->graph->b;
  th_ir *ir = b->ir;
  int dim = x->type.rank > 1;
  if (smoothing > 0) {
    const th_expr *parts[] = {th_float(ir, smoothing), x->type.dims[dim]};
    const th_expr *share = th_expr_make(ir, TH_X_DIV, parts, 2);
    target = TH_BUILD(b, mul, th_v(target), th_f(ir, 1 - smoothing));
    target = TH_BUILD(b, add, th_v(target), share ? th_n(share) : th_none());
  }
  th_value *loss = TH_BUILD(b, mul, th_v(x), th_v(target));
  th_value *weight = th_call_tensor(call, "weight");
  if (weight) {
    int64_t line[TH_MAX_RANK];
    for (int i = 0; i < x->type.rank; i++) {
      line[i] = i == dim ? -1 : 1;
    }
    weight =
        TH_BUILD(b, reshape, th_v(weight), th_ints(ir, line, x->type.rank));
    loss = TH_BUILD(b, mul, th_v(loss), th_v(weight));
  }
  loss = TH_BUILD(b, sum, th_v(loss), th_ints(ir, (int64_t[]){dim}, 1));
  loss = TH_BUILD(b, neg, th_v(loss));
  return th_call_return(call, th_call_reduce(call, loss));
}

th_status th_aten_cross_entropy(th_call *call) {
  th_builder *b = call->graph->b;
  th_value *x = th_call_tensor(call, "self");
  th_value *target = th_call_tensor(call, "target");
  const th_expr *mix = th_call_num(call, "label_smoothing");
  double smoothing = !mix ? 0 : mix->dtype == TH_F64 ? mix->f : (double)mix->i;
  if (!x || !target || x->type.rank == 0) {
    return b->status ? b->status : th_call_unsupported(call, "such an input");
  }
  th_value *logs =
      TH_BUILD(b, log_softmax, th_v(x), th_i(b->ir, x->type.rank > 1));
  if (!logs) {
    return b->status;
  }
  if (th_dtype_is_float(target->type.dtype)) {
    return math_soft_targets(call, logs, target, smoothing);
  }
  return math_fits_classes(x, target)
             ? math_nll(call, logs, target, smoothing)
             : th_call_unsupported(call, "such a target");
}

// Convolution, pooling and resizing: reductions over a window, with selects
// where the window leaves the operand.
#include "lowering/rules.h"

#include <math.h>

enum { WINDOW_MAX = 6 };

// The window of one statement over the spatial dimensions of x.
typedef struct rule_window {
  uint8_t lead, count;              // dimensions before the window, and in it
  const th_expr *inner[WINDOW_MAX]; // position in the window
  const th_expr *at[TH_MAX_RANK];   // element of x
  const th_expr *inside;            // whether it exists
  th_var_set vars;
} rule_window;

static int64_t rule_item(const th_arg *list, uint32_t i, int64_t missing) {
  if (list->kind != TH_ARG_LIST || list->count == 0) {
    return missing;
  }
  const th_arg *item = &list->items[list->count == 1 ? 0 : i];
  return item->num->i;
}

// kernel, stride, padding and dilation are lists of constants.
static bool rule_constant_lists(th_nest *n, const th_stmt *stmt,
                                const uint16_t *args, uint32_t count) {
  for (uint32_t a = 0; a < count; a++) {
    const th_arg *list = &stmt->args[args[a]];
    for (uint32_t i = 0; list->kind == TH_ARG_LIST && i < list->count; i++) {
      if (!th_is_const(list->items[i].num)) {
        th_nest_fail(n, stmt, "%s is not constant",
                     stmt->op->params[args[a]].name);
        return false;
      }
    }
  }
  return true;
}

static void rule_inside(th_nest *n, rule_window *w, const th_expr *at,
                        const th_expr *size) {
  const th_expr *low = th_nest_le(n, th_int(n->ir, 0), at);
  const th_expr *high = th_nest_lt(n, at, size);
  w->inside = th_nest_and(n, w->inside, th_nest_and(n, low, high));
}

// ---- convolution

typedef struct rule_conv {
  const th_value *x, *weight;
  const th_expr *group;    // of the output channel
  const th_expr *channel;  // input channel inside the group, reduced
  const th_expr *in_group; // output channel inside the group
  int64_t groups;
  bool transposed;
} rule_conv;

// One spatial dimension: where output position `o` and window position `k`
// meet the input.
static const th_expr *rule_conv_at(th_nest *n, const th_stmt *stmt, uint32_t d,
                                   const th_expr *o, const th_expr *k,
                                   bool transposed, rule_window *w) {
  th_ir *ir = n->ir;
  const th_expr *stride = th_int(ir, rule_item(&stmt->args[3], d, 1));
  const th_expr *pad = th_int(ir, rule_item(&stmt->args[4], d, 0));
  const th_expr *dilation = th_int(ir, rule_item(&stmt->args[5], d, 1));
  const th_expr *reach = th_expr_mul(ir, k, dilation);
  if (!transposed) {
    const th_expr *start = th_expr_sub(ir, th_expr_mul(ir, o, stride), pad);
    return th_expr_add(ir, start, reach);
  }
  const th_expr *num = th_expr_sub(ir, th_expr_add(ir, o, pad), reach);
  const th_expr *rest = th_space_mod(&n->space, num, stride);
  const th_expr *even =
      th_expr_make(ir, TH_X_EQ, (const th_expr *[]){rest, th_int(ir, 0)}, 2);
  w->inside = th_nest_and(n, w->inside, even);
  return th_space_div(&n->space, num, stride);
}

static void rule_conv_window(th_nest *n, const th_stmt *stmt,
                             const th_expr *const *index, rule_conv *c,
                             rule_window *w) {
  th_ir *ir = n->ir;
  uint8_t batched = (uint8_t)(w->lead - 1);
  const th_expr *per_group = th_nest_dim(n, c->x, batched);
  per_group = th_space_div(&n->space, per_group, th_int(ir, c->groups));
  c->channel = th_nest_range(n, per_group, &w->vars);
  if (batched) {
    w->at[0] = index[0];
  }
  w->at[batched] =
      th_expr_add(ir, th_expr_mul(ir, c->group, per_group), c->channel);
  for (uint8_t d = 0; d < w->count; d++) {
    const th_expr *extent = th_nest_dim(n, c->weight, (uint8_t)(2 + d));
    w->inner[d] = th_nest_range(n, extent, &w->vars);
    const th_expr *at = rule_conv_at(n, stmt, d, index[w->lead + d],
                                     w->inner[d], c->transposed, w);
    w->at[w->lead + d] = at;
    rule_inside(n, w, at, th_nest_dim(n, c->x, (uint8_t)(w->lead + d)));
  }
}

static th_node *rule_conv_weight(th_nest *n, const rule_conv *c,
                                 const rule_window *w,
                                 const th_expr *out_channel) {
  const th_expr *at[TH_MAX_RANK];
  at[0] = c->transposed ? w->at[w->lead - 1] : out_channel;
  at[1] = c->transposed ? c->in_group : c->channel;
  for (uint8_t d = 0; d < w->count; d++) {
    at[2 + d] = w->inner[d];
  }
  return th_nest_pull(n, c->weight, at);
}

th_node *th_rule_convolution(th_nest *n, const th_stmt *stmt, uint16_t out,
                             const th_expr *const *index) {
  static const uint16_t lists[] = {3, 4, 5, 7};
  th_ir *ir = n->ir;
  rule_conv c = {.x = th_operand(stmt, 0),
                 .weight = th_operand(stmt, 1),
                 .groups = th_nest_int(n, stmt, 8),
                 .transposed = th_stmt_bool(stmt, 6)};
  rule_window w = {.count = (uint8_t)(c.weight->type.rank - 2),
                   .inside = th_bool(ir, true)};
  w.lead = (uint8_t)(c.x->type.rank - w.count);
  if (w.count > WINDOW_MAX ||
      !rule_constant_lists(n, stmt, lists, TH_COUNT(lists))) {
    return th_nest_fail(n, stmt, "%u spatial dimensions", w.count);
  }
  const th_expr *channel = index[w.lead - 1];
  const th_expr *per_group = th_space_div(
      &n->space, th_nest_import(n, stmt->outs[out]->type.dims[w.lead - 1]),
      th_int(ir, c.groups));
  c.group = th_space_div(&n->space, channel, per_group);
  c.in_group = th_space_mod(&n->space, channel, per_group);
  rule_conv_window(n, stmt, index, &c, &w);

  th_dtype dtype = th_result_dtype(stmt, out);
  th_dtype sum = dtype == TH_F16 || dtype == TH_BF16 ? TH_F32 : dtype;
  bool always = th_is_const(w.inside) && w.inside->i;
  n->guard += !always;
  th_node *x = th_node_convert(n, th_nest_pull(n, c.x, w.at), sum);
  n->guard -= !always;
  x = th_node_select(n, w.inside, x, th_node_number(n, th_int(ir, 0), sum));
  th_node *weight =
      th_node_convert(n, rule_conv_weight(n, &c, &w, channel), sum);
  th_node *product =
      th_node_apply(n, TH_OP_mul, sum, stmt, (th_node *[]){x, weight}, 2);
  th_node *node =
      th_node_reduce(n, TH_OP_convolution, sum, stmt, product, w.vars, NULL);
  const th_value *bias = th_operand(stmt, 2);
  if (bias) {
    th_node *b = th_node_convert(n, th_nest_pull(n, bias, &channel), sum);
    node = th_node_apply(n, TH_OP_add, sum, stmt, (th_node *[]){node, b}, 2);
  }
  return th_node_convert(n, node, dtype);
}

// ---- pooling

// Window of a pooling statement; args: kernel, stride, padding (dilation).
static void rule_pool_window(th_nest *n, const th_stmt *stmt,
                             const th_expr *const *index, bool dilated,
                             rule_window *w) {
  th_ir *ir = n->ir;
  const th_value *x = th_operand(stmt, 0);
  w->inside = th_bool(ir, true);
  w->count = (uint8_t)stmt->args[1].count;
  w->lead = (uint8_t)(x->type.rank - w->count);
  for (uint8_t i = 0; i < w->lead; i++) {
    w->at[i] = index[i];
  }
  for (uint8_t d = 0; d < w->count && d < WINDOW_MAX; d++) {
    int64_t kernel = rule_item(&stmt->args[1], d, 1);
    int64_t stride = rule_item(&stmt->args[2], d, kernel);
    int64_t pad = rule_item(&stmt->args[3], d, 0);
    int64_t dilation = dilated ? rule_item(&stmt->args[4], d, 1) : 1;
    w->inner[d] = th_nest_range(n, th_int(ir, kernel), &w->vars);
    const th_expr *start =
        th_expr_sub(ir, th_expr_mul(ir, index[w->lead + d], th_int(ir, stride)),
                    th_int(ir, pad));
    const th_expr *at = th_expr_add(
        ir, start, th_expr_mul(ir, w->inner[d], th_int(ir, dilation)));
    w->at[w->lead + d] = at;
    rule_inside(n, w, at, th_nest_dim(n, x, (uint8_t)(w->lead + d)));
  }
}

// x inside the window's part of it, `fill` outside.
static th_node *rule_window_pull(th_nest *n, const th_value *x,
                                 const rule_window *w, th_dtype dtype,
                                 const th_expr *fill) {
  bool always = th_is_const(w->inside) && w->inside->i;
  n->guard += !always;
  th_node *node = th_node_convert(n, th_nest_pull(n, x, w->at), dtype);
  n->guard -= !always;
  return th_node_select(n, w->inside, node, th_node_number(n, fill, dtype));
}

static const th_expr *rule_lowest(th_nest *n, th_dtype dtype) {
  switch (dtype) {
  case TH_I8:
    return th_int(n->ir, INT8_MIN);
  case TH_I16:
    return th_int(n->ir, INT16_MIN);
  case TH_I32:
    return th_int(n->ir, INT32_MIN);
  case TH_I64:
    return th_int(n->ir, INT64_MIN);
  case TH_U8:
  case TH_BOOL:
    return th_int(n->ir, 0);
  default:
    return th_float(n->ir, -INFINITY);
  }
}

th_node *th_rule_max_pool(th_nest *n, const th_stmt *stmt, uint16_t out,
                          const th_expr *const *index) {
  static const uint16_t lists[] = {1, 2, 3, 4};
  const th_value *x = th_operand(stmt, 0);
  rule_window w = {0};
  if (!rule_constant_lists(n, stmt, lists, TH_COUNT(lists)) ||
      stmt->args[1].count > WINDOW_MAX) {
    return th_nest_fail(n, stmt, "%u window dimensions", stmt->args[1].count);
  }
  rule_pool_window(n, stmt, index, true, &w);
  th_node *node =
      rule_window_pull(n, x, &w, x->type.dtype, rule_lowest(n, x->type.dtype));
  if (out == 0) {
    return th_node_reduce(n, TH_OP_amax, x->type.dtype, stmt, node, w.vars,
                          NULL);
  }
  const th_expr *dims[WINDOW_MAX];
  for (uint8_t d = 0; d < w.count; d++) {
    dims[d] = th_nest_dim(n, x, (uint8_t)(w.lead + d));
  }
  const th_expr *flat =
      th_space_flatten(&n->space, w.count, dims, &w.at[w.lead]);
  return th_node_reduce(n, TH_OP_argmax, TH_I64, stmt, node, w.vars, flat);
}

// sum / count, the count an integer expression.
static th_node *rule_average(th_nest *n, const th_stmt *stmt,
                             const rule_window *w, const th_expr *count) {
  const th_value *x = th_operand(stmt, 0);
  th_dtype dtype = x->type.dtype;
  th_dtype sum = dtype == TH_F16 || dtype == TH_BF16 ? TH_F32 : dtype;
  th_node *node = rule_window_pull(n, x, w, sum, th_int(n->ir, 0));
  node = th_node_reduce(n, TH_OP_sum, sum, stmt, node, w->vars, NULL);
  th_node *by = th_node_convert(n, th_node_index(n, count), sum);
  th_op divide = th_dtype_is_float(sum) ? TH_OP_div : TH_OP_trunc_divide;
  node = th_node_apply(n, divide, sum, stmt, (th_node *[]){node, by}, 2);
  return th_node_convert(n, node, dtype);
}

// min(a, b) and max, where all iterations agree without the operation.
static const th_expr *rule_min(th_nest *n, const th_expr *a, const th_expr *b) {
  int known = th_space_known(&n->space, TH_X_LE, a, b);
  return known == 1 ? a : known == 0 ? b : th_expr_min(n->ir, a, b);
}

static const th_expr *rule_max(th_nest *n, const th_expr *a, const th_expr *b) {
  int known = th_space_known(&n->space, TH_X_LE, a, b);
  return known == 1 ? b : known == 0 ? a : th_expr_max(n->ir, a, b);
}

th_node *th_rule_avg_pool(th_nest *n, const th_stmt *stmt, uint16_t out,
                          const th_expr *const *index) {
  (void)out;
  static const uint16_t lists[] = {1, 2, 3};
  th_ir *ir = n->ir;
  const th_value *x = th_operand(stmt, 0);
  bool include = th_stmt_bool(stmt, 5);
  rule_window w = {0};
  if (!rule_constant_lists(n, stmt, lists, TH_COUNT(lists)) ||
      stmt->args[1].count > WINDOW_MAX) {
    return th_nest_fail(n, stmt, "%u window dimensions", stmt->args[1].count);
  }
  rule_pool_window(n, stmt, index, false, &w);
  const th_expr *count = th_nest_num(n, stmt, 6);
  if (!count) {
    count = th_int(ir, 1);
    for (uint8_t d = 0; d < w.count; d++) {
      const th_expr *size = th_nest_dim(n, x, (uint8_t)(w.lead + d));
      int64_t kernel = rule_item(&stmt->args[1], d, 1);
      const th_expr *pad = th_int(ir, rule_item(&stmt->args[3], d, 0));
      const th_expr *start = th_expr_sub(ir, w.at[w.lead + d], w.inner[d]);
      const th_expr *end = th_expr_add(ir, start, th_int(ir, kernel));
      end = rule_min(n, end, th_expr_add(ir, size, pad));
      if (!include) {
        start = rule_max(n, start, th_int(ir, 0));
        end = rule_min(n, end, size);
      }
      count = th_expr_mul(ir, count, th_expr_sub(ir, end, start));
    }
  }
  return rule_average(n, stmt, &w, count);
}

// Window i of a size S cut into O parts: [i*S // O, ceil((i+1)*S / O)).
th_node *th_rule_adaptive_avg_pool(th_nest *n, const th_stmt *stmt,
                                   uint16_t out, const th_expr *const *index) {
  th_ir *ir = n->ir;
  const th_value *x = th_operand(stmt, 0), *result = stmt->outs[out];
  rule_window w = {.count = (uint8_t)stmt->args[1].count,
                   .inside = th_bool(ir, true)};
  if (w.count > WINDOW_MAX) {
    return th_nest_fail(n, stmt, "%u window dimensions", w.count);
  }
  w.lead = (uint8_t)(x->type.rank - w.count);
  const th_expr *count = th_int(ir, 1);
  for (uint8_t i = 0; i < w.lead; i++) {
    w.at[i] = index[i];
  }
  for (uint8_t d = 0; d < w.count; d++) {
    const th_expr *size = th_nest_dim(n, x, (uint8_t)(w.lead + d));
    const th_expr *parts = th_nest_dim(n, result, (uint8_t)(w.lead + d));
    const th_expr *o = index[w.lead + d], *one = th_int(ir, 1);
    const th_expr *start =
        th_space_div(&n->space, th_expr_mul(ir, o, size), parts);
    const th_expr *even = th_expr_floordiv(ir, size, parts);
    if (even && th_expr_mul(ir, even, parts) == size) {
      w.inner[d] = th_nest_range(n, even, &w.vars);
      w.at[w.lead + d] = th_expr_add(ir, start, w.inner[d]);
      count = th_expr_mul(ir, count, even);
      continue;
    }
    const th_expr *next = th_expr_mul(ir, th_expr_add(ir, o, one), size);
    next = th_expr_add(ir, next, th_expr_sub(ir, parts, one));
    const th_expr *end = th_space_div(&n->space, next, parts);
    const th_expr *most = th_expr_add(ir, even, th_int(ir, 2));
    w.inner[d] = th_nest_range(n, most, &w.vars);
    w.at[w.lead + d] = th_expr_add(ir, start, w.inner[d]);
    w.inside = th_nest_and(n, w.inside, th_nest_lt(n, w.at[w.lead + d], end));
    count = th_expr_mul(ir, count, th_expr_sub(ir, end, start));
  }
  return rule_average(n, stmt, &w, count);
}

th_node *th_rule_upsample_nearest(th_nest *n, const th_stmt *stmt, uint16_t out,
                                  const th_expr *const *index) {
  const th_value *x = th_operand(stmt, 0), *result = stmt->outs[out];
  const th_expr *at[TH_MAX_RANK];
  uint8_t lead = (uint8_t)(x->type.rank - stmt->args[1].count);
  for (uint8_t i = 0; i < x->type.rank; i++) {
    at[i] = index[i];
    if (i >= lead) {
      const th_expr *scaled =
          th_expr_mul(n->ir, index[i], th_nest_dim(n, x, i));
      at[i] = th_space_div(&n->space, scaled, th_nest_dim(n, result, i));
    }
  }
  return th_nest_pull(n, x, at);
}

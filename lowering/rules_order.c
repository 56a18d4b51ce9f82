// Statements whose elements depend on one another: running sums, sorting,
// histograms.
#include "lowering/rules.h"

// A range for each dimension; that of `dim` stays whole.
static th_var_set order_ranges(th_nest *n, const th_value *x, uint8_t dim,
                               const th_expr **index, int *out_var) {
  th_var_set vars = 0;
  *out_var = -1;
  for (uint8_t i = 0; i < x->type.rank; i++) {
    th_var_set own = 0;
    index[i] = th_nest_range(n, th_nest_dim(n, x, i), &own);
    n->ranges[n->range_count - 1].whole = i == dim;
    *out_var = i == dim && own ? __builtin_ctzll(own) : *out_var;
    vars |= own;
  }
  return vars;
}

void th_special_scan(th_nest *n, const th_stmt *stmt) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *index[TH_MAX_RANK];
  int scan_var = -1;
  uint8_t rank = x->type.rank;
  uint8_t dim = rank ? th_nest_dim_arg(stmt, 1, rank) : 0;
  th_var_set vars = order_ranges(n, x, dim, index, &scan_var);
  th_dtype dtype = stmt->outs[0]->type.dtype;
  th_node *node = th_node_convert(n, th_nest_pull(n, x, index), dtype);
  th_store *store = th_nest_add_store(n, stmt->outs[0], node, index, vars);
  store->kind = scan_var < 0 ? TH_STORE_SET : TH_STORE_SCAN;
  store->op = stmt->op->op;
  store->scan_var = scan_var;
  n->phase_count++;
}

// Keys are read as they lie; values and places are written by one call for
// each row (runtime.h).
void th_special_sort(th_nest *n, const th_stmt *stmt) {
  const th_value *x = th_operand(stmt, 0);
  const th_expr *index[TH_MAX_RANK];
  int var = -1;
  uint8_t rank = x->type.rank;
  uint8_t dim = rank ? th_nest_dim_arg(stmt, 1, rank) : 0;
  th_var_set vars = order_ranges(n, x, dim, index, &var);
  th_node *keys = th_nest_pull(n, x, index);
  th_node *zero = th_node_number(n, th_int(n->ir, 0), TH_I64);
  if (keys->kind != TH_NODE_LOAD) {
    th_nest_fail(n, stmt, "the operand is not in memory");
    return;
  }
  for (uint16_t i = 0; i < stmt->out_count && i < 2; i++) {
    if (!stmt->outs[i]) {
      continue;
    }
    th_node *node = var < 0 && i == 1 ? zero : keys;
    th_store *store = th_nest_add_store(n, stmt->outs[i], node, index, vars);
    if (var >= 0) {
      store->kind = TH_STORE_SORT;
      store->scan_var = var;
      store->order = i ? 1 : 0;
      store->descending = th_stmt_bool(stmt, 2);
    }
  }
  n->phase_count++;
}

// Zeros, then one more in the bin of each element between min and max.
void th_special_histc(th_nest *n, const th_stmt *stmt) {
  th_ir *ir = n->ir;
  const th_value *x = th_operand(stmt, 0), *out = stmt->outs[0];
  const th_expr *bins = th_nest_num(n, stmt, 1), *at = NULL;
  const th_expr *index[TH_MAX_RANK];
  th_var_set vars = 0;
  th_dtype dtype = out->type.dtype;
  at = th_nest_range(n, bins, &vars);
  th_node *zero = th_node_number(n, th_int(ir, 0), dtype);
  th_nest_add_store(n, out, zero, &at, vars);
  n->phase_count++;
  n->sequential = true;

  int none = -1;
  vars = order_ranges(n, x, TH_MAX_RANK, index, &none);
  th_node *value = th_node_convert(n, th_nest_pull(n, x, index), TH_F64);
  th_node *low = th_node_number(n, th_nest_num(n, stmt, 2), TH_F64);
  th_node *high = th_node_number(n, th_nest_num(n, stmt, 3), TH_F64);
  th_node *count = th_node_number(n, bins, TH_F64);
#define NODE(op, dt, ...)                                                      \
  th_node_apply(n, TH_OP_##op, dt, stmt, (th_node *[]){__VA_ARGS__},           \
                (uint32_t)TH_COUNT(((th_node *[]){__VA_ARGS__})))
  th_node *from = NODE(sub, TH_F64, value, low);
  th_node *span = NODE(sub, TH_F64, high, low);
  th_node *scaled = NODE(mul, TH_F64, NODE(div, TH_F64, from, span), count);
  th_node *bin = th_node_convert(n, scaled, TH_I64);
  // The last bin holds max itself; outside goes nowhere, into bin 0.
  th_node *last =
      th_node_number(n, th_expr_sub(ir, bins, th_int(ir, 1)), TH_I64);
  th_node *inside = NODE(logical_and, TH_BOOL, NODE(ge, TH_BOOL, value, low),
                         NODE(le, TH_BOOL, value, high));
  th_node *first = th_node_number(n, th_int(ir, 0), TH_I64);
  bin = NODE(where, TH_I64, inside, NODE(minimum, TH_I64, bin, last), first);
  th_node *one = th_node_convert(n, inside, dtype);
#undef NODE
  at = th_nest_checked(n, stmt, bin, bins);
  th_store *store = th_nest_add_store(n, out, one, &at, vars);
  store->kind = TH_STORE_ADD;
  n->phase_count++;
}

// Linear layers and attention as matrix products.
#include "ir/expand_util.h"

#include <math.h>

th_status th_expand_rule_linear(th_builder *b, const th_stmt *stmt,
                                th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0), *weight = th_expand_arg(stmt, 1);
  th_value *bias = th_expand_arg(stmt, 2);
  if (bias) {
    // The sum of the product and the bias rounds once.
    th_dtype compute = th_expand_compute(x->type.dtype);
    x = th_expand_to(b, x, compute);
    weight = th_expand_to(b, weight, compute);
    bias = th_expand_to(b, bias, compute);
  }
  if (weight && weight->type.rank == 2) {
    weight = TH_BUILD(b, permute, th_v(weight),
                      th_ints(b->ir, (int64_t[]){1, 0}, 2));
  }
  th_value *y = TH_E2(matmul, x, weight);
  if (bias) {
    y = TH_E2(add, y, bias);
  }
  return th_expand_out(b, stmt, 0, y, outs);
}

// beta * input + alpha * (x @ y), rounded once.  With beta 0 the input is not
// read, so that its NaN do not spread.
th_status th_expand_rule_addmm(th_builder *b, const th_stmt *stmt,
                               th_value **outs) {
  th_dtype dtype = th_expand_arg(stmt, 1)->type.dtype;
  th_arg beta = th_expand_scalar(b, stmt, 3, dtype);
  th_arg alpha = th_expand_scalar(b, stmt, 4, dtype);
  bool is_product = th_expand_is(&beta, 0) && th_expand_is(&alpha, 1);
  th_dtype compute = is_product ? dtype : th_expand_compute(dtype);
  th_value *x = th_expand_to(b, th_expand_arg(stmt, 1), compute);
  th_value *y = th_expand_to(b, th_expand_arg(stmt, 2), compute);
  y = th_expand_scale(b, TH_E2(matmul, x, y), alpha);
  if (!th_expand_is(&beta, 0)) {
    th_value *input = th_expand_to(b, th_expand_arg(stmt, 0), compute);
    y = TH_E2(add, th_expand_scale(b, input, beta), y);
  }
  return th_expand_out(b, stmt, 0, y, outs);
}

th_status th_expand_rule_addmm_batched(th_builder *b, const th_stmt *stmt,
                                       th_value **outs) {
  return th_expand_rule_addmm(b, stmt, outs);
}

// ---- attention
//
//   softmax(query key^T * scale + mask) value
//
// Grouped heads: query [.., Hq, L, E] is seen as [.., Hk, Hq/Hk, L, E] and
// keys and values as [.., Hk, 1, S, E], so that they broadcast and are not
// repeated in memory.  A row that a mask hides wholly gives 0, as PyTorch's
// kernels do.

typedef struct attention_parts {
  th_value *query, *key, *value, *mask;
  const th_expr *heads,
      *groups; // of keys; queries for each.  NULL: not grouped
} attention_parts;

static th_value *attention_split_heads(th_builder *b, th_value *x,
                                       const attention_parts *p) {
  const th_expr *dims[TH_MAX_RANK];
  uint32_t n = 0;
  if (!x) {
    return NULL;
  }
  for (uint32_t d = 0; d < x->type.rank; d++) {
    if (d + 3 == x->type.rank) {
      dims[n++] = p->heads;
      dims[n++] = p->groups;
    } else {
      dims[n++] = x->type.dims[d];
    }
  }
  return th_expand_reshape(b, x, dims, n);
}

static void attention_group(th_builder *b, attention_parts *p) {
  const th_type *q = &p->query->type, *k = &p->key->type;
  const th_expr *heads = q->dims[q->rank - 3];
  p->heads = k->dims[k->rank - 3];
  if (heads == p->heads) {
    p->heads = NULL;
    return;
  }
  p->groups = th_expr_floordiv(b->ir, heads, p->heads);
  p->query = attention_split_heads(b, p->query, p);
  p->key = TH_EI(unsqueeze, p->key, -3);
  p->value = TH_EI(unsqueeze, p->value, -3);
  if (p->mask && p->mask->type.rank >= 3) {
    const th_type *m = &p->mask->type;
    p->mask = th_is_int(m->dims[m->rank - 3], 1)
                  ? TH_EI(unsqueeze, p->mask, -3)
                  : attention_split_heads(b, p->mask, p);
  }
}

static th_value *attention_transpose(th_builder *b, th_value *x) {
  int64_t order[TH_MAX_RANK];
  if (!x) {
    return NULL;
  }
  uint8_t rank = x->type.rank;
  for (uint8_t d = 0; d < rank; d++) {
    order[d] = d + 2 == rank ? rank - 1 : d + 1 == rank ? rank - 2 : d;
  }
  return TH_BUILD(b, permute, th_v(x), th_ints(b->ir, order, rank));
}

static th_arg attention_scale(th_builder *b, const th_stmt *stmt) {
  th_ir *ir = b->ir;
  const th_type *q = &th_expand_arg(stmt, 0)->type;
  const th_expr *width = q->dims[q->rank - 1];
  if (stmt->args[6].kind == TH_ARG_NUM) {
    return stmt->args[6];
  }
  if (th_is_const(width)) {
    return th_f(ir, 1 / sqrt((double)width->i));
  }
  const th_expr *root = th_expr_make(ir, TH_X_SQRT, &width, 1);
  const th_expr *args[] = {th_float(ir, 1), root};
  return th_expand_num(b, th_expr_make(ir, TH_X_DIV, args, 2));
}

// Scores with what is hidden at -inf.
static th_value *attention_hide(th_builder *b, th_value *scores,
                                const attention_parts *p, bool is_causal) {
  th_arg hidden = th_f(b->ir, -(double)INFINITY);
  if (scores && is_causal) {
    const th_type *type = &scores->type;
    th_value *rows = th_expand_iota(b, scores, type->dims[type->rank - 2], 1);
    th_value *columns =
        th_expand_iota(b, scores, type->dims[type->rank - 1], 0);
    th_value *keep = TH_E2(le, columns, rows);
    return TH_BUILD(b, where, th_v(keep), th_v(scores), hidden);
  }
  if (scores && p->mask && p->mask->type.dtype == TH_BOOL) {
    return TH_BUILD(b, where, th_v(p->mask), th_v(scores), hidden);
  }
  if (scores && p->mask) {
    th_value *mask = th_expand_to(b, p->mask, scores->type.dtype);
    return TH_E2(add, scores, mask);
  }
  return scores;
}

th_status th_expand_rule_attention(th_builder *b, const th_stmt *stmt,
                                   th_value **outs) {
  th_type type = th_expand_type(b, stmt, 0);
  th_dtype dtype = th_expand_compute(type.dtype);
  attention_parts p = {.query = th_expand_arg(stmt, 0),
                       .key = th_expand_arg(stmt, 1),
                       .value = th_expand_arg(stmt, 2),
                       .mask = th_expand_arg(stmt, 3)};
  if (th_expand_flag(stmt, 7)) {
    attention_group(b, &p);
  }
  th_value *query = th_expand_to(b, p.query, dtype);
  th_value *key = attention_transpose(b, th_expand_to(b, p.key, dtype));
  th_value *scores = TH_E2(matmul, query, key);
  scores = th_expand_scale(b, scores, attention_scale(b, stmt));
  scores = attention_hide(b, scores, &p, th_expand_flag(stmt, 5));
  if (scores) {
    scores = th_expand_softmax(b, scores, (uint8_t)(scores->type.rank - 1),
                               p.mask != NULL);
  }
  th_value *y = TH_E2(matmul, scores, th_expand_to(b, p.value, dtype));
  if (p.heads) {
    y = th_expand_reshape(b, y, type.dims, type.rank);
  }
  return th_expand_out(b, stmt, 0, y, outs);
}

// What is known of numbers before they have values: bounds that follow from
// the ranges of symbols, and comparisons that hold for all of them.
#include "ir/expr.h"

static void range_widen(int64_t v, int64_t *lo, int64_t *hi) {
  *lo = v < *lo ? v : *lo;
  *hi = v > *hi ? v : *hi;
}

__extension__ typedef __int128 range_wide;

static int64_t range_saturate(range_wide v) {
  return v < INT64_MIN ? INT64_MIN : v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static range_wide range_product(int64_t a, int64_t b) {
  return (range_wide)a * b;
}

// Sums and floor quotients (b > 0) of bounds; `none` stands for no bound.
static int64_t range_sum(int64_t a, int64_t b, int64_t none) {
  return a == none || b == none ? none : range_saturate((range_wide)a + b);
}

static int64_t range_quotient_bound(int64_t a, int64_t b, int64_t none) {
  return a == none ? none : a / b - (a % b < 0);
}

static bool range_binary(const th_expr *e, int64_t alo, int64_t ahi,
                         const th_expr *y, int64_t *lo, int64_t *hi) {
  int64_t blo = 0, bhi = 0;
  if (!th_expr_range(y, &blo, &bhi)) {
    return false;
  }
  switch (e->op) {
  case TH_X_ADD:
    *lo = range_sum(alo, blo, INT64_MIN);
    *hi = range_sum(ahi, bhi, INT64_MAX);
    return true;
  case TH_X_MUL:
    *lo = INT64_MAX;
    *hi = INT64_MIN;
    range_widen(range_saturate(range_product(alo, blo)), lo, hi);
    range_widen(range_saturate(range_product(alo, bhi)), lo, hi);
    range_widen(range_saturate(range_product(ahi, blo)), lo, hi);
    range_widen(range_saturate(range_product(ahi, bhi)), lo, hi);
    return true;
  case TH_X_FLOORDIV:
    if (blo <= 0) {
      return false;
    }
    *lo = range_quotient_bound(alo, alo < 0 ? blo : bhi, INT64_MIN);
    *hi = range_quotient_bound(ahi, ahi < 0 ? bhi : blo, INT64_MAX);
    return true;
  case TH_X_MOD:
    *lo = 0;
    *hi = bhi == INT64_MAX ? bhi : bhi - 1;
    return blo > 0;
  case TH_X_MIN:
    *lo = alo < blo ? alo : blo;
    *hi = ahi < bhi ? ahi : bhi;
    return true;
  case TH_X_MAX:
    *lo = alo > blo ? alo : blo;
    *hi = ahi > bhi ? ahi : bhi;
    return true;
  default:
    return false;
  }
}

bool th_expr_range(const th_expr *e, int64_t *out_min, int64_t *out_max) {
  if (e->dtype == TH_F64) {
    return false;
  }
  if (e->op == TH_X_CONST) {
    *out_min = *out_max = e->i;
    return true;
  }
  if (e->dtype == TH_BOOL) {
    *out_min = 0;
    *out_max = 1;
    return true;
  }
  if (e->op == TH_X_SYM) {
    *out_min = e->symbol->min;
    *out_max = e->symbol->max;
    return *out_min != INT64_MIN || *out_max != INT64_MAX;
  }
  if (e->arg_count < 2 || !th_expr_range(e->args[0], out_min, out_max)) {
    return false;
  }
  for (uint32_t i = 1; i < e->arg_count; i++) {
    int64_t lo = 0, hi = 0;
    if (!range_binary(e, *out_min, *out_max, e->args[i], &lo, &hi)) {
      return false;
    }
    *out_min = lo;
    *out_max = hi;
  }
  return true;
}

// A quotient p // c with a constant c > 0 in a sum, and its coefficient.
static const th_expr *range_quotient(const th_expr *sum, int64_t *out_coeff) {
  uint32_t count = sum->op == TH_X_ADD ? sum->arg_count : 1;
  for (uint32_t i = 0; i < count; i++) {
    const th_expr *term = sum->op == TH_X_ADD ? sum->args[i] : sum;
    bool scaled = term->op == TH_X_MUL && term->arg_count == 2 &&
                  th_is_const(term->args[0]);
    const th_expr *atom = scaled ? term->args[1] : term;
    if (atom->op == TH_X_FLOORDIV && th_is_const(atom->args[1]) &&
        atom->args[1]->i > 0) {
      *out_coeff = scaled ? term->args[0]->i : 1;
      return atom;
    }
  }
  return NULL;
}

// Is an integer never negative?  Ranges alone see s0 - s0 // 2 as a difference
// of strangers; with p - (c - 1) <= c * (p // c) <= p the quotients go, and the
// rest is a sum that can be compared.
static bool range_never_negative(th_ir *ir, const th_expr *e) {
  int64_t lo = 0, hi = 0, coeff = 0;
  for (int round = 0; e && round < 4; round++) {
    if (th_expr_range(e, &lo, &hi) && lo >= 0) {
      return true;
    }
    const th_expr *q = range_quotient(e, &coeff);
    if (!q) {
      return false;
    }
    const th_expr *k = th_int(ir, coeff), *c = q->args[1], *p = q->args[0];
    if (coeff > 0) {
      p = th_expr_sub(ir, p, th_int(ir, c->i - 1));
    }
    const th_expr *rest = th_expr_sub(ir, e, th_expr_mul(ir, k, q));
    e = th_expr_add(ir, th_expr_mul(ir, rest, c), th_expr_mul(ir, k, p));
  }
  return false;
}

int th_expr_known(th_ir *ir, th_expr_op op, const th_expr *a,
                  const th_expr *b) {
  if (a->dtype == TH_F64 || b->dtype == TH_F64) {
    return -1;
  }
  const th_expr *difference = th_expr_sub(ir, a, b);
  const th_expr *opposite = th_expr_sub(ir, b, a);
  int64_t lo = 0, hi = 0;
  if (!difference || !opposite) {
    return -1;
  }
  if (op == TH_X_EQ) {
    bool has_range = th_expr_range(difference, &lo, &hi);
    return !has_range ? -1 : lo == 0 && hi == 0 ? 1 : lo > 0 || hi < 0 ? 0 : -1;
  }
  if (op != TH_X_LT && op != TH_X_LE) {
    return -1;
  }
  // b - a >= 0, or > 0 for LT; false when a - b > 0, or >= 0 for LT.
  const th_expr *minus_one = th_int(ir, -1);
  const th_expr *is_true =
      op == TH_X_LT ? th_expr_add(ir, opposite, minus_one) : opposite;
  const th_expr *is_false =
      op == TH_X_LE ? th_expr_add(ir, difference, minus_one) : difference;
  return range_never_negative(ir, is_true)    ? 1
         : range_never_negative(ir, is_false) ? 0
                                              : -1;
}

void th_expr_symbols(const th_expr *e,
                     void (*fn)(void *user, const th_symbol *symbol),
                     void *user) {
  if (e->op == TH_X_SYM) {
    fn(user, e->symbol);
  }
  for (uint32_t i = 0; i < e->arg_count; i++) {
    th_expr_symbols(e->args[i], fn, user);
  }
}

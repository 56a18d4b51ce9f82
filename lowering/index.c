// Division is where index expressions get lost, so it gets the rules: terms
// that the divisor divides leave; what is left is dropped when the extents
// show that it stays below the divisor; a common factor of the other terms is
// taken out; and what remains names the variable that should be split.
#include "lowering/index.h"

#include <string.h>

void th_space_init(th_space *s, th_ir *ir, th_arena *arena) {
  *s = (th_space){.ir = ir, .arena = arena, .split_var = -1};
}

const th_expr *th_space_var(th_space *s, const th_expr *extent) {
  if (s->var_count == TH_MAX_VARS) {
    return NULL;
  }
  const th_expr *symbol = th_sym_fresh(s->ir, "i", TH_I64);
  int64_t lo = 0, hi = 0;
  bool bounded = th_expr_range(extent, &lo, &hi) && hi < INT64_MAX;
  th_sym_range(s->ir, symbol, 0, !bounded ? INT64_MAX : hi > 0 ? hi - 1 : 0);
  s->vars[s->var_count++] = (th_var){symbol, extent};
  return symbol;
}

const th_expr *th_space_opaque(th_space *s, struct th_node *node,
                               th_var_set depends) {
  const th_expr *symbol = th_sym_fresh(s->ir, "m", TH_I64);
  TH_PUSH(s->arena, s->opaques, s->opaque_count, s->opaque_cap) =
      (th_opaque){symbol, depends, node};
  return symbol;
}

int th_space_find_var(const th_space *s, const th_expr *symbol) {
  for (uint32_t i = 0; i < s->var_count; i++) {
    if (s->vars[i].symbol == symbol) {
      return (int)i;
    }
  }
  return -1;
}

const th_opaque *th_space_find_opaque(const th_space *s,
                                      const th_expr *symbol) {
  for (uint32_t i = 0; i < s->opaque_count; i++) {
    if (s->opaques[i].symbol == symbol) {
      return &s->opaques[i];
    }
  }
  return NULL;
}

th_var_set th_space_depends(const th_space *s, const th_expr *e) {
  if (e->op == TH_X_SYM) {
    int var = th_space_find_var(s, e);
    const th_opaque *opaque = var < 0 ? th_space_find_opaque(s, e) : NULL;
    return var >= 0 ? (th_var_set)1 << var : opaque ? opaque->depends : 0;
  }
  th_var_set set = 0;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    set |= th_space_depends(s, e->args[i]);
  }
  return set;
}

// ---- terms

// Calls for each term of a sum; one for what is no sum.
#define INDEX_TERMS(e, i, term)                                                \
  for (uint32_t i = 0, index_n_ = (e)->op == TH_X_ADD ? (e)->arg_count : 1;    \
       i < index_n_ &&                                                         \
       ((term) = (e)->op == TH_X_ADD ? (e)->args[i] : (e), true);              \
       i++)

bool th_space_mentions(const th_expr *e, const th_expr *symbol) {
  if (e == symbol) {
    return true;
  }
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (th_space_mentions(e->args[i], symbol)) {
      return true;
    }
  }
  return false;
}

// term / symbol, when it is one of the factors and in no other of them.
static const th_expr *index_without(th_ir *ir, const th_expr *term,
                                    const th_expr *symbol) {
  if (term == symbol) {
    return th_int(ir, 1);
  }
  if (term->op != TH_X_MUL) {
    return NULL;
  }
  const th_expr *rest = th_int(ir, 1);
  bool found = false;
  for (uint32_t i = 0; i < term->arg_count; i++) {
    if (term->args[i] == symbol && !found) {
      found = true;
    } else if (th_space_mentions(term->args[i], symbol)) {
      return NULL;
    } else {
      rest = th_expr_mul(ir, rest, term->args[i]);
    }
  }
  return found ? rest : NULL;
}

bool th_space_linear(const th_space *s, const th_expr *e, const th_expr *symbol,
                     const th_expr **out_coeff, const th_expr **out_rest) {
  th_ir *ir = s->ir;
  const th_expr *coeff = th_int(ir, 0), *rest = coeff, *term = NULL;
  INDEX_TERMS(e, i, term) {
    if (!th_space_mentions(term, symbol)) {
      rest = th_expr_add(ir, rest, term);
      continue;
    }
    const th_expr *factor = index_without(ir, term, symbol);
    if (!factor) {
      return false;
    }
    coeff = th_expr_add(ir, coeff, factor);
  }
  *out_coeff = coeff;
  *out_rest = rest;
  return true;
}

const th_expr *th_space_replace(th_space *s, const th_expr *e,
                                const th_expr *symbol, const th_expr *by) {
  if (e == symbol) {
    return by;
  }
  if (!th_space_mentions(e, symbol)) {
    return e;
  }
  const th_expr **args = TH_NEW_ARRAY(s->arena, const th_expr *, e->arg_count);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    args[i] = th_space_replace(s, e->args[i], symbol, by);
  }
  switch (e->op) {
  case TH_X_FLOORDIV:
    return th_space_div(s, args[0], args[1]);
  case TH_X_MOD:
    return th_space_mod(s, args[0], args[1]);
  case TH_X_ADD:
  case TH_X_MUL: {
    const th_expr *sum = args[0];
    for (uint32_t i = 1; i < e->arg_count; i++) {
      sum = th_expr_make(s->ir, e->op, (const th_expr *[]){sum, args[i]}, 2);
    }
    return sum;
  }
  default:
    return th_expr_make(s->ir, e->op, args, e->arg_count);
  }
}

// ---- bounds

// The greatest value of e (or, `low`, the least) as an expression over sizes;
// NULL when it is not seen.  Every variable counts as having an iteration.
static const th_expr *index_bound(const th_space *s, const th_expr *e,
                                  bool low);

static const th_expr *index_bound_atom(const th_space *s, const th_expr *e,
                                       bool low) {
  th_ir *ir = s->ir;
  int var = e->op == TH_X_SYM ? th_space_find_var(s, e) : -1;
  if (var >= 0) {
    return low ? th_int(ir, 0)
               : th_expr_sub(ir, s->vars[var].extent, th_int(ir, 1));
  }
  if (th_space_depends(s, e) == 0 && !th_space_find_opaque(s, e)) {
    return e; // sizes alone
  }
  if (e->op == TH_X_MOD) {
    return low ? th_int(ir, 0) : th_expr_sub(ir, e->args[1], th_int(ir, 1));
  }
  if (e->op == TH_X_FLOORDIV && th_is_const(e->args[1]) && e->args[1]->i > 0) {
    const th_expr *inner = index_bound(s, e->args[0], low);
    return inner ? th_expr_floordiv(ir, inner, e->args[1]) : NULL;
  }
  if (e->op == TH_X_MIN && !low) {
    const th_expr *a = index_bound(s, e->args[0], low);
    return a ? a : index_bound(s, e->args[1], low);
  }
  if (e->op == TH_X_MAX && low) {
    const th_expr *a = index_bound(s, e->args[0], low);
    return a ? a : index_bound(s, e->args[1], low);
  }
  return NULL;
}

static const th_expr *index_bound_term(const th_space *s, const th_expr *term,
                                       bool low) {
  if (term->op != TH_X_MUL) {
    return th_is_const(term) ? term : index_bound_atom(s, term, low);
  }
  // All factors but the leading constant are taken as not negative, which
  // holds for variables, sizes and remainders; anything else is looked at.
  bool constant = th_is_const(term->args[0]);
  bool flip = constant && term->args[0]->i < 0;
  const th_expr *product = constant ? term->args[0] : th_int(s->ir, 1);
  for (uint32_t i = constant; i < term->arg_count; i++) {
    const th_expr *least = index_bound_atom(s, term->args[i], true);
    int64_t lo = 0, hi = 0;
    if (!least || !th_expr_range(least, &lo, &hi) || lo < 0) {
      return NULL;
    }
    const th_expr *bound = index_bound_atom(s, term->args[i], low != flip);
    if (!bound) {
      return NULL;
    }
    product = th_expr_mul(s->ir, product, bound);
  }
  return product;
}

static const th_expr *index_bound(const th_space *s, const th_expr *e,
                                  bool low) {
  const th_expr *sum = th_int(s->ir, 0), *term = NULL;
  INDEX_TERMS(e, i, term) {
    const th_expr *bound = index_bound_term(s, term, low);
    if (!bound) {
      return NULL;
    }
    sum = th_expr_add(s->ir, sum, bound);
  }
  return sum;
}

static bool index_not_negative(const th_expr *e) {
  int64_t lo = 0, hi = 0;
  return e && th_expr_range(e, &lo, &hi) && lo >= 0;
}

bool th_space_below(const th_space *s, const th_expr *e, const th_expr *limit) {
  const th_expr *least = index_bound(s, e, true);
  const th_expr *most = index_bound(s, th_expr_sub(s->ir, e, limit), false);
  return index_not_negative(least) && most &&
         index_not_negative(th_expr_sub(s->ir, th_int(s->ir, -1), most));
}

int th_space_known(const th_space *s, th_expr_op op, const th_expr *a,
                   const th_expr *b) {
  th_ir *ir = s->ir;
  const th_expr *difference = th_expr_sub(ir, a, b);
  const th_expr *most = index_bound(s, difference, false);
  const th_expr *least = index_bound(s, difference, true);
  const th_expr *slack = th_int(ir, op == TH_X_LT);
  if (most && index_not_negative(th_expr_sub(ir, th_int(ir, 0),
                                             th_expr_add(ir, most, slack)))) {
    return 1; // most + slack <= 0
  }
  if (least && index_not_negative(th_expr_sub(ir, th_expr_add(ir, least, slack),
                                              th_int(ir, 1)))) {
    return 0; // least + slack > 0
  }
  return -1;
}

// ---- division

// term / by when by divides it for certain.
static const th_expr *index_term_over(th_ir *ir, const th_expr *term,
                                      const th_expr *by) {
  const th_expr *q = th_expr_floordiv(ir, term, by);
  if (!q || th_expr_mul(ir, q, by) != term) {
    return NULL;
  }
  return q;
}

// a = quotient * by + rest for a divisor that is a sum: its first term decides
// the quotient, which is kept when the rest is then a remainder.
static void index_partition_sum(th_space *s, const th_expr *a,
                                const th_expr *by, const th_expr **out_quotient,
                                const th_expr **out_rest) {
  const th_expr *term = NULL, *quotient = th_int(s->ir, 0);
  INDEX_TERMS(a, i, term) {
    const th_expr *q = index_term_over(s->ir, term, by->args[0]);
    quotient = q ? th_expr_add(s->ir, quotient, q) : quotient;
  }
  const th_expr *rest = th_expr_sub(s->ir, a, th_expr_mul(s->ir, quotient, by));
  bool remainder = th_is_int(rest, 0) || th_space_below(s, rest, by);
  *out_quotient = remainder ? quotient : th_int(s->ir, 0);
  *out_rest = remainder ? rest : a;
}

// a = quotient * by + rest.
static void index_partition(th_space *s, const th_expr *a, const th_expr *by,
                            const th_expr **out_quotient,
                            const th_expr **out_rest) {
  th_ir *ir = s->ir;
  const th_expr *term = NULL;
  if (by->op == TH_X_ADD) {
    index_partition_sum(s, a, by, out_quotient, out_rest);
    return;
  }
  *out_quotient = *out_rest = th_int(ir, 0);
  INDEX_TERMS(a, i, term) {
    const th_expr *q = index_term_over(ir, term, by);
    if (q) {
      *out_quotient = th_expr_add(ir, *out_quotient, q);
    } else {
      *out_rest = th_expr_add(ir, *out_rest, term);
    }
  }
}

// A factor g of `by` such that rest = g * x + r with 0 <= r < g: then
// rest // by is x // (by / g).
static bool index_common(th_space *s, const th_expr *rest, const th_expr *by,
                         const th_expr **out_x, const th_expr **out_r,
                         const th_expr **out_g) {
  const th_expr *term = NULL;
  INDEX_TERMS(rest, i, term) {
    // The term's coefficient: everything but one variable.
    for (uint32_t v = 0; v < s->var_count; v++) {
      const th_expr *g = index_without(s->ir, term, s->vars[v].symbol);
      if (!g || th_is_int(g, 1) || !index_not_negative(g) ||
          th_space_depends(s, g) != 0 || !index_term_over(s->ir, by, g)) {
        continue;
      }
      index_partition(s, rest, g, out_x, out_r);
      if (th_space_below(s, *out_r, g)) {
        *out_g = g;
        return true;
      }
    }
  }
  return false;
}

// Remembers that `rest` could be divided if a variable were split: one that
// stands alone (coefficient 1) and whose extent `by` divides.
static void index_ask_split(th_space *s, const th_expr *rest,
                            const th_expr *by) {
  const th_expr *term = NULL;
  if (s->split_var >= 0 || th_space_depends(s, by) != 0) {
    return;
  }
  INDEX_TERMS(rest, i, term) {
    int var = th_space_find_var(s, term);
    if (var >= 0 && s->vars[var].extent != by &&
        index_term_over(s->ir, s->vars[var].extent, by)) {
      s->split_var = var;
      s->split_by = by;
      return;
    }
  }
}

const th_expr *th_space_div(th_space *s, const th_expr *a, const th_expr *b) {
  const th_expr *quotient = NULL, *rest = NULL;
  const th_expr *x = NULL, *r = NULL, *g = NULL;
  if (th_is_int(b, 1)) {
    return a;
  }
  index_partition(s, a, b, &quotient, &rest);
  if (th_is_int(rest, 0) || th_space_below(s, rest, b)) {
    return quotient;
  }
  if (index_common(s, rest, b, &x, &r, &g)) {
    return th_expr_add(s->ir, quotient,
                       th_space_div(s, x, index_term_over(s->ir, b, g)));
  }
  index_ask_split(s, rest, b);
  const th_expr *q = th_expr_floordiv(s->ir, rest, b);
  return q ? th_expr_add(s->ir, quotient, q) : quotient;
}

const th_expr *th_space_mod(th_space *s, const th_expr *a, const th_expr *b) {
  const th_expr *quotient = NULL, *rest = NULL;
  const th_expr *x = NULL, *r = NULL, *g = NULL;
  if (th_is_int(b, 1)) {
    return th_int(s->ir, 0);
  }
  index_partition(s, a, b, &quotient, &rest);
  if (th_is_int(rest, 0) || th_space_below(s, rest, b)) {
    return rest;
  }
  if (index_common(s, rest, b, &x, &r, &g)) {
    const th_expr *inner = th_space_mod(s, x, index_term_over(s->ir, b, g));
    return th_expr_add(s->ir, th_expr_mul(s->ir, g, inner), r);
  }
  index_ask_split(s, rest, b);
  const th_expr *m = th_expr_mod(s->ir, rest, b);
  return m ? m : rest;
}

// A remainder among the factors of a term, and the rest of the term.
static const th_expr *index_remainder(th_space *s, const th_expr *term,
                                      const th_expr **out_factor) {
  if (term->op == TH_X_MOD) {
    *out_factor = th_int(s->ir, 1);
    return term;
  }
  for (uint32_t i = 0; term->op == TH_X_MUL && i < term->arg_count; i++) {
    if (term->args[i]->op == TH_X_MOD) {
      *out_factor = index_without(s->ir, term, term->args[i]);
      return *out_factor ? term->args[i] : NULL;
    }
  }
  return NULL;
}

static bool index_has_term(const th_expr *e, const th_expr *wanted) {
  const th_expr *term = NULL;
  INDEX_TERMS(e, i, term) {
    if (term == wanted) {
      return true;
    }
  }
  return false;
}

const th_expr *th_space_join(th_space *s, const th_expr *e) {
  const th_expr *term = NULL;
  if (e->op != TH_X_ADD) {
    return e;
  }
  INDEX_TERMS(e, i, term) {
    const th_expr *factor = NULL;
    const th_expr *rest = index_remainder(s, term, &factor);
    if (!rest) {
      continue;
    }
    const th_expr *a = rest->args[0], *k = rest->args[1];
    const th_expr *quotient =
        th_expr_make(s->ir, TH_X_FLOORDIV, (const th_expr *[]){a, k}, 2);
    const th_expr *wanted = quotient ? th_expr_mul(s->ir, factor, k) : NULL;
    wanted = wanted ? th_expr_mul(s->ir, wanted, quotient) : NULL;
    if (wanted && index_has_term(e, wanted)) {
      const th_expr *left =
          th_expr_sub(s->ir, th_expr_sub(s->ir, e, term), wanted);
      return th_space_join(
          s, th_expr_add(s->ir, left, th_expr_mul(s->ir, factor, a)));
    }
  }
  return e;
}

bool th_space_divides(const th_space *s, const th_expr *e, int var) {
  bool divides = (e->op == TH_X_FLOORDIV || e->op == TH_X_MOD) &&
                 th_space_mentions(e, s->vars[var].symbol);
  for (uint32_t i = 0; i < e->arg_count && !divides; i++) {
    divides = th_space_divides(s, e->args[i], var);
  }
  return divides;
}

// ---- merging

bool th_space_can_merge(const th_space *s, const th_expr *e, int outer,
                        int inner) {
  const th_expr *a = s->vars[outer].symbol, *b = s->vars[inner].symbol;
  if (!th_space_mentions(e, a) && !th_space_mentions(e, b)) {
    return true;
  }
  if (e->op != TH_X_ADD && e->op != TH_X_MUL && e->op != TH_X_SYM) {
    for (uint32_t i = 0; i < e->arg_count; i++) {
      if (!th_space_can_merge(s, e->args[i], outer, inner)) {
        return false;
      }
    }
    return true;
  }
  th_ir *ir = s->ir;
  const th_expr *ca = th_int(ir, 0), *cb = ca, *term = NULL;
  INDEX_TERMS(e, i, term) {
    const th_expr *fa = index_without(ir, term, a);
    const th_expr *fb = index_without(ir, term, b);
    if ((fa && th_space_mentions(fa, b)) || (fb && th_space_mentions(fb, a))) {
      return false;
    }
    if (fa) {
      ca = th_expr_add(ir, ca, fa);
    } else if (fb) {
      cb = th_expr_add(ir, cb, fb);
    } else if (term->op == TH_X_MUL || term == e) {
      if (term == e && term->op == TH_X_SYM) {
        return false;
      }
      for (uint32_t k = 0; k < term->arg_count; k++) {
        if (!th_space_can_merge(s, term->args[k], outer, inner)) {
          return false;
        }
      }
    } else if (!th_space_can_merge(s, term, outer, inner)) {
      return false;
    }
  }
  return ca == th_expr_mul(ir, cb, s->vars[inner].extent);
}

// ---- positions

const th_expr *th_space_flatten(th_space *s, uint8_t rank,
                                const th_expr *const *dims,
                                const th_expr *const *index) {
  const th_expr *linear = th_int(s->ir, 0);
  for (uint8_t i = 0; i < rank; i++) {
    linear = th_expr_add(s->ir, th_expr_mul(s->ir, linear, dims[i]), index[i]);
  }
  return linear;
}

void th_space_unflatten(th_space *s, const th_expr *linear, uint8_t rank,
                        const th_expr *const *dims, const th_expr **out_index) {
  // From the left: the first index is the only one without a remainder.
  const th_expr *below = th_int(s->ir, 1);
  for (uint8_t i = rank; i-- > 0;) {
    if (th_is_int(dims[i], 1)) {
      out_index[i] = th_int(s->ir, 0);
      continue;
    }
    const th_expr *q = th_space_div(s, linear, below);
    bool outermost = true;
    for (uint8_t k = 0; k < i; k++) {
      outermost = outermost && th_is_int(dims[k], 1);
    }
    out_index[i] = outermost ? q : th_space_mod(s, q, dims[i]);
    below = th_expr_mul(s->ir, below, dims[i]);
  }
}

// Expressions: hash-consing and the normal form.
//
// An integer is a sum of terms, a term a coefficient times a sorted product of
// atoms (anything that is no sum, product or constant).  ADD holds its terms
// sorted, the constant last; MUL holds its constant first.  So s0*2 + s0 and
// 3*s0 are one pointer, and (s0*s1)//s1 is s0.
#include "ir/expr.h"

#include "base/alloc.h"
#include "base/integer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct expr_term {
  int64_t coeff;
  uint32_t count;
  const th_expr **atoms;
} expr_term;

typedef struct expr_poly {
  uint32_t count, cap;
  expr_term *terms;
} expr_poly;

// ---- the store

static th_status expr_ir_init(void *arg) {
  th_ir *ir = arg;
  th_map_init(&ir->strings, &ir->arena);
  th_map_init(&ir->exprs, &ir->arena);
  th_map_init(&ir->symbols, &ir->arena);
  th_map_init(&ir->fresh, &ir->arena);
  th_int(ir, 0);
  return TH_OK;
}

th_ir *th_ir_new(th_context *ctx) {
  th_ir *ir = th_calloc(1, sizeof *ir);
  if (!ir) {
    th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
    return NULL;
  }
  ir->ctx = ctx;
  ir->refs = 1;
  th_arena_init(&ir->arena, &ctx->unwind);
  if (th_protect(&ctx->unwind, expr_ir_init, ir) != TH_OK) {
    th_ir_release(ir);
    th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
    return NULL;
  }
  return ir;
}

th_ir *th_ir_retain(th_ir *ir) {
  ir->refs++;
  return ir;
}

void th_ir_release(th_ir *ir) {
  if (ir && --ir->refs == 0) {
    th_arena_deinit(&ir->arena);
    th_free(ir);
  }
}

const char *th_ir_string(th_ir *ir, const char *text) {
  return text ? th_intern(&ir->strings, text) : NULL;
}

// Fills in size and depth; false: too large, or a part is (NULL).
static bool expr_measure(th_expr *e) {
  uint32_t size = 1, depth = 0;
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (!e->args[i]) {
      return false;
    }
    size += e->args[i]->size;
    depth = e->args[i]->depth > depth ? e->args[i]->depth : depth;
    if (size > TH_EXPR_SIZE) {
      return false;
    }
  }
  e->size = (uint16_t)size;
  e->depth = (uint16_t)(depth + 1);
  return depth < TH_EXPR_DEPTH;
}

// The one node with this content; NULL: it is too large.
static const th_expr *expr_intern(th_ir *ir, th_expr *e) {
  if (!expr_measure(e)) {
    return NULL;
  }
  struct {
    int32_t op, dtype;
    int64_t payload;
    const th_expr *args[3];
  } small = {(int32_t)e->op, (int32_t)e->dtype, e->i, {0}};
  size_t size = sizeof small;
  const void *key = &small;
  if (e->arg_count <= 3) {
    for (uint32_t i = 0; i < e->arg_count; i++) {
      small.args[i] = e->args[i];
    }
  } else {
    size = sizeof small + e->arg_count * sizeof e->args[0];
    char *bytes = th_arena_alloc(&ir->arena, size);
    memcpy(bytes, &small, sizeof small);
    memcpy(bytes + sizeof small, e->args, e->arg_count * sizeof e->args[0]);
    key = bytes;
  }
  const th_expr *found = th_map_get_bytes(&ir->exprs, key, size);
  if (found) {
    return found;
  }
  th_expr *copy = TH_NEW(&ir->arena, th_expr);
  *copy = *e;
  if (e->arg_count) {
    const th_expr **args =
        TH_NEW_ARRAY(&ir->arena, const th_expr *, e->arg_count);
    memcpy(args, e->args, e->arg_count * sizeof *args);
    copy->args = args;
  }
  th_map_put_bytes(&ir->exprs, key, size, copy);
  return copy;
}

static const th_expr *expr_const(th_ir *ir, th_dtype dtype, int64_t bits) {
  return expr_intern(ir,
                     &(th_expr){.op = TH_X_CONST, .dtype = dtype, .i = bits});
}

const th_expr *th_int(th_ir *ir, int64_t value) {
  return expr_const(ir, TH_I64, value);
}

const th_expr *th_float(th_ir *ir, double value) {
  if (isnan(value)) {
    value = NAN; // one NaN
  }
  int64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return expr_const(ir, TH_F64, bits);
}

const th_expr *th_bool(th_ir *ir, bool value) {
  return expr_const(ir, TH_BOOL, value);
}

const th_expr *th_sym(th_ir *ir, const char *name, th_dtype dtype) {
  th_symbol *symbol = th_map_get(&ir->symbols, name);
  if (!symbol) {
    symbol = TH_NEW(&ir->arena, th_symbol);
    *symbol = (th_symbol){th_ir_string(ir, name), dtype, INT64_MIN, INT64_MAX,
                          ir->symbol_count};
    TH_PUSH(&ir->arena, ir->symbol_list, ir->symbol_count, ir->symbol_cap) =
        symbol;
    th_map_put(&ir->symbols, name, symbol);
  }
  return expr_intern(
      ir, &(th_expr){.op = TH_X_SYM, .dtype = symbol->dtype, .symbol = symbol});
}

void th_sym_range(th_ir *ir, const th_expr *symbol, int64_t min, int64_t max) {
  th_symbol *s = ir->symbol_list[symbol->symbol->index];
  s->min = min;
  s->max = max;
}

const th_expr *th_sym_fresh(th_ir *ir, const char *prefix, th_dtype dtype) {
  uintptr_t next = (uintptr_t)th_map_get(&ir->fresh, prefix);
  for (;; next++) {
    char name[64];
    snprintf(name, sizeof name, "%.40s%u", prefix, (unsigned)next);
    if (!th_map_get(&ir->symbols, name)) {
      th_map_put(&ir->fresh, prefix, (void *)(next + 1));
      return th_sym(ir, name, dtype);
    }
  }
}

// ---- order: the same in every run, so that texts repeat

static int expr_compare(const th_expr *a, const th_expr *b) {
  if (a == b) {
    return 0;
  }
  if (a->op != b->op) {
    return a->op == TH_X_CONST   ? 1
           : b->op == TH_X_CONST ? -1
                                 : (a->op < b->op ? -1 : 1);
  }
  if (a->op == TH_X_SYM) {
    return strcmp(a->symbol->name, b->symbol->name);
  }
  if (a->op == TH_X_CONST) {
    return a->i < b->i ? -1 : 1;
  }
  for (uint32_t i = 0; i < a->arg_count && i < b->arg_count; i++) {
    int c = expr_compare(a->args[i], b->args[i]);
    if (c) {
      return c;
    }
  }
  return a->arg_count < b->arg_count ? -1 : 1;
}

static int expr_sort_atoms(const void *a, const void *b) {
  return expr_compare(*(const th_expr *const *)a, *(const th_expr *const *)b);
}

static int expr_compare_terms(const expr_term *a, const expr_term *b) {
  if (!a->count || !b->count) { // constants last
    return (a->count == 0) - (b->count == 0);
  }
  for (uint32_t i = 0; i < a->count && i < b->count; i++) {
    int c = expr_compare(a->atoms[i], b->atoms[i]);
    if (c) {
      return c;
    }
  }
  return (a->count < b->count) - (a->count > b->count);
}

static int expr_sort_terms(const void *a, const void *b) {
  return expr_compare_terms(a, b);
}

// ---- polynomials

static bool expr_is_integer(const th_expr *e) { return e->dtype != TH_F64; }

static expr_term expr_term_of(const th_expr **e) {
  if ((*e)->op == TH_X_CONST) {
    return (expr_term){.coeff = (*e)->i};
  }
  if ((*e)->op == TH_X_MUL) {
    bool constant = (*e)->args[0]->op == TH_X_CONST;
    return (expr_term){constant ? (*e)->args[0]->i : 1,
                       (*e)->arg_count - constant,
                       (const th_expr **)(uintptr_t)((*e)->args + constant)};
  }
  return (expr_term){1, 1, e};
}

static expr_poly expr_poly_of(th_ir *ir, const th_expr *const *slot) {
  const th_expr *e = *slot;
  expr_poly p = {0};
  uint32_t n = e->op == TH_X_ADD ? e->arg_count : 1;
  const th_expr **from = e->op == TH_X_ADD
                             ? (const th_expr **)(uintptr_t)e->args
                             : (const th_expr **)(uintptr_t)slot;
  p.terms = TH_NEW_ARRAY(&ir->arena, expr_term, n);
  p.count = p.cap = n;
  for (uint32_t i = 0; i < n; i++) {
    p.terms[i] = expr_term_of(&from[i]);
  }
  return p;
}

static const th_expr *expr_of_term(th_ir *ir, const expr_term *t) {
  if (t->count == 0 || t->coeff == 0) {
    return th_int(ir, t->coeff);
  }
  if (t->count == 1 && t->coeff == 1) {
    return t->atoms[0];
  }
  const th_expr **args =
      TH_NEW_ARRAY(&ir->arena, const th_expr *, t->count + 1);
  uint32_t n = 0;
  if (t->coeff != 1) {
    args[n++] = th_int(ir, t->coeff);
  }
  memcpy(args + n, t->atoms, t->count * sizeof *args);
  return expr_intern(ir, &(th_expr){.op = TH_X_MUL,
                                    .dtype = TH_I64,
                                    .arg_count = n + t->count,
                                    .args = args});
}

// Sorts, joins equal terms, drops zeros.  NULL: overflow.
static const th_expr *expr_of_poly(th_ir *ir, expr_poly *p) {
  qsort(p->terms, p->count, sizeof *p->terms, expr_sort_terms);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    if (n && !expr_compare_terms(&p->terms[n - 1], &p->terms[i])) {
      if (__builtin_add_overflow(p->terms[n - 1].coeff, p->terms[i].coeff,
                                 &p->terms[n - 1].coeff)) {
        return NULL;
      }
    } else {
      p->terms[n++] = p->terms[i];
    }
    if (p->terms[n - 1].coeff == 0) {
      n--;
    }
  }
  if (n <= 1) {
    return n ? expr_of_term(ir, &p->terms[0]) : th_int(ir, 0);
  }
  const th_expr **args = TH_NEW_ARRAY(&ir->arena, const th_expr *, n);
  for (uint32_t i = 0; i < n; i++) {
    args[i] = expr_of_term(ir, &p->terms[i]);
  }
  return expr_intern(
      ir, &(th_expr){
              .op = TH_X_ADD, .dtype = TH_I64, .arg_count = n, .args = args});
}

static bool expr_term_mul(th_ir *ir, const expr_term *a, const expr_term *b,
                          expr_term *out) {
  if (__builtin_mul_overflow(a->coeff, b->coeff, &out->coeff)) {
    return false;
  }
  out->count = a->count + b->count;
  out->atoms = TH_NEW_ARRAY(&ir->arena, const th_expr *, out->count);
  if (a->count) {
    memcpy(out->atoms, a->atoms, a->count * sizeof *out->atoms);
  }
  if (b->count) {
    memcpy(out->atoms + a->count, b->atoms, b->count * sizeof *out->atoms);
  }
  qsort(out->atoms, out->count, sizeof *out->atoms, expr_sort_atoms);
  return true;
}

static const th_expr *expr_sum(th_ir *ir, const th_expr *a, const th_expr *b) {
  expr_poly p = expr_poly_of(ir, &a), q = expr_poly_of(ir, &b), r = {0};
  r.count = p.count + q.count;
  r.terms = TH_NEW_ARRAY(&ir->arena, expr_term, r.count);
  memcpy(r.terms, p.terms, p.count * sizeof *r.terms);
  memcpy(r.terms + p.count, q.terms, q.count * sizeof *r.terms);
  return expr_of_poly(ir, &r);
}

static const th_expr *expr_product(th_ir *ir, const th_expr *a,
                                   const th_expr *b) {
  expr_poly p = expr_poly_of(ir, &a), q = expr_poly_of(ir, &b), r = {0};
  if (p.count * q.count > TH_EXPR_SIZE) {
    return NULL;
  }
  r.terms = TH_NEW_ARRAY(&ir->arena, expr_term, p.count * q.count);
  for (uint32_t i = 0; i < p.count; i++) {
    for (uint32_t j = 0; j < q.count; j++) {
      if (!expr_term_mul(ir, &p.terms[i], &q.terms[j], &r.terms[r.count++])) {
        return NULL;
      }
    }
  }
  return expr_of_poly(ir, &r);
}

// Is b a factor of a?  Then a / b.
static bool expr_term_divide(th_ir *ir, const expr_term *a, const expr_term *b,
                             expr_term *out) {
  if (b->coeff == 0 || b->coeff == -1 || a->coeff % b->coeff != 0 ||
      a->count < b->count) {
    return false;
  }
  out->coeff = a->coeff / b->coeff;
  out->count = 0;
  out->atoms = TH_NEW_ARRAY(&ir->arena, const th_expr *, a->count);
  uint32_t j = 0;
  for (uint32_t i = 0; i < a->count; i++) {
    if (j < b->count && a->atoms[i] == b->atoms[j]) {
      j++;
    } else {
      out->atoms[out->count++] = a->atoms[i];
    }
  }
  return j == b->count;
}

// a = quotient * b + rest, where rest holds what b does not divide.
static void expr_divide(th_ir *ir, const th_expr *a, const th_expr *b,
                        const th_expr **out_quotient,
                        const th_expr **out_rest) {
  *out_quotient = th_int(ir, 0);
  *out_rest = a;
  if (a == b) {
    *out_quotient = th_int(ir, 1);
    *out_rest = th_int(ir, 0);
    return;
  }
  if (b->op == TH_X_ADD) {
    return;
  }
  expr_poly p = expr_poly_of(ir, &a), quotient = {0}, rest = {0};
  expr_term by = expr_term_of(&b);
  quotient.terms = TH_NEW_ARRAY(&ir->arena, expr_term, p.count);
  rest.terms = TH_NEW_ARRAY(&ir->arena, expr_term, p.count);
  for (uint32_t i = 0; i < p.count; i++) {
    if (expr_term_divide(ir, &p.terms[i], &by,
                         &quotient.terms[quotient.count])) {
      quotient.count++;
    } else {
      rest.terms[rest.count++] = p.terms[i];
    }
  }
  *out_quotient = expr_of_poly(ir, &quotient);
  *out_rest = expr_of_poly(ir, &rest);
}

// ---- constants

static double expr_as_float(const th_expr *e, th_scalar v) {
  return e->dtype == TH_F64 ? v.f : (double)v.i;
}

static bool expr_as_bool(const th_expr *e, th_scalar v) {
  return e->dtype == TH_F64 ? v.f != 0 : v.i != 0;
}

static bool expr_apply_float(th_expr_op op, double a, double b,
                             th_scalar *out) {
  switch (op) {
  case TH_X_ADD:
    out->f = a + b;
    return true;
  case TH_X_MUL:
    out->f = a * b;
    return true;
  case TH_X_DIV:
    out->f = a / b;
    return b != 0;
  case TH_X_FLOORDIV:
    out->f = floor(a / b);
    return b != 0;
  case TH_X_MOD:
    out->f = a - b * floor(a / b);
    return b != 0;
  case TH_X_POW:
    out->f = pow(a, b);
    return true;
  case TH_X_MIN:
    out->f = a < b ? a : b;
    return true;
  case TH_X_MAX:
    out->f = a > b ? a : b;
    return true;
  case TH_X_EQ:
    out->i = a == b;
    return true;
  case TH_X_NE:
    out->i = a != b;
    return true;
  case TH_X_LT:
    out->i = a < b;
    return true;
  case TH_X_LE:
    out->i = a <= b;
    return true;
  default:
    return false;
  }
}

static bool expr_apply_int(th_expr_op op, int64_t a, int64_t b,
                           th_scalar *out) {
  switch (op) {
  case TH_X_ADD:
    out->i = (int64_t)((uint64_t)a + (uint64_t)b);
    return true;
  case TH_X_MUL:
    out->i = (int64_t)((uint64_t)a * (uint64_t)b);
    return true;
  case TH_X_FLOORDIV:
    out->i = b ? th_int_floordiv(a, b) : 0;
    return b != 0;
  case TH_X_MOD:
    out->i = b ? th_int_mod(a, b) : 0;
    return b != 0;
  case TH_X_POW:
    out->i = th_int_pow(a, b);
    return true;
  case TH_X_MIN:
    out->i = a < b ? a : b;
    return true;
  case TH_X_MAX:
    out->i = a > b ? a : b;
    return true;
  case TH_X_EQ:
    out->i = a == b;
    return true;
  case TH_X_NE:
    out->i = a != b;
    return true;
  case TH_X_LT:
    out->i = a < b;
    return true;
  case TH_X_LE:
    out->i = a <= b;
    return true;
  default:
    return false;
  }
}

static int64_t expr_to_int(double f) {
  return f >= -0x1p63 && f < 0x1p63 ? (int64_t)f : INT64_MIN;
}

static bool expr_apply_unary(const th_expr *e, const th_expr *arg, th_scalar v,
                             th_scalar *out) {
  double f = expr_as_float(arg, v);
  bool integer = arg->dtype != TH_F64;
  switch (e->op) {
  case TH_X_NOT:
    out->i = !expr_as_bool(arg, v);
    return true;
  case TH_X_FLOAT:
    out->f = f;
    return true;
  case TH_X_TRUNC:
    out->i = integer ? v.i : expr_to_int(trunc(f));
    return true;
  case TH_X_FLOOR:
    out->i = integer ? v.i : expr_to_int(floor(f));
    return true;
  case TH_X_CEIL:
    out->i = integer ? v.i : expr_to_int(ceil(f));
    return true;
  case TH_X_ROUND:
    out->i = integer ? v.i : expr_to_int(rint(f));
    return true;
  case TH_X_SQRT:
    out->f = sqrt(f);
    return true;
  default:
    return false;
  }
}

static bool expr_apply_binary(const th_expr *e, const th_expr *x, th_scalar a,
                              const th_expr *y, th_scalar b, th_scalar *out) {
  if (e->op == TH_X_AND) {
    out->i = expr_as_bool(x, a) && expr_as_bool(y, b);
    return true;
  }
  if (e->op == TH_X_OR) {
    out->i = expr_as_bool(x, a) || expr_as_bool(y, b);
    return true;
  }
  if (x->dtype == TH_F64 || y->dtype == TH_F64 || e->op == TH_X_DIV) {
    return expr_apply_float(e->op, expr_as_float(x, a), expr_as_float(y, b),
                            out);
  }
  return expr_apply_int(e->op, a.i, b.i, out);
}

bool th_expr_eval(const th_expr *e, const th_scalar *symbols, th_scalar *out) {
  th_scalar v[3] = {{0}};
  if (e->op == TH_X_CONST) {
    out->i = e->i;
    return true;
  }
  if (e->op == TH_X_SYM) {
    *out = symbols[e->symbol->index];
    return true;
  }
  if (e->op == TH_X_ITE) {
    return th_expr_eval(e->args[0], symbols, &v[0]) &&
           th_expr_eval(e->args[expr_as_bool(e->args[0], v[0]) ? 1 : 2],
                        symbols, out);
  }
  if (!th_expr_eval(e->args[0], symbols, &v[0])) {
    return false;
  }
  if (e->arg_count == 1) {
    return expr_apply_unary(e, e->args[0], v[0], out);
  }
  for (uint32_t i = 1; i < e->arg_count; i++) { // ADD and MUL are n-ary
    th_scalar next = {0};
    if (!th_expr_eval(e->args[i], symbols, &v[1]) ||
        !expr_apply_binary(e, i == 1 ? e->args[0] : e, v[0], e->args[i], v[1],
                           &next)) {
      return false;
    }
    v[0] = next;
  }
  *out = v[0];
  return true;
}

// ---- making

static th_dtype expr_result_dtype(th_expr_op op, const th_expr *const *args,
                                  uint32_t count) {
  switch (op) {
  case TH_X_EQ:
  case TH_X_NE:
  case TH_X_LT:
  case TH_X_LE:
  case TH_X_AND:
  case TH_X_OR:
  case TH_X_NOT:
    return TH_BOOL;
  case TH_X_DIV:
  case TH_X_FLOAT:
  case TH_X_SQRT:
    return TH_F64;
  case TH_X_TRUNC:
  case TH_X_FLOOR:
  case TH_X_CEIL:
  case TH_X_ROUND:
    return TH_I64;
  default:
    for (uint32_t i = op == TH_X_ITE; i < count; i++) {
      if (args[i]->dtype == TH_F64) {
        return TH_F64;
      }
    }
    return op == TH_X_ITE ? args[1]->dtype : TH_I64;
  }
}

static const th_expr *expr_make_floordiv(th_ir *ir, const th_expr *a,
                                         const th_expr *b) {
  const th_expr *quotient = NULL, *rest = NULL;
  if (th_is_int(b, 0)) {
    return NULL;
  }
  expr_divide(ir, a, b, &quotient, &rest);
  if (!quotient || !rest) {
    return NULL;
  }
  int64_t lo = 0, hi = 0, blo = 0, bhi = 0;
  if (th_is_int(rest, 0) ||
      (th_expr_range(rest, &lo, &hi) && th_expr_range(b, &blo, &bhi) &&
       lo >= 0 && hi < blo)) {
    return quotient;
  }
  const th_expr *args[] = {rest, b};
  if (th_is_const(rest) && th_is_const(b)) {
    return th_expr_add(ir, quotient,
                       th_int(ir, th_int_floordiv(rest->i, b->i)));
  }
  return th_expr_add(ir, quotient,
                     expr_intern(ir, &(th_expr){.op = TH_X_FLOORDIV,
                                                .dtype = TH_I64,
                                                .arg_count = 2,
                                                .args = args}));
}

static const th_expr *expr_make_mod(th_ir *ir, const th_expr *a,
                                    const th_expr *b) {
  const th_expr *quotient = NULL, *rest = NULL;
  if (th_is_int(b, 0)) {
    return NULL;
  }
  expr_divide(ir, a, b, &quotient, &rest);
  if (!quotient || !rest) {
    return NULL;
  }
  int64_t lo = 0, hi = 0, blo = 0, bhi = 0;
  if (th_is_int(rest, 0) ||
      (th_expr_range(rest, &lo, &hi) && th_expr_range(b, &blo, &bhi) &&
       lo >= 0 && hi < blo)) {
    return rest;
  }
  if (th_is_const(rest) && th_is_const(b)) {
    return th_int(ir, th_int_mod(rest->i, b->i));
  }
  const th_expr *args[] = {rest, b};
  return expr_intern(
      ir, &(th_expr){
              .op = TH_X_MOD, .dtype = TH_I64, .arg_count = 2, .args = args});
}

static const th_expr *expr_fold(th_ir *ir, const th_expr *e, bool *out_failed) {
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (!th_is_const(e->args[i])) {
      return NULL;
    }
  }
  th_scalar v;
  if (!th_expr_eval(e, NULL, &v)) {
    *out_failed = true;
    return NULL;
  }
  return e->dtype == TH_F64    ? th_float(ir, v.f)
         : e->dtype == TH_BOOL ? th_bool(ir, v.i != 0)
                               : th_int(ir, v.i);
}

static const th_expr *expr_simplify_compare(th_ir *ir, const th_expr *e) {
  bool differs = e->op == TH_X_NE;
  int known =
      th_expr_known(ir, differs ? TH_X_EQ : e->op, e->args[0], e->args[1]);
  return known < 0 ? NULL : th_bool(ir, (known != 0) != differs);
}

static const th_expr *expr_simplify_extremum(th_ir *ir, const th_expr *e) {
  const th_expr *a = e->args[0], *b = e->args[1];
  if (!expr_is_integer(a) || !expr_is_integer(b)) {
    return NULL;
  }
  int known = th_expr_known(ir, TH_X_LE, a, b);
  return known < 0 ? NULL : known == (e->op == TH_X_MIN) ? a : b;
}

static const th_expr *expr_simplify_logic(const th_expr *e) {
  const th_expr *a = e->args[0], *b = e->args[1];
  bool neutral = e->op == TH_X_AND;
  if (th_is_const(a)) {
    return (a->i != 0) == neutral ? b : a;
  }
  if (th_is_const(b)) {
    return (b->i != 0) == neutral ? a : b;
  }
  return NULL;
}

// What is known without the symbols' values, or NULL.
static const th_expr *expr_simplify(th_ir *ir, const th_expr *e) {
  const th_expr *a = e->args[0];
  switch (e->op) {
  case TH_X_FLOAT:
    return a->dtype == TH_F64 ? a : NULL;
  case TH_X_TRUNC:
  case TH_X_FLOOR:
  case TH_X_CEIL:
  case TH_X_ROUND:
    return a->dtype == TH_I64 ? a : NULL;
  case TH_X_EQ:
  case TH_X_NE:
  case TH_X_LT:
  case TH_X_LE:
    return expr_simplify_compare(ir, e);
  case TH_X_MIN:
  case TH_X_MAX:
    return expr_simplify_extremum(ir, e);
  case TH_X_AND:
  case TH_X_OR:
    return expr_simplify_logic(e);
  case TH_X_ITE:
    return th_is_const(a) ? e->args[a->i ? 1 : 2] : NULL;
  default:
    return NULL;
  }
}

// Most sizes are known; the normal form of two constants is one.  True when
// that is the answer, NULL for an overflow.
static bool expr_make_constant(th_ir *ir, th_expr_op op, int64_t a, int64_t b,
                               const th_expr **out) {
  int64_t c = 0;
  if (op != TH_X_ADD && op != TH_X_MUL) {
    return false;
  }
  bool overflow = op == TH_X_ADD ? __builtin_add_overflow(a, b, &c)
                                 : __builtin_mul_overflow(a, b, &c);
  *out = overflow ? NULL : th_int(ir, c);
  return true;
}

// Integer operators that have a normal form of their own; false: the rest.
static bool expr_make_integer(th_ir *ir, th_expr_op op, const th_expr *a,
                              const th_expr *b, const th_expr **out) {
  if (th_is_const(a) && th_is_const(b) &&
      expr_make_constant(ir, op, a->i, b->i, out)) {
    return true;
  }
  switch (op) {
  case TH_X_ADD:
    *out = expr_sum(ir, a, b);
    return true;
  case TH_X_MUL:
    *out = expr_product(ir, a, b);
    return true;
  case TH_X_FLOORDIV:
    *out = expr_make_floordiv(ir, a, b);
    return true;
  case TH_X_MOD:
    *out = expr_make_mod(ir, a, b);
    return true;
  default:
    return false;
  }
}

const th_expr *th_expr_make(th_ir *ir, th_expr_op op,
                            const th_expr *const *args, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    if (!args[i]) {
      return NULL;
    }
  }
  th_expr e = {.op = op,
               .dtype = expr_result_dtype(op, args, count),
               .arg_count = count,
               .args = args};
  const th_expr *made = NULL;
  bool failed = false;
  if (e.dtype == TH_I64 && count == 2 &&
      expr_make_integer(ir, op, args[0], args[1], &made)) {
    return made;
  }
  made = expr_fold(ir, &e, &failed);
  if (!made && !failed) {
    made = expr_simplify(ir, &e);
  }
  return failed ? NULL : made ? made : expr_intern(ir, &e);
}

const th_expr *th_expr_add(th_ir *ir, const th_expr *a, const th_expr *b) {
  return th_expr_make(ir, TH_X_ADD, (const th_expr *[]){a, b}, 2);
}
const th_expr *th_expr_sub(th_ir *ir, const th_expr *a, const th_expr *b) {
  return th_expr_add(ir, a, th_expr_mul(ir, th_int(ir, -1), b));
}
const th_expr *th_expr_mul(th_ir *ir, const th_expr *a, const th_expr *b) {
  return th_expr_make(ir, TH_X_MUL, (const th_expr *[]){a, b}, 2);
}
const th_expr *th_expr_floordiv(th_ir *ir, const th_expr *a, const th_expr *b) {
  return th_expr_make(ir, TH_X_FLOORDIV, (const th_expr *[]){a, b}, 2);
}
const th_expr *th_expr_mod(th_ir *ir, const th_expr *a, const th_expr *b) {
  return th_expr_make(ir, TH_X_MOD, (const th_expr *[]){a, b}, 2);
}
const th_expr *th_expr_min(th_ir *ir, const th_expr *a, const th_expr *b) {
  return th_expr_make(ir, TH_X_MIN, (const th_expr *[]){a, b}, 2);
}
const th_expr *th_expr_max(th_ir *ir, const th_expr *a, const th_expr *b) {
  return th_expr_make(ir, TH_X_MAX, (const th_expr *[]){a, b}, 2);
}
const th_expr *th_expr_ceildiv(th_ir *ir, const th_expr *a, const th_expr *b) {
  return th_expr_floordiv(
      ir, th_expr_add(ir, a, th_expr_sub(ir, b, th_int(ir, 1))), b);
}

// Recognising products and choosing their blocks.
#include "lowering/product.h"

#include <string.h>

enum {
  PRODUCT_FEW = 8, // rows below which nothing is packed
  PRODUCT_ROWS = 128,
  PRODUCT_K = 256,
};

static th_var_set product_bit(int var) { return (th_var_set)1 << var; }

static int64_t product_size(const th_nest *n, int var) {
  const th_expr *extent = n->space.vars[var].extent;
  return th_is_const(extent) ? extent->i : -1;
}

// The only reduction, when it is a sum of products of floats.
static th_node *product_reduction(const th_nest *n) {
  th_node *found = NULL;
  for (uint32_t i = 0; i < n->node_count; i++) {
    th_node *node = n->nodes[i];
    if (node->kind != TH_NODE_REDUCE) {
      continue;
    }
    bool dot = node->op == TH_OP_matmul || node->op == TH_OP_convolution;
    if (found || !dot || node->guarded ||
        (node->dtype != TH_F32 && node->dtype != TH_F64) ||
        node->args[0]->kind != TH_NODE_APPLY) {
      return NULL;
    }
    found = node;
  }
  return found;
}

// The variable along which all stores go side by side.
static int product_column(const th_nest *n, th_var_set outer) {
  int column = -1;
  for (uint32_t v = 0; v < n->space.var_count; v++) {
    bool all = outer >> v & 1;
    for (uint32_t i = 0; all && i < n->store_count; i++) {
      const th_expr *coeff = NULL, *rest = NULL;
      all = n->stores[i].kind == TH_STORE_SET && n->stores[i].vars == outer &&
            th_space_linear(&n->space, n->stores[i].offset,
                            n->space.vars[v].symbol, &coeff, &rest) &&
            th_is_int(coeff, 1);
    }
    column = all ? (int)v : column;
  }
  return column;
}

// The largest variable of a set.
static int product_largest(const th_nest *n, th_var_set vars) {
  int best = -1;
  for (int v = 0; v < (int)n->space.var_count; v++) {
    if (!(vars & product_bit(v))) {
      continue;
    }
    int64_t size = product_size(n, v);
    int64_t best_size = best < 0 ? 0 : product_size(n, best);
    if (best < 0 || size < 0 || (best_size >= 0 && size >= best_size)) {
      best = v;
    }
  }
  return best;
}

// How far a's memory moves when the sum takes one step, over all variables of
// the sum in row-major order; NULL when that is no constant.
static const th_expr *product_step(const th_nest *n, const th_product *p) {
  if (p->a->kind != TH_NODE_LOAD || p->a->dtype != p->dtype) {
    return NULL;
  }
  const th_expr *offset = p->a->expr, *step = NULL;
  const th_expr *span = th_int(n->ir, 1);
  for (int v = (int)n->space.var_count - 1; v >= 0; v--) {
    if (!((p->k_inner | product_bit(p->k)) >> v & 1)) {
      continue;
    }
    const th_expr *coeff = NULL, *rest = NULL;
    if (!th_space_linear(&n->space, offset, n->space.vars[v].symbol, &coeff,
                         &rest)) {
      return NULL;
    }
    step = step ? step : coeff;
    if (coeff != th_expr_mul(n->ir, step, span)) {
      return NULL;
    }
    offset = rest;
    span = th_expr_mul(n->ir, span, n->space.vars[v].extent);
  }
  return step;
}

static const th_node *product_load(const th_node *node) {
  while (node->kind == TH_NODE_CONVERT) {
    node = node->args[0];
  }
  return node->kind == TH_NODE_LOAD ? node : NULL;
}

static bool product_is_along(const th_nest *n, const th_node *node, int var) {
  const th_node *load = product_load(node);
  const th_expr *coeff = NULL, *rest = NULL;
  return load &&
         th_space_linear(&n->space, load->expr, n->space.vars[var].symbol,
                         &coeff, &rest) &&
         th_is_int(coeff, 1);
}

// Registers side by side so that the fewest lanes go to waste; narrow panels
// load more for each product.
static uint32_t product_vectors(const th_product *p, int64_t columns,
                                uint32_t most) {
  int64_t best = -1;
  uint32_t vectors = most > 2 ? 3 : 2;
  for (uint32_t v = most; columns > 0 && v >= 1; v--) {
    int64_t width = (int64_t)v * p->lanes;
    int64_t padded = (columns + width - 1) / width * width;
    int64_t cost = padded * (v == 1 ? 14 : v == 2 ? 11 : 10);
    if (best < 0 || cost < best) {
      best = cost;
      vectors = v;
    }
  }
  return vectors;
}

// How many steps of the sum one step of k is.
static int64_t product_inner_steps(const th_nest *n, const th_product *p) {
  int64_t inner = 1;
  for (int v = 0; v < (int)n->space.var_count; v++) {
    inner *= p->k_inner & product_bit(v) ? product_size(n, v) : 1;
  }
  return inner;
}

// Panels as wide as fits the columns, and rows by the registers left.
static void product_shape(const th_nest *n, const th_target *target,
                          th_product *p) {
  static const uint32_t rows_many[] = {0, 16, 12, 8, 6};
  static const uint32_t rows_few[] = {0, 10, 6};
  bool many_registers =
      target->isa == TH_ISA_AVX512 || target->isa == TH_ISA_NEON;
  uint32_t most = many_registers ? 4 : 2;
  int64_t columns = product_size(n, p->n);
  int line = product_largest(n, p->b->depends & ~p->a->depends & p->outer);
  p->lanes = target->vector_bytes / (p->dtype == TH_F64 ? 8 : 4);
  p->vectors = product_vectors(p, columns, most);
  p->line = -1;
  if (columns > 0 && columns <= p->lanes && line >= 0) {
    p->line = line;
    p->vectors = most;
    p->pack = TH_PRODUCT_ALONG_N;
  }
  p->tile = many_registers ? rows_many[p->vectors] : rows_few[p->vectors];
  int64_t block = PRODUCT_K / product_inner_steps(n, p);
  int64_t k = product_size(n, p->k);
  block = block < 1 ? 1 : block;
  p->block_k = (uint32_t)(k > 0 && k < block ? k : block);
  int64_t rows = product_size(n, p->m);
  p->block_rows =
      rows > 0 && rows < PRODUCT_ROWS ? (uint32_t)rows : PRODUCT_ROWS;
}

static bool product_inner_is_small(const th_nest *n, th_var_set vars) {
  int64_t size = 1;
  for (int v = 0; v < (int)n->space.var_count; v++) {
    if (vars & product_bit(v)) {
      int64_t own = product_size(n, v);
      size = own < 0 || size < 0 ? -1 : size * own;
    }
  }
  return size >= 1 && size <= PRODUCT_K;
}

// Who is a and b, m, n and k; false when the parts do not fit.
static bool product_roles(const th_nest *n, th_product *p) {
  th_var_set outer = n->stores[0].vars;
  p->n = product_column(n, outer);
  if (p->n < 0 || (p->reduce->depends & ~outer)) {
    return false;
  }
  th_node *const *args = p->reduce->args[0]->args;
  bool first = args[0]->depends & product_bit(p->n);
  bool second = args[1]->depends & product_bit(p->n);
  if (first == second) {
    return false;
  }
  p->a = first ? args[1] : args[0];
  p->b = first ? args[0] : args[1];
  p->m = product_largest(n, p->a->depends & ~p->b->depends & outer);
  // The blocked variable is the slowest of the sum, so that a block is a run.
  p->k = p->reduce->vars ? __builtin_ctzll(p->reduce->vars) : -1;
  if (p->m < 0 || p->k < 0) {
    return false;
  }
  p->outer = outer & ~product_bit(p->m) & ~product_bit(p->n);
  p->k_inner = p->reduce->vars & ~product_bit(p->k);
  return true;
}

// Tiles need some columns, rows and steps to be worth it.
static bool product_is_worth(const th_nest *n, const th_product *p) {
  int64_t columns = product_size(n, p->n), rows = product_size(n, p->m);
  int64_t k = product_size(n, p->k);
  bool lines = p->b->depends & ~p->a->depends & p->outer;
  bool narrow = columns > 0 && columns < (lines ? 4 : 8);
  bool low = rows > 0 && rows < (p->k_inner ? PRODUCT_FEW : 2);
  bool shallow = k > 0 && k < 4 && !p->k_inner;
  return !narrow && !low && !shallow && product_inner_is_small(n, p->k_inner);
}

void th_product_find(th_nest *n, const th_target *target,
                     th_product *out_product) {
  th_product p = {.reduce = product_reduction(n)};
  out_product->reduce = NULL;
  if (!p.reduce || n->phase_count != 1 || n->sequential ||
      n->space.opaque_count) {
    return;
  }
  p.dtype = p.reduce->dtype;
  if (!product_roles(n, &p) || !product_is_worth(n, &p)) {
    return;
  }
  p.a_step = product_step(n, &p);
  p.pack = !p.k_inner && product_is_along(n, p.b, p.k) ? TH_PRODUCT_ALONG_K
                                                       : TH_PRODUCT_ALONG_N;
  product_shape(n, target, &p);
  int64_t rows = product_size(n, p.m);
  bool packs = p.k_inner || p.line >= 0; // always
  p.few = !packs && rows < PRODUCT_FEW;
  p.many = packs || rows < 0 || rows >= PRODUCT_FEW;
  *out_product = p;
}

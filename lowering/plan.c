// Merging variables, and choosing lanes by strides.
#include "lowering/plan.h"

#include "lowering/keep.h"

#include <string.h>

// ---- merging: fewer loops, longer rows

static bool plan_all_can_merge(const th_nest *n, int outer, int inner) {
  for (uint32_t i = 0; i < n->node_count; i++) {
    const th_node *node = n->nodes[i];
    if (node->expr &&
        !th_space_can_merge(&n->space, node->expr, outer, inner)) {
      return false;
    }
  }
  for (uint32_t i = 0; i < n->store_count; i++) {
    if (!th_space_can_merge(&n->space, n->stores[i].offset, outer, inner)) {
      return false;
    }
  }
  return true;
}

// Whether two variables belong to the same loops everywhere.
static bool plan_same_loops(const th_nest *n, th_var_set a, th_var_set b) {
  for (uint32_t i = 0; i < n->node_count; i++) {
    const th_node *node = n->nodes[i];
    if (node->kind != TH_NODE_REDUCE) {
      continue;
    }
    bool va = node->vars & a, vb = node->vars & b;
    bool da = node->depends & a, db = node->depends & b;
    if (va != vb || da != db) {
      return false;
    }
  }
  for (uint32_t i = 0; i < n->space.opaque_count; i++) {
    th_var_set d = n->space.opaques[i].depends;
    if (((d & a) != 0) != ((d & b) != 0)) {
      return false;
    }
  }
  for (uint32_t i = 0; i < n->store_count; i++) {
    const th_store *s = &n->stores[i];
    th_var_set scan = s->scan_var < 0 ? 0 : (th_var_set)1 << s->scan_var;
    if (((s->vars & a) != 0) != ((s->vars & b) != 0) || scan == a ||
        scan == b) {
      return false;
    }
  }
  return true;
}

static void plan_merge(th_nest *n, int outer, int inner) {
  th_space *s = &n->space;
  th_var_set gone = (th_var_set)1 << outer;
  const th_expr *zero = th_int(n->ir, 0);
  const th_expr *extent =
      th_expr_mul(n->ir, s->vars[outer].extent, s->vars[inner].extent);
  int64_t lo = 0, hi = 0;
  bool bounded = th_expr_range(extent, &lo, &hi) && hi < INT64_MAX;
  s->vars[inner].extent = extent;
  th_sym_range(n->ir, s->vars[inner].symbol, 0,
               !bounded ? INT64_MAX
               : hi > 0 ? hi - 1
                        : 0);
  const th_expr *symbol = s->vars[outer].symbol;
  for (uint32_t i = 0; i < n->node_count; i++) {
    th_node *node = n->nodes[i];
    node->expr =
        node->expr ? th_space_replace(s, node->expr, symbol, zero) : NULL;
    node->vars &= ~gone;
    node->depends &= ~gone;
  }
  for (uint32_t i = 0; i < s->opaque_count; i++) {
    s->opaques[i].depends &= ~gone;
  }
  for (uint32_t i = 0; i < n->store_count; i++) {
    n->stores[i].offset =
        th_space_replace(s, n->stores[i].offset, symbol, zero);
    n->stores[i].vars &= ~gone;
  }
  s->vars[outer].extent = th_int(n->ir, 1);
}

static th_var_set plan_used_vars(const th_nest *n) {
  th_var_set used = 0;
  for (uint32_t i = 0; i < n->store_count; i++) {
    used |= n->stores[i].vars;
  }
  for (uint32_t i = 0; i < n->node_count; i++) {
    used |= n->nodes[i]->vars;
  }
  return used;
}

static bool plan_merge_one(th_nest *n) {
  th_var_set used = plan_used_vars(n);
  for (int b = 0; b < (int)n->space.var_count; b++) {
    for (int a = 0; a < (int)n->space.var_count; a++) {
      th_var_set va = (th_var_set)1 << a, vb = (th_var_set)1 << b;
      if (a != b && (used & va) && (used & vb) && plan_same_loops(n, va, vb) &&
          plan_all_can_merge(n, a, b)) {
        plan_merge(n, a, b);
        return true;
      }
    }
  }
  return false;
}

// Nodes that nothing reaches (a rule made and dropped them) would only stand
// in the way of merging and weigh in the choice of lanes.
static void plan_reach(th_nest *n, const th_node *node, bool *seen) {
  if (seen[node->id]) {
    return;
  }
  seen[node->id] = true;
  for (uint32_t i = 0; i < node->arg_count; i++) {
    plan_reach(n, node->args[i], seen);
  }
  for (uint32_t i = 0; node->expr && i < n->space.opaque_count; i++) {
    if (!seen[n->space.opaques[i].node->id] &&
        th_space_mentions(node->expr, n->space.opaques[i].symbol)) {
      plan_reach(n, n->space.opaques[i].node, seen);
    }
  }
}

static void plan_sweep(th_nest *n) {
  bool *seen = TH_NEW_ARRAY(n->arena, bool, n->node_count + 1);
  for (uint32_t i = 0; i < n->store_count; i++) {
    plan_reach(n, n->stores[i].node, seen);
    for (uint32_t k = 0; k < n->space.opaque_count; k++) {
      if (th_space_mentions(n->stores[i].offset, n->space.opaques[k].symbol)) {
        plan_reach(n, n->space.opaques[k].node, seen);
      }
    }
  }
  uint32_t count = 0;
  for (uint32_t i = 0; i < n->node_count; i++) {
    if (seen[i]) {
      n->nodes[count++] = n->nodes[i];
    }
  }
  n->node_count = count;
  for (uint32_t i = 0; i < count; i++) {
    n->nodes[i]->id = i;
  }
}

// ---- lanes

typedef struct plan_score {
  const th_plan *plan;
  int var;
  int score;
  bool *seen;
  th_var_set walked; // by reductions: loads that vary with none do not weigh
} plan_score;

// Neighbours are good, one value for all lanes is fine, anything else costs a
// load for each lane.
static int plan_stride_score(const th_plan *p, const th_expr *offset, int var) {
  const th_space *s = &p->nest->space;
  const th_expr *coeff = NULL, *rest = NULL;
  th_var_set bit = (th_var_set)1 << var;
  if (!(th_space_depends(s, offset) & bit)) {
    return 0;
  }
  if (!th_space_linear(s, offset, s->vars[var].symbol, &coeff, &rest) ||
      (th_space_depends(s, rest) & bit)) {
    return -6;
  }
  return th_is_int(coeff, 1) ? 4 : th_is_int(coeff, -1) ? 2 : -4;
}

static void plan_score_node(plan_score *s, const th_node *node) {
  if (s->seen[node->id]) {
    return;
  }
  s->seen[node->id] = true;
  if (node->kind == TH_NODE_LOAD &&
      (!s->walked ||
       th_space_depends(&s->plan->nest->space, node->expr) & s->walked)) {
    s->score += plan_stride_score(s->plan, node->expr, s->var);
  }
  for (uint32_t i = 0; i < node->arg_count; i++) {
    plan_score_node(s, node->args[i]);
  }
}

// A short range leaves most lanes empty.
static int plan_extent_score(const th_plan *p, int var) {
  const th_expr *extent = p->nest->space.vars[var].extent;
  if (!th_is_const(extent) || extent->i >= 16) {
    return 0;
  }
  return extent->i >= 8 ? -3 : extent->i >= 4 ? -12 : -40;
}

int th_plan_lane(const th_plan *p, th_var_set vars, th_node *const *roots,
                 uint32_t count, const th_expr *const *offsets,
                 th_var_set walked, int *out_score) {
  int best = -1, best_score = 0;
  th_nest *n = p->nest;
  for (int v = (int)n->space.var_count - 1; v >= 0; v--) {
    if (!(vars & ((th_var_set)1 << v))) {
      continue;
    }
    plan_score s = {p, v, plan_extent_score(p, v),
                    TH_NEW_ARRAY(n->arena, bool, n->node_count + 1), walked};
    for (uint32_t i = 0; i < count; i++) {
      plan_score_node(&s, roots[i]);
      // A store that misses costs more than a load: twice.
      s.score +=
          offsets && offsets[i] ? 2 * plan_stride_score(p, offsets[i], v) : 0;
    }
    if (best < 0 || s.score > best_score) {
      best = v;
      best_score = s.score;
    }
  }
  *out_score = best_score;
  return best;
}

// ---- vector widths

static uint32_t plan_register_bytes(th_dtype dtype) {
  switch (dtype) {
  case TH_I64:
  case TH_F64:
    return 8;
  default:
    return 4;
  }
}

// Whether lanes over this variable touch memory other than side by side.
static bool plan_gathers(const th_plan *p, th_var_set lanes) {
  const th_nest *n = p->nest;
  for (int v = 0; v < (int)n->space.var_count; v++) {
    if (!(lanes & ((th_var_set)1 << v))) {
      continue;
    }
    for (uint32_t i = 0; i < n->node_count; i++) {
      const th_node *node = n->nodes[i];
      if (node->kind == TH_NODE_LOAD &&
          plan_stride_score(p, node->expr, v) < 0) {
        return true;
      }
    }
    for (uint32_t i = 0; i < n->store_count; i++) {
      if (plan_stride_score(p, n->stores[i].offset, v) < 0) {
        return true;
      }
    }
  }
  return false;
}

static void plan_variants(const th_plan *p, th_phase *phase,
                          th_var_set lane_vars) {
  const th_nest *n = p->nest;
  uint32_t bytes = 4;
  for (uint32_t i = 0; i < n->node_count; i++) {
    const th_node *node = n->nodes[i];
    uint32_t own = node->depends & lane_vars || node->kind == TH_NODE_REDUCE
                       ? plan_register_bytes(node->dtype)
                       : 4;
    bytes = own > bytes ? own : bytes;
  }
  uint32_t native = p->target->vector_bytes / bytes;
  uint32_t lanes = plan_gathers(p, lane_vars) ? native : 4 * native;
  uint32_t count = 0;
  phase->variants[count++] = (th_variant){lanes, false};
  if (p->target->has_mask_registers) {
    phase->variants[count++] = (th_variant){native, true};
  } else {
    if (lanes > native) {
      phase->variants[count++] = (th_variant){native, false};
    }
    phase->variants[count++] = (th_variant){1, false};
  }
  phase->variant_count = count;
}

// ---- phases

static th_var_set plan_reduced_at(const th_nest *n) {
  th_var_set at = 0;
  for (uint32_t i = 0; i < n->node_count; i++) {
    const th_node *node = n->nodes[i];
    at |= node->kind == TH_NODE_REDUCE ? node->depends : 0;
  }
  return at;
}

static bool plan_has_reduction(const th_nest *n) {
  for (uint32_t i = 0; i < n->node_count; i++) {
    if (n->nodes[i]->kind == TH_NODE_REDUCE) {
      return true;
    }
  }
  return false;
}

// All that the phase computes, for scores.
static uint32_t plan_roots(const th_nest *n, uint32_t phase, th_node **roots,
                           const th_expr **offsets, th_var_set *out_vars) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n->store_count; i++) {
    if (n->stores[i].phase == phase) {
      roots[count] = n->stores[i].node;
      offsets[count++] = n->stores[i].offset;
      *out_vars |= n->stores[i].vars;
    }
  }
  return count;
}

static th_var_set plan_scan_vars(const th_nest *n, uint32_t phase) {
  th_var_set set = 0;
  for (uint32_t i = 0; i < n->store_count; i++) {
    const th_store *s = &n->stores[i];
    if (s->phase == phase && s->scan_var >= 0) {
      set |= (th_var_set)1 << s->scan_var;
    }
  }
  return set;
}

// Lanes of a store that adds must not meet: not over a variable that an index
// from memory depends on.
static th_var_set plan_conflicting(const th_nest *n, uint32_t phase) {
  th_var_set set = 0;
  for (uint32_t i = 0; i < n->store_count; i++) {
    const th_store *s = &n->stores[i];
    if (s->phase != phase) {
      continue;
    }
    for (uint32_t k = 0; k < n->space.opaque_count; k++) {
      if (th_space_mentions(s->offset, n->space.opaques[k].symbol)) {
        set |= n->space.opaques[k].depends;
      }
    }
  }
  return set;
}

static bool plan_sorts(const th_nest *n) {
  for (uint32_t i = 0; i < n->store_count; i++) {
    if (n->stores[i].kind == TH_STORE_SORT) {
      return true;
    }
  }
  return false;
}

static void plan_phase(th_plan *p, uint32_t number) {
  th_nest *n = p->nest;
  th_phase *phase = &p->phases[number];
  th_node **roots = TH_NEW_ARRAY(n->arena, th_node *, n->store_count + 1);
  const th_expr **offsets =
      TH_NEW_ARRAY(n->arena, const th_expr *, n->store_count + 1);
  th_var_set vars = 0;
  uint32_t count = plan_roots(n, number, roots, offsets, &vars);
  bool reduces = plan_has_reduction(n);
  th_var_set scan = plan_scan_vars(n, number);
  phase->outer = reduces ? plan_reduced_at(n) & vars : vars & ~scan;
  // What is stored once for a whole reduction does not weigh.
  for (uint32_t i = 0, at = 0; reduces && i < n->store_count; i++) {
    if (n->stores[i].phase == number) {
      bool once = !(n->stores[i].vars & ~phase->outer);
      offsets[at] = once ? NULL : offsets[at];
      at++;
    }
  }
  th_var_set inner = (plan_used_vars(n) & ~phase->outer) | scan;
  th_var_set bad = n->sequential ? plan_conflicting(n, number) : 0;
  th_var_set walked = reduces ? inner : 0;
  int outer_score = 0, inner_score = 0;
  phase->lane = th_plan_lane(p, phase->outer & ~bad, roots, count, offsets,
                             walked, &outer_score);
  int row =
      th_plan_lane(p, walked, roots, count, offsets, walked, &inner_score);
  th_var_set lanes = phase->lane >= 0 ? (th_var_set)1 << phase->lane : 0;
  if (row >= 0 && (phase->lane < 0 || inner_score > outer_score)) {
    phase->lane = -1;
    lanes = inner;
  }
  if (plan_sorts(n)) {
    phase->lane = -1; // a call for each row
  }
  plan_variants(p, phase, lanes);
}

// What lanes gather from far apart: lines of the cache are used up when the
// variable along which they lie moves inside the lanes' chunk.
static int plan_tile(const th_plan *p) {
  const th_nest *n = p->nest;
  const th_phase *phase = &p->phases[0];
  for (uint32_t i = 0; i < n->node_count && phase->lane >= 0; i++) {
    const th_node *node = n->nodes[i];
    if (node->kind != TH_NODE_LOAD ||
        plan_stride_score(p, node->expr, phase->lane) >= 0) {
      continue;
    }
    for (int v = 0; v < (int)n->space.var_count; v++) {
      bool outer = v != phase->lane && phase->outer >> v & 1;
      if (outer && plan_stride_score(p, node->expr, v) > 0) {
        return v;
      }
    }
  }
  return -1;
}

th_status th_plan_make(th_nest *n, const th_target *target, th_plan *out_plan) {
  enum { CHUNK = 4096, TILE_CHUNK = 128, COLUMN_CHUNK = 256 };
  *out_plan = (th_plan){.nest = n, .target = target, .tile = -1};
  plan_sweep(n);
  while (plan_merge_one(n)) {
  }
  out_plan->phase_count = n->phase_count;
  TH_ASSERT(n->phase_count <= TH_MAX_PHASES);
  for (uint32_t i = 0; i < n->phase_count; i++) {
    plan_phase(out_plan, i);
  }
  th_product_find(n, target, &out_plan->product);
  if (!out_plan->product.reduce && n->phase_count == 1 && !n->sequential) {
    th_keep_find(out_plan);
  }
  int lane = out_plan->phases[0].lane;
  if (lane >= 0 && !n->sequential) {
    const th_expr *extent = n->space.vars[lane].extent;
    // Each lane of a column walks a whole reduction: short chunks, so that
    // threads have something to share.
    int64_t chunk = plan_has_reduction(n) ? COLUMN_CHUNK : CHUNK;
    if (!plan_has_reduction(n)) {
      out_plan->tile = plan_tile(out_plan);
      chunk = out_plan->tile >= 0 ? TILE_CHUNK : CHUNK;
    }
    bool is_short = th_is_const(extent) && extent->i <= chunk;
    out_plan->chunk = is_short ? 0 : chunk;
  }
  return TH_OK;
}

// The function of a kernel: its outer loop, its phases, its stores.
#include "lowering/gen.h"

#include "lowering/convert.h"

#include <string.h>

// ---- loops

static void gen_loops_from(th_gen *g, th_var_set vars, th_gen_body body,
                           void *user) {
  if (!vars) {
    body(g, user);
    return;
  }
  int var = __builtin_ctzll(vars);
  LLVMValueRef extent = th_gen_expr(g, g->nest->space.vars[var].extent);
  th_emit_loop loop = {
      .begin = th_emit_i64(&g->e, 0), .end = extent, .name = "inner"};
  th_emit_loop_begin(&g->e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  LLVMValueRef outside = g->vars[var];
  g->vars[var] = loop.index;
  gen_loops_from(g, vars & (vars - 1), body, user);
  g->vars[var] = outside;
  th_gen_forget(g, mark);
  th_emit_loop_end(&g->e, &loop, NULL, NULL);
}

void th_gen_loops(th_gen *g, th_var_set vars, th_gen_body body, void *user) {
  gen_loops_from(g, vars, body, user);
}

// One variant of a lane loop over [at, end).
static void gen_variant(th_gen *g, int var, LLVMValueRef at, LLVMValueRef end,
                        LLVMValueRef limit, th_variant v, th_gen_body body,
                        void *user) {
  th_emit *e = &g->e;
  th_emit_loop loop = {.begin = at,
                       .end = end,
                       .step = th_emit_i64(e, v.lanes),
                       .name = "lanes"};
  LLVMValueRef outside = g->vars[var];
  th_emit_loop_begin(e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  g->vars[var] = loop.index;
  g->lane = var;
  g->lanes = v.lanes;
  g->mask = v.masked ? th_emit_tail_mask(e, th_emit_sub(e, limit, loop.index),
                                         v.lanes)
                     : NULL;
  g->mask_is_select = false;
  body(g, user);
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &loop, NULL, NULL);
  g->vars[var] = outside;
  g->mask = NULL;
  g->lane = -1;
  g->lanes = 1;
}

void th_gen_lanes(th_gen *g, int var, LLVMValueRef lo, LLVMValueRef hi,
                  const th_expr *extent, th_gen_body body, void *user) {
  th_emit *e = &g->e;
  const th_phase *phase = g->phase;
  // How many are left, when that is known: loops without turns are left out.
  int64_t left = extent && th_is_const(extent) ? extent->i : -1;
  LLVMValueRef at = lo;
  uint32_t outside = g->variant;
  for (uint32_t i = 0; i < phase->variant_count && left != 0; i++) {
    th_variant v = phase->variants[i];
    if (v.masked && left > 0 && left % v.lanes == 0) {
      v.masked = false;
    }
    if (!v.masked && left >= 0 && left < v.lanes) {
      continue;
    }
    LLVMValueRef end = hi;
    if (left >= 0) {
      int64_t taken = v.masked ? left : left - left % v.lanes;
      end = v.masked ? hi : th_emit_add(e, at, th_emit_i64(e, taken));
      left -= taken;
    } else if (!v.masked && v.lanes > 1) {
      LLVMValueRef whole = th_emit_and(e, th_emit_sub(e, hi, at),
                                       th_emit_i64(e, -(int64_t)v.lanes));
      end = th_emit_add(e, at, whole);
    }
    g->variant = i;
    gen_variant(g, var, at, end, hi, v, body, user);
    at = end;
  }
  g->variant = outside;
}

// ---- errors

void th_gen_check(th_gen *g, LLVMValueRef bad, uint16_t stmt, int code,
                  LLVMValueRef value, LLVMValueRef limit) {
  th_emit *e = &g->e;
  LLVMBuilderRef b = e->builder;
  unsigned lanes = th_emit_type_lanes(LLVMTypeOf(bad));
  if (g->mask) {
    LLVMValueRef mask =
        lanes > 1 || g->lanes == 1 ? g->mask : th_emit_any(e, g->mask);
    bad = th_emit_and(e, bad, mask);
  }
  LLVMBasicBlockRef error = th_emit_block(e, "error");
  LLVMBasicBlockRef next = th_emit_block(e, "next");
  LLVMBuildCondBr(b, th_emit_any(e, bad), error, next);
  LLVMPositionBuilderAtEnd(b, error);
  if (th_emit_type_lanes(LLVMTypeOf(value)) > 1) { // the first bad lane
    LLVMValueRef first = th_emit_extract(e, value, lanes - 1);
    for (unsigned i = lanes - 1; i-- > 0;) {
      first = th_emit_select(e, th_emit_extract(e, bad, i),
                             th_emit_extract(e, value, i), first);
    }
    value = first;
    limit = th_emit_extract(e, limit, 0);
  }
  LLVMValueRef at = g->error;
  th_emit_store(e, th_emit_i32(e, code), at, 4);
  at = th_emit_gep(e, e->i8, g->error, th_emit_i64(e, 4));
  th_emit_store(e, th_emit_i32(e, stmt), at, 4);
  at = th_emit_gep(e, e->i8, g->error, th_emit_i64(e, 8));
  th_emit_store(e, value, at, 8);
  at = th_emit_gep(e, e->i8, g->error, th_emit_i64(e, 16));
  th_emit_store(e, limit, at, 8);
  LLVMBuildRet(b, th_emit_i32(e, code));
  LLVMPositionBuilderAtEnd(b, next);
}

// ---- stores

typedef struct gen_group {
  th_store *stores[64];
  uint32_t count;
  th_var_set vars; // inner
  int lane;
} gen_group;

void th_gen_store_all(th_gen *g, void *user) {
  (void)user;
  for (uint32_t i = 0; i < g->nest->store_count; i++) {
    th_gen_store(g, &g->nest->stores[i]);
  }
}

static void gen_store_group(th_gen *g, void *user) {
  gen_group *group = user;
  for (uint32_t i = 0; i < group->count; i++) {
    th_gen_store(g, group->stores[i]);
  }
}

static void gen_store_lanes(th_gen *g, void *user) {
  gen_group *group = user;
  if (group->lane < 0) {
    gen_store_group(g, user);
    return;
  }
  const th_expr *extent = g->nest->space.vars[group->lane].extent;
  th_gen_lanes(g, group->lane, th_emit_i64(&g->e, 0), th_gen_expr(g, extent),
               extent, gen_store_group, user);
}

static void gen_group_stores(th_gen *g, gen_group *group) {
  th_node *roots[TH_COUNT(group->stores)];
  const th_expr *offsets[TH_COUNT(group->stores)];
  for (uint32_t i = 0; i < group->count; i++) {
    roots[i] = group->stores[i]->node;
    offsets[i] = group->stores[i]->offset;
  }
  group->lane = -1;
  if (g->lane < 0 && g->phase->lane < 0) {
    int score = 0;
    group->lane = th_plan_lane(g->plan, group->vars, roots, group->count,
                               offsets, 0, &score);
  }
  th_var_set own = group->lane < 0 ? 0 : (th_var_set)1 << group->lane;
  g->stores_row = true;
  th_gen_loops(g, group->vars & ~own, gen_store_lanes, group);
  g->stores_row = false;
}

// ---- phases

// Everything at one position of the outer variables (of one or more lanes).
static void gen_position(th_gen *g, void *user) {
  (void)user;
  th_nest *n = g->nest;
  uint32_t phase = (uint32_t)(g->phase - g->plan->phases);
  th_node **roots = TH_NEW_ARRAY(n->arena, th_node *, n->store_count + 1);
  uint32_t count = 0;
  for (uint32_t i = 0; i < n->store_count; i++) {
    if (n->stores[i].phase == phase && n->stores[i].kind != TH_STORE_SORT) {
      roots[count++] = n->stores[i].node;
    }
  }
  g->kept = false;
  th_gen_hoist(g, roots, count, g->phase->outer);
  bool *done = TH_NEW_ARRAY(n->arena, bool, n->store_count + 1);
  bool sorts = false;
  for (uint32_t i = 0; i < n->store_count; i++) {
    th_store *first = &n->stores[i];
    if (first->phase != phase || done[i]) {
      continue;
    }
    if (first->kind == TH_STORE_SCAN) {
      th_gen_scan(g, first);
      continue;
    }
    if (first->kind == TH_STORE_SORT) {
      if (!sorts) {
        th_gen_sort(g, phase);
      }
      sorts = true;
      continue;
    }
    gen_group group = {.vars = first->vars & ~g->phase->outer};
    for (uint32_t k = i; k < n->store_count; k++) {
      th_store *s = &n->stores[k];
      if (s->phase == phase && !done[k] && s->kind == first->kind &&
          s->vars == first->vars && group.count < TH_COUNT(group.stores)) {
        group.stores[group.count++] = s;
        done[k] = true;
      }
    }
    gen_group_stores(g, &group);
  }
}

// The lane variable from lo to hi, or one position in row mode.
static void gen_phase_lanes(th_gen *g, LLVMValueRef lo, LLVMValueRef hi,
                            const th_expr *extent) {
  if (g->phase->lane < 0) {
    gen_position(g, NULL);
  } else {
    th_gen_lanes(g, g->phase->lane, lo, hi, extent, gen_position, NULL);
  }
}

static void gen_whole_lane(th_gen *g, void *user) {
  (void)user;
  int lane = g->phase->lane;
  const th_expr *extent = lane < 0 ? NULL : g->nest->space.vars[lane].extent;
  gen_phase_lanes(g, th_emit_i64(&g->e, 0),
                  extent ? th_gen_expr(g, extent) : NULL, extent);
}

th_var_set th_gen_outer_without_lane(const th_phase *phase) {
  th_var_set own = phase->lane < 0 ? 0 : (th_var_set)1 << phase->lane;
  return phase->outer & ~own;
}

void th_gen_sequential(th_gen *g) {
  for (uint32_t i = 0; i < g->plan->phase_count; i++) {
    g->phase = &g->plan->phases[i];
    uint32_t mark = th_gen_mark(g);
    th_gen_loops(g, th_gen_outer_without_lane(g->phase), gen_whole_lane, NULL);
    th_gen_forget(g, mark);
  }
}

// ---- tiles

static LLVMValueRef gen_tiles(th_gen *g, LLVMValueRef extent) {
  th_emit *e = &g->e;
  LLVMValueRef up = th_emit_add(e, extent, th_emit_i64(e, TH_PLAN_TILE - 1));
  return LLVMBuildUDiv(e->builder, up, th_emit_i64(e, TH_PLAN_TILE), "");
}

// The tile variable is the number of a tile so far; it walks through it.
static void gen_tile(th_gen *g, LLVMValueRef lo, LLVMValueRef hi,
                     const th_expr *extent) {
  th_emit *e = &g->e;
  int var = g->plan->tile;
  LLVMValueRef size = th_gen_expr(g, g->nest->space.vars[var].extent);
  LLVMValueRef first =
      th_emit_mul(e, g->vars[var], th_emit_i64(e, TH_PLAN_TILE));
  LLVMValueRef end = th_emit_add(e, first, th_emit_i64(e, TH_PLAN_TILE));
  end = th_emit_select(e, th_emit_icmp(e, LLVMIntSLT, end, size), end, size);
  th_emit_loop loop = {.begin = first, .end = end, .name = "tile"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  g->vars[var] = loop.index;
  gen_phase_lanes(g, lo, hi, extent);
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

// p counts positions; its digits are the outer variables, the last fastest.
void th_gen_parallel(th_gen *g, LLVMValueRef begin, LLVMValueRef end) {
  th_emit *e = &g->e;
  const th_space *s = &g->nest->space;
  g->phase = &g->plan->phases[0];
  int lane = g->phase->lane;
  const th_expr *extent = lane < 0 ? NULL : s->vars[lane].extent;
  th_emit_loop loop = {.begin = begin, .end = end, .name = "outer"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  LLVMValueRef rest = loop.index, lo = th_emit_i64(e, 0), hi = NULL;
  if (extent) {
    hi = th_gen_expr(g, extent);
  }
  if (g->plan->chunk) {
    LLVMValueRef chunk = th_emit_i64(e, g->plan->chunk);
    LLVMValueRef more = th_emit_i64(e, g->plan->chunk - 1);
    LLVMValueRef chunks =
        LLVMBuildUDiv(e->builder, th_emit_add(e, hi, more), chunk, "");
    LLVMValueRef q = LLVMBuildUDiv(e->builder, rest, chunks, "");
    LLVMValueRef which = th_emit_sub(e, rest, th_emit_mul(e, q, chunks));
    rest = q;
    lo = th_emit_mul(e, which, chunk);
    LLVMValueRef next = th_emit_add(e, lo, chunk);
    hi = th_emit_select(e, th_emit_icmp(e, LLVMIntSLT, next, hi), next, hi);
    extent = NULL;
  }
  th_var_set vars = th_gen_outer_without_lane(g->phase);
  while (vars) {
    int var = 63 - __builtin_clzll(vars);
    vars &= ~((th_var_set)1 << var);
    LLVMValueRef size = th_gen_expr(g, s->vars[var].extent);
    size = var == g->plan->tile ? gen_tiles(g, size) : size;
    LLVMValueRef q =
        vars ? LLVMBuildUDiv(e->builder, rest, size, "") : th_emit_i64(e, 0);
    g->vars[var] = th_emit_sub(e, rest, th_emit_mul(e, q, size));
    rest = q;
  }
  if (g->plan->tile < 0) {
    gen_phase_lanes(g, lo, hi, extent);
  } else {
    gen_tile(g, lo, hi, extent);
  }
  th_emit_loop_end(e, &loop, NULL, NULL);
}

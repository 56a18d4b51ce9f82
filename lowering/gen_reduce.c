// Reductions: accumulators in registers, combined in a fixed order.
#include "lowering/gen.h"

#include "lowering/convert.h"
#include "lowering/kernel.h"
#include "lowering/math.h"

#include <math.h>
#include <string.h>

// ---- which come first

typedef struct hoist_state {
  th_gen *g;
  th_var_set open;
  th_node **found;
  uint32_t *levels;
  uint32_t count, cap, level_cap;
  uint32_t *level_of; // by node: level + 1 once visited
} hoist_state;

// The level of a node: how many reductions lie under one another in it.
static uint32_t hoist_visit(hoist_state *h, th_node *node) {
  th_gen *g = h->g;
  if (h->level_of[node->id]) {
    return h->level_of[node->id] - 1;
  }
  h->level_of[node->id] = 1;
  if (g->values[node->id] || node->kind == TH_NODE_SELECT) {
    return 0; // made, or perhaps not there to be made
  }
  uint32_t level = 0;
  for (uint32_t i = 0; i < node->arg_count; i++) {
    uint32_t own = hoist_visit(h, node->args[i]);
    level = own > level ? own : level;
  }
  const th_space *s = &g->nest->space;
  for (uint32_t i = 0; node->expr && i < s->opaque_count; i++) {
    if (th_space_mentions(node->expr, s->opaques[i].symbol)) {
      uint32_t own = hoist_visit(h, s->opaques[i].node);
      level = own > level ? own : level;
    }
  }
  if (node->kind == TH_NODE_REDUCE && !node->guarded &&
      !(node->depends & ~h->open)) {
    TH_PUSH(g->nest->arena, h->found, h->count, h->cap) = node;
    uint32_t count = h->count - 1;
    TH_PUSH(g->nest->arena, h->levels, count, h->level_cap) = level;
    level++;
  }
  h->level_of[node->id] = level + 1;
  return level;
}

void th_gen_hoist(th_gen *g, th_node *const *roots, uint32_t count,
                  th_var_set open) {
  hoist_state h = {.g = g, .open = open};
  h.level_of = TH_NEW_ARRAY(g->nest->arena, uint32_t, g->nest->node_count + 1);
  for (uint32_t i = 0; i < count; i++) {
    hoist_visit(&h, roots[i]);
  }
  th_node **group = TH_NEW_ARRAY(g->nest->arena, th_node *, h.count + 1);
  bool *done = TH_NEW_ARRAY(g->nest->arena, bool, h.count + 1);
  for (uint32_t level = 0, left = h.count; left; level++) {
    for (uint32_t i = 0; i < h.count; i++) {
      if (done[i] || h.levels[i] != level) {
        continue;
      }
      uint32_t size = 0; // those of the level with the same loops
      for (uint32_t k = i; k < h.count; k++) {
        if (!done[k] && h.levels[k] == level &&
            h.found[k]->vars == h.found[i]->vars) {
          group[size++] = h.found[k];
          done[k] = true;
          left--;
        }
      }
      th_gen_reduce(g, group, size);
    }
  }
}

// ---- accumulators

typedef struct reduce_acc {
  LLVMValueRef value[TH_MAX_VARIANTS];    // alloca
  LLVMValueRef blocks[TH_MAX_VARIANTS];   // sum of the blocks before; or NULL
  LLVMValueRef position[TH_MAX_VARIANTS]; // of arg reductions
  LLVMTypeRef type[TH_MAX_VARIANTS], position_type[TH_MAX_VARIANTS];
} reduce_acc;

typedef struct reduce_state {
  th_node *const *nodes;
  uint32_t count;
  reduce_acc *accs;
  bool by_lanes; // lanes run over a reduced variable
  int block_var; // sums pause after a block of this variable; -1
  bool keeps;    // the value that the plan keeps comes by here first
} reduce_state;

static bool reduce_is_arg(const th_node *node) {
  return node->op == TH_OP_argmax || node->op == TH_OP_argmin;
}

static bool reduce_is_dot(const th_node *node) {
  return node->op == TH_OP_matmul || node->op == TH_OP_convolution;
}

// The dtype of what is accumulated.
static th_dtype reduce_dtype(const th_node *node) {
  return node->args[0]->dtype;
}

static double reduce_float_start(th_op op) {
  switch (op) {
  case TH_OP_prod:
    return 1;
  case TH_OP_amax:
  case TH_OP_argmax:
    return -INFINITY;
  case TH_OP_amin:
  case TH_OP_argmin:
    return INFINITY;
  default:
    return 0;
  }
}

static int64_t reduce_int_start(th_op op, th_dtype dtype) {
  bool is_unsigned = dtype == TH_U8 || dtype == TH_BOOL;
  unsigned bits = dtype == TH_BOOL ? 1 : 8u * (unsigned)th_dtype_size(dtype);
  int64_t most = is_unsigned ? (dtype == TH_BOOL ? 1 : 255)
                             : (int64_t)(UINT64_MAX >> (65 - bits));
  switch (op) {
  case TH_OP_prod:
  case TH_OP_all:
    return 1;
  case TH_OP_amax:
  case TH_OP_argmax:
    return is_unsigned ? 0 : -most - 1;
  case TH_OP_amin:
  case TH_OP_argmin:
    return most;
  default:
    return 0;
  }
}

static LLVMValueRef reduce_start(th_gen *g, const th_node *node,
                                 LLVMTypeRef type) {
  th_dtype dtype = reduce_dtype(node);
  return th_dtype_is_float(dtype)
             ? th_emit_const_float(&g->e, type, reduce_float_start(node->op))
             : th_emit_const_int(&g->e, type,
                                 reduce_int_start(node->op, dtype));
}

// At the entry of the function, where memory can become a register.
LLVMValueRef th_gen_slot(th_gen *g, LLVMTypeRef type) {
  th_emit *e = &g->e;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
  LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(e->function);
  LLVMValueRef first = LLVMGetFirstInstruction(entry);
  if (first) {
    LLVMPositionBuilderBefore(e->builder, first);
  } else {
    LLVMPositionBuilderAtEnd(e->builder, entry);
  }
  LLVMValueRef slot = LLVMBuildAlloca(e->builder, type, "acc");
  LLVMPositionBuilderAtEnd(e->builder, here);
  return slot;
}

static bool reduce_is_sum(const th_node *node) {
  return (node->op == TH_OP_sum || reduce_is_dot(node)) &&
         th_dtype_is_float(reduce_dtype(node));
}

static void reduce_make_acc(th_gen *g, const th_node *node, uint32_t variant,
                            uint32_t lanes, bool in_blocks, reduce_acc *acc) {
  th_emit *e = &g->e;
  LLVMTypeRef type =
      th_emit_type_vector(th_gen_register(g, reduce_dtype(node)), lanes);
  acc->type[variant] = type;
  acc->value[variant] = th_gen_slot(g, type);
  LLVMBuildStore(e->builder, reduce_start(g, node, type), acc->value[variant]);
  if (in_blocks && reduce_is_sum(node)) {
    acc->blocks[variant] = th_gen_slot(g, type);
    LLVMBuildStore(e->builder, LLVMConstNull(type), acc->blocks[variant]);
  }
  if (reduce_is_arg(node)) {
    LLVMTypeRef wide = th_emit_type_vector(e->i64, lanes);
    acc->position_type[variant] = wide;
    acc->position[variant] = th_gen_slot(g, wide);
    LLVMBuildStore(e->builder, th_emit_const_int(e, wide, INT64_MAX),
                   acc->position[variant]);
  }
}

// ---- combining

static LLVMValueRef reduce_combine(th_gen *g, const th_node *node,
                                   LLVMValueRef a, LLVMValueRef b) {
  th_emit *e = &g->e;
  th_dtype dtype = reduce_dtype(node);
  bool is_float = th_dtype_is_float(dtype);
  bool is_unsigned = dtype == TH_U8 || dtype == TH_BOOL;
  switch (node->op) {
  case TH_OP_prod:
    return is_float ? th_emit_fmul(e, a, b) : th_emit_mul(e, a, b);
  case TH_OP_any:
    return th_emit_or(e, a, b);
  case TH_OP_all:
    return th_emit_and(e, a, b);
  case TH_OP_amax:
  case TH_OP_amin: {
    bool max = node->op == TH_OP_amax;
    if (is_float) {
      return max ? th_math_maximum(e, a, b) : th_math_minimum(e, a, b);
    }
    LLVMIntPredicate less = is_unsigned ? LLVMIntULT : LLVMIntSLT;
    LLVMValueRef c = th_emit_icmp(e, less, a, b);
    return th_emit_select(e, c, max ? b : a, max ? a : b);
  }
  default:
    return is_float ? th_emit_fadd(e, a, b) : th_emit_add(e, a, b);
  }
}

typedef struct reduce_pair {
  LLVMValueRef value, position;
} reduce_pair;

// The better of two: larger (smaller), NaN before all, the first of equals.
static reduce_pair reduce_better(th_gen *g, const th_node *node, reduce_pair a,
                                 reduce_pair b) {
  th_emit *e = &g->e;
  th_dtype dtype = reduce_dtype(node);
  bool max = node->op == TH_OP_argmax;
  LLVMValueRef more, same;
  if (th_dtype_is_float(dtype)) {
    LLVMValueRef nan_a = th_emit_is_nan(e, a.value);
    LLVMValueRef nan_b = th_emit_is_nan(e, b.value);
    LLVMRealPredicate p = max ? LLVMRealOGT : LLVMRealOLT;
    more = th_emit_or(e, th_emit_fcmp(e, p, b.value, a.value),
                      th_emit_and(e, nan_b, th_emit_not(e, nan_a)));
    same = th_emit_or(e, th_emit_fcmp(e, LLVMRealOEQ, a.value, b.value),
                      th_emit_and(e, nan_a, nan_b));
  } else {
    bool is_unsigned = dtype == TH_U8 || dtype == TH_BOOL;
    LLVMIntPredicate p = is_unsigned ? (max ? LLVMIntUGT : LLVMIntULT)
                                     : (max ? LLVMIntSGT : LLVMIntSLT);
    more = th_emit_icmp(e, p, b.value, a.value);
    same = th_emit_icmp(e, LLVMIntEQ, a.value, b.value);
  }
  LLVMValueRef first = th_emit_icmp(e, LLVMIntSLT, b.position, a.position);
  LLVMValueRef take = th_emit_or(e, more, th_emit_and(e, same, first));
  return (reduce_pair){th_emit_select(e, take, b.value, a.value),
                       th_emit_select(e, take, b.position, a.position)};
}

// ---- one step

static void reduce_step_arg(th_gen *g, const th_node *node, reduce_acc *acc,
                            uint32_t v, LLVMValueRef x) {
  th_emit *e = &g->e;
  LLVMBuilderRef b = e->builder;
  bool vector = LLVMGetTypeKind(acc->type[v]) == LLVMVectorTypeKind;
  LLVMValueRef at = th_gen_expr(g, node->expr);
  reduce_pair old = {
      LLVMBuildLoad2(b, acc->type[v], acc->value[v], ""),
      LLVMBuildLoad2(b, acc->position_type[v], acc->position[v], "")};
  reduce_pair now = {x, vector ? th_gen_widen(g, at) : at};
  reduce_pair best = reduce_better(g, node, old, now);
  if (g->mask) {
    best.value = th_emit_select(e, g->mask, best.value, old.value);
    best.position = th_emit_select(e, g->mask, best.position, old.position);
  }
  LLVMBuildStore(b, best.value, acc->value[v]);
  LLVMBuildStore(b, best.position, acc->position[v]);
}

// old + a * b with one rounding: inside one product statement.
static LLVMValueRef reduce_fma(th_gen *g, const th_node *node,
                               LLVMValueRef old) {
  const th_node *product = node->args[0];
  LLVMValueRef a = th_gen_node(g, product->args[0]);
  LLVMValueRef b = th_gen_node(g, product->args[1]);
  if (th_emit_type_lanes(LLVMTypeOf(old)) > 1) {
    a = th_gen_widen(g, a);
    b = th_gen_widen(g, b);
  }
  return th_emit_fma(&g->e, a, b, old);
}

static void reduce_step(th_gen *g, const th_node *node, reduce_acc *acc) {
  th_emit *e = &g->e;
  LLVMBuilderRef b = e->builder;
  uint32_t v = g->variant;
  bool vector = LLVMGetTypeKind(acc->type[v]) == LLVMVectorTypeKind;
  bool fma = reduce_is_dot(node) && th_dtype_is_float(reduce_dtype(node)) &&
             node->args[0]->kind == TH_NODE_APPLY &&
             node->args[0]->op == TH_OP_mul;
  LLVMValueRef x = fma ? NULL : th_gen_node(g, node->args[0]);
  x = x && vector ? th_gen_widen(g, x) : x;
  if (reduce_is_arg(node)) {
    reduce_step_arg(g, node, acc, v, x);
    return;
  }
  LLVMValueRef old = LLVMBuildLoad2(b, acc->type[v], acc->value[v], "");
  LLVMValueRef next =
      fma ? reduce_fma(g, node, old) : reduce_combine(g, node, old, x);
  if (g->mask && vector) {
    next = th_emit_select(e, g->mask, next, old);
  }
  LLVMBuildStore(b, next, acc->value[v]);
}

static void reduce_body(th_gen *g, void *user) {
  reduce_state *s = user;
  for (uint32_t i = 0; i < s->count; i++) {
    reduce_step(g, s->nodes[i], &s->accs[i]);
  }
  if (s->keeps) {
    th_gen_store(g, &(th_store){.kind = TH_STORE_SET,
                                .node = g->plan->keep.node,
                                .buffer = g->plan->keep.buffer,
                                .offset = g->plan->keep.offset});
  }
}

// Whether a node is computed for these nodes, reductions apart.
static bool reduce_reaches(const th_node *from, const th_node *to, bool *seen) {
  if (from == to) {
    return true;
  }
  bool through = from->kind != TH_NODE_REDUCE && from->kind != TH_NODE_SELECT &&
                 !seen[from->id];
  seen[from->id] = true;
  for (uint32_t i = 0; through && i < from->arg_count; i++) {
    if (reduce_reaches(from->args[i], to, seen)) {
      return true;
    }
  }
  return false;
}

static bool reduce_keeps(const th_gen *g, th_node *const *nodes,
                         uint32_t count) {
  const th_node *keep = g->plan->keep.node;
  bool keeps = false;
  bool *seen = TH_NEW_ARRAY(g->nest->arena, bool, g->nest->node_count + 1);
  for (uint32_t i = 0; keep && !g->kept && i < count; i++) {
    const th_node *node = nodes[i];
    keeps = keeps || (!node->guarded &&
                      node->vars == (keep->depends & ~g->phase->outer) &&
                      reduce_reaches(node->args[0], keep, seen));
  }
  return keeps;
}

// ---- the end

typedef struct reduce_fold {
  th_gen *g;
  const th_node *node;
} reduce_fold;

static LLVMValueRef reduce_fold_fn(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                                   void *user) {
  reduce_fold *f = user;
  (void)e;
  return reduce_combine(f->g, f->node, a, b);
}

static reduce_pair reduce_fold_arg(th_gen *g, const th_node *node,
                                   reduce_pair p) {
  th_emit *e = &g->e;
  unsigned lanes = th_emit_type_lanes(LLVMTypeOf(p.value));
  while (lanes > 1) {
    lanes /= 2;
    reduce_pair low = {th_emit_slice(e, p.value, 0, lanes),
                       th_emit_slice(e, p.position, 0, lanes)};
    reduce_pair high = {th_emit_slice(e, p.value, lanes, lanes),
                        th_emit_slice(e, p.position, lanes, lanes)};
    p = reduce_better(g, node, low, high);
  }
  if (LLVMGetTypeKind(LLVMTypeOf(p.value)) == LLVMVectorTypeKind) {
    p.value = th_emit_extract(e, p.value, 0);
    p.position = th_emit_extract(e, p.position, 0);
  }
  return p;
}

static LLVMValueRef reduce_finish(th_gen *g, const th_node *node,
                                  const reduce_acc *acc, bool by_lanes) {
  th_emit *e = &g->e;
  LLVMBuilderRef b = e->builder;
  uint32_t first = by_lanes ? 0 : g->variant;
  uint32_t end = by_lanes ? g->phase->variant_count : first + 1;
  reduce_pair total = {NULL, NULL};
  for (uint32_t v = first; v < end; v++) {
    reduce_pair part = {LLVMBuildLoad2(b, acc->type[v], acc->value[v], ""),
                        NULL};
    if (acc->blocks[v]) {
      LLVMValueRef before = LLVMBuildLoad2(b, acc->type[v], acc->blocks[v], "");
      part.value = th_emit_fadd(e, before, part.value);
    }
    reduce_fold fold = {g, node};
    if (reduce_is_arg(node)) {
      part.position =
          LLVMBuildLoad2(b, acc->position_type[v], acc->position[v], "");
      part = by_lanes ? reduce_fold_arg(g, node, part) : part;
      total = v == first ? part : reduce_better(g, node, total, part);
      continue;
    }
    if (by_lanes && LLVMGetTypeKind(acc->type[v]) == LLVMVectorTypeKind) {
      part.value = th_emit_reduce_lanes(e, part.value, reduce_fold_fn, &fold);
    }
    total.value = v == first ? part.value
                             : reduce_combine(g, node, total.value, part.value);
  }
  if (!reduce_is_arg(node)) {
    return th_convert_round(&g->e, total.value, node->dtype);
  }
  // Of nothing there is no position.
  LLVMTypeRef type = LLVMTypeOf(total.position);
  LLVMValueRef none = th_emit_icmp(e, LLVMIntEQ, total.position,
                                   th_emit_const_int(e, type, INT64_MAX));
  LLVMValueRef zero = th_emit_const_int(e, type, 0);
  th_gen_check(g, none, node->stmt, TH_KERNEL_INDEX, zero, zero);
  return total.position;
}

// ---- loops

typedef struct reduce_nest {
  reduce_state *state;
  int lane;
} reduce_nest;

// Adds what a block gave to the sum of those before, and starts again from 0:
// a long sum in one register would lose its small addends.
static void reduce_end_block(th_gen *g, const reduce_state *s) {
  th_emit *e = &g->e;
  LLVMBuilderRef b = e->builder;
  for (uint32_t i = 0; i < s->count; i++) {
    const reduce_acc *acc = &s->accs[i];
    for (uint32_t v = 0; v < TH_MAX_VARIANTS; v++) {
      if (!acc->blocks[v]) {
        continue;
      }
      LLVMValueRef now = LLVMBuildLoad2(b, acc->type[v], acc->value[v], "");
      LLVMValueRef sum = LLVMBuildLoad2(b, acc->type[v], acc->blocks[v], "");
      LLVMBuildStore(b, th_emit_fadd(e, sum, now), acc->blocks[v]);
      LLVMBuildStore(b, LLVMConstNull(acc->type[v]), acc->value[v]);
    }
  }
}

static void reduce_range(th_gen *g, const reduce_nest *nest, LLVMValueRef lo,
                         LLVMValueRef hi, const th_expr *extent) {
  th_emit *e = &g->e;
  reduce_state *s = nest->state;
  if (nest->lane >= 0) {
    th_gen_lanes(g, nest->lane, lo, hi, extent, reduce_body, s);
    return;
  }
  th_emit_loop loop = {.begin = lo, .end = hi, .name = "inner"};
  LLVMValueRef outside = g->vars[s->block_var];
  th_emit_loop_begin(e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  g->vars[s->block_var] = loop.index;
  reduce_body(g, s);
  g->vars[s->block_var] = outside;
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

enum { REDUCE_BLOCK = 512 }; // additions to one register

static int64_t reduce_block_size(const th_gen *g, const reduce_nest *nest) {
  uint32_t lanes = nest->lane >= 0 ? g->phase->variants[0].lanes : 1;
  return (int64_t)REDUCE_BLOCK * lanes;
}

// Whether sums are long enough for blocks.  A row of unknown length is taken
// for a short one, unless it is the whole tensor.
static bool reduce_is_long(const th_gen *g, const reduce_nest *nest, int var) {
  bool sums = false;
  for (uint32_t i = 0; i < nest->state->count; i++) {
    sums = sums || reduce_is_sum(nest->state->nodes[i]);
  }
  const th_expr *extent = g->nest->space.vars[var].extent;
  bool whole = nest->lane < 0 || g->phase->outer == 0;
  return sums &&
         (th_is_const(extent) ? extent->i > 4 * reduce_block_size(g, nest)
                              : whole);
}

static void reduce_inner(th_gen *g, void *user) {
  reduce_nest *nest = user;
  reduce_state *s = nest->state;
  th_emit *e = &g->e;
  int var = nest->lane >= 0 ? nest->lane : s->block_var;
  if (var < 0) {
    reduce_body(g, s);
    return;
  }
  const th_expr *extent = g->nest->space.vars[var].extent;
  LLVMValueRef zero = th_emit_i64(e, 0), end = th_gen_expr(g, extent);
  if (s->block_var < 0) {
    reduce_range(g, nest, zero, end, extent);
    return;
  }
  LLVMValueRef step = th_emit_i64(e, reduce_block_size(g, nest));
  th_emit_loop loop = {
      .begin = zero, .end = end, .step = step, .name = "block"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  LLVMValueRef hi = th_emit_add(e, loop.index, step);
  hi = th_emit_select(e, th_emit_icmp(e, LLVMIntSLT, hi, end), hi, end);
  reduce_range(g, nest, loop.index, hi, NULL);
  reduce_end_block(g, s);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

// Two reductions may cross: each runs over what the loops around the other one
// walk.  Then the inner one starts anew: what was made at the position of the
// moment holds there alone, and lanes over its variable are left.
typedef struct reduce_around {
  LLVMValueRef *values;
  LLVMValueRef mask;
  int lane;
  uint32_t lanes;
} reduce_around;

static reduce_around reduce_leave(th_gen *g, const th_node *node) {
  th_nest *n = g->nest;
  reduce_around around = {
      TH_NEW_ARRAY(n->arena, LLVMValueRef, n->node_count + 1), g->mask, g->lane,
      g->lanes};
  for (uint32_t i = 0; i < n->node_count; i++) {
    around.values[i] = g->values[i];
    if (n->nodes[i]->depends & node->vars) {
      g->values[i] = NULL;
    }
  }
  if (th_gen_varies(g, node->vars)) {
    if (g->mask_is_select) {
      th_nest_fail(n, n->kernel->body[node->stmt],
                   "a reduction over lanes of which perhaps none exists");
    }
    g->mask = NULL;
    g->lane = -1;
    g->lanes = 1;
  }
  return around;
}

static void reduce_return(th_gen *g, const reduce_around *around) {
  memcpy(g->values, around->values,
         g->nest->node_count * sizeof *around->values);
  g->mask = around->mask;
  g->lane = around->lane;
  g->lanes = around->lanes;
}

void th_gen_reduce(th_gen *g, th_node *const *nodes, uint32_t count) {
  th_nest *n = g->nest;
  th_var_set vars = nodes[0]->vars;
  reduce_around around = reduce_leave(g, nodes[0]);
  reduce_state state = {.nodes = nodes,
                        .count = count,
                        .block_var = -1,
                        .keeps = reduce_keeps(g, nodes, count)};
  reduce_nest nest = {&state, -1};
  th_node **roots = TH_NEW_ARRAY(n->arena, th_node *, count + 1);
  for (uint32_t i = 0; i < count; i++) {
    roots[i] = nodes[i]->args[0];
  }
  if (g->phase->lane < 0 && g->lane < 0) {
    int score = 0;
    nest.lane = th_plan_lane(g->plan, vars, roots, count, NULL, 0, &score);
    state.by_lanes = nest.lane >= 0;
  }
  int last = vars ? 63 - __builtin_clzll(vars) : -1;
  int longest = nest.lane >= 0 ? nest.lane : last;
  if (longest >= 0 && reduce_is_long(g, &nest, longest)) {
    state.block_var = longest;
  }
  state.accs = TH_NEW_ARRAY(n->arena, reduce_acc, count);
  for (uint32_t i = 0; i < count; i++) {
    bool varies = th_gen_varies(g, nodes[i]->depends);
    if (!state.by_lanes) {
      reduce_make_acc(g, nodes[i], g->variant, varies ? g->lanes : 1,
                      state.block_var >= 0, &state.accs[i]);
      continue;
    }
    for (uint32_t v = 0; v < g->phase->variant_count; v++) {
      reduce_make_acc(g, nodes[i], v, g->phase->variants[v].lanes,
                      state.block_var >= 0, &state.accs[i]);
    }
  }
  uint32_t mark = th_gen_mark(g);
  int walked = nest.lane >= 0 ? nest.lane : state.block_var;
  th_var_set own = walked < 0 ? 0 : (th_var_set)1 << walked;
  th_gen_loops(g, vars & ~own, reduce_inner, &nest);
  th_gen_forget(g, mark);
  g->kept = g->kept || state.keeps;
  reduce_return(g, &around);
  for (uint32_t i = 0; i < count; i++) {
    LLVMValueRef v = reduce_finish(g, nodes[i], &state.accs[i], state.by_lanes);
    g->values[nodes[i]->id] = v;
    TH_PUSH(n->arena, g->trail, g->trail_count, g->trail_cap) = nodes[i]->id;
  }
}

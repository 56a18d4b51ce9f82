// Which value is kept: the most expensive one that a reduction and a store
// compute alike.
#include "lowering/keep.h"

#include "lowering/partition.h"
#include "lowering/stream.h"

enum { KEEP_WORTH = 10, KEEP_STACK = 32 << 10 }; // operations, bytes

typedef struct keep_state {
  const th_nest *n;
  uint8_t *seen; // by node: 1 reached by the store, 2 by a reduction
  uint32_t *weights;
} keep_state;

// All that is computed under a node without reductions in between; what is
// under a select may not exist everywhere.
static void keep_mark(keep_state *s, const th_node *node, uint8_t mark) {
  if (s->seen[node->id] & mark || node->kind == TH_NODE_REDUCE ||
      node->kind == TH_NODE_SELECT) {
    return;
  }
  s->seen[node->id] |= mark;
  for (uint32_t i = 0; i < node->arg_count; i++) {
    keep_mark(s, node->args[i], mark);
  }
}

static uint32_t keep_weight(keep_state *s, const th_node *node) {
  if (node->kind == TH_NODE_REDUCE || s->weights[node->id]) {
    return s->weights[node->id];
  }
  uint32_t weight = node->kind == TH_NODE_APPLY ? th_part_weight(node->op) : 0;
  for (uint32_t i = 0; i < node->arg_count; i++) {
    weight += keep_weight(s, node->args[i]);
  }
  return s->weights[node->id] = weight;
}

static bool keep_fits(const th_plan *p, const th_node *node,
                      const th_store *store) {
  th_dtype dtype = p->nest->buffers[store->buffer].type.dtype;
  return node->kind == TH_NODE_APPLY && node->dtype == dtype &&
         node != store->node && node->depends == store->vars;
}

// Elements of a row, where it fits on the stack; 0: it does not.
static int64_t keep_row(const th_plan *p, const th_store *store,
                        th_dtype dtype) {
  const th_space *s = &p->nest->space;
  int64_t count = p->phases[0].lane < 0;
  for (int v = 0; v < TH_MAX_VARS && count; v++) {
    th_var_set var = (th_var_set)1 << v;
    if (store->vars & ~p->phases[0].outer & var) {
      const th_expr *extent = s->vars[v].extent;
      bool fits = th_is_const(extent) &&
                  extent->i <= KEEP_STACK / (int64_t)th_dtype_size(dtype);
      count *= fits ? extent->i : 0;
    }
  }
  return count <= KEEP_STACK / (int64_t)th_dtype_size(dtype) ? count : 0;
}

// Where the store would write if this were the first row.
static const th_expr *keep_in_row(th_plan *p, const th_store *store) {
  th_space *s = &p->nest->space;
  const th_expr *offset = store->offset;
  for (int v = 0; v < TH_MAX_VARS; v++) {
    if (p->phases[0].outer & (th_var_set)1 << v) {
      offset = th_space_replace(s, offset, s->vars[v].symbol,
                                th_int(p->nest->ir, 0));
    }
  }
  return offset;
}

// A result past the caches would have to be read from there.
static bool keep_place(th_plan *p, const th_store *store, th_keep *out) {
  const th_nest *n = p->nest;
  const th_buffer_info *buffer = &n->buffers[store->buffer];
  if (!th_stream_is_large(buffer)) {
    out->buffer = store->buffer;
    out->offset = store->offset;
    return true;
  }
  out->buffer = (uint16_t)n->buffer_count;
  out->offset = keep_in_row(p, store);
  out->stack = keep_row(p, store, buffer->type.dtype);
  return out->stack &&
         th_space_below(&n->space, out->offset, th_int(n->ir, out->stack));
}

static void keep_try_store(th_plan *p, keep_state *s, th_store *store,
                           uint32_t *best) {
  const th_nest *n = p->nest;
  th_var_set inner = store->vars & ~p->phases[0].outer;
  if (store->kind != TH_STORE_SET || !inner) {
    return;
  }
  for (uint32_t i = 0; i < n->node_count; i++) {
    s->seen[i] = 0;
  }
  keep_mark(s, store->node, 1);
  for (uint32_t i = 0; i < n->node_count; i++) {
    const th_node *node = n->nodes[i];
    if (node->kind == TH_NODE_REDUCE && node->vars == inner && !node->guarded &&
        !(node->depends & ~p->phases[0].outer)) {
      keep_mark(s, node->args[0], 2);
    }
  }
  for (uint32_t i = 0; i < n->node_count; i++) {
    th_node *node = n->nodes[i];
    uint32_t weight = s->seen[i] == 3 ? keep_weight(s, node) : 0;
    th_keep keep = {.node = node};
    if (weight > *best && keep_fits(p, node, store) &&
        keep_place(p, store, &keep)) {
      *best = weight;
      p->keep = keep;
    }
  }
}

void th_keep_find(th_plan *p) {
  th_nest *n = p->nest;
  keep_state s = {n, TH_NEW_ARRAY(n->arena, uint8_t, n->node_count + 1),
                  TH_NEW_ARRAY(n->arena, uint32_t, n->node_count + 1)};
  uint32_t best = KEEP_WORTH - 1;
  for (uint32_t i = 0; i < n->store_count; i++) {
    keep_try_store(p, &s, &n->stores[i], &best);
  }
}

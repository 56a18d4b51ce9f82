// Lifetimes of buffers and their offsets.
#include "passes/slab.h"

#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>

// ---- offsets

static int slab_larger_first(const void *a, const void *b) {
  const th_slab_item *x = *(th_slab_item *const *)a;
  const th_slab_item *y = *(th_slab_item *const *)b;
  if (x->size != y->size) {
    return x->size > y->size ? -1 : 1;
  }
  return x < y ? -1 : x > y; // as they came: the plan repeats
}

static bool slab_meet(const th_slab_item *a, const th_slab_item *b) {
  return a->first <= b->last && b->first <= a->last;
}

static int64_t slab_round(int64_t size) {
  return (size + TH_SLAB_ALIGN - 1) / TH_SLAB_ALIGN * TH_SLAB_ALIGN;
}

// placed[0..count) is sorted by offset.
static int64_t slab_gap(th_slab_item *const *placed, uint32_t count,
                        const th_slab_item *item) {
  int64_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    const th_slab_item *other = placed[i];
    if (!slab_meet(other, item)) {
      continue;
    }
    if (other->offset - at >= slab_round(item->size)) {
      break;
    }
    int64_t end = other->offset + slab_round(other->size);
    at = end > at ? end : at;
  }
  return at;
}

int64_t th_slab_plan(th_arena *scratch, th_slab_item *items, uint32_t count) {
  th_slab_item **order = TH_NEW_ARRAY(scratch, th_slab_item *, count + 1);
  th_slab_item **placed = TH_NEW_ARRAY(scratch, th_slab_item *, count + 1);
  int64_t total = 0;
  for (uint32_t i = 0; i < count; i++) {
    order[i] = &items[i];
    if (items[i].size < 0 || items[i].size > INT64_MAX / 4) {
      return -1;
    }
  }
  qsort(order, count, sizeof *order, slab_larger_first);
  for (uint32_t i = 0; i < count; i++) {
    th_slab_item *item = order[i];
    item->offset = slab_gap(placed, i, item);
    int64_t end = item->offset + slab_round(item->size);
    if (end > INT64_MAX / 4) {
      return -1;
    }
    total = end > total ? end : total;
    uint32_t k = i;
    for (; k > 0 && placed[k - 1]->offset > item->offset; k--) {
      placed[k] = placed[k - 1];
    }
    placed[k] = item;
  }
  return total;
}

void th_slab_forget(th_trace *trace) {
  trace->slab_size = -1;
  for (uint32_t i = 1; i < trace->value_count; i++) {
    trace->values[i]->slab = -1;
  }
}

// ---- lifetimes

typedef struct slab_scan {
  const th_trace *trace;
  th_slab_buffers *out;
  uint32_t step;
} slab_scan;

static void slab_touch(void *user, th_value *value) {
  slab_scan *s = user;
  uint32_t buffer = s->out->buffer_of[value->id];
  if (buffer && s->out->last[buffer - 1] < s->step) {
    s->out->last[buffer - 1] = s->step;
  }
}

static void slab_own(slab_scan *s, th_value *value) {
  th_slab_buffers *out = s->out;
  th_arena *arena = &s->trace->ir->arena;
  if (out->count == out->cap) {
    uint32_t cap = out->cap;
    out->owner = th_arena_grow(arena, out->owner, &cap, sizeof *out->owner);
    cap = out->cap;
    out->first = th_arena_grow(arena, out->first, &cap, sizeof *out->first);
    out->last = th_arena_grow(arena, out->last, &out->cap, sizeof *out->last);
  }
  out->owner[out->count] = value;
  out->first[out->count] = out->last[out->count] = s->step;
  out->buffer_of[value->id] = ++out->count;
}

static void slab_step(slab_scan *s, const th_stmt *stmt) {
  bool window = !stmt->executor && th_stmt_is_window(s->trace->ir, stmt);
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    th_value *out = stmt->outs[i];
    if (!out || out->type.kind != TH_KIND_TENSOR ||
        s->out->buffer_of[out->id]) {
      continue;
    }
    if (window || (stmt->in_place && i == 0)) {
      s->out->buffer_of[out->id] = s->out->buffer_of[stmt->args[0].value->id];
    } else if (!(stmt->op->traits & TH_MAKES)) {
      slab_own(s, out);
    }
  }
  th_stmt_operands(stmt, slab_touch, s);
}

static void slab_to_the_end(void *user, th_value *value) {
  slab_scan *s = user;
  uint32_t buffer = s->out->buffer_of[value->id];
  if (buffer) {
    s->out->last[buffer - 1] = s->step;
  }
}

static void slab_outside(void *user, th_value *value) {
  slab_scan *s = user;
  uint32_t buffer = s->out->buffer_of[value->id];
  if (buffer) {
    s->out->last[buffer - 1] = UINT32_MAX;
  }
}

void th_slab_find(const th_trace *trace, th_slab_buffers *out) {
  slab_scan s = {trace, out, 0};
  *out = (th_slab_buffers){0};
  out->buffer_of =
      TH_NEW_ARRAY(&trace->ir->arena, uint32_t, trace->value_count);
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    const th_stmt *stmt = trace->stmts[i];
    if (stmt->op->op == TH_OP_del) {
      continue;
    }
    bool whole = !stmt->body_count || th_stmt_is_whole(stmt);
    for (uint32_t k = 0; !whole && k < stmt->body_count; k++) {
      slab_step(&s, stmt->body[k]);
      s.step++;
    }
    if (whole) {
      slab_step(&s, stmt);
      s.step++;
    }
  }
  out->steps = s.step;
  const th_arg *output = th_trace_result(trace, "output");
  const th_arg *mutated = th_trace_result(trace, "mutated");
  if (output && mutated) { // copied to the inputs
    th_arg_values(mutated, slab_to_the_end, &s);
  }
  th_arg_values(output ? output : &trace->result, slab_outside, &s);
}

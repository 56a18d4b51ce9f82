// Bytes and operations of a step, from its statements and their types.
#include "exec/work.h"

#include <string.h>

typedef struct work_step {
  const th_stmt *step;
  const th_stmt *const *body; // the step itself, where it is one statement
  uint32_t count;
  const th_scalar *symbols;
} work_step;

static uint64_t work_number(const work_step *w, const th_expr *e) {
  th_scalar v = {0};
  return th_expr_eval(e, w->symbols, &v) && v.i > 0 ? (uint64_t)v.i : 0;
}

static bool work_is_tensor(const th_arg *arg) {
  return arg->kind == TH_ARG_VALUE && arg->value->type.kind == TH_KIND_TENSOR;
}

// Elements in memory: those along a stride of 0 are one.
static uint64_t work_numel(const work_step *w, const th_type *type) {
  uint64_t n = 1;
  for (uint8_t d = 0; d < type->rank; d++) {
    if (!type->strides || !th_is_int(type->strides[d], 0)) {
      n *= work_number(w, type->dims[d]);
    }
  }
  return n;
}

static uint64_t work_size(const work_step *w, const th_value *v) {
  return v->type.kind == TH_KIND_TENSOR
             ? work_numel(w, &v->type) * th_dtype_size(v->type.dtype)
             : 0;
}

// ---- bytes

static bool work_mentions(const th_arg *arg, const th_value *v) {
  bool found = arg->kind == TH_ARG_VALUE && arg->value == v;
  for (uint32_t i = 0; arg->kind == TH_ARG_LIST && i < arg->count; i++) {
    found = found || work_mentions(&arg->items[i], v);
  }
  return found;
}

static bool work_is_result(const work_step *w, const th_value *v) {
  for (uint16_t i = 0; i < w->step->out_count; i++) {
    if (w->step->outs[i] == v) {
      return true;
    }
  }
  return false;
}

static uint64_t work_reads(const work_step *w, const th_value *v);

// What statement `s` reads of its argument `a`, which is `v`.
static uint64_t work_use(const work_step *w, const th_stmt *s, uint16_t a,
                         const th_value *v) {
  uint64_t n = 0;
  bool cuts = s->op->traits & TH_VIEW;
  if (w->step->in_place && (s->op->traits & TH_SCATTER) && a == 0) {
    return 0;
  }
  if (!cuts && !((s->op->traits & TH_GATHER) && a == 0)) {
    return work_size(w, v);
  }
  for (uint16_t i = 0; i < s->out_count; i++) {
    const th_value *out = s->outs[i];
    if (out) {
      n += cuts && !work_is_result(w, out) ? work_reads(w, out)
                                           : work_size(w, out);
    }
  }
  return n;
}

static uint64_t work_reads(const work_step *w, const th_value *v) {
  uint64_t n = 0, all = work_size(w, v);
  for (uint32_t i = 0; i < w->count && n < all; i++) {
    const th_stmt *s = w->body[i];
    for (uint16_t a = 0; a < s->arg_count && n < all; a++) {
      n += work_mentions(&s->args[a], v) ? work_use(w, s, a, v) : 0;
    }
  }
  return n < all ? n : all;
}

// Elements that scatters write: as many as their longest operand has.
static uint64_t work_scattered(const work_step *w) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < w->count; i++) {
    const th_stmt *s = w->body[i];
    uint64_t most = 0;
    for (uint16_t a = 1; (s->op->traits & TH_SCATTER) && a < s->arg_count;
         a++) {
      uint64_t one = work_is_tensor(&s->args[a])
                         ? work_numel(w, &s->args[a].value->type)
                         : 0;
      most = one > most ? one : most;
    }
    n += most;
  }
  return n;
}

static uint64_t work_writes(const work_step *w, uint16_t out) {
  const th_value *v = w->step->outs[out];
  uint64_t all = v ? work_size(w, v) : 0;
  if (out == 0 && v && w->step->in_place) {
    uint64_t n = work_scattered(w) * th_dtype_size(v->type.dtype);
    return n < all ? n : all;
  }
  return all;
}

static bool work_is_first(const work_step *w, uint16_t arg) {
  for (uint16_t i = 0; i < arg; i++) {
    if (work_mentions(&w->step->args[i], w->step->args[arg].value)) {
      return false;
    }
  }
  return true;
}

static uint64_t work_argument(const work_step *w, const th_arg *arg) {
  uint64_t n = arg->kind == TH_ARG_VALUE ? work_reads(w, arg->value) : 0;
  for (uint32_t i = 0; arg->kind == TH_ARG_LIST && i < arg->count; i++) {
    n += work_argument(w, &arg->items[i]);
  }
  return n;
}

static uint64_t work_bytes(const work_step *w) {
  uint64_t n = 0;
  for (uint16_t i = 0; i < w->step->arg_count; i++) {
    const th_arg *arg = &w->step->args[i];
    if (arg->kind != TH_ARG_VALUE || work_is_first(w, i)) {
      n += work_argument(w, arg);
    }
  }
  for (uint16_t i = 0; i < w->step->out_count; i++) {
    n += work_writes(w, i);
  }
  return n;
}

// ---- flops

static const th_type *work_type(const th_stmt *s, uint16_t arg) {
  static const th_type none = {.kind = TH_KIND_NONE};
  return arg < s->arg_count && work_is_tensor(&s->args[arg])
             ? &s->args[arg].value->type
             : &none;
}

static uint64_t work_dim(const work_step *w, const th_type *type, int back) {
  return type->rank >= back ? work_number(w, type->dims[type->rank - back]) : 0;
}

// Elements of a result or operand, those that expand repeats included.
static uint64_t work_points(const work_step *w, const th_type *type) {
  uint64_t n = type->kind == TH_KIND_TENSOR;
  for (uint8_t d = 0; d < type->rank; d++) {
    n *= work_number(w, type->dims[d]);
  }
  return n;
}

static uint64_t work_convolution(const work_step *w, const th_stmt *s) {
  const th_type *weight = work_type(s, 1);
  th_scalar transposed = {0};
  if (weight->rank == 0) {
    return 0;
  }
  if (s->args[6].kind == TH_ARG_NUM) {
    th_expr_eval(s->args[6].num, w->symbols, &transposed);
  }
  uint64_t first = work_number(w, weight->dims[0]);
  uint64_t taps = first ? work_points(w, weight) / first : 0;
  const th_type *many = transposed.i ? work_type(s, 0) : &s->outs[0]->type;
  return 2 * work_points(w, many) * taps;
}

static uint64_t work_attention(const work_step *w, const th_stmt *s) {
  const th_type *query = work_type(s, 0), *key = work_type(s, 1);
  th_scalar causal = {0};
  if (s->args[5].kind == TH_ARG_NUM) {
    th_expr_eval(s->args[5].num, w->symbols, &causal);
  }
  uint64_t n = work_points(w, query) + work_points(w, &s->outs[0]->type);
  n *= 2 * work_dim(w, key, 2);
  return causal.i ? n / 2 : n;
}

static uint64_t work_flops(const work_step *w, const th_stmt *s) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < s->body_count; i++) {
    n += work_flops(w, s->body[i]);
  }
  if (!(s->op->traits & TH_CONTRACTS) || s->out_count == 0 || !s->outs[0]) {
    return n;
  }
  switch (s->op->op) {
  case TH_OP_convolution:
    return work_convolution(w, s);
  case TH_OP_scaled_dot_product_attention:
    return work_attention(w, s);
  case TH_OP_addmm:
  case TH_OP_baddbmm:
    return 2 * work_points(w, &s->outs[0]->type) *
           work_dim(w, work_type(s, 1), 1);
  default: // x @ y and its kin
    return 2 * work_points(w, &s->outs[0]->type) *
           work_dim(w, work_type(s, 0), 1);
  }
}

th_work th_work_of(const th_stmt *step, const th_scalar *symbols) {
  const th_stmt *const self[] = {step};
  work_step w = {.step = step, .body = self, .count = 1, .symbols = symbols};
  if (!step->executor) { // a window, or a cond, whose branches have steps
    return (th_work){0};
  }
  if (step->body_count) {
    w.body = (const th_stmt *const *)step->body;
    w.count = step->body_count;
  }
  return (th_work){work_bytes(&w), work_flops(&w, step)};
}

// ---- modules

typedef struct work_path {
  const char *text; // NULL: no statement yet
  size_t length;    // of it that all have
} work_path;

static void work_meet(work_path *p, const char *scope) {
  if (!p->text) {
    *p = (work_path){scope, strlen(scope)};
    return;
  }
  size_t n = 0;
  for (size_t i = 0; i <= p->length; i++) {
    bool ends = i == p->length || p->text[i] == '.';
    if (ends && (scope[i] == '.' || scope[i] == 0)) {
      n = i;
    }
    if (i == p->length || p->text[i] != scope[i]) {
      break;
    }
  }
  p->length = n;
}

static void work_paths(const th_stmt *s, uint32_t traits, work_path *p) {
  for (uint32_t i = 0; i < s->body_count; i++) {
    work_paths(s->body[i], traits, p);
  }
  if (!s->body_count && (!traits || (s->op->traits & traits))) {
    work_meet(p, s->scope);
  }
}

const char *th_work_scope(const th_stmt *step, th_arena *arena) {
  work_path p = {0};
  work_paths(step, TH_CONTRACTS, &p);
  if (!p.text) {
    work_paths(step, 0, &p);
  }
  return th_arena_strndup(arena, p.text, p.length);
}

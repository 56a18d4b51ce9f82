// Guards as flat lists: read from a prologue, checked for each call.
#include "guards.h"

#include "base/alloc.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

// ---- reading a prologue

static int32_t guard_input_of(const th_trace *t, const th_value *value) {
  int32_t at = 0;
  for (uint32_t i = 0; i < t->input_count; i++) {
    if (t->inputs[i] == value) {
      return value->input->kind == TH_INPUT_USER ? at : -1;
    }
    at += t->inputs[i]->input->kind == TH_INPUT_USER;
  }
  return -1;
}

static const th_value *guard_by_symbol(const th_trace *t, const th_expr *num) {
  for (uint32_t i = 0; i < t->input_count; i++) {
    const th_type *type = &t->inputs[i]->type;
    if (type->kind == TH_KIND_NUMBER && type->num == num) {
      return t->inputs[i];
    }
  }
  return NULL;
}

static void guard_add_symbol(th_guards *g, th_arena *arena,
                             const th_symbol *symbol) {
  for (uint32_t i = 0; i < g->symbol_count; i++) {
    if (g->symbols[i] == symbol) {
      return;
    }
  }
  TH_PUSH(arena, g->symbols, g->symbol_count, g->symbol_cap) = symbol;
}

static const int64_t *guard_sizes(th_guards *g, th_arena *arena, th_guard *out,
                                  const th_arg *list) {
  int64_t *sizes = TH_NEW_ARRAY(arena, int64_t, list->count + 1);
  for (uint32_t i = 0; i < list->count; i++) {
    const th_expr *e = list->items[i].num;
    sizes[i] = e->op == TH_X_SYM ? -1 - (int64_t)e->symbol->index : e->i;
    if (e->op == TH_X_SYM) {
      out->has_symbols = true;
      guard_add_symbol(g, arena, e->symbol);
    }
  }
  return sizes;
}

static void guard_tensor(th_guards *g, th_arena *arena, const th_trace *t,
                         const th_stmt *stmt) {
  int32_t at = guard_input_of(t, stmt->args[0].value);
  if (at < 0) {
    return; // a parameter: looked at when the module changes
  }
  th_guard *out = &g->inputs[at];
  out->kind = TH_LEAF_TENSOR;
  out->device = stmt->args[1].device;
  out->dtype = stmt->args[2].dtype;
  out->rank = (uint8_t)stmt->args[3].count;
  out->dims = guard_sizes(g, arena, out, &stmt->args[3]);
  if (stmt->args[4].kind == TH_ARG_LIST) {
    out->strides = guard_sizes(g, arena, out, &stmt->args[4]);
  }
}

static void guard_number(th_guards *g, th_arena *arena, const th_trace *t,
                         const th_stmt *stmt) {
  const th_expr *x = stmt->args[0].num, *value = stmt->args[1].num;
  const th_value *input = guard_by_symbol(t, x);
  int32_t at = input ? guard_input_of(t, input) : -1;
  if (at < 0) {
    return;
  }
  th_guard *out = &g->inputs[at];
  out->kind = x->dtype == TH_F64    ? TH_LEAF_FLOAT
              : x->dtype == TH_BOOL ? TH_LEAF_BOOL
                                    : TH_LEAF_INT;
  if (x == value) {
    out->symbol = (int32_t)x->symbol->index;
    out->has_symbols = true;
    guard_add_symbol(g, arena, x->symbol);
  } else if (value->dtype == TH_F64) {
    out->number.f = value->f;
  } else {
    out->number.i = value->i;
  }
}

static void guard_named(th_guards *g, const th_trace *t, const th_stmt *stmt) {
  const th_value *input = th_map_get(&t->names, stmt->args[0].text);
  int32_t at = input ? guard_input_of(t, input) : -1;
  if (at >= 0 && stmt->op->op == TH_OP_check_string) {
    g->inputs[at].kind = TH_LEAF_STRING;
    g->inputs[at].text = stmt->args[1].text;
  }
}

th_status th_guards_read(const th_trace *prologue, th_arena *arena,
                         th_guards *out) {
  *out = (th_guards){.index_count = prologue->ir->symbol_count};
  out->inputs = TH_NEW_ARRAY(arena, th_guard, prologue->input_count + 1);
  for (uint32_t i = 0; i < prologue->input_count; i++) {
    const th_value *in = prologue->inputs[i];
    if (in->input->kind == TH_INPUT_USER) {
      out->inputs[out->count++] =
          (th_guard){.kind = TH_LEAF_NONE, .symbol = -1, .name = in->name};
    }
  }
  for (uint32_t i = 0; i < prologue->stmt_count; i++) {
    const th_stmt *stmt = prologue->stmts[i];
    switch ((int)stmt->op->op) {
    case TH_OP_check_tensor:
      guard_tensor(out, arena, prologue, stmt);
      break;
    case TH_OP_check_number:
      guard_number(out, arena, prologue, stmt);
      break;
    case TH_OP_assert_number:
      TH_PUSH(arena, out->conditions, out->condition_count,
              out->condition_cap) = stmt->args[0].num;
      break;
    default:
      guard_named(out, prologue, stmt);
      break;
    }
  }
  return TH_OK;
}

// ---- checking

static bool guard_strides_hold(const th_guard *g, const th_tensor *t) {
  for (int d = 0; d < g->rank; d++) {
    if (t->strides[d] != g->strides[d] && t->dims[d] != 1) {
      return false;
    }
  }
  return true;
}

static bool guard_tensor_holds(const th_guard *g, const th_tensor *t) {
  if (!t || t->dtype != g->dtype || t->rank != g->rank ||
      t->device.type != g->device.type || t->device.index != g->device.index) {
    return false;
  }
  for (int d = 0; d < g->rank; d++) {
    if (t->dims[d] != g->dims[d] && g->dims[d] >= 0) {
      return false;
    }
  }
  return !g->strides || guard_strides_hold(g, t);
}

static bool guard_number_holds(const th_guard *g, const th_leaf *leaf) {
  if (g->symbol >= 0) {
    return true;
  }
  // Bits, so that NaN equals NaN.
  th_scalar got = {.i = leaf->i};
  if (leaf->kind == TH_LEAF_FLOAT) {
    got.f = leaf->f;
  }
  return got.i == g->number.i;
}

static bool guard_holds(const th_guard *g, const th_leaf *leaf) {
  if (leaf->kind != g->kind) {
    return false;
  }
  switch (g->kind) {
  case TH_LEAF_TENSOR:
    return guard_tensor_holds(g, leaf->tensor);
  case TH_LEAF_STRING:
    return leaf->text && strcmp(leaf->text, g->text) == 0;
  case TH_LEAF_NONE:
    return true;
  default:
    return guard_number_holds(g, leaf);
  }
}

enum { GUARD_FEW = 64 };

// What the symbols are; false: one of them would be two numbers, or is out of
// its range.
static bool guard_bind_size(const th_guards *g, int64_t symbol, int64_t size,
                            th_scalar *values, bool *known) {
  for (uint32_t i = 0; i < g->symbol_count; i++) {
    const th_symbol *s = g->symbols[i];
    if ((int64_t)s->index == symbol) {
      bool fits = size >= s->min && size <= s->max &&
                  (!known[symbol] || values[symbol].i == size);
      known[symbol] = true;
      values[symbol].i = size;
      return fits;
    }
  }
  return false;
}

static bool guard_bind(const th_guards *g, const th_leaf *inputs,
                       th_scalar *values, bool *known) {
  for (uint32_t i = 0; i < g->count; i++) {
    const th_guard *in = &g->inputs[i];
    if (!in->has_symbols) {
      continue;
    }
    if (in->kind == TH_LEAF_FLOAT) {
      values[in->symbol].f = inputs[i].f;
    } else if (in->kind != TH_LEAF_TENSOR) {
      values[in->symbol].i = inputs[i].i;
    }
    for (int d = 0; in->kind == TH_LEAF_TENSOR && d < in->rank; d++) {
      if (in->dims[d] < 0 &&
          !guard_bind_size(g, -1 - in->dims[d], inputs[i].tensor->dims[d],
                           values, known)) {
        return false;
      }
    }
  }
  return true;
}

// The first condition that fails; -1: none; -2: a symbol.
static int guard_conditions(const th_guards *g, const th_leaf *inputs,
                            th_scalar *values, bool *known) {
  if (!guard_bind(g, inputs, values, known)) {
    return -2;
  }
  for (uint32_t i = 0; i < g->condition_count; i++) {
    th_scalar v = {0};
    if (!th_expr_eval(g->conditions[i], values, &v) || v.i == 0) {
      return (int)i;
    }
  }
  return -1;
}

static int guard_symbols(const th_guards *g, const th_leaf *inputs) {
  th_scalar few[GUARD_FEW] = {{0}};
  bool few_known[GUARD_FEW] = {false};
  uint32_t n = g->index_count;
  if (n <= GUARD_FEW) {
    return guard_conditions(g, inputs, few, few_known);
  }
  th_scalar *values = th_calloc(n, sizeof *values);
  bool *known = th_calloc(n, sizeof *known);
  int failed =
      values && known ? guard_conditions(g, inputs, values, known) : -2;
  th_free(values);
  th_free(known);
  return failed;
}

bool th_guards_hold(const th_guards *guards, const th_leaf *inputs,
                    size_t count) {
  if (count != guards->count) {
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    if (!guard_holds(&guards->inputs[i], &inputs[i])) {
      return false;
    }
  }
  return !guards->symbol_count || guard_symbols(guards, inputs) == -1;
}

// ---- the hash

static uint64_t guard_mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

static uint64_t guard_hash_tensor(uint64_t hash, const th_tensor *t,
                                  bool symbolic) {
  if (!t) {
    return guard_mix(hash, 99);
  }
  hash = guard_mix(hash, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
  int64_t row_major = 1;
  for (int d = t->rank; d-- > 0;) {
    int64_t size = t->dims[d];
    hash = guard_mix(hash, (uint64_t)(symbolic && size > 2 ? 2 : size));
    if (!symbolic && size != 1 && t->strides[d] != row_major) {
      hash = guard_mix(hash, (uint64_t)t->strides[d] << 5 | (uint64_t)d);
    }
    row_major *= size;
  }
  return hash;
}

uint64_t th_guards_hash(const th_leaf *inputs, size_t count, bool symbolic) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; i++) {
    const th_leaf *in = &inputs[i];
    hash = guard_mix(hash, (uint64_t)in->kind);
    if (in->kind == TH_LEAF_TENSOR) {
      hash = guard_hash_tensor(hash, in->tensor, symbolic);
    } else if (in->kind == TH_LEAF_STRING && in->text) {
      hash = th_hash_bytes(in->text, strlen(in->text), hash);
    } else if (!symbolic && in->kind == TH_LEAF_FLOAT) {
      hash = th_hash_bytes(&in->f, sizeof in->f, hash);
    } else if (!symbolic && in->kind != TH_LEAF_NONE) {
      hash = guard_mix(hash, (uint64_t)in->i);
    }
  }
  return hash;
}

// ---- reasons

static const char *guard_kind_text(th_leaf_kind kind) {
  static const char *const texts[] = {
      [TH_LEAF_NONE] = "None",      [TH_LEAF_TENSOR] = "a tensor",
      [TH_LEAF_INT] = "an integer", [TH_LEAF_FLOAT] = "a float",
      [TH_LEAF_BOOL] = "a bool",    [TH_LEAF_STRING] = "a string"};
  return texts[kind];
}

static void guard_tensor_reason(const th_guard *g, const th_tensor *t,
                                char *buffer, size_t size) {
  char got[256];
  if (!t) {
    snprintf(buffer, size, "input '%s' is NULL", g->name);
    return;
  }
  th_tensor_describe(t, got, sizeof got);
  if (t->dtype != g->dtype) {
    snprintf(buffer, size, "input '%s': dtype %s instead of %s", g->name,
             th_dtype_name(t->dtype), th_dtype_name(g->dtype));
    return;
  }
  if (t->rank != g->rank) {
    snprintf(buffer, size, "input '%s': %d dimensions instead of %u", g->name,
             t->rank, g->rank);
    return;
  }
  for (int d = 0; d < t->rank; d++) {
    if (g->dims[d] >= 0 && t->dims[d] != g->dims[d]) {
      snprintf(buffer, size, "input '%s': dimension %d is %lld instead of %lld",
               g->name, d, (long long)t->dims[d], (long long)g->dims[d]);
      return;
    }
  }
  th_tensor_describe(t, got, sizeof got);
  snprintf(buffer, size, "input '%s': device or strides of %s", g->name, got);
}

static void guard_input_reason(const th_guard *g, const th_leaf *leaf,
                               char *buffer, size_t size) {
  if (leaf->kind != g->kind) {
    snprintf(buffer, size, "input '%s': %s instead of %s", g->name,
             guard_kind_text(leaf->kind), guard_kind_text(g->kind));
  } else if (g->kind == TH_LEAF_TENSOR) {
    guard_tensor_reason(g, leaf->tensor, buffer, size);
  } else if (g->kind == TH_LEAF_FLOAT) {
    snprintf(buffer, size, "input '%s': %g instead of %g", g->name, leaf->f,
             g->number.f);
  } else if (g->kind == TH_LEAF_STRING) {
    snprintf(buffer, size, "input '%s': '%s' instead of '%s'", g->name,
             leaf->text ? leaf->text : "", g->text);
  } else {
    snprintf(buffer, size, "input '%s': %lld instead of %lld", g->name,
             (long long)leaf->i, (long long)g->number.i);
  }
}

void th_guards_reason(const th_guards *guards, const th_leaf *inputs,
                      size_t count, char *buffer, size_t size) {
  if (count != guards->count) {
    snprintf(buffer, size, "%zu inputs instead of %u", count, guards->count);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    if (!guard_holds(&guards->inputs[i], &inputs[i])) {
      guard_input_reason(&guards->inputs[i], &inputs[i], buffer, size);
      return;
    }
  }
  int failed = guards->symbol_count ? guard_symbols(guards, inputs) : -1;
  if (failed == -2) {
    snprintf(buffer, size, "sizes that were equal differ, or one is below 2");
  } else if (failed >= 0) {
    snprintf(buffer, size, "what the trace took for granted does not hold");
  } else {
    snprintf(buffer, size, "the module has changed");
  }
}

// Canonical text: values and symbols by order of appearance.
#include "lowering/canonical.h"

#include "lowering/kernel.h"

#include <llvm-c/Core.h>

#include <inttypes.h>
#include <string.h>

typedef struct canonical_state {
  th_buffer *out;
  th_arena *arena;
  th_map values; // value -> number + 1
  uintptr_t value_count;
  const th_expr **symbols;
  uint32_t symbol_count, symbol_cap;
} canonical_state;

int th_canonical_sign(const th_symbol *symbol) {
  return symbol->min >= 1 ? 1 : symbol->min == 0 ? 0 : -1;
}

static uint32_t canonical_symbol(canonical_state *s, const th_expr *e) {
  for (uint32_t i = 0; i < s->symbol_count; i++) {
    if (s->symbols[i] == e) {
      return i;
    }
  }
  TH_PUSH(s->arena, s->symbols, s->symbol_count, s->symbol_cap) = e;
  return s->symbol_count - 1;
}

static void canonical_expr(canonical_state *s, const th_expr *e) {
  switch (e->op) {
  case TH_X_CONST:
    if (e->dtype == TH_F64) {
      int64_t bits = 0;
      memcpy(&bits, &e->f, sizeof bits);
      th_buffer_printf(s->out, " f%" PRIx64, (uint64_t)bits);
    } else {
      th_buffer_printf(s->out, e->dtype == TH_BOOL ? " b%" PRId64 : " %" PRId64,
                       e->i);
    }
    return;
  case TH_X_SYM:
    th_buffer_printf(s->out, " z%u", canonical_symbol(s, e));
    return;
  default:
    th_buffer_printf(s->out, " (%d", (int)e->op);
    for (uint32_t i = 0; i < e->arg_count; i++) {
      canonical_expr(s, e->args[i]);
    }
    th_buffer_puts(s->out, ")");
  }
}

static uintptr_t canonical_value(canonical_state *s, const th_value *value) {
  uintptr_t number =
      (uintptr_t)th_map_get_bytes(&s->values, &value, sizeof(void *));
  if (!number) {
    number = ++s->value_count;
    th_map_put_bytes(&s->values, &value, sizeof(void *), (void *)number);
  }
  return number - 1;
}

static void canonical_numbers(canonical_state *s, const th_expr *const *list,
                              uint8_t count, const char *open,
                              const char *close) {
  th_buffer_puts(s->out, open);
  for (uint8_t i = 0; i < count; i++) {
    canonical_expr(s, list[i]);
  }
  th_buffer_puts(s->out, close);
}

static void canonical_type(canonical_state *s, const th_type *type,
                           bool strides) {
  th_buffer_printf(s->out, " %s", th_dtype_name(type->dtype));
  canonical_numbers(s, type->dims, type->rank, " [", " ]");
  if (strides && type->strides) {
    canonical_numbers(s, type->strides, type->rank, " {", " }");
  }
}

static void canonical_arg(canonical_state *s, const th_arg *arg) {
  switch (arg->kind) {
  case TH_ARG_VALUE:
    th_buffer_printf(s->out, " v%ju",
                     (uintmax_t)canonical_value(s, arg->value));
    break;
  case TH_ARG_NUM:
    canonical_expr(s, arg->num);
    break;
  case TH_ARG_STRING:
    th_buffer_printf(s->out, " '%s'", arg->text);
    break;
  case TH_ARG_DTYPE:
    th_buffer_printf(s->out, " %s", th_dtype_name(arg->dtype));
    break;
  case TH_ARG_LIST:
  case TH_ARG_TUPLE:
    th_buffer_puts(s->out, " (");
    for (uint32_t i = 0; i < arg->count; i++) {
      canonical_arg(s, &arg->items[i]);
    }
    th_buffer_puts(s->out, ")");
    break;
  default:
    th_buffer_puts(s->out, " -");
  }
}

static void canonical_stmt(canonical_state *s, const th_stmt *stmt) {
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i]) {
      th_buffer_printf(s->out, "v%ju ",
                       (uintmax_t)canonical_value(s, stmt->outs[i]));
    } else {
      th_buffer_puts(s->out, "- ");
    }
  }
  th_buffer_printf(s->out, "= %s%s", stmt->op->name, stmt->in_place ? "_" : "");
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    canonical_arg(s, &stmt->args[i]);
  }
  th_buffer_puts(s->out, " ->");
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i]) {
      canonical_type(s, &stmt->outs[i]->type, false);
    }
  }
  th_buffer_puts(s->out, "\n");
}

void th_canonical_kernel(th_arena *arena, const th_stmt *kernel,
                         const th_target *target, th_buffer *out,
                         const th_expr ***out_symbols,
                         uint32_t *out_symbol_count) {
  canonical_state s = {.out = out, .arena = arena};
  unsigned major, minor, patch;
  th_map_init(&s.values, arena);
  LLVMGetVersion(&major, &minor, &patch);
  th_buffer_printf(out, "thunder kernel %s abi %d llvm %u.%u.%u strict\n",
                   TH_LOWERING_HASH, TH_KERNEL_VERSION, major, minor, patch);
  if (target) {
    th_buffer_printf(out, "target %s %s %s\n", target->triple, target->cpu,
                     target->features);
  }
  for (uint16_t i = 0; i < kernel->arg_count; i++) {
    const th_arg *arg = &kernel->args[i];
    if (arg->kind == TH_ARG_VALUE && arg->value->type.kind == TH_KIND_TENSOR) {
      th_buffer_printf(out, "in v%ju",
                       (uintmax_t)canonical_value(&s, arg->value));
      canonical_type(&s, &arg->value->type, true);
      th_buffer_puts(out, "\n");
    }
  }
  for (uint32_t i = 0; i < kernel->body_count; i++) {
    canonical_stmt(&s, kernel->body[i]);
  }
  for (uint16_t i = 0; i < kernel->out_count; i++) {
    if (kernel->outs[i]) {
      th_buffer_printf(out, "out v%ju",
                       (uintmax_t)canonical_value(&s, kernel->outs[i]));
      canonical_type(&s, &kernel->outs[i]->type, true);
      th_buffer_puts(out, "\n");
    }
  }
  for (uint32_t i = 0; i < s.symbol_count; i++) {
    th_buffer_printf(out, "z%u %d %s\n", i,
                     th_canonical_sign(s.symbols[i]->symbol),
                     th_dtype_name(s.symbols[i]->dtype));
  }
  *out_symbols = s.symbols;
  *out_symbol_count = s.symbol_count;
}

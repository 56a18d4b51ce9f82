// Common subexpressions: a statement that equals an earlier one gives way to
// it.  Statements with effects, random ones, regions and statements that make
// sizes or numbers from data are never merged; all else is functional.
#include "passes/pass.h"

#include <string.h>

enum {
  CSE_NEVER = TH_EFFECT | TH_STRUCT | TH_DATA_SIZE,
};

// The identity of an argument: kind and pointer are enough, since numbers and
// strings are interned and values are one object each.
static void cse_key_arg(th_buffer *key, const th_arg *arg) {
  th_buffer_append(key, (const char *)&arg->kind, sizeof arg->kind);
  th_buffer_append(key, (const char *)&arg->count, sizeof arg->count);
  switch (arg->kind) {
  case TH_ARG_LIST:
  case TH_ARG_TUPLE:
  case TH_ARG_DICT:
    for (uint32_t i = 0; i < arg->count; i++) {
      cse_key_arg(key, &arg->items[i]);
    }
    break;
  case TH_ARG_STRING:
    th_buffer_append(key, arg->text, strlen(arg->text) + 1);
    break;
  case TH_ARG_NONE:
    break;
  case TH_ARG_DTYPE:
    th_buffer_append(key, (const char *)&arg->dtype, sizeof arg->dtype);
    break;
  case TH_ARG_DEVICE:
    th_buffer_append(key, (const char *)&arg->device, sizeof arg->device);
    break;
  default:
    th_buffer_append(key, (const char *)&arg->value, sizeof(void *));
  }
}

static th_stmt *cse_find(th_map *seen, th_buffer *key, const th_stmt *stmt) {
  key->size = 0;
  th_buffer_append(key, (const char *)&stmt->op, sizeof(void *));
  th_buffer_append(key, (const char *)&stmt->executor, sizeof(void *));
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    cse_key_arg(key, &stmt->args[i]);
  }
  return th_map_get_bytes(seen, key->data, key->size);
}

// Does `earlier` (of the new trace) have every result that `stmt` gives?
static bool cse_covers(const th_stmt *earlier, const th_stmt *stmt) {
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i] && !earlier->outs[i]) {
      return false;
    }
  }
  return true;
}

th_status th_pass_cse(th_pipeline *p, const th_trace *in, th_trace **out) {
  th_builder b;
  th_remap m;
  th_map seen;
  th_buffer key;
  th_map_init(&seen, &p->ir->arena);
  th_buffer_init(&key, &p->ir->arena);
  *out = th_remap_begin(&m, in, &b);
  for (uint32_t i = 0; i < in->stmt_count && b.status == TH_OK; i++) {
    const th_stmt *stmt = in->stmts[i];
    if (stmt->op->traits & CSE_NEVER || stmt->in_place) {
      th_remap_stmt(&m, stmt);
      continue;
    }
    th_stmt now = *stmt;
    now.args = TH_NEW_ARRAY(&p->ir->arena, th_arg, stmt->arg_count + 1);
    for (uint16_t a = 0; a < stmt->arg_count; a++) {
      now.args[a] = th_remap_arg(&m, &stmt->args[a]);
    }
    th_stmt *earlier = cse_find(&seen, &key, &now);
    if (earlier && cse_covers(earlier, stmt)) {
      for (uint16_t o = 0; o < stmt->out_count; o++) {
        if (stmt->outs[o]) {
          th_remap_set(&m, stmt->outs[o], earlier->outs[o]);
        }
      }
    } else {
      th_map_put_bytes(&seen, key.data, key.size, th_remap_stmt(&m, stmt));
    }
  }
  return th_remap_end(&m);
}

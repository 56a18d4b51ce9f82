// The table of operations as data, and finding a row by any of its spellings.
#include "ir/op.h"

#include "ir/rules.h"

#include <pthread.h>
#include <string.h>

static th_op_info op_rows[TH_OP_COUNT] = {
#define OP(row, text, trait, results, rule)                                    \
  [TH_OP_##row] = {.op = TH_OP_##row,                                          \
                   .name = #row,                                               \
                   .schema = text,                                             \
                   .traits = trait,                                            \
                   .outs = results,                                            \
                   .infer = th_infer_rule_##rule,
#define EXPAND(f)                                                              \
  .expand = th_expand_rule_##f                                                 \
  }                                                                            \
  ,
#include "ir/ops.def"
};

// Schemas of the table are constants of ours, so a bad one is a bug; their
// texts are cut in a buffer that is never full.
static char op_text[32768];
static pthread_once_t op_once = PTHREAD_ONCE_INIT;

typedef struct op_user {
  th_map by_name;
  uint32_t count;
} op_user;

typedef struct op_cursor {
  const char *at;
  const char *error;
  th_arena *arena; // NULL: op_text
} op_cursor;

static char *op_store(op_cursor *c, const char *text, size_t length) {
  static size_t used;
  if (c->arena) {
    return th_arena_strndup(c->arena, text, length);
  }
  TH_ASSERT(used + length + 1 <= sizeof op_text);
  char *copy = op_text + used;
  memcpy(copy, text, length);
  copy[length] = 0;
  used += length + 1;
  return copy;
}

static bool op_kind(char letter, bool list, th_param_kind *out) {
  static const struct {
    char letter;
    bool list;
    th_param_kind kind;
  } kinds[] = {
      {'T', false, TH_P_TENSOR},  {'T', true, TH_P_TENSORS},
      {'E', false, TH_P_OPERAND}, {'N', false, TH_P_NUMBER},
      {'I', false, TH_P_INT},     {'I', true, TH_P_INTS},
      {'F', false, TH_P_FLOAT},   {'B', false, TH_P_BOOL},
      {'S', false, TH_P_STRING},  {'D', false, TH_P_DTYPE},
      {'V', false, TH_P_DEVICE},  {'G', false, TH_P_TRACE},
      {'*', false, TH_P_ANY},
  };
  for (size_t i = 0; i < TH_COUNT(kinds); i++) {
    if (kinds[i].letter == letter && kinds[i].list == list) {
      *out = kinds[i].kind;
      return true;
    }
  }
  return false;
}

static bool op_take(op_cursor *c, const char *text) {
  size_t n = strlen(text);
  if (strncmp(c->at, text, n) != 0) {
    return false;
  }
  c->at += n;
  return true;
}

static void op_default(op_cursor *c, th_param *p) {
  const char *start = c->at;
  int depth = 0;
  bool quoted = false;
  for (; *c->at && (quoted || depth || *c->at != ','); c->at++) {
    quoted ^= *c->at == '\'';
    depth += (*c->at == '[') - (*c->at == ']');
  }
  p->has_default = true;
  p->default_text = op_store(c, start, (size_t)(c->at - start));
}

// One parameter: LETTER ?? [] ? name =default
static bool op_param(op_cursor *c, th_param *p) {
  char letter = *c->at;
  c->at += letter != 0;
  bool item = op_take(c, "?[]");
  bool list = item || op_take(c, "[]");
  if (!op_kind(letter, list, &p->kind)) {
    c->error = "unknown parameter kind";
    return false;
  }
  p->optional_item = item;
  p->optional = op_take(c, "?");
  p->name = "rest";
  if (p->kind != TH_P_ANY) {
    size_t n = 0;
    if (!op_take(c, " ") ||
        (n = strspn(c->at, "abcdefghijklmnopqrstuvwxyz_0123456789")) == 0) {
      c->error = "a parameter has no name";
      return false;
    }
    p->name = op_store(c, c->at, n);
    c->at += n;
  }
  if (op_take(c, "=")) {
    op_default(c, p);
  }
  return true;
}

static bool op_schema(op_cursor *c, th_param *params, uint8_t *out_count) {
  *out_count = 0;
  while (*c->at) {
    if (*out_count == TH_MAX_PARAMS) {
      c->error = "too many parameters";
      return false;
    }
    if (!op_param(c, &params[*out_count])) {
      return false;
    }
    ++*out_count;
    if (*c->at && !op_take(c, ", ")) {
      c->error = "expected ', ' between parameters";
      return false;
    }
  }
  return true;
}

bool th_schema_parse(const char *schema, th_param *params, uint8_t *out_count,
                     const char **out_error, th_arena *arena) {
  op_cursor c = {.at = schema, .arena = arena};
  bool ok = op_schema(&c, params, out_count);
  *out_error = c.error;
  return ok;
}

static void op_parse_table(void) {
  for (int op = 1; op < TH_OP_COUNT; op++) {
    th_op_info *row = &op_rows[op];
    op_cursor c = {.at = row->schema};
    bool ok = op_schema(&c, row->params, &row->param_count);
    TH_ASSERT(ok);
    TH_ASSERT(!(row->traits & TH_COMPOSITE) == !row->expand);
  }
}

const th_op_info *th_op_row(th_op op) {
  pthread_once(&op_once, op_parse_table);
  TH_ASSERT(op > TH_OP_none && op < TH_OP_COUNT);
  return &op_rows[op];
}

// The base name inside such a spelling ("aten.linear.default" -> "linear").
static const char *op_base_name(const char *name, size_t length,
                                size_t *out_length) {
  static const char *const prefixes[] = {"torch.ops.", "aten.", "prims."};
  const char *end = name + length;
  for (size_t i = 0; i < TH_COUNT(prefixes); i++) {
    size_t n = strlen(prefixes[i]);
    if ((size_t)(end - name) > n && memcmp(name, prefixes[i], n) == 0) {
      name += n;
    }
  }
  const char *dot = memchr(name, '.', (size_t)(end - name));
  *out_length = (size_t)((dot ? dot : end) - name);
  return name;
}

const th_op_info *th_op_find(th_context *ctx, const char *name, size_t length) {
  pthread_once(&op_once, op_parse_table);
  const op_user *user = ctx ? ctx->slots[TH_SLOT_OPS] : NULL;
  if (user) {
    const th_op_info *row = th_map_get_bytes(&user->by_name, name, length);
    if (row) {
      return row;
    }
  }
  size_t n = 0;
  const char *base = op_base_name(name, length, &n);
  for (int op = 1; op < TH_OP_COUNT; op++) {
    if (strlen(op_rows[op].name) == n && !memcmp(op_rows[op].name, base, n)) {
      return &op_rows[op];
    }
  }
  return NULL;
}

static op_user *op_user_table(th_context *ctx) {
  op_user *user = ctx->slots[TH_SLOT_OPS];
  if (!user) {
    user = TH_NEW(&ctx->arena, op_user);
    th_map_init(&user->by_name, &ctx->arena);
    ctx->slots[TH_SLOT_OPS] = user;
  }
  return user;
}

th_status th_op_register(th_context *ctx, const th_user_op *op,
                         const th_op_info **out_op) {
  op_user *user = op_user_table(ctx);
  if (!strstr(op->name, "::")) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "operation '%s': the name of a user operation is ns::name",
                    op->name);
  }
  if (th_map_get(&user->by_name, op->name)) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "operation '%s' is registered already", op->name);
  }
  th_op_info *row = TH_NEW(&ctx->arena, th_op_info);
  const char *error = NULL;
  if (!th_schema_parse(op->schema, row->params, &row->param_count, &error,
                       &ctx->arena)) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE, "operation '%s': schema: %s",
                    op->name, error);
  }
  row->op = (th_op)(TH_OP_COUNT + user->count++);
  row->name = th_arena_strdup(&ctx->arena, op->name);
  row->schema = th_arena_strdup(&ctx->arena, op->schema);
  row->traits = op->traits | (op->expand ? TH_COMPOSITE : 0);
  row->outs = op->outs;
  row->infer = op->infer;
  row->expand = op->expand;
  row->user = op->user;
  th_map_put(&user->by_name, row->name, row);
  *out_op = row;
  return TH_OK;
}

typedef struct op_share {
  th_context *to, *from;
} op_share;

static th_status op_copy_all(void *user) {
  const op_share *s = user;
  const op_user *from = s->from->slots[TH_SLOT_OPS];
  op_user *to = op_user_table(s->to);
  for (uint32_t i = 0; i < from->by_name.count; i++) {
    const th_map_entry *e = &from->by_name.entries[i];
    th_map_put(&to->by_name, e->key, e->value);
  }
  to->count = from->count;
  return TH_OK;
}

th_status th_ops_share(th_context *to, th_context *from) {
  op_share share = {to, from};
  return from->slots[TH_SLOT_OPS] ? th_protect(&to->unwind, op_copy_all, &share)
                                  : TH_OK;
}

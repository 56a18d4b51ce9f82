// The executors of a context: built-in ones, aliases, a user's.
#include "exec/executor.h"
#include "ir/lex.h"

#include <stdlib.h>
#include <string.h>

typedef struct registry {
  th_map by_name; // name -> th_executor
} registry;

// Old and foreign names.  Each warns once.
static const struct {
  const char *name, *to;
} registry_aliases[] = {
    {"cudnn", "flash"},
    {"inductor_cat", "host_cat"},
    {"sdpa", "flash"},
    {"torch", "ref"},
    {"torchcompile", "host"},
    {"torchcompile_cat", "host_cat"},
    {"transformer_engine", "host"},
};

// The claim at `index` of a table whose rows have the caller's size.
static th_claim registry_claim(const th_executor_options *options,
                               size_t index) {
  th_claim claim = {0};
  size_t size = options->claim_size;
  memcpy(&claim, (const char *)options->claims + index * size,
         size < sizeof claim ? size : sizeof claim);
  return claim;
}

static th_executor *registry_add(registry *r, th_context *ctx,
                                 const th_executor_options *options) {
  th_executor *e = TH_NEW(&ctx->arena, th_executor);
  e->name = th_arena_strdup(&ctx->arena, options->name);
  e->version =
      th_arena_strdup(&ctx->arena, options->version ? options->version : "");
  th_map_init(&e->claims, &ctx->arena);
  for (size_t i = 0; i < options->claim_count; i++) {
    th_claim *copy = TH_NEW(&ctx->arena, th_claim);
    *copy = registry_claim(options, i);
    const th_op_info *op = th_op_find(ctx, copy->op, strlen(copy->op));
    TH_ASSERT(op);
    copy->op = op->name;
    th_map_put(&e->claims, op->name, copy);
  }
  if (options->state) {
    th_state_hooks *hooks = TH_NEW(&ctx->arena, th_state_hooks);
    size_t n = options->state->size;
    memcpy(hooks, options->state, n < sizeof *hooks ? n : sizeof *hooks);
    e->state = hooks;
  }
  if (options->fuse) {
    e->can_fuse = options->can_fuse;
    e->fuse = th_user_region;
    e->fuse_user = options->fuse;
    e->release = options->release;
  }
  if (options->like) {
    e->like = th_map_get(&r->by_name, options->like);
    e->can_fuse = options->can_fuse;
    e->fuse = e->like->fuse;
  }
  e->anchors = options->anchors;
  th_map_put(&r->by_name, e->name, e);
  return e;
}

static const struct {
  const th_executor_options *options;
  void (*init)(th_executor *executor);
} registry_builtins[] = {
    {&th_ref_executor, NULL},
    {&th_host_executor, th_host_executor_init},
    {&th_gemv_executor, NULL},
    {&th_host_cat_executor, NULL},
    {&th_onednn_executor, th_onednn_executor_init},
    {&th_flash_executor, th_flash_executor_init},
};

static registry *registry_of(th_context *ctx) {
  registry *r = ctx->slots[TH_SLOT_EXECUTORS];
  if (!r) {
    r = TH_NEW(&ctx->arena, registry);
    th_map_init(&r->by_name, &ctx->arena);
    for (size_t i = 0; i < TH_COUNT(registry_builtins); i++) {
      th_executor *e = registry_add(r, ctx, registry_builtins[i].options);
      e->builtin = true;
      if (registry_builtins[i].init) {
        registry_builtins[i].init(e);
      }
    }
    ctx->slots[TH_SLOT_EXECUTORS] = r;
  }
  return r;
}

static const char *registry_alias(const char *name) {
  for (size_t i = 0; i < TH_COUNT(registry_aliases); i++) {
    if (strcmp(registry_aliases[i].name, name) == 0) {
      return registry_aliases[i].to;
    }
  }
  return NULL;
}

const th_executor *th_executor_find(th_context *ctx, const char *name) {
  registry *r = registry_of(ctx);
  const th_executor *e = th_map_get(&r->by_name, name);
  const char *to = e ? NULL : registry_alias(name);
  if (to) {
    th_warn_once(ctx, name, TH_NOWHERE,
                 "executor '%s' is an old name: use '%s'", name, to);
    e = th_map_get(&r->by_name, to);
  }
  return e;
}

static const char *registry_known(registry *r, th_arena *arena) {
  th_buffer out;
  th_buffer_init(&out, arena);
  for (uint32_t i = 0; i < r->by_name.count; i++) {
    th_buffer_printf(&out, "%s%s", i ? ", " : "", r->by_name.entries[i].key);
  }
  return out.data;
}

static bool registry_listed(const th_executor **items, uint32_t count,
                            const th_executor *e) {
  for (uint32_t i = 0; i < count; i++) {
    if (items[i] == e) {
      return true;
    }
  }
  return false;
}

th_status th_executor_resolve(th_context *ctx, th_arena *arena,
                              const char *names, th_executor_list *out_list) {
  const th_executor **items = NULL;
  uint32_t count = 0, cap = 0;
  for (const char *at = names; *at;) {
    size_t n = strcspn(at, ",");
    char *name = th_arena_strndup(arena, at, n);
    const th_executor *e = th_executor_find(ctx, name);
    if (!e) {
      return th_error(ctx, TH_NOT_FOUND, TH_NOWHERE,
                      "there is no executor '%s'; there are %s", name,
                      registry_known(registry_of(ctx), arena));
    }
    if (!registry_listed(items, count, e)) {
      TH_PUSH(arena, items, count, cap) = e;
    }
    at += n + (at[n] == ',');
  }
  if (!count) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "the list of executors is empty");
  }
  *out_list = (th_executor_list){items, count};
  return TH_OK;
}

const char *th_executor_default(th_device_type device) {
  return device == TH_CPU ? "gemv,onednn,flash,host,ref" : NULL;
}

const th_claim *th_executor_claim(const th_executor *executor,
                                  const th_stmt *stmt, const char **reason) {
  const th_claim *claim = th_map_get(&executor->claims, stmt->op->name);
  return claim && (!claim->check || claim->check(stmt, reason)) ? claim : NULL;
}

bool th_executor_can_fuse(const th_executor *executor, const th_stmt *stmt,
                          const char **reason) {
  enum { NEVER = TH_MAKES | TH_EFFECT | TH_STRUCT };
  if (executor->like && !th_executor_can_fuse(executor->like, stmt, reason)) {
    return false;
  }
  if (!executor->can_fuse) {
    return executor->like;
  }
  if (executor->fuse_user && stmt->op->traits & NEVER) {
    *reason = "a region holds no effects and no sizes that depend on data";
    return false;
  }
  return executor->can_fuse(stmt, reason);
}

typedef struct registry_share {
  th_context *to, *from;
} registry_share;

static th_status registry_copy_all(void *user) {
  const registry_share *s = user;
  const registry *from = s->from->slots[TH_SLOT_EXECUTORS];
  registry *to = TH_NEW(&s->to->arena, registry);
  th_map_init(&to->by_name, &s->to->arena);
  for (uint32_t i = 0; i < from->by_name.count; i++) {
    const th_map_entry *e = &from->by_name.entries[i];
    th_map_put(&to->by_name, e->key, e->value);
  }
  s->to->slots[TH_SLOT_EXECUTORS] = to;
  return TH_OK;
}

th_status th_executors_share(th_context *to, th_context *from) {
  registry_share share = {to, from};
  return from->slots[TH_SLOT_EXECUTORS]
             ? th_protect(&to->unwind, registry_copy_all, &share)
             : TH_OK;
}

// ---- the public side

typedef struct registry_args {
  th_context *ctx;
  const th_executor_options *options;
} registry_args;

static th_status registry_check_fusing(th_context *ctx, registry *r,
                                       const th_executor_options *options) {
  if (!options->like) {
    return !options->can_fuse == !options->fuse
               ? TH_OK
               : th_error(ctx, TH_INVALID, TH_NOWHERE,
                          "executor '%s': can_fuse and fuse go together",
                          options->name);
  }
  const th_executor *like = th_map_get(&r->by_name, options->like);
  if (!like) {
    return th_error(ctx, TH_NOT_FOUND, TH_NOWHERE,
                    "executor '%s' is like '%s', which is no executor",
                    options->name, options->like);
  }
  if (options->fuse || !like->fuse || like->fuse_user) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "executor '%s' is like '%s': %s", options->name,
                    options->like,
                    options->fuse ? "it has a `fuse` of its own"
                                  : "which compiles no regions");
  }
  return TH_OK;
}

static th_status registry_register(void *user) {
  registry_args *a = user;
  th_executor_options options = {0};
  size_t n = a->options->size;
  memcpy(&options, a->options, n < sizeof options ? n : sizeof options);
  registry *r = registry_of(a->ctx);
  if (!options.name || !th_text_is_word(options.name, strlen(options.name))) {
    return th_error(a->ctx, TH_INVALID, TH_NOWHERE,
                    "an executor's name has letters, digits and '_', and is no "
                    "word of the trace's language");
  }
  if (th_map_get(&r->by_name, options.name) || registry_alias(options.name)) {
    return th_error(a->ctx, TH_INVALID, TH_NOWHERE,
                    "executor '%s' is there already", options.name);
  }
  if (options.claim_count && options.claim_size < sizeof(th_claim)) {
    return th_error(a->ctx, TH_INVALID, TH_NOWHERE,
                    "executor '%s': claim_size is %zu, not sizeof(th_claim)",
                    options.name, options.claim_size);
  }
  if (options.claim_count && !options.claims) {
    return th_error(a->ctx, TH_INVALID, TH_NOWHERE,
                    "executor '%s': claims is NULL, not %zu of them",
                    options.name, options.claim_count);
  }
  for (size_t i = 0; i < options.claim_count; i++) {
    const th_claim claim = registry_claim(&options, i);
    const char *op = claim.op;
    if (!op || !th_op_find(a->ctx, op, strlen(op))) {
      return th_error(a->ctx, TH_NOT_FOUND, TH_NOWHERE,
                      "executor '%s' claims '%s', which is no operation",
                      options.name, op ? op : "(null)");
    }
    if (!claim.run) {
      return th_error(a->ctx, TH_INVALID, TH_NOWHERE,
                      "executor '%s': the claim of '%s' has no run function",
                      options.name, op);
    }
  }
  TH_TRY(registry_check_fusing(a->ctx, r, &options));
  registry_add(r, a->ctx, &options);
  return TH_OK;
}

th_status th_executor_register(th_context *ctx,
                               const th_executor_options *options) {
  registry_args args = {ctx, options};
  return th_protect(&ctx->unwind, registry_register, &args);
}

typedef struct registry_row {
  const char *name, *version, *to;
} registry_row;

static int registry_by_name(const void *a, const void *b) {
  return strcmp(((const registry_row *)a)->name,
                ((const registry_row *)b)->name);
}

typedef struct registry_list {
  th_context *ctx;
  size_t index;
  th_arena scratch;
  registry_row row;
} registry_list;

static th_status registry_nth(void *user) {
  registry_list *l = user;
  registry *r = registry_of(l->ctx);
  size_t n = r->by_name.count + TH_COUNT(registry_aliases);
  registry_row *rows = TH_NEW_ARRAY(&l->scratch, registry_row, n);
  for (size_t i = 0; i < n; i++) {
    if (i < r->by_name.count) {
      const th_executor *e = r->by_name.entries[i].value;
      rows[i] = (registry_row){e->name, e->version, NULL};
    } else {
      size_t k = i - r->by_name.count;
      rows[i] =
          (registry_row){registry_aliases[k].name, "", registry_aliases[k].to};
    }
  }
  qsort(rows, n, sizeof *rows, registry_by_name);
  l->row = l->index < n ? rows[l->index] : (registry_row){0};
  return TH_OK;
}

const char *th_executor_name(th_context *ctx, size_t index,
                             const char **out_version,
                             const char **out_replacement) {
  registry_list list = {.ctx = ctx, .index = index};
  th_arena_init(&list.scratch, &ctx->unwind);
  th_status status = th_protect(&ctx->unwind, registry_nth, &list);
  th_arena_deinit(&list.scratch);
  if (status != TH_OK) {
    return NULL;
  }
  if (out_version) {
    *out_version = list.row.version;
  }
  if (out_replacement) {
    *out_replacement = list.row.to;
  }
  return list.row.name;
}

// ---- what a statement is

const char *th_stmt_op_name(const th_stmt *stmt) { return stmt->op->name; }
const char *th_stmt_scope(const th_stmt *stmt) { return stmt->scope; }
th_loc th_stmt_loc(const th_stmt *stmt) { return stmt->loc; }

static const th_type *registry_arg_type(const th_stmt *stmt, uint32_t arg) {
  if (arg >= stmt->arg_count || stmt->args[arg].kind != TH_ARG_VALUE ||
      stmt->args[arg].value->type.kind != TH_KIND_TENSOR) {
    return NULL;
  }
  return &stmt->args[arg].value->type;
}

int th_stmt_arg_dtype(const th_stmt *stmt, uint32_t arg) {
  const th_type *type = registry_arg_type(stmt, arg);
  return type ? (int)type->dtype : -1;
}

int th_stmt_arg_rank(const th_stmt *stmt, uint32_t arg) {
  const th_type *type = registry_arg_type(stmt, arg);
  return type ? type->rank : -1;
}

uint32_t th_stmt_body_count(const th_stmt *stmt) { return stmt->body_count; }

const th_stmt *th_stmt_body(const th_stmt *stmt, uint32_t index) {
  return index < stmt->body_count ? stmt->body[index] : NULL;
}

int64_t th_stmt_arg_dim(const th_stmt *stmt, uint32_t arg, int dim) {
  const th_type *type = registry_arg_type(stmt, arg);
  if (!type || dim < 0 || dim >= type->rank || !th_is_const(type->dims[dim])) {
    return -1;
  }
  return type->dims[dim]->i;
}

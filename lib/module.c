// Modules: a map from names to tensors, and its state on disk.
#include "module.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "thunder/safetensors.h"

#include <string.h>

// ---- making

th_status th_module_new(th_context *ctx, th_module **out_module) {
  th_module *m = th_calloc(1, sizeof *m);
  *out_module = m;
  if (!m) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  atomic_init(&m->refs, 1);
  atomic_init(&m->version, 1);
  m->ctx = ctx;
  th_arena_init(&m->arena, &ctx->unwind);
  th_map_init(&m->slots, &m->arena);
  th_map_init(&m->children, &m->arena);
  return TH_OK;
}

th_module *th_module_retain(th_module *module) {
  atomic_fetch_add_explicit(&module->refs, 1, memory_order_relaxed);
  return module;
}

void th_module_release(th_module *module) {
  if (!module ||
      atomic_fetch_sub_explicit(&module->refs, 1, memory_order_acq_rel) != 1) {
    return;
  }
  for (uint32_t i = 0; i < module->slots.count; i++) {
    const th_module_slot *slot = module->slots.entries[i].value;
    th_tensor_release(slot->tensor);
  }
  th_arena_deinit(&module->arena);
  th_free(module);
}

// ---- names

static bool module_is_name(const char *fqn) {
  bool part = false;
  for (const char *p = fqn; *p; p++) {
    if (*p == '.' && !part) {
      return false;
    }
    part = *p != '.';
  }
  return part;
}

// Is `fqn` the name of a submodule, or a tensor a submodule on its way?
static bool module_collides(const th_module *m, const char *fqn) {
  size_t n = strlen(fqn);
  for (uint32_t i = 0; i < m->slots.count; i++) {
    const char *other = m->slots.entries[i].key;
    size_t k = strlen(other);
    size_t less = n < k ? n : k;
    if (n != k && memcmp(fqn, other, less) == 0 &&
        (n < k ? other : fqn)[less] == '.') {
      return true;
    }
  }
  return false;
}

static th_module_slot *module_slot(const th_module *m, const char *fqn) {
  return th_map_get(&m->slots, fqn);
}

th_module_slot *th_module_find(const th_module *module, const char *fqn) {
  th_module_slot *slot = module_slot(module, fqn);
  return slot && slot->tied ? slot->tied : slot;
}

th_tensor *th_module_tensor(const th_module *module, const char *fqn) {
  const th_module_slot *slot = th_module_find(module, fqn);
  return slot ? slot->tensor : NULL;
}

typedef struct module_add {
  th_module *module;
  const char *fqn;
  th_module_slot *slot;
} module_add;

static th_status module_insert(void *user) {
  module_add *a = user;
  th_module *m = a->module;
  if (!module_is_name(a->fqn)) {
    return th_error(m->ctx, TH_INVALID, TH_NOWHERE,
                    "'%s' is no name of a tensor: a part of it is empty",
                    a->fqn);
  }
  if (module_collides(m, a->fqn)) {
    return th_error(m->ctx, TH_INVALID, TH_NOWHERE,
                    "'%s' would be a tensor and a submodule at once", a->fqn);
  }
  th_module_slot *slot = TH_NEW(&m->arena, th_module_slot);
  slot->fqn = th_arena_strdup(&m->arena, a->fqn);
  th_map_put(&m->slots, slot->fqn, slot);
  a->slot = slot;
  return TH_OK;
}

// The slot of this name, made when absent.
static th_status module_need(th_module *m, const char *fqn,
                             th_module_slot **out) {
  module_add add = {m, fqn, module_slot(m, fqn)};
  if (!add.slot) {
    th_status status = th_protect(&m->ctx->unwind, module_insert, &add);
    if (status == TH_NO_MEMORY) {
      th_error(m->ctx, status, TH_NOWHERE, "out of memory");
    }
    TH_TRY(status);
  }
  *out = add.slot;
  return TH_OK;
}

static th_status module_set(th_module *m, const char *fqn, th_tensor *tensor,
                            th_module_kind kind, bool persistent) {
  th_module_slot *slot = NULL;
  if (!tensor) {
    return th_error(m->ctx, TH_INVALID, TH_NOWHERE, "'%s': the tensor is NULL",
                    fqn);
  }
  TH_TRY(module_need(m, fqn, &slot));
  th_tensor_retain(tensor);
  th_tensor_release(slot->tensor);
  slot->tensor = tensor;
  slot->tied = NULL;
  slot->kind = kind;
  slot->persistent = persistent;
  atomic_fetch_add(&m->version, 1);
  return TH_OK;
}

th_status th_module_set_param(th_module *module, const char *fqn,
                              th_tensor *tensor) {
  return module_set(module, fqn, tensor, TH_MODULE_PARAM, true);
}

th_status th_module_set_buffer(th_module *module, const char *fqn,
                               th_tensor *tensor, bool persistent) {
  return module_set(module, fqn, tensor, TH_MODULE_BUFFER, persistent);
}

th_status th_module_add_param(th_module *module, const char *fqn,
                              th_dtype dtype, int rank, const int64_t *dims) {
  th_tensor *tensor = NULL;
  TH_TRY(th_tensor_new(module->ctx, dtype, rank, dims, &tensor));
  th_status status = th_module_set_param(module, fqn, tensor);
  th_tensor_release(tensor);
  return status;
}

th_status th_module_tie(th_module *module, const char *fqn,
                        const char *target) {
  th_module_slot *to = th_module_find(module, target);
  th_module_slot *slot = NULL;
  if (!to) {
    return th_error(module->ctx, TH_NOT_FOUND, TH_NOWHERE,
                    "the module has no '%s' to tie '%s' to", target, fqn);
  }
  TH_TRY(module_need(module, fqn, &slot));
  if (slot == to) {
    return TH_OK;
  }
  // What was tied to this name follows.
  for (uint32_t i = 0; i < module->slots.count; i++) {
    th_module_slot *other = module->slots.entries[i].value;
    other->tied = other->tied == slot ? to : other->tied;
  }
  th_tensor_release(slot->tensor);
  slot->tensor = NULL;
  slot->tied = to;
  slot->kind = to->kind;
  slot->persistent = to->persistent;
  atomic_fetch_add(&module->version, 1);
  return TH_OK;
}

static bool module_glob(const char *glob, const char *text) {
  const char *star = NULL, *back = NULL;
  while (*text) {
    if (*glob == '*') {
      star = ++glob;
      back = text;
    } else if (*glob == '?' || *glob == *text) {
      glob++;
      text++;
    } else if (star) {
      glob = star;
      text = ++back;
    } else {
      return false;
    }
  }
  return glob[strspn(glob, "*")] == '\0';
}

size_t th_module_freeze(th_module *module, const char *glob, bool frozen) {
  size_t count = 0;
  for (uint32_t i = 0; i < module->slots.count; i++) {
    th_module_slot *slot = module->slots.entries[i].value;
    if (slot->kind == TH_MODULE_PARAM && module_glob(glob, slot->fqn)) {
      slot->frozen = frozen;
      count++;
    }
  }
  return count;
}

// ---- looking

size_t th_module_count(const th_module *module) { return module->slots.count; }

th_status th_module_at(const th_module *module, size_t index,
                       th_module_entry *out_entry) {
  if (index >= module->slots.count) {
    return TH_NOT_FOUND;
  }
  const th_module_slot *slot = module->slots.entries[index].value;
  const th_module_slot *holder = slot->tied ? slot->tied : slot;
  th_module_entry entry = {.size = out_entry->size,
                           .fqn = slot->fqn,
                           .kind = slot->kind,
                           .persistent = slot->persistent,
                           .frozen = slot->frozen,
                           .tied_to = slot->tied ? slot->tied->fqn : NULL,
                           .tensor = holder->tensor};
  size_t size = out_entry->size;
  memcpy(out_entry, &entry, size < sizeof entry ? size : sizeof entry);
  return TH_OK;
}

// The part of `fqn` up to the submodule below `prefix`; 0: there is none.
static size_t module_child_size(const char *fqn, const char *prefix) {
  size_t n = strlen(prefix);
  if (n && (strncmp(fqn, prefix, n) != 0 || fqn[n] != '.')) {
    return 0;
  }
  size_t start = n ? n + 1 : 0;
  const char *dot = strchr(fqn + start, '.');
  return dot ? (size_t)(dot - fqn) : 0;
}

typedef struct module_child_args {
  th_module *module;
  const char *fqn;
  size_t index;
  th_arena scratch;
  const char *found;
} module_child_args;

static th_status module_find_child(void *user) {
  module_child_args *a = user;
  th_map seen;
  th_map_init(&seen, &a->scratch);
  for (uint32_t i = 0; i < a->module->slots.count; i++) {
    const char *fqn = a->module->slots.entries[i].key;
    size_t n = module_child_size(fqn, a->fqn);
    if (n && !th_map_get_bytes(&seen, fqn, n)) {
      char *name = th_arena_strndup(&a->scratch, fqn, n);
      th_map_put(&seen, name, name);
      if (seen.count == a->index + 1) {
        a->found = th_intern(&a->module->children, name);
        return TH_OK;
      }
    }
  }
  return TH_OK;
}

const char *th_module_child(const th_module *module, const char *fqn,
                            size_t index) {
  // Its arena takes the answer; no slot changes.
  module_child_args args = {.module = (th_module *)(uintptr_t)module,
                            .fqn = fqn ? fqn : "",
                            .index = index};
  th_arena_init(&args.scratch, &module->ctx->unwind);
  (void)th_protect(&module->ctx->unwind, module_find_child, &args);
  th_arena_deinit(&args.scratch);
  return args.found;
}

// ---- state on disk

static bool module_is_state(const th_module_slot *slot) {
  return slot->persistent && !slot->tied;
}

typedef struct module_state {
  const char **names;
  th_tensor **tensors;
  th_module_slot **slots;
  size_t count;
} module_state;

static void module_state_free(module_state *s, bool release) {
  for (size_t i = 0; release && s->tensors && i < s->count; i++) {
    th_tensor_release(s->tensors[i]);
  }
  th_free(s->names);
  th_free(s->tensors);
  th_free(s->slots);
}

static th_status module_state_new(const th_module *m, module_state *s) {
  size_t n = m->slots.count + 1;
  *s = (module_state){th_calloc(n, sizeof *s->names),
                      th_calloc(n, sizeof *s->tensors),
                      th_calloc(n, sizeof *s->slots), 0};
  if (!s->names || !s->tensors || !s->slots) {
    module_state_free(s, false);
    return th_error(m->ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  return TH_OK;
}

th_status th_module_save(const th_module *module, const char *path) {
  module_state s;
  TH_TRY(module_state_new(module, &s));
  for (uint32_t i = 0; i < module->slots.count; i++) {
    th_module_slot *slot = module->slots.entries[i].value;
    if (module_is_state(slot)) {
      s.names[s.count] = slot->fqn;
      s.tensors[s.count++] = slot->tensor;
    }
  }
  th_status status = th_safetensors_write(module->ctx, path, s.names, s.tensors,
                                          s.count, NULL, 0);
  module_state_free(&s, false);
  return status;
}

static bool module_same_shape(const th_tensor *a, const th_tensor *b) {
  int rank = th_tensor_rank(a);
  return rank == th_tensor_rank(b) &&
         memcmp(th_tensor_dims(a), th_tensor_dims(b),
                (size_t)rank * sizeof(int64_t)) == 0;
}

static th_status module_fits(const th_module *m, const char *path,
                             const th_module_slot *slot, const th_tensor *t) {
  char got[512], want[512];
  bool dtype = th_tensor_dtype(t) == th_tensor_dtype(slot->tensor);
  if (dtype && module_same_shape(t, slot->tensor)) {
    return TH_OK;
  }
  return th_error(m->ctx, dtype ? TH_SHAPE : TH_DTYPE, TH_NOWHERE,
                  "%s: '%s' is %s where the module has %s", path, slot->fqn,
                  th_tensor_describe(t, got, sizeof got),
                  th_tensor_describe(slot->tensor, want, sizeof want));
}

// Names of the file that the module does not know.  A tied name may stand in
// place of the one that it is tied to.
static th_status module_unknown(const th_module *m, const char *path,
                                const th_safetensors *file) {
  for (size_t i = 0; i < th_safetensors_count(file); i++) {
    const char *name = th_safetensors_name(file, i);
    if (!module_slot(m, name)) {
      return th_error(m->ctx, TH_NOT_FOUND, TH_NOWHERE,
                      "%s: the module has no '%s'", path, name);
    }
  }
  return TH_OK;
}

// The name under which the file has the tensor of a slot.
static const char *module_name_in(const th_module *m,
                                  const th_safetensors *file,
                                  const th_module_slot *slot) {
  if (th_safetensors_has(file, slot->fqn)) {
    return slot->fqn;
  }
  for (uint32_t i = 0; i < m->slots.count; i++) {
    const th_module_slot *other = m->slots.entries[i].value;
    if (other->tied == slot && th_safetensors_has(file, other->fqn)) {
      return other->fqn;
    }
  }
  return NULL;
}

static th_status module_read(const th_module *m, const char *path,
                             th_safetensors *file, bool strict,
                             module_state *s) {
  if (strict) {
    TH_TRY(module_unknown(m, path, file));
  }
  for (uint32_t i = 0; i < m->slots.count; i++) {
    th_module_slot *slot = m->slots.entries[i].value;
    const char *name =
        module_is_state(slot) ? module_name_in(m, file, slot) : NULL;
    if (!name && strict && module_is_state(slot)) {
      return th_error(m->ctx, TH_NOT_FOUND, TH_NOWHERE, "%s: there is no '%s'",
                      path, slot->fqn);
    }
    if (name) {
      th_tensor *t = NULL;
      TH_TRY(th_safetensors_tensor(file, name, &t));
      s->tensors[s->count] = t;
      s->slots[s->count++] = slot;
      TH_TRY(module_fits(m, path, slot, t));
    }
  }
  return TH_OK;
}

th_status th_module_load(th_module *module, const char *path, bool strict) {
  th_safetensors *file = NULL;
  module_state s;
  TH_TRY(th_safetensors_open(module->ctx, path, &file));
  th_status status = module_state_new(module, &s);
  if (status == TH_OK) {
    status = module_read(module, path, file, strict, &s);
    for (size_t i = 0; status == TH_OK && i < s.count; i++) {
      th_tensor *old = s.slots[i]->tensor;
      s.slots[i]->tensor = s.tensors[i];
      s.tensors[i] = old;
    }
    atomic_fetch_add(&module->version, 1);
    module_state_free(&s, true);
  }
  th_safetensors_free(file);
  return status;
}

static th_status module_take_all(th_module *m, th_safetensors *file) {
  for (size_t i = 0; i < th_safetensors_count(file); i++) {
    const char *name = th_safetensors_name(file, i);
    th_tensor *t = NULL;
    TH_TRY(th_safetensors_tensor(file, name, &t));
    th_status status = th_module_set_param(m, name, t);
    th_tensor_release(t);
    TH_TRY(status);
  }
  return TH_OK;
}

th_status th_module_open(th_context *ctx, const char *path,
                         th_module **out_module) {
  th_safetensors *file = NULL;
  *out_module = NULL;
  TH_TRY(th_safetensors_open(ctx, path, &file));
  th_status status = th_module_new(ctx, out_module);
  if (status == TH_OK) {
    status = module_take_all(*out_module, file);
  }
  if (status != TH_OK) {
    th_module_release(*out_module);
    *out_module = NULL;
  }
  th_safetensors_free(file);
  return status;
}

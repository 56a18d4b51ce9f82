// A stack machine with the instructions that protocol 2 (and the framing of
// protocol 4) uses for plain data and tensors.
// Source: the Python library's pickletools, and torch/serialization.py.
#include "frontend/pickle.h"

#include <string.h>

typedef struct pickle_reader {
  th_context *ctx;
  th_arena *arena;
  const char *name;
  const unsigned char *start, *at, *end;
  th_pickle **stack;
  uint32_t count, cap;
  th_pickle **memo;
  uint32_t memo_count, memo_cap;
} pickle_reader;

static size_t pickle_offset(const pickle_reader *r) {
  return (size_t)((uintptr_t)r->at - (uintptr_t)r->start);
}

static th_status pickle_error(const pickle_reader *r, const char *problem) {
  return th_error(r->ctx, TH_PARSE, (th_loc){.file = r->name},
                  "byte %zu of the pickle: %s", pickle_offset(r), problem);
}

// ---- bytes -----------------------------------------------------------------

// `size` bytes of the operand; NULL: the pickle ends before.
static const unsigned char *pickle_take(pickle_reader *r, uint64_t size) {
  if ((uint64_t)(r->end - r->at) < size) {
    return NULL;
  }
  const unsigned char *bytes = r->at;
  r->at += size;
  return bytes;
}

static uint64_t pickle_little(const unsigned char *bytes, int size) {
  uint64_t value = 0;
  for (int i = size - 1; i >= 0; i--) {
    value = value << 8 | bytes[i];
  }
  return value;
}

static bool pickle_number(pickle_reader *r, int size, uint64_t *out) {
  const unsigned char *bytes = pickle_take(r, (uint64_t)size);
  if (bytes) {
    *out = pickle_little(bytes, size);
  }
  return bytes != NULL;
}

// ---- the stack -------------------------------------------------------------

static th_pickle *pickle_push(pickle_reader *r, th_pickle_kind kind) {
  th_pickle *value = TH_NEW(r->arena, th_pickle);
  value->kind = kind;
  TH_PUSH(r->arena, r->stack, r->count, r->cap) = value;
  return value;
}

static void pickle_push_int(pickle_reader *r, int64_t i) {
  pickle_push(r, TH_PICKLE_INT)->i = i;
}

// NULL: the stack is empty, or a mark is on top.
static th_pickle *pickle_pop(pickle_reader *r) {
  if (r->count == 0 || r->stack[r->count - 1]->kind == TH_PICKLE_MARK) {
    return NULL;
  }
  return r->stack[--r->count];
}

static th_pickle *pickle_top(pickle_reader *r, th_pickle_kind kind) {
  th_pickle *top = r->count ? r->stack[r->count - 1] : NULL;
  return top && top->kind == kind ? top : NULL;
}

// Takes what lies above the newest mark, and the mark.
static bool pickle_pop_mark(pickle_reader *r, th_pickle ***out_items,
                            uint32_t *out_count) {
  uint32_t at = r->count;
  while (at > 0 && r->stack[at - 1]->kind != TH_PICKLE_MARK) {
    at--;
  }
  if (at == 0) {
    return false;
  }
  *out_items = r->stack + at;
  *out_count = r->count - at;
  r->count = at - 1;
  return true;
}

static void pickle_append(pickle_reader *r, th_pickle *list, th_pickle *item) {
  TH_PUSH(r->arena, list->items, list->count, list->cap) = item;
}

static void pickle_tuple(pickle_reader *r, th_pickle **items, uint32_t count) {
  // The new value goes where the items lie.
  th_pickle **copy = TH_NEW_ARRAY(r->arena, th_pickle *, count);
  memcpy(copy, items, count * sizeof *items);
  th_pickle *tuple = pickle_push(r, TH_PICKLE_LIST);
  tuple->items = copy;
  tuple->count = tuple->cap = count;
}

// ---- the memo --------------------------------------------------------------

static th_status pickle_put(pickle_reader *r, uint64_t index) {
  th_pickle *top = r->count ? r->stack[r->count - 1] : NULL;
  if (!top || top->kind == TH_PICKLE_MARK ||
      index > (uint64_t)(r->end - r->start)) {
    return pickle_error(r, "nothing to remember, or an index out of range");
  }
  while (r->memo_count <= index) {
    TH_PUSH(r->arena, r->memo, r->memo_count, r->memo_cap) = NULL;
  }
  r->memo[index] = top;
  return TH_OK;
}

static th_status pickle_get(pickle_reader *r, uint64_t index) {
  if (index >= r->memo_count || !r->memo[index]) {
    return pickle_error(r, "refers to nothing that was remembered");
  }
  TH_PUSH(r->arena, r->stack, r->count, r->cap) = r->memo[index];
  return TH_OK;
}

// ---- functions and types ---------------------------------------------------

static const struct {
  const char *name;
  th_dtype dtype;
} pickle_types[] = {
    {"torch FloatStorage", TH_F32},
    {"torch DoubleStorage", TH_F64},
    {"torch HalfStorage", TH_F16},
    {"torch BFloat16Storage", TH_BF16},
    {"torch LongStorage", TH_I64},
    {"torch IntStorage", TH_I32},
    {"torch ShortStorage", TH_I16},
    {"torch CharStorage", TH_I8},
    {"torch ByteStorage", TH_U8},
    {"torch BoolStorage", TH_BOOL},
    {"torch.storage UntypedStorage", TH_DTYPE_COUNT},
    {"torch float32", TH_F32},
    {"torch float64", TH_F64},
    {"torch float16", TH_F16},
    {"torch bfloat16", TH_BF16},
    {"torch int64", TH_I64},
    {"torch int32", TH_I32},
    {"torch int16", TH_I16},
    {"torch int8", TH_I8},
    {"torch uint8", TH_U8},
    {"torch bool", TH_BOOL},
    {"torch float8_e4m3fn", TH_F8_E4M3FN},
    {"torch float8_e5m2", TH_F8_E5M2},
    {"torch float8_e8m0fnu", TH_F8_E8M0FNU},
};

static const char *const pickle_functions[] = {
    "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter", "torch Size",
    "collections OrderedDict",
};

static th_status pickle_global(pickle_reader *r, const char *module,
                               const char *name) {
  char *text = th_arena_printf(r->arena, "%s %s", module, name);
  th_dtype dtype = TH_DTYPE_COUNT;
  bool known = false;
  for (size_t i = 0; i < TH_COUNT(pickle_types) && !known; i++) {
    known = strcmp(pickle_types[i].name, text) == 0;
    dtype = pickle_types[i].dtype;
  }
  for (size_t i = 0; i < TH_COUNT(pickle_functions) && !known; i++) {
    known = strcmp(pickle_functions[i], text) == 0;
  }
  if (!known) {
    return th_error(r->ctx, TH_UNSUPPORTED, (th_loc){.file = r->name},
                    "byte %zu of the pickle: '%s.%s' is not allowed: only "
                    "tensors in lists, tuples and dictionaries are read",
                    pickle_offset(r), module, name);
  }
  th_pickle *value = pickle_push(r, TH_PICKLE_GLOBAL);
  value->text = text;
  value->dtype = dtype;
  return TH_OK;
}

// Two lines: module, name.
static th_status pickle_global_lines(pickle_reader *r) {
  const char *lines[2];
  for (int i = 0; i < 2; i++) {
    const unsigned char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (!end) {
      return pickle_error(r, "ends inside a name");
    }
    lines[i] =
        th_arena_strndup(r->arena, (const char *)r->at, (size_t)(end - r->at));
    r->at = end + 1;
  }
  return pickle_global(r, lines[0], lines[1]);
}

// ('storage', type, key, device, numel)
static th_status pickle_persistent(pickle_reader *r) {
  th_pickle *id = pickle_pop(r);
  if (!id || id->kind != TH_PICKLE_LIST || id->count < 3 ||
      id->items[1]->kind != TH_PICKLE_GLOBAL ||
      id->items[2]->kind != TH_PICKLE_STRING) {
    return pickle_error(r, "a persistent id is not that of a storage");
  }
  th_pickle *value = pickle_push(r, TH_PICKLE_STORAGE);
  value->text = id->items[2]->text;
  value->dtype = id->items[1]->dtype;
  return TH_OK;
}

static bool pickle_ints(const th_pickle *list, int *out_count, int64_t *out) {
  if (list->kind != TH_PICKLE_LIST || list->count > TH_MAX_RANK) {
    return false;
  }
  for (uint32_t i = 0; i < list->count; i++) {
    if (list->items[i]->kind != TH_PICKLE_INT) {
      return false;
    }
    out[i] = list->items[i]->i;
  }
  *out_count = (int)list->count;
  return true;
}

// (storage, offset, size, stride, requires_grad, hooks[, dtype])
static th_status pickle_tensor(pickle_reader *r, const th_pickle *args) {
  th_pickle_tensor *tensor = TH_NEW(r->arena, th_pickle_tensor);
  th_pickle **a = args->items;
  int strides = 0;
  if (args->count < 4 || a[0]->kind != TH_PICKLE_STORAGE ||
      a[1]->kind != TH_PICKLE_INT ||
      !pickle_ints(a[2], &tensor->rank, tensor->dims) ||
      !pickle_ints(a[3], &strides, tensor->strides) ||
      strides != tensor->rank) {
    return pickle_error(r, "a tensor is malformed");
  }
  tensor->key = a[0]->text;
  tensor->offset = a[1]->i;
  tensor->dtype = a[0]->dtype;
  if (args->count > 6 && a[6]->kind == TH_PICKLE_GLOBAL) {
    tensor->dtype = a[6]->dtype;
  }
  if (tensor->dtype == TH_DTYPE_COUNT) {
    return pickle_error(r, "a tensor has no element type");
  }
  pickle_push(r, TH_PICKLE_TENSOR)->tensor = tensor;
  return TH_OK;
}

static th_status pickle_reduce(pickle_reader *r) {
  th_pickle *args = pickle_pop(r), *function = pickle_pop(r);
  if (!args || args->kind != TH_PICKLE_LIST || !function ||
      function->kind != TH_PICKLE_GLOBAL) {
    return pickle_error(r, "a call is malformed");
  }
  if (strcmp(function->text, "torch._utils _rebuild_tensor_v2") == 0 ||
      strcmp(function->text, "torch._utils _rebuild_tensor_v3") == 0) {
    return pickle_tensor(r, args);
  }
  if (strcmp(function->text, "collections OrderedDict") == 0 &&
      args->count == 0) {
    pickle_push(r, TH_PICKLE_DICT);
    return TH_OK;
  }
  bool is_parameter =
      strcmp(function->text, "torch._utils _rebuild_parameter") == 0 &&
      args->count > 0 && args->items[0]->kind == TH_PICKLE_TENSOR;
  bool is_size = strcmp(function->text, "torch Size") == 0 &&
                 args->count == 1 && args->items[0]->kind == TH_PICKLE_LIST;
  if (!is_parameter && !is_size) {
    return pickle_error(r, "a call is malformed");
  }
  TH_PUSH(r->arena, r->stack, r->count, r->cap) = args->items[0];
  return TH_OK;
}

// ---- instructions ----------------------------------------------------------

static th_status pickle_string(pickle_reader *r, int length_size) {
  uint64_t size;
  const unsigned char *bytes = NULL;
  if (pickle_number(r, length_size, &size)) {
    bytes = pickle_take(r, size);
  }
  if (!bytes || memchr(bytes, 0, size)) {
    return pickle_error(r, "a string is malformed");
  }
  pickle_push(r, TH_PICKLE_STRING)->text =
      th_arena_strndup(r->arena, (const char *)bytes, size);
  return TH_OK;
}

static th_status pickle_integer(pickle_reader *r, int size, bool is_signed) {
  uint64_t value;
  if (!pickle_number(r, size, &value)) {
    return pickle_error(r, "ends inside a number");
  }
  if (is_signed && size < 8 && size > 0 && value >> (8 * size - 1)) {
    value |= UINT64_MAX << (8 * size);
  }
  pickle_push_int(r, (int64_t)value);
  return TH_OK;
}

static th_status pickle_long(pickle_reader *r) {
  uint64_t size;
  if (!pickle_number(r, 1, &size) || size > 8) {
    return pickle_error(r, "an integer does not fit into 64 bits");
  }
  return pickle_integer(r, (int)size, true);
}

static th_status pickle_float(pickle_reader *r) {
  const unsigned char *bytes = pickle_take(r, 8);
  if (!bytes) {
    return pickle_error(r, "ends inside a number");
  }
  uint64_t bits = 0;
  for (int i = 0; i < 8; i++) {
    bits = bits << 8 | bytes[i];
  }
  memcpy(&pickle_push(r, TH_PICKLE_FLOAT)->f, &bits, 8);
  return TH_OK;
}

static th_status pickle_indexed(pickle_reader *r, int size,
                                th_status (*fn)(pickle_reader *, uint64_t)) {
  uint64_t index;
  if (!pickle_number(r, size, &index)) {
    return pickle_error(r, "ends inside a number");
  }
  return fn(r, index);
}

static th_status pickle_small_tuple(pickle_reader *r, uint32_t count) {
  if (r->count < count) {
    return pickle_error(r, "a tuple has too few items");
  }
  r->count -= count;
  for (uint32_t i = 0; i < count; i++) {
    if (r->stack[r->count + i]->kind == TH_PICKLE_MARK) {
      return pickle_error(r, "a tuple has too few items");
    }
  }
  pickle_tuple(r, r->stack + r->count, count);
  return TH_OK;
}

// Items above a mark go into the container below it: one by one into a list,
// in pairs into a dictionary.
static th_status pickle_extend(pickle_reader *r, th_pickle_kind kind) {
  th_pickle **items;
  uint32_t count;
  if (!pickle_pop_mark(r, &items, &count)) {
    return pickle_error(r, "no mark");
  }
  th_pickle *to = pickle_top(r, kind);
  if (!to || (kind == TH_PICKLE_DICT && count % 2 != 0)) {
    return pickle_error(r, "items for no list or dictionary");
  }
  for (uint32_t i = 0; i < count; i++) {
    pickle_append(r, to, items[i]);
  }
  return TH_OK;
}

static th_status pickle_extend_one(pickle_reader *r, th_pickle_kind kind) {
  th_pickle *value = pickle_pop(r);
  th_pickle *key = kind == TH_PICKLE_DICT ? pickle_pop(r) : value;
  th_pickle *to = pickle_top(r, kind);
  if (!value || !key || !to) {
    return pickle_error(r, "an item for no list or dictionary");
  }
  if (kind == TH_PICKLE_DICT) {
    pickle_append(r, to, key);
  }
  pickle_append(r, to, value);
  return TH_OK;
}

static th_status pickle_stack_global(pickle_reader *r) {
  th_pickle *name = pickle_pop(r), *module = pickle_pop(r);
  if (!name || !module || name->kind != TH_PICKLE_STRING ||
      module->kind != TH_PICKLE_STRING) {
    return pickle_error(r, "a name is malformed");
  }
  return pickle_global(r, module->text, name->text);
}

static th_status pickle_tuple_from_mark(pickle_reader *r) {
  th_pickle **items;
  uint32_t count;
  if (!pickle_pop_mark(r, &items, &count)) {
    return pickle_error(r, "no mark");
  }
  pickle_tuple(r, items, count);
  return TH_OK;
}

// The attributes of an OrderedDict: nothing of ours.
static th_status pickle_build(pickle_reader *r) {
  if (!pickle_pop(r) || !pickle_top(r, TH_PICKLE_DICT)) {
    return pickle_error(r, "attributes for no dictionary");
  }
  return TH_OK;
}

static th_status pickle_constant(pickle_reader *r, th_pickle_kind kind,
                                 int64_t i) {
  pickle_push(r, kind)->i = i;
  return TH_OK;
}

static th_status pickle_step(pickle_reader *r, int code) {
  switch (code) {
  case 0x80: // PROTO
    return pickle_take(r, 1) ? TH_OK : pickle_error(r, "ends too early");
  case 0x95: // FRAME
    return pickle_take(r, 8) ? TH_OK : pickle_error(r, "ends too early");
  case '(':
    return pickle_constant(r, TH_PICKLE_MARK, 0);
  case 'N':
    return pickle_constant(r, TH_PICKLE_NONE, 0);
  case 0x88:
    return pickle_constant(r, TH_PICKLE_BOOL, 1);
  case 0x89:
    return pickle_constant(r, TH_PICKLE_BOOL, 0);
  case '}':
    return pickle_constant(r, TH_PICKLE_DICT, 0);
  case ']':
  case ')':
    return pickle_constant(r, TH_PICKLE_LIST, 0);
  case 'X':
    return pickle_string(r, 4);
  case 0x8c:
    return pickle_string(r, 1);
  case 'J':
    return pickle_integer(r, 4, true);
  case 'K':
    return pickle_integer(r, 1, false);
  case 'M':
    return pickle_integer(r, 2, false);
  case 0x8a:
    return pickle_long(r);
  case 'G':
    return pickle_float(r);
  case 'q':
    return pickle_indexed(r, 1, pickle_put);
  case 'r':
    return pickle_indexed(r, 4, pickle_put);
  case 0x94: // MEMOIZE
    return pickle_put(r, r->memo_count);
  case 'h':
    return pickle_indexed(r, 1, pickle_get);
  case 'j':
    return pickle_indexed(r, 4, pickle_get);
  case 't':
    return pickle_tuple_from_mark(r);
  case 0x85:
  case 0x86:
  case 0x87:
    return pickle_small_tuple(r, (uint32_t)(code - 0x84));
  case 'c':
    return pickle_global_lines(r);
  case 0x93:
    return pickle_stack_global(r);
  case 'Q':
    return pickle_persistent(r);
  case 'R':
    return pickle_reduce(r);
  case 'a':
    return pickle_extend_one(r, TH_PICKLE_LIST);
  case 'e':
    return pickle_extend(r, TH_PICKLE_LIST);
  case 's':
    return pickle_extend_one(r, TH_PICKLE_DICT);
  case 'u':
    return pickle_extend(r, TH_PICKLE_DICT);
  case 'b':
    return pickle_build(r);
  default:
    return pickle_error(r, "an instruction that no tensor needs");
  }
}

th_status th_pickle_read(th_context *ctx, th_arena *arena, const char *name,
                         const char *data, size_t size, th_pickle **out_value) {
  const unsigned char *start = (const unsigned char *)data;
  pickle_reader r = {.ctx = ctx,
                     .arena = arena,
                     .name = name,
                     .start = start,
                     .at = start,
                     .end = start + size};
  for (;;) {
    if (r.at == r.end) {
      return pickle_error(&r, "ends without a STOP");
    }
    int code = *r.at++;
    if (code == '.') {
      break;
    }
    TH_TRY(pickle_step(&r, code));
  }
  *out_value = pickle_pop(&r);
  return *out_value ? TH_OK : pickle_error(&r, "holds no value");
}

// ---- torch.save ------------------------------------------------------------

th_status th_saved_open(th_context *ctx, th_arena *arena, const char *name,
                        char *data, size_t size, th_saved *out_saved) {
  static const char suffix[] = "data.pkl";
  *out_saved = (th_saved){0};
  TH_TRY(th_zip_open(ctx, arena, name, data, size, &out_saved->zip));
  th_zip *zip = &out_saved->zip;
  for (uint32_t i = 0; i < zip->count; i++) {
    const th_zip_entry *entry = &zip->entries[i];
    size_t length = strlen(entry->name);
    if (length < sizeof suffix - 1 ||
        strcmp(entry->name + length - (sizeof suffix - 1), suffix) != 0) {
      continue;
    }
    out_saved->root =
        th_arena_strndup(arena, entry->name, length - (sizeof suffix - 1));
    char *bytes;
    TH_TRY(th_zip_read(zip, entry, &bytes));
    return th_pickle_read(ctx, arena, name, bytes, entry->size,
                          &out_saved->value);
  }
  return th_error(ctx, TH_PARSE, (th_loc){.file = name},
                  "no data.pkl inside: not written by torch.save");
}

th_status th_saved_storage(th_saved *saved, const char *key, char **out_data,
                           size_t *out_size) {
  const char *path =
      th_arena_printf(saved->zip.arena, "%sdata/%s", saved->root, key);
  const th_zip_entry *entry = th_zip_find(&saved->zip, path);
  if (!entry) {
    return th_error(saved->zip.ctx, TH_PARSE, (th_loc){.file = saved->zip.name},
                    "no entry '%s'", path);
  }
  *out_size = entry->size;
  return th_zip_read(&saved->zip, entry, out_data);
}

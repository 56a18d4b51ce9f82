// Reads the header of a safetensors file.
//
//   | u64 length | {"name": {"dtype": "F32", "shape": [2, 3],          | data
//   |            |           "data_offsets": [0, 24]}, ...}  + spaces |
//
// The rules are those of the format's own reader, which also refuses gaps, so
// that a file cannot carry bytes that no reader shows.  Every error has its
// byte.
#include "tensor/safetensors_header.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
  HEADER_LENGTH_SIZE = 8,
  HEADER_LARGEST = 100000000, // the format's own limit
};

typedef struct header_reader {
  th_context *ctx;
  th_arena *arena;
  const char *path;
  th_safetensors_header *header;
} header_reader;

typedef struct header_dtype {
  const char *text;
  th_dtype dtype;
  unsigned bits;
} header_dtype;

static const header_dtype header_dtypes[] = {
    {"BOOL", TH_BOOL, 8},
    {"U8", TH_U8, 8},
    {"I8", TH_I8, 8},
    {"I16", TH_I16, 16},
    {"I32", TH_I32, 32},
    {"I64", TH_I64, 64},
    {"F16", TH_F16, 16},
    {"BF16", TH_BF16, 16},
    {"F32", TH_F32, 32},
    {"F64", TH_F64, 64},
    {"F8_E4M3", TH_F8_E4M3FN, 8},
    {"F8_E5M2", TH_F8_E5M2, 8},
    {"F8_E8M0", TH_F8_E8M0FNU, 8},
    {"U16", TH_DTYPE_COUNT, 16},
    {"U32", TH_DTYPE_COUNT, 32},
    {"U64", TH_DTYPE_COUNT, 64},
    {"C64", TH_DTYPE_COUNT, 64},
    {"C128", TH_DTYPE_COUNT, 128},
    {"F8_E4M3FNUZ", TH_DTYPE_COUNT, 8},
    {"F8_E5M2FNUZ", TH_DTYPE_COUNT, 8},
    {"F6_E2M3", TH_DTYPE_COUNT, 6},
    {"F6_E3M2", TH_DTYPE_COUNT, 6},
    {"F4", TH_DTYPE_COUNT, 4},
};

const char *th_safetensors_dtype_text(th_dtype dtype) {
  for (size_t i = 0; i < TH_COUNT(header_dtypes); i++) {
    if (header_dtypes[i].dtype == dtype) {
      return header_dtypes[i].text;
    }
  }
  return "?";
}

#define header_fail(reader, position, ...)                                     \
  header_fail_at(reader, position,                                             \
                 th_arena_printf((reader)->arena, __VA_ARGS__))

static th_status header_fail_at(const header_reader *reader, size_t position,
                                const char *what) {
  return th_error(reader->ctx, TH_PARSE, (th_loc){.file = reader->path},
                  "byte %zu: %s", position, what);
}

// Where a value stands in the file.
static size_t header_at(const th_json *value) {
  return HEADER_LENGTH_SIZE + value->at;
}

static th_status header_expect(const header_reader *reader,
                               const th_json *value, th_json_kind kind) {
  static const char *const names[] = {[TH_JSON_STRING] = "a string",
                                      [TH_JSON_ARRAY] = "a list",
                                      [TH_JSON_OBJECT] = "an object"};
  return value->kind == kind
             ? TH_OK
             : header_fail(reader, header_at(value), "expected %s, not %s",
                           names[kind], th_json_describe(value));
}

static th_status header_size(const header_reader *reader, const th_json *value,
                             uint64_t *out_size) {
  if (value->kind != TH_JSON_INT || value->i < 0) {
    return header_fail(reader, header_at(value),
                       "expected an integer that is not negative");
  }
  *out_size = (uint64_t)value->i;
  return TH_OK;
}

static th_status header_shape(const header_reader *reader, const th_json *value,
                              th_safetensors_entry *entry) {
  TH_TRY(header_expect(reader, value, TH_JSON_ARRAY));
  entry->dims = TH_NEW_ARRAY(reader->arena, int64_t, value->count + 1u);
  for (TH_JSON_EACH(dim, value)) {
    uint64_t size = 0;
    TH_TRY(header_size(reader, dim, &size));
    entry->dims[entry->rank++] = (int64_t)size;
  }
  return TH_OK;
}

static th_status header_offsets(const header_reader *reader,
                                const th_json *value,
                                th_safetensors_entry *entry) {
  TH_TRY(header_expect(reader, value, TH_JSON_ARRAY));
  if (value->count != 2) {
    return header_fail(reader, header_at(value), "expected two integers");
  }
  const th_json *begin = th_json_first(value);
  TH_TRY(header_size(reader, begin, &entry->begin));
  return header_size(reader, th_json_next(begin), &entry->end);
}

enum { HEADER_DTYPE = 1, HEADER_SHAPE = 2, HEADER_OFFSETS = 4 };

// One "key": value of a tensor; `seen` holds the keys so far.
static th_status header_field(const header_reader *reader, const th_json *key,
                              th_safetensors_entry *entry, unsigned *seen) {
  const th_json *value = key + 1;
  unsigned bit = strcmp(key->text, "dtype") == 0          ? HEADER_DTYPE
                 : strcmp(key->text, "shape") == 0        ? HEADER_SHAPE
                 : strcmp(key->text, "data_offsets") == 0 ? HEADER_OFFSETS
                                                          : 0;
  if (*seen & bit) {
    return header_fail(reader, header_at(key), "tensor '%s': '%s' twice",
                       entry->name, key->text);
  }
  *seen |= bit;
  switch (bit) {
  case HEADER_DTYPE:
    entry->dtype_text = value->text;
    return header_expect(reader, value, TH_JSON_STRING);
  case HEADER_SHAPE:
    return header_shape(reader, value, entry);
  case HEADER_OFFSETS:
    return header_offsets(reader, value, entry);
  default:
    return TH_OK;
  }
}

// Bytes of the entry's shape; false when it overflows.
static bool header_bytes(const th_safetensors_entry *entry, unsigned bits,
                         uint64_t *out_bytes) {
  uint64_t total = bits;
  bool fits = true;
  bool empty = false;
  for (uint32_t i = 0; i < entry->rank; i++) {
    uint64_t dim = (uint64_t)entry->dims[i];
    empty = empty || dim == 0;
    fits = fits && !__builtin_mul_overflow(total, dim ? dim : 1, &total);
  }
  *out_bytes = empty ? 0 : total / 8;
  return empty || (fits && total % 8 == 0);
}

static th_status header_check_entry(const header_reader *reader,
                                    th_safetensors_entry *entry,
                                    unsigned seen) {
  if (seen != (HEADER_DTYPE | HEADER_SHAPE | HEADER_OFFSETS)) {
    return header_fail(reader, entry->position, "tensor '%s': no '%s'",
                       entry->name,
                       !(seen & HEADER_DTYPE)   ? "dtype"
                       : !(seen & HEADER_SHAPE) ? "shape"
                                                : "data_offsets");
  }
  if (entry->begin > entry->end) {
    return header_fail(reader, entry->position,
                       "tensor '%s': data_offsets [%" PRIu64 ", %" PRIu64
                       "] run backwards",
                       entry->name, entry->begin, entry->end);
  }
  entry->dtype = TH_DTYPE_COUNT;
  for (size_t i = 0; i < TH_COUNT(header_dtypes); i++) {
    uint64_t bytes;
    if (strcmp(header_dtypes[i].text, entry->dtype_text) != 0) {
      continue;
    }
    entry->dtype = header_dtypes[i].dtype;
    if (!header_bytes(entry, header_dtypes[i].bits, &bytes)) {
      return header_fail(reader, entry->position,
                         "tensor '%s': the shape overflows", entry->name);
    }
    if (bytes != entry->end - entry->begin) {
      return header_fail(reader, entry->position,
                         "tensor '%s': the shape takes %" PRIu64
                         " bytes, data_offsets give %" PRIu64,
                         entry->name, bytes, entry->end - entry->begin);
    }
  }
  return TH_OK;
}

static th_status header_tensor(const header_reader *reader,
                               const th_json *key) {
  th_safetensors_header *header = reader->header;
  if (th_map_get(&header->by_name, key->text)) {
    return header_fail(reader, header_at(key), "tensor '%s' twice", key->text);
  }
  th_safetensors_entry *entry = TH_NEW(reader->arena, th_safetensors_entry);
  entry->name = key->text;
  entry->position = header_at(key);
  unsigned seen = 0;
  TH_TRY(header_expect(reader, key + 1, TH_JSON_OBJECT));
  for (TH_JSON_EACH_KEY(field, key + 1)) {
    TH_TRY(header_field(reader, field, entry, &seen));
  }
  TH_TRY(header_check_entry(reader, entry, seen));
  th_map_put(&header->by_name, entry->name, entry);
  TH_PUSH(reader->arena, header->entries, header->count, header->cap) = entry;
  return TH_OK;
}

static th_status header_metadata(const header_reader *reader,
                                 const th_json *object) {
  th_safetensors_header *header = reader->header;
  TH_TRY(header_expect(reader, object, TH_JSON_OBJECT));
  for (TH_JSON_EACH_KEY(key, object)) {
    TH_TRY(header_expect(reader, key + 1, TH_JSON_STRING));
    if (th_map_get(&header->metadata, key->text)) {
      return header_fail(reader, header_at(key), "metadata '%s' twice",
                         key->text);
    }
    th_map_put(&header->metadata, key->text, (void *)(key + 1)->text);
  }
  return TH_OK;
}

static th_status header_object(const header_reader *reader,
                               const th_json *object) {
  bool has_metadata = false;
  TH_TRY(header_expect(reader, object, TH_JSON_OBJECT));
  for (TH_JSON_EACH_KEY(key, object)) {
    if (strcmp(key->text, "__metadata__") != 0) {
      TH_TRY(header_tensor(reader, key));
      continue;
    }
    if (has_metadata) {
      return header_fail(reader, header_at(key), "'__metadata__' twice");
    }
    has_metadata = true;
    TH_TRY(header_metadata(reader, key + 1));
  }
  return TH_OK;
}

static int header_by_offset(const void *a, const void *b) {
  const th_safetensors_entry *x = *(th_safetensors_entry *const *)a;
  const th_safetensors_entry *y = *(th_safetensors_entry *const *)b;
  if (x->begin != y->begin) {
    return x->begin < y->begin ? -1 : 1;
  }
  return x->end < y->end ? -1 : x->end > y->end;
}

// The ranges must cover the data once, from its start to the end of the file.
static th_status header_check_ranges(const header_reader *reader,
                                     uint64_t size) {
  const th_safetensors_header *header = reader->header;
  uint32_t count = header->count;
  th_safetensors_entry **sorted =
      TH_NEW_ARRAY(reader->arena, th_safetensors_entry *, count ? count : 1);
  if (count > 0) {
    memcpy(sorted, header->entries, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, header_by_offset);
  }
  uint64_t covered = 0;
  for (uint32_t i = 0; i < count; i++) {
    const th_safetensors_entry *entry = sorted[i];
    if (entry->end > size) {
      return header_fail(reader, entry->position,
                         "tensor '%s': data_offsets end at %" PRIu64
                         ", the file has %" PRIu64 " bytes of data",
                         entry->name, entry->end, size);
    }
    if (entry->begin < covered) {
      return header_fail(reader, entry->position,
                         "tensor '%s' overlaps tensor '%s'", entry->name,
                         sorted[i - 1]->name);
    }
    if (entry->begin > covered) {
      return header_fail(reader, entry->position,
                         "no tensor has the %" PRIu64
                         " bytes of data before tensor '%s'",
                         entry->begin - covered, entry->name);
    }
    covered = entry->end;
  }
  if (covered < size) {
    return header_fail(reader, header->data + covered,
                       "no tensor has the last %" PRIu64 " bytes",
                       size - covered);
  }
  return TH_OK;
}

static th_status header_length(const header_reader *reader, const char *bytes,
                               size_t size, uint64_t *out_length) {
  if (size < HEADER_LENGTH_SIZE) {
    return header_fail(reader, size,
                       "the file ends in the length of its header");
  }
  uint64_t length = 0;
  for (int i = 0; i < HEADER_LENGTH_SIZE; i++) {
    length |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
  }
  if (length > HEADER_LARGEST) {
    return header_fail(reader, 0,
                       "a header of %" PRIu64 " bytes, the limit is %d", length,
                       HEADER_LARGEST);
  }
  if (length > size - HEADER_LENGTH_SIZE) {
    return header_fail(reader, 0,
                       "a header of %" PRIu64 " bytes in a file of %zu", length,
                       size);
  }
  *out_length = length;
  return TH_OK;
}

th_status th_safetensors_read_header(th_context *ctx, th_arena *arena,
                                     const char *path, const char *bytes,
                                     size_t size,
                                     th_safetensors_header *out_header) {
  header_reader reader = {ctx, arena, path, out_header};
  uint64_t length = 0;
  const th_json *object = NULL;
  TH_TRY(header_length(&reader, bytes, size, &length));
  *out_header =
      (th_safetensors_header){.data = HEADER_LENGTH_SIZE + (size_t)length};
  th_map_init(&out_header->by_name, arena);
  th_map_init(&out_header->metadata, arena);
  TH_TRY(th_json_parse(ctx, arena, path, HEADER_LENGTH_SIZE,
                       bytes + HEADER_LENGTH_SIZE, (size_t)length, &object));
  TH_TRY(header_object(&reader, object));
  return header_check_ranges(&reader, size - out_header->data);
}

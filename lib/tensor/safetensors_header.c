// Reads the header of a safetensors file.
//
//   | u64 length | {"name": {"dtype": "F32", "shape": [2, 3],          | data
//   |            |           "data_offsets": [0, 24]}, ...}  + spaces |
//
// A scanner of its own rather than a JSON library: every error is located at
// its byte, no tree is built that is many times the text, and numbers are
// 64-bit integers.  The rules are those of the format's own reader, which also
// refuses gaps, so that a file cannot carry bytes that no reader shows.
#include "tensor/safetensors_header.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
  HEADER_LENGTH_SIZE = 8,
  HEADER_LARGEST = 100000000, // the format's own limit
  HEADER_DEEPEST = 32,        // nesting of values that are skipped
};

typedef struct header_scan {
  th_context *ctx;
  th_arena *arena;
  const char *path;
  const char *text; // the file
  size_t at, end;   // within the file
} header_scan;

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

#define header_fail(scan, position, ...)                                       \
  header_fail_at(scan, position, th_arena_printf((scan)->arena, __VA_ARGS__))

static th_status header_fail_at(const header_scan *scan, size_t position,
                                const char *what) {
  return th_error(scan->ctx, TH_PARSE, (th_loc){.file = scan->path},
                  "byte %zu: %s", position, what);
}

static void header_skip_space(header_scan *scan) {
  while (scan->at < scan->end && strchr(" \t\r\n", scan->text[scan->at]) &&
         scan->text[scan->at]) {
    scan->at++;
  }
}

// The next byte after space, or NUL at the end.
static char header_peek(header_scan *scan) {
  header_skip_space(scan);
  return scan->at < scan->end ? scan->text[scan->at] : '\0';
}

static bool header_accept(header_scan *scan, char c) {
  if (header_peek(scan) != c) {
    return false;
  }
  scan->at++;
  return true;
}

static th_status header_expect(header_scan *scan, char c) {
  if (header_accept(scan, c)) {
    return TH_OK;
  }
  if (scan->at >= scan->end) {
    return header_fail(scan, scan->at, "the header ends where '%c' is expected",
                       c);
  }
  return header_fail(scan, scan->at, "expected '%c'", c);
}

// Four hexadecimal digits.
static th_status header_hex(header_scan *scan, uint32_t *out_value) {
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) {
    char c = scan->at < scan->end ? scan->text[scan->at] : '\0';
    const char *digits = "0123456789abcdef";
    const char *digit =
        c ? strchr(digits, c >= 'A' && c <= 'F' ? c | 32 : c) : NULL;
    if (!digit) {
      return header_fail(scan, scan->at, "expected a hexadecimal digit");
    }
    value = value * 16 + (uint32_t)(digit - digits);
    scan->at++;
  }
  *out_value = value;
  return TH_OK;
}

// After "\u".
static th_status header_unicode(header_scan *scan, char **out) {
  size_t start = scan->at - 2;
  uint32_t scalar;
  TH_TRY(header_hex(scan, &scalar));
  if (scalar >= 0xd800 && scalar < 0xdc00 && scan->end - scan->at >= 2 &&
      scan->text[scan->at] == '\\' && scan->text[scan->at + 1] == 'u') {
    uint32_t low;
    scan->at += 2;
    TH_TRY(header_hex(scan, &low));
    scalar = low >= 0xdc00 && low < 0xe000
                 ? 0x10000 + ((scalar - 0xd800) << 10) + (low - 0xdc00)
                 : 0xd800;
  }
  if (scalar == 0 || (scalar >= 0xd800 && scalar < 0xe000)) {
    return header_fail(scan, start, "not a character");
  }
  *out += th_utf8_encode(scalar, *out);
  return TH_OK;
}

// After the backslash.
static th_status header_escape(header_scan *scan, char **out) {
  char c = scan->at < scan->end ? scan->text[scan->at] : '\0';
  static const char from[] = "\"\\/bfnrt";
  static const char to[] = "\"\\/\b\f\n\r\t";
  const char *known = c ? strchr(from, c) : NULL;
  scan->at++;
  if (c == 'u') {
    return header_unicode(scan, out);
  }
  if (!known) {
    return header_fail(scan, scan->at - 2, "unknown escape in a string");
  }
  *(*out)++ = to[known - from];
  return TH_OK;
}

// The offset of the closing quote of the string that begins at scan->at.
static th_status header_string_end(header_scan *scan, size_t *out_end) {
  size_t at = scan->at;
  while (at < scan->end && scan->text[at] != '"') {
    if ((unsigned char)scan->text[at] < 0x20) {
      return header_fail(scan, at, "a control character in a string");
    }
    at += scan->text[at] == '\\' ? 2 : 1;
  }
  if (at >= scan->end) {
    return header_fail(scan, scan->at - 1, "the string does not end");
  }
  size_t valid = th_utf8_prefix(scan->text + scan->at, at - scan->at);
  if (valid < at - scan->at) {
    return header_fail(scan, scan->at + valid, "not UTF-8");
  }
  *out_end = at;
  return TH_OK;
}

static th_status header_string(header_scan *scan, const char **out_text) {
  if (header_peek(scan) != '"') {
    return header_fail(scan, scan->at, "expected a string");
  }
  scan->at++;
  size_t end = 0;
  TH_TRY(header_string_end(scan, &end));
  // An escape is never shorter than what it stands for.
  char *text = th_arena_alloc(scan->arena, end - scan->at + 1);
  char *out = text;
  while (scan->at < end) {
    char c = scan->text[scan->at++];
    if (c == '\\') {
      TH_TRY(header_escape(scan, &out));
    } else {
      *out++ = c;
    }
  }
  scan->at = end + 1;
  *out_text = text;
  return TH_OK;
}

// An integer from 0 to INT64_MAX, as JSON writes it.
static th_status header_integer(header_scan *scan, uint64_t *out_value) {
  char c = header_peek(scan);
  size_t start = scan->at;
  if (c < '0' || c > '9') {
    return header_fail(scan, start, "expected an integer that is not negative");
  }
  uint64_t value = 0;
  for (; scan->at < scan->end; scan->at++) {
    c = scan->text[scan->at];
    if (c < '0' || c > '9') {
      break;
    }
    if (value > (INT64_MAX - (uint64_t)(c - '0')) / 10) {
      return header_fail(scan, start, "the number is beyond 64 bits");
    }
    value = value * 10 + (uint64_t)(c - '0');
  }
  if (scan->text[start] == '0' && scan->at > start + 1) {
    return header_fail(scan, start, "the number begins with a zero");
  }
  if (scan->at < scan->end && strchr(".eE", c) && c) {
    return header_fail(scan, start, "expected an integer");
  }
  *out_value = value;
  return TH_OK;
}

static th_status header_skip_value(header_scan *scan, int depth);

static th_status header_skip_list(header_scan *scan, char close, int depth) {
  scan->at++;
  if (header_accept(scan, close)) {
    return TH_OK;
  }
  do {
    if (close == '}') {
      const char *key;
      TH_TRY(header_string(scan, &key));
      TH_TRY(header_expect(scan, ':'));
    }
    TH_TRY(header_skip_value(scan, depth + 1));
  } while (header_accept(scan, ','));
  return header_expect(scan, close);
}

// null, true, false or a number: the letters that these are made of.
static th_status header_skip_word(header_scan *scan) {
  size_t start = scan->at;
  while (scan->at < scan->end && scan->text[scan->at] &&
         strchr("+-.0123456789Eaeflnrstu", scan->text[scan->at])) {
    scan->at++;
  }
  if (scan->at == start) {
    return header_fail(scan, start, "expected a value");
  }
  return TH_OK;
}

// A value under a key that the format does not define.
static th_status header_skip_value(header_scan *scan, int depth) {
  if (depth > HEADER_DEEPEST) {
    return header_fail(scan, scan->at, "values are nested more than %d deep",
                       HEADER_DEEPEST);
  }
  const char *text;
  switch (header_peek(scan)) {
  case '"':
    return header_string(scan, &text);
  case '[':
    return header_skip_list(scan, ']', depth);
  case '{':
    return header_skip_list(scan, '}', depth);
  default:
    return header_skip_word(scan);
  }
}

static th_status header_shape(header_scan *scan, th_safetensors_entry *entry) {
  TH_TRY(header_expect(scan, '['));
  if (header_accept(scan, ']')) {
    return TH_OK;
  }
  do {
    uint64_t dim;
    TH_TRY(header_integer(scan, &dim));
    TH_PUSH(scan->arena, entry->dims, entry->rank, entry->rank_cap) =
        (int64_t)dim;
  } while (header_accept(scan, ','));
  return header_expect(scan, ']');
}

static th_status header_offsets(header_scan *scan,
                                th_safetensors_entry *entry) {
  TH_TRY(header_expect(scan, '['));
  TH_TRY(header_integer(scan, &entry->begin));
  TH_TRY(header_expect(scan, ','));
  TH_TRY(header_integer(scan, &entry->end));
  return header_expect(scan, ']');
}

enum { HEADER_DTYPE = 1, HEADER_SHAPE = 2, HEADER_OFFSETS = 4 };

// One "key": value of a tensor; `seen` holds the keys so far.
static th_status header_field(header_scan *scan, th_safetensors_entry *entry,
                              unsigned *seen) {
  static const char *const keys[] = {
      [HEADER_DTYPE] = "dtype",
      [HEADER_SHAPE] = "shape",
      [HEADER_OFFSETS] = "data_offsets",
  };
  header_skip_space(scan);
  size_t position = scan->at;
  const char *key;
  TH_TRY(header_string(scan, &key));
  TH_TRY(header_expect(scan, ':'));
  unsigned bit = strcmp(key, keys[HEADER_DTYPE]) == 0     ? HEADER_DTYPE
                 : strcmp(key, keys[HEADER_SHAPE]) == 0   ? HEADER_SHAPE
                 : strcmp(key, keys[HEADER_OFFSETS]) == 0 ? HEADER_OFFSETS
                                                          : 0;
  if (*seen & bit) {
    return header_fail(scan, position, "tensor '%s': '%s' twice", entry->name,
                       key);
  }
  *seen |= bit;
  switch (bit) {
  case HEADER_DTYPE:
    return header_string(scan, &entry->dtype_text);
  case HEADER_SHAPE:
    return header_shape(scan, entry);
  case HEADER_OFFSETS:
    return header_offsets(scan, entry);
  default:
    return header_skip_value(scan, 0);
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

static th_status header_check_entry(header_scan *scan,
                                    th_safetensors_entry *entry,
                                    unsigned seen) {
  if (seen != (HEADER_DTYPE | HEADER_SHAPE | HEADER_OFFSETS)) {
    return header_fail(scan, entry->position, "tensor '%s': no '%s'",
                       entry->name,
                       !(seen & HEADER_DTYPE)   ? "dtype"
                       : !(seen & HEADER_SHAPE) ? "shape"
                                                : "data_offsets");
  }
  if (entry->begin > entry->end) {
    return header_fail(scan, entry->position,
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
      return header_fail(scan, entry->position,
                         "tensor '%s': the shape overflows", entry->name);
    }
    if (bytes != entry->end - entry->begin) {
      return header_fail(scan, entry->position,
                         "tensor '%s': the shape takes %" PRIu64
                         " bytes, data_offsets give %" PRIu64,
                         entry->name, bytes, entry->end - entry->begin);
    }
  }
  return TH_OK;
}

static th_status header_tensor(header_scan *scan, const char *name,
                               size_t position, th_safetensors_header *header) {
  if (th_map_get(&header->by_name, name)) {
    return header_fail(scan, position, "tensor '%s' twice", name);
  }
  th_safetensors_entry *entry = TH_NEW(scan->arena, th_safetensors_entry);
  entry->name = name;
  entry->position = position;
  unsigned seen = 0;
  TH_TRY(header_expect(scan, '{'));
  if (!header_accept(scan, '}')) {
    do {
      TH_TRY(header_field(scan, entry, &seen));
    } while (header_accept(scan, ','));
    TH_TRY(header_expect(scan, '}'));
  }
  TH_TRY(header_check_entry(scan, entry, seen));
  th_map_put(&header->by_name, name, entry);
  TH_PUSH(scan->arena, header->entries, header->count, header->cap) = entry;
  return TH_OK;
}

static th_status header_metadata(header_scan *scan,
                                 th_safetensors_header *header) {
  TH_TRY(header_expect(scan, '{'));
  if (header_accept(scan, '}')) {
    return TH_OK;
  }
  do {
    header_skip_space(scan);
    size_t position = scan->at;
    const char *key;
    const char *value;
    TH_TRY(header_string(scan, &key));
    TH_TRY(header_expect(scan, ':'));
    TH_TRY(header_string(scan, &value));
    if (th_map_get(&header->metadata, key)) {
      return header_fail(scan, position, "metadata '%s' twice", key);
    }
    th_map_put(&header->metadata, key, (void *)value);
  } while (header_accept(scan, ','));
  return header_expect(scan, '}');
}

static th_status header_object(header_scan *scan,
                               th_safetensors_header *header) {
  bool has_metadata = false;
  TH_TRY(header_expect(scan, '{'));
  if (header_accept(scan, '}')) {
    return TH_OK;
  }
  do {
    header_skip_space(scan);
    size_t position = scan->at;
    const char *name;
    TH_TRY(header_string(scan, &name));
    TH_TRY(header_expect(scan, ':'));
    if (strcmp(name, "__metadata__") != 0) {
      TH_TRY(header_tensor(scan, name, position, header));
    } else if (has_metadata) {
      return header_fail(scan, position, "'__metadata__' twice");
    } else {
      has_metadata = true;
      TH_TRY(header_metadata(scan, header));
    }
  } while (header_accept(scan, ','));
  return header_expect(scan, '}');
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
static th_status header_check_ranges(const header_scan *scan, uint64_t size,
                                     const th_safetensors_header *header) {
  uint32_t count = header->count;
  th_safetensors_entry **sorted =
      TH_NEW_ARRAY(scan->arena, th_safetensors_entry *, count ? count : 1);
  if (count > 0) {
    memcpy(sorted, header->entries, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, header_by_offset);
  }
  uint64_t covered = 0;
  for (uint32_t i = 0; i < count; i++) {
    const th_safetensors_entry *entry = sorted[i];
    if (entry->end > size) {
      return header_fail(scan, entry->position,
                         "tensor '%s': data_offsets end at %" PRIu64
                         ", the file has %" PRIu64 " bytes of data",
                         entry->name, entry->end, size);
    }
    if (entry->begin < covered) {
      return header_fail(scan, entry->position,
                         "tensor '%s' overlaps tensor '%s'", entry->name,
                         sorted[i - 1]->name);
    }
    if (entry->begin > covered) {
      return header_fail(scan, entry->position,
                         "no tensor has the %" PRIu64
                         " bytes of data before tensor '%s'",
                         entry->begin - covered, entry->name);
    }
    covered = entry->end;
  }
  if (covered < size) {
    return header_fail(scan, header->data + covered,
                       "no tensor has the last %" PRIu64 " bytes",
                       size - covered);
  }
  return TH_OK;
}

static th_status header_length(const header_scan *scan, size_t size,
                               uint64_t *out_length) {
  if (size < HEADER_LENGTH_SIZE) {
    return header_fail(scan, size, "the file ends in the length of its header");
  }
  uint64_t length = 0;
  for (int i = 0; i < HEADER_LENGTH_SIZE; i++) {
    length |= (uint64_t)(unsigned char)scan->text[i] << (8 * i);
  }
  if (length > HEADER_LARGEST) {
    return header_fail(scan, 0,
                       "a header of %" PRIu64 " bytes, the limit is %d", length,
                       HEADER_LARGEST);
  }
  if (length > size - HEADER_LENGTH_SIZE) {
    return header_fail(scan, 0,
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
  header_scan scan = {.ctx = ctx, .arena = arena, .path = path, .text = bytes};
  uint64_t length = 0;
  TH_TRY(header_length(&scan, size, &length));
  scan.at = HEADER_LENGTH_SIZE;
  scan.end = HEADER_LENGTH_SIZE + (size_t)length;
  *out_header = (th_safetensors_header){.data = scan.end};
  th_map_init(&out_header->by_name, arena);
  th_map_init(&out_header->metadata, arena);
  TH_TRY(header_object(&scan, out_header));
  header_skip_space(&scan);
  if (scan.at < scan.end) {
    return header_fail(&scan, scan.at, "text after the end of the header");
  }
  return header_check_ranges(&scan, size - scan.end, out_header);
}

// Reads JSON.  One pass counts what may become a value, so that the array is
// allocated once; a second fills it.  Strings are copied into one block beside
// it, which the text's own size bounds.
//
// Why not jansson: reading the graph of a 12-layer model takes it 41 ms, of
// the 50 ms that a warm start has; this takes 3.
#include "base/json.h"

#include "base/buffer.h"
#include "base/utf8.h"

#include <string.h>

enum { JSON_DEPTH = 512 };

typedef struct json_reader {
  const char *start, *at, *end;
  th_json *values;
  uint32_t count;
  char *strings;
  uint32_t depth;
  const char *problem; // NULL: none so far
} json_reader;

static bool json_fail(json_reader *r, const char *problem) {
  if (!r->problem) {
    r->problem = problem;
  }
  return false;
}

static void json_skip_space(json_reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' ||
                            *r->at == '\r')) {
    r->at++;
  }
}

static bool json_take(json_reader *r, char c) {
  json_skip_space(r);
  if (r->at < r->end && *r->at == c) {
    r->at++;
    return true;
  }
  return false;
}

static bool json_take_word(json_reader *r, const char *word) {
  size_t size = strlen(word);
  if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0) {
    return false;
  }
  r->at += size;
  return true;
}

static th_json *json_push(json_reader *r, th_json_kind kind) {
  th_json *value = &r->values[r->count++];
  value->kind = kind;
  value->next = 1;
  value->at = (uint32_t)(r->at - r->start);
  return value;
}

// ---- strings ---------------------------------------------------------------

static int json_hex4(const char *text) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char c = text[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

static void json_put(json_reader *r, uint32_t code) {
  r->strings += th_utf8_encode(code, r->strings);
}

// After \u.  Two escapes make one code beyond 0xffff.
static bool json_unicode(json_reader *r) {
  int code = r->end - r->at >= 4 ? json_hex4(r->at) : -1;
  if (code < 0) {
    return json_fail(r, "\\u needs four hexadecimal digits");
  }
  r->at += 4;
  if (code >= 0xd800 && code < 0xdc00 && r->end - r->at >= 6 &&
      r->at[0] == '\\' && r->at[1] == 'u') {
    int low = json_hex4(r->at + 2);
    if (low >= 0xdc00 && low < 0xe000) {
      r->at += 6;
      json_put(r, 0x10000u + ((uint32_t)(code - 0xd800) << 10) +
                      (uint32_t)(low - 0xdc00));
      return true;
    }
  }
  if (code == 0 || (code >= 0xd800 && code < 0xe000)) {
    return json_fail(r, "a string holds a zero byte or half a character");
  }
  json_put(r, (uint32_t)code);
  return true;
}

static bool json_escape(json_reader *r) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  char c = r->at < r->end ? *r->at++ : '\0';
  const char *found = c ? strchr(from, c) : NULL;
  if (found) {
    *r->strings++ = to[found - from];
    return true;
  }
  return c == 'u' ? json_unicode(r) : json_fail(r, "unknown escape");
}

// Bytes beyond ASCII, up to the next one that is not.
static bool json_utf8(json_reader *r) {
  const char *end = r->at;
  while (end < r->end && *end & 0x80) {
    end++;
  }
  size_t size = th_utf8_prefix(r->at, (size_t)(end - r->at));
  memcpy(r->strings, r->at, size);
  r->strings += size;
  r->at += size;
  return r->at == end || json_fail(r, "a string is not UTF-8");
}

// Bytes that stand for themselves inside a string.
static bool json_is_plain(unsigned char c) {
  return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static bool json_string_special(json_reader *r) {
  unsigned char c = (unsigned char)*r->at;
  if (c == '\\') {
    r->at++;
    return json_escape(r);
  }
  return c < 0x20 ? json_fail(r, "a string holds a control character")
                  : json_utf8(r);
}

static bool json_string(json_reader *r) {
  th_json *value = json_push(r, TH_JSON_STRING);
  char *start = r->strings;
  r->at++; // the quote
  for (;;) {
    const char *run = r->at;
    while (run < r->end && json_is_plain((unsigned char)*run)) {
      run++;
    }
    size_t size = (size_t)(run - r->at);
    memcpy(r->strings, r->at, size);
    r->strings += size;
    r->at = run;
    if (run == r->end) {
      return json_fail(r, "the text ends inside a string");
    }
    if (*run == '"') {
      break;
    }
    if (!json_string_special(r)) {
      return false;
    }
  }
  r->at++;
  value->text = start;
  value->count = (uint32_t)(r->strings - start);
  *r->strings++ = '\0';
  return true;
}

// ---- numbers ---------------------------------------------------------------

static const char *json_digits(const char *at, const char *end) {
  while (at < end && *at >= '0' && *at <= '9') {
    at++;
  }
  return at;
}

static bool json_integer(json_reader *r, const char *end) {
  th_json *value = json_push(r, TH_JSON_INT);
  bool negative = *r->at == '-';
  uint64_t limit = (uint64_t)INT64_MAX + negative, number = 0;
  for (const char *at = r->at + negative; at < end; at++) {
    uint64_t digit = (uint64_t)(*at - '0');
    if (number > (limit - digit) / 10) {
      return json_fail(r, "an integer does not fit into 64 bits");
    }
    number = number * 10 + digit;
  }
  value->i = (int64_t)(negative ? 0 - number : number);
  r->at = end;
  return true;
}

static bool json_number(json_reader *r) {
  const char *digits = r->at + (*r->at == '-');
  const char *end = json_digits(digits, r->end);
  if (end == digits) {
    return json_fail(r, "expected a value");
  }
  if (*digits == '0' && end > digits + 1) {
    return json_fail(r, "a number begins with a zero");
  }
  if (end == r->end || (*end != '.' && *end != 'e' && *end != 'E')) {
    return json_integer(r, end);
  }
  if (*end == '.') {
    end = json_digits(end + 1, r->end);
  }
  if (end < r->end && (*end == 'e' || *end == 'E')) {
    end++;
    end += end < r->end && (*end == '+' || *end == '-');
    end = json_digits(end, r->end);
  }
  th_json *value = json_push(r, TH_JSON_FLOAT);
  const char *stop;
  value->f = th_parse_double(r->at, end, &stop);
  if (stop != end) {
    return json_fail(r, "a number is malformed");
  }
  r->at = end;
  return true;
}

// ---- values ----------------------------------------------------------------

static bool json_value(json_reader *r);

static bool json_key(json_reader *r) {
  json_skip_space(r);
  if (r->at == r->end || *r->at != '"') {
    return json_fail(r, "expected a key");
  }
  return json_string(r) && (json_take(r, ':') || json_fail(r, "expected ':'"));
}

static bool json_members(json_reader *r, th_json_kind kind, char close) {
  th_json *value = json_push(r, kind);
  uint32_t index = (uint32_t)(value - r->values);
  r->at++;
  if (++r->depth > JSON_DEPTH) {
    return json_fail(r, "nested too deeply");
  }
  bool more = !json_take(r, close);
  while (more) {
    if ((kind == TH_JSON_OBJECT && !json_key(r)) || !json_value(r)) {
      return false;
    }
    value->count++;
    more = json_take(r, ',');
    if (!more && !json_take(r, close)) {
      return json_fail(r, close == ']' ? "expected ',' or ']'"
                                       : "expected ',' or '}'");
    }
  }
  r->depth--;
  value->next = r->count - index;
  return true;
}

static bool json_word(json_reader *r) {
  static const struct {
    const char *text;
    th_json_kind kind;
    int64_t i;
    double f;
  } words[] = {
      {"null", TH_JSON_NULL, 0, 0},
      {"true", TH_JSON_BOOL, 1, 0},
      {"false", TH_JSON_BOOL, 0, 0},
      {"NaN", TH_JSON_FLOAT, 0, __builtin_nan("")},
      {"Infinity", TH_JSON_FLOAT, 0, __builtin_inf()},
      {"-Infinity", TH_JSON_FLOAT, 0, -__builtin_inf()},
  };
  for (size_t i = 0; i < TH_COUNT(words); i++) {
    th_json *value = &r->values[r->count];
    uint32_t at = (uint32_t)(r->at - r->start);
    if (json_take_word(r, words[i].text)) {
      *value = (th_json){.kind = words[i].kind, .next = 1, .at = at};
      if (value->kind == TH_JSON_FLOAT) {
        value->f = words[i].f;
      } else {
        value->i = words[i].i;
      }
      r->count++;
      return true;
    }
  }
  return json_number(r);
}

static bool json_value(json_reader *r) {
  json_skip_space(r);
  if (r->at == r->end) {
    return json_fail(r, "the text ends where a value is expected");
  }
  switch (*r->at) {
  case '{':
    return json_members(r, TH_JSON_OBJECT, '}');
  case '[':
    return json_members(r, TH_JSON_ARRAY, ']');
  case '"':
    return json_string(r);
  default:
    return json_word(r);
  }
}

// Each value but the first follows one of these; inside strings they only make
// the array larger than it has to be.
static size_t json_count(const char *text, size_t size) {
  static const uint8_t weight[256] = {
      [','] = 1, [':'] = 1, ['['] = 1, ['{'] = 1};
  size_t count = 2;
  for (size_t i = 0; i < size; i++) {
    count += weight[(unsigned char)text[i]];
  }
  return count;
}

th_status th_json_parse(th_context *ctx, th_arena *arena, const char *where,
                        size_t offset, const char *text, size_t size,
                        const th_json **out_value) {
  th_loc loc = {.file = where};
  if (size > INT32_MAX) {
    return th_error(ctx, TH_UNSUPPORTED, loc, "%zu bytes of JSON", size);
  }
  json_reader r = {.start = text, .at = text, .end = text + size};
  r.values = TH_NEW_ARRAY(arena, th_json, json_count(text, size));
  r.strings = th_arena_alloc(arena, size + 1);
  if (json_value(&r)) {
    json_skip_space(&r);
    if (r.at != r.end) {
      json_fail(&r, "something follows the value");
    }
  }
  if (r.problem) {
    return th_error(ctx, TH_PARSE, loc, "byte %zu: %s",
                    offset + (size_t)(r.at - r.start), r.problem);
  }
  *out_value = r.values;
  return TH_OK;
}

const th_json *th_json_get(const th_json *object, const char *key) {
  if (!th_json_is(object, TH_JSON_OBJECT)) {
    return NULL;
  }
  size_t size = strlen(key);
  for (TH_JSON_EACH_KEY(k, object)) {
    if (k->count == size && memcmp(k->text, key, size) == 0) {
      return k + 1;
    }
  }
  return NULL;
}

const char *th_json_describe(const th_json *value) {
  static const char *const names[] = {
      [TH_JSON_NULL] = "null",        [TH_JSON_BOOL] = "a boolean",
      [TH_JSON_INT] = "an integer",   [TH_JSON_FLOAT] = "a number",
      [TH_JSON_STRING] = "a string",  [TH_JSON_ARRAY] = "a list",
      [TH_JSON_OBJECT] = "an object",
  };
  return value ? names[value->kind] : "nothing";
}

// JSON texts, read into one flat array in one arena.
//
// A value is followed by its members, in order: an object {"a": [1, 2]} is
//
//   OBJECT 1 │ STRING "a" │ ARRAY 2 │ INT 1 │ INT 2
//
// and `next` leads over them to the following sibling.  Integers keep all 64
// bits.  Infinity, -Infinity and NaN are read as older exporters write them.
// Takes at most 25 bytes for each byte of text.
#ifndef TH_BASE_JSON_H
#define TH_BASE_JSON_H

#include "base/context.h"

typedef enum th_json_kind {
  TH_JSON_NULL,
  TH_JSON_BOOL,
  TH_JSON_INT,
  TH_JSON_FLOAT,
  TH_JSON_STRING,
  TH_JSON_ARRAY,
  TH_JSON_OBJECT,
} th_json_kind;

typedef struct th_json {
  th_json_kind kind;
  uint32_t count; // members; of a STRING: bytes
  uint32_t next;  // distance to the next sibling
  uint32_t at;    // where it begins in the text
  union {
    int64_t i; // INT and BOOL
    double f;
    const char *text; // STRING: UTF-8, no zero byte inside, one at the end
  };
} th_json;

// The text lies `offset` bytes into the file `where`.  One error at most,
// "WHERE: byte N: ...", with status TH_PARSE.
th_status th_json_parse(th_context *ctx, th_arena *arena, const char *where,
                        size_t offset, const char *text, size_t size,
                        const th_json **out_value);

// The member of an object; NULL: none, or no object.
const th_json *th_json_get(const th_json *object, const char *key);
// "an object", "the number 3", for diagnostics.
const char *th_json_describe(const th_json *value);

static inline const th_json *th_json_first(const th_json *value) {
  return value + 1;
}
static inline const th_json *th_json_next(const th_json *value) {
  return value + value->next;
}
static inline bool th_json_is(const th_json *value, th_json_kind kind) {
  return value && value->kind == kind;
}

// for (TH_JSON_EACH(item, array)): members of an array.
#define TH_JSON_EACH(item, array)                                              \
  const th_json *item = th_json_first(array),                                  \
                *item##_end = (array) + (array)->next;                         \
  item < item##_end;                                                           \
  item = th_json_next(item)
// for (TH_JSON_EACH_KEY(key, object)): the value is key + 1.
#define TH_JSON_EACH_KEY(key, object)                                          \
  const th_json *key = th_json_first(object),                                  \
                *key##_end = (object) + (object)->next;                        \
  key < key##_end;                                                             \
  key = th_json_next(key + 1)

#endif

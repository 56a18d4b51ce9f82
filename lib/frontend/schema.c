// Parses rows of schemas.def: "T(a!) self, N alpha=1, I[2] stride=[1, 1]".
// The rows are ours, so that a malformed one is a bug.
#include "frontend/schema.h"

#include <stdlib.h>
#include <string.h>

typedef struct schema_row {
  const char *name;
  const char *text;
} schema_row;

static const schema_row schema_rows[] = {
#define SCHEMA(name, text) {name, text},
#include "frontend/schemas.def"
};

typedef struct schema_out {
  const char *name;
  const char *functional;
  const char *const *outs;
} schema_out;

static const schema_out schema_outs[] = {
#define OUT(name, functional, ...)                                             \
  {name, functional, (const char *const[]){__VA_ARGS__, NULL}},
#include "frontend/schemas.def"
};

static const char *schema_word(th_arena *arena, const char **at,
                               const char *stops) {
  size_t size = strcspn(*at, stops);
  const char *word = th_arena_strndup(arena, *at, size);
  *at += size;
  return word;
}

static bool schema_take(const char **at, const char *text) {
  size_t size = strlen(text);
  if (strncmp(*at, text, size) != 0) {
    return false;
  }
  *at += size;
  return true;
}

static void schema_kind(const char **at, th_schema_arg *arg) {
  static const char letters[] = "TNIFBSDXA";
  const char *letter = strchr(letters, **at);
  TH_ASSERT(letter && *letter);
  arg->kind = (th_schema_kind)(letter - letters);
  ++*at;
  if (schema_take(at, "(a!)")) {
    arg->is_written = true;
  } else if (schema_take(at, "(a)")) {
    arg->is_viewed = true;
  }
  // T?[] has members that may be None, T? may be None itself.
  arg->is_list = schema_take(at, "[") || schema_take(at, "?[");
  if (arg->is_list) {
    char *end;
    arg->list_size = (uint8_t)strtol(*at, &end, 10);
    *at = end;
    TH_ASSERT(schema_take(at, "]"));
  }
  arg->optional = schema_take(at, "?");
}

// Up to the comma that is not inside brackets.
static const char *schema_default(th_arena *arena, const char **at) {
  const char *end = *at;
  for (int depth = 0; *end && (depth > 0 || *end != ','); end++) {
    depth += (*end == '[') - (*end == ']');
  }
  const char *text = th_arena_strndup(arena, *at, (size_t)(end - *at));
  *at = end;
  return text;
}

static th_schema *schema_parse(th_arena *arena, const schema_row *row) {
  th_schema *schema = TH_NEW(arena, th_schema);
  schema->name = row->name;
  for (const char *at = row->text; *at;) {
    TH_ASSERT(schema->arg_count < TH_SCHEMA_ARGS);
    th_schema_arg *arg = &schema->args[schema->arg_count++];
    schema_kind(&at, arg);
    TH_ASSERT(schema_take(&at, " "));
    arg->name = schema_word(arena, &at, "=,");
    if (schema_take(&at, "=")) {
      arg->default_text = schema_default(arena, &at);
    }
    schema_take(&at, ", ");
  }
  return schema;
}

void th_schemas_init(th_schemas *schemas, th_arena *arena) {
  schemas->arena = arena;
  th_map_init(&schemas->parsed, arena);
}

// The rows are sorted by name (strcmp).
static int schema_compare(const void *key, const void *row) {
  return strcmp(key, ((const schema_row *)row)->name);
}

const th_schema *th_schema_parse_text(th_schemas *schemas, const char *name,
                                      const char *text) {
  th_schema *schema = th_map_get(&schemas->parsed, name);
  if (!schema) {
    schema = schema_parse(schemas->arena, &(schema_row){name, text});
    th_map_put(&schemas->parsed, name, schema);
  }
  return schema;
}

const th_schema *th_schema_find(th_schemas *schemas, const char *name) {
  const schema_row *row = bsearch(name, schema_rows, TH_COUNT(schema_rows),
                                  sizeof *schema_rows, schema_compare);
  return row ? th_schema_parse_text(schemas, row->name, row->text) : NULL;
}

const char *th_schema_of_out(const char *name, const char *const **out_names) {
  for (size_t i = 0; i < TH_COUNT(schema_outs); i++) {
    if (strcmp(schema_outs[i].name, name) == 0) {
      *out_names = schema_outs[i].outs;
      return schema_outs[i].functional;
    }
  }
  return NULL;
}

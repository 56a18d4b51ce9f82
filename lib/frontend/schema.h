// Schemas of ATen operations: names, kinds and defaults of their arguments,
// which an archive leaves out when they are equal to the default.
//
// schemas.def is made by tools/gen_schemas.py from the list that PyTorch
// prints, for the targets of aten.def.
#ifndef TH_FRONTEND_SCHEMA_H
#define TH_FRONTEND_SCHEMA_H

#include "base/context.h"

// Kinds, as letters in schemas.def.
typedef enum th_schema_kind {
  TH_S_TENSOR,  // T
  TH_S_NUMBER,  // N  Scalar
  TH_S_INT,     // I  int, SymInt
  TH_S_FLOAT,   // F
  TH_S_BOOL,    // B
  TH_S_STRING,  // S
  TH_S_DTYPE,   // D
  TH_S_IGNORED, // X  device, layout, memory format, generator
  TH_S_ANY,     // A
} th_schema_kind;

typedef struct th_schema_arg {
  const char *name;
  th_schema_kind kind;
  bool optional;
  bool is_list;
  uint8_t list_size;        // I[2]: one number stands for two; 0: any
  bool is_viewed;           // (a): results may be windows on it
  bool is_written;          // (a!)
  const char *default_text; // NULL: required
} th_schema_arg;

enum { TH_SCHEMA_ARGS = 24 };

typedef struct th_schema {
  const char *name; // "add.Tensor"
  uint32_t arg_count;
  th_schema_arg args[TH_SCHEMA_ARGS];
} th_schema;

// The schema of an overload; parsed at its first use and kept in `arena`.
typedef struct th_schemas {
  th_arena *arena;
  th_map parsed;
} th_schemas;

void th_schemas_init(th_schemas *schemas, th_arena *arena);
const th_schema *th_schema_find(th_schemas *schemas, const char *name);
// The same for a schema that is not in schemas.def.
const th_schema *th_schema_parse_text(th_schemas *schemas, const char *name,
                                      const char *text);
// The functional overload of one with out= arguments ("add.out" ->
// "add.Tensor"), and the names of these ("out", ended by NULL).  NULL: none.
const char *th_schema_of_out(const char *name, const char *const **out_names);

#endif

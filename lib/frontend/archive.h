// The inside of a .pt2 archive: containers, programs, weights.
//
//   archive.c    containers, programs and their JSON, inputs
//   weights.c    where each weight lies, tensors over it, samples
#ifndef TH_FRONTEND_ARCHIVE_H
#define TH_FRONTEND_ARCHIVE_H

#include "base/json.h"
#include "frontend/pickle.h"
#include "ir/trace.h"
#include "tensor/tensor.h"
#include "thunder/pt2.h"
#include "thunder/safetensors.h"

// The bytes of the archive; storages of tensors hold it too.
typedef struct th_pt2_source th_pt2_source;

// A tensor in a storage of the archive.
typedef struct th_pt2_record {
  const char *fqn;
  const char *payload;   // for diagnostics and ties: equal is one storage
  char *data;            // of the whole storage
  size_t bytes;          // 0: saved without data
  const char *bad_dtype; // not NULL: a dtype that tensors do not have
  th_dtype dtype;
  int rank;
  int64_t dims[TH_MAX_RANK], strides[TH_MAX_RANK];
  int64_t offset; // in elements
} th_pt2_record;

typedef struct th_pt2_program {
  const char *name;
  const char *where; // "m.pt2: models/mlp.json", for diagnostics
  const th_zip_entry *entry;
  const th_json *json; // NULL: not read yet
  bool has_weights;    // the maps are filled
  th_map weights;      // parameters and persistent buffers: th_pt2_record
  th_map constants;    // other buffers and constants
  th_pt2_input *inputs;
  size_t input_count;
} th_pt2_program;

struct th_pt2 {
  th_context *ctx;
  th_arena arena;
  th_pt2_source *source;
  th_zip zip;
  const char *name; // as it was opened
  const char *root; // "mlp/"; "" in the flat container
  bool is_flat;
  th_pt2_options options;
  th_pt2_program *programs;
  uint32_t program_count, program_cap;
  th_map storages;               // payload -> th_storage
  th_map samples;                // random tensors by payload
  th_safetensors **replacements; // newest last
  uint32_t replacement_count, replacement_cap;
};

// The program of this name (NULL: the default one), its JSON read and checked
// as far as the signature.
//   TH_NOT_FOUND: no such program
th_status th_pt2_program_find(th_pt2 *archive, const char *name,
                              th_pt2_program **out_program);

// Fills the maps of a program.
th_status th_pt2_read_weights(th_pt2 *archive, th_pt2_program *program);
void th_pt2_drop_weights(th_pt2 *archive);

// The graph as a trace of `ir`.  The result is
//   {'output': tree of the model's result, 'mutated': {input name: value}}
// Inputs are those of the signature, in order (th_pt2_inputs).
th_status th_pt2_trace(th_pt2 *archive, const char *program, th_ir *ir,
                       th_trace **out_trace);

// The entry `root` + text; NULL: none.
const th_zip_entry *th_pt2_entry(th_pt2 *archive, const char *fmt, ...)
    TH_PRINTF(2, 3);

th_pt2_source *th_pt2_source_retain(th_pt2_source *source);
void th_pt2_source_release(void *source);
bool th_pt2_source_is_foreign(const th_pt2_source *source);

// ---- checked access to JSON

// A place in a JSON text, for errors: "WHERE: error: byte N: ...".
typedef struct th_json_place {
  th_context *ctx;
  const char *where;
} th_json_place;

// The member `key`, which must be there and of this kind; an INT does for a
// FLOAT.
th_status th_json_need(th_json_place place, const th_json *object,
                       const char *key, th_json_kind kind,
                       const th_json **out_value);
// The only member of a union {"tag": value}; *out_tag is the key.
th_status th_json_union(th_json_place place, const th_json *value,
                        const th_json **out_tag, const th_json **out_value);
th_status th_json_error(th_json_place place, const th_json *at, const char *fmt,
                        ...) TH_PRINTF(3, 4);

// The archive's number of an element type.  False: not one of ours, and
// *out_name says which.
bool th_pt2_dtype(int64_t code, th_dtype *out_dtype, const char **out_name);

#endif

// The JSON header of a safetensors file, read and checked.
#ifndef TH_TENSOR_SAFETENSORS_HEADER_H
#define TH_TENSOR_SAFETENSORS_HEADER_H

#include "base/context.h"
#include "base/map.h"

typedef struct th_safetensors_entry {
  const char *name;
  const char *dtype_text;
  th_dtype dtype; // TH_DTYPE_COUNT: not supported
  uint32_t rank;
  int64_t *dims;
  uint64_t begin, end; // in the data
  size_t position;     // of the name in the file, for diagnostics
} th_safetensors_entry;

typedef struct th_safetensors_header {
  th_safetensors_entry **entries; // in the order of the text
  uint32_t count, cap;
  th_map by_name;
  th_map metadata; // key to text
  size_t data;     // offset of the data in the file
} th_safetensors_header;

// Unwinds when memory is out; everything is allocated in `arena`.
//   TH_PARSE: malformed; one diagnostic with the byte offset in the file
th_status th_safetensors_read_header(th_context *ctx, th_arena *arena,
                                     const char *path, const char *bytes,
                                     size_t size,
                                     th_safetensors_header *out_header);

// How the format writes a dtype.
const char *th_safetensors_dtype_text(th_dtype dtype);

#endif

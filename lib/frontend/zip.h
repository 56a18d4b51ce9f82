// The zip files that PyTorch writes: a table of entries over mapped bytes.
//
// Stored entries are used where they lie.  Deflated ones are unpacked into an
// arena; what one file unpacks is limited, so that a small file cannot fill
// the memory.
#ifndef TH_FRONTEND_ZIP_H
#define TH_FRONTEND_ZIP_H

#include "base/context.h"

typedef struct th_zip_entry {
  const char *name;
  uint64_t size;           // unpacked
  char *data;              // NULL: deflated
  uint64_t offset, number; // in the central directory, for minizip
} th_zip_entry;

typedef struct th_zip {
  th_context *ctx;
  th_arena *arena;
  const char *name; // for diagnostics
  char *data;
  size_t size;
  th_zip_entry *entries;
  uint32_t count, cap;
  th_map by_name;
  uint64_t unpacked; // bytes so far
} th_zip;

// Reads the central directory.  `data` outlives the zip.
//   TH_PARSE: no zip file, an entry outside it, a name twice
th_status th_zip_open(th_context *ctx, th_arena *arena, const char *name,
                      char *data, size_t size, th_zip *out_zip);
const th_zip_entry *th_zip_find(const th_zip *zip, const char *name);
// The bytes of an entry, in the file or in the arena.
th_status th_zip_read(th_zip *zip, const th_zip_entry *entry, char **out_data);

#endif

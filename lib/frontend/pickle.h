// The pickles that torch.save writes, as far as they hold tensors in lists,
// tuples and dictionaries.  A pickle is a program; only the few instructions
// and the few functions that such data needs are known, everything else is an
// error, and nothing is ever executed.
#ifndef TH_FRONTEND_PICKLE_H
#define TH_FRONTEND_PICKLE_H

#include "frontend/zip.h"

typedef enum th_pickle_kind {
  TH_PICKLE_NONE,
  TH_PICKLE_BOOL,
  TH_PICKLE_INT,
  TH_PICKLE_FLOAT,
  TH_PICKLE_STRING,
  TH_PICKLE_LIST, // and tuples
  TH_PICKLE_DICT, // key, value, key, value ...
  TH_PICKLE_TENSOR,
  // Only while reading: what a list begins with, a function or type, memory.
  TH_PICKLE_MARK,
  TH_PICKLE_GLOBAL,
  TH_PICKLE_STORAGE,
} th_pickle_kind;

typedef struct th_pickle {
  th_pickle_kind kind;
  uint32_t count, cap; // LIST, DICT: items
  union {
    int64_t i;
    double f;
    const char *text; // STRING; GLOBAL: "module name"; STORAGE: its key
    struct th_pickle **items;
    const struct th_pickle_tensor *tensor;
  };
  th_dtype dtype; // STORAGE; TH_DTYPE_COUNT: bytes
} th_pickle;

typedef struct th_pickle_tensor {
  const char *key; // of the storage
  th_dtype dtype;
  int rank;
  int64_t dims[TH_MAX_RANK], strides[TH_MAX_RANK];
  int64_t offset; // in elements
} th_pickle_tensor;

// Reads a pickle.  `name` stands before "byte N" in errors.  A value may occur
// several times, and may contain itself: walk with a limit.
th_status th_pickle_read(th_context *ctx, th_arena *arena, const char *name,
                         const char *data, size_t size, th_pickle **out_value);

// What torch.save wrote: a zip file with a pickle and its storages.
typedef struct th_saved {
  th_zip zip;
  const char *root; // "archive/"
  th_pickle *value;
} th_saved;
th_status th_saved_open(th_context *ctx, th_arena *arena, const char *name,
                        char *data, size_t size, th_saved *out_saved);
// The bytes of a storage.
th_status th_saved_storage(th_saved *saved, const char *key, char **out_data,
                           size_t *out_size);

#endif

// Files of named tensors in the safetensors format: an 8-byte length, a JSON
// header, the tensors' bytes without gaps.
// Source: the format description of Hugging Face's safetensors.
//
// A file is checked whole when it is opened (header, every range, no overlap,
// no gap); memory for that is at most 16 times the header plus 64 KiB.
#ifndef THUNDER_SAFETENSORS_H
#define THUNDER_SAFETENSORS_H

#include "thunder/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct th_safetensors th_safetensors;

// Maps the file; tensors lie in the mapping and keep it alive.  They may be
// written to, which changes neither the file nor what others read from it.
//   TH_IO: cannot be read    TH_PARSE: malformed, with the byte offset
TH_API th_status th_safetensors_open(th_context *ctx, const char *path,
                                     th_safetensors **out_file);
// The same on bytes in memory; deleter(user) as for th_tensor_from_data.
// Diagnostics call them `name`; NULL: "memory".
TH_API th_status th_safetensors_open_memory(th_context *ctx, const char *name,
                                            void *data, size_t size,
                                            th_deleter deleter, void *user,
                                            th_safetensors **out_file);
// NULL is legal.  Tensors that were taken out stay valid.
TH_API void th_safetensors_free(th_safetensors *file);

// Tensors in the order of the header.
TH_API size_t th_safetensors_count(const th_safetensors *file);
// NULL beyond the last.
TH_API const char *th_safetensors_name(const th_safetensors *file,
                                       size_t index);
TH_API bool th_safetensors_has(const th_safetensors *file, const char *name);

// A tensor in the file's bytes, owned by the caller.  A tensor that is not
// aligned to its element there is copied.
//   TH_NOT_FOUND: no such name
//   TH_UNSUPPORTED: a dtype that Thunder does not have (U16, U32, U64, C64 ...)
//   or a rank above TH_MAX_RANK
TH_API th_status th_safetensors_tensor(th_safetensors *file, const char *name,
                                       th_tensor **out_tensor);

// The texts under __metadata__, in the order of the header.
TH_API size_t th_safetensors_metadata_count(const th_safetensors *file);
TH_API const char *th_safetensors_metadata_key(const th_safetensors *file,
                                               size_t index);
// NULL when there is none.
TH_API const char *th_safetensors_metadata(const th_safetensors *file,
                                           const char *key);

typedef struct th_safetensors_pair {
  const char *key;
  const char *value;
} th_safetensors_pair;

// Writes `count` tensors under distinct names, and `pair_count` texts.  The
// file appears under `path` complete or not at all.
//   TH_INVALID: a name twice, not UTF-8, or "__metadata__"; a name, a tensor or
//   a text is NULL
//   TH_IO: cannot be written
TH_API th_status th_safetensors_write(th_context *ctx, const char *path,
                                      const char *const *names,
                                      th_tensor *const *tensors, size_t count,
                                      const th_safetensors_pair *pairs,
                                      size_t pair_count);

#ifdef __cplusplus
}
#endif
#endif

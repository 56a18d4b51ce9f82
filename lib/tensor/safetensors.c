// Safetensors files: opening, and tensors that lie in the mapped bytes.
//
// The file's bytes are one foreign storage; each tensor's storage covers its
// own range and holds a count of that one, so that two tensors of a file do not
// pass for views of each other.
#include "thunder/safetensors.h"

#include "base/alloc.h"
#include "base/file.h"
#include "tensor/safetensors_header.h"
#include "tensor/tensor.h"

#include <string.h>

struct th_safetensors {
  th_context *ctx;
  th_arena arena;
  const char *path; // in the arena
  th_storage *bytes;
  th_safetensors_header header;
};

typedef struct safetensors_open {
  th_safetensors *file;
  const char *path;
} safetensors_open;

static th_status safetensors_read(void *arg) {
  const safetensors_open *open = arg;
  th_safetensors *file = open->file;
  file->path = th_arena_strdup(&file->arena, open->path);
  return th_safetensors_read_header(file->ctx, &file->arena, file->path,
                                    file->bytes->data, file->bytes->size,
                                    &file->header);
}

// Takes the caller's count of `bytes`, also when it fails.
static th_status safetensors_open_bytes(th_context *ctx, const char *path,
                                        th_storage *bytes,
                                        th_safetensors **out_file) {
  th_safetensors *file = th_calloc(1, sizeof *file);
  th_status status = TH_NO_MEMORY;
  if (file) {
    file->ctx = ctx;
    file->bytes = bytes;
    th_arena_init(&file->arena, &ctx->unwind);
    safetensors_open open = {file, path};
    status = th_protect(&ctx->unwind, safetensors_read, &open);
  } else {
    th_storage_release(bytes);
  }
  if (status == TH_NO_MEMORY) {
    th_error(ctx, status, (th_loc){.file = path}, "out of memory");
  }
  if (status != TH_OK) {
    th_safetensors_free(file);
    return status;
  }
  *out_file = file;
  return TH_OK;
}

static void safetensors_unmap(void *user) {
  th_file *map = user;
  th_file_unmap(map);
  th_free(map);
}

th_status th_safetensors_open(th_context *ctx, const char *path,
                              th_safetensors **out_file) {
  th_file *map = th_malloc(sizeof *map);
  if (!map) {
    return th_error(ctx, TH_NO_MEMORY, (th_loc){.file = path}, "out of memory");
  }
  th_status status = th_file_map(ctx, path, map);
  if (status != TH_OK) {
    th_free(map);
    return status;
  }
  th_storage *bytes;
  status = th_storage_wrap(ctx, map->data, map->size, safetensors_unmap, map,
                           &bytes);
  if (status != TH_OK) {
    safetensors_unmap(map);
    return status;
  }
  return safetensors_open_bytes(ctx, path, bytes, out_file);
}

th_status th_safetensors_open_memory(th_context *ctx, const char *name,
                                     void *data, size_t size,
                                     th_deleter deleter, void *user,
                                     th_safetensors **out_file) {
  // The deleter comes last: until then a failure leaves the memory alone.
  th_storage *bytes;
  TH_TRY(th_storage_wrap(ctx, data, size, NULL, NULL, &bytes));
  TH_TRY(safetensors_open_bytes(ctx, name ? name : "memory", bytes, out_file));
  bytes->deleter = deleter;
  bytes->user = user;
  return TH_OK;
}

void th_safetensors_free(th_safetensors *file) {
  if (file) {
    th_arena_deinit(&file->arena);
    th_storage_release(file->bytes);
    th_free(file);
  }
}

size_t th_safetensors_count(const th_safetensors *file) {
  return file->header.count;
}

const char *th_safetensors_name(const th_safetensors *file, size_t index) {
  return index < file->header.count ? file->header.entries[index]->name : NULL;
}

bool th_safetensors_has(const th_safetensors *file, const char *name) {
  return th_map_get(&file->header.by_name, name) != NULL;
}

size_t th_safetensors_metadata_count(const th_safetensors *file) {
  return file->header.metadata.count;
}

const char *th_safetensors_metadata_key(const th_safetensors *file,
                                        size_t index) {
  const th_map *metadata = &file->header.metadata;
  return index < metadata->count ? metadata->entries[index].key : NULL;
}

const char *th_safetensors_metadata(const th_safetensors *file,
                                    const char *key) {
  return th_map_get(&file->header.metadata, key);
}

static void safetensors_release_bytes(void *user) { th_storage_release(user); }

// The storage of one tensor: its bytes in the file, or a copy of them.
static th_status safetensors_storage(th_safetensors *file,
                                     const th_safetensors_entry *entry,
                                     th_storage **out_storage) {
  size_t size = (size_t)(entry->end - entry->begin);
  char *data = file->bytes->data + file->header.data + entry->begin;
  if ((uintptr_t)data % th_dtype_size(entry->dtype) != 0) {
    TH_TRY(th_storage_new(file->ctx, size, out_storage));
    if (size) {
      memcpy((*out_storage)->data, data, size);
    }
    return TH_OK;
  }
  th_storage *bytes = th_storage_retain(file->bytes);
  th_status status = th_storage_wrap_file(
      file->ctx, data, size, safetensors_release_bytes, bytes, out_storage);
  if (status != TH_OK) {
    th_storage_release(bytes);
  }
  return status;
}

th_status th_safetensors_tensor(th_safetensors *file, const char *name,
                                th_tensor **out_tensor) {
  th_loc loc = {.file = file->path};
  const th_safetensors_entry *entry = th_map_get(&file->header.by_name, name);
  if (!entry) {
    return th_error(file->ctx, TH_NOT_FOUND, loc, "no tensor '%s'", name);
  }
  if (entry->dtype == TH_DTYPE_COUNT) {
    return th_error(file->ctx, TH_UNSUPPORTED, loc,
                    "byte %zu: tensor '%s': dtype %s is not supported",
                    entry->position, name, entry->dtype_text);
  }
  if (entry->rank > TH_MAX_RANK) {
    return th_error(file->ctx, TH_UNSUPPORTED, loc,
                    "byte %zu: tensor '%s': rank %u, at most %d is supported",
                    entry->position, name, entry->rank, TH_MAX_RANK);
  }
  th_storage *storage;
  TH_TRY(safetensors_storage(file, entry, &storage));
  th_status status =
      th_tensor_make(file->ctx, storage, entry->dtype, (int)entry->rank,
                     entry->dims, NULL, 0, out_tensor);
  th_storage_release(storage);
  return status;
}

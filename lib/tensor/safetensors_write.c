// Writes safetensors files.  Tensors lie in the order of falling element size,
// then of names, so that each is aligned to its element, and equal contents
// give equal files whatever the order of the arguments.
#include "thunder/safetensors.h"

#include "base/buffer.h"
#include "base/file.h"
#include "base/map.h"
#include "base/utf8.h"
#include "tensor/safetensors_header.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_ALIGN = 64 }; // of the first tensor, by spaces after the header

typedef struct write_item {
  const char *name;
  th_tensor *tensor;
} write_item;

typedef struct write_job {
  th_context *ctx;
  th_arena arena;
  const char *path;
  const char *const *names;
  th_tensor *const *tensors;
  size_t count;
  const th_safetensors_pair *pairs;
  size_t pair_count;
  write_item *items; // sorted
  th_buffer header;
} write_job;

static int write_order(const void *a, const void *b) {
  const write_item *x = a;
  const write_item *y = b;
  size_t x_size = th_dtype_size(x->tensor->dtype);
  size_t y_size = th_dtype_size(y->tensor->dtype);
  if (x_size != y_size) {
    return x_size > y_size ? -1 : 1;
  }
  return strcmp(x->name, y->name);
}

static th_status write_check_text(const write_job *job, const char *what,
                                  const char *text) {
  if (!text) {
    return th_error(job->ctx, TH_INVALID, (th_loc){.file = job->path},
                    "%s is NULL", what);
  }
  size_t size = strlen(text);
  size_t valid = th_utf8_prefix(text, size);
  if (valid < size) {
    return th_error(job->ctx, TH_INVALID, (th_loc){.file = job->path},
                    "%s '%.*s...' is not UTF-8", what, (int)valid, text);
  }
  return TH_OK;
}

static th_status write_sort(write_job *job) {
  th_map seen;
  th_map_init(&seen, &job->arena);
  job->items = TH_NEW_ARRAY(&job->arena, write_item, job->count + 1);
  for (size_t i = 0; i < job->count; i++) {
    const char *name = job->names[i];
    TH_TRY(write_check_text(job, "the name", name));
    bool twice = th_map_get(&seen, name) != NULL;
    if (twice || strcmp(name, "__metadata__") == 0) {
      return th_error(job->ctx, TH_INVALID, (th_loc){.file = job->path},
                      "tensor '%s' %s", name,
                      twice ? "twice" : "has the name of the metadata");
    }
    if (!job->tensors[i]) {
      return th_error(job->ctx, TH_INVALID, (th_loc){.file = job->path},
                      "tensor '%s' is NULL", name);
    }
    th_map_put(&seen, name, job);
    job->items[i] = (write_item){name, job->tensors[i]};
  }
  qsort(job->items, job->count, sizeof *job->items, write_order);
  return TH_OK;
}

static void write_string(th_buffer *out, const char *text) {
  th_buffer_putc(out, '"');
  for (const char *at = text; *at; at++) {
    if (*at == '"' || *at == '\\') {
      th_buffer_putc(out, '\\');
      th_buffer_putc(out, *at);
    } else if ((unsigned char)*at < 0x20) {
      th_buffer_printf(out, "\\u%04x", (unsigned)*at);
    } else {
      th_buffer_putc(out, *at);
    }
  }
  th_buffer_putc(out, '"');
}

static th_status write_pairs(write_job *job) {
  th_buffer *out = &job->header;
  th_map seen;
  th_map_init(&seen, &job->arena);
  th_buffer_puts(out, "\"__metadata__\":{");
  for (size_t i = 0; i < job->pair_count; i++) {
    const th_safetensors_pair *pair = &job->pairs[i];
    TH_TRY(write_check_text(job, "the metadata key", pair->key));
    TH_TRY(write_check_text(job, "the metadata text", pair->value));
    if (th_map_get(&seen, pair->key)) {
      return th_error(job->ctx, TH_INVALID, (th_loc){.file = job->path},
                      "metadata '%s' twice", pair->key);
    }
    th_map_put(&seen, pair->key, job);
    th_buffer_puts(out, i ? "," : "");
    write_string(out, pair->key);
    th_buffer_putc(out, ':');
    write_string(out, pair->value);
  }
  th_buffer_putc(out, '}');
  return TH_OK;
}

static void write_entry(th_buffer *out, const write_item *item,
                        uint64_t begin) {
  const th_tensor *tensor = item->tensor;
  write_string(out, item->name);
  th_buffer_printf(out, ":{\"dtype\":\"%s\",\"shape\":[",
                   th_safetensors_dtype_text(tensor->dtype));
  for (int i = 0; i < tensor->rank; i++) {
    th_buffer_printf(out, "%s%" PRId64, i ? "," : "", tensor->dims[i]);
  }
  th_buffer_printf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin,
                   begin + th_tensor_nbytes(tensor));
}

static th_status write_header(write_job *job) {
  th_buffer *out = &job->header;
  th_buffer_init(out, &job->arena);
  th_buffer_append(out, "\0\0\0\0\0\0\0\0", 8); // the length, set below
  th_buffer_putc(out, '{');
  if (job->pair_count) {
    TH_TRY(write_pairs(job));
  }
  uint64_t begin = 0;
  for (size_t i = 0; i < job->count; i++) {
    th_buffer_puts(out, i || job->pair_count ? "," : "");
    write_entry(out, &job->items[i], begin);
    begin += th_tensor_nbytes(job->items[i].tensor);
  }
  th_buffer_putc(out, '}');
  while (out->size % WRITE_ALIGN != 0) {
    th_buffer_putc(out, ' ');
  }
  uint64_t length = out->size - 8;
  for (int i = 0; i < 8; i++) {
    out->data[i] = (char)(length >> (8 * i));
  }
  return TH_OK;
}

static th_status write_prepare(void *arg) {
  write_job *job = arg;
  TH_TRY(write_sort(job));
  return write_header(job);
}

static th_status write_tensor(th_file_writer *writer, th_tensor *tensor) {
  th_tensor *plain;
  TH_TRY(th_tensor_contiguous(writer->ctx, tensor, &plain));
  th_status status =
      th_file_append(writer, plain->data, th_tensor_nbytes(plain));
  th_tensor_release(plain);
  return status;
}

static th_status write_file(write_job *job) {
  th_file_writer writer;
  TH_TRY(th_file_create(job->ctx, job->path, &writer));
  th_status status =
      th_file_append(&writer, job->header.data, job->header.size);
  for (size_t i = 0; i < job->count && status == TH_OK; i++) {
    status = write_tensor(&writer, job->items[i].tensor);
  }
  if (status != TH_OK) {
    th_file_abandon(&writer);
    return status;
  }
  return th_file_commit(&writer);
}

th_status th_safetensors_write(th_context *ctx, const char *path,
                               const char *const *names,
                               th_tensor *const *tensors, size_t count,
                               const th_safetensors_pair *pairs,
                               size_t pair_count) {
  write_job job = {.ctx = ctx,
                   .path = path,
                   .names = names,
                   .tensors = tensors,
                   .count = count,
                   .pairs = pairs,
                   .pair_count = pair_count};
  th_arena_init(&job.arena, &ctx->unwind);
  th_status status = th_protect(&ctx->unwind, write_prepare, &job);
  if (status == TH_NO_MEMORY) {
    th_error(ctx, status, (th_loc){.file = path}, "out of memory");
  }
  if (status == TH_OK) {
    status = write_file(&job);
  }
  th_arena_deinit(&job.arena);
  return status;
}

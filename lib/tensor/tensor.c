// Tensors: making windows on storage and asking about them.
#include "tensor/tensor.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void th_strides_row_major(int rank, const int64_t *dims, int64_t *out_strides) {
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; i--) {
    out_strides[i] = step;
    // A dimension of size 0 does not zero the strides before it, as in
    // PyTorch.
    step *= dims[i] > 1 ? dims[i] : 1;
  }
}

static th_status tensor_too_large(th_context *ctx, th_dtype dtype, int rank,
                                  const int64_t *dims) {
  char text[TH_MAX_RANK * 24];
  int used = 0;
  for (int i = 0; i < rank; i++) {
    used += snprintf(text + used, sizeof text - (size_t)used, "%s%" PRId64,
                     i ? ", " : "", dims[i]);
  }
  return th_error(ctx, TH_INVALID, TH_NOWHERE,
                  "tensor: %s[%s] has more bytes than can be addressed",
                  th_dtype_name(dtype), rank ? text : "");
}

// Multiplies sizes that may be absurd; false on overflow.
static bool tensor_multiply(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}

static th_status tensor_check_signs(th_context *ctx, int rank,
                                    const int64_t *dims,
                                    const int64_t *strides) {
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) {
      return th_error(ctx, TH_INVALID, TH_NOWHERE,
                      "tensor: dimension %d is negative: %" PRId64, i, dims[i]);
    }
    if (strides && strides[i] < 0) {
      return th_error(ctx, TH_INVALID, TH_NOWHERE,
                      "tensor: stride %d is negative: %" PRId64, i, strides[i]);
    }
  }
  return TH_OK;
}

th_status th_shape_check(th_context *ctx, th_dtype dtype, int rank,
                         const int64_t *dims, const int64_t *strides,
                         int64_t *out_numel, int64_t *out_extent) {
  if ((unsigned)dtype >= TH_DTYPE_COUNT) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE, "tensor: no dtype %d",
                    (int)dtype);
  }
  if (rank < 0 || rank > TH_MAX_RANK) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "tensor: rank %d, allowed are 0 to %d", rank, TH_MAX_RANK);
  }
  if (rank && !dims) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE, "tensor: dims is NULL");
  }
  TH_TRY(tensor_check_signs(ctx, rank, dims, strides));
  // The row-major strides of an absurd empty shape may overflow too, so its
  // other dimensions are checked as if it were not empty.
  int64_t size = (int64_t)th_dtype_size(dtype);
  int64_t numel = 1;
  int64_t nonzero = size;
  int64_t last = 0;
  for (int i = 0; i < rank; i++) {
    int64_t reach = 0;
    bool fits = tensor_multiply(nonzero, dims[i] ? dims[i] : 1, &nonzero);
    if (fits && strides && dims[i] > 1) {
      fits = tensor_multiply(dims[i] - 1, strides[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    if (!fits) {
      return tensor_too_large(ctx, dtype, rank, dims);
    }
    numel *= dims[i];
  }
  int64_t bytes;
  if (!tensor_multiply(last, size, &bytes) || bytes > INT64_MAX - size) {
    return tensor_too_large(ctx, dtype, rank, dims);
  }
  *out_numel = numel;
  *out_extent = numel == 0 ? 0 : strides ? last + 1 : numel;
  return TH_OK;
}

th_status th_tensor_make(th_context *ctx, th_storage *storage, th_dtype dtype,
                         int rank, const int64_t *dims, const int64_t *strides,
                         int64_t offset, th_tensor **out_tensor) {
  int64_t numel = 0;
  int64_t extent = 0;
  TH_TRY(th_shape_check(ctx, dtype, rank, dims, strides, &numel, &extent));
  int64_t bytes = extent * (int64_t)th_dtype_size(dtype);
  if (offset < 0 || offset > (int64_t)storage->size ||
      bytes > (int64_t)storage->size - offset) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "tensor: %" PRId64 " bytes at %" PRId64
                    " reach outside the storage of %zu bytes",
                    bytes, offset, storage->size);
  }
  if (((uintptr_t)storage->data + (uintptr_t)offset) % th_dtype_size(dtype)) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "tensor: data is not aligned to an element of %zu bytes",
                    th_dtype_size(dtype));
  }
  th_tensor *tensor = th_malloc(sizeof *tensor);
  if (!tensor) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  *tensor = (th_tensor){.refs = 1,
                        .dtype = dtype,
                        .rank = rank,
                        .device = {TH_CPU, 0},
                        .storage = th_storage_retain(storage),
                        .data = storage->data + offset};
  if (rank > 0) {
    memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
  }
  if (strides && rank > 0) {
    memcpy(tensor->strides, strides, (size_t)rank * sizeof *strides);
  } else {
    th_strides_row_major(rank, tensor->dims, tensor->strides);
  }
  *out_tensor = tensor;
  return TH_OK;
}

// Hands the caller's count of the storage over to the tensor.
static th_status tensor_adopt(th_context *ctx, th_storage *storage,
                              th_dtype dtype, int rank, const int64_t *dims,
                              const int64_t *strides, th_tensor **out_tensor) {
  th_status status =
      th_tensor_make(ctx, storage, dtype, rank, dims, strides, 0, out_tensor);
  th_storage_release(storage);
  return status;
}

th_status th_tensor_empty(th_context *ctx, th_dtype dtype, int rank,
                          const int64_t *dims, th_tensor **out_tensor) {
  int64_t numel = 0;
  int64_t extent = 0;
  TH_TRY(th_shape_check(ctx, dtype, rank, dims, NULL, &numel, &extent));
  th_storage *storage;
  TH_TRY(th_storage_new(ctx, (size_t)numel * th_dtype_size(dtype), &storage));
  return tensor_adopt(ctx, storage, dtype, rank, dims, NULL, out_tensor);
}

th_status th_tensor_new(th_context *ctx, th_dtype dtype, int rank,
                        const int64_t *dims, th_tensor **out_tensor) {
  TH_TRY(th_tensor_empty(ctx, dtype, rank, dims, out_tensor));
  memset((*out_tensor)->data, 0, (*out_tensor)->storage->size);
  return TH_OK;
}

th_status th_tensor_from_data(th_context *ctx, void *data, th_dtype dtype,
                              int rank, const int64_t *dims,
                              const int64_t *strides, th_deleter deleter,
                              void *user, th_tensor **out_tensor) {
  int64_t numel = 0;
  int64_t extent = 0;
  TH_TRY(th_shape_check(ctx, dtype, rank, dims, strides, &numel, &extent));
  // The deleter comes last: until then a failure leaves the memory alone.
  th_storage *storage;
  TH_TRY(th_storage_wrap(ctx, data, (size_t)extent * th_dtype_size(dtype), NULL,
                         NULL, &storage));
  TH_TRY(tensor_adopt(ctx, storage, dtype, rank, dims, strides, out_tensor));
  storage->deleter = deleter;
  storage->user = user;
  return TH_OK;
}

th_status th_tensor_view(th_context *ctx, th_tensor *base, int rank,
                         const int64_t *dims, const int64_t *strides,
                         int64_t offset, th_tensor **out_tensor) {
  int64_t bytes;
  int64_t start = base->data - base->storage->data;
  if (!tensor_multiply(offset, (int64_t)th_dtype_size(base->dtype), &bytes) ||
      __builtin_add_overflow(start, bytes, &bytes)) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "tensor: offset %" PRId64 " is outside the storage",
                    offset);
  }
  TH_TRY(th_tensor_make(ctx, base->storage, base->dtype, rank, dims, strides,
                        bytes, out_tensor));
  (*out_tensor)->device = base->device;
  return TH_OK;
}

th_tensor *th_tensor_retain(th_tensor *tensor) {
  atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
  return tensor;
}

void th_tensor_release(th_tensor *tensor) {
  if (!tensor ||
      atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) > 1) {
    return;
  }
  th_storage_release(tensor->storage);
  th_free(tensor);
}

th_dtype th_tensor_dtype(const th_tensor *tensor) { return tensor->dtype; }

th_device th_tensor_device(const th_tensor *tensor) { return tensor->device; }

int th_tensor_rank(const th_tensor *tensor) { return tensor->rank; }

const int64_t *th_tensor_dims(const th_tensor *tensor) { return tensor->dims; }

const int64_t *th_tensor_strides(const th_tensor *tensor) {
  return tensor->strides;
}

void *th_tensor_data(const th_tensor *tensor) { return tensor->data; }

int64_t th_tensor_numel(const th_tensor *tensor) {
  int64_t numel = 1;
  for (int i = 0; i < tensor->rank; i++) {
    numel *= tensor->dims[i];
  }
  return numel;
}

size_t th_tensor_nbytes(const th_tensor *tensor) {
  return (size_t)th_tensor_numel(tensor) * th_dtype_size(tensor->dtype);
}

bool th_tensor_is_contiguous(const th_tensor *tensor) {
  int64_t step = 1;
  bool plain = true;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    if (tensor->dims[i] == 0) {
      return true;
    }
    plain = plain && (tensor->dims[i] == 1 || tensor->strides[i] == step);
    step *= tensor->dims[i];
  }
  return plain;
}

bool th_tensor_is_read_only(const th_tensor *tensor) {
  return tensor->storage->is_read_only;
}

bool th_tensor_shares_storage(const th_tensor *a, const th_tensor *b) {
  return a->storage == b->storage;
}

// The bytes from the first element to the end of the last.
static size_t tensor_span(const th_tensor *tensor) {
  int64_t last = 0;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] == 0) {
      return 0;
    }
    last += (tensor->dims[i] - 1) * tensor->strides[i];
  }
  return (size_t)(last + 1) * th_dtype_size(tensor->dtype);
}

bool th_tensor_overlaps(const th_tensor *a, const th_tensor *b) {
  uintptr_t a_start = (uintptr_t)a->data;
  uintptr_t b_start = (uintptr_t)b->data;
  size_t a_size = tensor_span(a);
  size_t b_size = tensor_span(b);
  return th_device_equal(a->device, b->device) && a_size && b_size &&
         a_start < b_start + b_size && b_start < a_start + a_size;
}

static size_t tensor_put_list(char *buffer, size_t size, size_t used, int rank,
                              const int64_t *numbers) {
  for (int i = 0; i < rank && used < size; i++) {
    used += (size_t)snprintf(buffer + used, size - used, "%s%" PRId64,
                             i ? ", " : "", numbers[i]);
  }
  return used < size ? used : size - 1;
}

const char *th_tensor_describe(const th_tensor *tensor, char *buffer,
                               size_t size) {
  if (size == 0) {
    return "";
  }
  size_t used =
      (size_t)snprintf(buffer, size, "%s[", th_dtype_name(tensor->dtype));
  used = used < size ? used : size - 1;
  used = tensor_put_list(buffer, size, used, tensor->rank, tensor->dims);
  if (th_tensor_is_contiguous(tensor)) {
    snprintf(buffer + used, size - used, "]");
    return buffer;
  }
  used += (size_t)snprintf(buffer + used, size - used, "]{");
  used = used < size ? used : size - 1;
  used = tensor_put_list(buffer, size, used, tensor->rank, tensor->strides);
  snprintf(buffer + used, size - used, "}");
  return buffer;
}

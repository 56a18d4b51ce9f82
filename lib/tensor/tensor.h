// The inside of a tensor.
#ifndef TH_TENSOR_TENSOR_H
#define TH_TENSOR_TENSOR_H

#include "base/context.h"
#include "thunder/tensor.h"

#include <stdatomic.h>

// Bytes with one owner count.  Own storage is one allocation with the header in
// front of the bytes; guarded storage and foreign memory lie elsewhere.
typedef struct th_storage {
  atomic_uint refs;
  bool is_read_only;
  bool is_own;
  char *data;
  size_t size;
  th_deleter deleter; // foreign: called with user, unless NULL
  void *user;
  void *map; // guarded: what to unmap
  size_t map_size;
} th_storage;

// Undefined contents, aligned to 64, or ending at an unmapped page.
th_status th_storage_new(th_context *ctx, size_t size,
                         th_storage **out_storage);
// Foreign bytes, where they are.  On failure they stay the caller's.
th_status th_storage_wrap(th_context *ctx, void *data, size_t size,
                          th_deleter deleter, void *user,
                          th_storage **out_storage);
// Bytes of a file that were mapped privately: nobody else sees them, so with
// guard pages on they are copied behind one and released at once.
th_status th_storage_wrap_file(th_context *ctx, void *data, size_t size,
                               th_deleter deleter, void *user,
                               th_storage **out_storage);
th_storage *th_storage_retain(th_storage *storage);
void th_storage_release(th_storage *storage);

// Whether TH_GUARD_PAGES asks for guards.  Read once; a test may set it.
bool th_guard_pages(void);
void th_guard_pages_set(bool on);

struct th_tensor {
  atomic_uint refs;
  th_dtype dtype;
  int rank;
  th_device device;
  th_storage *storage;
  char *data; // first element
  int64_t dims[TH_MAX_RANK];
  int64_t strides[TH_MAX_RANK]; // in elements
};

// A tensor on `storage`, which it retains; `strides` NULL: row-major; `offset`
// in bytes from the start of the storage.
//   TH_INVALID: rank, dimensions, strides, alignment, or outside the storage
th_status th_tensor_make(th_context *ctx, th_storage *storage, th_dtype dtype,
                         int rank, const int64_t *dims, const int64_t *strides,
                         int64_t offset, th_tensor **out_tensor);

// Can elements be written?  `what` begins the message.
//   TH_INVALID: the storage is read-only, or an element is there twice
th_status th_tensor_check_target(th_context *ctx, const char *what,
                                 const th_tensor *to);

// Row-major strides of `dims`.
void th_strides_row_major(int rank, const int64_t *dims, int64_t *out_strides);

// Elements of a shape, and the elements from the first one to the last one that
// the strides reach (both 0 for an empty shape).
//   TH_INVALID: rank, a negative number, or more bytes than PTRDIFF_MAX
th_status th_shape_check(th_context *ctx, th_dtype dtype, int rank,
                         const int64_t *dims, const int64_t *strides,
                         int64_t *out_numel, int64_t *out_extent);

#endif

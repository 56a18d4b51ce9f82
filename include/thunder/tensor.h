// Run-time tensors: a reference-counted window (dimensions, strides) on
// reference-counted storage.
//
// Strides count elements and are never negative; 0 repeats.  Dimensions of size
// 0 are legal, and so is rank 0 (one element).  A tensor does not need the
// context that it was made with: that only receives diagnostics, and may be
// NULL where nobody reads them.
//
// Threads: retain and release from any thread; what lies in the storage is the
// user's to order.
#ifndef THUNDER_TENSOR_H
#define THUNDER_TENSOR_H

#include "thunder/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct th_tensor th_tensor;

// Row-major tensors with storage of their own, aligned to 64 bytes: zeroed, or
// with undefined contents.  With TH_GUARD_PAGES=1 in the environment storage
// ends at an unmapped page instead, so that a read or write past its end
// faults; its start is then aligned to the element only.  The process keeps up
// to two released blocks of 1 to 64 MiB for the next tensors of their size.
//   TH_INVALID: rank, a negative dimension, a size beyond memory addresses;
//   `dims` is NULL, which only rank 0 may have
TH_API th_status th_tensor_new(th_context *ctx, th_dtype dtype, int rank,
                               const int64_t *dims, th_tensor **out_tensor);
TH_API th_status th_tensor_empty(th_context *ctx, th_dtype dtype, int rank,
                                 const int64_t *dims, th_tensor **out_tensor);

// Memory of the user's, on the CPU.  `strides` NULL: row-major.  Once nothing
// refers to the storage, deleter(user) is called, by whichever thread released
// last; a NULL deleter means that the memory outlives every tensor on it.  When
// this fails the memory stays the caller's and the deleter is not called.
//   TH_INVALID: as above, `data` not aligned to the element
typedef void (*th_deleter)(void *user);
TH_API th_status th_tensor_from_data(th_context *ctx, void *data,
                                     th_dtype dtype, int rank,
                                     const int64_t *dims,
                                     const int64_t *strides, th_deleter deleter,
                                     void *user, th_tensor **out_tensor);

// Another window on the storage of `base`, with its dtype; the first element is
// `offset` elements after the first one of `base`.
//   TH_INVALID: it would reach outside the storage
TH_API th_status th_tensor_view(th_context *ctx, th_tensor *base, int rank,
                                const int64_t *dims, const int64_t *strides,
                                int64_t offset, th_tensor **out_tensor);

// The argument, once more.
TH_API th_tensor *th_tensor_retain(th_tensor *tensor);
// NULL is legal.
TH_API void th_tensor_release(th_tensor *tensor);

TH_API th_dtype th_tensor_dtype(const th_tensor *tensor);
TH_API th_device th_tensor_device(const th_tensor *tensor);
TH_API int th_tensor_rank(const th_tensor *tensor);
// `rank` numbers, valid while the tensor lives.
TH_API const int64_t *th_tensor_dims(const th_tensor *tensor);
TH_API const int64_t *th_tensor_strides(const th_tensor *tensor);
// The first element.
TH_API void *th_tensor_data(const th_tensor *tensor);
// Elements, and their bytes without gaps.
TH_API int64_t th_tensor_numel(const th_tensor *tensor);
TH_API size_t th_tensor_nbytes(const th_tensor *tensor);
// Row-major without gaps; strides of dimensions of size 1 do not count.
TH_API bool th_tensor_is_contiguous(const th_tensor *tensor);
// Storage that a consumer was asked not to write to (DLPack).
TH_API bool th_tensor_is_read_only(const th_tensor *tensor);
TH_API bool th_tensor_shares_storage(const th_tensor *a, const th_tensor *b);
// True when the address ranges that the two span have a byte in common, also
// when they lie in different storages (foreign memory may alias).
TH_API bool th_tensor_overlaps(const th_tensor *a, const th_tensor *b);

// "f32[2, 8]", with strides where they are not row-major:
// "f32[2, 8]{1, 2}".  Cut to `size`; 512 bytes hold every text.
TH_API const char *th_tensor_describe(const th_tensor *tensor, char *buffer,
                                      size_t size);

// The argument once more when it is contiguous, else a contiguous copy.
TH_API th_status th_tensor_contiguous(th_context *ctx, th_tensor *tensor,
                                      th_tensor **out_tensor);
// A contiguous tensor of its own, always.
TH_API th_status th_tensor_clone(th_context *ctx, const th_tensor *tensor,
                                 th_tensor **out_tensor);
// A contiguous copy in another dtype (or the same).  Floats round to nearest,
// ties to even; f8_e4m3fn saturates and f8_e5m2 overflows to infinity, as in
// PyTorch; a float out of the range of an integer type gives the low bits of
// what x86 converts it to (INT32_MIN or INT64_MIN); integers wrap; b8 is
// "not equal to 0".
TH_API th_status th_tensor_to_dtype(th_context *ctx, const th_tensor *tensor,
                                    th_dtype dtype, th_tensor **out_tensor);
// Element by element between equal shapes; dtypes convert as above.  `to` and
// `from` may overlap.
//   TH_SHAPE: shapes differ
//   TH_INVALID: `to` is read-only or repeats elements
TH_API th_status th_tensor_copy(th_context *ctx, th_tensor *to,
                                const th_tensor *from);
// Every element becomes `value`, converted as above.  Same errors.
TH_API th_status th_tensor_fill(th_context *ctx, th_tensor *tensor,
                                double value);
TH_API th_status th_tensor_fill_int(th_context *ctx, th_tensor *tensor,
                                    int64_t value);

// One element by its row-major index (0 <= index < numel), through double or
// int64_t.  Meant for tests and printing, not for loops over large tensors.
TH_API double th_tensor_get(const th_tensor *tensor, int64_t index);
TH_API int64_t th_tensor_get_int(const th_tensor *tensor, int64_t index);
TH_API void th_tensor_set(th_tensor *tensor, int64_t index, double value);
TH_API void th_tensor_set_int(th_tensor *tensor, int64_t index, int64_t value);

// Same dtype, same shape, and the same bits in every element.
TH_API bool th_tensor_equal(const th_tensor *a, const th_tensor *b);

// What th_tensor_compare found.
typedef struct th_difference {
  int64_t count; // elements beyond the tolerance
  int64_t index; // row-major index of the largest error
  double error;  // |got - want| there; infinity where only one is NaN
  double got;
  double want;
} th_difference;

// Whether |got - want| <= atol + rtol * |want| holds everywhere.  NaN equals
// NaN, an infinity equals itself; integers and booleans must be equal.
//   TH_SHAPE, TH_DTYPE: shapes or dtypes differ, nothing was compared
TH_API th_status th_tensor_compare(th_context *ctx, const th_tensor *got,
                                   const th_tensor *want, double rtol,
                                   double atol, th_difference *out_difference);

#ifdef __cplusplus
}
#endif
#endif

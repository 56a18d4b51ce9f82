// Tensors from and to other libraries by DLPack: no copy, one owner each.
//
// The structures are those of DLPack 1.1 (github.com/dmlc/dlpack,
// include/dlpack/dlpack.h), whose layout is fixed for every 1.x; they are
// skipped when that header was included before, and it is when it comes after.
#ifndef THUNDER_DLPACK_H
#define THUNDER_DLPACK_H

#include "thunder/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_
// NOLINTBEGIN(readability-identifier-naming): names of DLPack's
#define DLPACK_DLPACK_H_

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

typedef enum {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U,
  kDLFloat8_e3m4 = 7U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3b11fnuz = 9U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  kDLFloat6_e2m3fn = 15U,
  kDLFloat6_e3m2fn = 16U,
  kDLFloat4_e2m1fn = 17U,
} DLDataTypeCode;

typedef struct {
  uint8_t code; // DLDataTypeCode
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; // in elements; NULL: row-major
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

// NOLINTEND(readability-identifier-naming)
#endif // DLPACK_DLPACK_H_

// The tensor as DLPack's structure, on the same memory; it holds a count of the
// tensor until its deleter is called.  The form without a version cannot say
// that memory is read-only.
//   TH_INVALID: a read-only tensor in the form without a version
TH_API th_status th_tensor_to_dlpack(th_context *ctx, th_tensor *tensor,
                                     DLManagedTensorVersioned **out_managed);
TH_API th_status th_tensor_to_dlpack_legacy(th_context *ctx, th_tensor *tensor,
                                            DLManagedTensor **out_managed);

// A tensor on the memory of the structure, which it owns from now on: its
// deleter is called when nothing refers to the memory any more.  On failure the
// structure stays the caller's.
//   TH_UNSUPPORTED: another major version, a device other than the CPU, a dtype
//   or several lanes that Thunder does not have
//   TH_INVALID: rank, shape, negative strides, data not aligned to an element
TH_API th_status th_tensor_from_dlpack(th_context *ctx,
                                       DLManagedTensorVersioned *managed,
                                       th_tensor **out_tensor);
TH_API th_status th_tensor_from_dlpack_legacy(th_context *ctx,
                                              DLManagedTensor *managed,
                                              th_tensor **out_tensor);

#ifdef __cplusplus
}
#endif
#endif

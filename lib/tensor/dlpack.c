// DLPack in and out.  Both structures carry the same DLTensor; what differs is
// where the owner's pointer and the flags lie.
#include "thunder/dlpack.h"

#include "base/alloc.h"
#include "tensor/tensor.h"

#include <string.h>

static const DLDataType dlpack_dtypes[TH_DTYPE_COUNT] = {
    [TH_BOOL] = {kDLBool, 8, 1},
    [TH_U8] = {kDLUInt, 8, 1},
    [TH_I8] = {kDLInt, 8, 1},
    [TH_I16] = {kDLInt, 16, 1},
    [TH_I32] = {kDLInt, 32, 1},
    [TH_I64] = {kDLInt, 64, 1},
    [TH_F16] = {kDLFloat, 16, 1},
    [TH_BF16] = {kDLBfloat, 16, 1},
    [TH_F32] = {kDLFloat, 32, 1},
    [TH_F64] = {kDLFloat, 64, 1},
    [TH_F8_E4M3FN] = {kDLFloat8_e4m3fn, 8, 1},
    [TH_F8_E5M2] = {kDLFloat8_e5m2, 8, 1},
    [TH_F8_E8M0FNU] = {kDLFloat8_e8m0fnu, 8, 1},
};

// What an exported structure lives in; one of the two is in use.
typedef struct dlpack_export {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } managed; // first: the consumer's pointer is ours
  th_tensor *tensor;
  int64_t strides[TH_MAX_RANK];
} dlpack_export;

static void dlpack_export_free(dlpack_export *export) {
  th_tensor_release(export->tensor);
  th_free(export);
}

static void dlpack_delete_versioned(DLManagedTensorVersioned *self) {
  dlpack_export_free(self->manager_ctx);
}

static void dlpack_delete_legacy(DLManagedTensor *self) {
  dlpack_export_free(self->manager_ctx);
}

static th_status dlpack_export_new(th_context *ctx, th_tensor *tensor,
                                   dlpack_export **out_export) {
  if (tensor->device.type != TH_CPU) {
    return th_error(ctx, TH_UNSUPPORTED, TH_NOWHERE,
                    "dlpack: only tensors on the cpu are exported");
  }
  dlpack_export *export = th_calloc(1, sizeof *export);
  if (!export) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  export->tensor = th_tensor_retain(tensor);
  memcpy(export->strides, tensor->strides, sizeof export->strides);
  *out_export = export;
  return TH_OK;
}

static DLTensor dlpack_tensor_of(dlpack_export *export) {
  th_tensor *tensor = export->tensor;
  return (DLTensor){.data = tensor->data,
                    .device = {kDLCPU, 0},
                    .ndim = tensor->rank,
                    .dtype = dlpack_dtypes[tensor->dtype],
                    .shape = tensor->dims,
                    .strides = export->strides};
}

th_status th_tensor_to_dlpack(th_context *ctx, th_tensor *tensor,
                              DLManagedTensorVersioned **out_managed) {
  dlpack_export *export;
  TH_TRY(dlpack_export_new(ctx, tensor, &export));
  export->managed.versioned = (DLManagedTensorVersioned){
      .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
      .manager_ctx = export,
      .deleter = dlpack_delete_versioned,
      .flags =
          th_tensor_is_read_only(tensor) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
      .dl_tensor = dlpack_tensor_of(export)};
  *out_managed = &export->managed.versioned;
  return TH_OK;
}

th_status th_tensor_to_dlpack_legacy(th_context *ctx, th_tensor *tensor,
                                     DLManagedTensor **out_managed) {
  if (th_tensor_is_read_only(tensor)) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE,
                    "dlpack: a read-only tensor needs the versioned form");
  }
  dlpack_export *export;
  TH_TRY(dlpack_export_new(ctx, tensor, &export));
  export->managed.legacy =
      (DLManagedTensor){.dl_tensor = dlpack_tensor_of(export),
                        .manager_ctx = export,
                        .deleter = dlpack_delete_legacy};
  *out_managed = &export->managed.legacy;
  return TH_OK;
}

static th_status dlpack_dtype(th_context *ctx, DLDataType type,
                              th_dtype *out_dtype) {
  for (int i = 0; i < TH_DTYPE_COUNT; i++) {
    const DLDataType *own = &dlpack_dtypes[i];
    if (own->code == type.code && own->bits == type.bits &&
        own->lanes == type.lanes) {
      *out_dtype = (th_dtype)i;
      return TH_OK;
    }
  }
  return th_error(ctx, TH_UNSUPPORTED, TH_NOWHERE,
                  "dlpack: no dtype with code %d, %d bits, %d lanes", type.code,
                  type.bits, type.lanes);
}

// A tensor on foreign memory without an owner yet.
static th_status dlpack_import(th_context *ctx, const DLTensor *from,
                               th_tensor **out_tensor) {
  th_dtype dtype = TH_DTYPE_COUNT;
  TH_TRY(dlpack_dtype(ctx, from->dtype, &dtype));
  // Pinned memory can be read and written like any other.
  bool on_host = from->device.device_type == kDLCPU ||
                 from->device.device_type == kDLCUDAHost ||
                 from->device.device_type == kDLROCMHost;
  if (!on_host) {
    return th_error(ctx, TH_UNSUPPORTED, TH_NOWHERE,
                    "dlpack: device type %d is not the cpu",
                    (int)from->device.device_type);
  }
  char *data = from->data ? (char *)from->data + from->byte_offset : NULL;
  int64_t none[1] = {0};
  return th_tensor_from_data(
      ctx, data, dtype, from->ndim, from->shape ? from->shape : none,
      from->ndim > 0 ? from->strides : NULL, NULL, NULL, out_tensor);
}

static void dlpack_release_versioned(void *user) {
  DLManagedTensorVersioned *managed = user;
  managed->deleter(managed);
}

static void dlpack_release_legacy(void *user) {
  DLManagedTensor *managed = user;
  managed->deleter(managed);
}

th_status th_tensor_from_dlpack(th_context *ctx,
                                DLManagedTensorVersioned *managed,
                                th_tensor **out_tensor) {
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    return th_error(ctx, TH_UNSUPPORTED, TH_NOWHERE,
                    "dlpack: version %u.%u, only %d.x is read",
                    managed->version.major, managed->version.minor,
                    DLPACK_MAJOR_VERSION);
  }
  TH_TRY(dlpack_import(ctx, &managed->dl_tensor, out_tensor));
  th_storage *storage = (*out_tensor)->storage;
  storage->is_read_only = managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  storage->deleter = managed->deleter ? dlpack_release_versioned : NULL;
  storage->user = managed;
  return TH_OK;
}

th_status th_tensor_from_dlpack_legacy(th_context *ctx,
                                       DLManagedTensor *managed,
                                       th_tensor **out_tensor) {
  TH_TRY(dlpack_import(ctx, &managed->dl_tensor, out_tensor));
  th_storage *storage = (*out_tensor)->storage;
  storage->deleter = managed->deleter ? dlpack_release_legacy : NULL;
  storage->user = managed;
  return TH_OK;
}

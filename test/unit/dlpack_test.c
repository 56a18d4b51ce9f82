// DLPack: both forms out and in, and what is refused.
#include "thunder/dlpack.h"

#include "tensor/tensor.h"
#include "torture.h"

#include <string.h>

static th_context *context;

static void dlpack_setup(void) {
  th_guard_pages_set(false);
  context = th_context_new();
}

static void dlpack_teardown(void) { th_context_free(context); }

TestSuite(dlpack, .init = dlpack_setup, .fini = dlpack_teardown);

#define DIMS(...) ((int64_t[]){__VA_ARGS__})

Test(dlpack, every_dtype_comes_back_without_a_copy) {
  for (int dtype = 0; dtype < TH_DTYPE_COUNT; dtype++) {
    th_tensor *tensor;
    th_tensor *turned;
    th_tensor *back;
    DLManagedTensorVersioned *managed;
    cr_assert_eq(
        th_tensor_new(context, (th_dtype)dtype, 2, DIMS(3, 4), &tensor), TH_OK);
    th_tensor_view(context, tensor, 2, DIMS(4, 2), DIMS(1, 4), 4, &turned);
    cr_assert_eq(th_tensor_to_dlpack(context, turned, &managed), TH_OK);
    th_tensor_release(turned);
    cr_assert_eq(th_tensor_from_dlpack(context, managed, &back), TH_OK);
    cr_assert_eq(th_tensor_dtype(back), (th_dtype)dtype);
    cr_assert_eq(th_tensor_rank(back), 2);
    cr_assert_arr_eq(th_tensor_dims(back), DIMS(4, 2), 16);
    cr_assert_arr_eq(th_tensor_strides(back), DIMS(1, 4), 16);
    cr_assert_eq((char *)th_tensor_data(back) - (char *)th_tensor_data(tensor),
                 (ptrdiff_t)(4 * th_dtype_size((th_dtype)dtype)));
    th_tensor_release(tensor);
    memset(th_tensor_data(back), 1, 1); // the memory is still there
    th_tensor_release(back);
  }
}

Test(dlpack, the_form_without_a_version_works_too) {
  th_tensor *tensor;
  th_tensor *back;
  DLManagedTensor *managed;
  th_tensor_new(context, TH_I64, 0, NULL, &tensor);
  th_tensor_set_int(tensor, 0, 7);
  cr_assert_eq(th_tensor_to_dlpack_legacy(context, tensor, &managed), TH_OK);
  cr_assert_eq(managed->dl_tensor.ndim, 0);
  th_tensor_release(tensor);
  cr_assert_eq(th_tensor_from_dlpack_legacy(context, managed, &back), TH_OK);
  cr_assert_eq(th_tensor_get_int(back, 0), 7);
  th_tensor_release(back);
}

static int dlpack_deleted;

static void dlpack_count(DLManagedTensorVersioned *self) {
  (void)self;
  dlpack_deleted++;
}

// A structure of another library's.
static DLManagedTensorVersioned dlpack_foreign(float *data, int64_t *shape) {
  return (DLManagedTensorVersioned){.version = {1, 0},
                                    .deleter = dlpack_count,
                                    .dl_tensor = {.data = data,
                                                  .device = {kDLCPU, 0},
                                                  .ndim = 2,
                                                  .dtype = {kDLFloat, 32, 1},
                                                  .shape = shape,
                                                  .byte_offset = 4}};
}

Test(dlpack, foreign_memory_is_owned_and_given_back) {
  float data[7] = {0, 1, 2, 3, 4, 5, 6};
  int64_t shape[] = {2, 3};
  DLManagedTensorVersioned managed = dlpack_foreign(data, shape);
  managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  th_tensor *tensor;
  cr_assert_eq(th_tensor_from_dlpack(context, &managed, &tensor), TH_OK);
  cr_assert_arr_eq(th_tensor_strides(tensor), DIMS(3, 1), 16);
  cr_assert_eq(th_tensor_get(tensor, 5), 6);
  cr_assert(th_tensor_is_read_only(tensor));
  cr_assert_eq(th_tensor_fill(context, tensor, 0), TH_INVALID);
  DLManagedTensor *legacy;
  cr_assert_eq(th_tensor_to_dlpack_legacy(context, tensor, &legacy),
               TH_INVALID);
  DLManagedTensorVersioned *again;
  cr_assert_eq(th_tensor_to_dlpack(context, tensor, &again), TH_OK);
  cr_assert(again->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
  th_tensor_release(tensor);
  cr_assert_eq(dlpack_deleted, 0);
  again->deleter(again);
  cr_assert_eq(dlpack_deleted, 1);
}

Test(dlpack, what_is_not_understood_is_refused_and_left_alone) {
  float data[7] = {0};
  int64_t shape[] = {2, 3};
  int64_t strides[] = {-3, 1};
  th_tensor *tensor;
  DLManagedTensorVersioned managed = dlpack_foreign(data, shape);
  managed.version.major = 2;
  cr_assert_eq(th_tensor_from_dlpack(context, &managed, &tensor),
               TH_UNSUPPORTED);
  managed = dlpack_foreign(data, shape);
  managed.dl_tensor.device.device_type = kDLCUDA;
  cr_assert_eq(th_tensor_from_dlpack(context, &managed, &tensor),
               TH_UNSUPPORTED);
  managed = dlpack_foreign(data, shape);
  managed.dl_tensor.dtype.lanes = 4;
  cr_assert_eq(th_tensor_from_dlpack(context, &managed, &tensor),
               TH_UNSUPPORTED);
  managed = dlpack_foreign(data, shape);
  managed.dl_tensor.dtype.code = kDLComplex;
  cr_assert_eq(th_tensor_from_dlpack(context, &managed, &tensor),
               TH_UNSUPPORTED);
  managed = dlpack_foreign(data, shape);
  managed.dl_tensor.strides = strides;
  cr_assert_eq(th_tensor_from_dlpack(context, &managed, &tensor), TH_INVALID);
  managed = dlpack_foreign(data, shape);
  managed.dl_tensor.byte_offset = 2;
  cr_assert_eq(th_tensor_from_dlpack(context, &managed, &tensor), TH_INVALID);
  managed = dlpack_foreign(data, shape);
  managed.dl_tensor.ndim = TH_MAX_RANK + 1;
  cr_assert_eq(th_tensor_from_dlpack(context, &managed, &tensor), TH_INVALID);
  cr_assert_eq(dlpack_deleted, 0);
  cr_assert_eq(th_diagnostic_count(context), 7);
}

static th_status dlpack_work(void *user) {
  (void)user;
  th_tensor *tensor = NULL;
  th_tensor *back = NULL;
  DLManagedTensorVersioned *managed = NULL;
  th_status status = th_tensor_new(NULL, TH_F32, 1, DIMS(4), &tensor);
  if (status == TH_OK) {
    status = th_tensor_to_dlpack(NULL, tensor, &managed);
  }
  if (status == TH_OK) {
    status = th_tensor_from_dlpack(NULL, managed, &back);
    if (status != TH_OK) {
      managed->deleter(managed);
    }
  }
  th_tensor_release(back);
  th_tensor_release(tensor);
  return status;
}

Test(dlpack, every_allocation_may_fail) { torture(dlpack_work, NULL); }

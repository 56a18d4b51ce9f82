// Tensors: shapes, views, ownership, copies, conversions, comparing.
#include "tensor/tensor.h"

#include "tensor/element.h"
#include "torture.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static th_context *context;

static void tensor_setup(void) {
  th_guard_pages_set(false);
  context = th_context_new();
}

static void tensor_teardown(void) { th_context_free(context); }

TestSuite(tensor, .init = tensor_setup, .fini = tensor_teardown);

#define DIMS(...) ((int64_t[]){__VA_ARGS__})

// f32 of a shape, counting up from 0.
static th_tensor *tensor_counting(th_dtype dtype, int rank,
                                  const int64_t *dims) {
  th_tensor *tensor = NULL;
  cr_assert_eq(th_tensor_new(context, dtype, rank, dims, &tensor), TH_OK);
  for (int64_t i = 0; i < th_tensor_numel(tensor); i++) {
    th_tensor_set_int(tensor, i, i);
  }
  return tensor;
}

Test(tensor, new_ones_are_zeroed_row_major_and_aligned) {
  for (int dtype = 0; dtype < TH_DTYPE_COUNT; dtype++) {
    th_tensor *tensor;
    cr_assert_eq(
        th_tensor_new(context, (th_dtype)dtype, 3, DIMS(2, 3, 5), &tensor),
        TH_OK);
    cr_assert_eq((uintptr_t)th_tensor_data(tensor) % 64, 0);
    cr_assert_arr_eq(th_tensor_strides(tensor), DIMS(15, 5, 1),
                     3 * sizeof(int64_t));
    cr_assert_eq(th_tensor_numel(tensor), 30);
    cr_assert_eq(th_tensor_nbytes(tensor), 30 * th_dtype_size((th_dtype)dtype));
    const char *bytes = th_tensor_data(tensor);
    for (size_t i = 0; i < th_tensor_nbytes(tensor); i++) {
      cr_assert_eq(bytes[i], 0);
    }
    cr_assert(th_tensor_is_contiguous(tensor));
    th_tensor_release(tensor);
  }
}

Test(tensor, scalars_and_empty_shapes_are_legal) {
  th_tensor *scalar = tensor_counting(TH_I64, 0, NULL);
  cr_assert_eq(th_tensor_numel(scalar), 1);
  th_tensor *empty = tensor_counting(TH_F32, 3, DIMS(4, 0, 2));
  cr_assert_eq(th_tensor_numel(empty), 0);
  cr_assert_arr_eq(th_tensor_strides(empty), DIMS(2, 2, 1), 24);
  th_tensor *copy;
  cr_assert_eq(th_tensor_clone(context, empty, &copy), TH_OK);
  cr_assert(th_tensor_equal(empty, copy));
  cr_assert_not(th_tensor_overlaps(empty, empty));
  th_tensor_release(copy);
  th_tensor_release(empty);
  th_tensor_release(scalar);
}

Test(tensor, absurd_shapes_are_refused) {
  th_tensor *tensor;
  int64_t big = INT64_C(1) << 40;
  cr_assert_eq(th_tensor_new(context, TH_F32, 2, DIMS(big, big), &tensor),
               TH_INVALID);
  cr_assert_eq(th_tensor_new(context, TH_F32, 3, DIMS(big, big, 0), &tensor),
               TH_INVALID);
  cr_assert_eq(
      th_tensor_new(context, TH_F64, 1, DIMS(INT64_MAX / 8 + 1), &tensor),
      TH_INVALID);
  cr_assert_eq(th_tensor_new(context, TH_F32, 1, DIMS(-1), &tensor),
               TH_INVALID);
  cr_assert_eq(th_tensor_new(context, TH_F32, TH_MAX_RANK + 1, NULL, &tensor),
               TH_INVALID);
  cr_assert_eq(th_tensor_new(context, TH_DTYPE_COUNT, 0, NULL, &tensor),
               TH_INVALID);
  cr_assert_eq(th_tensor_new(context, TH_F32, 2, NULL, &tensor), TH_INVALID);
  cr_assert_str_eq(th_diagnostic_text(context, 0),
                   "error: tensor: f32[1099511627776, 1099511627776] has more "
                   "bytes than can be addressed");
}

Test(tensor, views_share_and_stay_inside) {
  th_tensor *base = tensor_counting(TH_F32, 2, DIMS(4, 6));
  th_tensor *turned;
  cr_assert_eq(
      th_tensor_view(context, base, 2, DIMS(6, 4), DIMS(1, 6), 0, &turned),
      TH_OK);
  cr_assert(th_tensor_shares_storage(base, turned));
  cr_assert(th_tensor_overlaps(base, turned));
  cr_assert_not(th_tensor_is_contiguous(turned));
  cr_assert_eq(th_tensor_get(turned, 1), 6);
  th_tensor *row;
  cr_assert_eq(th_tensor_view(context, base, 1, DIMS(6), NULL, 18, &row),
               TH_OK);
  cr_assert_eq(th_tensor_get(row, 5), 23);
  // Relative to the view, backwards too.
  th_tensor *first;
  cr_assert_eq(th_tensor_view(context, row, 1, DIMS(6), NULL, -18, &first),
               TH_OK);
  cr_assert_eq(th_tensor_get(first, 0), 0);
  cr_assert_not(th_tensor_overlaps(first, row));
  th_tensor *bad;
  cr_assert_eq(th_tensor_view(context, base, 1, DIMS(6), NULL, 19, &bad),
               TH_INVALID);
  cr_assert_eq(th_tensor_view(context, base, 1, DIMS(1), NULL, -1, &bad),
               TH_INVALID);
  cr_assert_eq(th_tensor_view(context, base, 1, DIMS(2), DIMS(24), 0, &bad),
               TH_INVALID);
  cr_assert_eq(th_tensor_view(context, base, 1, DIMS(2), DIMS(-1), 1, &bad),
               TH_INVALID);
  cr_assert_eq(
      th_tensor_view(context, base, 1, DIMS(3), DIMS(INT64_MAX), 0, &bad),
      TH_INVALID);
  cr_assert_eq(th_tensor_view(context, base, 1, DIMS(1), NULL, INT64_MAX, &bad),
               TH_INVALID);
  th_tensor_release(base);
  cr_assert_eq(th_tensor_get(first, 3), 3); // the view keeps the storage
  th_tensor_release(first);
  th_tensor_release(row);
  th_tensor_release(turned);
}

Test(tensor, descriptions_show_strides_that_are_not_row_major) {
  th_tensor *base = tensor_counting(TH_BF16, 2, DIMS(2, 3));
  th_tensor *turned;
  th_tensor_view(context, base, 2, DIMS(3, 2), DIMS(1, 3), 0, &turned);
  char text[64];
  cr_assert_str_eq(th_tensor_describe(base, text, sizeof text), "bf16[2, 3]");
  cr_assert_str_eq(th_tensor_describe(turned, text, sizeof text),
                   "bf16[3, 2]{1, 3}");
  cr_assert_str_eq(th_tensor_describe(turned, text, 8), "bf16[3,");
  th_tensor_release(turned);
  th_tensor_release(base);
}

Test(tensor, dimensions_of_size_one_do_not_count_for_contiguity) {
  th_tensor *base = tensor_counting(TH_F32, 1, DIMS(6));
  th_tensor *view;
  th_tensor_view(context, base, 3, DIMS(1, 3, 1), DIMS(100, 1, 7), 0, &view);
  cr_assert(th_tensor_is_contiguous(view));
  th_tensor_release(view);
  th_tensor_release(base);
}

static void tensor_count(void *user) { ++*(int *)user; }

Test(tensor, foreign_memory_is_given_back_once) {
  float numbers[12] = {0};
  int given_back = 0;
  th_tensor *tensor;
  cr_assert_eq(th_tensor_from_data(context, numbers, TH_F32, 2, DIMS(3, 2),
                                   DIMS(4, 1), tensor_count, &given_back,
                                   &tensor),
               TH_OK);
  th_tensor *view;
  th_tensor_view(context, tensor, 1, DIMS(2), NULL, 8, &view);
  th_tensor *bad;
  // Storage is what the strides span: 10 elements.
  cr_assert_eq(th_tensor_view(context, tensor, 1, DIMS(3), NULL, 8, &bad),
               TH_INVALID);
  th_tensor_set(view, 1, 5);
  cr_assert_eq(numbers[9], 5);
  th_tensor_retain(view);
  th_tensor_release(tensor);
  th_tensor_release(view);
  cr_assert_eq(given_back, 0);
  th_tensor_release(view);
  cr_assert_eq(given_back, 1);
  cr_assert_eq(th_tensor_from_data(context, (char *)numbers + 1, TH_F32, 0,
                                   NULL, NULL, tensor_count, &given_back, &bad),
               TH_INVALID);
  cr_assert_eq(given_back, 1);
}

Test(tensor, copies_follow_strides) {
  th_tensor *base = tensor_counting(TH_I32, 3, DIMS(3, 4, 5));
  th_tensor *turned;
  th_tensor_view(context, base, 3, DIMS(5, 3, 4), DIMS(1, 20, 5), 0, &turned);
  th_tensor *plain;
  cr_assert_eq(th_tensor_contiguous(context, turned, &plain), TH_OK);
  cr_assert(th_tensor_is_contiguous(plain));
  cr_assert(th_tensor_equal(plain, turned));
  for (int64_t i = 0; i < 60; i++) {
    int64_t want = i / 12 + i / 4 % 3 * 20 + i % 4 * 5;
    cr_assert_eq(th_tensor_get_int(plain, i), want);
    cr_assert_eq(((const int32_t *)th_tensor_data(plain))[i], want);
  }
  th_tensor *same;
  th_tensor_contiguous(context, plain, &same);
  cr_assert_eq(same, plain);
  // Back through the strides of the target.
  th_tensor_fill_int(context, base, -1);
  cr_assert_eq(th_tensor_copy(context, turned, plain), TH_OK);
  for (int64_t i = 0; i < 60; i++) {
    cr_assert_eq(th_tensor_get_int(base, i), i);
  }
  th_tensor_release(same);
  th_tensor_release(plain);
  th_tensor_release(turned);
  th_tensor_release(base);
}

// Shapes that are not whole tiles, each order of dimensions, each size.
Test(tensor, turned_tensors_are_copied_in_tiles) {
  static const th_dtype dtypes[] = {TH_U8, TH_I16, TH_F32, TH_I64};
  static const int orders[][3] = {{0, 2, 1}, {1, 0, 2}, {1, 2, 0},
                                  {2, 0, 1}, {2, 1, 0}, {0, 1, 2}};
  int64_t dims[] = {70, 3, 67};
  int64_t strides[] = {201, 67, 1};
  for (size_t d = 0; d < TH_COUNT(dtypes); d++) {
    th_tensor *base = tensor_counting(dtypes[d], 3, dims);
    for (size_t o = 0; o < TH_COUNT(orders); o++) {
      const int *order = orders[o];
      th_tensor *turned;
      th_tensor *copy;
      th_tensor_view(
          context, base, 3,
          DIMS(dims[order[0]], dims[order[1]], dims[order[2]]),
          DIMS(strides[order[0]], strides[order[1]], strides[order[2]]), 0,
          &turned);
      cr_assert_eq(th_tensor_clone(context, turned, &copy), TH_OK);
      for (int64_t i = 0; i < th_tensor_numel(copy); i++) {
        cr_assert_eq(th_tensor_get_int(copy, i), th_tensor_get_int(turned, i));
      }
      th_tensor_release(copy);
      th_tensor_release(turned);
    }
    th_tensor_release(base);
  }
}

Test(tensor, overlapping_copies_read_before_they_write) {
  th_tensor *base = tensor_counting(TH_F32, 1, DIMS(10));
  th_tensor *low;
  th_tensor *high;
  th_tensor_view(context, base, 1, DIMS(8), NULL, 0, &low);
  th_tensor_view(context, base, 1, DIMS(8), NULL, 2, &high);
  cr_assert_eq(th_tensor_copy(context, high, low), TH_OK);
  for (int64_t i = 0; i < 8; i++) {
    cr_assert_eq(th_tensor_get(high, i), i);
  }
  th_tensor_release(high);
  th_tensor_release(low);
  th_tensor_release(base);
}

Test(tensor, bad_copies_are_refused) {
  th_tensor *a = tensor_counting(TH_F32, 2, DIMS(2, 3));
  th_tensor *b = tensor_counting(TH_F32, 2, DIMS(3, 2));
  th_tensor *repeated;
  th_tensor_view(context, a, 2, DIMS(3, 2), DIMS(0, 1), 0, &repeated);
  cr_assert_eq(th_tensor_copy(context, a, b), TH_SHAPE);
  cr_assert_str_eq(th_diagnostic_text(context, 0),
                   "error: copy: shapes differ: f32[2, 3] and f32[3, 2]");
  cr_assert_eq(th_tensor_copy(context, repeated, b), TH_INVALID);
  cr_assert_eq(th_tensor_fill(context, repeated, 1), TH_INVALID);
  // Reading repeated elements is fine.
  cr_assert_eq(th_tensor_copy(context, b, repeated), TH_OK);
  cr_assert_eq(th_tensor_get(b, 5), 1);
  a->storage->is_read_only = true;
  cr_assert_eq(th_tensor_fill(context, a, 1), TH_INVALID);
  th_tensor_release(repeated);
  th_tensor_release(b);
  th_tensor_release(a);
}

// Every pair of dtypes, a row long enough for several blocks, both ways.
Test(tensor, small_integers_survive_every_conversion) {
  for (int from = 0; from < TH_DTYPE_COUNT; from++) {
    for (int to = 0; to < TH_DTYPE_COUNT; to++) {
      th_tensor *source;
      th_tensor_empty(context, (th_dtype)from, 1, DIMS(700), &source);
      for (int64_t i = 0; i < 700; i++) {
        th_tensor_set_int(source, i, i % 2 + 1);
      }
      th_tensor *result;
      cr_assert_eq(th_tensor_to_dtype(context, source, (th_dtype)to, &result),
                   TH_OK);
      bool is_bool = from == TH_BOOL || to == TH_BOOL;
      for (int64_t i = 0; i < 700; i++) {
        int64_t want = is_bool ? 1 : i % 2 + 1;
        cr_assert_eq(th_tensor_get_int(result, i), want, "%s to %s",
                     th_dtype_name((th_dtype)from),
                     th_dtype_name((th_dtype)to));
        cr_assert_eq(th_tensor_get(result, i), (double)want);
      }
      th_tensor_release(result);
      th_tensor_release(source);
    }
  }
}

static double tensor_convert(th_dtype from, double value, th_dtype to) {
  char source[8];
  char target[8];
  th_element_set(from, source, value);
  th_convert_row(to, target, 0, from, source, 0, 1);
  return th_element_get(to, target);
}

Test(tensor, conversions_round_and_wrap_as_written) {
  cr_assert_eq(tensor_convert(TH_F32, -1.9, TH_I32), -1);
  cr_assert_eq(tensor_convert(TH_F32, 3e9, TH_I32), INT32_MIN);
  cr_assert_eq(tensor_convert(TH_F32, NAN, TH_I64), (double)INT64_MIN);
  cr_assert_eq(tensor_convert(TH_F64, 1e30, TH_I64), (double)INT64_MIN);
  cr_assert_eq(tensor_convert(TH_F32, 300, TH_U8), 44);
  cr_assert_eq(tensor_convert(TH_F32, -1, TH_U8), 255);
  cr_assert_eq(tensor_convert(TH_F32, 200, TH_I8), -56);
  cr_assert_eq(tensor_convert(TH_F32, NAN, TH_BOOL), 1);
  cr_assert_eq(tensor_convert(TH_F32, -0.0, TH_BOOL), 0);
  cr_assert_eq(tensor_convert(TH_F64, 0.1, TH_F32), (double)0.1f);
  cr_assert_eq(tensor_convert(TH_F32, 1e9, TH_F8_E4M3FN), 448);
  cr_assert(isinf(tensor_convert(TH_F32, 1e9, TH_F8_E5M2)));
  cr_assert(isinf(tensor_convert(TH_F32, 1e6, TH_F16)));
  // 2^53 + 1 is no double; one rounding leads to the float above 2^24 + 1.
  int64_t odd = (INT64_C(1) << 53) + 1;
  int64_t back;
  th_convert_row(TH_I64, &back, 0, TH_I64, &odd, 0, 1);
  cr_assert_eq(back, odd);
  int64_t large = (INT64_C(1) << 54) + (INT64_C(1) << 30) + 1;
  float single;
  th_convert_row(TH_F32, &single, 0, TH_I64, &large, 0, 1);
  cr_assert_eq(single, (float)large);
  cr_assert_eq(th_double_to_i64(-9223372036854775808.0), INT64_MIN);
  cr_assert_eq(th_double_to_i32(-2147483648.9), INT32_MIN);
  cr_assert_eq(th_double_to_i32(2147483647.9), INT32_MAX);
}

Test(tensor, fill_reaches_every_element) {
  th_tensor *base = tensor_counting(TH_F16, 2, DIMS(5, 7));
  th_tensor *view;
  th_tensor_view(context, base, 2, DIMS(5, 3), DIMS(7, 2), 1, &view);
  cr_assert_eq(th_tensor_fill(context, view, 0.5), TH_OK);
  for (int64_t i = 0; i < 35; i++) {
    bool inside = i % 7 % 2 == 1 && i % 7 < 6;
    cr_assert_eq(th_tensor_get(base, i), inside ? 0.5 : (double)i);
  }
  th_tensor *wide = tensor_counting(TH_I64, 1, DIMS(3));
  th_tensor_fill_int(context, wide, INT64_MAX);
  cr_assert_eq(th_tensor_get_int(wide, 2), INT64_MAX);
  th_tensor_release(wide);
  th_tensor_release(view);
  th_tensor_release(base);
}

Test(tensor, equal_compares_bits) {
  th_tensor *a = tensor_counting(TH_F32, 1, DIMS(3));
  th_tensor *b = tensor_counting(TH_F32, 1, DIMS(3));
  th_tensor *c = tensor_counting(TH_I32, 1, DIMS(3));
  cr_assert(th_tensor_equal(a, b));
  cr_assert_not(th_tensor_equal(a, c));
  th_tensor_set(b, 0, -0.0);
  cr_assert_not(th_tensor_equal(a, b));
  th_tensor_set(a, 0, NAN);
  th_tensor_set(b, 0, NAN);
  cr_assert(th_tensor_equal(a, b));
  th_tensor_release(c);
  th_tensor_release(b);
  th_tensor_release(a);
}

Test(tensor, compare_reports_the_largest_error) {
  th_tensor *got = tensor_counting(TH_F32, 2, DIMS(2, 3));
  th_tensor *want = tensor_counting(TH_F32, 2, DIMS(2, 3));
  th_difference difference;
  cr_assert_eq(th_tensor_compare(context, got, want, 0, 0, &difference), TH_OK);
  cr_assert_eq(difference.count, 0);
  th_tensor_set(got, 2, 2.5);
  th_tensor_set(got, 4, 6);
  th_tensor_compare(context, got, want, 0.1, 0.1, &difference);
  cr_assert_eq(difference.count, 2);
  cr_assert_eq(difference.index, 4);
  cr_assert_eq(difference.error, 2);
  cr_assert(difference.got == 6 && difference.want == 4);
  th_tensor_compare(context, got, want, 0.25, 0, &difference);
  cr_assert_eq(difference.count, 1);
  th_tensor_set(got, 4, INFINITY);
  th_tensor_compare(context, got, want, 1e30, 1e30, &difference);
  cr_assert_eq(difference.count, 1);
  th_tensor_set(want, 4, INFINITY);
  th_tensor_set(got, 1, NAN);
  th_tensor_set(got, 3, NAN);
  th_tensor_set(want, 3, NAN);
  th_tensor_compare(context, got, want, 1, 1, &difference);
  cr_assert(difference.count == 1 && difference.index == 1);
  cr_assert(isinf(difference.error));
  th_tensor_release(want);
  th_tensor_release(got);
}

Test(tensor, compare_wants_integers_equal) {
  th_tensor *got = tensor_counting(TH_I64, 1, DIMS(2));
  th_tensor *want = tensor_counting(TH_I64, 1, DIMS(2));
  th_tensor_set_int(got, 1, INT64_MAX);
  th_tensor_set_int(want, 1, INT64_MAX - 1);
  th_difference difference;
  th_tensor_compare(context, got, want, 1, 1, &difference);
  cr_assert(difference.count == 1 && difference.index == 1);
  th_tensor *other = tensor_counting(TH_F32, 1, DIMS(2));
  cr_assert_eq(th_tensor_compare(context, got, other, 1, 1, &difference),
               TH_DTYPE);
  th_tensor_release(other);
  th_tensor_release(want);
  th_tensor_release(got);
}

Test(tensor, guarded_storage_ends_at_a_page) {
  th_guard_pages_set(true);
  for (int64_t count = 0; count < 5000; count += 813) {
    th_tensor *tensor;
    cr_assert_eq(th_tensor_new(context, TH_F32, 1, DIMS(count), &tensor),
                 TH_OK);
    uintptr_t end = (uintptr_t)th_tensor_data(tensor) + (uintptr_t)count * 4;
    cr_assert_eq(end % 4096, 0);
    cr_assert_eq(th_tensor_fill(context, tensor, 1), TH_OK);
    th_tensor_release(tensor);
  }
}

Test(tensor, guarded_storage_faults_behind_its_end, .signal = SIGSEGV) {
  th_guard_pages_set(true);
  th_tensor *tensor;
  cr_assert_eq(th_tensor_new(context, TH_U8, 1, DIMS(100), &tensor), TH_OK);
  signal(SIGSEGV, SIG_DFL); // not the sanitizer's
  ((volatile char *)th_tensor_data(tensor))[100] = 1;
}

Test(tensor, guarded_storage_notices_a_write_before_its_start,
     .signal = SIGABRT) {
  th_guard_pages_set(true);
  th_tensor *tensor;
  cr_assert_eq(th_tensor_new(context, TH_U8, 1, DIMS(100), &tensor), TH_OK);
  signal(SIGABRT, SIG_DFL);
  ((volatile char *)th_tensor_data(tensor))[-1] = 1;
  th_tensor_release(tensor);
}

static th_status tensor_work(void *user) {
  (void)user;
  th_tensor *a = NULL;
  th_tensor *b = NULL;
  th_tensor *c = NULL;
  th_tensor *d = NULL;
  th_status status = th_tensor_new(NULL, TH_F32, 2, DIMS(4, 4), &a);
  if (status == TH_OK) {
    status = th_tensor_view(NULL, a, 2, DIMS(4, 4), DIMS(1, 4), 0, &b);
  }
  if (status == TH_OK) {
    status = th_tensor_contiguous(NULL, b, &c);
  }
  if (status == TH_OK) {
    status = th_tensor_to_dtype(NULL, c, TH_I8, &d);
  }
  if (status == TH_OK) {
    status = th_tensor_copy(NULL, a, b);
  }
  th_tensor_release(d);
  th_tensor_release(c);
  th_tensor_release(b);
  th_tensor_release(a);
  return status;
}

Test(tensor, every_allocation_may_fail) {
  torture(tensor_work, NULL);
  th_guard_pages_set(true);
  torture(tensor_work, NULL);
}

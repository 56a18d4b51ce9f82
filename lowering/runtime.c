// Sorting for kernels: keys become 64-bit integers of the same order, which a
// bottom-up merge sort carries along with their places.
#include "lowering/runtime.h"

#include "base/alloc.h"
#include "base/half.h"
#include "lowering/orc.h"

#include <string.h>

typedef struct sort_item {
  uint64_t key;
  int64_t place;
} sort_item;

// A double so that unsigned order is the order of numbers, NaN above all; zeros
// of both signs are equal.
static uint64_t sort_float_key(double x) {
  uint64_t bits = 0;
  if (x != x) {
    return UINT64_MAX;
  }
  x = x == 0 ? 0 : x;
  memcpy(&bits, &x, sizeof bits);
  return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static uint64_t sort_int_key(int64_t x) {
  return (uint64_t)x ^ (uint64_t)1 << 63;
}

static uint64_t sort_key(const char *at, th_dtype dtype) {
  int8_t i8;
  int16_t i16;
  int32_t i32;
  int64_t i64;
  uint16_t half;
  float f32;
  double f64;
  switch (dtype) {
  case TH_I8:
    memcpy(&i8, at, 1);
    return sort_int_key(i8);
  case TH_I16:
    memcpy(&i16, at, 2);
    return sort_int_key(i16);
  case TH_I32:
    memcpy(&i32, at, 4);
    return sort_int_key(i32);
  case TH_I64:
    memcpy(&i64, at, 8);
    return sort_int_key(i64);
  case TH_F16:
    memcpy(&half, at, 2);
    return sort_float_key((double)th_f16_to_f32(half));
  case TH_BF16:
    memcpy(&half, at, 2);
    return sort_float_key((double)th_bf16_to_f32(half));
  case TH_F32:
    memcpy(&f32, at, 4);
    return sort_float_key((double)f32);
  case TH_F64:
    memcpy(&f64, at, 8);
    return sort_float_key(f64);
  default:
    return (uint8_t)*at;
  }
}

// Short runs; also all of it where there is no memory for merging.
static void sort_insert(sort_item *items, int64_t count) {
  for (int64_t i = 1; i < count; i++) {
    sort_item item = items[i];
    int64_t k = i;
    for (; k > 0 && items[k - 1].key > item.key; k--) {
      items[k] = items[k - 1];
    }
    items[k] = item;
  }
}

static void sort_merge(const sort_item *from, sort_item *to, int64_t left,
                       int64_t middle, int64_t right) {
  int64_t i = left, k = middle;
  for (int64_t at = left; at < right; at++) {
    bool first = i < middle && (k >= right || from[i].key <= from[k].key);
    to[at] = first ? from[i++] : from[k++];
  }
}

// Returns which of the two holds the result.
static sort_item *sort_items(sort_item *items, sort_item *spare, int64_t n) {
  enum { RUN = 16 };
  for (int64_t i = 0; i < n; i += RUN) {
    sort_insert(items + i, n - i < RUN ? n - i : RUN);
  }
  for (int64_t width = RUN; width < n; width *= 2) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      int64_t middle = i + width < n ? i + width : n;
      int64_t right = i + 2 * width < n ? i + 2 * width : n;
      sort_merge(items, spare, i, middle, right);
    }
    sort_item *swap = items;
    items = spare;
    spare = swap;
  }
  return items;
}

// Without memory: for each place of the result the next key in order, found by
// looking at all.
static void sort_slowly(const char *keys, int64_t step, int64_t n,
                        uint64_t flip, th_dtype dtype,
                        void (*put)(void *user, int64_t at, int64_t place),
                        void *user) {
  uint64_t last = 0;
  int64_t last_place = -1;
  for (int64_t at = 0; at < n; at++) {
    uint64_t best = 0;
    int64_t best_place = -1;
    for (int64_t i = 0; i < n; i++) {
      uint64_t key = sort_key(keys + i * step, dtype) ^ flip;
      bool after =
          last_place < 0 || key > last || (key == last && i > last_place);
      if (after && (best_place < 0 || key < best)) {
        best = key;
        best_place = i;
      }
    }
    last = best;
    last_place = best_place;
    put(user, at, best_place);
  }
}

typedef struct sort_output {
  const char *keys;
  int64_t key_step, value_step, place_stride;
  size_t size;
  char *values;
  int64_t *places;
} sort_output;

static void sort_put(void *user, int64_t at, int64_t place) {
  sort_output *o = user;
  if (o->values) {
    memcpy(o->values + at * o->value_step, o->keys + place * o->key_step,
           o->size);
  }
  if (o->places) {
    o->places[at * o->place_stride] = place;
  }
}

void th_rt_sort(const void *keys, int64_t key_stride, int64_t n, void *values,
                int64_t value_stride, int64_t *places, int64_t place_stride,
                int64_t order) {
  th_dtype dtype = (th_dtype)(order & 255);
  uint64_t flip = order & 256 ? UINT64_MAX : 0;
  size_t size = th_dtype_size(dtype);
  sort_output out = {keys,
                     key_stride * (int64_t)size,
                     value_stride * (int64_t)size,
                     place_stride,
                     size,
                     values,
                     places};
  sort_item *items = n > 0 ? th_malloc(2 * (size_t)n * sizeof *items) : NULL;
  if (!items) {
    sort_slowly(keys, out.key_step, n, flip, dtype, sort_put, &out);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = sort_key(out.keys + i * out.key_step, dtype);
    items[i] = (sort_item){key ^ flip, i};
  }
  const sort_item *sorted = sort_items(items, items + n, n);
  for (int64_t i = 0; i < n; i++) {
    sort_put(&out, i, sorted[i].place);
  }
  th_free(items);
}

th_status th_lower_runtime(th_context *ctx) {
  void *sort = NULL;
  void (*function)(const void *, int64_t, int64_t, void *, int64_t, int64_t *,
                   int64_t, int64_t) = th_rt_sort;
  memcpy(&sort, &function, sizeof sort);
  return th_runtime_register(ctx, "th_rt_sort", sort);
}

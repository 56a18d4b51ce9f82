// Elements as C numbers.  A row is converted in blocks through an array of
// double (from floats) or int64_t (from integers and b8); the loops over a
// block are plain, so the compiler vectorises those that can be.
#include "tensor/element.h"

#include "base/context.h"
#include "base/half.h"

#include <math.h>
#include <string.h>

enum { ELEMENT_BLOCK = 256 };

int32_t th_double_to_i32(double value) {
  return value > -2147483649.0 && value < 2147483648.0 ? (int32_t)value
                                                       : INT32_MIN;
}

int64_t th_double_to_i64(double value) {
  // The first double below -2^63 is far below it.
  return value >= -9223372036854775808.0 && value < 9223372036854775808.0
             ? (int64_t)value
             : INT64_MIN;
}

// READ(dtype, C type in memory, expression of the element x): through double
// for floats, through int64_t for the rest.  WRITE_DOUBLE and WRITE_INT give
// the element for a number v.
#define ELEMENT_FLOATS(X)                                                      \
  X(F16, uint16_t, th_f16_to_f32(x), th_f16_from_f32((float)v))                \
  X(BF16, uint16_t, th_bf16_to_f32(x), th_bf16_from_f32((float)v))             \
  X(F32, float, x, (float)v)                                                   \
  X(F64, double, x, (double)v)                                                 \
  X(F8_E4M3FN, uint8_t, th_f8_e4m3fn_to_f32(x),                                \
    th_f8_e4m3fn_from_f32((float)v, TH_OVERFLOW_SATURATE))                     \
  X(F8_E5M2, uint8_t, th_f8_e5m2_to_f32(x),                                    \
    th_f8_e5m2_from_f32((float)v, TH_OVERFLOW_IEEE))                           \
  X(F8_E8M0FNU, uint8_t, th_f8_e8m0fnu_to_f32(x),                              \
    th_f8_e8m0fnu_from_f32((float)v, TH_E8M0_NEAREST))

#define ELEMENT_INTS(X)                                                        \
  X(BOOL, uint8_t, x != 0, v != 0, v != 0)                                     \
  X(U8, uint8_t, x, (uint8_t)th_double_to_i64(v), (uint8_t)v)                  \
  X(I8, int8_t, x, (int8_t)th_double_to_i32(v), (int8_t)v)                     \
  X(I16, int16_t, x, (int16_t)th_double_to_i32(v), (int16_t)v)                 \
  X(I32, int32_t, x, th_double_to_i32(v), (int32_t)v)                          \
  X(I64, int64_t, x, th_double_to_i64(v), v)

static void element_read_doubles(th_dtype dtype, const char *from,
                                 ptrdiff_t step, int count, double *out) {
  switch (dtype) {
#define X(name, type, read, write)                                             \
  case TH_##name:                                                              \
    for (int i = 0; i < count; i++) {                                          \
      type x;                                                                  \
      memcpy(&x, from + i * step, sizeof x);                                   \
      out[i] = (double)(read);                                                 \
    }                                                                          \
    break;
    ELEMENT_FLOATS(X)
#undef X
  default:
    TH_ASSERT(!"a dtype of the table");
  }
}

static void element_read_ints(th_dtype dtype, const char *from, ptrdiff_t step,
                              int count, int64_t *out) {
  switch (dtype) {
#define X(name, type, read, write_double, write_int)                           \
  case TH_##name:                                                              \
    for (int i = 0; i < count; i++) {                                          \
      type x;                                                                  \
      memcpy(&x, from + i * step, sizeof x);                                   \
      out[i] = (int64_t)(read);                                                \
    }                                                                          \
    break;
    ELEMENT_INTS(X)
#undef X
  default:
    TH_ASSERT(!"a dtype of the table");
  }
}

#define ELEMENT_WRITE(name, type, write)                                       \
  case TH_##name:                                                              \
    for (int i = 0; i < count; i++) {                                          \
      v = from[i];                                                             \
      type x = (type)(write);                                                  \
      memcpy(to + i * step, &x, sizeof x);                                     \
    }                                                                          \
    break;

static void element_write_doubles(th_dtype dtype, char *to, ptrdiff_t step,
                                  int count, const double *from) {
  double v;
  switch (dtype) {
#define X(name, type, read, write) ELEMENT_WRITE(name, type, write)
    ELEMENT_FLOATS(X)
#undef X
#define X(name, type, read, write_double, write_int)                           \
  ELEMENT_WRITE(name, type, write_double)
    ELEMENT_INTS(X)
#undef X
  default:
    TH_ASSERT(!"a dtype of the table");
  }
}

static void element_write_ints(th_dtype dtype, char *to, ptrdiff_t step,
                               int count, const int64_t *from) {
  int64_t v;
  switch (dtype) {
#define X(name, type, read, write) ELEMENT_WRITE(name, type, write)
    ELEMENT_FLOATS(X)
#undef X
#define X(name, type, read, write_double, write_int)                           \
  ELEMENT_WRITE(name, type, write_int)
    ELEMENT_INTS(X)
#undef X
  default:
    TH_ASSERT(!"a dtype of the table");
  }
}

void th_convert_row(th_dtype to_dtype, void *to, ptrdiff_t to_step,
                    th_dtype from_dtype, const void *from, ptrdiff_t from_step,
                    int64_t count) {
  char *target = to;
  const char *source = from;
  while (count > 0) {
    int block = count < ELEMENT_BLOCK ? (int)count : ELEMENT_BLOCK;
    if (th_dtype_is_float(from_dtype)) {
      double numbers[ELEMENT_BLOCK];
      element_read_doubles(from_dtype, source, from_step, block, numbers);
      element_write_doubles(to_dtype, target, to_step, block, numbers);
    } else {
      int64_t numbers[ELEMENT_BLOCK];
      element_read_ints(from_dtype, source, from_step, block, numbers);
      element_write_ints(to_dtype, target, to_step, block, numbers);
    }
    source += block * from_step;
    target += block * to_step;
    count -= block;
  }
}

double th_element_get(th_dtype dtype, const void *element) {
  double value;
  th_convert_row(TH_F64, &value, 0, dtype, element, 0, 1);
  return value;
}

int64_t th_element_get_int(th_dtype dtype, const void *element) {
  int64_t value;
  th_convert_row(TH_I64, &value, 0, dtype, element, 0, 1);
  return value;
}

void th_element_set(th_dtype dtype, void *element, double value) {
  th_convert_row(dtype, element, 0, TH_F64, &value, 0, 1);
}

void th_element_set_int(th_dtype dtype, void *element, int64_t value) {
  th_convert_row(dtype, element, 0, TH_I64, &value, 0, 1);
}

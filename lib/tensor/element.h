// Elements of any dtype as C numbers, one or a row at a time.
//
// Through double: exact for every float type; through int64_t: exact for every
// integer type and b8.  The rules of conversion are those of
// th_tensor_to_dtype.
#ifndef TH_TENSOR_ELEMENT_H
#define TH_TENSOR_ELEMENT_H

#include "thunder/base.h"

double th_element_get(th_dtype dtype, const void *element);
int64_t th_element_get_int(th_dtype dtype, const void *element);
void th_element_set(th_dtype dtype, void *element, double value);
void th_element_set_int(th_dtype dtype, void *element, int64_t value);

// What cvttsd2si gives, in C that is defined: the most negative number for NaN
// and for everything out of range.
int32_t th_double_to_i32(double value);
int64_t th_double_to_i64(double value);

// Converts `count` elements; steps in bytes.
void th_convert_row(th_dtype to_dtype, void *to, ptrdiff_t to_step,
                    th_dtype from_dtype, const void *from, ptrdiff_t from_step,
                    int64_t count);

#endif

// Small floating-point formats to and from float, one value at a time.
//
// To float is exact.  From float rounds to nearest, ties to even, in one step,
// subnormal results included; it does not depend on the rounding mode.  NaN
// stays NaN and keeps its sign.
//
//   f16       1 sign  5 exponent 10 mantissa bits
//   bf16      1       8           7
//   e5m2      1       5           2   infinities; largest 57344
//   e4m3fn    1       4           3   no infinity, 0x7f is NaN; largest 448
//   e8m0fnu   0       8           0   2^(code - 127), 255 is NaN, no zero
#ifndef TH_BASE_HALF_H
#define TH_BASE_HALF_H

#include <stdint.h>

float th_f16_to_f32(uint16_t code);
uint16_t th_f16_from_f32(float value);
float th_bf16_to_f32(uint16_t code);
uint16_t th_bf16_from_f32(float value);

// What a value beyond the largest becomes, infinity included: the largest
// (training hardware), or infinity, NaN in e4m3fn (IEEE 754, ml_dtypes).
typedef enum th_overflow {
  TH_OVERFLOW_SATURATE,
  TH_OVERFLOW_IEEE,
} th_overflow;

float th_f8_e4m3fn_to_f32(uint8_t code);
uint8_t th_f8_e4m3fn_from_f32(float value, th_overflow overflow);
float th_f8_e5m2_to_f32(uint8_t code);
uint8_t th_f8_e5m2_from_f32(float value, th_overflow overflow);

// How a float becomes a power of two.  The sign is dropped.
typedef enum th_e8m0_rule {
  TH_E8M0_UP,      // smallest power not below; 0 gives code 0, inf 254
  TH_E8M0_FLOOR,   // largest power not above; 0 gives code 0, inf 254
  TH_E8M0_NEAREST, // ties up; 0 gives code 0, inf 255
} th_e8m0_rule;

float th_f8_e8m0fnu_to_f32(uint8_t code);
uint8_t th_f8_e8m0fnu_from_f32(float value, th_e8m0_rule rule);

#endif

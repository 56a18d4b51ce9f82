// Small floating-point formats, by integer arithmetic on the bits of a float.
//
// One encoder serves every format with a sign: it rounds the magnitude to the
// format's mantissa with an unbounded exponent range above (so that a code
// beyond the largest finite one tells of overflow), gradually below.
#include "base/half.h"

#include <string.h>

typedef struct half_format {
  int mantissa_bits;
  int bias;
  uint32_t largest;  // code of the largest finite magnitude
  uint32_t infinity; // code of what IEEE overflow gives
  uint32_t nan;
} half_format;

static const half_format half_f16 = {10, 15, 0x7bff, 0x7c00, 0x7e00};
static const half_format half_e4m3 = {3, 7, 0x7e, 0x7f, 0x7f};
static const half_format half_e5m2 = {2, 15, 0x7b, 0x7c, 0x7e};

static uint32_t half_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float half_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// value / 2^shift, to nearest, ties to even; 0 <= shift.
static uint32_t half_round_shift(uint32_t value, int shift) {
  if (shift == 0) {
    return value;
  }
  if (shift > 31) {
    return 0;
  }
  uint32_t half = UINT32_C(1) << (shift - 1);
  uint32_t odd = value >> shift & 1;
  return (value + half - 1 + odd) >> shift;
}

// `magnitude` is the bits of a finite float without its sign.
static inline uint32_t half_encode(uint32_t magnitude,
                                   const half_format *format) {
  int exponent = (int)(magnitude >> 23);
  uint32_t mantissa = magnitude & 0x7fffff;
  if (exponent > 0) {
    mantissa |= 0x800000;
  } else {
    exponent = 1; // a subnormal float
  }
  int shift = 23 - format->mantissa_bits;
  int target = exponent - 127 + format->bias;
  if (target >= 1) {
    // The implicit bit adds one to the exponent field; so does a carry.
    return ((uint32_t)(target - 1) << format->mantissa_bits) +
           half_round_shift(mantissa, shift);
  }
  return half_round_shift(mantissa, shift + 1 - target);
}

static inline uint32_t half_from_f32(float value, const half_format *format,
                                     th_overflow overflow) {
  uint32_t magnitude = half_bits(value) & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return format->nan;
  }
  uint32_t code = magnitude == 0x7f800000 ? format->largest + 1
                                          : half_encode(magnitude, format);
  if (code > format->largest) {
    return overflow == TH_OVERFLOW_SATURATE ? format->largest
                                            : format->infinity;
  }
  return code;
}

// A finite code without its sign.
static inline float half_decode(uint32_t code, const half_format *format) {
  uint32_t exponent = code >> format->mantissa_bits;
  uint32_t mantissa = code & ((UINT32_C(1) << format->mantissa_bits) - 1);
  int shift = 23 - format->mantissa_bits;
  if (exponent == 0) {
    // mantissa * 2^(1 - bias - mantissa_bits), exact in a float.
    int scale = 1 - format->bias - format->mantissa_bits;
    return (float)mantissa * half_float((uint32_t)(scale + 127) << 23);
  }
  return half_float((exponent + 127 - (uint32_t)format->bias) << 23 |
                    mantissa << shift);
}

static inline float half_to_f32(uint32_t code, uint32_t sign,
                                const half_format *format) {
  float value;
  if (code <= format->largest) {
    value = half_decode(code, format);
  } else if (code == format->infinity && format->infinity != format->nan) {
    value = half_float(0x7f800000);
  } else {
    value = half_float(0x7fc00000);
  }
  return half_float(half_bits(value) | (sign ? 0x80000000 : 0));
}

float th_f16_to_f32(uint16_t code) {
  return half_to_f32(code & 0x7fff, code & 0x8000, &half_f16);
}

uint16_t th_f16_from_f32(float value) {
  uint32_t sign = half_bits(value) >> 16 & 0x8000;
  return (uint16_t)(sign | half_from_f32(value, &half_f16, TH_OVERFLOW_IEEE));
}

float th_bf16_to_f32(uint16_t code) { return half_float((uint32_t)code << 16); }

// Same exponent as a float: rounding the bits is all, infinity included.
uint16_t th_bf16_from_f32(float value) {
  uint32_t bits = half_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
  }
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float th_f8_e4m3fn_to_f32(uint8_t code) {
  return half_to_f32(code & 0x7f, code & 0x80, &half_e4m3);
}

uint8_t th_f8_e4m3fn_from_f32(float value, th_overflow overflow) {
  uint32_t sign = half_bits(value) >> 24 & 0x80;
  return (uint8_t)(sign | half_from_f32(value, &half_e4m3, overflow));
}

float th_f8_e5m2_to_f32(uint8_t code) {
  return half_to_f32(code & 0x7f, code & 0x80, &half_e5m2);
}

uint8_t th_f8_e5m2_from_f32(float value, th_overflow overflow) {
  uint32_t sign = half_bits(value) >> 24 & 0x80;
  return (uint8_t)(sign | half_from_f32(value, &half_e5m2, overflow));
}

float th_f8_e8m0fnu_to_f32(uint8_t code) {
  if (code == 0xff) {
    return half_float(0x7fc00000);
  }
  // 2^-127 is a subnormal float.
  return half_float(code == 0 ? 0x00400000 : (uint32_t)code << 23);
}

uint8_t th_f8_e8m0fnu_from_f32(float value, th_e8m0_rule rule) {
  uint32_t magnitude = half_bits(value) & 0x7fffffff;
  if (magnitude > 0x7f800000) {
    return 0xff;
  }
  if (magnitude == 0x7f800000) {
    return rule == TH_E8M0_NEAREST ? 0xff : 0xfe;
  }
  uint32_t exponent = magnitude >> 23;
  uint32_t mantissa = magnitude & 0x7fffff;
  switch (rule) {
  case TH_E8M0_UP:
    // Below 2^-126 code 0 is 2^-127, the mantissa 0x400000.
    exponent += exponent > 0 ? mantissa > 0 : mantissa > 0x400000;
    break;
  case TH_E8M0_NEAREST:
    exponent += exponent > 0 ? mantissa >= 0x400000 : mantissa > 0x400000;
    break;
  case TH_E8M0_FLOOR:
    break;
  }
  return (uint8_t)(exponent < 0xfe           ? exponent
                   : rule == TH_E8M0_NEAREST ? exponent
                                             : 0xfe);
}

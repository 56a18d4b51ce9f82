// Integer arithmetic that is defined for every operand but a divisor of 0:
// what C leaves open wraps.
#ifndef TH_BASE_INTEGER_H
#define TH_BASE_INTEGER_H

#include <stdint.h>

// Python's: rounded down.  INT64_MIN by -1 wraps.
static inline int64_t th_int_floordiv(int64_t a, int64_t b) {
  if (b == -1) {
    return (int64_t)(0 - (uint64_t)a);
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

// Python's: the sign of b.
static inline int64_t th_int_mod(int64_t a, int64_t b) {
  if (b == -1) {
    return 0;
  }
  int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// Modulo 2^64; a negative exponent gives the quotient rounded to 0, as in
// PyTorch (0 to a negative power is 0).
static inline int64_t th_int_pow(int64_t base, int64_t exponent) {
  uint64_t r = 1, b = (uint64_t)base;
  if (exponent < 0) {
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  }
  for (; exponent; exponent >>= 1) {
    r *= exponent & 1 ? b : 1;
    b *= b;
  }
  return (int64_t)r;
}

#endif

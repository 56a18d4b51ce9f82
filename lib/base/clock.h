// Time for reports.
#ifndef TH_BASE_CLOCK_H
#define TH_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

// Nanoseconds since some moment; it never runs backwards.
static inline int64_t th_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif

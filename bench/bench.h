// Measuring in pairs: two things in turn, and the ratio of each pair.
#ifndef THUNDER_BENCH_H
#define THUNDER_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BENCH_PAIRS = 21 };

static inline double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double bench_cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int bench_compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Sorts; [0] is the least.
static inline void bench_sort(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, bench_compare);
}

static inline void bench_print_ratio(const char *name, double *ratios,
                                     int count) {
  bench_sort(ratios, count);
  printf("%-28s %6.3f  (quartiles %.3f to %.3f, %d pairs)\n", name,
         ratios[count / 2], ratios[count / 4], ratios[count * 3 / 4], count);
}

// "model name" of the first CPU.
static inline void bench_print_cpu(void) {
  char line[256];
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && fgets(line, sizeof line, f)) {
    if (sscanf(line, "model name : %255[^\n]", line) == 1) {
      printf("cpu: %s\n", line);
      break;
    }
  }
  if (f) {
    fclose(f);
  }
}

#endif

// What all benchmarks need: clocks, order statistics, the name of the CPU.
#ifndef THUNDER_BENCH_H
#define THUNDER_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double bench_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double bench_now(void) { return bench_clock(CLOCK_MONOTONIC); }

static inline double bench_cpu(void) {
  return bench_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static inline int bench_order(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct bench_quartiles {
  double low, median, high;
} bench_quartiles;

// Sorts the values.
static inline bench_quartiles bench_sort(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, bench_order);
  return (bench_quartiles){values[count / 4], values[count / 2],
                           values[count * 3 / 4]};
}

// "NAME (family F, model M)" of the first CPU: virtual machines leave the name
// vague.
static inline const char *bench_cpu_name(char *buffer, size_t size) {
  char line[256], name[128] = "unknown CPU";
  char family[16] = "", model[16] = "";
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && fgets(line, sizeof line, f) && strcmp(line, "\n") != 0) {
    if (sscanf(line, "model name : %127[^\n]", name) < 1 &&
        sscanf(line, "cpu family : %15[0-9]", family) < 1) {
      sscanf(line, "model : %15[0-9]", model);
    }
  }
  if (f) {
    fclose(f);
  }
  if (*family) {
    snprintf(buffer, size, "%s (family %s, model %s)", name, family, model);
  } else {
    snprintf(buffer, size, "%s", name);
  }
  return buffer;
}

static inline void bench_print_cpu(void) {
  char name[192];
  printf("cpu: %s\n", bench_cpu_name(name, sizeof name));
}

#endif

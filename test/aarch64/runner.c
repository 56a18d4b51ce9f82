// Runs on AArch64: calls the kernels of cases.inc on the inputs in data.bin
// and compares with the host's results bit for bit, any NaN for any.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES 4096

typedef struct kernel_error {
  int32_t code, stmt;
  int64_t value, limit;
} kernel_error;

typedef int (*kernel_fn)(void *const *buffers, const int64_t *symbols,
                         int64_t begin, int64_t end, kernel_error *error);

#define CASE(symbol, name, wide)                                               \
  int symbol(void *const *, const int64_t *, int64_t, int64_t, kernel_error *);
#include "cases.inc"
#undef CASE

static const struct {
  kernel_fn call;
  const char *name;
  int wide;
} cases[] = {
#define CASE(symbol, name, wide) {symbol, name, wide},
#include "cases.inc"
#undef CASE
};

static double value_at(const void *data, int wide, int i) {
  return wide ? ((const double *)data)[i] : ((const float *)data)[i];
}

// The first sample that is off, or -1.
static int first_difference(const void *got, const void *want, int wide) {
  for (int i = 0; i < SAMPLES; i++) {
    size_t size = wide ? 8 : 4;
    if (memcmp((const char *)got + size * (size_t)i,
               (const char *)want + size * (size_t)i, size) != 0 &&
        !(isnan(value_at(got, wide, i)) && isnan(value_at(want, wide, i)))) {
      return i;
    }
  }
  return -1;
}

int main(int argc, char **argv) {
  static double x[SAMPLES], y[SAMPLES], want[SAMPLES], got[SAMPLES];
  int passed = 0, failed = 0;
  FILE *data = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (!data) {
    fprintf(stderr, "usage: runner DATA\n");
    return 2;
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t size = SAMPLES * (cases[i].wide ? sizeof(double) : sizeof(float));
    void *buffers[] = {x, y, got};
    kernel_error error = {0};
    if (fread(x, 1, size, data) != size || fread(y, 1, size, data) != size ||
        fread(want, 1, size, data) != size) {
      printf("data ends before %s\n", cases[i].name);
      return 1;
    }
    memset(got, 0, sizeof got);
    cases[i].call(buffers, NULL, 0, SAMPLES, &error);
    int at = first_difference(got, want, cases[i].wide);
    if (at < 0) {
      passed++;
      continue;
    }
    failed++;
    printf("%s: at (%.17g, %.17g): got %.17g, the host %.17g\n", cases[i].name,
           value_at(x, cases[i].wide, at), value_at(y, cases[i].wide, at),
           value_at(got, cases[i].wide, at), value_at(want, cases[i].wide, at));
  }
  fclose(data);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0 || passed == 0;
}

// Runs on AArch64: calls the kernels of cases.inc on what data.bin holds (see
// emit.h) and compares with the host's results: bit for bit, any NaN for any,
// or within the rounding of sums that were taken in another order.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// th_kernel_error and th_kernel_fn of lowering/kernel.h.
#include "kernel.h"

#define MAX_BUFFERS 32

#define CASE(symbol, name, exact)                                              \
  int symbol(void *const *, const int64_t *, int64_t, int64_t,                 \
             th_kernel_error *);
#include "cases.inc"
#undef CASE

static const struct {
  th_kernel_fn call;
  const char *name;
  int exact;
} cases[] = {
#define CASE(symbol, name, exact) {symbol, name, exact},
#include "cases.inc"
#undef CASE
};

// The numbers of th_dtype: name, bytes, and the rounding of a sum of some.
enum { B8, U8, I8, I16, I32, I64, F16, BF16, F32, F64 };
static const struct {
  size_t bytes;
  double tolerance;
} dtypes[] = {[B8] = {1, 0},     [U8] = {1, 0},        [I8] = {1, 0},
              [I16] = {2, 0},    [I32] = {4, 0},       [I64] = {8, 0},
              [F16] = {2, 2e-3}, [BF16] = {2, 1.6e-2}, [F32] = {4, 1e-5},
              [F64] = {8, 1e-13}};

typedef struct buffer {
  int64_t dtype, count, is_output;
  void *data; // the input, or room for the output
  void *want;
} buffer;

static double value_at(const void *data, int64_t dtype, int64_t i) {
  switch (dtype) {
  case F16:
    return (double)((const __fp16 *)data)[i];
  case BF16: {
    uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  case F32:
    return ((const float *)data)[i];
  case F64:
    return ((const double *)data)[i];
  case I64:
    return (double)((const int64_t *)data)[i];
  case I32:
    return ((const int32_t *)data)[i];
  case I16:
    return ((const int16_t *)data)[i];
  default:
    return ((const int8_t *)data)[i];
  }
}

static int is_equal(const buffer *b, int64_t i, int exact) {
  size_t bytes = dtypes[b->dtype].bytes;
  if (memcmp((const char *)b->data + bytes * (size_t)i,
             (const char *)b->want + bytes * (size_t)i, bytes) == 0) {
    return 1;
  }
  double got = value_at(b->data, b->dtype, i);
  double want = value_at(b->want, b->dtype, i);
  if (isnan(got) && isnan(want)) {
    return 1;
  }
  return !exact &&
         fabs(got - want) <= dtypes[b->dtype].tolerance * (1 + fabs(want));
}

static void read_all(void *to, size_t size, FILE *data) {
  if (fread(to, 1, size, data) != size) {
    printf("data.bin ends early\n");
    exit(1);
  }
}

static void read_buffer(buffer *b, FILE *data) {
  read_all(b, 3 * sizeof(int64_t), data);
  size_t bytes = dtypes[b->dtype].bytes * (size_t)b->count;
  b->data = aligned_alloc(64, (bytes + 127) / 64 * 64);
  b->want = malloc(bytes + 1);
  memset(b->data, 0, bytes);
  read_all(b->is_output ? b->want : b->data, bytes, data);
}

// How far the outer loop goes depends on the machine's tiles.  A kernel of the
// lowering says so itself, as "grain extent", when it is asked (TH_GEN_QUESTION
// of lowering/gen.h); sizes are constants here.
static int64_t kernel_extent(th_kernel_fn call) {
  th_kernel_error answer = {0};
  char *end;
  call(NULL, NULL, -1, 0, &answer);
  const char *text = (const char *)(uintptr_t)answer.value;
  strtoll(text, &end, 10);
  return strtoll(end, NULL, 10);
}

// The number of outputs that are off.
static int run_case(size_t index, FILE *data) {
  buffer buffers[MAX_BUFFERS];
  void *pointers[MAX_BUFFERS];
  int64_t numbers[MAX_BUFFERS];
  int64_t head[3]; // extent, numbers, buffers
  int off = 0;
  read_all(head, sizeof head, data);
  read_all(numbers, sizeof *numbers * (size_t)head[1], data);
  for (int64_t i = 0; i < head[2]; i++) {
    read_buffer(&buffers[i], data);
    pointers[i] = buffers[i].data;
  }
  if (!cases[index].exact) {
    head[0] = kernel_extent(cases[index].call);
  }
  th_kernel_error error = {0};
  if (cases[index].call(pointers, numbers, 0, head[0], &error) != 0) {
    printf("%s: fault %d\n", cases[index].name, error.code);
    off++;
  }
  for (int64_t i = 0; i < head[2]; i++) {
    buffer *b = &buffers[i];
    int64_t k = 0;
    while (b->is_output && k < b->count && is_equal(b, k, cases[index].exact)) {
      k++;
    }
    if (b->is_output && k < b->count) {
      printf("%s: buffer %lld, element %lld: got %.17g, the host %.17g\n",
             cases[index].name, (long long)i, (long long)k,
             value_at(b->data, b->dtype, k), value_at(b->want, b->dtype, k));
      off++;
    }
    free(b->data);
    free(b->want);
  }
  return off;
}

int main(int argc, char **argv) {
  int passed = 0, failed = 0;
  FILE *data = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (!data) {
    fprintf(stderr, "usage: runner DATA\n");
    return 2;
  }
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (run_case(i, data) == 0) {
      passed++;
    } else {
      failed++;
    }
  }
  fclose(data);
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0 || passed == 0;
}

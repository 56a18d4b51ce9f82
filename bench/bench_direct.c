// References without a library: memcpy of as many bytes as a figure reads and
// writes, and the same sum in C.
#include "bench_figures.h"

// libgomp's own names, as in lib/base/pool.c: the pool of the library's calls.
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void omp_set_num_threads(int threads);

void bench_set_threads(int threads) { omp_set_num_threads(threads); }

// ---- memcpy

typedef struct direct_copy {
  char *from, *to;
  size_t size;
  int threads;
} direct_copy;

static void direct_copy_part(void *state) {
  const direct_copy *c = state;
  size_t parts = (size_t)omp_get_num_threads();
  size_t part = (size_t)omp_get_thread_num();
  size_t start = c->size / parts * part;
  size_t end = part + 1 == parts ? c->size : c->size / parts * (part + 1);
  memcpy(c->to + start, c->from + start, end - start);
}

static double direct_copy_run(void *state, int count) {
  direct_copy *c = state;
  double start = bench_now();
  for (int i = 0; i < count; i++) {
    if (c->threads == 1) {
      memcpy(c->to, c->from, c->size);
    } else {
      GOMP_parallel(direct_copy_part, c, (unsigned)c->threads, 0);
    }
  }
  return bench_now() - start;
}

static void direct_copy_release(void *state) {
  direct_copy *c = state;
  free(c->from);
  free(c->to);
  free(c);
}

// `bytes` are those read and written together.
static bool direct_copy_make(size_t bytes, int threads, bench_side *out_side) {
  direct_copy *c = calloc(1, sizeof *c);
  size_t size = bytes / 2;
  if (c) {
    *c = (direct_copy){aligned_alloc(64, size), aligned_alloc(64, size), size,
                       threads};
  }
  if (!c || !c->from || !c->to) {
    bench_say("out of memory");
    if (c) {
      direct_copy_release(c);
    }
    return false;
  }
  memset(c->from, 1, size);
  memset(c->to, 2, size);
  *out_side =
      (bench_side){"memcpy", direct_copy_run, direct_copy_release, c, false};
  return true;
}

enum { SIDE = 4096, MATRIX = SIDE * SIDE * 4 }; // bytes

// One array read, one written.
bool bench_memcpy_rmsnorm(int threads, bench_side *out_side) {
  return direct_copy_make((size_t)2 * MATRIX, threads, out_side);
}

// Two arrays read, one written.
bool bench_memcpy_gelu(int threads, bench_side *out_side) {
  return direct_copy_make((size_t)3 * MATRIX, threads, out_side);
}

// ---- the sum of small tensors

enum { SUM_INPUTS = 10, SUM_SIZE = 16 };

typedef struct direct_sum {
  float in[SUM_INPUTS][SUM_SIZE], out[SUM_SIZE];
} direct_sum;

__attribute__((noinline)) static void
direct_sum_once(float *restrict out, float (*restrict in)[SUM_SIZE]) {
  for (int i = 0; i < SUM_SIZE; i++) {
    out[i] = in[0][i];
    for (int k = 1; k < SUM_INPUTS; k++) {
      out[i] += in[k][i];
    }
  }
}

static double direct_sum_run(void *state, int count) {
  direct_sum *s = state;
  double start = bench_now();
  for (int i = 0; i < count; i++) {
    direct_sum_once(s->out, s->in);
    __asm__ volatile("" : : "r"(s) : "memory");
  }
  return bench_now() - start;
}

bool bench_plain_sum(int threads, bench_side *out_side) {
  direct_sum *s = calloc(1, sizeof *s);
  (void)threads;
  if (!s) {
    bench_say("out of memory");
    return false;
  }
  for (int i = 0; i < SUM_INPUTS * SUM_SIZE; i++) {
    s->in[i / SUM_SIZE][i % SUM_SIZE] = (float)(i % 7);
  }
  *out_side = (bench_side){"c", direct_sum_run, free, s, false};
  return true;
}

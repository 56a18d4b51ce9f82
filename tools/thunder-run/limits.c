// What the machine can do, measured in some tens of milliseconds: bytes that
// are read in a second from a buffer that no cache holds, and multiply-adds of
// f32 in the widest vectors that the CPU has.  As many threads as a call uses
// do the same at once; the best of a few rounds counts.
//
// What it misses: a step whose data lie in a cache reads faster; stores and
// mixed streams are slower; the clock may fall when a long run is hot; units
// for products of bf16 or i8 reach more than the f32 that is measured here.
#include "run.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum {
  LIMITS_ROUNDS = 8,
  LIMITS_STEPS = 200000, // of a thread in a round: less than a millisecond
  LIMITS_CHAINS = 12,    // two units with a latency of 4 want 8
  LIMITS_THREADS = 1024,
  LIMITS_LEAST = 64 << 20, // bytes of the buffer
  LIMITS_MOST = 256 << 20,
};

// ---- multiply-adds: flops that were done

// Independent chains, so that no unit waits for a result.
#define LIMITS_FMA(type, load, fma, store)                                     \
  type a[LIMITS_CHAINS], x = load(0.999F), y = load(0.001F);                   \
  for (int c = 0; c < LIMITS_CHAINS; c++) {                                    \
    a[c] = load((float)c);                                                     \
  }                                                                            \
  for (int64_t i = 0; i < LIMITS_STEPS; i++) {                                 \
    _Pragma("GCC unroll 12") for (int c = 0; c < LIMITS_CHAINS; c++) {         \
      a[c] = fma;                                                              \
    }                                                                          \
  }                                                                            \
  for (int c = 0; c < LIMITS_CHAINS; c++) {                                    \
    store;                                                                     \
  }                                                                            \
  return 2.0 * LIMITS_STEPS * LIMITS_CHAINS * sizeof(type) / sizeof(float)

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static double limits_fma_512(float *sink) {
  LIMITS_FMA(__m512, _mm512_set1_ps, _mm512_fmadd_ps(a[c], x, y),
             sink[c] = _mm512_cvtss_f32(a[c]));
}

__attribute__((target("avx2,fma"))) static double limits_fma_256(float *sink) {
  LIMITS_FMA(__m256, _mm256_set1_ps, _mm256_fmadd_ps(a[c], x, y),
             sink[c] = _mm256_cvtss_f32(a[c]));
}

static double limits_fma(float *sink) {
  LIMITS_FMA(__m128, _mm_set1_ps, _mm_add_ps(_mm_mul_ps(a[c], x), y),
             sink[c] = _mm_cvtss_f32(a[c]));
}
#elif defined(__aarch64__)
static double limits_fma(float *sink) {
  LIMITS_FMA(float32x4_t, vdupq_n_f32, vfmaq_f32(y, a[c], x),
             sink[c] = vgetq_lane_f32(a[c], 0));
}
#else
#define LIMITS_SAME(v) (v)
static double limits_fma(float *sink) {
  LIMITS_FMA(float, LIMITS_SAME, a[c] * x + y, sink[c] = a[c]);
}
#endif

static double (*limits_widest(void))(float *) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return limits_fma_512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return limits_fma_256;
  }
#endif
  return limits_fma;
}

// ---- reads: bytes that were read

typedef uint64_t limits_words __attribute__((vector_size(64)));

static double limits_read(const limits_words *at, size_t count, float *sink) {
  limits_words a = {0}, b = {0}, c = {0}, d = {0};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    a |= at[i], b |= at[i + 1], c |= at[i + 2], d |= at[i + 3];
  }
  a |= b | c | d;
  *sink = (float)a[0];
  return (double)(i * sizeof *at);
}

// ---- threads

typedef struct limits_work {
  double (*fma)(float *sink);
  limits_words *words; // of all threads
  size_t words_all, words_each;
  int threads;
  pthread_mutex_t gate; // shut until the number of threads is known
  pthread_barrier_t barrier;
  run_limits best;
  int64_t start;
  double done[LIMITS_THREADS]; // by thread, in this round
  float sinks[LIMITS_THREADS][16];
} limits_work;

typedef struct limits_thread {
  limits_work *work;
  int index;
} limits_thread;

// All threads do one thing; the first takes the time.
static void limits_round(limits_work *w, int index, bool reads) {
  const limits_words *mine = w->words + w->words_each * (size_t)index;
  pthread_barrier_wait(&w->barrier);
  if (index == 0) {
    w->start = run_now();
  }
  w->done[index] = reads ? limits_read(mine, w->words_each, w->sinks[index])
                         : w->fma(w->sinks[index]);
  pthread_barrier_wait(&w->barrier);
  if (index != 0) {
    return;
  }
  double ns = (double)(run_now() - w->start), sum = 0;
  for (int i = 0; i < w->threads; i++) {
    sum += w->done[i];
  }
  double rate = sum / (ns > 0 ? ns : 1) * 1e9;
  double *best = reads ? &w->best.bytes : &w->best.flops;
  *best = rate > *best ? rate : *best;
}

static void *limits_run(void *user) {
  const limits_thread *t = user;
  limits_work *w = t->work;
  pthread_mutex_lock(&w->gate);
  pthread_mutex_unlock(&w->gate);
  size_t each = w->words_each * sizeof *w->words;
  memset(w->words + w->words_each * (size_t)t->index, 1, each);
  for (int i = 0; i < LIMITS_ROUNDS; i++) {
    limits_round(w, t->index, false);
    limits_round(w, t->index, true);
  }
  return NULL;
}

// As many as can be had.
static void limits_threads(limits_work *w) {
  pthread_t threads[LIMITS_THREADS];
  limits_thread args[LIMITS_THREADS];
  int made = 1;
  args[0] = (limits_thread){w, 0};
  pthread_mutex_lock(&w->gate);
  for (; made < w->threads; made++) {
    args[made] = (limits_thread){w, made};
    if (pthread_create(&threads[made], NULL, limits_run, &args[made]) != 0) {
      break;
    }
  }
  w->threads = made;
  w->words_each = w->words_all / (size_t)made;
  pthread_barrier_init(&w->barrier, NULL, (unsigned)made);
  pthread_mutex_unlock(&w->gate);
  limits_run(&args[0]);
  for (int i = 1; i < made; i++) {
    pthread_join(threads[i], NULL);
  }
  pthread_barrier_destroy(&w->barrier);
}

// More than the caches, of which a guest may be told nothing.
static size_t limits_size(void) {
  long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  size_t size = cache > 0 ? 3 * (size_t)cache : LIMITS_LEAST;
  size = size < LIMITS_LEAST ? LIMITS_LEAST : size;
  return size > LIMITS_MOST ? LIMITS_MOST : size;
}

run_limits run_measure_limits(int threads) {
  run_limits limits = {0};
  limits_work *w = calloc(1, sizeof *w);
  size_t size = limits_size();
  void *words = mmap(NULL, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (w && words != MAP_FAILED) {
    (void)madvise(words, size, MADV_HUGEPAGE); // fewer faults, if it may be
    *w = (limits_work){.fma = limits_widest(),
                       .words = words,
                       .words_all = size / sizeof(limits_words),
                       .gate = PTHREAD_MUTEX_INITIALIZER};
    w->threads = threads < 1 ? 1 : threads;
    w->threads = w->threads > LIMITS_THREADS ? LIMITS_THREADS : w->threads;
    limits_threads(w);
    limits = w->best;
  }
  if (words != MAP_FAILED) {
    munmap(words, size);
  }
  free(w);
  return limits;
}

// Loops cut over threads by GOMP_parallel, the call that gcc makes for an
// OpenMP loop.

#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define POOL_MAX_THREADS 1024

// libgomp's entry points, as gcc calls them for `#pragma omp parallel`.  They
// are declared here because a file built with -fopenmp by clang would call
// another run time.
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_in_parallel(void);
void omp_set_num_threads(int threads);
int omp_get_max_threads(void);

typedef struct pool_loop {
  th_pool_fn fn;
  void *arg;
  int64_t n, grain;
  int chunks;
} pool_loop;

static pthread_once_t pool_once = PTHREAD_ONCE_INIT;
static atomic_bool pool_forked;

static void pool_after_fork(void) {
  atomic_store(&pool_forked, true);
  omp_set_num_threads(1);
}

static void pool_init_once(void) {
  pthread_atfork(NULL, NULL, pool_after_fork);
}

// The first number of "4,2" (a count for each nesting level); 0: none.
static int pool_environment(void) {
  const char *text = getenv("OMP_NUM_THREADS");
  if (text == NULL) {
    return 0;
  }
  char *end;
  long count = strtol(text, &end, 10);
  while (*end == ' ') {
    end++;
  }
  bool right = end != text && (*end == 0 || *end == ',') && count > 0;
  return !right ? 0 : count > POOL_MAX_THREADS ? POOL_MAX_THREADS : (int)count;
}

static int pool_affinity(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) {
    return 1; // more CPUs than the set holds: the user has to say
  }
  int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count;
}

int th_pool_threads(int wanted) {
  pthread_once(&pool_once, pool_init_once);
  if (wanted > 0) {
    return wanted < POOL_MAX_THREADS ? wanted : POOL_MAX_THREADS;
  }
  int count = pool_environment();
  return count > 0 ? count : pool_affinity();
}

int th_pool_chunks(int threads, int64_t n, int64_t grain) {
  if (n <= 0) {
    return 0;
  }
  grain = grain < 1 ? 1 : grain;
  int64_t grains = n / grain + (n % grain != 0);
  threads = threads < 1 ? 1 : threads;
  return grains < threads ? (int)grains : threads;
}

void th_pool_chunk(int chunk, int chunks, int64_t n, int64_t grain,
                   int64_t *out_begin, int64_t *out_end) {
  grain = grain < 1 ? 1 : grain;
  int64_t grains = n / grain + (n % grain != 0);
  int64_t each = grains / chunks, more = grains % chunks;
  int64_t first = chunk * each + (chunk < more ? chunk : more);
  int64_t last = first + each + (chunk < more);
  *out_begin = first * grain;
  *out_end = last == grains ? n : last * grain;
}

static void pool_run_chunk(const pool_loop *loop, int chunk) {
  int64_t begin, end;
  th_pool_chunk(chunk, loop->chunks, loop->n, loop->grain, &begin, &end);
  loop->fn(loop->arg, begin, end);
}

// One thread's part.  Fewer threads than chunks may have come (OMP_DYNAMIC,
// OMP_THREAD_LIMIT): then each takes several.
static void pool_run_team(void *data) {
  const pool_loop *loop = data;
  int step = omp_get_num_threads();
  for (int i = omp_get_thread_num(); i < loop->chunks; i += step) {
    pool_run_chunk(loop, i);
  }
}

void th_parallel(int threads, int64_t n, int64_t grain, th_pool_fn fn,
                 void *arg) {
  pool_loop loop = {fn, arg, n, grain, th_pool_chunks(threads, n, grain)};
  if (loop.chunks > 1 && !omp_in_parallel()) {
    pthread_once(&pool_once, pool_init_once);
    if (!atomic_load_explicit(&pool_forked, memory_order_relaxed)) {
      GOMP_parallel(pool_run_team, &loop, (unsigned)loop.chunks, 0);
      return;
    }
  }
  for (int i = 0; i < loop.chunks; i++) {
    pool_run_chunk(&loop, i);
  }
}

int th_pool_lend(int threads) {
  pthread_once(&pool_once, pool_init_once);
  int before = omp_get_max_threads();
  omp_set_num_threads(atomic_load(&pool_forked) ? 1 : threads);
  return before;
}

#include "base/pool.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define POOL_SIZE 1000

// Counts how often each index was visited and how many chunks there were.
typedef struct visits {
  atomic_int count[POOL_SIZE];
  atomic_int chunks;
  pthread_t caller;
  atomic_int elsewhere; // chunks that ran on another thread than `caller`
} visits;

static void visit(void *arg, int64_t begin, int64_t end) {
  visits *seen = arg;
  atomic_fetch_add(&seen->chunks, 1);
  atomic_fetch_add(&seen->elsewhere,
                   !pthread_equal(pthread_self(), seen->caller));
  for (int64_t i = begin; i < end; i++) {
    atomic_fetch_add(&seen->count[i], 1);
  }
}

static int visit_all(int threads, int64_t n, int64_t grain, visits *seen) {
  memset(seen, 0, sizeof *seen);
  seen->caller = pthread_self();
  th_parallel(threads, n, grain, visit, seen);
  for (int64_t i = 0; i < POOL_SIZE; i++) {
    if (atomic_load(&seen->count[i]) != (i < n)) {
      return 0;
    }
  }
  return 1;
}

Test(pool, every_index_once) {
  static visits seen;
  for (int threads = 1; threads <= 5; threads++) {
    for (int64_t n = 0; n <= POOL_SIZE; n += 37) {
      for (int64_t grain = 0; grain <= 64; grain += 16) {
        cr_assert(visit_all(threads, n, grain, &seen), "%d %ld %ld", threads,
                  (long)n, (long)grain);
        cr_assert_eq(atomic_load(&seen.chunks),
                     th_pool_chunks(threads, n, grain));
      }
    }
  }
}

Test(pool, cut_is_even_and_aligned_to_the_grain) {
  int chunks = th_pool_chunks(3, 100, 8);
  cr_assert_eq(chunks, 3);
  int64_t begin, end, last = 0;
  for (int i = 0; i < chunks; i++) {
    th_pool_chunk(i, chunks, 100, 8, &begin, &end);
    cr_expect_eq(begin, last);
    cr_expect_eq(begin % 8, 0);
    cr_expect_geq(end - begin, 28);
    cr_expect_leq(end - begin, 40);
    last = end;
  }
  cr_expect_eq(last, 100);
  cr_expect_eq(th_pool_chunks(4, 9, 8), 2);
  cr_expect_eq(th_pool_chunks(4, 8, 8), 1);
  cr_expect_eq(th_pool_chunks(4, 0, 8), 0);
}

Test(pool, bounds_do_not_overflow) {
  int64_t begin, end;
  int chunks = th_pool_chunks(7, INT64_MAX, 4);
  cr_assert_eq(chunks, 7);
  th_pool_chunk(6, chunks, INT64_MAX, 4, &begin, &end);
  cr_expect_eq(end, INT64_MAX);
  cr_expect_gt(begin, 0);
}

Test(pool, one_chunk_stays_in_the_caller) {
  static visits seen;
  cr_assert(visit_all(8, 64, 64, &seen));
  cr_expect_eq(atomic_load(&seen.elsewhere), 0);
}

static void spread(void *arg, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  // Holds its thread until all have come: passes only on that many threads.
  atomic_int *here = arg;
  atomic_fetch_add(here, 1);
  while (atomic_load(here) < 3) {
    sched_yield();
  }
}

Test(pool, chunks_run_at_the_same_time, .timeout = 60) {
  atomic_int here = 0;
  th_parallel(3, 3, 1, spread, &here);
  cr_expect_eq(atomic_load(&here), 3);
}

static void nest(void *arg, int64_t begin, int64_t end) {
  (void)end;
  static _Thread_local visits inner;
  atomic_int *wrong = arg;
  int right = visit_all(4, 100 + begin, 1, &inner);
  if (!right || atomic_load(&inner.elsewhere) != 0 ||
      atomic_load(&inner.chunks) != 4) {
    atomic_fetch_add(wrong, 1);
  }
}

Test(pool, nested_calls_run_inline_with_the_same_cut) {
  atomic_int wrong = 0;
  th_parallel(3, 3, 1, nest, &wrong);
  cr_expect_eq(atomic_load(&wrong), 0);
}

static void *call_many_times(void *arg) {
  static _Thread_local visits seen;
  atomic_int *wrong = arg;
  for (int i = 0; i < 100; i++) {
    atomic_fetch_add(wrong, !visit_all(2, POOL_SIZE, 1, &seen));
  }
  return NULL;
}

Test(pool, many_callers_do_not_disturb_each_other, .timeout = 60) {
  pthread_t callers[8];
  atomic_int wrong = 0;
  for (int i = 0; i < 8; i++) {
    cr_assert_eq(pthread_create(&callers[i], NULL, call_many_times, &wrong), 0);
  }
  for (int i = 0; i < 8; i++) {
    pthread_join(callers[i], NULL);
  }
  cr_expect_eq(atomic_load(&wrong), 0);
}

// As oneDNN enters the pool.
void GOMP_parallel(void (*fn)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_max_threads(void);
static void count_one(void *arg) { atomic_fetch_add((atomic_int *)arg, 1); }

Test(pool, a_forked_child_runs_inline, .timeout = 60) {
  static visits seen;
  cr_assert(visit_all(3, POOL_SIZE, 1, &seen));
  pid_t child = fork();
  if (child == 0) {
    alarm(20); // a team that does not exist would be waited for for ever
    int right = visit_all(3, POOL_SIZE, 1, &seen) &&
                atomic_load(&seen.chunks) == 3 &&
                atomic_load(&seen.elsewhere) == 0;
    atomic_int count = 0;
    GOMP_parallel(count_one, &count, (unsigned)omp_get_max_threads(), 0);
    _exit(right && atomic_load(&count) == 1 ? 0 : 1);
  }
  int status = -1;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
  cr_expect(visit_all(3, POOL_SIZE, 1, &seen), "the parent goes on");
}

Test(pool, thread_count) {
  unsetenv("OMP_NUM_THREADS");
  cr_expect_eq(th_pool_threads(5), 5);
  int cpus = th_pool_threads(0);
  cr_expect_geq(cpus, 1);
  setenv("OMP_NUM_THREADS", "3", 1);
  cr_expect_eq(th_pool_threads(0), 3);
  cr_expect_eq(th_pool_threads(2), 2, "the option wins");
  setenv("OMP_NUM_THREADS", "6,2", 1);
  cr_expect_eq(th_pool_threads(0), 6);
  setenv("OMP_NUM_THREADS", "many", 1);
  cr_expect_eq(th_pool_threads(0), cpus);
  setenv("OMP_NUM_THREADS", "-4", 1);
  cr_expect_eq(th_pool_threads(0), cpus);
}

Test(pool, affinity_limits_the_threads) {
  unsetenv("OMP_NUM_THREADS");
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
  cr_expect_eq(th_pool_threads(0), 1);
}

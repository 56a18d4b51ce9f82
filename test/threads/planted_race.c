// A race on purpose, in a loop over threads: the thread sanitizer has to find
// it, or it would not find others either.

#include "base/pool.h"

#include <stdio.h>

static int64_t total;

static void add_index(void *arg, int64_t begin, int64_t end) {
  (void)arg;
  for (int64_t i = begin; i < end; i++) {
    total += i;
  }
}

int main(void) {
  th_parallel(4, 1000, 1, add_index, NULL);
  printf("%lld\n", (long long)total);
  return 0;
}

// Several callers, each with a loop over several threads: what a loop writes
// is seen by its caller, and callers do not disturb each other.

#include "base/pool.h"

#include <pthread.h>
#include <stdio.h>

#define CALLERS 3
#define SIZE 1000
#define ROUNDS 50

typedef struct caller {
  pthread_t thread;
  int64_t cells[SIZE]; // plain memory: a race would be reported
  int wrong;
} caller;

static void add_index(void *arg, int64_t begin, int64_t end) {
  caller *c = arg;
  for (int64_t i = begin; i < end; i++) {
    c->cells[i] += i;
  }
}

static void *call_rounds(void *arg) {
  caller *c = arg;
  for (int round = 1; round <= ROUNDS; round++) {
    th_parallel(3, SIZE, 16, add_index, c);
    for (int64_t i = 0; i < SIZE; i++) {
      c->wrong += c->cells[i] != i * round;
    }
  }
  return NULL;
}

int main(void) {
  static caller callers[CALLERS];
  int wrong = 0;
  for (int i = 0; i < CALLERS; i++) {
    if (pthread_create(&callers[i].thread, NULL, call_rounds, &callers[i])) {
      perror("pthread_create");
      return 1;
    }
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(callers[i].thread, NULL);
    wrong += callers[i].wrong;
  }
  printf("%d wrong\n", wrong);
  return wrong != 0;
}

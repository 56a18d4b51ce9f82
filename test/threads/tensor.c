// Several threads retain, view and release one tensor; who releases last calls
// the deleter, and sees all that the others wrote.

#include "thunder/tensor.h"

#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 2000

typedef struct worker {
  pthread_t thread;
  th_tensor *tensor; // one count each
  int index;
} worker;

static float cells[THREADS];
static float sum; // written by the deleter alone

static void add_up(void *user) {
  const float *numbers = user;
  for (int i = 0; i < THREADS; i++) {
    sum += numbers[i];
  }
}

static void *take_views(void *arg) {
  worker *w = arg;
  for (int round = 0; round < ROUNDS; round++) {
    int64_t dims[] = {1};
    th_tensor *view;
    th_tensor *again = th_tensor_retain(w->tensor);
    if (th_tensor_view(NULL, again, 1, dims, NULL, w->index, &view) != TH_OK) {
      break;
    }
    th_tensor_release(again);
    th_tensor_set(view, 0, th_tensor_get(view, 0) + 1);
    th_tensor_release(view);
  }
  th_tensor_release(w->tensor);
  return NULL;
}

int main(void) {
  worker workers[THREADS];
  int64_t dims[] = {THREADS};
  th_tensor *tensor;
  if (th_tensor_from_data(NULL, cells, TH_F32, 1, dims, NULL, add_up, cells,
                          &tensor) != TH_OK) {
    return 1;
  }
  for (int i = 0; i < THREADS; i++) {
    workers[i].tensor = th_tensor_retain(tensor);
    workers[i].index = i;
    pthread_create(&workers[i].thread, NULL, take_views, &workers[i]);
  }
  th_tensor_release(tensor);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
  }
  if (sum != (float)THREADS * ROUNDS) {
    printf("sum %f\n", (double)sum);
    return 1;
  }
  return 0;
}

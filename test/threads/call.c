// Several threads call one traced function, with inputs that are known and with
// inputs that make it compile; one that writes to a buffer is called alone or
// answers TH_BUSY.

#include "thunder/thunder.h"

#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 60
#define SIZES 5

typedef struct worker {
  pthread_t thread;
  th_callable *sum, *count;
  int first;   // size it begins with
  int wrong;   // results
  int counted; // calls of `count` that were let in
} worker;

static th_status trace_sum(th_tracer *t, th_value *const *in, size_t n,
                           th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  out[0] = th_sum(t, th_mul(t, in[0], in[0]), TH_NO_DIMS, false);
  return th_tracer_status(t);
}

static th_status trace_count(th_tracer *t, th_value *const *in, size_t n,
                             th_value **out, size_t m, void *user) {
  (void)n, (void)m, (void)user;
  th_buffer_set(t, "calls", th_add_scalar(t, th_buffer(t, "calls"), 1));
  out[0] = th_neg(t, in[0]);
  return th_tracer_status(t);
}

// 1, 1, ... of `size`
static th_tensor *ones(int64_t size) {
  th_tensor *t = NULL;
  if (th_tensor_new(NULL, TH_F32, 1, &size, &t) == TH_OK) {
    (void)th_tensor_fill(NULL, t, 1);
  }
  return t;
}

static void *work(void *arg) {
  worker *w = arg;
  for (int round = 0; round < ROUNDS; round++) {
    int64_t size = 1 + (w->first + round) % SIZES;
    th_tensor *x = ones(size), *y = NULL, *z = NULL;
    w->wrong += th_call(w->sum, &x, 1, &y, 1) != TH_OK ||
                th_tensor_get(y, 0) != (double)size;
    // Two inputs are no call of it: the error goes to a context of its own.
    th_context *own = th_context_new();
    th_call_options options = TH_CALL_OPTIONS_INIT;
    options.diagnostics = own;
    th_leaf leaves[2] = {{TH_LEAF_NONE, NULL, 0, 0, NULL}};
    w->wrong += th_call_leaves(w->sum, &options, leaves, 2, leaves, 1) == TH_OK;
    w->wrong += own && th_diagnostic_count(own) == 0;
    th_context_free(own);
    w->counted += th_call(w->count, &x, 1, &z, 1) == TH_OK;
    th_tensor_release(x);
    th_tensor_release(y);
    th_tensor_release(z);
  }
  return NULL;
}

static int run(th_callable *sum, th_callable *count, const th_tensor *calls) {
  worker workers[THREADS];
  int wrong = 0, counted = 0;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){.sum = sum, .count = count, .first = i};
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
      perror("pthread_create");
      return 1;
    }
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(workers[i].thread, NULL);
    wrong += workers[i].wrong;
    counted += workers[i].counted;
  }
  wrong += th_tensor_get(calls, 0) != counted || counted == 0;
  printf("%d wrong, %d counted\n", wrong, counted);
  return wrong != 0;
}

static int run_with(const char *executors) {
  th_context *ctx = th_context_new();
  th_module *module = NULL;
  th_callable *sum = NULL, *count = NULL;
  th_tensor *calls = ones(1);
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  int failed = 1;
  options.executors = executors;
  options.threads = 2;
  th_tensor_set(calls, 0, 0);
  if (th_module_new(ctx, &module) == TH_OK &&
      th_module_set_buffer(module, "calls", calls, false) == TH_OK &&
      th_jit(ctx, trace_sum, NULL, NULL, 1, &options, &sum) == TH_OK &&
      th_jit(ctx, trace_count, NULL, module, 1, &options, &count) == TH_OK) {
    failed = run(sum, count, calls);
  }
  th_callable_free(sum);
  th_callable_free(count);
  th_module_release(module);
  th_tensor_release(calls);
  th_context_free(ctx);
  return failed;
}

int main(void) { return run_with("ref") + run_with("host"); }

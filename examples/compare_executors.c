// A debug run with two executors: both run the same trace, and what each
// statement gives is compared.  The statement that differs first is where to
// look when a fast executor is wrong.
#include <thunder/thunder.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64 };

// The results of one executor, in order.
typedef struct record {
  char *statement[MOST];
  float *values[MOST];
  int64_t count[MOST];
  int size;
} record;

static void after(void *user, const th_stmt *stmt, const th_view *const *outs,
                  uint32_t out_count) {
  record *r = user;
  const th_view *v = out_count ? outs[0] : NULL;
  int64_t count = 1;
  for (int d = 0; v && d < v->rank; d++) {
    count *= v->dims[d];
  }
  if (!v || v->dtype != TH_F32 || r->size == MOST) {
    return;
  }
  float *copy = malloc((size_t)count * sizeof *copy);
  for (int64_t i = 0; copy && i < count; i++) {
    copy[i] = ((const float *)v->data)[i]; // results lie without gaps
  }
  r->statement[r->size] = th_stmt_text(stmt);
  r->values[r->size] = copy;
  r->count[r->size++] = count;
}

static th_status softmax(th_tracer *t, th_value *const *in, size_t in_count,
                         th_value **out, size_t out_count, void *user) {
  (void)in_count, (void)out_count, (void)user;
  th_value *top = th_amax(t, in[0], TH_DIMS(-1), true);
  th_value *e = th_exp(t, th_sub(t, in[0], top));
  out[0] = th_div(t, e, th_sum(t, e, TH_DIMS(-1), true));
  return th_tracer_status(t);
}

static th_status run(th_context *ctx, const char *executors, th_tensor *x,
                     record *out_record) {
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *f = NULL;
  th_tensor *y = NULL;
  options.executors = executors;
  options.fuel = 0; // no fusion: one statement a kernel
  options.after = after;
  options.user = out_record;
  th_status status = th_jit(ctx, softmax, NULL, NULL, 1, &options, &f);
  if (status == TH_OK) {
    status = th_call(f, &x, 1, &y, 1);
  }
  th_tensor_release(y);
  th_callable_free(f);
  return status;
}

int main(void) {
  th_context *ctx = th_context_new();
  record host = {.size = 0}, ref = {.size = 0};
  const int64_t dims[] = {3, 5};
  th_tensor *x = NULL;
  bool ok = th_tensor_new(ctx, TH_F32, 2, dims, &x) == TH_OK;
  for (int64_t i = 0; ok && i < 15; i++) {
    th_tensor_set(x, i, sin((double)i));
  }
  ok = ok && run(ctx, "host", x, &host) == TH_OK &&
       run(ctx, "ref", x, &ref) == TH_OK && host.size == ref.size;
  for (int i = 0; ok && i < host.size; i++) {
    float worst = 0;
    for (int64_t k = 0; k < host.count[i]; k++) {
      worst = fmaxf(worst, fabsf(host.values[i][k] - ref.values[i][k]));
    }
    printf("%9.2g  %s\n", (double)worst, ref.statement[i]);
    ok = worst < 1e-6F;
  }
  fputs(th_diagnostics_all(ctx), stderr);
  for (int i = 0; i < MOST; i++) {
    th_text_free(host.statement[i]);
    th_text_free(ref.statement[i]);
    free(host.values[i]);
    free(ref.values[i]);
  }
  th_tensor_release(x);
  th_context_free(ctx);
  return !ok;
}

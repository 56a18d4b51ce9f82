// Uses the installed interface: a function is traced, compiled and called.
// Exit status 0 when the library is the one this was compiled against and the
// result is right.  Compiles as C17 and as C++17.

#include <stdio.h>
#include <string.h>
#include <thunder/thunder.h>

static th_status square(th_tracer *t, th_value *const *in, size_t in_count,
                        th_value **out, size_t out_count, void *user) {
  (void)in_count, (void)out_count, (void)user;
  out[0] = th_mul(t, in[0], in[0]);
  return th_tracer_status(t);
}

static int is_expected_version(void) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "%d.%d.%d", TH_VERSION_MAJOR,
           TH_VERSION_MINOR, TH_VERSION_PATCH);
  return strcmp(th_version(), wanted) == 0;
}

int main(void) {
  const int64_t dims[] = {4};
  th_context *ctx = th_context_new();
  th_callable *f = NULL;
  th_tensor *x = NULL, *y = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "host";
  int good = is_expected_version() && ctx &&
             th_jit(ctx, square, NULL, NULL, 1, &options, &f) == TH_OK &&
             th_tensor_new(ctx, TH_F32, 1, dims, &x) == TH_OK &&
             th_tensor_fill(ctx, x, 3.0) == TH_OK &&
             th_call(f, &x, 1, &y, 1) == TH_OK && th_tensor_get(y, 3) == 9.0;
  if (!good) {
    fputs(th_diagnostics_all(ctx), stderr);
  }
  th_tensor_release(x);
  th_tensor_release(y);
  th_callable_free(f);
  th_context_free(ctx);
  return !good;
}

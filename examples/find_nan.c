// A debug run: the first statement whose result has a NaN that its arguments
// do not have, and where it stands in the source.
#include <thunder/thunder.h>

#include <math.h>
#include <stdio.h>

typedef struct search {
  bool nan_before;
  char *statement; // the culprit
  th_loc loc;
} search;

static bool has_nan(const th_view *v) {
  bool found = false;
  int64_t count = 1, reach = 0;
  for (int d = 0; v && d < v->rank; d++) {
    count *= v->dims[d];
  }
  if (!v || v->dtype != TH_F32) {
    return false;
  }
  for (int64_t i = 0; i < count; i++) { // row-major index to strided position
    reach = 0;
    for (int64_t d = v->rank, rest = i; d-- > 0; rest /= v->dims[d]) {
      reach += rest % v->dims[d] * v->strides[d];
    }
    found = found || isnan(((const float *)v->data)[reach]);
  }
  return found;
}

static void before(void *user, const th_stmt *stmt, const th_view *const *args,
                   uint32_t arg_count) {
  search *s = user;
  (void)stmt;
  s->nan_before = false;
  for (uint32_t i = 0; i < arg_count; i++) {
    s->nan_before = s->nan_before || has_nan(args[i]);
  }
}

static void after(void *user, const th_stmt *stmt, const th_view *const *outs,
                  uint32_t out_count) {
  search *s = user;
  for (uint32_t i = 0; i < out_count && !s->statement && !s->nan_before; i++) {
    if (has_nan(outs[i])) {
      s->statement = th_stmt_text(stmt);
      s->loc = th_stmt_loc(stmt);
    }
  }
}

static th_status normalize(th_tracer *t, th_value *const *in, size_t in_count,
                           th_value **out, size_t out_count, void *user) {
  (void)in_count, (void)out_count, (void)user;
  th_value *centred = th_sub(t, in[0], th_mean(t, in[0], TH_DIMS(-1), true));
  th_value *spread = th_std(t, in[0], TH_DIMS(-1), 1, true);
  out[0] = th_div(t, centred, spread); // 0 / 0 where a row is constant
  out[0] = th_mul_scalar(t, out[0], 2);
  return th_tracer_status(t);
}

int main(void) {
  th_context *ctx = th_context_new();
  search found = {false, NULL, {NULL, 0, 0}};
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = "ref"; // one statement at a time
  options.before = before;
  options.after = after;
  options.user = &found;
  th_callable *f = NULL;
  th_tensor *x = NULL, *y = NULL;
  const int64_t dims[] = {2, 3};
  if (th_jit(ctx, normalize, NULL, NULL, 1, &options, &f) == TH_OK &&
      th_tensor_new(ctx, TH_F32, 2, dims, &x) == TH_OK) {
    th_tensor_set(x, 0, 1); // the second row is constant
    if (th_call(f, &x, 1, &y, 1) == TH_OK && found.statement) {
      printf("%s:%d: the first NaN comes from\n  %s\n", found.loc.file,
             found.loc.line, found.statement);
    }
  }
  fputs(th_diagnostics_all(ctx), stderr);
  bool ok = found.statement != NULL;
  th_text_free(found.statement);
  th_tensor_release(x);
  th_tensor_release(y);
  th_callable_free(f);
  th_context_free(ctx);
  return !ok;
}

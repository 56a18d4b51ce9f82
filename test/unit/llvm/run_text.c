#include "run_text.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_MOST = 8, RUN_TEXT = 8192 };

typedef struct run_values {
  char name[32], type[96]; // the type as in traces
  const char *numbers;     // up to ';' or the end
} run_values;

typedef struct run_state {
  const run_case *c;
  th_context *ctx;
  run_values in[RUN_MOST], want[RUN_MOST];
  th_tensor *inputs[RUN_MOST], *outputs[RUN_MOST];
  size_t in_count, want_count;
  char text[RUN_TEXT];
} run_state;

// "name [type] = numbers; ..."
static size_t run_split(const char *text, run_values *out) {
  size_t n = 0;
  for (const char *at = text; *at; n++) {
    cr_assert(n < RUN_MOST, "%s", text);
    const char *equal = strstr(at, " = ");
    cr_assert(equal, "no ' = ' in: %s", at);
    size_t name = strcspn(at, " ");
    snprintf(out[n].name, sizeof out[n].name, "%.*s", (int)name, at);
    const char *type = at + name < equal ? at + name + 1 : equal;
    snprintf(out[n].type, sizeof out[n].type, "%.*s", (int)(equal - type),
             type);
    out[n].numbers = equal + 3;
    at = equal + 3;
    at += strcspn(at, ";");
    at += *at ? 2 : 0;
  }
  return n;
}

static bool run_next(const char **at, double *number) {
  while (**at == ' ') {
    ++*at;
  }
  char *end = NULL;
  *number = **at && **at != ';' ? strtod(*at, &end) : 0;
  bool found = end && end != *at;
  *at = found ? end : *at;
  return found;
}

// The sizes of "f32[2, s0=3]", and the text without "=3".
static int run_dims(char *type, int64_t *dims) {
  char *from = strchr(type, '['), *to = from;
  int rank = 0;
  cr_assert(from, "no sizes in: %s", type);
  for (; *from; from++) {
    bool is_start = from[0] == '[' || from[0] == ' ';
    if (isdigit((unsigned char)from[1]) && (is_start || *from == '=') &&
        !strchr(type, '{')) {
      dims[rank++] = strtol(from + 1, NULL, 10);
    }
    if (*from == '=') {
      from += strspn(from + 1, "0123456789");
      continue;
    }
    *to++ = *from;
  }
  *to = 0;
  return rank;
}

static void run_input(run_state *s, size_t i) {
  run_values *v = &s->in[i];
  int64_t dims[TH_MAX_RANK];
  int rank = run_dims(v->type, dims);
  char dtype[16];
  snprintf(dtype, sizeof dtype, "%.*s", (int)strcspn(v->type, "["), v->type);
  cr_assert_eq(
      th_tensor_new(s->ctx, th_dtype_parse(dtype), rank, dims, &s->inputs[i]),
      TH_OK, "%s", th_diagnostics_all(s->ctx));
  const char *at = v->numbers;
  for (int64_t k = 0; k < th_tensor_numel(s->inputs[i]); k++) {
    double number = 0;
    int64_t integer = strtoll(at, NULL, 10);
    cr_assert(run_next(&at, &number), "too few numbers in: %s", v->numbers);
    if (th_dtype_is_float(th_tensor_dtype(s->inputs[i]))) {
      th_tensor_set(s->inputs[i], k, number);
    } else {
      th_tensor_set_int(s->inputs[i], k, integer);
    }
  }
}

static void run_put(run_state *s, const char *format, const char *a,
                    const char *b) {
  size_t n = strlen(s->text);
  snprintf(s->text + n, sizeof s->text - n, format, a, b);
}

static void run_write(run_state *s) {
  run_put(s, "%s", "def computation(", "");
  for (size_t i = 0; i < s->in_count; i++) {
    run_put(s, "%s%s", i ? ", " : "", s->in[i].name);
  }
  run_put(s, "%s", "):\n", "");
  for (size_t i = 0; i < s->in_count; i++) {
    run_put(s, "  # %s: \"cpu %s\"\n", s->in[i].name, s->in[i].type);
  }
  for (int digit = 0; digit <= 9; digit++) {
    const char name[] = {'s', (char)('0' + digit), 0};
    if (strstr(s->c->inputs, name)) {
      run_put(s, "  # %s: \"int\" in [0, 64]\n", name, "");
    }
  }
  for (const char *at = s->c->body; *at;) {
    char line[512];
    size_t size = strcspn(at, "\n");
    snprintf(line, sizeof line, "%.*s", (int)size, at);
    run_put(s, "  %s\n", line, "");
    at += size + (at[size] != 0);
  }
  run_put(s, "%s", "  return {'output': (", "");
  for (size_t i = 0; i < s->want_count; i++) {
    run_put(s, "%s,%s", s->want[i].name, i + 1 < s->want_count ? " " : "");
  }
  run_put(s, "%s", ")}\n", "");
}

static bool run_close(double got, double want, double tolerance) {
  if (isnan(want) || isinf(want) || tolerance == 0) {
    return isnan(want) ? isnan(got)
                       : got == want && !signbit(got) == !signbit(want);
  }
  return fabs(got - want) <= tolerance * (1 + fabs(want));
}

static void run_compare(run_state *s, size_t i) {
  const th_tensor *got = s->outputs[i];
  const char *at = s->want[i].numbers;
  double want = 0;
  int64_t n = th_tensor_numel(got);
  for (int64_t k = 0; k < n; k++) {
    cr_assert(run_next(&at, &want), "%s: %s: %lld numbers, wanted fewer",
              s->c->body, s->want[i].name, (long long)n);
    double have = th_tensor_get(got, k);
    cr_expect(run_close(have, want, s->c->tolerance),
              "%s: %s[%lld] is %.9g, wanted %.9g", s->c->body, s->want[i].name,
              (long long)k, have, want);
  }
  cr_expect(!run_next(&at, &want), "%s: %s: %lld numbers, wanted more",
            s->c->body, s->want[i].name, (long long)n);
}

static void run_call(run_state *s, th_callable *callable, const char *error) {
  th_status status =
      th_call(callable, s->inputs, s->in_count, s->outputs, s->want_count);
  const char *said = th_diagnostics_all(s->ctx);
  if (error) {
    cr_expect_neq(status, TH_OK, "%s: no error", s->c->body);
    cr_expect(strstr(said, error), "%s: said: %s", s->c->body, said);
    return;
  }
  cr_assert_eq(status, TH_OK, "%s: %s", s->c->body, said);
  for (size_t i = 0; i < s->want_count; i++) {
    run_compare(s, i);
  }
}

void run_text_passes(const run_case *c, const char *executors,
                     const char *passes) {
  static run_state s;
  th_callable *callable = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  const char *error = strncmp(c->want, "error: ", 7) ? NULL : c->want + 7;
  s = (run_state){.c = c, .ctx = th_context_new()};
  options.executors = executors;
  options.passes = passes;
  options.threads = 1;
  s.in_count = run_split(c->inputs, s.in);
  s.want_count = run_split(error ? "t = 0" : c->want, s.want);
  for (size_t i = 0; i < s.in_count; i++) {
    run_input(&s, i);
  }
  run_write(&s);
  cr_assert_eq(
      th_jit_text(s.ctx, "test", s.text, strlen(s.text), &options, &callable),
      TH_OK, "%s\n%s", s.text, th_diagnostics_all(s.ctx));
  run_call(&s, callable, error);
  th_callable_free(callable);
  for (size_t i = 0; i < RUN_MOST; i++) {
    th_tensor_release(s.inputs[i]);
    th_tensor_release(s.outputs[i]);
  }
  th_context_free(s.ctx);
}

void run_text(const run_case *c, const char *executors) {
  run_text_passes(c, executors, "claim");
}

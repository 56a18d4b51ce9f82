// --cases: runs recorded cases and compares every tensor and number.
//
// One compilation serves all cases of a program; buffers that a case writes
// are put back afterwards.  The file's format is in the README of the
// conformance cases; tests/conformance has small ones.
#include "run.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cases {
  th_context *ctx;
  const run_options *options;
  th_pt2 *archive;
  th_safetensors *file;
  json_t *all; // case name -> entry
  size_t passed, failed;
} cases;

// A buffer before the call, so that the next case finds it as it was.
typedef struct cases_saved {
  char *what;
  th_tensor *copy;
  struct cases_saved *next;
} cases_saved;

// One case in one program.
typedef struct cases_run {
  cases *c;
  const char *name, *data, *program;
  json_t *entry;
  double rtol, atol;
  th_callable *callable;
  th_leaf *inputs, *outputs;
  size_t input_count, output_count;
  size_t off; // tensors that differ
  cases_saved *saved;
} cases_run;

static void cases_off(cases_run *r, const char *tensor, const char *what) {
  printf("%s: %s: %s: %s\n", r->name, r->program, tensor, what);
  r->off++;
}

// ---- reading

static th_tensor *cases_tensor(cases_run *r, const char *kind,
                               const char *what) {
  char name[1024];
  th_tensor *tensor = NULL;
  snprintf(name, sizeof name, "%s.%s.%s", r->data, kind, what);
  if (!th_safetensors_has(r->c->file, name) ||
      th_safetensors_tensor(r->c->file, name, &tensor) != TH_OK) {
    return NULL;
  }
  return tensor;
}

static th_leaf cases_scalar(json_t *value) {
  th_leaf leaf = {.kind = TH_LEAF_NONE};
  if (json_is_boolean(value)) {
    leaf = (th_leaf){.kind = TH_LEAF_BOOL, .i = json_is_true(value)};
  } else if (json_is_integer(value)) {
    leaf = (th_leaf){.kind = TH_LEAF_INT, .i = json_integer_value(value)};
  } else if (json_is_real(value)) {
    leaf = (th_leaf){.kind = TH_LEAF_FLOAT, .f = json_real_value(value)};
  } else if (json_is_string(value)) {
    leaf = (th_leaf){.kind = TH_LEAF_STRING, .text = json_string_value(value)};
  }
  return leaf;
}

// Calls fn for each tensor DATA.KIND.WHAT of the file.
static void cases_each(cases_run *r, const char *kind,
                       void (*fn)(cases_run *r, const char *what,
                                  th_tensor *want)) {
  char prefix[512];
  size_t n = (size_t)snprintf(prefix, sizeof prefix, "%s.%s.", r->data, kind);
  for (size_t i = 0; i < th_safetensors_count(r->c->file); i++) {
    const char *name = th_safetensors_name(r->c->file, i);
    if (strncmp(name, prefix, n) == 0) {
      th_tensor *want = cases_tensor(r, kind, name + n);
      fn(r, name + n, want);
      th_tensor_release(want);
    }
  }
}

// ---- layouts: the strides that a case wants

static void cases_set(th_tensor *to, const th_tensor *from) {
  int64_t n = th_tensor_numel(from);
  for (int64_t i = 0; i < n; i++) {
    if (th_dtype_is_float(th_tensor_dtype(from))) {
      th_tensor_set(to, i, th_tensor_get(from, i));
    } else {
      th_tensor_set_int(to, i, th_tensor_get_int(from, i));
    }
  }
}

static th_status cases_lay_out(cases_run *r, json_t *layout,
                               th_tensor **tensor) {
  th_context *ctx = r->c->ctx;
  int64_t strides[TH_MAX_RANK];
  json_t *wanted = json_object_get(layout, "stride");
  int64_t storage = json_integer_value(json_object_get(layout, "storage"));
  int64_t offset = json_integer_value(json_object_get(layout, "offset"));
  int rank = th_tensor_rank(*tensor);
  th_tensor *base = NULL, *window = NULL;
  for (int d = 0; d < rank; d++) {
    strides[d] = json_integer_value(json_array_get(wanted, (size_t)d));
  }
  th_status status =
      th_tensor_new(ctx, th_tensor_dtype(*tensor), 1, &storage, &base);
  if (status == TH_OK) {
    status = th_tensor_view(ctx, base, rank, th_tensor_dims(*tensor), strides,
                            offset, &window);
  }
  th_tensor_release(base);
  if (status == TH_OK) {
    cases_set(window, *tensor);
    th_tensor_release(*tensor);
    *tensor = window;
  }
  return status;
}

static th_status cases_input(cases_run *r, size_t index) {
  char key[32];
  th_leaf *leaf = &r->inputs[index];
  snprintf(key, sizeof key, "%zu", index);
  th_tensor *tensor = cases_tensor(r, "in", key);
  if (!tensor) {
    json_t *scalars = json_object_get(r->entry, "scalars");
    *leaf = cases_scalar(json_object_get(scalars, key));
    return TH_OK;
  }
  // A copy: a case may write to its inputs.
  *leaf = (th_leaf){.kind = TH_LEAF_TENSOR};
  th_status status = th_tensor_clone(r->c->ctx, tensor, &leaf->tensor);
  th_tensor_release(tensor);
  json_t *layout = json_array_get(json_object_get(r->entry, "in"), index);
  if (status == TH_OK && json_is_object(layout)) {
    status = cases_lay_out(r, layout, &leaf->tensor);
  }
  return status;
}

// ---- comparing

static void cases_difference(cases_run *r, const char *tensor,
                             const th_tensor *got, const th_tensor *want,
                             th_status status, const th_difference *d) {
  char text[1024], a[256], b[256];
  if (status != TH_OK) {
    snprintf(text, sizeof text, "got %s, wanted %s",
             th_tensor_describe(got, a, sizeof a),
             th_tensor_describe(want, b, sizeof b));
    th_diagnostics_clear(r->c->ctx);
  } else {
    snprintf(text, sizeof text,
             "%" PRId64 " off, largest error %.6g at %" PRId64
             ", got %.9g, wanted %.9g",
             d->count, d->error, d->index, d->got, d->want);
  }
  cases_off(r, tensor, text);
}

static void cases_compare(cases_run *r, const char *tensor,
                          const th_tensor *got, const th_tensor *want) {
  th_difference d = {0};
  th_status status =
      th_tensor_compare(r->c->ctx, got, want, r->rtol, r->atol, &d);
  if (status != TH_OK || d.count) {
    cases_difference(r, tensor, got, want, status, &d);
  }
}

static bool cases_same_number(const th_leaf *got, const th_leaf *want) {
  if (got->kind != want->kind) {
    return false;
  }
  switch (got->kind) {
  case TH_LEAF_FLOAT:
    return fabs(got->f - want->f) <= 1e-6 * fabs(want->f) ||
           (isnan(got->f) && isnan(want->f)) || got->f == want->f;
  case TH_LEAF_STRING:
    return strcmp(got->text, want->text) == 0;
  case TH_LEAF_INT:
  case TH_LEAF_BOOL:
    return got->i == want->i;
  default:
    return true;
  }
}

static void cases_check_output(cases_run *r, size_t index) {
  char key[32], name[48];
  const th_leaf *got = &r->outputs[index];
  snprintf(key, sizeof key, "%zu", index);
  snprintf(name, sizeof name, "out.%zu", index);
  th_tensor *want = cases_tensor(r, "out", key);
  if (want && got->kind == TH_LEAF_TENSOR) {
    cases_compare(r, name, got->tensor, want);
  } else if (want) {
    cases_off(r, name, "got no tensor, wanted one");
  } else {
    json_t *scalar =
        json_object_get(json_object_get(r->entry, "out_scalars"), key);
    th_leaf number = cases_scalar(scalar);
    if (scalar && !cases_same_number(got, &number)) {
      cases_off(r, name, "got another number than wanted");
    } else if (!scalar && got->kind != TH_LEAF_NONE) {
      cases_off(r, name, "got a result, wanted none");
    }
  }
  th_tensor_release(want);
}

// What was recorded and the program does not have.

static void cases_check_is_input(cases_run *r, const char *what,
                                 th_tensor *want) {
  char name[512];
  (void)want;
  if (strtoul(what, NULL, 10) >= r->input_count) {
    snprintf(name, sizeof name, "in.%s", what);
    cases_off(r, name, "the program takes no such input");
  }
}

static void cases_check_is_output(cases_run *r, const char *what,
                                  th_tensor *want) {
  char name[512];
  (void)want;
  if (strtoul(what, NULL, 10) >= r->output_count) {
    snprintf(name, sizeof name, "out.%s", what);
    cases_off(r, name, "the program gives no such output");
  }
}

static void cases_check_counts(cases_run *r) {
  const char *what = NULL;
  json_t *value = NULL;
  cases_each(r, "in", cases_check_is_input);
  json_object_foreach(json_object_get(r->entry, "scalars"), what, value) {
    cases_check_is_input(r, what, NULL);
  }
  cases_each(r, "out", cases_check_is_output);
  json_object_foreach(json_object_get(r->entry, "out_scalars"), what, value) {
    cases_check_is_output(r, what, NULL);
  }
}

// ---- what a call writes: inputs by index, buffers by name

static th_tensor *cases_written(const cases_run *r, const char *what) {
  char *end = NULL;
  unsigned long index = strtoul(what, &end, 10);
  if (*end == 0 && index < r->input_count) {
    return r->inputs[index].tensor;
  }
  return th_callable_state(r->callable, what);
}

static void cases_check_written(cases_run *r, const char *what,
                                th_tensor *want) {
  char name[512];
  th_tensor *got = cases_written(r, what);
  snprintf(name, sizeof name, "mut.%s", what);
  if (!got) {
    cases_off(r, name, "there is no such input or buffer");
  } else {
    cases_compare(r, name, got, want);
  }
}

static void cases_save(cases_run *r, const char *what, th_tensor *want) {
  (void)want;
  th_tensor *state = th_callable_state(r->callable, what);
  cases_saved *saved = state ? calloc(1, sizeof *saved) : NULL;
  if (saved) {
    saved->what = strdup(what);
    if (th_tensor_clone(r->c->ctx, state, &saved->copy) == TH_OK) {
      saved->next = r->saved;
      r->saved = saved;
    } else {
      free(saved->what);
      free(saved);
    }
  }
}

static void cases_restore(cases_run *r) {
  while (r->saved) {
    cases_saved *saved = r->saved;
    th_tensor *state = th_callable_state(r->callable, saved->what);
    if (th_tensor_copy(r->c->ctx, state, saved->copy) != TH_OK) {
      cases_off(r, saved->what, "cannot be put back");
    }
    r->saved = saved->next;
    th_tensor_release(saved->copy);
    free(saved->what);
    free(saved);
  }
}

// ---- one case

static void cases_call(cases_run *r) {
  th_status status = TH_OK;
  for (size_t i = 0; i < r->input_count && status == TH_OK; i++) {
    status = cases_input(r, i);
  }
  cases_each(r, "mut", cases_save);
  if (status == TH_OK) {
    status = th_call_leaves(r->callable, NULL, r->inputs, r->input_count,
                            r->outputs, r->output_count);
  }
  if (status != TH_OK) {
    cases_off(r, "call", th_status_text(status));
    run_report(r->c->ctx);
  } else {
    for (size_t i = 0; i < r->output_count; i++) {
      cases_check_output(r, i);
    }
    cases_check_counts(r);
    cases_each(r, "mut", cases_check_written);
  }
  cases_restore(r);
}

static double cases_tolerance(json_t *entry, const char *key) {
  json_t *value = json_object_get(entry, key);
  return json_is_number(value) ? json_number_value(value) : 0;
}

static void cases_one(cases *c, const char *name, json_t *entry,
                      const char *program, th_callable *callable) {
  json_t *data = json_object_get(entry, "data");
  cases_run r = {.c = c,
                 .name = name,
                 .data = json_is_string(data) ? json_string_value(data) : name,
                 .program = program,
                 .entry = entry,
                 .rtol = cases_tolerance(entry, "rtol"),
                 .atol = cases_tolerance(entry, "atol"),
                 .callable = callable,
                 .input_count = th_callable_input_count(callable),
                 .output_count = th_callable_output_count(callable)};
  r.inputs = calloc(r.input_count + 1, sizeof *r.inputs);
  r.outputs = calloc(r.output_count + 1, sizeof *r.outputs);
  if (r.inputs && r.outputs) {
    cases_call(&r);
  } else {
    r.off++;
  }
  run_free_leaves(r.inputs, r.input_count);
  run_free_leaves(r.outputs, r.output_count);
  *(r.off ? &c->failed : &c->passed) += 1;
}

// ---- all cases of a program

static bool cases_lists(const char *name, json_t *entry, const char *program) {
  json_t *programs = json_object_get(entry, "programs");
  size_t i = 0;
  json_t *p = NULL;
  if (!json_is_array(programs)) {
    return strcmp(name, program) == 0; // operation files: a program each
  }
  json_array_foreach(programs, i, p) {
    if (json_is_string(p) && strcmp(json_string_value(p), program) == 0) {
      return true;
    }
  }
  return false;
}

static size_t cases_count(const cases *c, const char *program) {
  const char *name = NULL;
  json_t *entry = NULL;
  size_t n = 0;
  json_object_foreach(c->all, name, entry) {
    n += cases_lists(name, entry, program);
  }
  return n;
}

static void cases_program(cases *c, const char *program) {
  th_callable *callable = NULL;
  const char *name = NULL;
  json_t *entry = NULL;
  size_t n = cases_count(c, program);
  if (!n) {
    return;
  }
  if (run_compile(c->ctx, c->options, c->archive, program, &callable) !=
      TH_OK) {
    printf("%s: compile: failed\n", program);
    run_report(c->ctx);
    c->failed += n;
    return;
  }
  if (c->options->claims) {
    run_print_claims(callable);
  }
  json_object_foreach(c->all, name, entry) {
    if (cases_lists(name, entry, program)) {
      cases_one(c, name, entry, program, callable);
    }
  }
  th_callable_free(callable);
}

int run_cases(th_context *ctx, const run_options *options, th_pt2 *archive) {
  cases c = {.ctx = ctx, .options = options, .archive = archive};
  if (th_safetensors_open(ctx, options->cases, &c.file) != TH_OK) {
    return 1;
  }
  json_error_t error;
  const char *text = th_safetensors_metadata(c.file, "cases");
  c.all = text ? json_loads(text, 0, &error) : NULL;
  if (!json_is_object(c.all)) {
    fprintf(stderr, "%s: the metadata has no cases\n", options->cases);
    json_decref(c.all);
    th_safetensors_free(c.file);
    return 1;
  }
  for (size_t i = 0; i < th_pt2_program_count(archive); i++) {
    const char *program = th_pt2_program_name(archive, i);
    if (!options->program || strcmp(options->program, program) == 0) {
      cases_program(&c, program);
    }
  }
  if (!c.passed && !c.failed) {
    fprintf(stderr, "%s: no case is for %s%s\n", options->cases,
            options->program ? "program " : "a program of the archive",
            options->program ? options->program : "");
  }
  printf("%zu passed, %zu failed\n", c.passed, c.failed);
  json_decref(c.all);
  th_safetensors_free(c.file);
  return c.failed || !c.passed ? 1 : 0;
}

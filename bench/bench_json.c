// A figure as a line of JSON, and what got slower since an older line.
#include "bench_figures.h"

#include <jansson.h>

static json_t *json_number_or_null(const bench_result *r, double value) {
  return r->reference ? json_real(value) : json_null();
}

bool bench_write(FILE *out, const bench_result *r) {
  json_t *line = json_pack(
      "{s:s, s:i, s:f, s:f, s:f, s:s?, s:o, s:o, s:o, s:o, s:i, s:s, s:s}",
      "name", r->name, "threads", r->threads, "ours_ms", r->ours.median,
      "ours_low_ms", r->ours.low, "ours_high_ms", r->ours.high, "reference",
      r->reference, "reference_ms", json_number_or_null(r, r->reference_ms),
      "ratio", json_number_or_null(r, r->ratio.median), "low",
      json_number_or_null(r, r->ratio.low), "high",
      json_number_or_null(r, r->ratio.high), "pairs", r->pairs, "cpu", r->cpu,
      "commit", r->commit);
  bool ok = line && json_dumpf(line, out, JSON_REAL_PRECISION(6)) == 0 &&
            fputc('\n', out) != EOF && fflush(out) == 0;
  json_decref(line);
  return ok;
}

// ---- reading

struct bench_older {
  json_t *lines; // objects, oldest first
};

static bool older_has(const json_t *line, const char *key, json_type type) {
  const json_t *value = json_object_get(line, key);
  return value && (json_typeof(value) == type ||
                   (type == JSON_REAL && json_is_integer(value)));
}

// Whether a line has what a comparison asks for.
static bool older_is_line(const json_t *line) {
  static const char *const ours[] = {"ours_ms", "ours_low_ms", "ours_high_ms"};
  static const char *const pair[] = {"ratio", "low", "high"};
  bool alone = json_is_null(json_object_get(line, "reference"));
  const char *const *numbers = alone ? ours : pair;
  bool ok = older_has(line, "name", JSON_STRING) &&
            older_has(line, "threads", JSON_INTEGER) &&
            older_has(line, "cpu", JSON_STRING) &&
            older_has(line, "commit", JSON_STRING) &&
            (alone || older_has(line, "reference", JSON_STRING));
  for (int i = 0; i < 3; i++) {
    ok = ok && older_has(line, numbers[i], JSON_REAL);
  }
  return ok;
}

void bench_older_free(bench_older *older) {
  if (older) {
    json_decref(older->lines);
    free(older);
  }
}

static bool older_take(bench_older *older, const char *text) {
  json_t *line = json_loads(text, 0, NULL);
  if (!older_is_line(line)) {
    json_decref(line);
    return false;
  }
  return json_array_append_new(older->lines, line) == 0;
}

bench_older *bench_older_read(const char *path) {
  FILE *f = fopen(path, "r");
  if (!f) {
    bench_say("%s: cannot be read", path);
    return NULL;
  }
  bench_older *older = calloc(1, sizeof *older);
  bool ok = older && (older->lines = json_array());
  char *text = NULL;
  size_t size = 0;
  for (int number = 1; ok && getline(&text, &size, f) >= 0; number++) {
    ok = older_take(older, text);
    if (!ok) {
      bench_say("%s:%d: no line of a figure", path, number);
    }
  }
  free(text);
  fclose(f);
  if (!ok) {
    bench_older_free(older);
    return NULL;
  }
  return older;
}

// ---- comparing

static const char *older_text(const json_t *line, const char *key) {
  return json_string_value(json_object_get(line, key));
}

static double older_number(const json_t *line, const char *key) {
  return json_number_value(json_object_get(line, key));
}

static bool older_matches(const json_t *line, const bench_result *r) {
  const char *reference = older_text(line, "reference");
  const bench_figure *figure = bench_find(older_text(line, "name"));
  bool same = reference && r->reference ? strcmp(reference, r->reference) == 0
                                        : !reference && !r->reference;
  return same && figure && strcmp(figure->name, r->name) == 0 &&
         json_integer_value(json_object_get(line, "threads")) == r->threads &&
         strcmp(older_text(line, "cpu"), r->cpu) == 0;
}

static void older_print(const json_t *line, const bench_result *r) {
  printf("slower: %s, %d thread%s: ", r->name, r->threads,
         r->threads == 1 ? "" : "s");
  if (r->reference) {
    printf("%.3f of %s (%.3f to %.3f), %.3f (%.3f to %.3f) at %s\n",
           r->ratio.median, r->reference, r->ratio.low, r->ratio.high,
           older_number(line, "ratio"), older_number(line, "low"),
           older_number(line, "high"), older_text(line, "commit"));
  } else {
    printf("%.4g ms (%.4g to %.4g), %.4g (%.4g to %.4g) at %s\n",
           r->ours.median, r->ours.low, r->ours.high,
           older_number(line, "ours_ms"), older_number(line, "ours_low_ms"),
           older_number(line, "ours_high_ms"), older_text(line, "commit"));
  }
}

bench_verdict bench_older_compare(const bench_older *older,
                                  const bench_result *r) {
  const json_t *newest = NULL;
  for (size_t i = 0; i < json_array_size(older->lines); i++) {
    const json_t *line = json_array_get(older->lines, i);
    newest = older_matches(line, r) ? line : newest;
  }
  if (!newest) {
    return BENCH_NEW;
  }
  bool slower = r->reference
                    ? r->ratio.high < older_number(newest, "low")
                    : r->ours.low > older_number(newest, "ours_high_ms");
  if (slower) {
    older_print(newest, r);
  }
  return slower ? BENCH_SLOWER : BENCH_KEPT;
}

// The JSON reader and the pickle reader.
#include "base/json.h"
#include "frontend/pickle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

typedef struct parse_job {
  th_context *ctx;
  th_arena arena;
  const char *text;
  size_t size;
  const th_json *json;
  th_pickle *pickle;
} parse_job;

static th_status parse_json(void *arg) {
  parse_job *job = arg;
  return th_json_parse(job->ctx, &job->arena, "t.json", 0, job->text, job->size,
                       &job->json);
}

static th_status parse_pickle(void *arg) {
  parse_job *job = arg;
  return th_pickle_read(job->ctx, &job->arena, "t.pkl", job->text, job->size,
                        &job->pickle);
}

static parse_job job_new(const char *text, size_t size) {
  parse_job job = {.ctx = th_context_new(), .text = text, .size = size};
  th_arena_init(&job.arena, &job.ctx->unwind);
  return job;
}

static void job_free(parse_job *job) {
  th_arena_deinit(&job->arena);
  th_context_free(job->ctx);
}

static parse_job json_of(const char *text) {
  parse_job job = job_new(text, strlen(text));
  cr_assert_eq(th_protect(&job.ctx->unwind, parse_json, &job), TH_OK, "%s",
               th_diagnostics_all(job.ctx));
  return job;
}

static void json_fails(const char *text, size_t size, const char *error) {
  parse_job job = job_new(text, size);
  cr_assert_eq(th_protect(&job.ctx->unwind, parse_json, &job), TH_PARSE);
  cr_assert(strstr(th_diagnostics_all(job.ctx), error) != NULL, "%s",
            th_diagnostics_all(job.ctx));
  job_free(&job);
}

Test(json, values) {
  parse_job job = json_of(
      "{\"i\": 9223372036854775807, \"n\": -9223372036854775808,\n"
      " \"f\": 1.5e-3, \"l\": [[], {}, null, true, false], \"e\": \"\"}");
  const th_json *v = job.json;
  cr_assert_eq(v->count, 5);
  cr_assert_eq(th_json_get(v, "i")->i, INT64_MAX);
  cr_assert_eq(th_json_get(v, "n")->i, INT64_MIN);
  cr_assert_eq(th_json_get(v, "f")->f, 1.5e-3);
  const th_json *list = th_json_get(v, "l");
  th_json_kind kinds[5];
  int n = 0;
  for (TH_JSON_EACH(item, list)) {
    kinds[n++] = item->kind;
  }
  cr_assert_eq(n, 5);
  cr_assert_eq(kinds[0], TH_JSON_ARRAY);
  cr_assert_eq(kinds[1], TH_JSON_OBJECT);
  cr_assert_eq(kinds[2], TH_JSON_NULL);
  cr_assert_str_eq(th_json_get(v, "e")->text, "");
  cr_assert_null(th_json_get(v, "x"));
  cr_assert_null(th_json_get(list, "x"));
  job_free(&job);
}

Test(json, bare_infinities) {
  parse_job job = json_of("[-Infinity, Infinity, NaN]");
  const th_json *v = th_json_first(job.json);
  cr_assert_eq(v[0].f, -INFINITY);
  cr_assert_eq(v[1].f, INFINITY);
  cr_assert(isnan(v[2].f));
  job_free(&job);
}

Test(json, strings) {
  parse_job job = json_of("\"a\\n\\\"\\u00e9\\ud83d\\ude00\xc3\xa9\"");
  cr_assert_str_eq(job.json->text, "a\n\"\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9");
  job_free(&job);
}

Test(json, errors_name_the_byte) {
  json_fails("", 0, "t.json: error: byte 0: the text ends");
  json_fails("[1, 2", 5, "byte 5: expected ',' or ']'");
  json_fails("{\"a\" 1}", 7, "byte 5: expected ':'");
  json_fails("{a: 1}", 6, "byte 1: expected a key");
  json_fails("[1] 2", 5, "byte 4: something follows");
  json_fails("9223372036854775808", 19, "does not fit into 64 bits");
  json_fails("\"abc", 4, "ends inside a string");
  json_fails("\"\\u0000\"", 8, "zero byte");
  json_fails("\"\\x\"", 4, "unknown escape");
  json_fails("\"\xff\"", 3, "not UTF-8");
  json_fails("\"\n\"", 3, "control character");
  json_fails("[+1]", 4, "expected a value");
}

Test(json, depth_is_limited) {
  char deep[4096];
  memset(deep, '[', sizeof deep);
  json_fails(deep, sizeof deep, "nested too deeply");
}

// ---- pickles

static parse_job pickle_of(const char *bytes, size_t size, th_status status) {
  parse_job job = job_new(bytes, size);
  cr_assert_eq(th_protect(&job.ctx->unwind, parse_pickle, &job), status, "%s",
               th_diagnostics_all(job.ctx));
  return job;
}
#define PICKLE(text, status) pickle_of(text, sizeof text - 1, status)

Test(pickle, plain_values) {
  // {'a': (1, -2, 0.5, None, True)}
  parse_job job = PICKLE("\x80\x02}X\x01\x00\x00\x00"
                         "a(K\x01J\xfe\xff\xff\xff"
                         "G?\xe0\x00\x00\x00\x00\x00\x00N\x88ts.",
                         TH_OK);
  cr_assert_eq(job.pickle->kind, TH_PICKLE_DICT);
  cr_assert_eq(job.pickle->count, 2);
  cr_assert_str_eq(job.pickle->items[0]->text, "a");
  const th_pickle *tuple = job.pickle->items[1];
  cr_assert_eq(tuple->count, 5);
  cr_assert_eq(tuple->items[1]->i, -2);
  cr_assert_eq(tuple->items[2]->f, 0.5);
  job_free(&job);
}

Test(pickle, nothing_is_executed) {
  parse_job job = PICKLE("\x80\x02"
                         "cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
                         TH_UNSUPPORTED);
  cr_assert(strstr(th_diagnostics_all(job.ctx), "'os.system' is not allowed") !=
            NULL);
  job_free(&job);
}

Test(pickle, malformed) {
  static const struct {
    const char *bytes;
    size_t size;
  } bad[] = {
#define BAD(text) {text, sizeof text - 1}
      BAD(""),
      BAD("."),
      BAD("\x80"),
      BAD("t."),
      BAD("\x85."),
      BAD("h\x05."),
      BAD("q\x00."),
      BAD("R."),
      BAD("(s."),
      BAD("]K\x01u."),
      BAD("(K\x01u."),
      BAD("}(K\x01u."),
      BAD("X\xff\xff\xff\xff."),
      BAD("\x8a\x09........."),
      BAD("Nr\xff\xff\xff\xff."),
      BAD("NQ."),
      BAD("ctorch\nFloatStorage\n)R."),
      BAD("ctorch._utils"),
#undef BAD
  };
  for (size_t i = 0; i < TH_COUNT(bad); i++) {
    parse_job job = pickle_of(bad[i].bytes, bad[i].size, TH_PARSE);
    cr_assert_eq(th_diagnostic_count(job.ctx), 1);
    job_free(&job);
  }
}

// The profile of a callable: bytes, flops and modules of known steps.
#include "thunder/thunder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static th_context *ctx;

static void profile_setup(void) { ctx = th_context_new(); }
static void profile_teardown(void) { th_context_free(ctx); }
TestSuite(profile, .init = profile_setup, .fini = profile_teardown);

#define OK(expr)                                                               \
  do {                                                                         \
    th_status ok_ = (expr);                                                    \
    cr_assert(ok_ == TH_OK, "%s: %s\n%s", #expr, th_status_text(ok_),          \
              th_diagnostics_all(ctx));                                        \
  } while (0)

static th_callable *profile_jit(const char *executors, const char *text) {
  th_callable *c = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.executors = executors;
  options.threads = 1;
  options.profile = true;
  OK(th_jit_text(ctx, "profile.trace", text, strlen(text), &options, &c));
  return c;
}

// Ones; an index is 0.  Symbolic sizes are `size`.
static void profile_call(th_callable *c, int64_t size) {
  th_tensor *in[8] = {0}, *out[2] = {0};
  size_t n = th_callable_input_count(c), m = th_callable_output_count(c);
  for (size_t i = 0; i < n; i++) {
    int64_t dims[TH_MAX_RANK];
    int rank = th_callable_input_rank(c, i);
    th_dtype dtype = (th_dtype)th_callable_input_dtype(c, i);
    for (int d = 0; d < rank; d++) {
      dims[d] = th_callable_input_dim(c, i, d, size);
    }
    OK(th_tensor_new(ctx, dtype, rank, dims, &in[i]));
    for (int64_t k = 0; k < th_tensor_numel(in[i]); k++) {
      th_tensor_set(in[i], k, th_dtype_is_float(dtype) ? 1 : 0);
    }
  }
  OK(th_call(c, in, n, out, m));
  for (size_t i = 0; i < 8; i++) {
    th_tensor_release(in[i]);
  }
  th_tensor_release(out[0]);
  th_tensor_release(out[1]);
}

typedef struct profile_case {
  const char *body; // of f(x, y, z), whose types are those below
  const char *x, *y, *z;
  uint64_t bytes, flops;
} profile_case;

// One statement, one step.
static void profile_expect(const profile_case *p, const char *executors) {
  char text[1024];
  snprintf(text, sizeof text,
           "def f(x, y, z):\n  # s0: \"int\" in [1, inf]\n  # x: \"cpu %s\"\n  "
           "# y: \"cpu %s\"\n"
           "  # z: \"cpu %s\"\n  t = %s\n  return {'output': t}\n",
           p->x, p->y, p->z, p->body);
  th_callable *c = profile_jit(executors, text);
  th_profile_row row = TH_PROFILE_ROW_INIT;
  profile_call(c, 3);
  th_callable_profile_reset(c);
  profile_call(c, 3);
  profile_call(c, 3);
  cr_assert(th_callable_profile(c, 0, &row), "%s", p->body);
  cr_expect_eq(row.calls, 2);
  cr_expect_gt(row.nanoseconds, 0);
  cr_expect_eq(row.bytes, 2 * p->bytes, "%s: %llu bytes", p->body,
               (unsigned long long)row.bytes);
  cr_expect_eq(row.flops, 2 * p->flops, "%s: %llu flops", p->body,
               (unsigned long long)row.flops);
  cr_expect_not(th_callable_profile(c, 1, &row), "%s: %s", p->body, row.name);
  th_callable_free(c);
}

#define SDPA "scaled_dot_product_attention(x, y, z, None, 0.0, "

static const profile_case profile_cases[] = {
    {"matmul(x, y)", "f32[3, 4]", "f32[4, 5]", "f32[1]",
     4 * (3 * 4 + 4 * 5 + 3 * 5), 2 * 3 * 5 * 4},
    {"matmul(x, y)", "f32[7, 3, 4]", "f32[7, 4, 5]", "f32[1]",
     4 * 7 * (3 * 4 + 4 * 5 + 3 * 5), 2 * 7 * 3 * 5 * 4},
    {"matmul(x, y)", "f32[s0, 4]", "f32[4, 5]", "f32[1]",
     4 * (3 * 4 + 4 * 5 + 3 * 5), 2 * 3 * 5 * 4},
    {"addmm(z, x, y)", "f32[3, 4]", "f32[4, 5]", "f32[5]",
     4 * (3 * 4 + 4 * 5 + 5 + 3 * 5), 2 * 3 * 5 * 4},
    {"add(x, x)", "f32[3, 4]", "f32[1]", "f32[1]", 4 * 2 * 12, 0},
    {"add(x, y)", "f64[3, 4]", "f64[4]", "f32[1]", 8 * (12 + 4 + 12), 0},
    // Two rows of ten.
    {"embedding(x, y)", "f32[10, 4]", "i64[2]", "f32[1]",
     4 * (2 * 4 + 2 * 4) + 8 * 2, 0},
    {"convolution(x, y, z, [1, 1], [0, 0], [1, 1], False, [0, 0], 2)",
     "f32[1, 4, 5, 5]", "f32[6, 2, 3, 3]", "f32[6]", 4 * (100 + 108 + 6 + 54),
     2 * 54 * 18},
    {"convolution(x, y, z, [1], [0], [1], True, [0], 1)", "f32[1, 4, 5]",
     "f32[4, 6, 3]", "f32[6]", 4 * (20 + 72 + 6 + 42), 2 * 20 * 18},
};

Test(profile, work_of_known_steps) {
  for (size_t i = 0; i < sizeof profile_cases / sizeof *profile_cases; i++) {
    profile_expect(&profile_cases[i], "host,ref");
  }
}

Test(profile, attention_counts_its_two_products) {
  const char *q = "f32[1, 2, 64, 16]";
  const char *k = "f32[1, 2, 64, 16]";
  uint64_t bytes = 4 * 4 * 2 * 64 * 16, flops = 2 * 2 * 2 * 64 * 64 * 16;
  profile_expect(&(profile_case){SDPA "False)", q, k, k, bytes, flops},
                 "flash");
  profile_expect(&(profile_case){SDPA "True)", q, k, k, bytes, flops / 2},
                 "flash");
}

Test(profile, what_is_cut_or_written_in_place_counts_in_part) {
  th_callable *c =
      profile_jit("host,ref", "def f(x, y):\n  # x: \"cpu f32[100, 8]\"\n"
                              "  # y: \"cpu f32[8]\"\n  a = select(x, 0, 3)\n"
                              "  t = add(a, y)\n  return {'output': t}\n");
  th_profile_row row = TH_PROFILE_ROW_INIT;
  profile_call(c, 1);
  cr_assert(th_callable_profile(c, 0, &row));
  cr_expect_eq(row.bytes, 4 * 3 * 8);
  th_callable_free(c);
  c = profile_jit("ref", "def f(x, i, y):\n  # x: \"cpu f32[100, 8]\"\n"
                         "  # i: \"cpu i64[1]\"\n  # y: \"cpu f32[1, 8]\"\n"
                         "  a = exp(x)\n  t = index_copy(a, 0, i, y)\n"
                         "  return {'output': t}\n");
  profile_call(c, 1);
  cr_assert(th_callable_profile(c, 1, &row));
  cr_expect_str_eq(row.name, "index_copy");
  cr_expect_eq(row.bytes, 8 + 4 * 8 + 4 * 8, "%llu",
               (unsigned long long)row.bytes);
  th_callable_free(c);
}

Test(profile, modules_are_those_of_products_or_common) {
  th_callable *c = profile_jit(
      "host,ref", "def f(x):\n  # x: \"cpu f32[4]\"\n"
                  "  # model.layers.1.norm  m.py:1\n  a = mul(x, 2)\n"
                  "  # model.layers.1.mlp  m.py:1\n  b = exp(a)\n"
                  "  # model.layers.10  m.py:1\n  c = neg(b)\n"
                  "  return {'output': c}\n");
  th_profile_row row = TH_PROFILE_ROW_INIT;
  cr_assert(th_callable_profile(c, 0, &row));
  cr_expect_str_eq(row.scope, "model.layers");
  cr_expect_str_eq(row.executor, "host");
  cr_expect_eq(row.calls, 0);
  th_callable_free(c);
}

Test(profile, branches_have_rows_of_their_own) {
  th_callable *c =
      profile_jit("ref", "def f(x, p):\n  # x: \"cpu f32[64, 64]\"\n"
                         "  # p: \"cpu b8[]\"\n"
                         "  def yes(x):\n    # x: \"cpu f32[64, 64]\"\n"
                         "    y = matmul(x, x)\n    return (y,)\n"
                         "  def no(x):\n    # x: \"cpu f32[64, 64]\"\n"
                         "    z = exp(x)\n    return (z,)\n"
                         "  [t] = cond(p, yes, no, [x])\n"
                         "  return {'output': t}\n");
  th_profile_row rows[3];
  profile_call(c, 1); // of zeros: false
  for (size_t i = 0; i < 3; i++) {
    rows[i] = (th_profile_row)TH_PROFILE_ROW_INIT;
    cr_assert(th_callable_profile(c, i, &rows[i]));
  }
  cr_expect_str_eq(rows[0].executor, "program");
  cr_expect_eq(rows[0].bytes + rows[0].flops, 0);
  cr_expect_eq(rows[1].calls, 0);
  cr_expect_eq(rows[2].calls, 1);
  cr_expect_eq(rows[2].bytes, 2 * 4 * 64 * 64);
  cr_expect_geq(rows[0].nanoseconds, 0);
  th_callable_free(c);
}

Test(profile, rows_are_as_large_as_the_caller_knows) {
  th_callable *c = profile_jit("ref", "def f(x):\n  # x: \"cpu f32[4]\"\n"
                                      "  y = exp(x)\n"
                                      "  return {'output': y}\n");
  th_profile_row row = {.size = offsetof(th_profile_row, bytes), .bytes = 7};
  profile_call(c, 1);
  cr_assert(th_callable_profile(c, 0, &row));
  cr_expect_eq(row.calls, 1);
  cr_expect_eq(row.bytes, 7);
  th_callable_free(c);
}

// Archives from file to result, with every allocation failing once.
#include "thunder/jit.h"
#include "thunder/transform.h"
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char load_cache[] = "/tmp/th-load-XXXXXX";

// Kernels come from the disk after the first time.
static void load_setup(void) {
  cr_assert_not_null(mkdtemp(load_cache));
  setenv("TH_CACHE_DIR", load_cache, 1);
}

static void load_teardown(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", load_cache);
  cr_expect_eq(system(command), 0);
}

TestSuite(load, .init = load_setup, .fini = load_teardown);

typedef struct load_model {
  const char *name, *executors;
} load_model;

static th_status load_run(th_context *ctx, th_pt2 *archive,
                          const load_model *model) {
  enum { OUTS = 8 };
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *f = NULL;
  th_tensor **in = NULL, *out[OUTS] = {NULL};
  size_t in_count = 0;
  options.executors = model->executors;
  options.threads = 1;
  const char *program = th_pt2_default_program(archive);
  th_status status = th_jit_pt2(ctx, archive, program, &options, &f);
  if (status == TH_OK) {
    status = th_pt2_sample_inputs(archive, program, &in, &in_count);
  }
  for (int i = 0; i < 2 && status == TH_OK; i++) {
    size_t outs = th_callable_output_count(f);
    cr_assert(outs <= OUTS);
    status = th_call(f, in, in_count, out, outs);
  }
  for (size_t i = 0; i < OUTS; i++) {
    th_tensor_release(out[i]);
  }
  th_pt2_free_tensors(in, in_count);
  th_callable_free(f);
  return status;
}

static th_status load_work(void *user) {
  const load_model *model = user;
  th_context *ctx = th_context_new();
  th_pt2 *archive = NULL;
  char path[1024];
  snprintf(path, sizeof path, "%s/test/conformance/%s.pt2", TH_SOURCE_DIR,
           model->name);
  th_status status =
      ctx ? th_pt2_open(ctx, path, NULL, &archive) : TH_NO_MEMORY;
  if (status == TH_OK) {
    status = load_run(ctx, archive, model);
  }
  th_pt2_free(archive);
  th_context_free(ctx);
  return status;
}

Test(load, every_allocation_fails, .timeout = 600) {
  static load_model models[] = {{"mlp", "ref"},
                                {"mlp", "host"},
                                {"symbolic", "ref"},
                                {"batchnorm_train", "ref"},
                                {"cond", "ref"}};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    cr_assert_eq(load_work(&models[i]), TH_OK, "%s", models[i].name);
    torture(load_work, &models[i]);
  }
}

static th_status load_no_change(th_module *module, void *user) {
  (void)module, (void)user;
  return TH_OK;
}

Test(load, no_module_to_transform) {
  static const char text[] = "def f(x):\n"
                             "  # x: \"cpu f32[2]\"\n"
                             "  return {'output': x}\n";
  th_transform transform = {.size = sizeof transform,
                            .name = "nothing",
                            .stage = TH_ON_MODULE,
                            .module = load_no_change};
  th_context *ctx = th_context_new();
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *f = NULL;
  options.transforms = &transform;
  options.transform_count = 1;
  cr_expect_eq(th_jit_text(ctx, "text", text, strlen(text), &options, &f),
               TH_INVALID);
  cr_expect(strstr(th_diagnostics_all(ctx),
                   "transform 'nothing' is on the module, and there is none"));
  th_context_free(ctx);
}

Test(load, what_is_no_tensor_is_as_it_was) {
  static const char text[] = "def f(x, mode, mask):\n"
                             "  # x: \"cpu f32[2]\"\n"
                             "  # mode: \"str 'mean'\"\n"
                             "  # mask: \"None\"\n"
                             "  return {'output': x}\n";
  static const th_leaf right = {.kind = TH_LEAF_STRING, .text = "mean"},
                       none = {.kind = TH_LEAF_NONE},
                       null = {.kind = TH_LEAF_TENSOR};
  const int64_t two = 2;
  th_context *ctx = th_context_new();
  th_callable *f = NULL;
  th_tensor *x = NULL;
  cr_assert_eq(th_jit_text(ctx, "t", text, strlen(text), NULL, &f), TH_OK);
  cr_assert_eq(th_tensor_new(ctx, TH_F32, 1, &two, &x), TH_OK);
  struct {
    th_leaf mode, mask;
    const char *text;
  } cases[] = {
      {right, none, ""},
      {right, null, ""},
      {{.kind = TH_LEAF_STRING, .text = "sum"},
       none,
       "error: input 'mode' has another value than the constant that it was "
       "traced with\n"},
      {none, none,
       "error: input 'mode' is None; it was traced with a string\n"},
      {right, right,
       "error: input 'mask' is a string; it was traced with None\n"},
      {right,
       {.kind = TH_LEAF_TENSOR, .tensor = x},
       "error: input 'mask' is a tensor; it was traced with None\n"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    th_leaf in[] = {
        {.kind = TH_LEAF_TENSOR, .tensor = x}, cases[i].mode, cases[i].mask};
    th_leaf out = {.kind = TH_LEAF_NONE};
    cr_expect_eq(th_call_leaves(f, NULL, in, 3, &out, 1),
                 *cases[i].text ? TH_INVALID : TH_OK);
    cr_expect_str_eq(th_diagnostics_all(ctx), cases[i].text);
    th_diagnostics_clear(ctx);
    th_tensor_release(out.tensor);
  }
  th_tensor_release(x);
  th_callable_free(f);
  th_context_free(ctx);
}

// Compiles out = op(x); *out_stats is its own.
static void load_stats(th_context *ctx, const char *op, bool no_cache,
                       th_statistics *out_stats) {
  char text[128];
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  th_callable *f = NULL;
  options.no_cache = no_cache;
  int size = snprintf(text, sizeof text,
                      "def f(x):\n  # x: \"cpu f32[3]\"\n  y = %s(x)\n"
                      "  return y\n",
                      op);
  cr_assert_eq(th_jit_text(ctx, "t", text, (size_t)size, &options, &f), TH_OK,
               "%s", th_diagnostics_all(ctx));
  th_callable_statistics(f, out_stats);
  th_callable_free(f);
}

Test(load, no_cache_is_of_one_callable) {
  th_statistics stats = TH_STATISTICS_INIT;
  for (int i = 0; i < 2; i++) {
    th_context *ctx = th_context_new();
    load_stats(ctx, "exp", true, &stats);
    cr_expect_eq(stats.kernels_compiled, 1);
    load_stats(ctx, "sin", false, &stats);
    cr_expect_eq(stats.kernels_from_disk, (uint64_t)i);
    th_context_free(ctx);
  }
}

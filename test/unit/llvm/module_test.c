// Modules: names, ties, submodules, state on disk.
#include "base/context.h"
#include "thunder/module.h"
#include "thunder/safetensors.h"
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(expr)                                                               \
  do {                                                                         \
    th_status ok_ = (expr);                                                    \
    cr_assert(ok_ == TH_OK, "%s: %s\n%s", #expr, th_status_text(ok_),          \
              th_diagnostics_all(ctx));                                        \
  } while (0)

static th_context *ctx;
static char module_path[64];

static void module_setup(void) {
  ctx = th_context_new();
  snprintf(module_path, sizeof module_path, "/tmp/th-module-%d.safetensors",
           (int)getpid());
}

static void module_teardown(void) {
  unlink(module_path);
  th_context_free(ctx);
}

TestSuite(module, .init = module_setup, .fini = module_teardown);

static th_tensor *module_row(int64_t n, double value) {
  th_tensor *t = NULL;
  OK(th_tensor_new(ctx, TH_F32, 1, &n, &t));
  OK(th_tensor_fill(ctx, t, value));
  return t;
}

static th_module *module_make(void) {
  th_module *m = NULL;
  int64_t dims[] = {2, 3};
  th_tensor *mean = module_row(2, 5), *cache = module_row(4, 7);
  OK(th_module_new(ctx, &m));
  OK(th_module_add_param(m, "wte.weight", TH_F32, 2, dims));
  OK(th_module_add_param(m, "layers.0.fc.weight", TH_F32, 2, dims));
  OK(th_module_add_param(m, "layers.1.fc.weight", TH_F32, 2, dims));
  OK(th_module_set_buffer(m, "norm.mean", mean, true));
  OK(th_module_set_buffer(m, "cache", cache, false));
  OK(th_module_tie(m, "head.weight", "wte.weight"));
  th_tensor_release(mean);
  th_tensor_release(cache);
  return m;
}

Test(module, entries) {
  th_module *m = module_make();
  static const struct {
    const char *fqn;
    th_module_kind kind;
    bool persistent;
    const char *tied;
  } want[] = {{"wte.weight", TH_MODULE_PARAM, true, NULL},
              {"layers.0.fc.weight", TH_MODULE_PARAM, true, NULL},
              {"layers.1.fc.weight", TH_MODULE_PARAM, true, NULL},
              {"norm.mean", TH_MODULE_BUFFER, true, NULL},
              {"cache", TH_MODULE_BUFFER, false, NULL},
              {"head.weight", TH_MODULE_PARAM, true, "wte.weight"}};
  cr_assert_eq(th_module_count(m), TH_COUNT(want));
  th_module_entry e = TH_MODULE_ENTRY_INIT;
  for (size_t i = 0; i < TH_COUNT(want); i++) {
    OK(th_module_at(m, i, &e));
    cr_expect_str_eq(e.fqn, want[i].fqn);
    cr_expect_eq(e.kind, want[i].kind);
    cr_expect_eq(e.persistent, want[i].persistent);
    cr_expect(want[i].tied ? strcmp(e.tied_to, want[i].tied) == 0 : !e.tied_to);
    cr_expect_eq(e.tensor, th_module_tensor(m, want[i].fqn));
  }
  cr_expect_eq(th_module_at(m, TH_COUNT(want), &e), TH_NOT_FOUND);
  cr_expect_eq(th_module_tensor(m, "head.weight"),
               th_module_tensor(m, "wte.weight"));
  cr_expect_null(th_module_tensor(m, "nothing"));
  cr_expect_eq(th_module_freeze(m, "layers.?.fc.*", true), 2);
  OK(th_module_at(m, 1, &e));
  cr_expect(e.frozen);
  OK(th_module_at(m, 0, &e));
  cr_expect_not(e.frozen);
  th_module_release(m);
}

Test(module, submodules) {
  th_module *m = module_make();
  cr_expect_str_eq(th_module_child(m, "", 0), "wte");
  cr_expect_str_eq(th_module_child(m, "", 1), "layers");
  cr_expect_str_eq(th_module_child(m, "", 3), "head");
  cr_expect_null(th_module_child(m, "", 4));
  cr_expect_str_eq(th_module_child(m, "layers", 1), "layers.1");
  cr_expect_null(th_module_child(m, "layers", 2));
  cr_expect_null(th_module_child(m, "layer", 0));
  th_module_release(m);
}

Test(module, bad_names) {
  th_module *m = module_make();
  th_tensor *t = module_row(2, 1);
  static const char *const bad[] = {
      "", ".a", "a.", "a..b", "wte", "wte.weight.more", "layers.0"};
  for (size_t i = 0; i < TH_COUNT(bad); i++) {
    cr_expect_eq(th_module_set_param(m, bad[i], t), TH_INVALID, "'%s'", bad[i]);
  }
  cr_expect_eq(th_module_set_param(m, "fresh", NULL), TH_INVALID);
  cr_expect_eq(th_module_set_buffer(m, "wte.weight", NULL, true), TH_INVALID);
  OK(th_module_set_param(m, "wt", t)); // a prefix, but no path
  cr_expect_eq(th_module_tie(m, "x", "nothing"), TH_NOT_FOUND);
  cr_expect_eq(th_module_count(m), 7);
  th_tensor_release(t);
  th_module_release(m);
}

Test(module, ties_follow) {
  th_module *m = NULL;
  th_tensor *a = module_row(1, 1), *b = module_row(1, 2);
  OK(th_module_new(ctx, &m));
  OK(th_module_set_param(m, "a", a));
  OK(th_module_set_param(m, "b", b));
  OK(th_module_tie(m, "c", "b"));
  OK(th_module_tie(m, "b", "a"));
  cr_expect_eq(th_module_tensor(m, "c"), a);
  OK(th_module_tie(m, "a", "c")); // itself
  cr_expect_eq(th_module_tensor(m, "a"), a);
  OK(th_module_set_param(m, "c", b)); // no tie any more
  cr_expect_eq(th_module_tensor(m, "b"), a);
  th_tensor_release(a);
  th_tensor_release(b);
  th_module_release(m);
}

Test(module, state) {
  th_module *m = module_make(), *n = module_make(), *all = NULL;
  OK(th_tensor_fill(ctx, th_module_tensor(m, "wte.weight"), 3));
  OK(th_module_save(m, module_path));
  OK(th_module_load(n, module_path, true));
  cr_expect_eq(th_tensor_get(th_module_tensor(n, "head.weight"), 5), 3);
  cr_expect_eq(th_tensor_get(th_module_tensor(n, "norm.mean"), 0), 5);
  OK(th_module_open(ctx, module_path, &all));
  cr_expect_eq(th_module_count(all), 4);
  cr_expect_null(th_module_tensor(all, "cache"));
  th_module_release(all);
  th_module_release(m);
  th_module_release(n);
}

Test(module, a_state_that_does_not_fit) {
  th_module *m = module_make();
  th_tensor *w = module_row(3, 9), *mean = module_row(2, 9);
  const char *few[] = {"norm.mean"};
  OK(th_safetensors_write(ctx, module_path, few, &mean, 1, NULL, 0));
  cr_expect_eq(th_module_load(m, module_path, true), TH_NOT_FOUND);
  cr_expect(strstr(th_diagnostics_all(ctx), "there is no 'wte.weight'"));
  OK(th_module_load(m, module_path, false));
  cr_expect_eq(th_tensor_get(th_module_tensor(m, "norm.mean"), 0), 9);

  const char *unknown[] = {"else"};
  OK(th_safetensors_write(ctx, module_path, unknown, &w, 1, NULL, 0));
  cr_expect_eq(th_module_load(m, module_path, true), TH_NOT_FOUND);
  OK(th_module_load(m, module_path, false));

  // Nothing changes when one of them is wrong.
  const char *names[] = {"norm.mean", "wte.weight"};
  th_tensor *tensors[] = {module_row(2, 1), w};
  OK(th_safetensors_write(ctx, module_path, names, tensors, 2, NULL, 0));
  cr_expect_eq(th_module_load(m, module_path, false), TH_SHAPE);
  cr_expect(strstr(th_diagnostics_all(ctx),
                   "'wte.weight' is f32[3] where the module has f32[2, 3]"));
  cr_expect_eq(th_tensor_get(th_module_tensor(m, "norm.mean"), 0), 9);
  cr_expect_eq(th_module_load(m, "/nowhere", false), TH_IO);
  th_tensor_release(tensors[0]);
  th_tensor_release(mean);
  th_tensor_release(w);
  th_module_release(m);
}

static th_status module_work(void *user) {
  int64_t n = 3;
  th_context *own = th_context_new();
  th_module *m = NULL, *copy = NULL;
  th_status status = own ? th_module_new(own, &m) : TH_NO_MEMORY;
  (void)user;
  if (status == TH_OK) {
    status = th_module_add_param(m, "a.weight", TH_F32, 1, &n);
  }
  if (status == TH_OK) {
    status = th_module_tie(m, "b.weight", "a.weight");
  }
  if (status == TH_OK) {
    (void)th_module_child(m, "", 1);
    status = th_module_save(m, module_path);
  }
  if (status == TH_OK) {
    status = th_module_load(m, module_path, true);
  }
  if (status == TH_OK) {
    status = th_module_open(own, module_path, &copy);
  }
  th_module_release(m);
  th_module_release(copy);
  th_context_free(own);
  return status;
}

Test(module, every_allocation_fails) { torture(module_work, NULL); }

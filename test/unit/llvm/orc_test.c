#include "lowering/orc.h"

#include "base/alloc.h"
#include "llvm/toy_kernel.h"

#include <criterion/criterion.h>

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static th_context *ctx;

static void orc_setup(void) { ctx = th_context_new(); }
static void orc_teardown(void) { th_context_free(ctx); }

TestSuite(orc, .init = orc_setup, .fini = orc_teardown);

static th_code *load(const char *symbol, double factor, const char *callee) {
  th_bytes object;
  cr_assert_eq(toy_object(ctx, "host", symbol, factor, callee, &object), TH_OK,
               "%s", toy_errors(ctx));
  th_code *code = NULL;
  cr_assert_eq(th_code_load(ctx, object.data, object.size, symbol, &code),
               TH_OK, "%s", toy_errors(ctx));
  th_free(object.data);
  return code;
}

Test(orc, code_runs) {
  th_code *code = load("k", 2, NULL);
  cr_expect_eq(toy_call(th_code_address(code)), 6);
  cr_expect_str_eq(th_code_symbol(code), "k");
  th_code_release(code);
}

Test(orc, the_last_reference_unloads) {
  th_code *code = load("k", 2, NULL);
  th_code_retain(code);
  th_code_release(code);
  cr_expect_eq(th_code_count(), 1);
  cr_expect_eq(toy_call(th_code_address(code)), 6);
  th_code_release(code);
  cr_expect_eq(th_code_count(), 0);
  th_code_release(NULL);
}

Test(orc, code_outlives_its_context_and_its_neighbours) {
  th_code *first = load("a", 2, NULL);
  th_code *second = load("b", 5, NULL);
  th_context_free(ctx);
  ctx = th_context_new();
  th_code_release(first);
  cr_expect_eq(toy_call(th_code_address(second)), 15);
  th_code_release(second);
}

Test(orc, equal_symbols_do_not_clash) {
  th_code *codes[5];
  for (int i = 0; i < 5; i++) {
    codes[i] = load("same", i, NULL);
  }
  for (int i = 0; i < 5; i++) {
    cr_expect_eq(toy_call(th_code_address(codes[i])), 3 * i);
  }
  th_code_release(codes[2]);
  codes[2] = load("same", 7, NULL);
  cr_expect_eq(toy_call(th_code_address(codes[2])), 21);
  for (int i = 0; i < 5; i++) {
    th_code_release(codes[i]);
  }
}

static float orc_helper(float x) { return x + 100; }

Test(orc, registered_functions_are_called) {
  union {
    float (*code)(float);
    void *data;
  } helper = {orc_helper}, other = {sqrtf};
  // Before and after the JIT exists.
  cr_assert_eq(th_runtime_register(ctx, "toy_before", helper.data), TH_OK);
  th_code *first = load("a", 2, "toy_before");
  cr_assert_eq(th_runtime_register(ctx, "toy_after", helper.data), TH_OK);
  th_code *second = load("b", 3, "toy_after");
  cr_expect_eq(toy_call(th_code_address(first)), 106);
  cr_expect_eq(toy_call(th_code_address(second)), 109);
  cr_expect_eq(th_runtime_register(ctx, "toy_after", helper.data), TH_OK);
  cr_expect_eq(th_runtime_register(ctx, "toy_after", other.data), TH_INVALID);
  th_code_release(first);
  th_code_release(second);
}

Test(orc, libm_stands_in_where_the_cpu_has_no_instruction) {
  th_code *code = load("k", 1.5, "floorf");
  cr_expect_eq(toy_call(th_code_address(code)), 4);
  th_code_release(code);
}

// An object of another process may name a function that this one lacks.
Test(orc, missing_function_is_an_error_that_names_it) {
  union {
    float (*code)(float);
    void *data;
  } helper = {orc_helper};
  cr_assert_eq(th_runtime_register(ctx, "toy_gone", helper.data), TH_OK);
  th_bytes object;
  cr_assert_eq(toy_object(ctx, "host", "k", 2, "toy_gone", &object), TH_OK);
  char *name = memmem(object.data, object.size, "toy_gone", 8);
  cr_assert_not_null(name);
  // The process has this one, generated code has not.
  const char other[8] = "getppid";
  memcpy(name, other, sizeof other);
  th_code *code;
  cr_assert_eq(th_code_load(ctx, object.data, object.size, "k", &code),
               TH_BACKEND);
  cr_expect_eq(th_diagnostic_count(ctx), 1);
  cr_expect(strstr(th_diagnostic_text(ctx, 0), "getppid") != NULL, "%s",
            th_diagnostic_text(ctx, 0));
  cr_expect_eq(th_code_count(), 0);
  th_free(object.data);
}

Test(orc, missing_symbol_is_an_error) {
  th_bytes object;
  th_code *code;
  cr_assert_eq(toy_object(ctx, "host", "k", 2, NULL, &object), TH_OK);
  cr_assert_eq(th_code_load(ctx, object.data, object.size, "q", &code),
               TH_BACKEND);
  cr_expect(strstr(th_diagnostic_text(ctx, 0), "q") != NULL);
  th_free(object.data);
}

Test(orc, objects_of_other_machines_and_no_objects_are_refused) {
  th_bytes object;
  th_code *code;
  cr_assert_eq(toy_object(ctx, "aarch64", "k", 2, NULL, &object), TH_OK);
  cr_expect_eq(th_code_load(ctx, object.data, object.size, "k", &code),
               TH_BACKEND);
  cr_expect_eq(th_code_load(ctx, object.data, 20, "k", &code), TH_BACKEND);
  cr_expect_eq(th_code_load(ctx,
                            "not an object at all, though long enough to "
                            "hold the header of one object",
                            73, "k", &code),
               TH_BACKEND);
  th_free(object.data);
}

Test(orc, truncated_objects_are_refused) {
  th_bytes object;
  cr_assert_eq(toy_object(ctx, "host", "k", 2, NULL, &object), TH_OK);
  for (size_t size = 0; size + 1 < object.size; size += 41) {
    th_code *code;
    cr_expect_eq(th_code_load(ctx, object.data, size, "k", &code), TH_BACKEND,
                 "%zu bytes of %zu", size, object.size);
    th_diagnostics_clear(ctx);
  }
  th_free(object.data);
}

Test(orc, every_allocation_fails_once) {
  th_bytes object;
  cr_assert_eq(toy_object(ctx, "host", "k", 2, NULL, &object), TH_OK);
  for (size_t ordinal = 1;; ordinal++) {
    th_code *code = NULL;
    th_alloc_fail_at(ordinal, false);
    th_status status = th_code_load(ctx, object.data, object.size, "k", &code);
    size_t made = th_alloc_fail_at(0, false);
    if (status == TH_OK) {
      th_code_release(code);
      cr_assert_lt(made, ordinal);
      break;
    }
    cr_assert_eq(status, TH_NO_MEMORY);
    cr_assert_eq(th_code_count(), 0);
  }
  th_free(object.data);
}

typedef struct orc_worker {
  pthread_t thread;
  const th_bytes *object;
  int wrong;
} orc_worker;

static void *orc_churn(void *user) {
  orc_worker *worker = user;
  th_context *own = th_context_new();
  for (int i = 0; i < 50; i++) {
    th_code *code;
    if (th_code_load(own, worker->object->data, worker->object->size, "k",
                     &code) != TH_OK) {
      worker->wrong++;
      continue;
    }
    worker->wrong += toy_call(th_code_address(code)) != 6;
    th_code_release(code);
  }
  th_context_free(own);
  return NULL;
}

Test(orc, threads_load_and_unload) {
  th_bytes object;
  cr_assert_eq(toy_object(ctx, "host", "k", 2, NULL, &object), TH_OK);
  orc_worker workers[4] = {0};
  for (size_t i = 0; i < TH_COUNT(workers); i++) {
    workers[i].object = &object;
    pthread_create(&workers[i].thread, NULL, orc_churn, &workers[i]);
  }
  for (size_t i = 0; i < TH_COUNT(workers); i++) {
    pthread_join(workers[i].thread, NULL);
    cr_expect_eq(workers[i].wrong, 0);
  }
  cr_expect_eq(th_code_count(), 0);
  th_free(object.data);
}

Test(orc, a_forked_child_runs_and_loads) {
  th_code *code = load("k", 2, NULL);
  pid_t child = fork();
  if (child == 0) {
    bool right = toy_call(th_code_address(code)) == 6;
    th_code *more = load("m", 4, NULL);
    right = right && toy_call(th_code_address(more)) == 12;
    th_code_release(more);
    _exit(right ? 0 : 1);
  }
  int status = -1;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  th_code_release(code);
}

static void orc_listen(const char *variable) {
  setenv(variable, "1", 1);
  th_code *code = load("k", 1.5, "floorf");
  cr_expect_eq(toy_call(th_code_address(code)), 4);
  th_code_release(code);
  unsetenv(variable);
}

Test(orc, listening_debuggers_and_profilers) {
  orc_listen("TH_DEBUG_JIT");
  setenv("JITDUMPDIR", "/tmp", 1);
  orc_listen("TH_PERF");
}

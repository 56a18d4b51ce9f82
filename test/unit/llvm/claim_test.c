// What no executor accepts is listed at once, each operation with its reasons.
#include "thunder/jit.h"
#include "thunder/transform.h"

#include <criterion/criterion.h>
#include <string.h>

static th_status same_shape(th_shape_query *query, void *user) {
  (void)user;
  return th_query_out_like(query, 0);
}

static void register_operation(th_context *ctx, const char *name) {
  th_operation operation = {.size = sizeof operation,
                            .name = name,
                            .schema = "T x",
                            .out_count = 1,
                            .shape = same_shape};
  cr_assert_eq(th_operation_register(ctx, &operation), TH_OK, "%s",
               th_diagnostics_all(ctx));
}

Test(claim, lists_everything_at_once) {
  static const char text[] = "def computation(x):\n"
                             "  # x: \"cpu f32[4]\"\n"
                             "  a = demo::one(x)\n"
                             "  b = demo::two(a)\n"
                             "  c = demo::one(b)\n"
                             "  return {'output': c}\n";
  th_context *ctx = th_context_new();
  th_callable *callable = NULL;
  register_operation(ctx, "demo::one");
  register_operation(ctx, "demo::two");
  cr_expect_eq(th_jit_text(ctx, "t", text, sizeof text - 1, NULL, &callable),
               TH_UNSUPPORTED);
  const char *all = th_diagnostics_all(ctx);
  const char *one = strstr(all, "demo::one: none of the executors");
  const char *two = strstr(all, "demo::two: none of the executors");
  cr_assert(one && two, "%s", all);
  cr_expect_null(strstr(one + 1, "demo::one: none"), "listed twice: %s", all);
  cr_expect(strstr(one, "note: host: ") && strstr(one, "note: ref: "), "%s",
            all);
  th_callable_free(callable);
  th_context_free(ctx);
}

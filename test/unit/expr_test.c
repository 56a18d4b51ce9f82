// Numbers: normal form, ranges, text.
#include "ir/expr.h"

#include <criterion/criterion.h>

static th_context *ctx;
static th_ir *ir;

static void setup(void) {
  ctx = th_context_new();
  ir = th_ir_new(ctx);
}

static void teardown(void) {
  th_ir_release(ir);
  th_context_free(ctx);
}

static const th_expr *read_expr(const char *text) {
  const char *at = text;
  const th_expr *e = th_expr_parse(ir, &at, text + strlen(text));
  return e && *at == 0 ? e : NULL;
}

static void expect(const char *text, const char *normal) {
  const th_expr *e = read_expr(text);
  cr_assert(e, "%s does not parse", text);
  th_buffer out;
  th_buffer_init(&out, &ir->arena);
  th_expr_print(&out, e);
  cr_expect_str_eq(out.data, normal, "%s gives %s", text, out.data);
  cr_expect_eq(read_expr(out.data), e, "%s is read as another", out.data);
}

TestSuite(expr, .init = setup, .fini = teardown);

Test(expr, normal_form) {
  th_sym_range(ir, th_sym(ir, "s0", TH_I64), 1, 64);
  expect("s0*2 + s0", "3*s0");
  expect("2 + s0 - 2", "s0");
  expect("(s0*s1)//s1", "s0");
  expect("(s0*s1 + s1*4)//s1", "s0 + 4");
  expect("(s0 + 1)*(s0 - 1)", "s0*s0 + -1");
  expect("(4*s0 + 6) % 4", "2");
  expect("s0//2*2", "2*(s0 // 2)");
  expect("s0 % 65", "s0");
  expect("min(s0, 100)", "s0");
  expect("max(s0, 100)", "100");
  expect("min(s0, 32)", "min(s0, 32)");
  expect("s0 > 0", "True");
  expect("s0 >= s1", "s1 <= s0");
  expect("not s0 == s1 and True", "not s0 == s1");
  expect("-7 // 2", "-4");
  expect("-7 % 2", "1");
  expect("2**10", "1024");
  expect("1/4", "0.25");
  expect("float(s0)/2", "float(s0) / 2");
  expect("sqrt(16.0)", "4.0");
  expect("-9223372036854775808", "-9223372036854775808");
  expect("-inf", "-inf");
  expect("nan", "nan");
  expect("where(s0 < s1, s0, s1)", "where(s0 < s1, s0, s1)");
}

Test(expr, not_an_expression) {
  static const char *const bad[] = {
      "",    "s0 +",  "1 // 0", "foo(s0)", "min(",
      "(s0", "1 % 0", "*",      "min(s0)", "99999999999999999999"};
  for (size_t i = 0; i < TH_COUNT(bad); i++) {
    cr_expect_null(read_expr(bad[i]), "%s is accepted", bad[i]);
  }
}

Test(expr, deep_nesting_is_refused) {
  char text[4096];
  memset(text, '(', sizeof text - 1);
  text[sizeof text - 1] = 0;
  cr_expect_null(read_expr(text));
}

Test(expr, evaluates) {
  const th_expr *e = read_expr("(s0*s1 + 3)//2 - min(s0, s1)");
  th_scalar symbols[8] = {{0}};
  symbols[th_sym(ir, "s0", TH_I64)->symbol->index].i = 5;
  symbols[th_sym(ir, "s1", TH_I64)->symbol->index].i = 7;
  th_scalar v;
  cr_assert(th_expr_eval(e, symbols, &v));
  cr_expect_eq(v.i, 19 - 5);
}

Test(expr, overflow_is_refused) {
  cr_expect_null(read_expr("9223372036854775807 + 1"));
  cr_expect_null(read_expr("9223372036854775807 * 2"));
}

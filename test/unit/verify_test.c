// Traces that break a rule, made by changing good ones.
#include "ir/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

typedef struct verify_case {
  th_context *ctx;
  th_ir *ir;
  const char *text;
  void (*spoil)(th_trace *trace);
} verify_case;

static th_status verify_work(void *user) {
  verify_case *c = user;
  th_trace *trace = NULL;
  th_status status =
      th_trace_parse(c->ir, "t", c->text, strlen(c->text), &trace);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(c->ctx));
  cr_assert_eq(th_trace_verify(trace), TH_OK);
  if (!c->spoil) {
    return TH_OK;
  }
  c->spoil(trace);
  return th_trace_verify(trace);
}

// The text is a good trace; after spoil() it has exactly these diagnostics.
static void verify_expect(const char *text, void (*spoil)(th_trace *trace),
                          const char *diagnostics) {
  verify_case c = {.ctx = th_context_new(), .text = text, .spoil = spoil};
  cr_assert(c.ctx);
  c.ir = th_ir_new(c.ctx);
  cr_assert(c.ir);
  th_status status = th_protect(&c.ctx->unwind, verify_work, &c);
  cr_expect_eq(status == TH_OK, *diagnostics == '\0');
  cr_expect_str_eq(th_diagnostics_all(c.ctx), diagnostics, "%s",
                   th_diagnostics_all(c.ctx));
  th_ir_release(c.ir);
  th_context_free(c.ctx);
}

static const char verify_text[] = "def f(x, w):\n"
                                  "  # x: \"cpu f32[2, 3]\"\n"
                                  "  # w: \"cpu f32[2, 3]\"\n"
                                  "  a = add(x, w)\n"
                                  "  b = neg(a)\n"
                                  "  [c] = hostFusion0(b)\n"
                                  "    # [c] = hostKernel0(b)\n"
                                  "      # i = exp(b)\n"
                                  "      # c = neg(i)\n"
                                  "  d = mul(c, 2)\n"
                                  "  del c\n"
                                  "  return d\n";

#define SPOILS(name, diagnostics)                                              \
  static void verify_##name(th_trace *trace);                                  \
  Test(verify, name) {                                                         \
    verify_expect(verify_text, verify_##name, diagnostics);                    \
  }                                                                            \
  static void verify_##name(th_trace *trace)

static th_value *verify_value(th_trace *trace, const char *name) {
  th_value *value = th_map_get(&trace->names, name);
  cr_assert(value);
  return value;
}

Test(verify, good) { verify_expect(verify_text, NULL, ""); }

// A name from elsewhere becomes one that is read back.
SPOILS(rename, "") {
  th_value *a = verify_value(trace, "a");
  th_value_rename(trace, a, "break");
  cr_expect_str_eq(a->name, "break_");
  th_value_rename(trace, a, "");
  cr_expect_str_eq(a->name, "break_");
  th_value *empty = th_trace_value(trace, &a->type, "");
  cr_expect_str_eq(empty->name, "t5");
}

SPOILS(order, "error: add: 'b' is used before it is made\n") {
  trace->stmts[0]->args[0].value = verify_value(trace, "b");
}

SPOILS(index, "error: add: statement 0 says that it is 7\n") {
  trace->stmts[0]->index = 7;
}

SPOILS(type, "error: neg: 'b' is cpu f32[3], and the rule says cpu f32[2, 3]\n"
             "error: exp: 'i' is cpu f32[2, 3], and the rule says cpu "
             "f32[3]\n") {
  th_value *b = verify_value(trace, "b");
  static const th_expr *dims[1];
  dims[0] = th_int(trace->ir, 3);
  b->type = th_tensor_type(TH_F32, 1, dims);
}

SPOILS(results, "error: neg: has 2 results, and the rule says 1\n") {
  th_stmt *stmt = trace->stmts[1];
  th_value **outs = TH_NEW_ARRAY(&trace->ir->arena, th_value *, 2);
  outs[0] = stmt->outs[0];
  stmt->outs = outs;
  stmt->out_count = 2;
}

SPOILS(arguments, "error: neg: has 0 arguments, and its row has 1\n") {
  trace->stmts[1]->arg_count = 0;
}

SPOILS(kind, "error: neg: argument 'x' is a tensor or a number, which this is "
             "not\n") {
  trace->stmts[1]->args[0] = th_none();
}

SPOILS(maker, "error: neg: result 'b' says that another statement makes it\n") {
  verify_value(trace, "b")->def = trace->stmts[0];
}

SPOILS(foreign, "error: neg: 'a' belongs to another trace\n") {
  th_value *copy = TH_NEW(&trace->ir->arena, th_value);
  *copy = *verify_value(trace, "a");
  trace->stmts[1]->args[0].value = copy;
}

SPOILS(reserved, "error: f: value 3 ('lambda') is not in the trace's tables\n"
                 "error: f: 'lambda' cannot be the name of a value\n") {
  verify_value(trace, "a")->name = "lambda";
}

SPOILS(trace_name, "error: a b: 'a b' cannot be the name of a trace\n") {
  trace->name = "a b";
}

SPOILS(after_del, "error: f: 'c' is used after its del\n") {
  trace->result = th_v(verify_value(trace, "c"));
}

SPOILS(deleted_twice, "error: del: 'c' is deleted twice\n") {
  th_stmt *stmt = trace->stmts[4];
  th_arg *args = TH_NEW_ARRAY(&trace->ir->arena, th_arg, 2);
  args[0] = args[1] = stmt->args[0];
  stmt->args = args;
  stmt->arg_count = 2;
}

SPOILS(inner_value, "error: mul: 'i' is made inside a region and is not its "
                    "result\n") {
  trace->stmts[3]->args[0].value = verify_value(trace, "i");
}

SPOILS(no_argument,
       "error: exp: 'a' is no argument of 'hostKernel0', in which it is "
       "used\n") {
  th_stmt *kernel = trace->stmts[2]->body[0];
  kernel->body[0]->args[0].value = verify_value(trace, "a");
}

SPOILS(region_result,
       "error: hostFusion0: its body does not make 'a'\n"
       "error: mul: 'c' is made inside a region and is not its "
       "result\n"
       "error: del: 'c' is made inside a region and is not its result\n") {
  trace->stmts[2]->outs[0] = verify_value(trace, "a");
}

SPOILS(label, "error: add: 'add' cannot be the label of a region\n") {
  trace->stmts[2]->label = "add";
}

SPOILS(body, "error: hostKernel0: its body is empty\n"
             "error: hostKernel0: its body does not make 'c'\n") {
  trace->stmts[2]->body[0]->body_count = 0;
}

SPOILS(kernel_outside, "error: hostFusion0: a region stands in a trace, a "
                       "kernel in a region\n"
                       "error: hostKernel0: a region stands in a trace, a "
                       "kernel in a region\n") {
  trace->stmts[2]->op = th_op_row(TH_OP_kernel);
}

SPOILS(executor, "error: add: 'a b' cannot be the name of an executor\n") {
  trace->stmts[0]->executor = "a b";
}

SPOILS(slab_place, "error: add: 'a' lies at 128 of a slab of 64 bytes\n") {
  trace->slab_size = 64;
  verify_value(trace, "a")->slab = 128;
}

static void verify_whole_in_place(th_trace *trace) {
  trace->stmts[0]->body[1]->in_place = true;
}

static void verify_whole_and_kernel(th_trace *trace) {
  th_stmt *region = trace->stmts[0], *kernel = region->body[1];
  kernel->op = th_op_row(TH_OP_kernel);
  kernel->label = "hostKernel0";
  kernel->body = region->body;
  kernel->body_count = 1;
}

Test(verify, regions_without_kernels) {
  static const char text[] = "def f(x, w):\n"
                             "  # x: \"cpu f32[3]\"\n"
                             "  # w: \"cpu i64[2]\"\n"
                             "  [c] = hostFusion0(x, w)\n"
                             "    # a = exp(x)\n"
                             "    # c = scatter(a, 0, w, 1)\n"
                             "  return c\n";
  verify_expect(text, verify_whole_in_place,
                "error: scatter: only a kernel or a statement of a trace works "
                "in place\n");
  verify_expect(text, verify_whole_and_kernel,
                "error: exp: 'x' is no argument of 'hostKernel0', in which it "
                "is used\n"
                "error: exp: 'a' is made twice\n"
                "error: hostKernel0: its body does not make 'c'\n"
                "error: hostKernel0: a body holds kernels or statements, not "
                "both\n");
}

SPOILS(in_place, "error: add: only a scatter into a value works in place\n") {
  trace->stmts[0]->in_place = true;
}

SPOILS(result_kind, "error: f: a trace cannot be a result\n") {
  trace->result = (th_arg){.kind = TH_ARG_TRACE, .trace = trace};
}

SPOILS(deep_result, "error: f: the result nests deeper than 64\n") {
  for (int i = 0; i < 70; i++) {
    trace->result = th_list(trace->ir, &trace->result, 1);
  }
}

// ---- memory

// After a write in place nobody reads what was there, under any name.
#define CACHE                                                                  \
  "def f(cache, row):\n"                                                       \
  "  # cache: \"cpu f32[4, 3]\"\n"                                             \
  "  # row: \"cpu f32[1, 3]\"\n"                                               \
  "  before = neg(cache)\n"                                                    \
  "  window = permute(cache, [1, 0])\n"                                        \
  "  new = slice_scatter_(cache, row, 0, 0, 1)\n"

static void verify_put_in_place(th_trace *trace) {
  trace->stmts[1]->in_place = true;
}

Test(verify, write_over_an_operand) {
  verify_expect(
      "def f(x, v):\n"
      "  # x: \"cpu i64[4]\"\n"
      "  # v: \"cpu i64[4]\"\n"
      "  a = neg(x)\n"
      "  b = index_put(a, [a], v)\n"
      "  return b\n",
      verify_put_in_place,
      "error: index_put: writes over 'a', which it reads beside it\n");
}

Test(verify, write_in_place) {
  verify_expect(CACHE "  again = slice_scatter_(new, row, 0, 1, 2)\n"
                      "  view = permute(again, [1, 0])\n"
                      "  sum = add(view, 1)\n"
                      "  return {'output': (before, sum), 'mutated': "
                      "{'cache': again}}\n",
                NULL, "");
}

static void verify_read_cache(th_trace *trace) {
  trace->result = th_v(verify_value(trace, "cache"));
}
static void verify_read_window(th_trace *trace) {
  trace->stmts[3]->args[0].value = verify_value(trace, "window");
}

Test(verify, read_after_write) {
  verify_expect(CACHE "  return new\n", verify_read_cache,
                "error: f: 'cache' is read after its memory was written in "
                "place\n");
  verify_expect(CACHE "  x = permute(new, [1, 0])\n"
                      "  y = neg(x)\n"
                      "  return y\n",
                NULL, "");
  verify_expect(CACHE "  x = neg(new)\n"
                      "  return x\n",
                verify_read_window,
                "error: neg: 'window' is read after its memory was written in "
                "place\n");
}

// ---- the plan

#define PLAN(b_place, c_place, last)                                           \
  "@slab(256)\n"                                                               \
  "def f(x):\n"                                                                \
  "  # x: \"cpu f32[16]\"\n"                                                   \
  "  a = ref.neg(x)  # a: \"cpu f32[16]\" @0\n"                                \
  "  w = reshape(a, [4, 4])\n"                                                 \
  "  b = ref.exp(a)  # b: \"cpu f32[16]\" @" b_place "\n"                      \
  "  c = ref.neg(b)  # c: \"cpu f32[16]\" @" c_place "\n" last "  return d\n"

static th_status verify_text_of(const char *text, const char *diagnostics) {
  verify_case c = {.ctx = th_context_new(), .text = text};
  c.ir = th_ir_new(c.ctx);
  th_trace *trace = NULL;
  th_status status = th_trace_parse(c.ir, "t", text, strlen(text), &trace);
  cr_expect_str_eq(th_diagnostics_all(c.ctx), diagnostics, "%s",
                   th_diagnostics_all(c.ctx));
  th_ir_release(c.ir);
  th_context_free(c.ctx);
  return status;
}

Test(verify, slab) {
  cr_assert_eq(verify_text_of(PLAN("64", "0", "  d = ref.neg(c)\n"), ""),
               TH_OK);
  verify_text_of(PLAN("192", "192", "  d = ref.neg(c)\n"),
                 "t:7:7: error: neg: 'b' is read where 'c' has been written "
                 "over it\n");
  verify_text_of(PLAN("60", "128", "  d = ref.neg(c)\n"),
                 "t:6:7: error: exp: 'a' is read where 'b' has been written "
                 "over it\n");
  verify_text_of(PLAN("64", "32", "  d = ref.neg(w)\n"),
                 "t:7:7: error: neg: 'b' is read where 'c' has been written "
                 "over it\n");
  verify_text_of(PLAN("64", "0", "  d = ref.neg(w)\n"),
                 "t:8:7: error: neg: 'w' is read where 'c' has been written "
                 "over it\n");
  verify_text_of(PLAN("193", "0", "  d = ref.neg(c)\n"),
                 "t:6:7: error: exp: 'b' ends behind the slab\n");
}

// ---- sub-traces

#define BRANCHES                                                               \
  "def f(c, x, y):\n"                                                          \
  "  # c: \"cpu b8[]\"\n"                                                      \
  "  # x: \"cpu f32[2]\"\n"                                                    \
  "  # y: \"cpu f32[2]\"\n"                                                    \
  "  def yes(p):\n"                                                            \
  "    # p: \"cpu f32[2]\"\n"                                                  \
  "    q = add(p, p)\n"                                                        \
  "    return [q]\n"                                                           \
  "  def no(p):\n"                                                             \
  "    # p: \"cpu f32[2]\"\n"                                                  \
  "    return [p]\n"                                                           \
  "  [z] = cond(c, yes, no, [x])\n"                                            \
  "  return z\n"

static th_trace *verify_branch(th_trace *trace, uint32_t arg) {
  cr_assert_eq(trace->stmts[0]->args[arg].kind, TH_ARG_TRACE);
  return trace->stmts[0]->args[arg].trace;
}

static void verify_capture(th_trace *trace) {
  th_trace *branch = verify_branch(trace, 1);
  branch->stmts[0]->args[1].value = verify_value(trace, "y");
}
static void verify_capture_result(th_trace *trace) {
  th_trace *branch = verify_branch(trace, 2);
  th_arg items[] = {th_v(verify_value(trace, "y"))};
  branch->result = th_list(trace->ir, items, 1);
}
static void verify_same_names(th_trace *trace) {
  verify_branch(trace, 2)->name = "yes";
}

Test(verify, subtraces) {
  verify_expect(BRANCHES, NULL, "");
  verify_expect(BRANCHES, verify_capture,
                "error: add: 'y' belongs to a trace around this one; a "
                "sub-trace takes it as an operand\n");
  verify_expect(BRANCHES, verify_capture_result,
                "error: no: 'y' belongs to a trace around this one; a "
                "sub-trace takes it as an operand\n");
  verify_expect(BRANCHES, verify_same_names,
                "error: cond: two sub-traces are called 'yes'\n");
}

// Errors have the source line of the statement, and a limit.
static void verify_many(th_trace *trace) {
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    trace->stmts[i]->index++;
  }
}

Test(verify, limit_and_location) {
  char text[2048], expected[4096];
  int size = snprintf(text, sizeof text,
                      "def f(x):\n"
                      "  # x: \"cpu f32[2]\"\n"
                      "  # mlp  model.py:7\n");
  for (int i = 0; i < 30; i++) {
    size += snprintf(text + size, sizeof text - (size_t)size, "  _ = neg(x)\n");
  }
  snprintf(text + size, sizeof text - (size_t)size, "  return x\n");
  size = 0;
  for (int i = 0; i < TH_TEXT_ERRORS; i++) {
    size += snprintf(expected + size, sizeof expected - (size_t)size,
                     "model.py:7: error: neg: statement %d says that it is "
                     "%d\n",
                     i, i + 1);
  }
  verify_expect(text, verify_many, expected);
}

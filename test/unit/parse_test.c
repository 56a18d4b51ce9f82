// Texts that are read and printed again, and texts that are refused.
#include "ir/infer.h"
#include "ir/text.h"
#include "torture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parse_job {
  th_context *ctx;
  th_ir *ir;
  const char *text;
  size_t size;
  const char *again; // what it prints
} parse_job;

static th_status parse_work(void *user) {
  parse_job *job = user;
  th_trace *trace = NULL;
  job->again = NULL;
  TH_TRY(th_trace_parse(job->ir, "t", job->text, job->size, &trace));
  th_buffer out;
  th_buffer_init(&out, &job->ir->arena);
  th_trace_print(&out, trace, NULL);
  job->again = out.data;
  return TH_OK;
}

// Reads the text; *out_job lives until parse_free.
static th_status parse_text(parse_job *job, const char *text, size_t size) {
  *job = (parse_job){.ctx = th_context_new(), .text = text, .size = size};
  cr_assert(job->ctx);
  job->ir = th_ir_new(job->ctx);
  cr_assert(job->ir);
  return th_protect(&job->ctx->unwind, parse_work, job);
}

static void parse_free(parse_job *job) {
  th_ir_release(job->ir);
  th_context_free(job->ctx);
}

// `text` means what `wanted` says, and that is what a print looks like.
static void parse_expect(const char *text, const char *wanted) {
  parse_job job;
  th_status status = parse_text(&job, text, strlen(text));
  cr_assert_eq(status, TH_OK, "%s\n%s", text, th_diagnostics_all(job.ctx));
  cr_assert_str_eq(job.again, wanted);
  parse_free(&job);
  status = parse_text(&job, wanted, strlen(wanted));
  cr_assert_eq(status, TH_OK, "%s\n%s", wanted, th_diagnostics_all(job.ctx));
  cr_assert_str_eq(job.again, wanted);
  parse_free(&job);
}

static void parse_same(const char *text) { parse_expect(text, text); }

// All diagnostics, in order.
static void parse_refuse(const char *text, const char *diagnostics) {
  parse_job job;
  th_status status = parse_text(&job, text, strlen(text));
  cr_assert_neq(status, TH_OK, "%s", text);
  cr_assert_str_eq(th_diagnostics_all(job.ctx), diagnostics, "%s",
                   th_diagnostics_all(job.ctx));
  parse_free(&job);
}

#define HEAD                                                                   \
  "def f(x):\n"                                                                \
  "  # x: \"cpu f32[2, 3]\"\n"
#define TAIL "  return x\n"

// ---- what is read

Test(parse, types_are_optional) {
  parse_expect(HEAD "  y = add(x, 1)\n"
                    "  return y\n",
               HEAD "  y = add(x, 1)  # y: \"cpu f32[2, 3]\"\n"
                    "  return y\n");
}

Test(parse, spaces_and_line_ends) {
  parse_expect("\r\n\n  \ndef f ( x , ) :\r\n"
               "      #  x : \"cpu  f32 [ 2 , 3 ] { 3 , 1 }\"\r\n"
               "    y=add( x ,1 )# why\n"
               "    return( y , )",
               "def f(x):\n"
               "  # x: \"cpu f32[2, 3]{3, 1}\"\n"
               "  y = add(x, 1)  # y: \"cpu f32[2, 3]\"\n"
               "  return (y,)\n");
}

Test(parse, comments_are_dropped) {
  parse_expect("# RUN: thunder-opt %s\n"
               "# a file of mine\n" HEAD "# CHECK: y = add(x, 1)\n"
               "  # CHECK-NEXT: \"text\"\n"
               "  # see model.py:42\n"
               "  y = add(x, 1)  # the sum\n"
               "    # y = three(x)\n"
               "  # y: nothing\n"
               "  return y  # done\n"
               "# over\n",
               HEAD "  y = add(x, 1)  # y: \"cpu f32[2, 3]\"\n"
                    "  return y\n");
}

Test(parse, operations_by_any_spelling) {
  parse_expect(HEAD "  a = aten.add.Tensor(x, 1)\n"
                    "  b = aten.relu(a)\n"
                    "  c = ref.aten.relu.default(b)\n"
                    "  return c\n",
               HEAD "  a = add(x, 1)  # a: \"cpu f32[2, 3]\"\n"
                    "  b = relu(a)  # b: \"cpu f32[2, 3]\"\n"
                    "  c = ref.relu(b)  # c: \"cpu f32[2, 3]\"\n"
                    "  return c\n");
}

Test(parse, keywords) {
  parse_expect(HEAD "  a = slice(end=2, x=x, dim=1)\n"
                    "  b = sum(x=x, dims=None, keepdim=True)\n"
                    "  c = softmax(x, 1, dtype=None)\n"
                    "  return None\n",
               HEAD "  a = slice(x, 1, end=2)  # a: \"cpu f32[2, 2]{3, 1}\"\n"
                    "  b = sum(x, keepdim=True)  # b: \"cpu f32[1, 1]\"\n"
                    "  c = softmax(x, 1)  # c: \"cpu f32[2, 3]\"\n"
                    "  return None\n");
}

Test(parse, strings) {
  parse_expect("def f():\n"
               "  return ['', \"it's\", 'a\\x41\\u00e9\\'', 'tab\\t']\n",
               "def f():\n"
               "  return ['', 'it\\'s', 'aA\xc3\xa9\\'', 'tab\\t']\n");
}

// A value that is a number reads as its number where one is wanted.
Test(parse, numbers_of_inputs) {
  parse_expect("def f(x, n, k):\n"
               "  # x: \"cpu f32[2, 3]\"\n"
               "  # n: \"int s0\"\n"
               "  # k: \"float 2.5\"\n"
               "  # s0: \"int\" in [1, inf]\n"
               "  y = add(x, n)\n"
               "  z = mul(y, k)\n"
               "  return (z, n, s0 + 1)\n",
               "def f(x, n, k):\n"
               "  # x: \"cpu f32[2, 3]\"\n"
               "  # n: \"int s0\"\n"
               "  # k: \"float 2.5\"\n"
               "  # s0: \"int\" in [1, inf]\n"
               "  y = add(x, s0)  # y: \"cpu f32[2, 3]\"\n"
               "  z = mul(y, 2.5)  # z: \"cpu f32[2, 3]\"\n"
               "  return (z, n, s0 + 1)\n");
}

Test(parse, sizes_that_depend_on_data) {
  parse_same("def f(x, c):\n"
             "  # x: \"cpu f32[2, 3]\"\n"
             "  # c: \"cpu i64[]\"\n"
             "  # u7: \"int\" in [0, 6]\n"
             "  # u9: \"int\" in [-inf, inf]\n"
             "  n = nonzero(x)  # n: \"cpu i64[u7, 2]\"\n"
             "  k = item(c)  # k: \"int u9\"\n"
             "  y = add(n, u9)  # y: \"cpu i64[u7, 2]\"\n"
             "  return (y, u7, k)\n");
}

Test(parse, expressions) {
  parse_same("def f(x):\n"
             "  # x: \"cpu f32[s0, s0*s1 + 3]\"\n"
             "  # s0: \"int\" in [1, 64]\n"
             "  # s1: \"int\" in [2, inf]\n"
             "  # f0: \"float\"\n"
             "  return [s0*s1 + 3, s0 // 2, s0 % 7, min(s0, 4), max(s0, s1), "
             "-1*s0, s0 == s1, not s0 < s1, f0 ** 2.0, where(s0 <= 4, 1, 2), "
             "-inf, -5, True]\n");
}

Test(parse, regions) {
  parse_same(HEAD "  [y] = hostFusion0(x)\n"
                  "    # [t, y] = hostKernel0(x)\n"
                  "      # t = neg(x)  # t: \"cpu f32[2, 3]\"\n"
                  "      # y = exp(t)  # y: \"cpu f32[2, 3]\"\n"
                  "    # [_] = hostKernel1(t)\n"
                  "      # # mlp  a.py:3\n"
                  "      # u = neg(t)  # u: \"cpu f32[2, 3]\"\n"
                  "\n"
                  "  # mlp  a.py:4\n"
                  "  z = neg(y)  # z: \"cpu f32[2, 3]\"\n"
                  "  del x, y\n"
                  "  return z\n");
}

// Lines that check a text can stand anywhere in it, also in a body.
Test(parse, comments_in_bodies) {
  parse_expect(HEAD "  [y] = hostFusion0(x)  # fused\n"
                    "# CHECK: hostFusion0\n"
                    "    # t = gelu(x)\n"
                    "        # t.1 = mul(x, 0.5)\n"
                    "        # t = mul(t.1, 2)\n"
                    "  # CHECK-NEXT: exp\n"
                    "    # some prose, and more\n"
                    "    # y = exp(t)\n"
                    "  return y\n",
               HEAD "  [y] = hostFusion0(x)\n"
                    "    # t = gelu(x)  # t: \"cpu f32[2, 3]\"\n"
                    "    # y = exp(t)  # y: \"cpu f32[2, 3]\"\n"
                    "  return y\n");
}

Test(parse, subtraces) {
  parse_same("def f(c, x):\n"
             "  # c: \"cpu b8[]\"\n"
             "  # x: \"cpu f32[s0]\"\n"
             "  # s0: \"int\" in [1, inf]\n"
             "\n"
             "  # top  m.py:1\n"
             "  @no_grad\n"
             "  def yes(p):\n"
             "    # p: \"cpu f32[s0]\"\n"
             "    # s5: \"int\" in [0, 1]\n"
             "\n"
             "    # top.yes  m.py:2\n"
             "    q = add(p, s5)  # q: \"cpu f32[s0]\"\n"
             "    return [q]\n"
             "  def no(p):\n"
             "    # p: \"cpu f32[s0]\"\n"
             "    def inner(p):\n"
             "      # p: \"cpu f32[s0]\"\n"
             "      return [p]\n"
             "    def other(p):\n"
             "      # p: \"cpu f32[s0]\"\n"
             "      return [p]\n"
             "    [q] = cond(True, inner, other, [p])  # q: \"cpu f32[s0]\"\n"
             "    return [q]\n"
             "  [y] = cond(c, yes, no, [x])  # y: \"cpu f32[s0]\"\n"
             "  return {'output': y}\n");
}

// ---- operations of the user

static th_status parse_same_type(th_infer *in) {
  in->outs[0] = *th_infer_tensor(in, 0);
  in->out_count = 1;
  return TH_OK;
}

static th_status parse_user_work(void *user) {
  parse_job *job = user;
  const th_op_info *op = NULL;
  TH_TRY(th_op_register(job->ctx,
                        &(th_user_op){.name = "my::scale",
                                      .schema = "T x, F factor=2.0",
                                      .outs = 1,
                                      .infer = parse_same_type},
                        &op));
  return parse_work(job);
}

Test(parse, user_operations) {
  static const char text[] =
      HEAD "  y = my::scale(x)  # y: \"cpu f32[2, 3]\"\n"
           "  z = mine.my::scale(y, 3.5)  # z: \"cpu f32[2, 3]\"\n"
           "  return z\n";
  parse_job job = {
      .ctx = th_context_new(), .text = text, .size = sizeof text - 1};
  job.ir = th_ir_new(job.ctx);
  cr_assert_eq(th_protect(&job.ctx->unwind, parse_user_work, &job), TH_OK, "%s",
               th_diagnostics_all(job.ctx));
  cr_assert_str_eq(job.again, text);
  parse_free(&job);
}

// ---- what is refused; lit has one text for each diagnostic

Test(parse, one_located_error) {
  parse_refuse(HEAD "  y = add(x, zz)\n"
                    "  return y\n",
               "t:3:14: error: 'zz' is no value that was made above\n");
}

// What uses a result that has an error is passed over.
Test(parse, several_errors) {
  parse_refuse(
      HEAD "  a = add(x)\n"
           "  b = neg(a)\n"
           "  c = lineer(x)\n"
           "  d = neg(x)  # d: \"cpu f32[3, 2]\"\n"
           "  return (d, c)\n",
      "t:3:7: error: add: argument 'y' is missing\n"
      "t:5:7: error: 'lineer' is no operation, and no body follows that would "
      "make it a region\n"
      "t:6:20: error: neg: 'd' is cpu f32[2, 3], and its type says cpu f32[3, "
      "2]\n");
}

Test(parse, errors_have_a_limit) {
  char text[4096] = HEAD;
  size_t size = strlen(text);
  for (int i = 0; i < 30; i++) {
    size += (size_t)snprintf(text + size, sizeof text - size,
                             "  y%d = neg(q%d)\n", i, i);
  }
  parse_job job;
  cr_assert_eq(parse_text(&job, text, size), TH_PARSE);
  cr_assert_eq(th_diagnostic_count(job.ctx), TH_TEXT_ERRORS + 1);
  cr_assert_str_eq(th_diagnostic_text(job.ctx, TH_TEXT_ERRORS),
                   "t:23:3: note: too many errors: reading stops here");
  parse_free(&job);
}

// Verification speaks of the text that was read.
Test(parse, verifier_names_the_line) {
  parse_refuse(HEAD "\n"
                    "  # mlp  model.py:42\n"
                    "  [y] = hostFusion0(x)\n"
                    "    # t = neg(x)\n"
                    "    # y = neg(t)\n"
                    "  z = neg(t)\n"
                    "  return z\n",
               "t:8:7: error: neg: 't' is made inside a region and is not its "
               "result\n");
}

// ---- hostile texts

static void parse_survive(const char *text, size_t size) {
  parse_job job;
  th_status status = parse_text(&job, text, size);
  cr_assert_neq(status, TH_OK);
  cr_assert_neq(status, TH_NO_MEMORY);
  cr_assert_gt(th_diagnostic_count(job.ctx), 0);
  parse_free(&job);
}

// `head`, `count` times `piece`.
static char *parse_repeat(const char *head, const char *piece, size_t count,
                          size_t *out_size) {
  size_t start = strlen(head), n = strlen(piece);
  *out_size = start + n * count;
  char *text = malloc(*out_size);
  cr_assert(text);
  for (size_t i = 0; i < *out_size; i++) {
    text[i] = i < start ? head[i] : piece[(i - start) % n];
  }
  return text;
}

Test(parse, nesting_is_limited, .timeout = 60) {
  static const struct {
    const char *head, *piece;
  } cases[] = {
      {HEAD "  return ", "["},
      {HEAD "  return ", "("},
      {HEAD "  return ", "{'a':"},
      {HEAD "  return ", "-"},
      {HEAD "  return ", "not "},
      {HEAD "  return 1", " + (2"},
      {HEAD "  y = neg(", "["},
      {"", "@no_grad\n"},
      {"", "def f():\n  "},
      {HEAD, "  # "},
      {HEAD "  return ", "min("},
      {"def f(", "x, "},
      {HEAD "  y = f", "_"},
      {HEAD "  return ", "'"},
      {HEAD "  return (0", "**2"},
      {HEAD "  return (1", "/1"},
      {HEAD "  return ", "("},
      {"def f(x):\n  # x: ", "\"cpu f32["},
      {"# ", "\\x"},
      {HEAD "  [", "y,"},
  };
  for (size_t i = 0; i < TH_COUNT(cases); i++) {
    size_t size = 0;
    char *text = parse_repeat(cases[i].head, cases[i].piece, 100000, &size);
    parse_survive(text, size);
    free(text);
  }
}

// Sub-traces in sub-traces, each indented deeper.
Test(parse, traces_nest_to_a_limit) {
  char text[8192] = "";
  size_t size = 0;
  for (int i = 0; i < 30; i++) {
    size += (size_t)snprintf(text + size, sizeof text - size, "%*sdef f%d():\n",
                             i, "", i);
  }
  parse_survive(text, size);
}

Test(parse, bytes_of_any_kind) {
  for (int c = 0; c < 256; c++) {
    char text[] = HEAD "  y = neg(?x)\n" TAIL;
    *strchr(text, '?') = (char)c;
    parse_job job;
    th_status status = parse_text(&job, text, sizeof text - 1);
    cr_assert_eq(status == TH_OK, c == ' ', "byte %d", c);
    parse_free(&job);
  }
}

// Every prefix of a text is refused, or is a whole text itself.
Test(parse, truncated) {
  static const char text[] =
      "# Constructed by x (took 1 ms)\n"
      "@autocast(bf16)\n"
      "def f(x, w):\n"
      "  # x: \"cpu f32[s0, 3]{3, 1}\" @12\n"
      "  # w: \"cpu f32[4, 3]\"  buffer non-persistent a.b\n"
      "  # s0: \"int\" in [1, inf]\n"
      "\n"
      "  # a.b  \"m o.py\":3:4\n"
      "  y = linear(x, weight=w)  # y: \"cpu f32[s0, 4]\" @64\n"
      "  [z] = hostFusion0(y)\n"
      "    # # c  -\n"
      "    # z = neg(y)  # z: \"cpu f32[s0, 4]\"\n"
      "  return {'output': (z, s0 + 1, 'x\\x41', -1.5e3)}\n";
  for (size_t size = 0; size < sizeof text - 2; size++) {
    char *copy = malloc(size ? size : 1); // no byte behind it may be read
    cr_assert(copy);
    memcpy(copy, text, size);
    parse_survive(copy, size);
    free(copy);
  }
}

// What is kept is bounded by a multiple of the text.
Test(parse, memory_is_bounded, .timeout = 120) {
  static const char *const pieces[] = {
      "  a=neg(x)\n",
      "  (_,_)=topk(x,1)\n",
      "  [_,_]=split(x,[1,1])\n",
      "  _=x()\n",
      "  _=full([1],0,u8)\n",
      "  # a  b:1\n",
      "  _=split(x,[1,1])\n",
      "  return s0//2+s0//3+s0//4+s0//5+s0//6+s0//7+s0//8+s0//9+s0//11\n",
      "  _=nonzero(x)\n",
  };
  for (size_t i = 0; i < TH_COUNT(pieces); i++) {
    size_t size = 0;
    char *text = parse_repeat("def f(x):\n"
                              "  # x: \"cpu f32[2, 3]\"\n"
                              "  # s0: \"int\" in [1, inf]\n",
                              pieces[i], 20000, &size);
    parse_job job;
    (void)parse_text(&job, text, size);
    cr_assert_leq(job.ir->arena.total, size * TH_TEXT_MEMORY + 65536,
                  "%s: %zu bytes for a text of %zu", pieces[i],
                  job.ir->arena.total, size);
    parse_free(&job);
    free(text);
  }
}

static th_status parse_torture(void *user) {
  (void)user;
  static const char text[] = "def f(x, w):\n"
                             "  # x: \"cpu f32[s0, 3]\"\n"
                             "  # w: \"cpu f32[4, 3]\"  param a.b\n"
                             "  # s0: \"int\" in [1, inf]\n"
                             "\n"
                             "  # a.b  m.py:3\n"
                             "  y = linear(x, w)\n"
                             "  [z] = hostFusion0(y)\n"
                             "    # z = neg(y)\n"
                             "  return {'output': (z, s0 + 1)}\n";
  th_context *ctx = th_context_new();
  if (!ctx) {
    return TH_NO_MEMORY;
  }
  parse_job job = {
      .ctx = ctx, .ir = th_ir_new(ctx), .text = text, .size = sizeof text - 1};
  th_status status =
      job.ir ? th_protect(&ctx->unwind, parse_work, &job) : TH_NO_MEMORY;
  th_ir_release(job.ir);
  th_context_free(ctx);
  return status;
}

Test(parse, each_allocation_fails) { torture(parse_torture, NULL); }

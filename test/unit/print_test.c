// Traces that are built by hand, and their exact text.
#include "ir/text.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <string.h>

typedef struct print_case {
  th_context *ctx;
  th_ir *ir;
  th_trace *trace;
  th_builder b;
} print_case;

static print_case print_new(void) {
  print_case c = {.ctx = th_context_new()};
  cr_assert(c.ctx);
  c.ir = th_ir_new(c.ctx);
  cr_assert(c.ir);
  return c;
}

static void print_begin(print_case *c) {
  c->trace = th_trace_new(c->ir, "computation");
  th_builder_init(&c->b, c->trace);
}

static void print_free(print_case *c) {
  th_ir_release(c->ir);
  th_context_free(c->ctx);
}

static th_type print_f32(print_case *c, int64_t rows, int64_t columns) {
  const th_expr **dims = TH_NEW_ARRAY(&c->ir->arena, const th_expr *, 2);
  dims[0] = th_int(c->ir, rows);
  dims[1] = th_int(c->ir, columns);
  return th_tensor_type(TH_F32, 2, dims);
}

static th_value *print_user(print_case *c, const char *name, th_type type) {
  return th_trace_input(c->trace, &type, name, NULL);
}

static void print_expect(print_case *c, const th_print_options *options,
                         const char *text) {
  th_buffer out;
  th_buffer_init(&out, &c->ir->arena);
  th_trace_print(&out, c->trace, options);
  cr_assert_str_eq(out.data, text);
  if (options) {
    return;
  }
  // The law, in a th_ir that knows nothing yet.
  th_ir *ir = th_ir_new(c->ctx);
  th_trace *again = NULL;
  th_status status = th_trace_parse(ir, "printed", out.data, out.size, &again);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(c->ctx));
  cr_assert(th_trace_equal(c->trace, again));
  th_buffer second;
  th_buffer_init(&second, &ir->arena);
  th_trace_print(&second, again, NULL);
  cr_assert_str_eq(second.data, text);
  th_ir_release(ir);
}

typedef struct print_job {
  void (*fn)(print_case *c);
  print_case *c;
} print_job;

static th_status print_work(void *user) {
  print_job *job = user;
  print_begin(job->c);
  job->fn(job->c);
  return TH_OK;
}

// Everything that allocates runs under th_protect.
static void print_run(void (*fn)(print_case *c)) {
  print_case c = print_new();
  print_job job = {fn, &c};
  cr_assert_eq(th_protect(&c.ctx->unwind, print_work, &job), TH_OK);
  print_free(&c);
}

// ---- smallest

static void print_empty(print_case *c) {
  print_expect(c, NULL,
               "def computation():\n"
               "  return None\n");
}
Test(print, empty) { print_run(print_empty); }

static void print_statements(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 2, 3));
  th_value *y = TH_BUILD(&c->b, add, th_v(x), th_i(c->ir, 1));
  th_value *z = TH_BUILD(&c->b, mul, th_v(y), th_f(c->ir, 0.1));
  c->trace->result = th_v(z);
  print_expect(c, NULL,
               "def computation(x):\n"
               "  # x: \"cpu f32[2, 3]\"\n"
               "  t0 = add(x, 1)  # t0: \"cpu f32[2, 3]\"\n"
               "  t1 = mul(t0, 0.1)  # t1: \"cpu f32[2, 3]\"\n"
               "  return t1\n");
}
Test(print, statements) { print_run(print_statements); }

// ---- head

static void print_decorators(print_case *c) {
  c->trace->provenance = "Constructed by fuse (took 12 ms)";
  c->trace->direction = TH_DIRECTION_BACKWARD;
  c->trace->no_grad = true;
  c->trace->has_autocast = true;
  c->trace->autocast = TH_BF16;
  c->trace->slab_size = 4096;
  print_expect(c, NULL,
               "# Constructed by fuse (took 12 ms)\n"
               "@backward\n"
               "@no_grad\n"
               "@autocast(bf16)\n"
               "@slab(4096)\n"
               "def computation():\n"
               "  return None\n");
  th_print_options mask = {.mask_time = true};
  c->trace->direction = TH_DIRECTION_FORWARD;
  c->trace->no_grad = c->trace->has_autocast = false;
  c->trace->slab_size = -1;
  print_expect(c, &mask,
               "# Constructed by fuse (took N ms)\n"
               "@forward\n"
               "def computation():\n"
               "  return None\n");
}
Test(print, decorators) { print_run(print_decorators); }

static void print_inputs(print_case *c) {
  th_type type = print_f32(c, 4, 4);
  const th_expr *scale = th_sym(c->ir, "f0", TH_F64);
  const th_expr *flag = th_sym(c->ir, "b0", TH_BOOL);
  th_trace_input(c->trace, &type, th_name_of_fqn(c->ir, "h.0.attn_norm"),
                 &(th_input){TH_INPUT_PARAM, "h.0.attn_norm", false});
  th_trace_input(c->trace, &type, "mean",
                 &(th_input){TH_INPUT_BUFFER, "bn.mean", true});
  th_trace_input(c->trace, &type, "cache",
                 &(th_input){TH_INPUT_BUFFER, "non-persistent", false});
  th_trace_input(c->trace, &type, "lifted",
                 &(th_input){TH_INPUT_CONSTANT, "odd name", false});
  print_user(c, "n", th_number_type(th_int(c->ir, -3)));
  print_user(c, "scale", th_number_type(scale));
  print_user(c, "flag", th_number_type(flag));
  print_user(c, "inf", th_number_type(th_float(c->ir, -INFINITY)));
  print_user(c, "mode",
             (th_type){.kind = TH_KIND_STRING, .text = "it's \"q\""});
  print_user(c, "nothing", (th_type){.kind = TH_KIND_NONE});
  print_expect(
      c, NULL,
      "def computation(t_h_0_attn__norm, mean, cache, lifted, n, scale, flag, "
      "inf_, mode, nothing):\n"
      "  # t_h_0_attn__norm: \"cpu f32[4, 4]\"  param h.0.attn_norm\n"
      "  # mean: \"cpu f32[4, 4]\"  buffer bn.mean\n"
      "  # cache: \"cpu f32[4, 4]\"  buffer non-persistent "
      "\"non-persistent\"\n"
      "  # lifted: \"cpu f32[4, 4]\"  constant \"odd name\"\n"
      "  # n: \"int -3\"\n"
      "  # scale: \"float f0\"\n"
      "  # flag: \"bool b0\"\n"
      "  # inf_: \"float -inf\"\n"
      "  # mode: \"str 'it\\x27s \\x22q\\x22'\"\n"
      "  # nothing: \"None\"\n"
      "  # f0: \"float\"\n"
      "  # b0: \"bool\"\n"
      "  return None\n");
}
Test(print, inputs) { print_run(print_inputs); }

static void print_symbols(print_case *c) {
  const th_expr *s0 = th_sym(c->ir, "s0", TH_I64);
  const th_expr *s1 = th_sym(c->ir, "s1", TH_I64);
  const th_expr *unused = th_sym(c->ir, "s2", TH_I64);
  th_sym_range(c->ir, s0, 1, 16);
  th_sym_range(c->ir, s1, 2, INT64_MAX);
  cr_assert(unused);
  const th_expr *dims[] = {th_expr_mul(c->ir, s0, th_int(c->ir, 2)), s1};
  th_type type = th_tensor_type(TH_BF16, 2, dims);
  th_value *x = print_user(c, "x", type);
  th_arg items[] = {th_v(x), th_n(th_expr_add(c->ir, s0, s1)), th_n(s0)};
  c->trace->result = th_tuple(c->ir, items, 3);
  print_expect(c, NULL,
               "def computation(x):\n"
               "  # x: \"cpu bf16[2*s0, s1]\"\n"
               "  # s0: \"int\" in [1, 16]\n"
               "  # s1: \"int\" in [2, inf]\n"
               "  return (x, s0 + s1, s0)\n");
}
Test(print, symbols) { print_run(print_symbols); }

// A symbol that is called like a value stands in parentheses, but where a
// number is wanted the value reads as its number.
static void print_collision(print_case *c) {
  const th_expr *n = th_sym(c->ir, "n", TH_I64);
  const th_expr *m = th_sym(c->ir, "m", TH_I64);
  th_value *number = print_user(c, "n", th_number_type(n));
  th_value *m_value = print_user(c, "m", print_f32(c, 2, 2));
  th_value *y = TH_BUILD(&c->b, add, th_v(m_value), th_n(n));
  th_value *z = TH_BUILD(&c->b, add, th_v(y), th_n(m));
  th_arg items[] = {th_v(number), th_n(n), th_n(m), th_v(m_value), th_v(z)};
  c->trace->result = th_list(c->ir, items, 5);
  print_expect(c, NULL,
               "def computation(n, m):\n"
               "  # n: \"int n\"\n"
               "  # m: \"cpu f32[2, 2]\"\n"
               "  # n: \"int\" in [-inf, inf]\n"
               "  # m: \"int\" in [-inf, inf]\n"
               "  t0 = add(m, n)  # t0: \"cpu f32[2, 2]\"\n"
               "  t1 = add(t0, (m))  # t1: \"cpu f32[2, 2]\"\n"
               "  return [n, (n), (m), m, t1]\n");
}
Test(print, collision) { print_run(print_collision); }

// ---- arguments

static void print_defaults(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 4, 8));
  th_ir *ir = c->ir;
  TH_BUILD(&c->b, linear, th_v(x), th_v(x));
  TH_BUILD(&c->b, gelu, th_v(x), th_s("tanh"));
  TH_BUILD(&c->b, gelu, th_v(x), th_s("none"));
  TH_BUILD(&c->b, topk, th_v(x), th_i(ir, 3), th_i(ir, -1), th_b(ir, false));
  TH_BUILD(&c->b, sum, th_v(x), th_none(), th_b(ir, false), th_d(TH_F64));
  TH_BUILD(&c->b, slice, th_v(x), th_i(ir, 0), th_none(), th_i(ir, 2));
  TH_BUILD(&c->b, elu, th_v(x), th_f(ir, 1.0));
  TH_BUILD(&c->b, full, th_ints(ir, (int64_t[]){2}, 1), th_f(ir, NAN),
           th_d(TH_F16));
  cr_assert_eq(c->b.status, TH_OK, "%s", th_diagnostics_all(c->ctx));
  print_expect(
      c, NULL,
      "def computation(x):\n"
      "  # x: \"cpu f32[4, 8]\"\n"
      "  t0 = linear(x, x)  # t0: \"cpu f32[4, 4]\"\n"
      "  t1 = gelu(x, 'tanh')  # t1: \"cpu f32[4, 8]\"\n"
      "  t2 = gelu(x)  # t2: \"cpu f32[4, 8]\"\n"
      "  (t3, t4) = topk(x, 3, largest=False)  # t3: \"cpu f32[4, 3]\", t4: "
      "\"cpu i64[4, 3]\"\n"
      "  t5 = sum(x, dtype=f64)  # t5: \"cpu f64[]\"\n"
      "  t6 = slice(x, end=2)  # t6: \"cpu f32[2, 8]\"\n"
      "  t7 = elu(x, 1.0)  # t7: \"cpu f32[4, 8]\"\n"
      "  t8 = full([2], nan, f16)  # t8: \"cpu f16[2]\"\n"
      "  return None\n");
}
Test(print, defaults) { print_run(print_defaults); }

static void print_result(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 1, 1));
  th_ir *ir = c->ir;
  th_arg one[] = {th_v(x)};
  th_arg items[] = {
      th_none(),
      th_tuple(ir, one, 1),
      th_tuple(ir, NULL, 0),
      th_list(ir, NULL, 0),
      th_s("a'b\n\t\\\"\x01\xff \xc3\xa9 \xed\xa0\x80"),
      th_d(TH_F8_E4M3FN),
      {.kind = TH_ARG_DEVICE, .device = {TH_CUDA, 1}},
      th_b(ir, true),
      th_i(ir, INT64_MIN),
      th_f(ir, -0.0),
      th_f(ir, INFINITY),
      th_f(ir, 1e300),
      th_f(ir, 0.1f),
  };
  static const char *const keys[] = {"output", "it's"};
  th_arg tree[] = {th_list(ir, items, TH_COUNT(items)), th_none()};
  c->trace->result = th_dict(ir, keys, tree, 2);
  print_expect(
      c, NULL,
      "def computation(x):\n"
      "  # x: \"cpu f32[1, 1]\"\n"
      "  return {'output': [None, (x,), (), [], "
      "'a\\'b\\n\\t\\\\\"\\x01\\xff \xc3\xa9 \\xed\\xa0\\x80', f8_e4m3fn, "
      "device('cuda:1'), True, -9223372036854775808, -0.0, inf, 1e+300, "
      "0.10000000149011612], 'it\\'s': None}\n");
}
Test(print, result) { print_run(print_result); }

// ---- statements

static void print_unused(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 4, 8));
  th_stmt *top = th_build(&c->b, th_op_row(TH_OP_topk),
                          (th_arg[]){th_v(x), th_i(c->ir, 2)}, 2, NULL);
  th_stmt *split = th_build(
      &c->b, th_op_row(TH_OP_split),
      (th_arg[]){th_v(x), th_ints(c->ir, (int64_t[]){1, 3}, 2)}, 2, NULL);
  cr_assert(top && split);
  top->outs[1] = NULL;
  split->outs[0] = NULL;
  top->executor = "ref";
  split->outs[1]->slab = 64;
  c->trace->slab_size = 256;
  print_expect(c, NULL,
               "@slab(256)\n"
               "def computation(x):\n"
               "  # x: \"cpu f32[4, 8]\"\n"
               "  (t0, _) = ref.topk(x, 2)  # t0: \"cpu f32[4, 2]\"\n"
               "  [_, t3] = split(x, [1, 3])  # t3: \"cpu f32[3, 8]\" @64\n"
               "  return None\n");
}
Test(print, unused) { print_run(print_unused); }

static void print_locations(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 1, 1));
  c->b.scope = "h.0.mlp";
  c->b.loc = (th_loc){"model.py", 42, 0};
  TH_BUILD(&c->b, neg, th_v(x));
  TH_BUILD(&c->b, abs, th_v(x));
  c->b.scope = "";
  TH_BUILD(&c->b, neg, th_v(x));
  c->b.scope = "a b:c";
  c->b.loc = (th_loc){"C:\\x \"y\".py", 3, 7};
  TH_BUILD(&c->b, neg, th_v(x));
  c->b.scope = "-";
  c->b.loc = (th_loc){NULL, 3, 7};
  TH_BUILD(&c->b, neg, th_v(x));
  c->b.scope = "";
  TH_BUILD(&c->b, neg, th_v(x));
  print_expect(c, NULL,
               "def computation(x):\n"
               "  # x: \"cpu f32[1, 1]\"\n"
               "\n"
               "  # h.0.mlp  model.py:42\n"
               "  t0 = neg(x)  # t0: \"cpu f32[1, 1]\"\n"
               "  t1 = abs(x)  # t1: \"cpu f32[1, 1]\"\n"
               "\n"
               "  # -  model.py:42\n"
               "  t2 = neg(x)  # t2: \"cpu f32[1, 1]\"\n"
               "\n"
               "  # \"a b:c\"  \"C:\\\\x \\\"y\\\".py\":3:7\n"
               "  t3 = neg(x)  # t3: \"cpu f32[1, 1]\"\n"
               "\n"
               "  # \"-\"  -\n"
               "  t4 = neg(x)  # t4: \"cpu f32[1, 1]\"\n"
               "\n"
               "  # -  -\n"
               "  t5 = neg(x)  # t5: \"cpu f32[1, 1]\"\n"
               "  return None\n");
  print_expect(c, &(th_print_options){.no_locations = true},
               "def computation(x):\n"
               "  # x: \"cpu f32[1, 1]\"\n"
               "  t0 = neg(x)  # t0: \"cpu f32[1, 1]\"\n"
               "  t1 = abs(x)  # t1: \"cpu f32[1, 1]\"\n"
               "  t2 = neg(x)  # t2: \"cpu f32[1, 1]\"\n"
               "  t3 = neg(x)  # t3: \"cpu f32[1, 1]\"\n"
               "  t4 = neg(x)  # t4: \"cpu f32[1, 1]\"\n"
               "  t5 = neg(x)  # t5: \"cpu f32[1, 1]\"\n"
               "  return None\n");
}
Test(print, locations) { print_run(print_locations); }

// ---- regions

// Moves the last `count` statements into a statement of its own.
static th_stmt *print_wrap(print_case *c, th_op op, const char *label,
                           uint32_t count, th_value *arg, th_value *out) {
  th_trace *t = c->trace;
  th_stmt *stmt = TH_NEW(&c->ir->arena, th_stmt);
  stmt->op = th_op_row(op);
  stmt->label = label;
  stmt->scope = "";
  stmt->args = TH_NEW(&c->ir->arena, th_arg);
  stmt->args[0] = th_v(arg);
  stmt->outs = TH_NEW(&c->ir->arena, th_value *);
  stmt->outs[0] = out;
  stmt->arg_count = stmt->out_count = 1;
  stmt->body = TH_NEW_ARRAY(&c->ir->arena, th_stmt *, count);
  stmt->body_count = count;
  t->stmt_count -= count;
  memcpy(stmt->body, t->stmts + t->stmt_count, count * sizeof *stmt->body);
  for (uint32_t i = 0; i < count; i++) {
    stmt->body[i]->index = i;
  }
  stmt->index = t->stmt_count;
  t->stmts[t->stmt_count++] = stmt;
  return stmt;
}

static void print_region(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 1, 1));
  c->b.scope = "mlp";
  th_value *y = TH_BUILD(&c->b, neg, th_v(x));
  c->b.scope = "mlp.act";
  th_value *z = TH_BUILD(&c->b, exp, th_v(y));
  print_wrap(c, TH_OP_kernel, "hostKernel0", 2, x, z)->executor = "host";
  print_wrap(c, TH_OP_region, "hostFusion0", 1, x, z)->executor = "host";
  c->b.scope = "";
  th_value *last = TH_BUILD(&c->b, abs, th_v(z));
  th_build(&c->b, th_op_row(TH_OP_del), (th_arg[]){th_v(x), th_v(z)}, 2, NULL);
  c->trace->result = th_v(last);
  print_expect(c, NULL,
               "def computation(x):\n"
               "  # x: \"cpu f32[1, 1]\"\n"
               "  [t1] = hostFusion0(x)\n"
               "    # [t1] = hostKernel0(x)\n"
               "      # # mlp  -\n"
               "      # t0 = neg(x)  # t0: \"cpu f32[1, 1]\"\n"
               "      # # mlp.act  -\n"
               "      # t1 = exp(t0)  # t1: \"cpu f32[1, 1]\"\n"
               "  t2 = abs(t1)  # t2: \"cpu f32[1, 1]\"\n"
               "  del x, t1\n"
               "  return t2\n");
}
Test(print, region) { print_run(print_region); }

// Who owns a region follows from its label, or is written.
static void print_region_executor(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 1, 1));
  static const char *const executors[] = {NULL, "host_cat", "mine", "mine"};
  static const char *const labels[] = {"hostFusion1", "host_catFusion12",
                                       "hostFusion3", "region_a"};
  for (size_t i = 0; i < TH_COUNT(labels); i++) {
    th_value *y = TH_BUILD(&c->b, neg, th_v(x));
    print_wrap(c, TH_OP_region, labels[i], 1, x, y)->executor = executors[i];
  }
  print_expect(c, NULL,
               "def computation(x):\n"
               "  # x: \"cpu f32[1, 1]\"\n"
               "  [t0] = _.hostFusion1(x)\n"
               "    # t0 = neg(x)  # t0: \"cpu f32[1, 1]\"\n"
               "  [t1] = host_catFusion12(x)\n"
               "    # t1 = neg(x)  # t1: \"cpu f32[1, 1]\"\n"
               "  [t2] = mine.hostFusion3(x)\n"
               "    # t2 = neg(x)  # t2: \"cpu f32[1, 1]\"\n"
               "  [t3] = mine.region_a(x)\n"
               "    # t3 = neg(x)  # t3: \"cpu f32[1, 1]\"\n"
               "  return None\n");
}
Test(print, region_executor) { print_run(print_region_executor); }

static void print_in_place(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 4, 4));
  th_value *y = print_user(c, "y", print_f32(c, 1, 4));
  th_value *z = TH_BUILD(&c->b, slice_scatter, th_v(x), th_v(y), th_i(c->ir, 0),
                         th_i(c->ir, 1), th_i(c->ir, 2));
  z->def->in_place = true;
  z->def->executor = "host";
  print_expect(c, NULL,
               "def computation(x, y):\n"
               "  # x: \"cpu f32[4, 4]\"\n"
               "  # y: \"cpu f32[1, 4]\"\n"
               "  t0 = host.slice_scatter_(x, y, start=1, end=2)  # t0: \"cpu "
               "f32[4, 4]\"\n"
               "  return None\n");
}
Test(print, in_place) { print_run(print_in_place); }

// ---- sub-traces

static th_trace *print_branch(print_case *c, const char *name, th_op op) {
  th_trace *branch = th_trace_new(c->ir, name);
  th_type type = print_f32(c, 2, 2);
  const th_expr *s9 = th_sym(c->ir, "s9", TH_I64);
  th_value *p = th_trace_input(branch, &type, "p", NULL);
  th_builder b;
  th_builder_init(&b, branch);
  th_value *q = th_build1(&b, op, (th_arg[]){th_v(p)}, 1);
  th_value *r = TH_BUILD(&b, add, th_v(q), th_v(p));
  r = TH_BUILD(&b, mul, th_v(r), th_n(s9));
  th_arg outs[] = {th_v(r)};
  branch->result = th_list(c->ir, outs, 1);
  return branch;
}

static void print_cond(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 2, 2));
  th_value *flag = print_user(c, "flag", th_tensor_type(TH_BOOL, 0, NULL));
  th_arg operands[] = {th_v(x)};
  th_arg args[] = {
      th_v(flag),
      {.kind = TH_ARG_TRACE, .trace = print_branch(c, "yes", TH_OP_neg)},
      {.kind = TH_ARG_TRACE, .trace = print_branch(c, "no", TH_OP_exp)},
      th_list(c->ir, operands, 1)};
  th_stmt *cond = th_build(&c->b, th_op_row(TH_OP_cond), args, 4, NULL);
  cr_assert(cond, "%s", th_diagnostics_all(c->ctx));
  c->trace->result = th_v(cond->outs[0]);
  print_expect(c, NULL,
               "def computation(x, flag):\n"
               "  # x: \"cpu f32[2, 2]\"\n"
               "  # flag: \"cpu b8[]\"\n"
               "  def yes(p):\n"
               "    # p: \"cpu f32[2, 2]\"\n"
               "    # s9: \"int\" in [-inf, inf]\n"
               "    t0 = neg(p)  # t0: \"cpu f32[2, 2]\"\n"
               "    t1 = add(t0, p)  # t1: \"cpu f32[2, 2]\"\n"
               "    t2 = mul(t1, s9)  # t2: \"cpu f32[2, 2]\"\n"
               "    return [t2]\n"
               "  def no(p):\n"
               "    # p: \"cpu f32[2, 2]\"\n"
               "    # s9: \"int\" in [-inf, inf]\n"
               "    t0 = exp(p)  # t0: \"cpu f32[2, 2]\"\n"
               "    t1 = add(t0, p)  # t1: \"cpu f32[2, 2]\"\n"
               "    t2 = mul(t1, s9)  # t2: \"cpu f32[2, 2]\"\n"
               "    return [t2]\n"
               "  [t0] = cond(flag, yes, no, [x])  # t0: \"cpu f32[2, 2]\"\n"
               "  return t0\n");
}
Test(print, cond) { print_run(print_cond); }

// ---- around

static void print_expansion(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 2, 2));
  TH_BUILD(&c->b, relu, th_v(x));
  print_expect(c, &(th_print_options){.expand = true},
               "def computation(x):\n"
               "  # x: \"cpu f32[2, 2]\"\n"
               "  t0 = relu(x)  # t0: \"cpu f32[2, 2]\"\n"
               "    # t0 = maximum(x, 0)  # t0: \"cpu f32[2, 2]\"\n"
               "  return None\n");
}
Test(print, expansion) { print_run(print_expansion); }

static void print_one_stmt(print_case *c) {
  th_value *x = print_user(c, "x", print_f32(c, 2, 2));
  th_value *y = TH_BUILD(&c->b, add, th_v(x), th_f(c->ir, 2));
  th_buffer out;
  th_buffer_init(&out, &c->ir->arena);
  th_stmt_print(&out, y->def);
  cr_assert_str_eq(out.data, "t0 = add(x, 2.0)  # t0: \"cpu f32[2, 2]\"");
}
Test(print, one_stmt) { print_run(print_one_stmt); }

// A locale with a decimal comma, where the system has one.
Test(print, locale) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8"};
  for (size_t i = 0; i < TH_COUNT(names); i++) {
    if (setlocale(LC_ALL, names[i])) {
      print_run(print_result);
      print_run(print_defaults);
    }
  }
  setlocale(LC_ALL, "C");
}

// No two FQNs become one name, and each is an identifier.
Test(print, names_of_fqns) {
  static const char *const fqns[] = {
      "a.b_c", "a_b.c", "a._b", "a_.b",  "a__b",  "a..b", "a-b", "a.b",
      "a_b",   "_a",    "a_",   "a",     "A",     "a.0",  "a0",  "a b",
      "a/b",   "a.-b",  "a-.b", "a___b", "a_._b", ".a",   "",    "a.x2d_b",
  };
  print_case c = print_new();
  for (size_t i = 0; i < TH_COUNT(fqns); i++) {
    const char *name = th_name_of_fqn(c.ir, fqns[i]);
    cr_assert(th_text_is_name(name, strlen(name)), "%s", name);
    for (size_t k = 0; k < i; k++) {
      cr_assert_str_neq(name, th_name_of_fqn(c.ir, fqns[k]), "%s and %s",
                        fqns[i], fqns[k]);
    }
  }
  print_free(&c);
}

// Index expressions, nests and plans: what a kernel is before there is code.
#include "lower_kit.h"

#include "lowering/plan.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

typedef struct space_kit {
  th_context *ctx;
  th_ir *ir;
  th_space space;
} space_kit;

static void space_open(space_kit *kit) {
  kit->ctx = th_context_new();
  kit->ir = th_ir_new(kit->ctx);
  th_space_init(&kit->space, kit->ir, &kit->ir->arena);
}

static void space_close(space_kit *kit) {
  th_ir_release(kit->ir);
  th_context_free(kit->ctx);
}

static const th_expr *space_int(space_kit *kit, int64_t i) {
  return th_int(kit->ir, i);
}

static const th_expr *plus(space_kit *kit, const th_expr *a, const th_expr *b) {
  return th_expr_add(kit->ir, a, b);
}

static const th_expr *times(space_kit *kit, const th_expr *a,
                            const th_expr *b) {
  return th_expr_mul(kit->ir, a, b);
}

Test(index, division_uses_the_extents) {
  space_kit k;
  space_open(&k);
  const th_expr *h = th_space_var(&k.space, space_int(&k, 12));
  const th_expr *d = th_space_var(&k.space, space_int(&k, 64));
  const th_expr *e = plus(&k, times(&k, h, space_int(&k, 64)), d);
  cr_assert_eq(th_space_div(&k.space, e, space_int(&k, 64)), h);
  cr_assert_eq(th_space_mod(&k.space, e, space_int(&k, 64)), d);
  // A common factor: (64h + d) // 128 needs h // 2, so h is to be split.
  cr_assert_eq(k.space.split_var, -1);
  th_space_div(&k.space, e, space_int(&k, 128));
  cr_assert_eq(k.space.split_var, 0);
  cr_assert_eq(k.space.split_by, space_int(&k, 2));
  space_close(&k);
}

Test(index, division_by_sizes_that_are_not_known) {
  space_kit k;
  space_open(&k);
  const th_expr *s = th_sym(k.ir, "s", TH_I64), *t = th_sym(k.ir, "t", TH_I64);
  th_sym_range(k.ir, s, 1, INT64_MAX);
  th_sym_range(k.ir, t, 1, INT64_MAX);
  const th_expr *one = space_int(&k, 1);
  const th_expr *total = plus(&k, s, t); // a size that is a sum
  const th_expr *b = th_space_var(&k.space, space_int(&k, 4));
  const th_expr *i = th_space_var(&k.space, total);
  const th_expr *e = plus(&k, times(&k, b, total), i);
  cr_assert_eq(th_space_div(&k.space, e, total), b);
  cr_assert_eq(th_space_mod(&k.space, e, total), i);
  const th_expr *j = th_space_var(&k.space, s);
  const th_expr *f = plus(&k, times(&k, b, s), j);
  cr_assert_eq(th_space_div(&k.space, f, s), b);
  cr_assert(th_space_below(&k.space, j, s));
  cr_assert_not(th_space_below(&k.space, plus(&k, j, one), s));
  cr_assert_eq(th_space_known(&k.space, TH_X_LT, j, s), 1);
  cr_assert_eq(th_space_known(&k.space, TH_X_LT, j, t), -1);
  space_close(&k);
}

Test(index, a_reshape_there_and_back_is_nothing) {
  space_kit k;
  space_open(&k);
  const th_expr *dims[] = {space_int(&k, 6), space_int(&k, 4)};
  const th_expr *other[] = {space_int(&k, 8), space_int(&k, 3)};
  const th_expr *at[2], *back[2];
  const th_expr *i = th_space_var(&k.space, dims[0]);
  const th_expr *j = th_space_var(&k.space, dims[1]);
  const th_expr *index[] = {i, j};
  const th_expr *linear = th_space_flatten(&k.space, 2, dims, index);
  th_space_unflatten(&k.space, linear, 2, other, at);
  const th_expr *again = th_space_flatten(&k.space, 2, other, at);
  again = th_space_join(&k.space, again);
  cr_assert_eq(again, linear);
  th_space_unflatten(&k.space, again, 2, dims, back);
  cr_assert_eq(back[0], i);
  cr_assert_eq(back[1], j);
  space_close(&k);
}

Test(index, variables_merge_where_nothing_tells_them_apart) {
  space_kit k;
  space_open(&k);
  const th_expr *a = th_space_var(&k.space, space_int(&k, 3));
  const th_expr *b = th_space_var(&k.space, space_int(&k, 5));
  const th_expr *dense = plus(&k, times(&k, a, space_int(&k, 5)), b);
  const th_expr *wide = plus(&k, times(&k, a, space_int(&k, 8)), b);
  const th_expr *scaled = times(&k, dense, space_int(&k, 2));
  cr_assert(th_space_can_merge(&k.space, dense, 0, 1));
  cr_assert(th_space_can_merge(&k.space, scaled, 0, 1));
  cr_assert_not(th_space_can_merge(&k.space, wide, 0, 1));
  cr_assert_not(th_space_can_merge(&k.space, b, 0, 1));
  cr_assert(th_space_can_merge(&k.space, space_int(&k, 7), 0, 1));
  space_close(&k);
}

// ---- nests of kernels

typedef struct nest_kit {
  lower_kit kit;
  th_arena arena;
  th_nest *nest;
  th_plan plan;
} nest_kit;

static void nest_open(nest_kit *k, const char *text, uint32_t kernel) {
  const th_target *target = NULL;
  lower_kit_open(&k->kit, text);
  cr_assert_lt(kernel, lower_kit_kernels(&k->kit));
  th_arena_init(&k->arena, &k->kit.ctx->unwind);
  const th_stmt *stmt = k->kit.fused->stmts[0]->body[kernel];
  th_status status = th_nest_build(k->kit.ctx, &k->arena, stmt, &k->nest);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(k->kit.ctx));
  cr_assert_eq(th_target_get(k->kit.ctx, "skylake-avx512", &target), TH_OK);
  cr_assert_eq(th_plan_make(k->nest, target, &k->plan), TH_OK);
}

static void nest_close(nest_kit *k) {
  th_arena_deinit(&k->arena);
  lower_kit_close(&k->kit);
}

static uint32_t nest_loops(const nest_kit *k) {
  uint32_t count = 0;
  for (uint32_t v = 0; v < k->nest->space.var_count; v++) {
    count += !th_is_int(k->nest->space.vars[v].extent, 1);
  }
  return count;
}

Test(nest, dense_dimensions_are_one_loop) {
  nest_kit k;
  nest_open(&k,
            "def f(x, y):\n"
            "  # x: \"cpu f32[4, 8, 16]\"\n"
            "  # y: \"cpu f32[4, 8, 16]\"\n"
            "  a = add(x, y)\n"
            "  b = reshape(a, [32, 16])\n"
            "  c = exp(b)\n"
            "  return {'output': c}\n",
            0);
  cr_assert_eq(nest_loops(&k), 1);
  cr_assert_geq(k.plan.phases[0].lane, 0);
  nest_close(&k);
}

Test(nest, heads_are_split_without_division) {
  nest_kit k;
  nest_open(&k,
            "def f(x):\n"
            "  # x: \"cpu f32[2, 12, 5, 64]\"\n"
            "  p = permute(x, [0, 2, 1, 3])\n"
            "  y = reshape(p, [2, 5, 768])\n"
            "  return {'output': y}\n",
            0);
  for (uint32_t i = 0; i < k.nest->node_count; i++) {
    const th_expr *e = k.nest->nodes[i]->expr;
    for (int v = 0; e && v < (int)k.nest->space.var_count; v++) {
      cr_assert_not(th_space_divides(&k.nest->space, e, v));
    }
  }
  nest_close(&k);
}

static const char softmax[] = "def f(x):\n"
                              "  # x: \"cpu f32[6, 32, 40]\"\n"
                              "  m = amax(x, [%s], True)\n"
                              "  d = sub(x, m)\n"
                              "  e = exp(d)\n"
                              "  s = sum(e, [%s], True)\n"
                              "  y = div(e, s)\n"
                              "  return {'output': y}\n";

Test(nest, rows_and_columns) {
  char text[400];
  nest_kit k;
  snprintf(text, sizeof text, softmax, "2", "2");
  nest_open(&k, text, 0);
  cr_assert_eq(k.plan.phases[0].lane, -1, "lanes run inside a row");
  cr_assert(k.plan.keep.node, "exp is kept");
  cr_assert_eq(k.plan.keep.node->op, TH_OP_exp);
  nest_close(&k);
  snprintf(text, sizeof text, softmax, "1", "1");
  nest_open(&k, text, 0);
  cr_assert_geq(k.plan.phases[0].lane, 0, "lanes run across the columns");
  nest_close(&k);
}

Test(nest, products_are_recognised) {
  nest_kit k;
  nest_open(&k,
            "def f(x, w, b):\n"
            "  # x: \"cpu f32[64, 32]\"\n"
            "  # w: \"cpu f32[48, 32]\"\n"
            "  # b: \"cpu f32[48]\"\n"
            "  y = linear(x, w, b)\n"
            "  z = tanh(y)\n"
            "  return {'output': z}\n",
            0);
  cr_assert_eq(lower_kit_kernels(&k.kit), 1);
  cr_assert(k.plan.product.reduce);
  cr_assert_eq(k.plan.product.pack, TH_PRODUCT_ALONG_K);
  cr_assert(k.plan.product.many);
  cr_assert_not(k.plan.product.few);
  nest_close(&k);
}

// ---- partitions

static void check_kernels(const char *text, uint32_t wanted) {
  lower_kit kit;
  lower_kit_open(&kit, text);
  cr_assert_eq(lower_kit_kernels(&kit), wanted, "%u kernels, not %u",
               lower_kit_kernels(&kit), wanted);
  lower_kit_close(&kit);
}

Test(partition, layer_norm_with_its_statistics_is_one_kernel) {
  check_kernels("def f(x, r, w):\n"
                "  # x: \"cpu f32[8, 32]\"\n"
                "  # r: \"cpu f32[8, 32]\"\n"
                "  # w: \"cpu f32[32]\"\n"
                "  h = add(x, r)\n"
                "  s = sum(h, [1], True)\n"
                "  m = div(s, 32)\n"
                "  c = sub(h, m)\n"
                "  q = mul(c, c)\n"
                "  v = sum(q, [1], True)\n"
                "  u = div(v, 32)\n"
                "  e = add(u, 1e-05)\n"
                "  i = rsqrt(e)\n"
                "  n = mul(c, i)\n"
                "  y = mul(n, w)\n"
                "  return {'output': (y, h, m, i)}\n",
                1);
}

Test(partition, what_costs_little_is_computed_twice) {
  // The mask has no operands in memory: each product's follower makes its own.
  check_kernels("def f(x, y):\n"
                "  # x: \"cpu f32[4, 8, 8]\"\n"
                "  # y: \"cpu f32[4, 8, 8]\"\n"
                "  i = arange(0, 8, 1, i64)\n"
                "  j = unsqueeze(i, 1)\n"
                "  m = le(i, j)\n"
                "  a = matmul(x, y)\n"
                "  b = where(m, a, 0.0)\n"
                "  c = matmul(b, y)\n"
                "  d = where(m, c, 0.0)\n"
                "  return {'output': d}\n",
                2);
}

Test(partition, what_costs_much_is_not) {
  // exp(x) for each of 16 rows would be 16 times the work.
  check_kernels("def f(x, y):\n"
                "  # x: \"cpu f32[64]\"\n"
                "  # y: \"cpu f32[16, 64]\"\n"
                "  e = exp(x)\n"
                "  a = mul(y, e)\n"
                "  return {'output': a}\n",
                2);
}

Test(partition, readers_run_before_the_memory_is_overwritten) {
  lower_kit kit;
  float cache[4] = {1, 2, 3, 4}, src[1] = {9};
  int64_t at[1] = {2};
  lower_kit_open(&kit, "def f(cache, at, src):\n"
                       "  # cache: \"cpu f32[4]\"\n"
                       "  # at: \"cpu i64[1]\"\n"
                       "  # src: \"cpu f32[1]\"\n"
                       "  old = mul(cache, 10.0)\n"
                       "  new = index_copy_(cache, 0, at, src)\n"
                       "  both = add(old, new)\n"
                       "  return {'output': both}\n");
  lower_kit_input(&kit, "cache", cache);
  lower_kit_input(&kit, "at", at);
  lower_kit_input(&kit, "src", src);
  cr_assert(lower_kit_run(&kit));
  const float *both = lower_kit_output(&kit, 0);
  cr_assert_eq(both[2], 39, "got %g", both[2]);
  cr_assert_eq(both[3], 44);
  cr_assert_eq(cache[2], 9);
  lower_kit_close(&kit);
}

Test(partition, small_siblings_share_a_kernel) {
  check_kernels("def f(x, y, z):\n"
                "  # x: \"cpu f32[8]\"\n"
                "  # y: \"cpu f32[8]\"\n"
                "  # z: \"cpu f32[4, 4]\"\n"
                "  a = exp(x)\n"
                "  b = mul(y, 2.0)\n"
                "  c = add(b, x)\n"
                "  d = matmul(z, z)\n"
                "  return {'output': (a, b, c, d)}\n",
                2);
}

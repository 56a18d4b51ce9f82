// Shape rules: types that were worked out by hand, and what is refused.
#include "ir/infer.h"
#include "ir_text.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct infer_case {
  const char *inputs, *stmt, *types;
} infer_case;

static void infer_one(const infer_case *c) {
  ir_text t = ir_text_new();
  th_trace *trace = ir_text_read(&t, c->inputs, c->stmt);
  cr_assert(trace, "%s: %s", c->stmt, th_diagnostics_all(t.ctx));
  const th_stmt *last = trace->stmts[trace->stmt_count - 1];
  const char *types = ir_text_types(&t, last);
  cr_expect(ir_text_match(&t, last, c->types), "%s: got %s, wanted %s", c->stmt,
            types, c->types);
  ir_text_free(&t);
}

#define INFER_ALL(cases)                                                       \
  for (size_t i = 0; i < TH_COUNT(cases); i++) {                               \
    infer_one(&(cases)[i]);                                                    \
  }

Test(infer, elementwise) {
  static const infer_case cases[] = {
      {"x f32[2, 3]; y f32[3]", "t = add(x, y)", "f32[2, 3]"},
      {"x f32[2, 1, 3]; y f32[4, 1]", "t = mul(x, y)", "f32[2, 4, 3]"},
      {"x f32[0, 3]; y f32[1, 3]", "t = mul(x, y)", "f32[0, 3]"},
      {"x f32[2, 3]{1, 2}", "t = exp(x)", "f32[2, 3]"},
      {"x i32[2]", "t = add(x, 1)", "i32[2]"},
      {"x i32[2]", "t = add(x, 1.5)", "f32[2]"},
      {"x b8[2]", "t = add(x, 1)", "i64[2]"},
      {"x f16[2]", "t = add(x, 1.5)", "f16[2]"},
      {"x f16[2]; y f64[]", "t = add(x, y)", "f16[2]"},
      {"x i64[2]; y f64[]", "t = add(x, y)", "f64[2]"},
      {"x f16[2]; y bf16[2]", "t = add(x, y)", "f32[2]"},
      {"x i64[2]", "t = exp(x)", "f32[2]"},
      {"x i64[2]; y i64[2]", "t = div(x, y)", "f32[2]"},
      {"x i64[2]; y i64[2]", "t = floor_divide(x, y)", "i64[2]"},
      {"x f32[2]; y i64[2]", "t = lt(x, y)", "b8[2]"},
      {"x f32[2]", "t = isnan(x)", "b8[2]"},
      {"x b8[2]; y u8[2]", "t = bitwise_and(x, y)", "u8[2]"},
      {"c b8[2, 1]; x f16[3]", "t = where(c, x, 0.0)", "f16[2, 3]"},
      {"c b8[2, 1]; x i64[3]", "t = where(c, x, 0.5)", "f32[2, 3]"},
      {"x f32[2]", "t = to(x, bf16)", "bf16[2]"},
      {"x i64[2]", "t = clamp(x, 0.5, None)", "f32[2]"},
      {"x f32[3]; m b8[2, 1]", "t = masked_fill(x, m, 1)", "f32[2, 3]"},
      {"x f32[s0, 3]; y f32[s0, 1]", "t = add(x, y)", "f32[s0, 3]"},
      {"x f32[s0]; y f32[s1]", "t = add(x, y)", "f32[s0]"},
      {"x f32[s0]; y f32[5]", "t = add(x, y)", "f32[5]"},
      {"x f32[s0]; y f32[1]", "t = add(y, x)", "f32[s0]"},
      {"x cuda:0 f32[2]; y f32[]", "t = add(y, x)", "cuda:0 f32[2]"},
      {"x f32[2]", "t = softplus(x)", "f32[2]"},
      {"x i64[2]", "t = relu(x)", "i64[2]"},
  };
  INFER_ALL(cases)
}

Test(infer, views) {
  static const infer_case cases[] = {
      {"x f32[2, 3, 4]", "t = reshape(x, [6, -1])", "f32[6, 4]"},
      {"x f32[2, 3, 4]", "t = reshape(x, [-1])", "f32[24]"},
      {"x f32[1]", "t = reshape(x, [])", "f32[]"},
      {"x f32[]", "t = reshape(x, [1, -1])", "f32[1, 1]"},
      {"x f32[0, 3]", "t = reshape(x, [3, -1])", "f32[3, 0]"},
      {"x f32[2, 3]{1, 2}", "t = reshape(x, [6])", "f32[6]"},
      {"x f32[4, 3]{6, 2}", "t = reshape(x, [2, 2, 3])",
       "f32[2, 2, 3]{12, 6, 2}"},
      {"x f32[4, 3]{6, 2}", "t = reshape(x, [12])", "f32[12]{2}"},
      {"x f32[4, 6]{8, 1}", "t = reshape(x, [4, 2, 3])",
       "f32[4, 2, 3]{8, 3, 1}"},
      {"x f32[s0, 5, 64]", "t = reshape(x, [-1, 64])", "f32[5*s0, 64]"},
      {"x f32[s0, s1, 64]", "t = reshape(x, [s0*s1, 4, -1])",
       "f32[s0*s1, 4, 16]"},
      {"x f32[s0 + 1, 8, 4]", "t = reshape(x, [s0 + 1, -1])",
       "f32[s0 + 1, 32]"},
      {"x f32[s0 + 1, 8]", "t = reshape(x, [-1, 2])", "f32[4*s0 + 4, 2]"},
      {"x f32[s0, 8]", "t = reshape(x, [4, -1])", "f32[4, 2*s0]"},
      {"x f32[2, 3, 4]", "t = permute(x, [2, 0, -2])",
       "f32[4, 2, 3]{1, 12, 4}"},
      {"x f32[2, 1]", "t = permute(x, [1, 0])", "f32[1, 2]"},
      {"x f32[2, 3]", "t = permute(x, [0, 1])", "f32[2, 3]"},
      {"x f32[s0, 3]", "t = permute(x, [1, 0])", "f32[3, s0]{1, 3}"},
      {"x f32[3, 1]", "t = expand(x, [2, -1, 4])", "f32[2, 3, 4]{0, 1, 0}"},
      {"x f32[3]", "t = expand(x, [1, 3])", "f32[1, 3]"},
      {"x f32[1]; y f32[s0]", "t = expand(x, [s0])", "f32[s0]{0}"},
      {"x f32[1, 3, 1]", "t = squeeze(x, [0, 1])", "f32[3, 1]"},
      {"x f32[2, 3]{1, 2}", "t = unsqueeze(x, -1)", "f32[2, 3, 1]{1, 2, 1}"},
      {"x f32[4, 5]", "t = slice(x, 0, 1, 3)", "f32[2, 5]"},
      {"x f32[4, 5]", "t = slice(x, 1, 1, 9223372036854775807, 2)",
       "f32[4, 2]{5, 2}"},
      {"x f32[4, 5]", "t = slice(x, 1, -2, -1)", "f32[4, 1]{5, 1}"},
      {"x f32[4, 5]", "t = slice(x, 1, -9, 9)", "f32[4, 5]"},
      {"x f32[4, 5]", "t = slice(x, 1, 3, 2)", "f32[4, 0]"},
      {"x f32[s0, 5]", "t = slice(x, 0, 1)", "f32[s0 - 1, 5]"},
      {"x f32[s0, 5]", "t = slice(x, 0, None, -1)", "f32[s0 - 1, 5]"},
      {"x f32[s0, 5]", "t = slice(x, 0, 0, s0 // 2)", "f32[s0//2, 5]"},
      {"x f32[4, 5]", "t = select(x, 0, -1)", "f32[5]"},
      {"x f32[4, 5]", "t = select(x, 1, 2)", "f32[4]{5}"},
      {"x f32[4, 6]", "[a, b] = split(x, [2, 4], -1)",
       "f32[4, 2]{6, 1}; f32[4, 4]{6, 1}"},
      {"x f32[4, 2]", "[a, b] = unbind(x, 1)", "f32[4]{2}; f32[4]{2}"},
      {"x f32[4, 5]", "t = diagonal(x, 1)", "f32[4]{6}"},
      {"x f32[4, 5]", "t = diagonal(x, -1)", "f32[3]{6}"},
      {"x f32[2, 4, 5]", "t = diagonal(x, 0, 0, 2)", "f32[4, 2]{5, 21}"},
      {"x f32[10]", "t = unfold(x, 0, 4, 3)", "f32[3, 4]{3, 1}"},
      {"x f32[10]", "t = as_strided(x, [2, 3], [1, 2], 4)", "f32[2, 3]{1, 2}"},
      {"x f32[10]", "t = as_strided(x, [2, 3], [3, 1])", "f32[2, 3]"},
      {"x f32[2, 3]{1, 2}", "t = detach(x)", "f32[2, 3]{1, 2}"},
      {"x f32[2, 3]{1, 2}", "t = clone(x)", "f32[2, 3]"},
  };
  INFER_ALL(cases)
}

Test(infer, copies_and_creation) {
  static const infer_case cases[] = {
      {"x f32[2, 3]; y f16[1, 3]", "t = cat([x, y])", "f32[3, 3]"},
      {"x f32[0]; y f32[1, 3]", "t = cat([x, y], 1)", "f32[1, 3]"},
      {"x f32[s0, 3]; y f32[2, 3]", "t = cat([x, y])", "f32[s0 + 2, 3]"},
      {"x f32[2, 3]; y i64[2, 3]", "t = stack([x, y], -1)", "f32[2, 3, 2]"},
      {"x f32[2, 3]", "t = flip(x, [0, -1])", "f32[2, 3]"},
      {"x f32[2, 3]", "t = roll(x, [1], [])", "f32[2, 3]"},
      {"x f32[2, 3]", "t = repeat(x, [2, 1, 2])", "f32[2, 2, 6]"},
      {"x f32[2, 3]", "t = repeat_interleave(x, 2, 1)", "f32[2, 6]"},
      {"x f32[2, 3]", "t = pad(x, [1, 2, -1, 0])", "f32[1, 6]"},
      {"x f32[2, 3]", "t = tril(x)", "f32[2, 3]"},
      {"", "t = full([2, 3], 1.5, i64)", "i64[2, 3]"},
      {"", "t = arange(0, 10, 3, i64)", "i64[4]"},
      {"", "t = arange(10, 0, -3, f32)", "f32[4]"},
      {"", "t = arange(0, 1, 0.25, f32)", "f32[4]"},
      {"x f32[s0]", "t = arange(0, s0, 1, i64)", "i64[s0]"},
      {"x f32[s0]", "t = arange(0, s0, 2, i64)", "i64[(s0 + 1)//2]"},
      {"", "t = eye(2, 3, f32)", "f32[2, 3]"},
      {"", "t = scalar(2, f32)", "f32[]"},
      {"x i64[2]", "t = one_hot(x, 5)", "i64[2, 5]"},
  };
  INFER_ALL(cases)
}

Test(infer, reductions) {
  static const infer_case cases[] = {
      {"x f32[2, 3]", "t = sum(x)", "f32[]"},
      {"x i32[2, 3]", "t = sum(x, [1], True)", "i64[2, 1]"},
      {"x b8[2, 3]", "t = sum(x, [0, -1], dtype=f16)", "f16[]"},
      {"x f32[]", "t = sum(x, [0])", "f32[]"},
      {"x f16[2, 3]", "t = mean(x, [0])", "f16[3]"},
      {"x i64[2, 3]", "t = mean(x, [0], dtype=f64)", "f64[3]"},
      {"x f32[2, 3]", "t = amax(x, [1])", "f32[2]"},
      {"x f32[0, 3]", "t = amax(x, [1])", "f32[0]"},
      {"x f32[2, 3]", "t = any(x, [0], True)", "b8[1, 3]"},
      {"x u8[2, 3]", "t = all(x)", "u8[]"},
      {"x f32[2, 3]", "t = argmax(x)", "i64[]"},
      {"x f32[2, 3]", "t = argmax(x, None, True)", "i64[1, 1]"},
      {"x f32[2, 3]", "t = argmin(x, -1)", "i64[2]"},
      {"x f32[2, 3]", "t = var(x, [1], 0, True)", "f32[2, 1]"},
      {"x f32[2, 3]", "(v, i) = max_dim(x, 0)", "f32[3]; i64[3]"},
      {"x i64[2, 3]", "t = logsumexp(x, [1])", "f32[2]"},
      {"x b8[2, 3]", "t = cumsum(x, 1)", "i64[2, 3]"},
      {"x f32[2, 3]{1, 2}", "(v, i) = sort(x)", "f32[2, 3]; i64[2, 3]"},
      {"x f32[2, s0]", "(v, i) = topk(x, 1)", "f32[2, 1]; i64[2, 1]"},
      {"x f32[]", "(v, i) = topk(x, 1)", "f32[]; i64[]"},
      {"x f32[7]", "t = histc(x, 4)", "f32[4]"},
      {"x f16[2, 3]", "t = softmax(x, -1, f32)", "f32[2, 3]"},
      {"x f16[2, 3]", "t = log_softmax(x, 0)", "f16[2, 3]"},
      {"x f32[2, 3, 4]; w f32[3, 4]", "(y, m, r) = layer_norm(x, [3, 4], w)",
       "f32[2, 3, 4]; f32[2, 1, 1]; f32[2, 1, 1]"},
      {"x bf16[2, 3]; w f32[3]", "(y, m, r) = layer_norm(x, [3], w)",
       "bf16[2, 3]; f32[2, 1]; f32[2, 1]"},
      {"x f16[2, 3]; w f16[3]", "(y, m, r) = layer_norm(x, [3], w)",
       "f16[2, 3]; f16[2, 1]; f16[2, 1]"},
      {"x f32[2, 3]", "t = rms_norm(x, [3])", "f32[2, 3]"},
      {"x f32[2, 6, 5]; w f32[6]", "(y, m, r) = group_norm(x, 3, w, w)",
       "f32[2, 6, 5]; f32[2, 3]; f32[2, 3]"},
      {"x f32[2, 6, 5]; w f32[6]",
       "(y, m, r, a, b) = batch_norm(x, w, w, w, w, True, 0.1, 1e-05)",
       "f32[2, 6, 5]; f32[6]; f32[6]; f32[6]; f32[6]"},
      {"x f32[2, 6]",
       "(y, m, r, _, _) = batch_norm(x, None, None, None, None, True, 0.1, "
       "1e-05)",
       "f32[2, 6]; f32[6]; f32[6]; -; -"},
  };
  INFER_ALL(cases)
}

Test(infer, products_and_windows) {
  static const infer_case cases[] = {
      {"x f32[2, 3]; y f32[3, 4]", "t = matmul(x, y)", "f32[2, 4]"},
      {"x f32[3]; y f32[3]", "t = matmul(x, y)", "f32[]"},
      {"x f32[3]; y f32[5, 3, 4]", "t = matmul(x, y)", "f32[5, 4]"},
      {"x f32[5, 2, 3]; y f32[3]", "t = matmul(x, y)", "f32[5, 2]"},
      {"x f32[5, 1, 2, 3]; y f32[6, 3, 4]", "t = matmul(x, y)",
       "f32[5, 6, 2, 4]"},
      {"x f32[s0, 2, 3]; w f32[4, 3]; b f32[4]", "t = linear(x, w, b)",
       "f32[s0, 2, 4]"},
      {"x f32[2, 3]; w f32[3]", "t = linear(x, w)", "f32[2]"},
      {"i f32[4]; x f32[2, 3]; y f32[3, 4]", "t = addmm(i, x, y)", "f32[2, 4]"},
      {"i f32[2, 1]; x f32[5, 2, 3]; y f32[5, 3, 4]", "t = baddbmm(i, x, y)",
       "f32[5, 2, 4]"},
      {"x f32[6, 3]; w f32[2, 3, 4]; o i32[2]", "t = grouped_mm(x, w, o)",
       "f32[6, 4]"},
      {"q f32[2, 4, 5, 8]; k f32[2, 4, 7, 8]; v f32[2, 4, 7, 6]",
       "t = scaled_dot_product_attention(q, k, v)", "f32[2, 4, 5, 6]"},
      {"q f32[2, 4, s0, 8]; k f32[2, 2, s0, 8]; v f32[2, 2, s0, 6]",
       "t = scaled_dot_product_attention(q, k, v, is_causal=True, "
       "enable_gqa=True)",
       "f32[2, 4, s0, 6]"},
      {"q f32[4, 5, 8]; k f32[4, 7, 8]; v f32[4, 7, 6]; m b8[5, 7]",
       "t = scaled_dot_product_attention(q, k, v, m)", "f32[4, 5, 6]"},
      {"x f32[2, 4, 9, 8]; w f32[6, 2, 3, 3]; b f32[6]",
       "t = convolution(x, w, b, [2, 1], [1], [1, 2], False, [], 2)",
       "f32[2, 6, 5, 6]"},
      {"x f32[2, 4, 9]; w f32[4, 3, 3]",
       "t = convolution(x, w, None, [2], [1], [1], True, [1], 2)",
       "f32[2, 6, 18]"},
      {"x f32[s0, 3, 32, 32]; w f32[8, 3, 7, 7]",
       "t = convolution(x, w, None, [2, 2], [3, 3], [1, 1], False, [0, 0], 1)",
       "f32[s0, 8, 16, 16]"},
      {"x f32[2, 4, 9, 8]", "(v, i) = max_pool(x, [3, 2], [2], [1], [1])",
       "f32[2, 4, 5, 5]; i64[2, 4, 5, 5]"},
      {"x f32[4, 6]", "(v, i) = max_pool(x, [3], [2], [0], [1], True)",
       "f32[4, 3]; i64[4, 3]"},
      {"x f32[4, 5]", "(v, i) = max_pool(x, [2], [4], [1], [1], True)",
       "f32[4, 2]; i64[4, 2]"},
      {"x f32[2, 4, 9, 8]", "t = avg_pool(x, [3, 3], [], [0])",
       "f32[2, 4, 3, 2]"},
      {"x f32[2, 4, 9, 8]", "t = adaptive_avg_pool(x, [1, 1])",
       "f32[2, 4, 1, 1]"},
      {"x f32[2, 4, 9, 8]", "t = upsample_nearest(x, [18, 16])",
       "f32[2, 4, 18, 16]"},
  };
  INFER_ALL(cases)
}

Test(infer, gathers_and_scatters) {
  static const infer_case cases[] = {
      {"w f32[9, 4]; i i64[2, s0]", "t = embedding(w, i)", "f32[2, s0, 4]"},
      {"x f32[2, 3]; i i64[2, 5]", "t = gather(x, 1, i)", "f32[2, 5]"},
      {"x f32[5]; i u8[0]", "t = gather(x, 0, i)", "f32[0]"},
      {"x f32[5]; i i64[2, 0]", "t = gather(x, 0, i)", "f32[2, 0]"},
      {"x f32[2, 3]; i i64[4]", "t = index_select(x, 0, i)", "f32[4, 3]"},
      {"x f32[2, 3, 4]; i i64[5]", "t = index(x, [None, i])", "f32[2, 5, 4]"},
      {"x f32[2, 3, 4]; i i64[5]; j i64[6, 1]", "t = index(x, [None, i, j])",
       "f32[2, 6, 5]"},
      {"x f32[2, 3, 4]; i i64[5]", "t = index(x, [i, None, i])", "f32[5, 3]"},
      {"x f32[2, 3]; i i64[1, 3]; s f32[2, 3]", "t = scatter(x, 0, i, s)",
       "f32[2, 3]"},
      {"x f32[2, 3]; i i64[1, 3]", "t = scatter(x, 0, i, 1.0)", "f32[2, 3]"},
      {"x f32[2, 3]{1, 2}; i i64[1]; s f32[1, 3]", "t = index_copy(x, 0, i, s)",
       "f32[2, 3]"},
      {"x f32[2, 3]; i i64[5]; s f32[3]", "t = index_put(x, [i], s)",
       "f32[2, 3]"},
      {"x f32[4, 3]; s f32[2, 3]", "t = slice_scatter(x, s, 0, 1, 3)",
       "f32[4, 3]"},
      {"x f32[4, 3]; s f32[3]", "t = select_scatter(x, s, 0, 1)", "f32[4, 3]"},
      {"x f32[4, 3]; s f32[3]", "t = diagonal_scatter(x, s)", "f32[4, 3]"},
      {"x f32[4, 3]; s f32[2]", "t = as_strided_scatter(x, s, [2], [3])",
       "f32[4, 3]"},
  };
  INFER_ALL(cases)
}

// ---- what depends on data

Test(infer, sizes_that_depend_on_data) {
  ir_text t = ir_text_new();
  th_trace *trace = ir_text_read(&t, "x f32[4, 5]; y f32[1]; n b8[]",
                                 "i = nonzero(x)\n"
                                 "j = nonzero(y)\n"
                                 "a = item(y)\n"
                                 "b = item(n)");
  cr_assert(trace, "%s", th_diagnostics_all(t.ctx));
  const th_type *i = &trace->stmts[0]->outs[0]->type;
  const th_type *j = &trace->stmts[1]->outs[0]->type;
  cr_assert_eq(i->rank, 2);
  cr_assert(i->dims[0]->op == TH_X_SYM && i->dims[0] != j->dims[0]);
  cr_assert(th_is_int(i->dims[1], 2) && th_is_int(j->dims[1], 1));
  cr_assert_eq(i->dims[0]->symbol->min, 0);
  cr_assert_eq(i->dims[0]->symbol->max, 20);
  cr_assert_eq(trace->stmts[2]->outs[0]->type.num->dtype, TH_F64);
  cr_assert_eq(trace->stmts[3]->outs[0]->type.num->dtype, TH_BOOL);
  // Asked again with what it had, it answers the same.
  th_infer in = {.ir = t.ir,
                 .op = trace->stmts[0]->op,
                 .args = trace->stmts[0]->args,
                 .arg_count = 1,
                 .outs = (th_type[1]){{0}},
                 .out_cap = 1,
                 .known = i,
                 .known_count = 1};
  cr_assert_eq(th_infer_run(&in), TH_OK);
  cr_assert(th_type_equal(&in.outs[0], i));
  ir_text_free(&t);
}

// ---- refusals

typedef struct infer_refusal {
  const char *inputs, *stmt, *message;
} infer_refusal;

static void infer_refused(const infer_refusal *r) {
  ir_text t = ir_text_new();
  th_trace *trace = ir_text_read(&t, r->inputs, r->stmt);
  const char *all = th_diagnostics_all(t.ctx);
  cr_expect(!trace, "%s is accepted", r->stmt);
  cr_expect(strstr(all, r->message), "%s: got '%s', wanted '%s'", r->stmt, all,
            r->message);
  ir_text_free(&t);
}

Test(infer, refusals) {
  static const infer_refusal cases[] = {
      {"x f32[2, 3]; y f32[4]", "t = add(x, y)",
       "add: sizes differ: f32[2, 3] and f32[4] (3 and 4"},
      {"x f8_e5m2[2]; y f32[2]", "t = add(x, y)", "no common dtype"},
      {"x cuda:0 f32[2]; y f32[2]", "t = add(x, y)", "on two devices"},
      {"x b8[2]", "t = neg(x)", "not defined for bool"},
      {"x b8[2]; y b8[2]", "t = sub(x, y)", "not defined for bool"},
      {"x f32[2]", "t = bitwise_not(x)", "integers or bool are needed"},
      {"c f32[2]; x f32[2]", "t = where(c, x, x)", "must be bool"},
      {"x f32[2, 3]", "t = reshape(x, [4, -1])",
       "f32[2, 3] does not fit into the shape [4, -1]"},
      {"x f32[2, 3]", "t = reshape(x, [7])", "does not fit"},
      {"x f32[0, 3]", "t = reshape(x, [0, -1])", "does not fit"},
      {"x f32[2, 3]", "t = reshape(x, [-1, -1])", "-1 stands twice"},
      {"x f32[2, 3]", "t = reshape(x, [-2, -3])", "the size -2"},
      {"x f32[2, 3]", "t = reshape(x, [4611686018427387904, 2, -1])",
       "does not fit"},
      {"x f32[2, 3]", "t = permute(x, [0, 0])", "names dimension 0 twice"},
      {"x f32[2, 3]", "t = permute(x, [0])", "2 dimensions, 1 are listed"},
      {"x f32[2, 3]", "t = permute(x, [0, 2])", "must lie in [-2, 1]"},
      {"x f32[2, 3]", "t = expand(x, [2, 4])", "only a size of 1 can"},
      {"x f32[3]", "t = expand(x, [-1, 3])", "which is new"},
      {"x f32[1]", "t = expand(x, [1,1,1,1,1,1,1,1,1,1,1,1,1])",
       "has 13 dimensions"},
      {"x f32[1]", "t = expand(x, [4611686018427387904])",
       "does not fit into 64 bits"},
      {"x f32[1]", "t = expand(x, [-5])", "the size -5"},
      {"x f32[4]", "t = slice(x, 0, 0, 2, 0)", "must be positive"},
      {"x f32[]", "t = slice(x, 0)", "at least 1 dimension"},
      {"x f32[4]", "t = select(x, 0, 4)", "out of range"},
      {"x f32[4]", "t = select(x, 0, -5)", "out of range"},
      {"x f32[4]", "[a, b] = split(x, [1, 2])", "add up to 3"},
      {"x f32[4]", "t = unfold(x, 0, 5, 1)", "do not fit"},
      {"x f32[4]", "t = as_strided(x, [2, 2], [2, 2])", "reach outside"},
      {"x f32[4]", "t = as_strided(x, [2], [-1], 1)", "reach outside"},
      {"x f32[4, 4]", "t = diagonal(x, 0, 1, -1)", "both dim1 and dim2"},
      {"", "t = cat([])", "is empty"},
      {"x f32[]", "t = cat([x])", "0-dim"},
      {"x f32[2, 3]; y f32[2, 4]", "t = cat([x, y])", "except in dimension 0"},
      {"x f32[3]; y f32[4]", "t = stack([x, y])", "must be equal"},
      {"x f32[3]", "t = pad(x, [-2, -2])", "the size -1"},
      {"x f32[3]", "t = tril(x)", "at least 2 dimensions"},
      {"", "t = arange(0, 5, 0, i64)", "the step is 0"},
      {"", "t = arange(0, 5, -1, i64)", "does not lead from 0 to 5"},
      {"", "t = arange(0.0, 1e300, 1.0, f32)", "does not lead"},
      {"", "t = full([4294967296, 4294967296], 0, f32)",
       "does not fit into 64 bits"},
      {"x i64[2]", "t = mean(x)", "a floating-point dtype is needed"},
      {"x f32[2, 0]", "t = amax(x, [1])", "is empty and has no amax"},
      {"x f32[2]", "t = sum(x, [0, -1])", "names dimension 0 twice"},
      {"x i64[2]", "t = softmax(x, 0)", "a floating-point dtype is needed"},
      {"x f32[2]", "(v, i) = topk(x, 3)", "has fewer elements"},
      {"x f32[2, 3]; w f32[2]", "(a, b, c) = layer_norm(x, [3], w)",
       "'weight' is f32[2]"},
      {"x f32[2, 3]", "(a, b, c) = layer_norm(x, [2])", "does not end in"},
      {"x f32[2, 5]", "(a, b, c) = group_norm(x, 2)", "do not divide"},
      {"x f32[8, 16]; y f32[32, 4]", "t = matmul(x, y)",
       "matmul: inner sizes differ: f32[8, 16] x f32[32, 4] (16 vs 32)"},
      {"x f32[]; y f32[2]", "t = matmul(x, y)", "at least 1 dimension"},
      {"x f32[2, 3]; y f16[3, 2]", "t = matmul(x, y)",
       "their dtypes must be equal"},
      {"x f32[2, 3]; w f32[4, 3]; b f32[3]", "t = linear(x, w, b)",
       "'bias' is f32[3]"},
      {"q f32[2, 4]; k f32[3, 4]; v f32[3, 4]",
       "t = scaled_dot_product_attention(q, k, v, None, 0.5)",
       "only 0 is supported"},
      {"q f32[2, 4]; k f32[3, 4]; v f32[3, 4]; m f32[2, 3]",
       "t = scaled_dot_product_attention(q, k, v, m, 0.0, True)",
       "only one of them"},
      {"q f32[2, 4]; k f32[3, 4]; v f32[3, 4]; m f32[3, 3]",
       "t = scaled_dot_product_attention(q, k, v, m)", "'mask' is f32[3, 3]"},
      {"x f32[2, 4, 3, 3]; w f32[6, 2, 5, 5]",
       "t = convolution(x, w, None, [1], [0], [1], False, [], 2)",
       "the window is larger"},
      {"x f32[2, 3, 9]; w f32[6, 2, 3]",
       "t = convolution(x, w, None, [1], [0], [1], False, [], 2)",
       "has 3 channels"},
      {"x f32[2, 2, 9]; w f32[6, 2, 3]",
       "t = convolution(x, w, None, [0], [0], [1], False, [], 1)",
       "'stride' has the element 0"},
      {"x f32[4, 6]", "(v, i) = max_pool(x, [2], [2], [2], [1])",
       "more than half the window"},
      {"w f32[9, 4]; i f32[2]", "t = embedding(w, i)",
       "an index must be i64 or i32"},
      {"x f32[2, 3]; i i64[3, 3]", "t = gather(x, 1, i)", "be no larger"},
      {"x f32[2, 3]; m b8[2]", "t = index(x, [m])", "goes through nonzero"},
      {"x f32[2, 3]; s f32[2]", "t = select_scatter(x, s, 0, 1)",
       "the shape of what it replaces is f32[3]"},
      {"x f32[2]", "t = item(x)", "must have one element"},
      {"x f32[2, 3]",
       "(y, m, r, a, _) = batch_norm(x, None, None, None, None, True, 0.1, "
       "1e-05)",
       "result 3 of batch_norm does not exist here"},
  };
  for (size_t i = 0; i < TH_COUNT(cases); i++) {
    infer_refused(&cases[i]);
  }
}

Test(infer, a_note_names_the_producer) {
  ir_text t = ir_text_new();
  th_trace *trace = ir_text_read(&t, "x f32[8, 16]; y f32[32, 4]",
                                 "a = relu(x)\n"
                                 "b = matmul(a, y)");
  cr_assert(!trace);
  cr_expect(strstr(th_diagnostics_all(t.ctx),
                   "note: 'a' is the result of 'relu' here"),
            "%s", th_diagnostics_all(t.ctx));
  ir_text_free(&t);
}

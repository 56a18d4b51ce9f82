// Expansions: each composite of the table, expanded until only primitives are
// left, has results of the types that its shape rule states.
#include "ir/expand.h"
#include "ir/infer.h"
#include "ir_text.h"
#include "torture.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct expand_case {
  th_op op;
  const char *inputs, *stmt;
} expand_case;

static const expand_case expand_cases[] = {
    {TH_OP_clamp, "x f16[2, 3]", "t = clamp(x, 0, 1.5)"},
    {TH_OP_clamp, "x i64[2, 3]; hi f64[]", "t = clamp(x, None, hi)"},
    {TH_OP_clamp, "x i64[2, 3]; y f32[3]", "t = clamp(x, 0.5, y)"},
    {TH_OP_lerp, "x f32[2, 3]; y f32[3]", "t = lerp(x, y, 0.25)"},
    {TH_OP_lerp, "x f32[2, 3]; y f32[3]", "t = lerp(x, y, 0.75)"},
    {TH_OP_lerp, "x f16[2, 3]; w f16[2, 1]", "t = lerp(x, x, w)"},
    {TH_OP_addcmul, "x bf16[2, 3]; y bf16[3]", "t = addcmul(x, y, y, 0.5)"},
    {TH_OP_addcmul, "x i64[2, 3]", "t = addcmul(x, x, x, 2.5)"},
    {TH_OP_addcdiv, "x f32[2, 3]; y f32[3]", "t = addcdiv(x, y, y)"},
    {TH_OP_masked_fill, "x f16[s0, 3]; m b8[3]", "t = masked_fill(x, m, -inf)"},
    {TH_OP_masked_fill, "x i8[2]; m b8[2]", "t = masked_fill(x, m, 0.5)"},
    {TH_OP_masked_fill, "x b8[2]; m b8[2]; v f32[]",
     "t = masked_fill(x, m, v)"},
    {TH_OP_relu, "x i64[2]", "t = relu(x)"},
    {TH_OP_relu, "x f16[s0, 2]{1, 64}", "t = relu(x)"},
    {TH_OP_gelu, "x bf16[2]", "t = gelu(x)"},
    {TH_OP_gelu, "x f32[2]", "t = gelu(x, 'tanh')"},
    {TH_OP_silu, "x f16[2]", "t = silu(x)"},
    {TH_OP_mish, "x f32[2]", "t = mish(x)"},
    {TH_OP_elu, "x f64[2]", "t = elu(x, 0.5, 2.0)"},
    {TH_OP_selu, "x f16[2]", "t = selu(x)"},
    {TH_OP_celu, "x f32[2]", "t = celu(x, 0.5)"},
    {TH_OP_leaky_relu, "x f16[2]", "t = leaky_relu(x)"},
    {TH_OP_hardtanh, "x i64[2]", "t = hardtanh(x, -1.0, 1.0)"},
    {TH_OP_hardsigmoid, "x f32[2]", "t = hardsigmoid(x)"},
    {TH_OP_hardswish, "x f16[2]", "t = hardswish(x)"},
    {TH_OP_softplus, "x f32[2]", "t = softplus(x, 2)"},
    {TH_OP_logsigmoid, "x f16[2]", "t = logsigmoid(x)"},
    {TH_OP_unbind, "x f32[2, 3]", "[a, b, c] = unbind(x, -1)"},
    {TH_OP_stack, "x f32[2, s0]; y i64[2, s0]", "t = stack([x, y], -1)"},
    {TH_OP_roll, "x f32[2, s0]", "t = roll(x, [1, -2], [0, 1])"},
    {TH_OP_roll, "x f32[2, 3]{1, 2}", "t = roll(x, [0], [1])"},
    {TH_OP_roll, "x f32[2, s0]", "t = roll(x, [5], [])"},
    {TH_OP_roll, "x f32[0, 3]", "t = roll(x, [1, 1], [0, -1])"},
    {TH_OP_repeat, "x f32[s0, 3]", "t = repeat(x, [2, 1, 4])"},
    {TH_OP_repeat, "x f32[1, 3]{3, 1}", "t = repeat(x, [2, 0])"},
    {TH_OP_repeat, "x f32[]", "t = repeat(x, [2])"},
    {TH_OP_repeat, "x f32[2, 2, 2, 2, 2, 2, 2]",
     "t = repeat(x, [2, 2, 2, 2, 2, 2, 3])"},
    {TH_OP_repeat_interleave, "x f32[s0, 3]", "t = repeat_interleave(x, 2, 1)"},
    {TH_OP_tril, "x b8[2, s0, s1]", "t = tril(x, -1)"},
    {TH_OP_triu, "x i8[2, 3]{1, 2}", "t = triu(x)"},
    {TH_OP_eye, "", "t = eye(2, 3, f16)"},
    {TH_OP_scalar, "", "t = scalar(2, f16)"},
    {TH_OP_mean, "x f16[2, s0]", "t = mean(x)"},
    {TH_OP_mean, "x i64[2, 3]", "t = mean(x, [-1], True, f64)"},
    {TH_OP_mean, "x f32[]", "t = mean(x)"},
    {TH_OP_var, "x f16[2, s0]", "t = var(x, [1], 0)"},
    {TH_OP_var, "x f64[2, 3]", "t = var(x)"},
    {TH_OP_std, "x f32[2, s0]", "t = std(x, [0, 1], 0.5, True)"},
    {TH_OP_max_dim, "x f32[2, s0]", "(v, i) = max_dim(x, -1, True)"},
    {TH_OP_min_dim, "x i64[2, 3]", "(v, i) = min_dim(x, 0)"},
    {TH_OP_logsumexp, "x i64[2, s0]", "t = logsumexp(x, [0, 1])"},
    {TH_OP_logsumexp, "x f16[2, 3]", "t = logsumexp(x, [-1], True)"},
    {TH_OP_logsumexp, "x f32[2, 0]", "t = logsumexp(x, [1])"},
    {TH_OP_topk, "x f32[s0, 8]", "(v, i) = topk(x, 2)"},
    {TH_OP_topk, "x f32[8, s0]", "(v, i) = topk(x, s0 // 2, -1, False)"},
    {TH_OP_topk, "x f32[]", "(v, i) = topk(x, 1)"},
    {TH_OP_softmax, "x f16[2, s0]", "t = softmax(x, -1)"},
    {TH_OP_softmax, "x i64[2, 3]", "t = softmax(x, 0, f64)"},
    {TH_OP_softmax, "x f32[2, 0]", "t = softmax(x, 1)"},
    {TH_OP_softmax, "x f32[]", "t = softmax(x, 0)"},
    {TH_OP_log_softmax, "x bf16[2, s0]", "t = log_softmax(x, 1)"},
    {TH_OP_layer_norm, "x f16[s0, 3, 4]; w f32[3, 4]",
     "(y, m, r) = layer_norm(x, [3, 4], w, w)"},
    {TH_OP_layer_norm, "x f32[2, 4]{1, 2}", "(y, m, r) = layer_norm(x, [4])"},
    {TH_OP_rms_norm, "x bf16[s0, 4]; w bf16[4]", "t = rms_norm(x, [4], w)"},
    {TH_OP_rms_norm, "x f32[s0, 4]", "t = rms_norm(x, [4], None, 1e-06)"},
    {TH_OP_group_norm, "x f16[s0, 6, s1]; w f16[6]",
     "(y, m, r) = group_norm(x, 2, w, w)"},
    {TH_OP_group_norm, "x f32[2, 6]", "(y, m, r) = group_norm(x, 3)"},
    {TH_OP_batch_norm, "x f16[s0, 6, s1, 3]; w f32[6]",
     "(y, m, r, a, b) = batch_norm(x, w, w, w, w, True, 0.1, 1e-05)"},
    {TH_OP_batch_norm, "x f32[s0, 6, s1, 3]; w f32[6]",
     "(y, m, r, a, b) = batch_norm(x, None, None, w, w, False, 0.1, 1e-05)"},
    {TH_OP_batch_norm, "x f32[4, 6]",
     "(y, m, r, _, _) = batch_norm(x, None, None, None, None, True, 0.1, "
     "1e-05)"},
    {TH_OP_linear, "x f16[s0, 2, 3]; w f16[4, 3]; b f16[4]",
     "t = linear(x, w, b)"},
    {TH_OP_linear, "x f32[2, 3]; w f32[3]; b f32[]", "t = linear(x, w, b)"},
    {TH_OP_addmm, "i f32[4]; x f32[s0, 3]; y f32[3, 4]",
     "t = addmm(i, x, y, 0, 2)"},
    {TH_OP_addmm, "i i64[4]; x i64[2, 3]; y i64[3, 4]",
     "t = addmm(i, x, y, 2.0, 1)"},
    {TH_OP_baddbmm, "i f32[s0, 1, 4]; x f32[s0, 2, 3]; y f32[s0, 3, 4]",
     "t = baddbmm(i, x, y, 0.5)"},
    {TH_OP_scaled_dot_product_attention,
     "q f16[2, 4, s0, 8]; k f16[2, 4, s1, 8]; m b8[s0, s1]",
     "t = scaled_dot_product_attention(q, k, k, m)"},
    {TH_OP_scaled_dot_product_attention,
     "q f32[5, 8]; k f32[7, 8]; v f32[7, 3]",
     "t = scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5)"},
    {TH_OP_scaled_dot_product_attention,
     "q f32[2, 8, s0, 8]; k f32[2, 2, s0, 8]; v f32[2, 2, s0, 6]; "
     "m f32[2, 8, s0, s0]",
     "t = scaled_dot_product_attention(q, k, v, m, enable_gqa=True)"},
    {TH_OP_scaled_dot_product_attention,
     "q bf16[2, 8, 5, 8]; k bf16[2, 2, 7, 8]; m bf16[2, 1, 5, 7]",
     "t = scaled_dot_product_attention(q, k, k, m, enable_gqa=True)"},
    {TH_OP_scaled_dot_product_attention, "q f32[2, 5, 8]; k f32[2, 0, 8]",
     "t = scaled_dot_product_attention(q, k, k)"},
    {TH_OP_one_hot, "x i64[2, s0]", "t = one_hot(x, 4)"},
};

typedef struct expand_job {
  ir_text *t;
  const th_trace *trace;
  th_trace *out;
} expand_job;

// Replaces every composite by its expansion, once.
static th_status expand_all(void *arg) {
  expand_job *job = arg;
  const th_trace *from = job->trace;
  th_builder b;
  th_remap m;
  job->out = th_remap_begin(&m, from, &b);
  for (uint32_t i = 0; i < from->stmt_count; i++) {
    const th_stmt *stmt = from->stmts[i];
    th_stmt *copy = th_remap_stmt(&m, stmt);
    if (!copy || !stmt->op->expand) {
      continue;
    }
    job->out->stmt_count--; // the composite itself goes
    th_value **outs =
        TH_NEW_ARRAY(&job->t->ir->arena, th_value *, copy->out_count + 1u);
    if (th_expand(&b, copy, outs) != TH_OK) {
      break;
    }
    for (uint16_t k = 0; k < stmt->out_count; k++) {
      cr_expect_eq(!outs[k], !stmt->outs[k], "result %u of %s", k,
                   stmt->op->name);
      if (stmt->outs[k] && outs[k]) {
        cr_expect(th_type_equal(&outs[k]->type, &stmt->outs[k]->type),
                  "result %u of %s: %s", k, stmt->op->name,
                  ir_text_types(job->t, outs[k]->def));
        th_remap_set(&m, stmt->outs[k], outs[k]);
      }
    }
  }
  return b.status;
}

static bool expand_has_composites(const th_trace *trace) {
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    if (trace->stmts[i]->op->expand) {
      return true;
    }
  }
  return false;
}

static void expand_one(const expand_case *c) {
  ir_text t = ir_text_new();
  th_trace *trace = ir_text_read(&t, c->inputs, c->stmt);
  cr_assert(trace, "%s: %s", c->stmt, th_diagnostics_all(t.ctx));
  cr_assert_eq(trace->stmts[0]->op->op, c->op, "%s", c->stmt);
  for (int level = 0; expand_has_composites(trace); level++) {
    expand_job job = {&t, trace, NULL};
    th_status status = th_protect(&t.ctx->unwind, expand_all, &job);
    cr_assert_eq(status, TH_OK, "%s: %s", c->stmt, th_diagnostics_all(t.ctx));
    cr_assert_lt(level, 4, "%s expands without end", c->stmt);
    trace = job.out;
  }
  ir_text_free(&t);
}

Test(expand, types_are_those_of_the_composite) {
  for (size_t i = 0; i < TH_COUNT(expand_cases); i++) {
    expand_one(&expand_cases[i]);
  }
}

Test(expand, every_composite_has_a_case) {
  bool seen[TH_OP_COUNT] = {false};
  for (size_t i = 0; i < TH_COUNT(expand_cases); i++) {
    seen[expand_cases[i].op] = true;
  }
  for (int op = 1; op < TH_OP_COUNT; op++) {
    const th_op_info *row = th_op_row((th_op)op);
    cr_expect_eq(!row->expand, !(row->traits & TH_COMPOSITE), "%s", row->name);
    cr_expect(seen[op] || !row->expand, "%s has no case here", row->name);
  }
}

// A grouped attention repeats no keys: they keep their two heads and are
// broadcast by the product.
Test(expand, grouped_heads_share_keys) {
  ir_text t = ir_text_new();
  th_trace *trace = ir_text_read(
      &t, "q f32[2, 8, 5, 4]; k f32[2, 2, 7, 4]",
      "t = scaled_dot_product_attention(q, k, k, enable_gqa=True)");
  expand_job job = {&t, trace, NULL};
  cr_assert(trace);
  cr_assert_eq(th_protect(&t.ctx->unwind, expand_all, &job), TH_OK);
  for (uint32_t i = 0; i < job.out->stmt_count; i++) {
    cr_expect_neq(job.out->stmts[i]->op->op, TH_OP_expand);
    cr_expect_neq(job.out->stmts[i]->op->op, TH_OP_repeat);
    cr_expect_neq(job.out->stmts[i]->op->op, TH_OP_clone);
  }
  ir_text_free(&t);
}

Test(expand, a_primitive_is_refused) {
  ir_text t = ir_text_new();
  th_trace *trace = ir_text_read(&t, "x f32[2]", "t = exp(x)");
  th_builder b;
  th_value *outs[1] = {NULL};
  cr_assert(trace);
  th_builder_init(&b, trace);
  cr_assert_eq(th_expand(&b, trace->stmts[0], outs), TH_UNSUPPORTED);
  cr_assert(strstr(th_diagnostics_all(t.ctx), "exp: the operation has no "
                                              "expansion"));
  ir_text_free(&t);
}

static th_status expand_without_memory(void *user) {
  const expand_case *c = user;
  ir_text t = {.ctx = th_context_new()};
  th_status status = TH_NO_MEMORY;
  t.ir = t.ctx ? th_ir_new(t.ctx) : NULL;
  if (t.ir) {
    expand_job job = {&t, ir_text_read(&t, c->inputs, c->stmt), NULL};
    if (job.trace) {
      status = th_protect(&t.ctx->unwind, expand_all, &job);
    }
  }
  ir_text_free(&t);
  return status;
}

Test(expand, every_allocation_fails_once) {
  static const expand_case cases[] = {
      {TH_OP_scaled_dot_product_attention,
       "q f32[2, 8, s0, 8]; k f32[2, 2, s0, 8]; m f32[8, 1, s0]",
       "t = scaled_dot_product_attention(q, k, k, m, enable_gqa=True)"},
      {TH_OP_unbind, "x f32[64, 3]", "[a, b, c] = unbind(x, 1)"},
      {TH_OP_group_norm, "x f16[s0, 6, s1]; w f16[6]",
       "(y, m, r) = group_norm(x, 2, w, w)"},
  };
  for (size_t i = 0; i < TH_COUNT(cases); i++) {
    expand_case c = cases[i];
    torture(expand_without_memory, &c);
  }
}

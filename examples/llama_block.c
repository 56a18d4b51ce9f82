// A LLaMA block: RMSNorm, grouped-query attention with rotary embedding,
// SwiGLU. Parameters have the names of a Hugging Face checkpoint, so that
// `th_module_open(ctx, "model.safetensors", &module)` could take the place of
// make_module.  Sizes are symbols: one compilation serves every length.
#include <thunder/thunder.h>

#include <math.h>
#include <stdio.h>

enum { DIM = 64, HEADS = 8, KV_HEADS = 2, HEAD = DIM / HEADS, HIDDEN = 128 };

static th_value *linear(th_tracer *t, const char *name, th_value *x) {
  th_scope_push(t, name);
  x = th_linear(t, x, th_param(t, "weight"), NULL);
  th_scope_pop(t);
  return x;
}

static th_value *norm(th_tracer *t, const char *name, th_value *x) {
  th_scope_push(t, name);
  x = th_rms_norm(t, x, 1, th_param(t, "weight"), 1e-5);
  th_scope_pop(t);
  return x;
}

// [batch, length, heads * HEAD] -> [batch, heads, length, HEAD]
static th_value *split_heads(th_tracer *t, th_value *x, int heads) {
  th_dims shape = TH_DIMS(0, 0, heads, HEAD);
  shape = th_dims_with(shape, 0, th_size(t, x, 0));
  shape = th_dims_with(shape, 1, th_size(t, x, 1));
  return th_permute(t, th_reshape(t, x, shape), TH_DIMS(0, 2, 1, 3));
}

// x * cos + (-x2, x1) * sin
static th_value *rotate(th_tracer *t, th_value *x, th_value *cos,
                        th_value *sin) {
  th_value *half[2];
  th_chunk(t, x, 2, -1, half);
  th_value *turned[] = {th_neg(t, half[1]), half[0]};
  return th_add(t, th_mul(t, x, cos), th_mul(t, th_cat(t, turned, 2, -1), sin));
}

// Angles of the positions 0 .. length: [length, HEAD].
static th_value *angles(th_tracer *t, th_value *x) {
  th_value *position = th_arange(t, NULL, th_size(t, x, 1), NULL, TH_F32);
  th_value *i = th_arange(t, NULL, th_integer(t, HEAD / 2), NULL, TH_F32);
  th_value *step = th_exp(t, th_mul_scalar(t, i, -log(10000.0) * 2 / HEAD));
  th_value *half = th_outer(t, position, step);
  th_value *both[] = {half, half};
  return th_cat(t, both, 2, -1);
}

static th_value *attention(th_tracer *t, th_value *x) {
  th_scope_push(t, "self_attn");
  th_value *angle = angles(t, x);
  th_value *cos = th_cos(t, angle), *sin = th_sin(t, angle);
  th_value *q = split_heads(t, linear(t, "q_proj", x), HEADS);
  th_value *k = split_heads(t, linear(t, "k_proj", x), KV_HEADS);
  th_value *v = split_heads(t, linear(t, "v_proj", x), KV_HEADS);
  th_value *y = th_attention(t, rotate(t, q, cos, sin), rotate(t, k, cos, sin),
                             v, NULL, true, 0, true);
  y = th_flatten(t, th_permute(t, y, TH_DIMS(0, 2, 1, 3)), 2, 3);
  y = linear(t, "o_proj", y);
  th_scope_pop(t);
  return y;
}

static th_value *mlp(th_tracer *t, th_value *x) {
  th_scope_push(t, "mlp");
  th_value *gate = th_silu(t, linear(t, "gate_proj", x));
  th_value *up = linear(t, "up_proj", x);
  x = linear(t, "down_proj", th_mul(t, gate, up));
  th_scope_pop(t);
  return x;
}

static th_status block(th_tracer *t, th_value *const *in, size_t in_count,
                       th_value **out, size_t out_count, void *user) {
  (void)in_count, (void)out_count;
  th_value *x = in[0];
  th_scope_push(t, user); // "model.layers.0"
  x = th_add(t, x, attention(t, norm(t, "input_layernorm", x)));
  out[0] = th_add(t, x, mlp(t, norm(t, "post_attention_layernorm", x)));
  th_scope_pop(t);
  return th_tracer_status(t);
}

static th_status make_module(th_context *ctx, const char *path,
                             th_module **out) {
  static const struct {
    const char *name;
    int64_t rows, columns;
  } params[] = {{"input_layernorm", DIM, 0},
                {"post_attention_layernorm", DIM, 0},
                {"self_attn.q_proj", DIM, DIM},
                {"self_attn.k_proj", KV_HEADS * HEAD, DIM},
                {"self_attn.v_proj", KV_HEADS * HEAD, DIM},
                {"self_attn.o_proj", DIM, DIM},
                {"mlp.gate_proj", HIDDEN, DIM},
                {"mlp.up_proj", HIDDEN, DIM},
                {"mlp.down_proj", DIM, HIDDEN}};
  th_status status = th_module_new(ctx, out);
  for (size_t i = 0; i < sizeof params / sizeof *params; i++) {
    char fqn[128];
    const int64_t dims[] = {params[i].rows, params[i].columns};
    snprintf(fqn, sizeof fqn, "%s.%s.weight", path, params[i].name);
    if (status == TH_OK) {
      status = th_module_add_param(*out, fqn, TH_F32, dims[1] ? 2 : 1, dims);
    }
    th_tensor *p = status == TH_OK ? th_module_tensor(*out, fqn) : NULL;
    for (int64_t k = 0; p && k < th_tensor_numel(p); k++) {
      th_tensor_set(p, k, dims[1] ? 0.1 * sin((double)(k + 1)) : 1);
    }
  }
  return status;
}

int main(void) {
  static char path[] = "model.layers.0";
  th_context *ctx = th_context_new();
  th_module *module = NULL;
  th_callable *f = NULL;
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.cache = TH_CACHE_SYMBOLIC_VALUES;
  th_status status = make_module(ctx, path, &module);
  if (status == TH_OK) {
    status = th_jit(ctx, block, path, module, 1, &options, &f);
  }
  for (int64_t length = 3; length < 9 && status == TH_OK; length++) {
    const int64_t dims[] = {2, length, DIM};
    th_tensor *x = NULL, *y = NULL;
    status = th_tensor_new(ctx, TH_F32, 3, dims, &x);
    for (int64_t i = 0; status == TH_OK && i < th_tensor_numel(x); i++) {
      th_tensor_set(x, i, cos((double)i));
    }
    if (status == TH_OK) {
      status = th_call(f, &x, 1, &y, 1);
    }
    if (status == TH_OK) {
      printf("%lld tokens: %g\n", (long long)length, th_tensor_get(y, 0));
    }
    th_tensor_release(x);
    th_tensor_release(y);
  }
  th_statistics s = TH_STATISTICS_INIT;
  if (status == TH_OK) {
    const char *const *texts;
    size_t count = th_last_traces(f, TH_TRACES_COMPUTATION, &texts);
    th_callable_statistics(f, &s);
    printf("%s\n%llu compilation, %llu hits\n", texts[count - 1],
           (unsigned long long)s.cache_misses,
           (unsigned long long)s.cache_hits);
  }
  fputs(th_diagnostics_all(ctx), stderr);
  th_callable_free(f);
  th_module_release(module);
  th_context_free(ctx);
  return status != TH_OK || s.cache_misses != 1;
}

// The figures by name, and our side of each: a trace or an archive, compiled.
#include "bench_figures.h"

// ---- the table

#define SQUARE "\"cpu f32[4096, 4096]\"\n"
#define ROW "\"cpu f32[4096]\"\n"
#define HEADS "\"cpu f32[1, 12, 1024, 64]\"\n"
#define SMALL "\"cpu f32[16]\"\n"

static const char figure_attention[] =
    "def sdpa(q, k, v):\n"
    "  # q: " HEADS "  # k: " HEADS "  # v: " HEADS
    "  y = scaled_dot_product_attention(q, k, v, is_causal=True)\n"
    "  return y\n";
static const char figure_softmax[] = "def softmax(x):\n"
                                     "  # x: " SQUARE "  y = softmax(x, -1)\n"
                                     "  return y\n";
static const char figure_layernorm[] =
    "def layernorm(x, w, b):\n"
    "  # x: " SQUARE "  # w: " ROW "  # b: " ROW
    "  [y, m, r] = layer_norm(x, [4096], w, b, 1e-5)\n"
    "  return y\n";
static const char figure_rmsnorm[] =
    "def rmsnorm(x, w):\n"
    "  # x: " SQUARE "  # w: " ROW "  t0 = mul(x, x)\n"
    "  t1 = mean(t0, [-1], True)\n"
    "  t2 = add(t1, 1e-6)\n"
    "  t3 = rsqrt(t2)\n"
    "  t4 = mul(x, t3)\n"
    "  y = mul(t4, w)\n"
    "  return y\n";
static const char figure_gelu[] = "def gelu(x, b, s, r):\n"
                                  "  # x: " SQUARE "  # b: " ROW "  # s: " ROW
                                  "  # r: " SQUARE "  t0 = add(x, b)\n"
                                  "  t1 = gelu(t0, 'tanh')\n"
                                  "  t2 = mul(t1, s)\n"
                                  "  y = add(t2, r)\n"
                                  "  return y\n";
static const char figure_sum[] =
    "def total(a, b, c, d, e, f, g, h, i, j):\n"
    "  # a: " SMALL "  # b: " SMALL "  # c: " SMALL "  # d: " SMALL
    "  # e: " SMALL "  # f: " SMALL "  # g: " SMALL "  # h: " SMALL
    "  # i: " SMALL "  # j: " SMALL "  t0 = add(a, b)\n"
    "  t1 = add(t0, c)\n"
    "  t2 = add(t1, d)\n"
    "  t3 = add(t2, e)\n"
    "  t4 = add(t3, f)\n"
    "  t5 = add(t4, g)\n"
    "  t6 = add(t5, h)\n"
    "  t7 = add(t6, i)\n"
    "  y = add(t7, j)\n"
    "  return y\n";

const bench_figure bench_all[] = {
    {"gpt2", "GPT-2 124M, 128 tokens", "gpt2_small.pt2", NULL, NULL},
    {"bert", "BERT base, 128 tokens", "bert_base.pt2", NULL, NULL},
    {"minilm", "6 layers of BERT, 384 wide, 8 x 64 tokens", "minilm.pt2", NULL,
     NULL},
    {"llama", "LLaMA, 12 layers of 768, 128 tokens", "llama_110m.pt2", NULL,
     NULL},
    {"llamadec", "the same, 1 token", "llama_110m_decode.pt2", NULL, NULL},
    {"resnet50", "ResNet-50, one picture", "resnet50.pt2", NULL, NULL},
    {"sdpa", "causal attention, 1 x 12 x 1024 x 64", NULL, figure_attention,
     bench_onednn_attention},
    {"softmax", "rows of 4096 x 4096", NULL, figure_softmax,
     bench_onednn_softmax},
    {"layernorm", "rows of 4096 x 4096, scale and shift", NULL,
     figure_layernorm, bench_onednn_layernorm},
    {"rmsnorm", "written out, rows of 4096 x 4096", NULL, figure_rmsnorm,
     bench_memcpy_rmsnorm},
    {"gelu", "gelu(x + b) * s + r, tanh form, 4096 x 4096", NULL, figure_gelu,
     bench_memcpy_gelu},
    {"call_overhead", "a call that adds 10 tensors of 16", NULL, figure_sum,
     bench_plain_sum},
};
const size_t bench_count = sizeof bench_all / sizeof *bench_all;

// Old and foreign names.
static const struct {
  const char *name, *to;
} figure_aliases[] = {
    {"attention", "sdpa"},        {"bert_base", "bert"},
    {"gelu_chain", "gelu"},       {"gpt2_small", "gpt2"},
    {"layer_norm", "layernorm"},  {"llama_110m", "llama"},
    {"llama_decode", "llamadec"}, {"llama_110m_decode", "llamadec"},
    {"rms_norm", "rmsnorm"},      {"tiny10", "call_overhead"},
};

const bench_figure *bench_find(const char *name) {
  for (size_t i = 0; i < sizeof figure_aliases / sizeof *figure_aliases; i++) {
    if (strcmp(figure_aliases[i].name, name) == 0) {
      name = figure_aliases[i].to;
      break;
    }
  }
  for (size_t i = 0; i < bench_count; i++) {
    if (strcmp(bench_all[i].name, name) == 0) {
      return &bench_all[i];
    }
  }
  return NULL;
}

void bench_print_names(FILE *out) {
  for (size_t i = 0; i < bench_count; i++) {
    fprintf(out, "  %-14s %s\n", bench_all[i].name, bench_all[i].what);
  }
  for (size_t i = 0; i < sizeof figure_aliases / sizeof *figure_aliases; i++) {
    fprintf(out, "  %-14s is %s\n", figure_aliases[i].name,
            figure_aliases[i].to);
  }
}

// ---- our side

typedef struct figure_state {
  th_context *ctx;
  th_callable *callable;
  th_tensor *text_inputs[BENCH_INPUTS];
  th_tensor **inputs; // those, or samples of the archive
  size_t input_count;
  th_tensor **outputs;
  size_t output_count;
} figure_state;

static void figure_release(void *state) {
  figure_state *s = state;
  if (s->inputs == s->text_inputs) {
    for (size_t i = 0; i < s->input_count; i++) {
      th_tensor_release(s->inputs[i]);
    }
  } else {
    th_pt2_free_tensors(s->inputs, s->input_count);
  }
  free(s->outputs);
  th_callable_free(s->callable);
  th_context_free(s->ctx);
  free(s);
}

// The results of each call are new ones, as a user's are.
static th_status figure_call(figure_state *s) {
  th_status status = th_call(s->callable, s->inputs, s->input_count, s->outputs,
                             s->output_count);
  for (size_t i = 0; i < s->output_count; i++) {
    th_tensor_release(s->outputs[i]);
    s->outputs[i] = NULL;
  }
  return status;
}

static double figure_run(void *state, int count) {
  figure_state *s = state;
  th_status status = TH_OK;
  double start = bench_now();
  for (int i = 0; i < count && status == TH_OK; i++) {
    status = figure_call(s);
  }
  double took = bench_now() - start;
  if (status != TH_OK) {
    bench_say("%s", th_diagnostics_all(s->ctx));
    return -1;
  }
  return took;
}

static th_status figure_input(figure_state *s, size_t index) {
  int64_t dims[TH_MAX_RANK];
  int rank = th_callable_input_rank(s->callable, index);
  for (int d = 0; d < rank; d++) {
    dims[d] = th_callable_input_dim(s->callable, index, d, 1);
  }
  th_status status =
      th_tensor_new(s->ctx, TH_F32, rank, dims, &s->text_inputs[index]);
  float *data = status == TH_OK ? th_tensor_data(s->text_inputs[index]) : NULL;
  int64_t n = data ? th_tensor_numel(s->text_inputs[index]) : 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)i * 2654435761u + (uint32_t)index;
    data[i] = (float)(bits >> 8) * 0x1p-22f - 2; // -2 to 2
  }
  return status;
}

static th_status figure_text(figure_state *s, const bench_figure *figure,
                             const th_jit_options *options) {
  th_status status = th_jit_text(s->ctx, figure->name, figure->trace,
                                 strlen(figure->trace), options, &s->callable);
  if (status != TH_OK) {
    return status;
  }
  s->inputs = s->text_inputs;
  s->input_count = th_callable_input_count(s->callable);
  for (size_t i = 0; i < s->input_count && status == TH_OK; i++) {
    status = figure_input(s, i);
  }
  return status;
}

static th_status figure_archive(figure_state *s, const char *path,
                                const th_jit_options *options) {
  th_pt2_options weights = TH_PT2_OPTIONS_INIT;
  th_pt2 *archive = NULL;
  weights.random_weights = true;
  weights.seed = 1;
  th_status status = th_pt2_open(s->ctx, path, &weights, &archive);
  if (status == TH_OK) {
    status = th_jit_pt2(s->ctx, archive, NULL, options, &s->callable);
  }
  if (status == TH_OK) {
    status = th_pt2_sample_inputs(archive, NULL, &s->inputs, &s->input_count);
  }
  th_pt2_free(archive);
  return status;
}

bool bench_ours(const bench_figure *figure, const char *archives, int threads,
                bench_side *out_side) {
  th_jit_options options = TH_JIT_OPTIONS_INIT;
  options.threads = threads;
  figure_state *s = calloc(1, sizeof *s);
  if (!s || !(s->ctx = th_context_new())) {
    bench_say("out of memory");
    free(s);
    return false;
  }
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", archives,
           figure->archive ? figure->archive : "");
  th_status status = figure->archive ? figure_archive(s, path, &options)
                                     : figure_text(s, figure, &options);
  if (status == TH_OK) {
    s->output_count = th_callable_output_count(s->callable);
    s->outputs = calloc(s->output_count + 1, sizeof(th_tensor *));
    status = s->outputs ? TH_OK : TH_NO_MEMORY;
  }
  if (status != TH_OK) {
    bench_say("%s: %s", figure->name,
              *th_diagnostics_all(s->ctx) ? th_diagnostics_all(s->ctx)
                                          : th_status_text(status));
    figure_release(s);
    return false;
  }
  *out_side = (bench_side){"ours", figure_run, figure_release, s, false};
  return true;
}

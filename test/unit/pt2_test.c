// The .pt2 reader, on the archives of test/conformance and on damaged copies
// of them.
#include "base/alloc.h"
#include "base/file.h"
#include "frontend/archive.h"
#include "torture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define ARCHIVES TH_SOURCE_DIR "/test/conformance/"

// ---- helpers

static th_pt2 *open_archive(th_context *ctx, const char *name) {
  char path[512];
  th_pt2 *archive = NULL;
  snprintf(path, sizeof path, ARCHIVES "%s.pt2", name);
  cr_assert_eq(th_pt2_open(ctx, path, NULL, &archive), TH_OK, "%s",
               th_diagnostics_all(ctx));
  return archive;
}

static th_trace *trace_of(th_pt2 *archive, const char *program, th_ir *ir) {
  th_trace *trace = NULL;
  cr_assert_eq(th_pt2_trace(archive, program, ir, &trace), TH_OK, "%s",
               th_diagnostics_all(ir->ctx));
  return trace;
}

typedef struct text_job {
  th_buffer text;
  const th_trace *trace;
} text_job;

static th_status text_print(void *arg) {
  text_job *job = arg;
  th_trace_print(&job->text, job->trace, NULL);
  return TH_OK;
}

// Lives as long as the trace.
static const char *text_of(const th_trace *trace) {
  text_job job = {.trace = trace};
  th_buffer_init(&job.text, &trace->ir->arena);
  cr_assert_eq(th_protect(&trace->ir->ctx->unwind, text_print, &job), TH_OK);
  return job.text.data;
}

static void expect_line(const char *text, const char *line) {
  cr_assert(strstr(text, line) != NULL, "no '%s' in\n%s", line, text);
}

// A copy of a file, to be damaged.
typedef struct copy {
  char *data;
  size_t size;
} copy;

static copy copy_of(const char *name) {
  th_context *ctx = th_context_new();
  char path[512];
  th_file file;
  snprintf(path, sizeof path, ARCHIVES "%s.pt2", name);
  cr_assert_eq(th_file_map(ctx, path, &file), TH_OK);
  copy c = {th_malloc(file.size), file.size};
  memcpy(c.data, file.data, file.size);
  th_file_unmap(&file);
  th_context_free(ctx);
  return c;
}

// Replaces every occurrence by a text of the same length.
static void damage(copy *c, const char *from, const char *to) {
  size_t size = strlen(from);
  bool found = false;
  cr_assert_eq(size, strlen(to));
  for (size_t i = 0; i + size <= c->size; i++) {
    if (memcmp(c->data + i, from, size) == 0) {
      memcpy(c->data + i, to, size);
      found = true;
    }
  }
  cr_assert(found, "%s", from);
}

// Opens, and reads everything of every program; the first error wins.
static th_status read_all(th_context *ctx, const void *data, size_t size) {
  th_pt2 *archive = NULL;
  th_pt2_options options = TH_PT2_OPTIONS_INIT;
  options.random_weights = true;
  TH_TRY(th_pt2_open_memory(ctx, "a.pt2", data, size, NULL, NULL, &options,
                            &archive));
  th_status status = TH_OK;
  for (size_t i = 0; i < th_pt2_program_count(archive); i++) {
    const char *name = th_pt2_program_name(archive, i);
    th_ir *ir = th_ir_new(ctx);
    th_trace *trace;
    th_status one = ir ? th_pt2_trace(archive, name, ir, &trace) : TH_NO_MEMORY;
    status = status ? status : one;
    const th_pt2_input *inputs = NULL;
    size_t count = 0;
    one = th_pt2_inputs(archive, name, &inputs, &count);
    for (size_t k = 0; one == TH_OK && k < count; k++) {
      th_tensor *weight = NULL;
      if (inputs[k].fqn) {
        one = th_pt2_weight(archive, name, inputs[k].fqn, &weight);
        th_tensor_release(weight);
      }
    }
    status = status ? status : one;
    th_tensor **samples = NULL;
    one = th_pt2_sample_inputs(archive, name, &samples, &count);
    if (one == TH_OK) {
      th_pt2_free_tensors(samples, count);
    }
    status = status ? status : one;
    th_ir_release(ir);
  }
  th_pt2_free(archive);
  return status;
}

static void expect_error(copy *c, th_status status, const char *text) {
  th_context *ctx = th_context_new();
  th_status got = read_all(ctx, c->data, c->size);
  const char *all = th_diagnostics_all(ctx);
  cr_assert_eq(got, status, "%s: %s", th_status_text(got), all);
  cr_assert(strstr(all, text) != NULL, "no '%s' in\n%s", text, all);
  th_context_free(ctx);
  th_free(c->data);
}

// ---- programs

Test(pt2, programs) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "mlp");
  cr_assert_eq(th_pt2_program_count(archive), 3);
  cr_assert_str_eq(th_pt2_default_program(archive), "train_ir");
  cr_assert_null(th_pt2_program_name(archive, 3));
  th_ir *ir = th_ir_new(ctx);
  th_trace *trace;
  cr_assert_eq(th_pt2_trace(archive, "other", ir, &trace), TH_NOT_FOUND);
  expect_line(th_diagnostics_all(ctx), "no program 'other'");
  th_ir_release(ir);
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, inputs_in_order) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "nested_io");
  const th_pt2_input *inputs;
  size_t count;
  cr_assert_eq(th_pt2_inputs(archive, "train_ir", &inputs, &count), TH_OK);
  cr_assert_eq(count, 17);
  cr_assert_eq(inputs[0].kind, TH_PT2_PARAM);
  cr_assert_str_eq(inputs[0].fqn, "a.weight");
  cr_assert_eq(inputs[4].kind, TH_PT2_BUFFER);
  cr_assert(!inputs[4].persistent);
  cr_assert_eq(inputs[5].kind, TH_PT2_CONSTANT);
  cr_assert_str_eq(inputs[6].name, "batch_x");
  cr_assert(inputs[6].is_tensor && !inputs[10].is_tensor);
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, no_program_is_the_default_one) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "nested_io");
  const th_pt2_input *inputs, *same;
  size_t count, same_count;
  cr_assert_eq(th_pt2_inputs(archive, "train_ir", &inputs, &count), TH_OK);
  cr_assert_eq(th_pt2_inputs(archive, NULL, &same, &same_count), TH_OK);
  cr_assert_eq(same, inputs);
  cr_assert_eq(same_count, count);
  th_tensor *weight = NULL, **samples = NULL;
  cr_assert_eq(th_pt2_weight(archive, NULL, "a.weight", &weight), TH_OK);
  th_tensor_release(weight);
  cr_assert_eq(th_pt2_sample_inputs(archive, NULL, &samples, &count), TH_OK);
  cr_assert_gt(count, 0);
  th_pt2_free_tensors(samples, count);
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, a_trace_with_names_scopes_and_lines) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "mlp");
  th_ir *ir = th_ir_new(ctx);
  const char *text = text_of(trace_of(archive, "train_ir", ir));
  expect_line(text, "# t_layers_0_weight: \"cpu f32[64, 16]\"  param "
                    "layers.0.weight\n");
  expect_line(text, "  # layers.0  models_hand.py:15\n  linear = linear(x, "
                    "t_layers_0_weight, t_layers_0_bias)");
  expect_line(text, "return {'output': log_softmax}");
  th_ir_release(ir);
  th_pt2_free(archive);
  th_context_free(ctx);
}

// Every program of every archive: valid, and its text is read back equal.
Test(pt2, texts_round_trip) {
  static const char *const names[] = {
      "mlp",       "symbolic",      "cond",         "batchnorm_train",
      "nested_io", "shared_weight", "called_twice", "dropout_eval",
      "legacy",    "cache_inputs"};
  for (size_t i = 0; i < TH_COUNT(names); i++) {
    th_context *ctx = th_context_new();
    th_pt2 *archive = open_archive(ctx, names[i]);
    for (size_t k = 0; k < th_pt2_program_count(archive); k++) {
      th_ir *ir = th_ir_new(ctx), *again = th_ir_new(ctx);
      th_trace *trace = trace_of(archive, th_pt2_program_name(archive, k), ir);
      cr_assert_eq(th_trace_verify(trace), TH_OK, "%s",
                   th_diagnostics_all(ctx));
      const char *text = text_of(trace);
      th_trace *read = NULL;
      cr_assert_eq(th_trace_parse(again, names[i], text, strlen(text), &read),
                   TH_OK, "%s", th_diagnostics_all(ctx));
      cr_assert(th_trace_equal(trace, read), "%s", names[i]);
      th_ir_release(again);
      th_ir_release(ir);
    }
    th_pt2_free(archive);
    th_context_free(ctx);
  }
}

Test(pt2, result_trees) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "nested_io");
  th_ir *ir = th_ir_new(ctx);
  expect_line(text_of(trace_of(archive, "train_ir", ir)),
              "return {'output': {'h': masked_fill, 'stats': (mean, None, "
              "[stack, 3, 0.5]), 'z': add_2, 'n': 16, 'flag': True}}");
  th_ir_release(ir);
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, sizes_are_expressions) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "symbolic");
  th_ir *ir = th_ir_new(ctx);
  const char *text = text_of(trace_of(archive, "dyn", ir));
  expect_line(text, "# x: \"cpu f32[s77, 2*s44, 16]\"");
  expect_line(text, "# s44: \"int\" in [2, 32]");
  expect_line(text, "return {'output': (slice_2, div_1, 4*s44 + 1, s44)}");
  cr_assert_null(strstr(text, "sym_size"));
  th_ir_release(ir);
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, branches_are_sub_traces) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "cond");
  th_ir *ir = th_ir_new(ctx);
  expect_line(text_of(trace_of(archive, "train_ir", ir)),
              "[getitem] = cond(flag, true_branch, false_branch, [x, ");
  th_ir_release(ir);
  th_pt2_free(archive);
  th_context_free(ctx);
}

// ---- writes

Test(pt2, hidden_writes_of_batch_norm) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "batchnorm_train");
  static const char *const programs[] = {"train_ir", "core"};
  for (size_t i = 0; i < TH_COUNT(programs); i++) {
    th_ir *ir = th_ir_new(ctx);
    th_trace *trace = trace_of(archive, programs[i], ir);
    cr_assert_eq(trace->result.count, 2);
    cr_assert_str_eq(trace->result.keys[1], "mutated");
    cr_assert_eq(trace->result.items[1].count, 6);
    th_ir_release(ir);
  }
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, inputs_written_in_place) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "cache_inputs");
  th_ir *ir = th_ir_new(ctx);
  expect_line(text_of(trace_of(archive, "train_ir", ir)),
              "'mutated': {'k_cache': index_copy_, 'v_cache': index_put_}}");
  th_ir_release(ir);
  th_pt2_free(archive);
  th_context_free(ctx);
}

// A seed of the fuzzer, which holds one program "m".
static void expect_seed(const char *seed, const char *const *lines) {
  th_context *ctx = th_context_new();
  char path[512];
  snprintf(path, sizeof path, TH_SOURCE_DIR "/test/fuzz/corpus/pt2/%s.pt2",
           seed);
  th_pt2 *archive = NULL;
  cr_assert_eq(th_pt2_open(ctx, path, NULL, &archive), TH_OK);
  th_ir *ir = th_ir_new(ctx);
  const char *text = text_of(trace_of(archive, "m", ir));
  for (; *lines; lines++) {
    expect_line(text, *lines);
  }
  th_ir_release(ir);
  th_pt2_free(archive);
  th_context_free(ctx);
}

// x = clone(x); x[:, 0].fill_(1); x[1] *= 2
Test(pt2, writes_through_views) {
  expect_seed("composed_views_inplace_0",
              (const char *const[]){
                  "t3 = select_scatter(clone, fill_, 1, 0)",
                  "select_1 = select(t3, 0, 1)", "mul_ = mul(select_1, 2)",
                  "t6 = select_scatter(t3, mul_, 0, 1)", NULL});
}

// A write through a transpose; the base is derived from it.
Test(pt2, writes_through_permutations) {
  expect_seed("edge_mutation_11",
              (const char *const[]){"add_ = add(transpose, unsqueeze)",
                                    "t5 = permute(add_, [1, 0])",
                                    "return {'output': (t5, add_)}", NULL});
}

// Numbers from data keep the assertions that bound them.
Test(pt2, assertions_stay) {
  expect_seed("data_dependent",
              (const char *const[]){"u0 = item(count)",
                                    "assert_number(1 <= u0, ",
                                    "assert_number(u0 <= 6, ", NULL});
}

// Regions without gradients and with autocast.
Test(pt2, regions_are_read_in_place) {
  expect_seed("regions",
              (const char *const[]){"detach(mean)", "to(x, bf16)",
                                    "getitem_2 = linear(t6, t7, t8)", NULL});
}

// ---- weights

static th_tensor *weight_of(th_pt2 *archive, const char *program,
                            const char *fqn) {
  th_tensor *tensor = NULL;
  cr_assert_eq(th_pt2_weight(archive, program, fqn, &tensor), TH_OK, "%s",
               th_diagnostics_all(archive->ctx));
  return tensor;
}

Test(pt2, weights_outlive_the_archive) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "mlp");
  th_tensor *weight = weight_of(archive, "train_ir", "layers.0.weight");
  th_tensor *again = weight_of(archive, "train_ir", "layers.0.weight");
  cr_assert(th_tensor_shares_storage(weight, again));
  th_pt2_free(archive);
  th_context_free(ctx);
  cr_assert_eq(th_tensor_rank(weight), 2);
  cr_assert_eq(th_tensor_dims(weight)[0], 64);
  cr_assert(th_tensor_get(weight, 0) != 0);
  cr_assert(th_tensor_equal(weight, again));
  th_tensor_release(weight);
  th_tensor_release(again);
}

Test(pt2, tied_weights_share) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "shared_weight");
  const th_pt2_input *inputs;
  size_t count, shared = 0;
  cr_assert_eq(th_pt2_inputs(archive, "train_ir", &inputs, &count), TH_OK);
  for (size_t i = 0; i < count; i++) {
    for (size_t k = i + 1; k < count && inputs[i].fqn; k++) {
      if (inputs[k].fqn) {
        th_tensor *a = weight_of(archive, "train_ir", inputs[i].fqn);
        th_tensor *b = weight_of(archive, "train_ir", inputs[k].fqn);
        shared += th_tensor_shares_storage(a, b);
        th_tensor_release(a);
        th_tensor_release(b);
      }
    }
  }
  cr_assert_gt(shared, 0);
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, buffers_are_copies) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "batchnorm_train");
  th_tensor *a = weight_of(archive, "train_ir", "net.1.running_mean");
  th_tensor_set(a, 0, 1e6);
  th_tensor *b = weight_of(archive, "train_ir", "net.1.running_mean");
  cr_assert_neq(th_tensor_get(b, 0), 1e6);
  th_tensor_release(a);
  th_tensor_release(b);
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, samples) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "nested_io");
  th_tensor **samples;
  size_t count;
  cr_assert_eq(th_pt2_sample_inputs(archive, "train_ir", &samples, &count),
               TH_OK, "%s", th_diagnostics_all(ctx));
  cr_assert_eq(count, 11);
  cr_assert_eq(th_tensor_rank(samples[0]), 3);
  cr_assert_null(samples[4]);
  th_pt2_free_tensors(samples, count);
  th_pt2_free(archive);
  th_context_free(ctx);
}

// The flat container of torch <= 2.7 holds the same model.
Test(pt2, the_flat_container) {
  th_context *ctx = th_context_new();
  th_pt2 *old = open_archive(ctx, "legacy"), *new = open_archive(ctx, "mlp");
  th_ir *ir = th_ir_new(ctx);
  cr_assert_str_eq(th_pt2_default_program(old), "model");
  expect_line(text_of(trace_of(old, "model", ir)),
              "clamp = clamp(log_softmax, -inf)");
  th_tensor *a = weight_of(old, "model", "layers.1.weight");
  th_tensor *b = weight_of(new, "train_ir", "layers.1.weight");
  cr_assert(th_tensor_equal(a, b));
  th_tensor *c = weight_of(old, "model", "layers.0.weight");
  th_tensor *d = weight_of(old, "model", "tied");
  cr_assert(th_tensor_shares_storage(c, d));
  th_tensor *all[] = {a, b, c, d};
  for (size_t i = 0; i < TH_COUNT(all); i++) {
    th_tensor_release(all[i]);
  }
  th_ir_release(ir);
  th_pt2_free(old);
  th_pt2_free(new);
  th_context_free(ctx);
}

Test(pt2, replaced_weights) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = open_archive(ctx, "mlp");
  const char *path = "/tmp/th_pt2_test.safetensors";
  int64_t dims[] = {10};
  th_tensor *bias, *wrong;
  th_tensor_new(ctx, TH_F32, 1, dims, &bias);
  th_tensor_new(ctx, TH_F64, 1, dims, &wrong);
  th_tensor_fill(ctx, bias, 3);
  const char *name = "layers.2.bias";
  cr_assert_eq(th_safetensors_write(ctx, path, &name, &bias, 1, NULL, 0),
               TH_OK);
  cr_assert_eq(th_pt2_replace_weights(archive, path), TH_OK);
  th_tensor *got = weight_of(archive, "dyn", name);
  cr_assert(th_tensor_equal(got, bias));
  th_tensor_release(got);

  th_safetensors_write(ctx, path, &name, &wrong, 1, NULL, 0);
  cr_assert_eq(th_pt2_replace_weights(archive, path), TH_OK);
  cr_assert_eq(th_pt2_weight(archive, "dyn", name, &got), TH_SHAPE);
  expect_line(th_diagnostics_all(ctx), "'layers.2.bias' is f32[10], and the "
                                       "tensor to replace it is f64[10]");
  name = "layers.9.bias";
  th_safetensors_write(ctx, path, &name, &bias, 1, NULL, 0);
  cr_assert_eq(th_pt2_replace_weights(archive, path), TH_NOT_FOUND);
  remove(path);
  th_tensor_release(bias);
  th_tensor_release(wrong);
  th_pt2_free(archive);
  th_context_free(ctx);
}

Test(pt2, random_weights_depend_on_the_seed) {
  // Names of payloads that do not exist are errors; a size of 0 is not.
  copy c = copy_of("mlp");
  th_context *ctx = th_context_new();
  th_pt2 *archive;
  th_tensor *made[3];
  for (int i = 0; i < 3; i++) {
    th_pt2_options options = TH_PT2_OPTIONS_INIT;
    options.random_weights = true;
    options.seed = i == 2;
    cr_assert_eq(th_pt2_open_memory(ctx, "a", c.data, c.size, NULL, NULL,
                                    &options, &archive),
                 TH_OK);
    th_pt2_program *program;
    cr_assert_eq(th_pt2_program_find(archive, "dyn", &program), TH_OK);
    cr_assert_eq(th_pt2_read_weights(archive, program), TH_OK);
    th_pt2_record *record = th_map_get(&program->weights, "layers.0.weight");
    record->bytes = 0;
    made[i] = weight_of(archive, "dyn", "layers.0.weight");
    th_pt2_free(archive);
  }
  cr_assert(th_tensor_equal(made[0], made[1]));
  cr_assert(!th_tensor_equal(made[0], made[2]));
  for (int i = 0; i < 3; i++) {
    th_tensor_release(made[i]);
  }
  th_context_free(ctx);
  th_free(c.data);
}

// ---- bad input

Test(pt2, truncated) {
  copy c = copy_of("mlp");
  for (size_t size = 0; size < c.size; size += size < 256 ? 1 : 1499) {
    th_context *ctx = th_context_new();
    char *exact = th_malloc(size + 1); // so that ASan sees the end
    memcpy(exact, c.data, size);
    th_status status = read_all(ctx, exact, size);
    cr_assert_eq(status, TH_PARSE, "%zu bytes", size);
    cr_assert_eq(th_diagnostic_count(ctx), 1);
    th_free(exact);
    th_context_free(ctx);
  }
  th_free(c.data);
}

Test(pt2, unknown_operations_are_listed_at_once) {
  copy c = copy_of("mlp");
  damage(&c, "torch.ops.aten.gelu.", "torch.ops.aten.gelx.");
  damage(&c, "torch.ops.aten.relu.", "torch.ops.aten.relx.");
  th_context *ctx = th_context_new();
  cr_assert_eq(read_all(ctx, c.data, c.size), TH_UNSUPPORTED);
  const char *all = th_diagnostics_all(ctx);
  expect_line(all, "2 operations of program");
  expect_line(all, "models_hand.py:17: note: aten.gelx.default, used 1 time");
  expect_line(all, "aten.relx.default, used 1 time");
  th_context_free(ctx);
  th_free(c.data);
}

Test(pt2, wrong_kinds_name_node_and_argument) {
  copy c = copy_of("mlp");
  damage(&c, "\"dim\", \"arg\": {\"as_int\": -1}",
         "\"dim\", \"arg\": {\"as_none\": 1}");
  expect_error(&c, TH_PARSE,
               ": error: node 5 (aten.log_softmax.int): argument 'dim' should "
               "be an integer");
}

Test(pt2, a_value_that_nobody_made) {
  copy c = copy_of("mlp");
  damage(&c, "\"input\", \"arg\": {\"as_tensor\": {\"name\": \"gelu\"}}",
         "\"input\", \"arg\": {\"as_tensor\": {\"name\": \"gelo\"}}");
  expect_error(&c, TH_PARSE, "no value is called 'gelo'");
}

Test(pt2, broken_json_names_entry_and_byte) {
  copy c = copy_of("mlp");
  damage(&c, "{\"graph_module\": {", "{\"graph_module\": (");
  expect_error(&c, TH_PARSE, "json: error: byte 17: expected a value");
}

Test(pt2, another_version) {
  copy c = copy_of("mlp");
  damage(&c, "\"major\": 8", "\"major\": 9");
  expect_error(&c, TH_UNSUPPORTED, "version 9 of the format; 8 is read");
}

Test(pt2, weights_that_reach_outside) {
  copy c = copy_of("mlp");
  damage(&c, "\"sizes\": [{\"as_int\": 64}, {\"as_int\": 64}]",
         "\"sizes\": [{\"as_int\": 99}, {\"as_int\": 64}]");
  th_context *ctx = th_context_new();
  cr_assert_neq(read_all(ctx, c.data, c.size), TH_OK);
  th_context_free(ctx);
  th_free(c.data);
}

Test(pt2, not_an_archive) {
  th_context *ctx = th_context_new();
  cr_assert_eq(read_all(ctx, "", 0), TH_PARSE);
  cr_assert_eq(read_all(ctx, "no zip at all", 13), TH_PARSE);
  expect_line(th_diagnostics_all(ctx), "a.pt2: error: not a zip file");
  th_pt2 *archive;
  cr_assert_eq(th_pt2_open(ctx, "/nowhere.pt2", NULL, &archive), TH_IO);
  th_context_free(ctx);
}

// ---- memory

static th_status torture_work(void *user) {
  const copy *c = user;
  th_context *ctx = th_context_new();
  if (!ctx) {
    return TH_NO_MEMORY;
  }
  th_status status = read_all(ctx, c->data, c->size);
  th_context_free(ctx);
  return status;
}

Test(pt2, every_allocation_fails_once, .timeout = 300) {
  copy c = copy_of("legacy");
  torture(torture_work, &c);
  th_free(c.data);
  c = copy_of("shared_weight");
  torture(torture_work, &c);
  th_free(c.data);
}

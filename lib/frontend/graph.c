// A program of an archive as a trace: inputs in the order of the signature, the
// nodes one after the other, and the result as the tree that the model
// returned, with what it wrote to its inputs beside it.
#include "frontend/graph.h"

#include <string.h>

enum { GRAPH_DEPTH = 32 };

// ---- names of a graph ------------------------------------------------------

static th_status graph_metas(th_pt2_graph *graph, const th_json *json,
                             th_map *metas) {
  const th_json *values = NULL;
  TH_TRY(th_json_need(graph->place, json, "tensor_values", TH_JSON_OBJECT,
                      &values));
  for (TH_JSON_EACH_KEY(key, values)) {
    th_map_put(metas, key->text, (void *)(uintptr_t)(key + 1));
  }
  return TH_OK;
}

th_status th_pt2_enter(th_pt2_graph *graph, const th_json *json,
                       th_pt2_scope *scope) {
  if (++graph->depth > GRAPH_DEPTH) {
    return th_call_error(graph, TH_UNSUPPORTED, "graphs are nested too deeply");
  }
  scope->outer_names = graph->names;
  scope->outer_metas = graph->metas;
  scope->outer_json = graph->json;
  th_map_init(&scope->names, graph->arena);
  th_map_init(&scope->metas, graph->arena);
  graph->names = &scope->names;
  graph->metas = &scope->metas;
  graph->json = json;
  return graph_metas(graph, json, &scope->metas);
}

void th_pt2_leave(th_pt2_graph *graph, th_pt2_scope *scope) {
  graph->names = scope->outer_names;
  graph->metas = scope->outer_metas;
  graph->json = scope->outer_json;
  graph->depth--;
}

th_status th_pt2_read_nodes(th_pt2_graph *graph, const th_json *json) {
  const th_json *nodes = NULL;
  TH_TRY(th_json_need(graph->place, json, "nodes", TH_JSON_ARRAY, &nodes));
  uint32_t index = 0;
  for (TH_JSON_EACH(node, nodes)) {
    graph->node = index++;
    TH_TRY(th_pt2_read_node(graph, node));
  }
  return TH_OK;
}

// ---- what is not supported -------------------------------------------------

typedef struct graph_missing {
  const char *target;
  uint32_t count;
  th_loc loc; // first use
} graph_missing;

typedef struct graph_survey {
  th_pt2_graph *graph;
  th_map found; // target -> graph_missing
  uint32_t depth;
} graph_survey;

static bool graph_is_known(th_pt2_graph *graph, const char *target) {
  th_target row;
  th_call_fn fn;
  if (th_aten_find(graph, target, &row) || th_numbers_find(target, &fn) ||
      th_hop_find(target, &fn)) {
    return true;
  }
  // A user's operation: ns.name.overload.
  const char *first = strchr(target, '.');
  const char *second = first ? strchr(first + 1, '.') : NULL;
  if (!second || strncmp(target, "aten.", 5) == 0) {
    return false;
  }
  char *name =
      th_arena_printf(graph->arena, "%.*s::%.*s", (int)(first - target), target,
                      (int)(second - first - 1), first + 1);
  return th_op_find(graph->archive->ctx, name, strlen(name)) != NULL;
}

static void graph_survey_node(graph_survey *survey, const th_json *node);

static void graph_survey_nodes(graph_survey *survey, const th_json *json) {
  const th_json *nodes = th_json_get(json, "nodes");
  if (!th_json_is(nodes, TH_JSON_ARRAY) || survey->depth > GRAPH_DEPTH) {
    return;
  }
  survey->depth++;
  for (TH_JSON_EACH(node, nodes)) {
    graph_survey_node(survey, node);
  }
  survey->depth--;
}

static void graph_survey_node(graph_survey *survey, const th_json *node) {
  th_pt2_graph *graph = survey->graph;
  const char *target = th_pt2_target(node);
  if (!graph_is_known(graph, target)) {
    graph_missing *m = th_map_get(&survey->found, target);
    if (!m) {
      m = TH_NEW(graph->arena, graph_missing);
      th_pt2_node_place(graph, node);
      *m = (graph_missing){target, 0, graph->b->loc};
      th_map_put(&survey->found, target, m);
    }
    m->count++;
  }
  const th_json *inputs = th_json_get(node, "inputs");
  if (!th_json_is(inputs, TH_JSON_ARRAY)) {
    return;
  }
  for (TH_JSON_EACH(input, inputs)) {
    const th_json *inner = th_json_get(th_json_get(input, "arg"), "as_graph");
    if (inner) {
      graph_survey_nodes(survey, th_json_get(inner, "graph"));
    }
  }
}

// All operations that have no meaning here, at once.
static th_status graph_check_targets(th_pt2_graph *graph, const th_json *json) {
  graph_survey survey = {.graph = graph};
  th_map_init(&survey.found, graph->arena);
  graph_survey_nodes(&survey, json);
  graph->loc = graph->b->loc = (th_loc){0};
  graph->scope = graph->b->scope = "";
  graph->last_trace = graph->last_stack = NULL;
  uint32_t count = survey.found.count;
  if (count == 0) {
    return TH_OK;
  }
  th_context *ctx = graph->archive->ctx;
  th_error(ctx, TH_UNSUPPORTED, (th_loc){.file = graph->place.where},
           "%u operation%s of program '%s' %s not supported", count,
           count == 1 ? "" : "s", graph->program->name,
           count == 1 ? "is" : "are");
  for (uint32_t i = 0; i < count; i++) {
    const graph_missing *m = survey.found.entries[i].value;
    th_note(ctx, m->loc, "%s, used %u time%s", m->target, m->count,
            m->count == 1 ? "" : "s");
  }
  return TH_UNSUPPORTED;
}

// ---- inputs ----------------------------------------------------------------

static th_status graph_declare(th_pt2_graph *graph, const th_json *meta) {
  const th_json *sizes = th_json_get(meta, "sizes");
  if (!th_json_is(sizes, TH_JSON_ARRAY)) {
    return th_json_error(graph->place, meta, "an input has no sizes");
  }
  for (TH_JSON_EACH(size, sizes)) {
    TH_TRY(th_pt2_declare_symbols(graph, size));
  }
  return TH_OK;
}

// The row-major type: how an argument lies in memory is known at a call.
static th_status graph_input_type(th_pt2_graph *graph, const th_json *meta,
                                  th_type *out_type) {
  TH_TRY(graph_declare(graph, meta));
  TH_TRY(th_pt2_meta_type(graph, meta, out_type));
  out_type->strides = NULL;
  return TH_OK;
}

static th_status graph_tensor_input(th_pt2_graph *graph,
                                    const th_pt2_input *spec) {
  const th_json *meta = th_map_get(graph->metas, spec->name);
  if (!meta) {
    return th_error(graph->archive->ctx, TH_PARSE,
                    (th_loc){.file = graph->place.where},
                    "no type for the input '%s'", spec->name);
  }
  static const th_input_kind kinds[] = {
      [TH_PT2_USER] = TH_INPUT_USER,
      [TH_PT2_PARAM] = TH_INPUT_PARAM,
      [TH_PT2_BUFFER] = TH_INPUT_BUFFER,
      [TH_PT2_CONSTANT] = TH_INPUT_CONSTANT,
  };
  th_type type;
  TH_TRY(graph_input_type(graph, meta, &type));
  th_input input = {.kind = kinds[spec->kind],
                    .fqn = spec->fqn,
                    .persistent = spec->persistent};
  const char *name =
      spec->fqn ? th_name_of_fqn(graph->ir, spec->fqn) : spec->name;
  th_value *value = th_trace_input(graph->b->trace, &type, name, &input);
  return th_pt2_bind(graph, spec->name,
                     (th_pt2_arg){.kind = TH_PT2_TENSOR,
                                  .tensor = th_alias_base(graph, value)});
}

static th_status graph_symbol_input(th_pt2_graph *graph,
                                    const th_pt2_input *spec) {
  const th_json *value =
      th_json_get(th_json_get(graph->json, "sym_int_values"), spec->name);
  if (!value) {
    return th_error(graph->archive->ctx, TH_UNSUPPORTED,
                    (th_loc){.file = graph->place.where},
                    "the input '%s' is a symbolic number that is no integer",
                    spec->name);
  }
  TH_TRY(th_pt2_declare_symbols(graph, value));
  const th_expr *num = th_pt2_number(graph, value);
  th_type type = th_number_type(num);
  th_trace_input(graph->b->trace, &type, spec->name, NULL);
  return th_pt2_bind(graph, spec->name,
                     (th_pt2_arg){.kind = TH_PT2_NUM, .num = num});
}

// A leaf that was no tensor at export: {"name", "value": {"as_float": 2.0}}.
static th_status graph_constant_input(th_pt2_graph *graph,
                                      const th_pt2_input *spec,
                                      const th_json *json) {
  th_pt2_arg arg;
  graph->target = "constant_input";
  TH_TRY(th_pt2_read_arg(graph, th_json_get(json, "value"), spec->name, &arg));
  th_type type = {.kind = TH_KIND_NONE};
  if (arg.kind == TH_PT2_NUM) {
    type = th_number_type(arg.num);
  } else if (arg.kind == TH_PT2_STRING) {
    type.kind = TH_KIND_STRING;
    type.text = arg.text;
  }
  th_trace_input(graph->b->trace, &type, spec->name, NULL);
  return th_pt2_bind(graph, spec->name, arg);
}

static const th_json *graph_signature(const th_pt2_program *program) {
  return th_json_get(th_json_get(program->json, "graph_module"), "signature");
}

static th_status graph_inputs(th_pt2_graph *graph) {
  const th_pt2_program *program = graph->program;
  const th_json *specs = th_json_get(graph_signature(program), "input_specs");
  uint32_t i = 0;
  for (TH_JSON_EACH(item, specs)) {
    const th_pt2_input *spec = &program->inputs[i++];
    const th_json *tag = th_json_first(item);
    if (spec->is_tensor) {
      TH_TRY(graph_tensor_input(graph, spec));
    } else if (strcmp(tag->text, "constant_input") == 0) {
      TH_TRY(graph_constant_input(graph, spec, tag + 1));
    } else {
      TH_TRY(graph_symbol_input(graph, spec));
    }
  }
  return TH_OK;
}

// ---- results ---------------------------------------------------------------

typedef struct graph_result {
  th_arg *leaves;
  uint32_t leaf_count;
  const char **names; // of inputs that are written
  th_arg *values;
  uint32_t written;
} graph_result;

static th_arg graph_as_arg(th_pt2_graph *graph, const th_pt2_arg *arg) {
  switch (arg->kind) {
  case TH_PT2_TENSOR:
    return th_v(th_alias_read(graph, arg->tensor));
  case TH_PT2_NUM:
    return th_n(arg->num);
  case TH_PT2_STRING:
    return th_s(arg->text);
  default:
    return th_none();
  }
}

// The input of this name in the signature: an FQN for buffers and parameters.
static const th_value *graph_find_input(const th_pt2_graph *graph,
                                        const char *kind, const char *name) {
  const th_pt2_program *program = graph->program;
  bool by_fqn = strcmp(kind, "user_input_mutation") != 0;
  for (size_t i = 0; i < program->input_count; i++) {
    const th_pt2_input *spec = &program->inputs[i];
    const char *known = by_fqn ? spec->fqn : spec->name;
    if (known && strcmp(known, name) == 0) {
      return graph->b->trace->inputs[i];
    }
  }
  return NULL;
}

static th_status graph_mutation(th_pt2_graph *graph, graph_result *result,
                                const th_json *tag, const th_json *value) {
  static const struct {
    const char *kind, *key;
  } kinds[] = {{"buffer_mutation", "buffer_name"},
               {"parameter_mutation", "parameter_name"},
               {"user_input_mutation", "user_input_name"}};
  for (size_t i = 0; i < TH_COUNT(kinds); i++) {
    if (strcmp(tag->text, kinds[i].kind) != 0) {
      continue;
    }
    const th_json *arg, *source, *target;
    TH_TRY(th_json_need(graph->place, value, "arg", TH_JSON_OBJECT, &arg));
    TH_TRY(th_json_need(graph->place, arg, "name", TH_JSON_STRING, &source));
    TH_TRY(th_json_need(graph->place, value, kinds[i].key, TH_JSON_STRING,
                        &target));
    const th_value *input =
        graph_find_input(graph, kinds[i].kind, target->text);
    const th_pt2_arg *from = th_map_get(graph->names, source->text);
    if (!input || !from || from->kind != TH_PT2_TENSOR) {
      return th_json_error(graph->place, value,
                           "'%s' or '%s' is no tensor of the program",
                           target->text, source->text);
    }
    result->names[result->written] = input->name;
    result->values[result->written++] = graph_as_arg(graph, from);
    return TH_OK;
  }
  return th_error(
      graph->archive->ctx, TH_UNSUPPORTED, (th_loc){.file = graph->place.where},
      "byte %u: an output of kind '%s' is not supported", tag->at, tag->text);
}

static th_status graph_outputs(th_pt2_graph *graph, graph_result *result) {
  const th_json *specs = NULL, *tag = NULL, *value = NULL;
  TH_TRY(th_json_need(graph->place, graph_signature(graph->program),
                      "output_specs", TH_JSON_ARRAY, &specs));
  uint32_t room = specs->count + (uint32_t)graph->program->input_count;
  result->leaves = TH_NEW_ARRAY(graph->arena, th_arg, room);
  result->values = TH_NEW_ARRAY(graph->arena, th_arg, room);
  result->names = TH_NEW_ARRAY(graph->arena, const char *, room);
  graph->target = "output";
  for (TH_JSON_EACH(spec, specs)) {
    TH_TRY(th_json_union(graph->place, spec, &tag, &value));
    if (strcmp(tag->text, "user_output") != 0) {
      TH_TRY(graph_mutation(graph, result, tag, value));
      continue;
    }
    th_pt2_arg arg;
    TH_TRY(th_pt2_read_arg(graph, th_json_get(value, "arg"), "arg", &arg));
    result->leaves[result->leaf_count++] = graph_as_arg(graph, &arg);
  }
  return TH_OK;
}

// Inputs whose memory was written; those that the signature names are there
// already.
static void graph_written(th_pt2_graph *graph, graph_result *result) {
  const th_pt2_program *program = graph->program;
  for (size_t i = 0; i < program->input_count; i++) {
    const th_pt2_arg *arg = th_map_get(graph->names, program->inputs[i].name);
    if (!arg || arg->kind != TH_PT2_TENSOR || arg->tensor->base->writes == 0) {
      continue;
    }
    const th_value *input = graph->b->trace->inputs[i];
    bool known = false;
    for (uint32_t k = 0; k < result->written; k++) {
      known |= strcmp(result->names[k], input->name) == 0;
    }
    th_value *now = th_alias_read(graph, arg->tensor->base);
    if (!known && now != input) {
      result->names[result->written] = input->name;
      result->values[result->written++] = th_v(now);
    }
  }
}

static const th_json *graph_out_spec(const th_pt2_program *program) {
  const th_json *calls = th_json_get(th_json_get(program->json, "graph_module"),
                                     "module_call_graph");
  if (!th_json_is(calls, TH_JSON_ARRAY) || calls->count == 0) {
    return NULL;
  }
  const th_json *spec =
      th_json_get(th_json_get(th_json_first(calls), "signature"), "out_spec");
  return th_json_is(spec, TH_JSON_STRING) ? spec : NULL;
}

static th_status graph_finish(th_pt2_graph *graph) {
  graph_result result = {0};
  TH_TRY(graph_outputs(graph, &result));
  graph_written(graph, &result);
  TH_TRY(graph->b->status);
  th_arg parts[2];
  TH_TRY(th_pt2_result_tree(graph, graph_out_spec(graph->program),
                            result.leaves, result.leaf_count, &parts[0]));
  for (uint32_t i = 0; i < result.written; i++) {
    result.names[i] = th_ir_string(graph->ir, result.names[i]);
  }
  parts[1] = th_dict(graph->ir, result.names, result.values, result.written);
  const char *keys[] = {th_ir_string(graph->ir, "output"),
                        th_ir_string(graph->ir, "mutated")};
  graph->b->trace->result =
      th_dict(graph->ir, keys, parts, result.written ? 2 : 1);
  return TH_OK;
}

// ---- programs --------------------------------------------------------------

typedef struct graph_job {
  th_pt2 *archive;
  const char *name;
  th_ir *ir;
  th_trace *trace;
  th_arena scratch;
} graph_job;

static th_status graph_read(th_pt2_graph *graph) {
  const th_json *module = th_json_get(graph->program->json, "graph_module");
  const th_json *json = NULL;
  TH_TRY(th_json_need(graph->place, module, "graph", TH_JSON_OBJECT, &json));
  th_pt2_scope scope = {0};
  graph->target = "graph";
  TH_TRY(graph_check_targets(graph, json));
  TH_TRY(th_pt2_enter(graph, json, &scope));
  TH_TRY(graph_inputs(graph));
  TH_TRY(th_pt2_read_nodes(graph, json));
  TH_TRY(graph_finish(graph));
  th_pt2_leave(graph, &scope);
  return TH_OK;
}

static th_status graph_run(void *arg) {
  graph_job *job = arg;
  th_pt2_program *program;
  TH_TRY(th_pt2_program_find(job->archive, job->name, &program));
  th_builder builder;
  th_map symbols, rows;
  th_schemas schemas;
  th_map_init(&symbols, &job->scratch);
  th_map_init(&rows, &job->scratch);
  th_schemas_init(&schemas, &job->scratch);
  th_aten_rows(&rows);
  job->trace = th_trace_new(job->ir, "computation");
  th_builder_init(&builder, job->trace);
  th_pt2_graph graph = {
      .archive = job->archive,
      .program = program,
      .place = {job->archive->ctx, program->where},
      .ir = job->ir,
      .arena = &job->scratch,
      .b = &builder,
      .symbols = &symbols,
      .rows = &rows,
      .schemas = &schemas,
      .scope = "",
      .ranges = th_json_get(program->json, "range_constraints"),
  };
  return graph_read(&graph);
}

th_status th_pt2_trace(th_pt2 *archive, const char *program, th_ir *ir,
                       th_trace **out_trace) {
  graph_job job = {.archive = archive, .name = program, .ir = ir};
  th_arena_init(&job.scratch, &archive->ctx->unwind);
  th_status status = th_protect(&archive->ctx->unwind, graph_run, &job);
  th_arena_deinit(&job.scratch);
  if (status == TH_OK) {
    *out_trace = job.trace;
  }
  return status;
}

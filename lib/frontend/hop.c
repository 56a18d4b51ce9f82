// Higher-order operations.
//
// A region with gradients off or with autocast is read in place: its inputs are
// the outer values, so that views and writes pass through.  Results that got no
// gradient go through `detach`.  The branches of cond become sub-traces, which
// see nothing but their operands.
#include "frontend/graph.h"

#include <string.h>

// The argument as {"name", "graph"}; NULL: none.
static const th_json *hop_graph(const th_call *call, uint32_t index) {
  if (index >= call->arg_count || call->args[index].kind != TH_PT2_GRAPH) {
    return NULL;
  }
  const th_json *graph = th_json_get(call->args[index].json, "graph");
  return th_json_is(graph, TH_JSON_OBJECT) ? graph : NULL;
}

static th_status hop_malformed(const th_call *call) {
  return th_call_error(call->graph, TH_PARSE,
                       "arguments are not those of this operation");
}

// The names of a graph's inputs, which are plain values.
static th_status hop_input_name(th_pt2_graph *graph, const th_json *input,
                                const char **out_name) {
  const th_json *tag = NULL, *value = NULL;
  TH_TRY(th_json_union(graph->place, input, &tag, &value));
  const th_json *name = th_json_get(value, "name");
  name = name ? name : th_json_get(value, "as_name");
  if (!th_json_is(name, TH_JSON_STRING)) {
    return th_json_error(graph->place, input, "an input has no name");
  }
  *out_name = name->text;
  return TH_OK;
}

static th_status hop_inputs(th_pt2_graph *graph, const th_json *json,
                            const th_json **out_inputs, uint32_t count) {
  TH_TRY(th_json_need(graph->place, json, "inputs", TH_JSON_ARRAY, out_inputs));
  if ((*out_inputs)->count != count) {
    return th_call_error(graph, TH_PARSE,
                         "a graph takes %u values and is given %u",
                         (*out_inputs)->count, count);
  }
  return TH_OK;
}

// The results of a graph in the arena.
static th_status hop_outputs(th_pt2_graph *graph, const th_json *json,
                             th_pt2_arg **out_args, uint32_t *out_count) {
  const th_json *outputs = NULL;
  TH_TRY(th_json_need(graph->place, json, "outputs", TH_JSON_ARRAY, &outputs));
  *out_args = TH_NEW_ARRAY(graph->arena, th_pt2_arg, outputs->count);
  *out_count = 0;
  for (TH_JSON_EACH(output, outputs)) {
    TH_TRY(
        th_pt2_read_arg(graph, output, "output", &(*out_args)[(*out_count)++]));
  }
  return TH_OK;
}

// ---- regions ---------------------------------------------------------------

static th_status hop_inline(th_call *call, const th_json *json,
                            uint32_t first) {
  th_pt2_graph *graph = call->graph;
  const th_json *inputs = NULL;
  TH_TRY(hop_inputs(graph, json, &inputs, call->arg_count - first));
  th_pt2_scope scope;
  TH_TRY(th_pt2_enter(graph, json, &scope));
  uint32_t i = first;
  for (TH_JSON_EACH(input, inputs)) {
    const char *name = NULL;
    TH_TRY(hop_input_name(graph, input, &name));
    // Not th_pt2_bind: the outer value keeps its own record.
    th_map_put(graph->names, name, &call->args[i++]);
  }
  TH_TRY(th_pt2_read_nodes(graph, json));
  TH_TRY(hop_outputs(graph, json, &call->outs, &call->out_count));
  th_pt2_leave(graph, &scope);
  return TH_OK;
}

static bool hop_is_argument(const th_call *call, const th_pt2_tensor *tensor) {
  for (uint32_t i = 0; i < call->arg_count; i++) {
    if (call->args[i].kind == TH_PT2_TENSOR && call->args[i].tensor == tensor) {
      return true;
    }
  }
  return false;
}

// Results without a gradient; a window stays one.
static void hop_detach(th_call *call) {
  th_pt2_graph *graph = call->graph;
  for (uint32_t i = 0; i < call->out_count; i++) {
    th_pt2_arg *out = &call->outs[i];
    if (out->kind != TH_PT2_TENSOR || hop_is_argument(call, out->tensor) ||
        !th_dtype_is_float(out->tensor->value->type.dtype)) {
      continue;
    }
    th_value *value = th_alias_read(graph, out->tensor);
    th_value *detached = value ? TH_BUILD(graph->b, detach, th_v(value)) : NULL;
    if (detached) {
      out->tensor = th_alias_view(graph, out->tensor, detached);
    }
  }
}

// wrap_with_set_grad_enabled(enabled, graph, *values)
static th_status hop_set_grad(th_call *call) {
  const th_json *json = hop_graph(call, 1);
  if (!json || call->args[0].kind != TH_PT2_NUM) {
    return hop_malformed(call);
  }
  bool was_off = call->graph->no_grad;
  call->graph->no_grad = call->args[0].num->i == 0;
  TH_TRY(hop_inline(call, json, 2));
  if (call->graph->no_grad && !was_off) {
    hop_detach(call);
  }
  call->graph->no_grad = was_off;
  return call->graph->b->status;
}

// wrap_with_autocast(device, dtype, enabled, cache, graph, *values)
static th_status hop_autocast(th_call *call) {
  th_pt2_graph *graph = call->graph;
  const th_json *json = hop_graph(call, 4);
  if (!json || call->args[2].kind != TH_PT2_NUM) {
    return hop_malformed(call);
  }
  bool was_on = graph->autocast;
  th_dtype was = graph->autocast_dtype;
  graph->autocast = call->args[2].num->i != 0;
  graph->autocast_dtype =
      call->args[1].kind == TH_PT2_DTYPE ? call->args[1].dtype : TH_BF16;
  TH_TRY(hop_inline(call, json, 5));
  graph->autocast = was_on;
  graph->autocast_dtype = was;
  return TH_OK;
}

// ---- cond ------------------------------------------------------------------

typedef struct hop_branch {
  th_call *call;
  const th_json *json;
  const th_pt2_arg *operands; // LIST
  th_trace *trace;
} hop_branch;

static th_status hop_branch_inputs(hop_branch *branch) {
  th_pt2_graph *graph = branch->call->graph;
  const th_json *inputs = NULL;
  TH_TRY(hop_inputs(graph, branch->json, &inputs, branch->operands->count));
  uint32_t i = 0;
  for (TH_JSON_EACH(input, inputs)) {
    const th_pt2_arg *operand = &branch->operands->items[i++];
    const char *name = NULL;
    TH_TRY(hop_input_name(graph, input, &name));
    th_pt2_arg arg = *operand; // a number is the same inside
    if (operand->kind == TH_PT2_TENSOR) {
      th_value *value = th_trace_input(
          branch->trace, &operand->tensor->value->type, name, NULL);
      arg.tensor = th_alias_base(graph, value);
      arg.tensor->is_operand = true;
    }
    TH_TRY(th_pt2_bind(graph, name, arg));
  }
  return TH_OK;
}

static th_status hop_branch_read(hop_branch *branch) {
  th_pt2_graph *graph = branch->call->graph;
  th_pt2_scope scope;
  th_pt2_arg *outs = NULL;
  uint32_t count = 0;
  TH_TRY(th_pt2_enter(graph, branch->json, &scope));
  TH_TRY(hop_branch_inputs(branch));
  TH_TRY(th_pt2_read_nodes(graph, branch->json));
  TH_TRY(hop_outputs(graph, branch->json, &outs, &count));
  th_arg *items = TH_NEW_ARRAY(graph->arena, th_arg, count);
  for (uint32_t i = 0; i < count; i++) {
    if (outs[i].kind != TH_PT2_TENSOR) {
      return th_call_error(graph, TH_UNSUPPORTED,
                           "a branch gives a value that is no tensor");
    }
    items[i] = th_v(th_alias_read(graph, outs[i].tensor));
  }
  TH_TRY(graph->b->status);
  branch->trace->result = th_tuple(graph->ir, items, count);
  th_pt2_leave(graph, &scope);
  return TH_OK;
}

static th_status hop_branch_trace(th_call *call, uint32_t index,
                                  const th_pt2_arg *operands,
                                  th_trace **out_trace) {
  th_pt2_graph *graph = call->graph;
  hop_branch branch = {.call = call, .operands = operands};
  branch.json = hop_graph(call, index);
  const th_json *name = th_json_get(call->args[index].json, "name");
  if (!branch.json || !th_json_is(name, TH_JSON_STRING)) {
    return hop_malformed(call);
  }
  th_builder inner, *outer = graph->b;
  branch.trace =
      th_trace_new(graph->ir, index == 1 ? "true_branch" : "false_branch");
  th_builder_init(&inner, branch.trace);
  inner.scope = outer->scope;
  inner.loc = outer->loc;
  graph->b = &inner;
  th_status status = hop_branch_read(&branch);
  graph->b = outer;
  *out_trace = branch.trace;
  return status;
}

// cond(condition, true graph, false graph, operands)
static th_status hop_cond(th_call *call) {
  th_pt2_graph *graph = call->graph;
  if (call->arg_count != 4 || call->args[1].kind != TH_PT2_GRAPH ||
      call->args[2].kind != TH_PT2_GRAPH || call->args[3].kind != TH_PT2_LIST) {
    return hop_malformed(call);
  }
  const th_pt2_arg *operands = &call->args[3];
  th_trace *branches[2] = {NULL, NULL};
  const char *target = graph->target;
  uint32_t node = graph->node;
  for (uint32_t i = 0; i < 2; i++) {
    TH_TRY(hop_branch_trace(call, 1 + i, operands, &branches[i]));
    graph->target = target;
    graph->node = node;
  }
  th_arg *items = TH_NEW_ARRAY(graph->arena, th_arg, operands->count);
  uint32_t count = 0;
  for (uint32_t i = 0; i < operands->count; i++) {
    if (operands->items[i].kind == TH_PT2_TENSOR) {
      items[count++] = th_call_value(call, &operands->items[i]);
    }
  }
  th_arg args[] = {
      th_call_value(call, &call->args[0]),
      {.kind = TH_ARG_TRACE, .trace = branches[0]},
      {.kind = TH_ARG_TRACE, .trace = branches[1]},
      th_list(graph->ir, items, count),
  };
  th_stmt *stmt = th_build(graph->b, th_op_row(TH_OP_cond), args, 4, NULL);
  return stmt ? th_call_return_list(call, stmt->outs, stmt->out_count)
              : graph->b->status;
}

bool th_hop_find(const char *target, th_call_fn *out_fn) {
  static const struct {
    const char *name;
    th_call_fn fn;
  } rows[] = {
      {"higher_order.wrap_with_set_grad_enabled", hop_set_grad},
      {"higher_order.wrap_with_autocast", hop_autocast},
      {"higher_order.cond", hop_cond},
  };
  for (size_t i = 0; i < TH_COUNT(rows); i++) {
    if (strcmp(rows[i].name, target) == 0) {
      *out_fn = rows[i].fn;
      return true;
    }
  }
  return false;
}

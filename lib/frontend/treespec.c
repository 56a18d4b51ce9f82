// The tree of a result: PyTorch's tree specification, a JSON text inside the
// JSON, laid over the flat list of leaves.
//
//   [1, {"type": "builtins.dict", "context": "[\"h\"]",
//        "children_spec": [{"type": null, ...}]}]
//
// A type that is not known (the outputs of transformers are classes of their
// own) is a dictionary when its context lists as many names as it has
// children, else a tuple.
#include "frontend/graph.h"

#include <string.h>

enum { TREESPEC_DEPTH = 64 };

typedef struct treespec_reader {
  th_pt2_graph *graph;
  const char *where;
  const th_arg *leaves;
  uint32_t count, next;
  uint32_t depth;
} treespec_reader;

static th_json_place treespec_place(const treespec_reader *r) {
  return (th_json_place){r->graph->archive->ctx, r->where};
}

// The keys of a context: a JSON text again, or the list itself.
static const th_json *treespec_keys(treespec_reader *r,
                                    const th_json *context) {
  const th_json *keys = context;
  if (th_json_is(context, TH_JSON_STRING)) {
    if (context->text[0] != '[' ||
        th_json_parse(r->graph->archive->ctx, r->graph->arena, r->where, 0,
                      context->text, context->count, &keys) != TH_OK) {
      return NULL;
    }
  }
  return th_json_is(keys, TH_JSON_ARRAY) ? keys : NULL;
}

static const char *treespec_key_text(treespec_reader *r, const th_json *key) {
  th_ir *ir = r->graph->ir;
  if (key->kind == TH_JSON_STRING) {
    return th_ir_string(ir, key->text);
  }
  if (key->kind == TH_JSON_INT) {
    return th_ir_string(
        ir, th_arena_printf(r->graph->arena, "%lld", (long long)key->i));
  }
  return NULL;
}

// One name for each child; NULL: the context has none.
static const char **treespec_names(treespec_reader *r, const th_json *context,
                                   uint32_t count) {
  const th_json *keys = treespec_keys(r, context);
  // defaultdict: [[module, class], [keys]]
  if (keys && keys->count == 2 && count != 2) {
    const th_json *second = th_json_next(th_json_first(keys));
    keys = second->kind == TH_JSON_ARRAY ? second : keys;
  }
  if (!keys || keys->count != count) {
    return NULL;
  }
  const char **names = TH_NEW_ARRAY(r->graph->arena, const char *, count);
  uint32_t i = 0;
  for (TH_JSON_EACH(key, keys)) {
    names[i] = treespec_key_text(r, key);
    if (!names[i++]) {
      return NULL;
    }
  }
  return names;
}

static bool treespec_is_type(const th_json *type, const char *word) {
  return th_json_is(type, TH_JSON_STRING) && strstr(type->text, word);
}

static th_status treespec_read(treespec_reader *r, const th_json *node,
                               th_arg *out_arg);

static th_status treespec_children(treespec_reader *r, const th_json *node,
                                   const th_json *children, th_arg *out_arg) {
  th_ir *ir = r->graph->ir;
  const th_json *type = th_json_get(node, "type");
  th_arg *items = TH_NEW_ARRAY(r->graph->arena, th_arg, children->count);
  uint32_t count = 0;
  for (TH_JSON_EACH(child, children)) {
    TH_TRY(treespec_read(r, child, &items[count++]));
  }
  if (treespec_is_type(type, "list") || treespec_is_type(type, "deque")) {
    *out_arg = th_list(ir, items, count);
    return TH_OK;
  }
  bool is_tuple = treespec_is_type(type, "uple");
  const char **names =
      is_tuple ? NULL : treespec_names(r, th_json_get(node, "context"), count);
  bool is_dict = names && (count > 0 || treespec_is_type(type, "ict"));
  *out_arg =
      is_dict ? th_dict(ir, names, items, count) : th_tuple(ir, items, count);
  return TH_OK;
}

static th_status treespec_read(treespec_reader *r, const th_json *node,
                               th_arg *out_arg) {
  const th_json *children = NULL;
  if (++r->depth > TREESPEC_DEPTH) {
    return th_json_error(treespec_place(r), node, "nested too deeply");
  }
  TH_TRY(th_json_need(treespec_place(r), node, "children_spec", TH_JSON_ARRAY,
                      &children));
  const th_json *type = th_json_get(node, "type");
  bool is_leaf = children->count == 0 && !th_json_is(type, TH_JSON_STRING);
  if (is_leaf && r->next >= r->count) {
    return th_json_error(treespec_place(r), node,
                         "the result has more leaves than the graph gives");
  }
  th_status status = TH_OK;
  if (is_leaf) {
    *out_arg = r->leaves[r->next++];
  } else {
    status = treespec_children(r, node, children, out_arg);
  }
  r->depth--;
  return status;
}

th_status th_pt2_result_tree(th_pt2_graph *graph, const th_json *out_spec,
                             const th_arg *leaves, uint32_t count,
                             th_arg *out_tree) {
  if (!out_spec) {
    *out_tree = th_tuple(graph->ir, leaves, count);
    return TH_OK;
  }
  treespec_reader r = {.graph = graph, .leaves = leaves, .count = count};
  r.where = th_arena_printf(graph->arena, "%s: out_spec", graph->place.where);
  const th_json *spec = NULL;
  TH_TRY(th_json_parse(graph->archive->ctx, graph->arena, r.where, 0,
                       out_spec->text, out_spec->count, &spec));
  if (spec->kind != TH_JSON_ARRAY || spec->count != 2) {
    return th_json_error(treespec_place(&r), spec, "should be [version, tree]");
  }
  TH_TRY(treespec_read(&r, th_json_next(th_json_first(spec)), out_tree));
  return r.next == count
             ? TH_OK
             : th_json_error(treespec_place(&r), spec,
                             "has %u leaves, and the graph gives %u", r.next,
                             count);
}

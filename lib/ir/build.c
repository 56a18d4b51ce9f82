// Building statements, and copying them for passes.
#include "ir/infer.h"

#include <string.h>

void th_builder_init(th_builder *b, th_trace *trace) {
  *b = (th_builder){.ir = trace->ir, .trace = trace, .scope = ""};
}

static th_status build_fail(th_builder *b, th_status status) {
  b->status = status;
  return status;
}

// ---- arguments against the row

// NULL: arithmetic that overflowed.
static bool build_is_number(const th_arg *arg) {
  return arg->kind == TH_ARG_NUM && arg->num;
}

static bool build_is_tensor(const th_arg *arg) {
  return arg->kind == TH_ARG_VALUE && arg->value->type.kind == TH_KIND_TENSOR;
}

static bool build_is_list_of(const th_arg *arg, const th_param *p,
                             bool (*fits)(const th_arg *)) {
  if (arg->kind != TH_ARG_LIST) {
    return false;
  }
  for (uint32_t i = 0; i < arg->count; i++) {
    bool none = arg->items[i].kind == TH_ARG_NONE && p->optional_item;
    if (!none && !fits(&arg->items[i])) {
      return false;
    }
  }
  return true;
}

static bool build_fits(const th_arg *arg, const th_param *p) {
  if (arg->kind == TH_ARG_NONE && p->optional) {
    return true;
  }
  switch (p->kind) {
  case TH_P_TENSOR:
    return build_is_tensor(arg);
  case TH_P_TENSORS:
    return build_is_list_of(arg, p, build_is_tensor);
  case TH_P_OPERAND:
    return build_is_tensor(arg) || build_is_number(arg);
  case TH_P_NUMBER:
    return build_is_number(arg);
  case TH_P_INT:
    return build_is_number(arg) && arg->num->dtype != TH_F64;
  case TH_P_INTS:
    return build_is_list_of(arg, p, build_is_number);
  case TH_P_FLOAT:
    return build_is_number(arg);
  case TH_P_BOOL:
    return build_is_number(arg) && arg->num->dtype == TH_BOOL;
  case TH_P_STRING:
    return arg->kind == TH_ARG_STRING;
  case TH_P_DTYPE:
    return arg->kind == TH_ARG_DTYPE;
  case TH_P_DEVICE:
    return arg->kind == TH_ARG_DEVICE;
  case TH_P_TRACE:
    return arg->kind == TH_ARG_TRACE;
  case TH_P_ANY:
    return true;
  }
  return false;
}

static const char *build_wants(const th_param *p) {
  static const char *const names[] = {
      [TH_P_TENSOR] = "a tensor",
      [TH_P_TENSORS] = "a list of tensors",
      [TH_P_OPERAND] = "a tensor or a number",
      [TH_P_NUMBER] = "a number",
      [TH_P_INT] = "an integer",
      [TH_P_INTS] = "a list of integers",
      [TH_P_FLOAT] = "a number",
      [TH_P_BOOL] = "True or False",
      [TH_P_STRING] = "a string",
      [TH_P_DTYPE] = "a dtype",
      [TH_P_DEVICE] = "a device",
      [TH_P_TRACE] = "a sub-trace",
      [TH_P_ANY] = "anything",
  };
  return names[p->kind];
}

// The default as written in the schema; schemas are ours, so it is well formed.
th_arg th_param_default(th_ir *ir, const th_param *p) {
  const char *text = p->default_text;
  size_t n = strlen(text);
  if (strcmp(text, "None") == 0) {
    return th_none();
  }
  if (text[0] == '[') {
    return th_list(ir, NULL, 0);
  }
  if (p->kind == TH_P_DEVICE) {
    return (th_arg){.kind = TH_ARG_DEVICE};
  }
  if (text[0] == '\'') {
    char *copy = th_arena_strndup(&ir->arena, text + 1, n - 2);
    return th_s(th_ir_string(ir, copy));
  }
  const char *at = text;
  const th_expr *num = th_expr_parse(ir, &at, text + n);
  TH_ASSERT(num);
  if (p->kind == TH_P_FLOAT && num->dtype != TH_F64) {
    num = th_float(ir, (double)num->i);
  }
  return th_n(num);
}

th_status th_build_args(th_builder *b, const th_op_info *op, const th_arg *args,
                        uint32_t count, th_arg *out) {
  th_ir *ir = b->ir;
  if (count > op->param_count) {
    return th_error(ir->ctx, TH_INVALID, b->loc,
                    "%s: takes at most %u arguments, not %u", op->name,
                    op->param_count, count);
  }
  for (uint32_t i = 0; i < op->param_count; i++) {
    const th_param *p = &op->params[i];
    if (i >= count) {
      if (!p->has_default && !p->optional) {
        return th_error(ir->ctx, TH_INVALID, b->loc,
                        "%s: argument '%s' is missing", op->name, p->name);
      }
      out[i] = p->has_default ? th_param_default(ir, p) : th_none();
    } else if (build_fits(&args[i], p)) {
      out[i] = args[i];
    } else {
      return th_error(ir->ctx, TH_INVALID, b->loc,
                      "%s: argument '%s' is %s%s, which this is not", op->name,
                      p->name, build_wants(p), p->optional ? " or None" : "");
    }
  }
  return TH_OK;
}

// ---- statements

static void build_append(th_builder *b, th_stmt *stmt) {
  th_trace *t = b->trace;
  stmt->index = t->stmt_count;
  TH_PUSH(&b->ir->arena, t->stmts, t->stmt_count, t->stmt_cap) = stmt;
}

static bool build_is_variadic(const th_op_info *op) {
  return op->param_count == 1 && op->params[0].kind == TH_P_ANY;
}

// The rule's answer as fresh values.
static th_status build_infer(th_builder *b, th_stmt *stmt,
                             const char *const *names) {
  enum { ROOM = 1024 };
  th_infer in = {.ir = b->ir,
                 .op = stmt->op,
                 .args = stmt->args,
                 .arg_count = stmt->arg_count,
                 .loc = b->loc,
                 .scope = b->scope,
                 .out_cap =
                     stmt->op->outs == TH_OUTS_LIST ? ROOM : TH_MAX_OUTS};
  in.outs = TH_NEW_ARRAY(&b->ir->arena, th_type, in.out_cap);
  TH_TRY(th_infer_run(&in));
  stmt->out_count = (uint16_t)in.out_count;
  stmt->outs = TH_NEW_ARRAY(&b->ir->arena, th_value *, in.out_count + 1);
  for (uint32_t i = 0; i < in.out_count; i++) {
    const char *name = names ? names[i] : NULL;
    if (in.outs[i].kind == TH_KIND_NONE) { // a result that does not exist
      continue;
    }
    if (!name && in.outs[i].kind == TH_KIND_NUMBER &&
        in.outs[i].num->op == TH_X_SYM) {
      name = in.outs[i].num->symbol->name;
    }
    stmt->outs[i] = th_trace_value(b->trace, &in.outs[i], name);
    stmt->outs[i]->def = stmt;
  }
  return TH_OK;
}

th_stmt *th_build(th_builder *b, const th_op_info *op, const th_arg *args,
                  uint32_t count, const char *const *names) {
  if (b->status != TH_OK) {
    return NULL;
  }
  th_stmt *stmt = TH_NEW(&b->ir->arena, th_stmt);
  bool variadic = build_is_variadic(op);
  stmt->op = op;
  stmt->scope = b->scope;
  stmt->loc = b->loc;
  stmt->arg_count = (uint16_t)(variadic ? count : op->param_count);
  stmt->args = TH_NEW_ARRAY(&b->ir->arena, th_arg, stmt->arg_count + 1);
  if (variadic) {
    memcpy(stmt->args, args, count * sizeof *args);
  } else if (build_fail(b, th_build_args(b, op, args, count, stmt->args))) {
    return NULL;
  }
  if (build_fail(b, build_infer(b, stmt, names))) {
    return NULL;
  }
  build_append(b, stmt);
  return stmt;
}

th_value *th_build1(th_builder *b, th_op op, const th_arg *args,
                    uint32_t count) {
  const th_op_info *row = th_op_row(op);
  for (uint32_t i = 0; i < count && i < row->param_count; i++) {
    // An operand that an earlier error took away: stay silent.
    if (args[i].kind == TH_ARG_NONE && !row->params[i].optional &&
        b->status != TH_OK) {
      return NULL;
    }
  }
  th_stmt *stmt = th_build(b, row, args, count, NULL);
  return stmt && stmt->out_count ? stmt->outs[0] : NULL;
}

// ---- copying

void th_remap_init(th_remap *m, const th_trace *from, th_builder *to) {
  m->from = from;
  m->to = to;
  m->map = TH_NEW_ARRAY(&to->ir->arena, th_value *, from->value_count);
}

th_trace *th_remap_begin(th_remap *m, const th_trace *from, th_builder *to) {
  th_builder_init(to, th_trace_like(from));
  th_remap_init(m, from, to);
  for (uint32_t i = 0; i < m->from->input_count; i++) {
    th_value *in = m->from->inputs[i];
    m->map[in->id] =
        th_trace_input(m->to->trace, &in->type, in->name, in->input);
    m->map[in->id]->slab = in->slab;
  }
  return to->trace;
}

static bool remap_mentions_value(const th_arg *arg) {
  if (arg->kind == TH_ARG_VALUE) {
    return true;
  }
  if (arg->kind == TH_ARG_LIST || arg->kind == TH_ARG_TUPLE ||
      arg->kind == TH_ARG_DICT) {
    for (uint32_t i = 0; i < arg->count; i++) {
      if (remap_mentions_value(&arg->items[i])) {
        return true;
      }
    }
  }
  return false;
}

th_arg th_remap_arg(th_remap *m, const th_arg *arg) {
  th_arg copy = *arg;
  if (!remap_mentions_value(arg)) {
    return copy;
  }
  if (arg->kind == TH_ARG_VALUE) {
    copy.value = m->map[arg->value->id];
    TH_ASSERT(copy.value);
    return copy;
  }
  th_arg *items = TH_NEW_ARRAY(&m->to->ir->arena, th_arg, arg->count);
  for (uint32_t i = 0; i < arg->count; i++) {
    items[i] = th_remap_arg(m, &arg->items[i]);
  }
  copy.items = items;
  return copy;
}

typedef struct remap_types {
  th_remap *m;
  bool same;
} remap_types;

static void remap_compare(void *user, th_value *value) {
  remap_types *r = user;
  const th_value *now = r->m->map[value->id];
  r->same = r->same && now && th_type_equal(&now->type, &value->type);
}

static th_stmt *remap_shell(th_remap *m, const th_stmt *stmt) {
  th_arena *arena = &m->to->ir->arena;
  th_stmt *copy = TH_NEW(arena, th_stmt);
  *copy = *stmt;
  copy->args = TH_NEW_ARRAY(arena, th_arg, stmt->arg_count + 1);
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    copy->args[i] = th_remap_arg(m, &stmt->args[i]);
  }
  copy->outs = TH_NEW_ARRAY(arena, th_value *, stmt->out_count + 1);
  return copy;
}

static void remap_outs(th_remap *m, const th_stmt *stmt, th_stmt *copy,
                       const th_type *types) {
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    th_value *old = stmt->outs[i];
    if (!old) {
      continue;
    }
    if (!m->map[old->id]) { // a region's result is made by its body
      m->map[old->id] = th_trace_value(
          m->to->trace, types ? &types[i] : &old->type, old->name);
      m->map[old->id]->def = copy;
      m->map[old->id]->slab = old->slab;
    }
    copy->outs[i] = m->map[old->id];
  }
}

static void remap_body(th_remap *m, const th_stmt *stmt, th_stmt *copy) {
  th_arena *arena = &m->to->ir->arena;
  copy->body = TH_NEW_ARRAY(arena, th_stmt *, stmt->body_count + 1);
  for (uint32_t i = 0; i < stmt->body_count; i++) {
    const th_stmt *inner = stmt->body[i];
    th_stmt *c = remap_shell(m, inner);
    if (inner->body_count) {
      remap_body(m, inner, c);
    }
    remap_outs(m, inner, c, NULL);
    copy->body[i] = c;
  }
}

// Sizes that depend on data keep their symbols.
static const th_type *remap_known(th_remap *m, const th_stmt *stmt) {
  th_type *known =
      TH_NEW_ARRAY(&m->to->ir->arena, th_type, stmt->out_count + 1u);
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    known[i] =
        stmt->outs[i] ? stmt->outs[i]->type : (th_type){.kind = TH_KIND_NONE};
  }
  return known;
}

th_stmt *th_remap_stmt(th_remap *m, const th_stmt *stmt) {
  th_builder *b = m->to;
  if (b->status != TH_OK) {
    return NULL;
  }
  th_stmt *copy = remap_shell(m, stmt);
  remap_types types = {m, true};
  th_stmt_operands(stmt, remap_compare, &types);
  th_type *inferred = NULL;
  if (!types.same && !(stmt->op->traits & TH_STRUCT)) {
    th_infer in = {.ir = b->ir,
                   .op = stmt->op,
                   .args = copy->args,
                   .arg_count = copy->arg_count,
                   .loc = stmt->loc,
                   .scope = stmt->scope,
                   .out_cap = stmt->out_count > TH_MAX_OUTS ? stmt->out_count
                                                            : TH_MAX_OUTS};
    in.outs = inferred = TH_NEW_ARRAY(&b->ir->arena, th_type, in.out_cap);
    in.known = remap_known(m, stmt);
    in.known_count = stmt->out_count;
    if (build_fail(b, th_infer_run(&in))) {
      return NULL;
    }
  }
  if (stmt->body_count) {
    remap_body(m, stmt, copy);
  }
  remap_outs(m, stmt, copy, inferred);
  build_append(b, copy);
  return copy;
}

th_status th_remap_end(th_remap *m) {
  if (m->to->status == TH_OK) {
    m->to->trace->result = th_remap_arg(m, &m->from->result);
  }
  return m->to->status;
}

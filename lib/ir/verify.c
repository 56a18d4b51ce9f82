// What every trace has to hold, checked after each pass.
//
// One walk in order.  Each value has a mark that says where it can be used:
// in the body whose number it is, or nowhere, since it is not made yet, is
// deleted, or is made inside a region and is none of its results.
//
// Memory: a write in place ends the life of all values that share the memory,
// which are followed through views.  A view that may be a copy counts as a
// view.
#include "ir/infer.h"
#include "ir/text.h"

#include <string.h>

// Marks: unmade, the number of the trace itself, deleted.
#define VERIFY_UNMADE 0U
#define VERIFY_TOP 1U
#define VERIFY_DELETED UINT32_MAX

typedef struct verify_value {
  uint32_t mark;
  uint32_t root;    // value whose memory it shares
  uint32_t birth;   // time at which it was made
  uint32_t written; // of a root: last write in place; 0: none
} verify_value;

typedef struct verifier {
  const th_trace *trace;
  const struct verifier *outer; // of the trace around a sub-trace
  th_context *ctx;
  verify_value *values;
  uint32_t body;   // number of the body we are in
  uint32_t bodies; // numbers given so far
  uint32_t clock;  // statements seen
  uint32_t *made;  // by symbol index: the statement that makes it; 0: a call
  const th_stmt *stmt;
  const th_stmt *owner; // region or kernel around it; NULL: none
  uint32_t *errors;     // of all nested traces
  th_status *status;
  int depth;
} verifier;

static void verify_error(verifier *v, const char *fmt, ...) TH_PRINTF(2, 3);

static const char *verify_name(const th_stmt *stmt) {
  return stmt->label ? stmt->label : stmt->op->name;
}

static void verify_error(verifier *v, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  const char *text = th_arena_vprintf(&v->trace->ir->arena, fmt, args);
  va_end(args);
  if (++*v->errors <= TH_TEXT_ERRORS) {
    th_error(v->ctx, TH_VERIFY, v->stmt ? v->stmt->loc : TH_NOWHERE, "%s: %s",
             v->stmt ? verify_name(v->stmt) : v->trace->name, text);
  }
  *v->status = *v->status ? *v->status : TH_VERIFY;
}

// ---- values

static bool verify_owns(const verifier *v, const th_value *value) {
  return value->id > 0 && value->id < v->trace->value_count &&
         v->trace->values[value->id] == value;
}

static void verify_visible(verifier *v, const th_value *value) {
  uint32_t mark = v->values[value->id].mark;
  if (mark == v->body) {
    return;
  }
  if (mark == VERIFY_DELETED) {
    verify_error(v, "'%s' is used after its del", value->name);
  } else if (mark == VERIFY_UNMADE) {
    verify_error(v, "'%s' is used before it is made", value->name);
  } else if (v->owner) {
    verify_error(v, "'%s' is no argument of '%s', in which it is used",
                 value->name, verify_name(v->owner));
  } else {
    verify_error(v, "'%s' is made inside a region and is not its result",
                 value->name);
  }
}

static void verify_fresh(verifier *v, const th_value *value) {
  const verify_value *info = &v->values[value->id];
  if (v->values[info->root].written > info->birth) {
    verify_error(v, "'%s' is read after its memory was written in place",
                 value->name);
  }
}

// Sub-traces get values as operands only, so that passes need not look into
// them for uses.
static void verify_foreign(verifier *v, const th_value *value) {
  const verifier *outer = v->outer;
  while (outer && !verify_owns(outer, value)) {
    outer = outer->outer;
  }
  if (outer) {
    verify_error(v,
                 "'%s' belongs to a trace around this one; a sub-trace "
                 "takes it as an operand",
                 value->name);
  } else {
    verify_error(v, "'%s' belongs to another trace", value->name);
  }
}

static void verify_read(void *user, th_value *value) {
  verifier *v = user;
  if (!verify_owns(v, value)) {
    verify_foreign(v, value);
    return;
  }
  verify_visible(v, value);
  if (v->stmt->op->op != TH_OP_del) {
    verify_fresh(v, value);
  }
}

// A name that is read back as itself.
static void verify_word(verifier *v, const char *what, const char *name) {
  if (!name || !th_text_is_word(name, strlen(name))) {
    verify_error(v, "'%s' cannot be the name of %s", name ? name : "", what);
  }
}

static void verify_make(verifier *v, const th_value *value) {
  verify_value *info = &v->values[value->id];
  if (info->mark != VERIFY_UNMADE) {
    verify_error(v, "'%s' is made twice", value->name);
  }
  info->mark = v->body;
  info->root = value->id;
  info->birth = v->clock;
  if (value->slab >= 0 && value->slab > v->trace->slab_size) {
    verify_error(v, "'%s' lies at %lld of a slab of %lld bytes", value->name,
                 (long long)value->slab, (long long)v->trace->slab_size);
  }
}

// A statement with an error: its results are not blamed as well.
static void verify_pass_over(verifier *v, const th_stmt *stmt) {
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i] && verify_owns(v, stmt->outs[i])) {
      verify_make(v, stmt->outs[i]);
    }
  }
}

static void verify_table(verifier *v) {
  const th_trace *trace = v->trace;
  verify_word(v, "a trace", trace->name);
  for (uint32_t i = 1; i < trace->value_count; i++) {
    const th_value *value = trace->values[i];
    if (value->id != i || th_map_get(&trace->names, value->name) != value) {
      verify_error(v, "value %u ('%s') is not in the trace's tables", i,
                   value->name);
    }
    verify_word(v, "a value", value->name);
  }
  for (uint32_t i = 0; i < trace->input_count; i++) {
    const th_value *value = trace->inputs[i];
    if (!verify_owns(v, value)) {
      verify_error(v, "input '%s' belongs to another trace", value->name);
      continue;
    }
    if (value->def || !value->input) {
      verify_error(v, "input '%s' is made by a statement", value->name);
    }
    verify_make(v, value);
  }
}

// ---- statements

static void verify_type(verifier *v, const th_value *value,
                        const th_type *inferred) {
  if (th_type_equal(&value->type, inferred)) {
    return;
  }
  th_buffer is, rule;
  th_buffer_init(&is, &v->trace->ir->arena);
  th_buffer_init(&rule, &v->trace->ir->arena);
  th_type_print(&is, &value->type);
  th_type_print(&rule, inferred);
  verify_error(v, "'%s' is %s, and the rule says %s", value->name, is.data,
               rule.data);
}

// The rule's own errors count as this verifier's.
static void verify_reported(verifier *v, th_status status) {
  if (status != TH_OK) {
    ++*v->errors;
    *v->status = *v->status ? *v->status : status;
  }
}

static void verify_infer(verifier *v, const th_stmt *stmt) {
  th_ir *ir = v->trace->ir;
  uint32_t room = stmt->out_count > TH_MAX_OUTS ? stmt->out_count : TH_MAX_OUTS;
  th_type *known = TH_NEW_ARRAY(&ir->arena, th_type, stmt->out_count + 1u);
  th_infer in = {.ir = ir,
                 .op = stmt->op,
                 .args = stmt->args,
                 .arg_count = stmt->arg_count,
                 .loc = stmt->loc,
                 .scope = stmt->scope,
                 .outs = TH_NEW_ARRAY(&ir->arena, th_type, room + 1u),
                 .out_cap = room + 1,
                 .known = known};
  while (in.known_count < stmt->out_count && stmt->outs[in.known_count]) {
    known[in.known_count] = stmt->outs[in.known_count]->type;
    in.known_count++;
  }
  th_status status = th_infer_run(&in);
  if (status != TH_OK) {
    verify_reported(v, status);
    return;
  }
  if (in.out_count != stmt->out_count) {
    verify_error(v, "has %u results, and the rule says %u", stmt->out_count,
                 in.out_count);
    return;
  }
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i]) {
      verify_type(v, stmt->outs[i], &in.outs[i]);
    }
  }
}

static bool verify_args(verifier *v, const th_stmt *stmt) {
  th_builder b = {.ir = v->trace->ir, .loc = stmt->loc, .scope = stmt->scope};
  if (stmt->arg_count != stmt->op->param_count) {
    verify_error(v, "has %u arguments, and its row has %u", stmt->arg_count,
                 stmt->op->param_count);
    return false;
  }
  th_arg filled[TH_MAX_PARAMS];
  th_status status =
      th_build_args(&b, stmt->op, stmt->args, stmt->arg_count, filled);
  verify_reported(v, status);
  return status == TH_OK;
}

static void verify_result_value(verifier *v, const th_stmt *stmt,
                                const th_value *value) {
  if (!verify_owns(v, value)) {
    verify_error(v, "result '%s' belongs to another trace", value->name);
    return;
  }
  if (value->def != stmt) {
    verify_error(v, "result '%s' says that another statement makes it",
                 value->name);
  }
  verify_make(v, value);
}

// The first operand that is a value of this trace; NULL: none.
static const th_value *verify_first(const verifier *v, const th_stmt *stmt) {
  bool is_value = stmt->arg_count && stmt->args[0].kind == TH_ARG_VALUE;
  return is_value && verify_owns(v, stmt->args[0].value) ? stmt->args[0].value
                                                         : NULL;
}

static bool verify_is_view(const verifier *v, const th_stmt *stmt) {
  return !stmt->executor && verify_first(v, stmt) &&
         th_stmt_is_window(v->trace->ir, stmt);
}

typedef struct verify_beside {
  verifier *v;
  uint32_t root;
} verify_beside;

static void verify_read_beside(void *user, th_value *value) {
  verify_beside *b = user;
  if (verify_owns(b->v, value) && b->v->values[value->id].root == b->root) {
    verify_error(b->v, "writes over '%s', which it reads beside it",
                 value->name);
  }
}

static void verify_memory(verifier *v, const th_stmt *stmt) {
  const th_value *from = verify_first(v, stmt);
  if (stmt->in_place && (!(stmt->op->traits & TH_SCATTER) || !from)) {
    verify_error(v, "only a scatter into a value works in place");
    return;
  }
  if (!from || (!stmt->in_place && !verify_is_view(v, stmt))) {
    return;
  }
  uint32_t root = v->values[from->id].root;
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i] && verify_owns(v, stmt->outs[i])) {
      v->values[stmt->outs[i]->id].root = root;
    }
  }
  verify_beside beside = {v, root};
  for (uint16_t i = 1; stmt->in_place && i < stmt->arg_count; i++) {
    th_arg_values(&stmt->args[i], verify_read_beside, &beside);
  }
  if (stmt->in_place) {
    v->values[root].written = v->clock;
  }
}

static void verify_traces(verifier *v, const th_stmt *stmt);

static void verify_op(verifier *v, const th_stmt *stmt) {
  if (stmt->body_count || stmt->label) {
    verify_error(v, "only regions and kernels have bodies and labels");
  }
  if (!verify_args(v, stmt)) {
    verify_pass_over(v, stmt);
    return;
  }
  verify_traces(v, stmt);
  verify_infer(v, stmt);
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->outs[i]) {
      verify_result_value(v, stmt, stmt->outs[i]);
    }
  }
  verify_memory(v, stmt);
}

static void verify_del(verifier *v, const th_stmt *stmt) {
  if (stmt->arg_count == 0 || stmt->out_count) {
    verify_error(v, "takes values and has no results");
  }
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    const th_arg *arg = &stmt->args[i];
    if (arg->kind != TH_ARG_VALUE || !verify_owns(v, arg->value)) {
      verify_error(v, "argument %u is no value of this trace", i);
    } else if (v->values[arg->value->id].mark == v->body) {
      v->values[arg->value->id].mark = VERIFY_DELETED;
    } else if (v->values[arg->value->id].mark == VERIFY_DELETED) {
      verify_error(v, "'%s' is deleted twice", arg->value->name);
    } else {
      verify_visible(v, arg->value);
    }
  }
}

// ---- bodies

typedef struct verify_args_marks {
  verifier *v;
  uint32_t mark;
} verify_args_marks;

static void verify_set_mark(void *user, th_value *value) {
  verify_args_marks *m = user;
  if (verify_owns(m->v, value)) {
    m->v->values[value->id].mark = m->mark;
  }
}

static void verify_stmt(verifier *v, const th_stmt *stmt);

static void verify_label(verifier *v, const th_stmt *stmt) {
  size_t size = stmt->label ? strlen(stmt->label) : 0;
  if (!size || !th_text_is_word(stmt->label, size) ||
      th_op_find(v->ctx, stmt->label, size)) {
    verify_error(v, "'%s' cannot be the label of a region",
                 size ? stmt->label : "");
  }
}

// A region without kernels has memory for its results alone.
static void verify_whole(verifier *v, const th_stmt *stmt) {
  bool whole = th_stmt_is_whole(stmt);
  for (uint32_t i = 0; whole && i < stmt->body_count; i++) {
    v->stmt = stmt->body[i];
    if (stmt->body[i]->op->op == TH_OP_kernel) {
      verify_error(v, "a body holds kernels or statements, not both");
    } else if (stmt->body[i]->in_place) {
      verify_error(v, "only a kernel or a statement of a trace works in place");
    }
  }
}

// Inside, the arguments and what the body makes can be used; outside, the
// results.
static void verify_region(verifier *v, const th_stmt *stmt) {
  bool kernel = stmt->op->op == TH_OP_kernel;
  bool in_region = v->owner && v->owner->op->op == TH_OP_region;
  verify_label(v, stmt);
  if (kernel != in_region) {
    verify_error(v, "a region stands in a trace, a kernel in a region");
  }
  if (stmt->body_count == 0) {
    verify_error(v, "its body is empty");
  }
  uint32_t outside = v->body;
  const th_stmt *owner = v->owner;
  verify_args_marks marks = {v, v->body = ++v->bodies};
  th_stmt_operands(stmt, verify_set_mark, &marks);
  v->owner = stmt;
  for (uint32_t i = 0; i < stmt->body_count; i++) {
    if (stmt->body[i]->index != i) {
      verify_error(v, "statement %u of its body says that it is %u", i,
                   stmt->body[i]->index);
    }
    verify_stmt(v, stmt->body[i]);
  }
  verify_whole(v, stmt);
  v->owner = owner;
  v->stmt = stmt;
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    const th_value *out = stmt->outs[i];
    if (out && (!verify_owns(v, out) || !out->def ||
                v->values[out->id].mark != v->body)) {
      verify_error(v, "its body does not make '%s'", out->name);
    }
    if (out && verify_owns(v, out)) {
      v->values[out->id].mark = outside;
      v->values[out->id].root = out->id; // a kernel writes memory of its own
    }
  }
  v->body = marks.mark = outside;
  th_stmt_operands(stmt, verify_set_mark, &marks);
}

static void verify_stmt(verifier *v, const th_stmt *stmt) {
  v->stmt = stmt;
  v->clock++;
  if (stmt->executor) {
    verify_word(v, "an executor", stmt->executor);
  }
  uint32_t before = *v->errors;
  if (stmt->op->op != TH_OP_del) {
    th_stmt_operands(stmt, verify_read, v);
  }
  if (*v->errors > before) {
    verify_pass_over(v, stmt);
    return;
  }
  if (stmt->op->op == TH_OP_del) {
    verify_del(v, stmt);
  } else if (stmt->op->traits & TH_STRUCT) {
    verify_region(v, stmt);
  } else {
    verify_op(v, stmt);
  }
}

// ---- symbols that statements make

static void verify_input_symbol(void *user, const th_symbol *symbol) {
  ((verifier *)user)->made[symbol->index] = UINT32_MAX;
}

static void verify_input_number(void *user, const th_expr *num) {
  th_expr_symbols(num, verify_input_symbol, user);
}

static void verify_make_symbol(verifier *v, const th_expr *num) {
  if (num->op == TH_X_SYM && v->made[num->symbol->index] == 0) {
    v->made[num->symbol->index] = v->clock;
  }
}

// Sizes and numbers that depend on data have the symbols of their statement,
// unless a call brings them.
static void verify_find_symbols(verifier *v) {
  const th_trace *trace = v->trace;
  v->made =
      TH_NEW_ARRAY(&trace->ir->arena, uint32_t, trace->ir->symbol_count + 1u);
  for (uint32_t i = 0; i < trace->input_count; i++) {
    th_stmt input = {.outs = &trace->inputs[i], .out_count = 1};
    th_stmt_numbers(&input, verify_input_number, v);
  }
  for (v->clock = 1; v->clock <= trace->stmt_count; v->clock++) {
    const th_stmt *stmt = trace->stmts[v->clock - 1];
    bool makes = stmt->op->traits & TH_MAKES;
    for (uint16_t i = 0; makes && i < stmt->out_count; i++) {
      const th_type *type = stmt->outs[i] ? &stmt->outs[i]->type : NULL;
      if (type && type->kind == TH_KIND_NUMBER) {
        verify_make_symbol(v, type->num);
      }
      for (uint8_t d = 0; type && d < type->rank; d++) {
        verify_make_symbol(v, type->dims[d]);
      }
    }
  }
  v->clock = 0;
}

static void verify_symbol(void *user, const th_symbol *symbol) {
  verifier *v = user;
  uint32_t made = v->made[symbol->index];
  if (made != UINT32_MAX && made > v->stmt->index + 1) {
    verify_error(v, "symbol '%s' is used before the statement that makes it",
                 symbol->name);
    v->made[symbol->index] = UINT32_MAX;
  }
}

static void verify_number(void *user, const th_expr *num) {
  th_expr_symbols(num, verify_symbol, user);
}

// ---- traces

static void verify_result(verifier *v, const th_arg *arg, int depth) {
  if (depth > TH_TEXT_TREE_DEPTH) {
    verify_error(v, "the result nests deeper than %d", TH_TEXT_TREE_DEPTH);
    return;
  }
  if (arg->kind == TH_ARG_VALUE) {
    if (verify_owns(v, arg->value)) {
      verify_visible(v, arg->value);
      verify_fresh(v, arg->value);
    } else {
      verify_foreign(v, arg->value);
    }
  } else if (arg->kind == TH_ARG_TRACE) {
    verify_error(v, "a trace cannot be a result");
  } else if (arg->kind >= TH_ARG_LIST && arg->kind <= TH_ARG_DICT) {
    for (uint32_t i = 0; i < arg->count; i++) {
      verify_result(v, &arg->items[i], depth + 1);
    }
  }
}

static void verify_trace(verifier *v) {
  const th_trace *trace = v->trace;
  v->values =
      TH_NEW_ARRAY(&trace->ir->arena, verify_value, trace->value_count + 1u);
  v->body = v->bodies = VERIFY_TOP;
  v->ctx = trace->ir->ctx;
  if (v->depth > TH_TEXT_TRACE_DEPTH) {
    verify_error(v, "sub-traces nest deeper than %d", TH_TEXT_TRACE_DEPTH);
    return;
  }
  verify_table(v);
  verify_find_symbols(v);
  for (uint32_t i = 0; i < trace->stmt_count; i++) {
    v->stmt = trace->stmts[i];
    th_stmt_numbers(v->stmt, verify_number, v);
    if (trace->stmts[i]->index != i) {
      verify_error(v, "statement %u says that it is %u", i,
                   trace->stmts[i]->index);
    }
    verify_stmt(v, trace->stmts[i]);
  }
  v->stmt = NULL;
  verify_result(v, &trace->result, 0);
  if (*v->errors == 0 && trace->slab_size >= 0) {
    verify_reported(v, th_verify_slab(trace));
  }
}

static void verify_traces(verifier *v, const th_stmt *stmt) {
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    if (stmt->args[i].kind != TH_ARG_TRACE) {
      continue;
    }
    const th_trace *trace = stmt->args[i].trace;
    for (uint16_t k = 0; k < i; k++) {
      if (stmt->args[k].kind == TH_ARG_TRACE &&
          strcmp(stmt->args[k].trace->name, trace->name) == 0) {
        verify_error(v, "two sub-traces are called '%s'", trace->name);
      }
    }
    if (v->owner) {
      verify_error(v, "a body holds no sub-traces");
    }
    verifier inner = {.trace = trace,
                      .outer = v,
                      .errors = v->errors,
                      .status = v->status,
                      .depth = v->depth + 1};
    verify_trace(&inner);
  }
}

th_status th_trace_verify(const th_trace *trace) {
  uint32_t errors = 0;
  th_status status = TH_OK;
  verifier v = {
      .trace = trace, .errors = &errors, .status = &status, .depth = 1};
  verify_trace(&v);
  return status;
}

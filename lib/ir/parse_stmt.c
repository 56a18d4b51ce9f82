// Statements in trace text: targets, callee, arguments, types, bodies.
#include "ir/parse.h"

#include <stdio.h>
#include <string.h>

typedef struct stmt_target {
  const char *name; // NULL: _
  th_loc loc;
  bool has_type;
  th_type type;
  th_loc type_loc;
  int64_t slab;
} stmt_target;

// A statement as written.
typedef struct stmt_text {
  stmt_target *targets;
  uint32_t target_count;
  const th_op_info *op; // NULL: a region or kernel
  const char *executor; // NULL: none is written
  bool no_executor;     // "_." is
  bool in_place;
  const char *label;
  th_loc loc; // of the callee
  th_arg *args;
  uint32_t arg_count, arg_cap;
} stmt_text;

// ---- does it look like a statement?

static bool stmt_skip_targets(th_lex *lex, uint32_t *out_count) {
  *out_count = 0;
  const char *text = NULL, *close = th_lex_take(lex, "[")   ? "]"
                                    : th_lex_take(lex, "(") ? ")"
                                                            : NULL;
  size_t size = 0;
  if (close && th_lex_take(lex, close)) {
    return th_lex_take(lex, "=");
  }
  do {
    if (!th_lex_name(lex, &text, &size)) {
      return false;
    }
    ++*out_count;
  } while (close && th_lex_take(lex, ","));
  return (!close || th_lex_take(lex, close)) && th_lex_take(lex, "=") &&
         (lex->at == lex->stop || *lex->at != '=');
}

static bool stmt_is_callee_char(char c) {
  return th_text_is_name(&c, 1) || (c >= '0' && c <= '9') || c == '.' ||
         c == ':';
}

static bool stmt_callee(th_lex *lex, const char **out_text, size_t *out_size) {
  if (th_lex_done(lex) || !th_text_is_name(lex->at, 1)) {
    return false;
  }
  *out_text = lex->at;
  while (lex->at < lex->stop && stmt_is_callee_char(*lex->at)) {
    lex->at++;
  }
  *out_size = (size_t)(lex->at - *out_text);
  return true;
}

bool th_parse_is_stmt(const th_lex *at) {
  th_lex lex = *at;
  const char *text = NULL;
  size_t size = 0;
  uint32_t count = 0;
  if (stmt_skip_targets(&lex, &count)) {
    return true;
  }
  lex = *at;
  if (th_lex_take(&lex, "del")) {
    return th_lex_name(&lex, &text, &size) &&
           (th_lex_done(&lex) || *lex.at == ',');
  }
  return stmt_callee(&lex, &text, &size) && lex.at < lex.stop && *lex.at == '(';
}

// ---- targets

static th_status stmt_target_name(th_parser *p, stmt_text *s) {
  const char *text = NULL;
  size_t size = 0;
  th_lex_done(&p->lex);
  stmt_target target = {.loc = th_lex_loc(&p->lex), .slab = -1};
  if (!th_lex_name(&p->lex, &text, &size)) {
    return TH_PARSE_ERROR(p, "expected the name of a result");
  }
  if (size != 1 || *text != '_') {
    if (th_text_is_reserved(text, size)) {
      return TH_PARSE_ERROR_AT(p, TH_PARSE, target.loc,
                               "'%.*s' means something else and names no value",
                               (int)size, text);
    }
    const char *copy = th_arena_strndup(&p->ir->arena, text, size);
    target.name = th_ir_string(p->ir, copy);
  }
  s->targets[s->target_count++] = target;
  return TH_OK;
}

static th_status stmt_targets(th_parser *p, stmt_text *s) {
  th_lex probe = p->lex;
  uint32_t count = 0;
  if (!stmt_skip_targets(&probe, &count)) {
    return TH_OK;
  }
  if (count > UINT16_MAX) {
    return TH_PARSE_ERROR(p, "a statement has at most %d results", UINT16_MAX);
  }
  s->targets = TH_NEW_ARRAY(&p->ir->arena, stmt_target, count);
  const char *close = th_lex_take(&p->lex, "[")   ? "]"
                      : th_lex_take(&p->lex, "(") ? ")"
                                                  : NULL;
  if (!close || !th_lex_take(&p->lex, close)) {
    do {
      TH_TRY(stmt_target_name(p, s));
    } while (close && th_lex_take(&p->lex, ","));
    TH_TRY(close ? th_parse_expect(p, close) : TH_OK);
  }
  return th_parse_expect(p, "=");
}

// ---- callee

static const th_op_info *stmt_find_op(th_parser *p, stmt_text *s,
                                      const char *name, size_t size) {
  const th_op_info *op = th_op_find(p->ir->ctx, name, size);
  if (!op && size > 1 && name[size - 1] == '_') {
    op = th_op_find(p->ir->ctx, name, size - 1);
    s->in_place = op != NULL;
  }
  return op && op->traits & TH_STRUCT ? NULL : op;
}

// [executor.]operation, or [executor.]label of a region.
static th_status stmt_read_callee(th_parser *p, stmt_text *s) {
  const char *text = NULL;
  size_t size = 0;
  th_lex_done(&p->lex);
  s->loc = th_lex_loc(&p->lex);
  if (!stmt_callee(&p->lex, &text, &size)) {
    return TH_PARSE_ERROR(p, "expected an operation");
  }
  s->op = stmt_find_op(p, s, text, size);
  const char *dot = memchr(text, '.', size);
  if (!s->op && dot && dot > text) {
    size_t n = (size_t)(dot - text);
    s->no_executor = n == 1 && *text == '_';
    if (!s->no_executor && !th_text_is_word(text, n)) {
      return TH_PARSE_ERROR_AT(p, TH_PARSE, s->loc,
                               "'%.*s' cannot be the name of an executor",
                               (int)(n < 100 ? n : 100), text);
    }
    s->executor =
        s->no_executor
            ? NULL
            : th_ir_string(p->ir, th_arena_strndup(&p->ir->arena, text, n));
    size -= n + 1;
    text = dot + 1;
    s->op = stmt_find_op(p, s, text, size);
  }
  if (!s->op) {
    s->in_place = size > 1 && text[size - 1] == '_';
    size -= s->in_place;
    s->label = th_ir_string(p->ir, th_arena_strndup(&p->ir->arena, text, size));
    size_t n = th_text_label_executor(s->label);
    if (n && !s->executor && !s->no_executor) {
      s->executor =
          th_ir_string(p->ir, th_arena_strndup(&p->ir->arena, text, n));
    }
  }
  return TH_OK;
}

// ---- arguments

// `name =` before an argument: the number of the parameter.
static th_status stmt_keyword(th_parser *p, const th_op_info *op,
                              uint32_t *index, bool *out_found) {
  th_lex lex = p->lex;
  const char *text = NULL;
  size_t size = 0;
  *out_found = th_lex_name(&lex, &text, &size) && th_lex_take(&lex, "=") &&
               (lex.at == lex.stop || *lex.at != '=');
  if (!*out_found) {
    return TH_OK;
  }
  for (uint32_t i = 0; op && i < op->param_count; i++) {
    if (strlen(op->params[i].name) == size &&
        memcmp(op->params[i].name, text, size) == 0) {
      p->lex = lex;
      *index = i;
      return TH_OK;
    }
  }
  return TH_PARSE_ERROR(p, "%s has no parameter '%.*s'; it takes (%s)",
                        op ? op->name : "a region",
                        (int)(size < 100 ? size : 100), text,
                        op ? op->schema : "values");
}

// The arguments of an operation: by position, then by name.
static th_status stmt_op_args(th_parser *p, stmt_text *s) {
  const th_op_info *op = s->op;
  bool given[TH_MAX_PARAMS] = {false}, keyword = false;
  uint32_t next = 0;
  s->args = TH_NEW_ARRAY(&p->ir->arena, th_arg, op->param_count + 1u);
  while (!th_lex_take(&p->lex, ")")) {
    if (next) {
      TH_TRY(th_parse_expect(p, ","));
      if (th_lex_take(&p->lex, ")")) {
        break;
      }
    }
    uint32_t i = next;
    bool found = false;
    TH_TRY(stmt_keyword(p, op, &i, &found));
    keyword |= found;
    if (i >= op->param_count) {
      return TH_PARSE_ERROR(p, "%s takes at most %u arguments: (%s)", op->name,
                            op->param_count, op->schema);
    }
    if ((keyword && !found) || given[i]) {
      return TH_PARSE_ERROR(p,
                            given[i] ? "argument '%s' is given twice"
                                     : "argument '%s' comes after one that "
                                       "is given by name and has no name",
                            op->params[i].name);
    }
    TH_TRY(th_parse_arg(p, &op->params[i], &s->args[i]));
    given[i] = true;
    next++;
    s->arg_count = i + 1 > s->arg_count ? i + 1 : s->arg_count;
  }
  for (uint32_t i = 0; i < s->arg_count; i++) {
    const th_param *param = &op->params[i];
    if (!given[i] && !param->has_default && !param->optional) {
      return TH_PARSE_ERROR(p, "argument '%s' of %s is missing", param->name,
                            op->name);
    }
    if (!given[i] && param->has_default) {
      s->args[i] = th_param_default(p->ir, param);
    }
  }
  return TH_OK;
}

// Any number of values.
static th_status stmt_free_args(th_parser *p, stmt_text *s, const char *close) {
  while (close ? !th_lex_take(&p->lex, close) : !th_lex_done(&p->lex)) {
    if (s->arg_count) {
      TH_TRY(th_parse_expect(p, ","));
    }
    if (s->arg_count == UINT16_MAX) {
      return TH_PARSE_ERROR(p, "a statement has at most %d arguments",
                            UINT16_MAX);
    }
    th_arg arg;
    TH_TRY(th_parse_arg(p, NULL, &arg));
    TH_PUSH(&p->ir->arena, s->args, s->arg_count, s->arg_cap) = arg;
    if (!close && (th_lex_done(&p->lex) || *p->lex.at == '#')) {
      return TH_OK;
    }
  }
  return TH_OK;
}

// ---- types after a statement

static stmt_target *stmt_find_target(stmt_text *s, const char *name,
                                     size_t size) {
  for (uint32_t i = 0; i < s->target_count; i++) {
    const char *target = s->targets[i].name;
    if (target && strlen(target) == size && !memcmp(target, name, size)) {
      return &s->targets[i];
    }
  }
  return NULL;
}

static bool stmt_is_type(const th_lex *at) {
  th_lex lex = *at;
  const char *text = NULL;
  size_t size = 0;
  return th_lex_name(&lex, &text, &size) && th_lex_take(&lex, ":") &&
         th_lex_take(&lex, "\"");
}

// `next` is the target whose turn it is: the usual order needs no search.
static th_status stmt_type(th_parser *p, stmt_text *s, uint32_t *next) {
  const char *text = NULL;
  size_t size = 0;
  th_lex_done(&p->lex);
  th_loc loc = th_lex_loc(&p->lex);
  if (!th_lex_name(&p->lex, &text, &size)) {
    return TH_PARSE_ERROR(p, "expected the name of a result");
  }
  while (*next < s->target_count && !s->targets[*next].name) {
    ++*next;
  }
  stmt_target *target = NULL;
  if (*next < s->target_count && strlen(s->targets[*next].name) == size &&
      memcmp(s->targets[*next].name, text, size) == 0) {
    target = &s->targets[(*next)++];
  } else if (s->target_count <= TH_MAX_OUTS) {
    target = stmt_find_target(s, text, size);
  }
  if (!target || target->has_type) {
    return TH_PARSE_ERROR_AT(
        p, TH_PARSE, loc,
        target ? "the type of '%.*s' is given twice"
               : "'%.*s' is not the next result of this statement",
        (int)(size < 100 ? size : 100), text);
  }
  TH_TRY(th_parse_expect(p, ":"));
  th_lex_done(&p->lex);
  target->type_loc = th_lex_loc(&p->lex);
  TH_TRY(th_parse_type(p, &target->type));
  target->has_type = true;
  return th_parse_slab(p, &target->slab);
}

static th_status stmt_types(th_parser *p, stmt_text *s) {
  th_lex lex = p->lex;
  uint32_t next = 0;
  if (!th_lex_take(&lex, "#") || !stmt_is_type(&lex)) {
    return th_parse_end(p);
  }
  p->lex = lex;
  do {
    TH_TRY(stmt_type(p, s, &next));
  } while (th_lex_take(&p->lex, ","));
  return th_parse_end(p);
}

// ---- making

static th_status stmt_check_type(th_parser *p, const stmt_target *target,
                                 const char *op, const th_type *type) {
  if (!target->has_type || th_type_equal(&target->type, type)) {
    return TH_OK;
  }
  th_buffer stated, inferred;
  th_buffer_init(&stated, &p->ir->arena);
  th_buffer_init(&inferred, &p->ir->arena);
  th_type_print(&stated, &target->type);
  th_type_print(&inferred, type);
  return TH_PARSE_ERROR_AT(p, TH_SHAPE, target->type_loc,
                           "%s: '%s' is %s, and its type says %s", op,
                           target->name, inferred.data, stated.data);
}

static th_status stmt_new_name(th_parser *p, const stmt_target *target) {
  if (th_map_get(&p->scope->trace->names, target->name)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, target->loc,
                             "'%s' is made twice; a name has one value",
                             target->name);
  }
  return TH_OK;
}

// Results as the rule says; the stated types tell it the symbols of sizes that
// depend on data.
static th_status stmt_infer(th_parser *p, const stmt_text *s,
                            const th_stmt *stmt, th_infer *in) {
  uint32_t least =
      s->op->outs == TH_OUTS_LIST ? s->target_count + 1 : TH_MAX_OUTS;
  if (least > p->room_cap) {
    p->room_cap = least * 2;
    p->room = TH_NEW_ARRAY(&p->ir->arena, th_type, p->room_cap);
  }
  *in = (th_infer){.ir = p->ir,
                   .op = s->op,
                   .args = stmt->args,
                   .arg_count = stmt->arg_count,
                   .loc = s->loc,
                   .scope = "",
                   .outs = p->room,
                   .out_cap = least};
  th_type known[TH_MAX_OUTS];
  while (in->known_count < s->target_count && in->known_count < TH_MAX_OUTS &&
         s->targets[in->known_count].has_type) {
    known[in->known_count] = s->targets[in->known_count].type;
    in->known_count++;
  }
  in->known = in->known_count ? known : NULL;
  size_t before = th_diagnostic_count(p->ir->ctx);
  th_status status = th_infer_run(in);
  in->known = NULL;
  if (status != TH_OK) {
    p->errors += th_diagnostic_count(p->ir->ctx) > before;
    p->status = p->status ? p->status : status;
    return status;
  }
  if (in->out_count != s->target_count) {
    bool more = s->op->outs == TH_OUTS_LIST && in->out_count == least;
    return TH_PARSE_ERROR_AT(
        p, TH_PARSE, s->loc, "%s has %s%u results, and %u are named",
        s->op->name, more ? "at least " : "", in->out_count, s->target_count);
  }
  return TH_OK;
}

static th_status stmt_make_outs(th_parser *p, const stmt_text *s,
                                const th_infer *in, th_stmt *stmt) {
  for (uint32_t i = 0; i < s->target_count; i++) {
    if (s->targets[i].name && in->outs[i].kind == TH_KIND_NONE) {
      return TH_PARSE_ERROR_AT(p, TH_PARSE, s->targets[i].loc,
                               "result %u of %s does not exist here; it is "
                               "written _",
                               i, s->op->name);
    }
    if (s->targets[i].name) {
      TH_TRY(stmt_check_type(p, &s->targets[i], s->op->name, &in->outs[i]));
    }
  }
  for (uint32_t i = 0; i < s->target_count; i++) {
    const stmt_target *target = &s->targets[i];
    if (target->name) {
      TH_TRY(stmt_new_name(p, target));
      th_value *value =
          th_trace_value(p->scope->trace, &in->outs[i], target->name);
      value->def = stmt;
      value->slab = target->slab;
      stmt->outs[i] = value;
    }
  }
  return TH_OK;
}

static th_stmt *stmt_shell(th_parser *p, const stmt_text *s) {
  th_stmt *stmt = TH_NEW(&p->ir->arena, th_stmt);
  stmt->executor = s->executor;
  stmt->in_place = s->in_place;
  stmt->scope = "";
  stmt->loc = s->loc;
  stmt->out_count = (uint16_t)s->target_count;
  stmt->outs = TH_NEW_ARRAY(&p->ir->arena, th_value *, s->target_count + 1);
  return stmt;
}

static th_status stmt_make_op(th_parser *p, const stmt_text *s,
                              th_stmt **out_stmt) {
  th_stmt *stmt = stmt_shell(p, s);
  stmt->op = s->op;
  stmt->arg_count = s->op->param_count;
  stmt->args = TH_NEW_ARRAY(&p->ir->arena, th_arg, stmt->arg_count + 1u);
  if (s->in_place && !(s->op->traits & TH_SCATTER)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, s->loc,
                             "%s cannot work in place; scatters can",
                             s->op->name);
  }
  th_builder b;
  th_builder_init(&b, p->scope->trace);
  b.loc = s->loc;
  th_status status =
      th_build_args(&b, s->op, s->args, s->arg_count, stmt->args);
  if (status != TH_OK) {
    p->errors++;
    p->status = p->status ? p->status : status;
    return status;
  }
  th_infer in;
  TH_TRY(stmt_infer(p, s, stmt, &in));
  TH_TRY(stmt_make_outs(p, s, &in, stmt));
  *out_stmt = stmt;
  return TH_OK;
}

// ---- regions and kernels

typedef struct stmt_body {
  th_stmt **stmts;
  uint32_t count, cap;
  bool has_errors;
} stmt_body;

// Statement-like comments that are indented deeper than the region; all other
// comments are passed over.  False: the current line belongs to what is around.
static bool stmt_body_line(th_parser *p, int indent, int *inner,
                           th_parse_place *place) {
  for (; p->more && p->lex.comment; th_parse_next(p)) {
    th_lex start = p->lex;
    if (th_parse_is_stmt(&p->lex)) {
      *inner = *inner < 0 ? p->lex.indent : *inner;
      if (p->lex.indent <= indent || p->lex.indent <= *inner) {
        return p->lex.indent > indent;
      }
      continue; // the expansion of a composite
    }
    bool hash = th_lex_take(&p->lex, "#");
    p->lex.at += hash && p->lex.at < p->lex.stop && *p->lex.at == ' ';
    th_parse_place found = {0};
    if (th_parse_place_comment(p, &found)) {
      if (!hash || start.indent <= indent) {
        p->lex = start;
        return false;
      }
      *place = found;
    }
  }
  return false;
}

static void stmt_lose(th_parser *p, const stmt_text *s) {
  for (uint32_t i = 0; i < s->target_count; i++) {
    if (s->targets[i].name &&
        !th_map_get(&p->scope->trace->names, s->targets[i].name)) {
      th_map_put(&p->scope->lost, s->targets[i].name, p);
    }
  }
}

static void stmt_read_body(th_parser *p, int level, int indent,
                           stmt_body *body) {
  th_parse_place place = p->place; // of the region
  int inner = -1;
  while (!th_parse_full(p) && stmt_body_line(p, indent, &inner, &place)) {
    th_stmt *stmt = NULL;
    p->place = place;
    if (p->lex.indent != inner) {
      th_parse_report(p, TH_PARSE, th_lex_loc(&p->lex),
                      "the lines of a body have one indentation");
      body->has_errors = true;
      th_parse_next(p);
    } else if (th_parse_stmt(p, level, &stmt) != TH_OK) {
      body->has_errors = true;
    } else {
      stmt->index = body->count;
      th_parse_put_place(p, stmt, &place);
      TH_PUSH(&p->ir->arena, body->stmts, body->count, body->cap) = stmt;
    }
  }
}

// The results of a region are values that its body makes.
static th_status stmt_bind_outs(th_parser *p, const stmt_text *s,
                                th_stmt *stmt) {
  for (uint32_t i = 0; i < s->target_count; i++) {
    const stmt_target *target = &s->targets[i];
    if (!target->name) {
      continue;
    }
    bool lost = false;
    th_value *value =
        th_parse_value(p, target->name, strlen(target->name), &lost);
    if (lost) {
      return TH_PARSE;
    }
    if (!value || !value->def) {
      return TH_PARSE_ERROR_AT(p, TH_PARSE, target->loc,
                               "the body of '%s' makes no '%s'", s->label,
                               target->name);
    }
    TH_TRY(stmt_check_type(p, target, s->label, &value->type));
    if (target->slab >= 0) {
      value->slab = target->slab;
    }
    stmt->outs[i] = value;
  }
  return TH_OK;
}

static th_status stmt_unknown(th_parser *p, const stmt_text *s) {
  return TH_PARSE_ERROR_AT(p, TH_PARSE, s->loc,
                           "'%.100s' is no operation, and no body follows that "
                           "would make it a region",
                           s->label);
}

// `indent` is that of its line.
static th_status stmt_make_region(th_parser *p, const stmt_text *s, int level,
                                  int indent, th_stmt **out_stmt) {
  th_stmt *stmt = stmt_shell(p, s);
  stmt->op = th_op_row(level == 0 ? TH_OP_region : TH_OP_kernel);
  stmt->label = s->label;
  stmt->arg_count = (uint16_t)s->arg_count;
  stmt->args = s->args;
  stmt_body body = {0};
  if (level < 2) {
    stmt_read_body(p, level + 1, indent, &body);
  }
  if (body.has_errors || th_parse_full(p)) {
    return TH_PARSE;
  }
  if (body.count == 0 || !th_text_is_word(s->label, strlen(s->label))) {
    return stmt_unknown(p, s);
  }
  stmt->body = body.stmts;
  stmt->body_count = body.count;
  TH_TRY(stmt_bind_outs(p, s, stmt));
  *out_stmt = stmt;
  return TH_OK;
}

// ---- whole statements

static th_status stmt_read_del(th_parser *p, stmt_text *s) {
  s->op = th_op_row(TH_OP_del);
  TH_TRY(stmt_free_args(p, s, NULL));
  if (s->arg_count == 0) {
    return TH_PARSE_ERROR(p, "expected the name of a value");
  }
  return th_parse_end(p);
}

static th_status stmt_read(th_parser *p, stmt_text *s) {
  th_lex_done(&p->lex);
  s->loc = th_lex_loc(&p->lex);
  if (th_lex_take(&p->lex, "del")) {
    return stmt_read_del(p, s);
  }
  TH_TRY(stmt_targets(p, s));
  TH_TRY(stmt_read_callee(p, s));
  TH_TRY(th_parse_expect(p, "("));
  TH_TRY(s->op ? stmt_op_args(p, s) : stmt_free_args(p, s, ")"));
  return stmt_types(p, s);
}

static th_status stmt_make_del(th_parser *p, const stmt_text *s,
                               th_stmt **out_stmt) {
  th_stmt *stmt = stmt_shell(p, s);
  stmt->op = s->op;
  stmt->arg_count = (uint16_t)s->arg_count;
  stmt->args = s->args;
  *out_stmt = stmt;
  return TH_OK;
}

th_status th_parse_stmt(th_parser *p, int level, th_stmt **out_stmt) {
  stmt_text s = {0};
  int indent = p->lex.indent;
  th_status status = stmt_read(p, &s);
  th_parse_next(p);
  if (status == TH_OK) {
    status = !s.op ? stmt_make_region(p, &s, level, indent, out_stmt)
             : s.op->op == TH_OP_del ? stmt_make_del(p, &s, out_stmt)
                                     : stmt_make_op(p, &s, out_stmt);
  }
  if (status != TH_OK) {
    stmt_lose(p, &s);
  }
  return status;
}

// Reading trace text: decorators, defs, headers, statements, results.
//
// A reader of lines, one function for each construct.  An error ends its
// statement, whose results count as lost: what uses them is passed over in
// silence.  Recursion is limited by TH_TEXT_*_DEPTH, memory by TH_TEXT_MEMORY:
// a text that needs more is refused.
#include "ir/parse.h"

#include <string.h>

// ---- errors

bool th_parse_full(const th_parser *p) {
  return p->lost || p->errors >= TH_TEXT_ERRORS;
}

void th_parse_report(th_parser *p, th_status status, th_loc loc,
                     const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (!th_parse_full(p)) {
    th_error(p->ir->ctx, status, loc, "%s",
             th_arena_vprintf(&p->ir->arena, fmt, args));
  }
  va_end(args);
  p->errors++;
  p->status = p->status ? p->status : status;
}

void th_parse_next(th_parser *p) {
  p->more = th_lex_line(&p->lex);
  if (p->ir->arena.total > p->memory && !p->lost) {
    th_parse_report(p, TH_PARSE, th_lex_loc(&p->lex),
                    "reading this text needs more than %d bytes for each of "
                    "its bytes",
                    TH_TEXT_MEMORY);
    p->lost = true;
  }
}

th_status th_parse_expect(th_parser *p, const char *text) {
  if (th_lex_take(&p->lex, text)) {
    return TH_OK;
  }
  if (th_lex_done(&p->lex)) {
    return TH_PARSE_ERROR(p, "expected '%s' before the end of the line", text);
  }
  char c = *p->lex.at;
  return c > ' ' && c < 0x7f
             ? TH_PARSE_ERROR(p, "expected '%s', found '%c'", text, c)
             : TH_PARSE_ERROR(p, "expected '%s', found byte 0x%02x", text,
                              (unsigned)(unsigned char)c);
}

th_status th_parse_end(th_parser *p) {
  if (th_lex_done(&p->lex) || *p->lex.at == '#') {
    return TH_OK;
  }
  return TH_PARSE_ERROR(p, "expected the end of the line or a comment");
}

// ---- places

static bool parse_place_loc(th_parser *p, th_loc *out_loc) {
  const char *file = NULL, *error = NULL;
  int64_t line = 0, column = 0;
  if (th_lex_take(&p->lex, "-")) {
    return true;
  }
  if (!th_lex_word(&p->lex, &p->ir->arena, &file, &error) ||
      !th_lex_take(&p->lex, ":") || !th_lex_int(&p->lex, &line) ||
      (th_lex_take(&p->lex, ":") && !th_lex_int(&p->lex, &column)) ||
      line > INT32_MAX || column > INT32_MAX) {
    return false;
  }
  *out_loc = (th_loc){th_ir_string(p->ir, file), (int)line, (int)column};
  return true;
}

bool th_parse_place_comment(th_parser *p, th_parse_place *out_place) {
  th_lex start = p->lex;
  const char *scope = "", *error = NULL;
  th_parse_place place = {0};
  bool fits = p->lex.at < p->lex.stop && *p->lex.at != ' ' &&
              (th_lex_take(&p->lex, "- ") ||
               th_lex_word(&p->lex, &p->ir->arena, &scope, &error));
  if (fits && p->lex.stop - p->lex.at > 1) {
    p->lex.at -= p->lex.at[-1] == ' ';
    fits = memcmp(p->lex.at, "  ", 2) == 0 && parse_place_loc(p, &place.loc) &&
           th_lex_done(&p->lex);
  } else {
    fits = false;
  }
  if (!fits) {
    p->lex = start;
    return false;
  }
  place.scope = th_ir_string(p->ir, scope);
  *out_place = place;
  return true;
}

void th_parse_put_place(th_parser *p, th_stmt *stmt,
                        const th_parse_place *place) {
  TH_PUSH(&p->ir->arena, p->places, p->place_count, p->place_cap) =
      (th_parse_place){stmt, place->scope, place->loc};
}

// ---- decorators

static th_status parse_slab_size(th_parser *p, th_trace *trace) {
  TH_TRY(th_parse_expect(p, "("));
  if (!th_lex_int(&p->lex, &trace->slab_size)) {
    return TH_PARSE_ERROR(p, "expected the bytes of the slab");
  }
  return th_parse_expect(p, ")");
}

static th_status parse_autocast(th_parser *p, th_trace *trace) {
  static const th_param dtype = {.kind = TH_P_DTYPE};
  th_arg arg;
  TH_TRY(th_parse_expect(p, "("));
  TH_TRY(th_parse_arg(p, &dtype, &arg));
  if (arg.kind != TH_ARG_DTYPE) {
    return TH_PARSE_ERROR(p, "expected a dtype");
  }
  trace->has_autocast = true;
  trace->autocast = arg.dtype;
  return th_parse_expect(p, ")");
}

static th_status parse_decorator(th_parser *p, th_trace *trace) {
  if (th_lex_take(&p->lex, "forward")) {
    trace->direction = TH_DIRECTION_FORWARD;
  } else if (th_lex_take(&p->lex, "backward")) {
    trace->direction = TH_DIRECTION_BACKWARD;
  } else if (th_lex_take(&p->lex, "no_grad")) {
    trace->no_grad = true;
  } else if (th_lex_take(&p->lex, "autocast")) {
    TH_TRY(parse_autocast(p, trace));
  } else if (th_lex_take(&p->lex, "slab")) {
    TH_TRY(parse_slab_size(p, trace));
  } else {
    return TH_PARSE_ERROR(p, "expected forward, backward, no_grad, "
                             "autocast(DTYPE) or slab(BYTES)");
  }
  return th_parse_end(p);
}

// ---- def and header

typedef struct parse_param {
  const char *name;
  th_loc loc;
  bool has_type, lost;
  th_type type;
  th_input input;
  int64_t slab;
} parse_param;

typedef struct parse_params {
  parse_param *items;
  uint32_t count, cap;
  th_map by_name;
} parse_params;

static th_status parse_param_name(th_parser *p, parse_params *params) {
  const char *text = NULL;
  size_t size = 0;
  th_lex_done(&p->lex);
  parse_param param = {.loc = th_lex_loc(&p->lex), .slab = -1};
  if (!th_lex_name(&p->lex, &text, &size)) {
    return TH_PARSE_ERROR(p, "expected the name of an input");
  }
  if (th_text_is_reserved(text, size)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, param.loc,
                             "'%.*s' means something else and names no value",
                             (int)size, text);
  }
  param.name = th_ir_string(p->ir, th_arena_strndup(&p->ir->arena, text, size));
  if (th_map_get(&params->by_name, param.name)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, param.loc,
                             "two inputs have the name '%s'", param.name);
  }
  TH_PUSH(&p->ir->arena, params->items, params->count, params->cap) = param;
  th_map_put(&params->by_name, param.name,
             (void *)(uintptr_t)params->count); // index + 1
  return TH_OK;
}

static th_status parse_def_line(th_parser *p, th_trace *trace,
                                parse_params *params) {
  const char *text = NULL;
  size_t size = 0;
  TH_TRY(th_parse_expect(p, "def"));
  if (!th_lex_name(&p->lex, &text, &size)) {
    return TH_PARSE_ERROR(p, "expected the name of the trace");
  }
  trace->name =
      th_ir_string(p->ir, th_arena_strndup(&p->ir->arena, text, size));
  TH_TRY(th_parse_expect(p, "("));
  while (!th_lex_take(&p->lex, ")")) {
    TH_TRY(parse_param_name(p, params));
    if (!th_lex_take(&p->lex, ",")) {
      TH_TRY(th_parse_expect(p, ")"));
      break;
    }
  }
  TH_TRY(th_parse_expect(p, ":"));
  return th_parse_end(p);
}

// `NAME: "`; stands at the quote after it.
static bool parse_header_name(th_lex *lex, const char **out_text,
                              size_t *out_size) {
  return th_lex_name(lex, out_text, out_size) && th_lex_take(lex, ":") &&
         !th_lex_done(lex) && *lex->at == '"';
}

static th_status parse_declare(th_parser *p, const char *text, size_t size) {
  th_loc loc = th_lex_loc(&p->lex);
  th_parse_range range;
  TH_TRY(th_parse_symbol(p, &range));
  TH_TRY(th_parse_end(p));
  if (size >= TH_TEXT_NAME_SIZE || th_text_is_reserved(text, size)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc, "the name of the symbol is %s",
                             size >= TH_TEXT_NAME_SIZE ? "too long"
                                                       : "a reserved word");
  }
  const char *name = th_arena_strndup(&p->ir->arena, text, size);
  if (th_parse_declared(p, name)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc, "symbol '%s' is declared twice",
                             name);
  }
  const th_expr *symbol = th_sym(p->ir, name, range.dtype);
  if (symbol->dtype != range.dtype) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc,
                             "symbol '%s' has another type elsewhere", name);
  }
  th_sym_range(p->ir, symbol, range.min, range.max);
  th_map_put(&p->scope->symbols, name, (void *)(uintptr_t)symbol);
  return TH_OK;
}

// Symbols come first, since types need them; the lines are read twice.
static void parse_header_symbols(th_parser *p) {
  th_lex start = p->lex;
  bool more = p->more;
  for (; p->more && p->lex.comment && !th_parse_full(p); th_parse_next(p)) {
    const char *text = NULL;
    size_t size = 0;
    if (parse_header_name(&p->lex, &text, &size) &&
        th_parse_is_symbol(&p->lex)) {
      (void)parse_declare(p, text, size);
    }
  }
  p->lex = start;
  p->more = more;
}

static th_status parse_input_kind(th_parser *p, parse_param *param) {
  static const struct {
    const char *name;
    th_input_kind kind;
  } kinds[] = {{"param", TH_INPUT_PARAM},
               {"buffer", TH_INPUT_BUFFER},
               {"constant", TH_INPUT_CONSTANT}};
  for (size_t i = 0; i < TH_COUNT(kinds); i++) {
    if (th_lex_take(&p->lex, kinds[i].name)) {
      const char *fqn = NULL, *error = NULL;
      param->input.kind = kinds[i].kind;
      param->input.persistent = kinds[i].kind == TH_INPUT_BUFFER &&
                                !th_lex_take(&p->lex, "non-persistent");
      if (!th_lex_word(&p->lex, &p->ir->arena, &fqn, &error)) {
        return TH_PARSE_ERROR(p, "%s", error ? error : "expected the FQN");
      }
      param->input.fqn = th_ir_string(p->ir, fqn);
    }
  }
  return th_parse_end(p);
}

static th_status parse_header_input(th_parser *p, parse_params *params,
                                    const char *text, size_t size, th_loc loc) {
  uintptr_t index = (uintptr_t)th_map_get_bytes(&params->by_name, text, size);
  if (index == 0) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc, "no input has the name '%.*s'",
                             (int)(size < 100 ? size : 100), text);
  }
  parse_param *param = &params->items[index - 1];
  if (param->has_type) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc,
                             "the type of '%s' is given twice", param->name);
  }
  param->has_type = param->lost = true;
  TH_TRY(th_parse_type(p, &param->type));
  TH_TRY(th_parse_slab(p, &param->slab));
  TH_TRY(parse_input_kind(p, param));
  param->lost = false;
  return TH_OK;
}

// Types of inputs; also the first location comment.
static void parse_header(th_parser *p, parse_params *params) {
  parse_header_symbols(p);
  for (; p->more && p->lex.comment && !th_parse_full(p); th_parse_next(p)) {
    const char *text = NULL;
    size_t size = 0;
    th_lex start = p->lex;
    if (!parse_header_name(&p->lex, &text, &size)) {
      p->lex = start;
      (void)th_parse_place_comment(p, &p->place);
    } else if (!th_parse_is_symbol(&p->lex)) {
      (void)parse_header_input(p, params, text, size, th_lex_loc(&start));
    }
  }
}

static void parse_make_inputs(th_parser *p, const parse_params *params) {
  for (uint32_t i = 0; i < params->count; i++) {
    const parse_param *param = &params->items[i];
    if (!param->has_type) {
      th_parse_report(p, TH_PARSE, param->loc,
                      "input '%s' has no type; a line like `# %s: "
                      "\"cpu f32[2, 3]\"` under the def gives it",
                      param->name, param->name);
    }
    if (!param->has_type || param->lost) {
      th_map_put(&p->scope->lost, param->name, p);
      continue;
    }
    th_value *value = th_trace_input(p->scope->trace, &param->type, param->name,
                                     &param->input);
    value->slab = param->slab;
  }
}

// ---- statements of a trace

static th_status parse_def(th_parser *p, th_trace **out_trace);

// A def inside belongs to the statement that follows.
static void parse_subtrace(th_parser *p) {
  th_parse_scope *s = p->scope;
  th_trace *trace = NULL;
  th_parse_place place = p->place;
  if (s->pending_count == 0) {
    s->pending_loc = th_lex_loc(&p->lex);
  }
  th_status status = parse_def(p, &trace);
  p->place = place;
  if (status != TH_OK && trace) {
    th_map_put(&s->lost, trace->name, p);
  }
  if (status != TH_OK) {
    return;
  }
  for (uint32_t i = 0; i < s->pending_count; i++) {
    if (strcmp(s->pending[i]->name, trace->name) == 0) {
      th_parse_report(p, TH_PARSE, s->pending_loc,
                      "two sub-traces of a statement are called '%s'",
                      trace->name);
      return;
    }
  }
  if (s->pending_count == TH_MAX_PARAMS) {
    th_parse_report(p, TH_PARSE, s->pending_loc,
                    "a statement has at most %d sub-traces", TH_MAX_PARAMS);
    s->pending_count = 0;
  }
  TH_PUSH(&p->ir->arena, s->pending, s->pending_count, s->pending_cap) = trace;
}

static bool parse_takes(const th_stmt *stmt, const th_trace *trace) {
  for (uint16_t i = 0; stmt && i < stmt->arg_count; i++) {
    if (stmt->args[i].kind == TH_ARG_TRACE && stmt->args[i].trace == trace) {
      return true;
    }
  }
  return false;
}

static void parse_check_pending(th_parser *p, const th_stmt *stmt) {
  th_parse_scope *s = p->scope;
  for (uint32_t i = 0; i < s->pending_count; i++) {
    if (!parse_takes(stmt, s->pending[i])) {
      th_parse_report(p, TH_PARSE, s->pending_loc,
                      "the statement after sub-trace '%s' does not take it",
                      s->pending[i]->name);
    }
  }
  s->pending_count = 0;
}

static void parse_trace_stmt(th_parser *p) {
  th_trace *trace = p->scope->trace;
  th_parse_place place = p->place;
  th_stmt *stmt = NULL;
  th_status status = th_parse_stmt(p, 0, &stmt);
  p->place = place;
  if (status != TH_OK) {
    p->scope->pending_count = 0;
    return;
  }
  parse_check_pending(p, stmt);
  th_parse_put_place(p, stmt, &place);
  stmt->index = trace->stmt_count;
  TH_PUSH(&p->ir->arena, trace->stmts, trace->stmt_count, trace->stmt_cap) =
      stmt;
}

static th_status parse_return(th_parser *p) {
  th_status status = th_parse_arg(p, NULL, &p->scope->trace->result);
  if (status == TH_OK) {
    status = th_parse_end(p);
  }
  parse_check_pending(p, NULL);
  th_parse_next(p);
  return status;
}

static bool parse_at(const th_parser *p, const char *word) {
  th_lex lex = p->lex;
  return th_lex_take(&lex, word);
}

// Up to and including the return.  `indent` is that of the def.
static th_status parse_body(th_parser *p, int indent) {
  int inner = -1;
  while (p->more && !th_parse_full(p)) {
    if (p->lex.comment) {
      (void)th_parse_place_comment(p, &p->place);
      th_parse_next(p);
      continue;
    }
    inner = inner < 0 ? p->lex.indent : inner;
    if (p->lex.indent <= indent) {
      break;
    }
    if (p->lex.indent != inner) {
      th_parse_report(p, TH_PARSE, th_lex_loc(&p->lex),
                      "statements of a trace have one indentation: %d here, "
                      "%d above",
                      p->lex.indent, inner);
      th_parse_next(p);
    } else if (th_lex_take(&p->lex, "return")) {
      return parse_return(p);
    } else if (parse_at(p, "def") || *p->lex.at == '@') {
      parse_subtrace(p);
    } else {
      parse_trace_stmt(p);
    }
  }
  return th_parse_full(p)
             ? TH_PARSE
             : TH_PARSE_ERROR(p, "the trace '%.100s' ends without a return",
                              p->scope->trace->name);
}

// Decorators, def, header and statements; *out_trace is set once the def line
// has been read.
static th_status parse_def(th_parser *p, th_trace **out_trace) {
  th_trace *trace = th_trace_new(p->ir, "");
  th_parse_scope scope = {.outer = p->scope, .trace = trace};
  parse_params params = {0};
  uint32_t errors = p->errors;
  int indent = p->lex.indent;
  th_map_init(&scope.lost, &p->ir->arena);
  th_map_init(&scope.symbols, &p->ir->arena);
  th_map_init(&params.by_name, &p->ir->arena);
  if (p->trace_depth == TH_TEXT_TRACE_DEPTH) {
    th_parse_report(p, TH_PARSE, th_lex_loc(&p->lex),
                    "sub-traces nest at most %d deep", TH_TEXT_TRACE_DEPTH);
    p->lost = true;
    return TH_PARSE;
  }
  for (; p->more && !p->lex.comment && th_lex_take(&p->lex, "@");
       th_parse_next(p)) {
    (void)parse_decorator(p, trace);
  }
  th_status status = p->more ? parse_def_line(p, trace, &params)
                             : TH_PARSE_ERROR(p, "expected a def");
  if (status != TH_OK) {
    p->lost = true;
    return status;
  }
  th_parse_next(p);
  p->scope = &scope;
  p->place = (th_parse_place){.scope = ""};
  p->trace_depth++;
  *out_trace = trace;
  parse_header(p, &params);
  parse_make_inputs(p, &params);
  status = parse_body(p, indent);
  p->trace_depth--;
  p->scope = scope.outer;
  return status == TH_OK && p->errors > errors ? TH_PARSE : status;
}

// ---- a whole text

// Up to what the printer would not write.
static const char *parse_provenance(th_parser *p) {
  const char *stop = p->lex.at;
  while (stop < p->lex.stop && *stop && *stop != '\r') {
    stop++;
  }
  while (stop[-1] == ' ') { // a word stands before it
    stop--;
  }
  return th_arena_strndup(&p->ir->arena, p->lex.at, (size_t)(stop - p->lex.at));
}

// Comments before the def; the last one that says who made the trace counts.
static const char *parse_head(th_parser *p) {
  const char *provenance = NULL;
  for (; p->more && p->lex.comment; th_parse_next(p)) {
    if (parse_at(p, "Constructed")) {
      provenance = parse_provenance(p);
    }
  }
  return provenance;
}

static th_status parse_text(th_parser *p, th_trace **out_trace) {
  th_trace *trace = NULL;
  th_parse_next(p);
  const char *provenance = parse_head(p);
  if (!p->more) {
    return TH_PARSE_ERROR(p, "the text has no trace; it begins with a def");
  }
  TH_TRY(parse_def(p, &trace));
  while (p->more && p->lex.comment) {
    th_parse_next(p);
  }
  if (p->more) {
    return TH_PARSE_ERROR(p, "expected the end of the text after the return");
  }
  trace->provenance = th_ir_string(p->ir, provenance);
  TH_TRY(th_trace_verify(trace));
  *out_trace = trace;
  return TH_OK;
}

th_status th_text_parse_part(th_ir *ir, const char *name, const char *text,
                             size_t size, int first_line,
                             th_trace **out_trace) {
  th_parser p = {.ir = ir};
  if (size > INT32_MAX) {
    return th_error(ir->ctx, TH_PARSE, (th_loc){name, 0, 0},
                    "a trace text has at most 2 GiB");
  }
  th_lex_init(&p.lex, th_ir_string(ir, name), text, size);
  p.lex.line = first_line - 1;
  p.memory = ir->arena.total + TH_TEXT_MEMORY_FIXED / 2 + size * TH_TEXT_MEMORY;
  th_status status = parse_text(&p, out_trace);
  if (p.errors >= TH_TEXT_ERRORS) {
    th_note(ir->ctx, th_lex_loc(&p.lex), "too many errors: reading stops here");
  }
  for (uint32_t i = 0; i < p.place_count; i++) {
    p.places[i].stmt->scope = p.places[i].scope;
    p.places[i].stmt->loc = p.places[i].loc;
  }
  return p.status ? p.status : status;
}

th_status th_trace_parse(th_ir *ir, const char *name, const char *text,
                         size_t size, th_trace **out_trace) {
  return th_text_parse_part(ir, name, text, size, 1, out_trace);
}

// Operands, attributes and results in trace text.
//
// What a word means follows from the parameter that it is for: a dtype, a
// device, a sub-trace.  A lone name is a value where there is one of that name
// and a symbol otherwise; in an expression it is a symbol.
#include "ir/parse.h"

#include <string.h>

th_value *th_parse_value(const th_parser *p, const char *name, size_t size,
                         bool *out_lost) {
  const th_parse_scope *s = p->scope;
  *out_lost = th_map_get_bytes(&s->lost, name, size);
  return *out_lost ? NULL : th_map_get_bytes(&s->trace->names, name, size);
}

const th_expr *th_parse_declared(const th_parser *p, const char *name) {
  for (const th_parse_scope *s = p->scope; s; s = s->outer) {
    const th_expr *symbol = th_map_get(&s->symbols, name);
    if (symbol) {
      return symbol;
    }
  }
  return NULL;
}

static bool arg_is(const th_param *param, th_param_kind kind) {
  return param && param->kind == kind;
}

// Nothing says what it has to be: results, and arguments of regions.
static bool arg_is_free(const th_param *param) {
  return !param || param->kind == TH_P_ANY;
}

// A name that stands alone, not at the head of an expression or call.
static bool arg_lone_name(th_parser *p, const char **out_text,
                          size_t *out_size) {
  th_lex lex = p->lex;
  if (!th_lex_name(&lex, out_text, out_size)) {
    return false;
  }
  if (!th_lex_done(&lex) && !strchr(",)]}#", *lex.at)) {
    return false;
  }
  p->lex = lex;
  return true;
}

static th_status arg_dtype(th_parser *p, th_arg *out) {
  const char *text = NULL;
  size_t size = 0;
  th_lex_done(&p->lex);
  th_loc loc = th_lex_loc(&p->lex);
  char name[24] = {0};
  if (th_lex_name(&p->lex, &text, &size) && size < sizeof name) {
    memcpy(name, text, size);
  }
  th_dtype dtype = th_dtype_parse(name);
  if (dtype == TH_DTYPE_COUNT) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc, "expected a dtype");
  }
  *out = th_d(dtype);
  return TH_OK;
}

static th_status arg_string(th_parser *p, th_arg *out) {
  const char *text = NULL, *error = NULL;
  if (!th_lex_string(&p->lex, &p->ir->arena, &text, &error)) {
    return TH_PARSE_ERROR(p, "%s", error ? error : "expected a string");
  }
  *out = th_s(th_ir_string(p->ir, text));
  return TH_OK;
}

static th_status arg_device(th_parser *p, th_arg *out) {
  th_lex_done(&p->lex);
  th_loc loc = th_lex_loc(&p->lex);
  TH_TRY(arg_string(p, out));
  th_device device;
  if (!th_device_parse(out->text, &device)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc,
                             "'%s' is no device; there are 'cpu', 'cuda:N' "
                             "and 'ptxsim:N'",
                             out->text);
  }
  *out = (th_arg){.kind = TH_ARG_DEVICE, .device = device};
  return TH_OK;
}

// ---- names

static th_status arg_trace(th_parser *p, th_arg *out) {
  const char *text = NULL;
  size_t size = 0;
  th_lex_done(&p->lex);
  th_loc loc = th_lex_loc(&p->lex);
  if (!th_lex_name(&p->lex, &text, &size)) {
    return TH_PARSE_ERROR(p, "expected the name of a sub-trace");
  }
  th_parse_scope *s = p->scope;
  for (uint32_t i = s->pending_count; i-- > 0;) {
    th_trace *trace = s->pending[i];
    if (trace && strlen(trace->name) == size &&
        memcmp(trace->name, text, size) == 0) {
      *out = (th_arg){.kind = TH_ARG_TRACE, .trace = trace};
      return TH_OK;
    }
  }
  bool lost = th_map_get_bytes(&s->lost, text, size);
  return lost ? TH_PARSE
              : TH_PARSE_ERROR_AT(p, TH_PARSE, loc,
                                  "no sub-trace '%.*s' stands before this "
                                  "statement",
                                  (int)(size < 100 ? size : 100), text);
}

static bool arg_wants_number(const th_param *param) {
  return arg_is(param, TH_P_OPERAND) || arg_is(param, TH_P_NUMBER) ||
         arg_is(param, TH_P_INT) || arg_is(param, TH_P_INTS) ||
         arg_is(param, TH_P_FLOAT) || arg_is(param, TH_P_BOOL);
}

// A value that is a number reads as that number where one is wanted.
static th_arg arg_of_value(const th_param *param, th_value *value) {
  bool number = value->type.kind == TH_KIND_NUMBER && arg_wants_number(param);
  return number ? th_n(value->type.num) : th_v(value);
}

static bool arg_is_number_word(const char *text, size_t size) {
  static const char *const words[] = {"True", "False", "inf", "nan"};
  for (size_t i = 0; i < TH_COUNT(words); i++) {
    if (strlen(words[i]) == size && memcmp(words[i], text, size) == 0) {
      return true;
    }
  }
  return false;
}

static th_status arg_number(th_parser *p, th_arg *out) {
  const th_expr *num = NULL;
  TH_TRY(th_parse_number(p, &num));
  *out = th_n(num);
  return TH_OK;
}

static bool arg_is_outside(const th_parser *p, const char *name, size_t size) {
  for (const th_parse_scope *s = p->scope->outer; s; s = s->outer) {
    if (th_map_get_bytes(&s->trace->names, name, size)) {
      return true;
    }
  }
  return false;
}

// `start` is where the name stands, which has been read.
static th_status arg_name(th_parser *p, const th_lex *start, const char *text,
                          size_t size, const th_param *param, th_arg *out) {
  bool lost = false;
  th_value *value = th_parse_value(p, text, size, &lost);
  if (lost) {
    return TH_PARSE;
  }
  if (value) {
    *out = arg_of_value(param, value);
    return TH_OK;
  }
  char name[TH_TEXT_NAME_SIZE] = {0};
  if (size < sizeof name) {
    memcpy(name, text, size);
  }
  if (arg_is_free(param) && th_dtype_parse(name) != TH_DTYPE_COUNT) {
    *out = th_d(th_dtype_parse(name));
    return TH_OK;
  }
  const th_expr *symbol = th_parse_declared(p, name);
  if (symbol) {
    *out = th_n(symbol);
    return TH_OK;
  }
  p->lex = *start;
  if (arg_is_number_word(text, size)) {
    return arg_number(p, out);
  }
  th_lex_done(&p->lex);
  bool outside = arg_is_outside(p, text, size);
  return TH_PARSE_ERROR(p,
                        outside ? "'%.*s' belongs to a trace around this one; "
                                  "a sub-trace takes it as an operand"
                                : "'%.*s' is no value that was made above",
                        (int)(size < 100 ? size : 100), text);
}

// ---- lists

// At '(': a tuple has a comma at its own level, or nothing in it.
static bool arg_is_tuple(const th_lex *at) {
  int depth = 0;
  char quote = 0;
  bool empty = true;
  for (const char *c = at->at; c < at->stop; c++) {
    if (quote && *c == '\\') {
      c += c + 1 < at->stop;
    } else if (quote) {
      quote = *c == quote ? 0 : quote;
    } else if (*c == '\'' || *c == '"') {
      quote = *c;
    } else if (strchr("([{", *c) && *c) {
      depth++;
    } else if (strchr(")]}", *c) && *c && --depth == 0) {
      return empty;
    } else if (*c == ',' && depth == 1) {
      return true;
    }
    empty = empty && (c == at->at || *c == ' ');
  }
  return false;
}

typedef struct arg_items {
  th_arg *items;
  const char **keys;
  uint32_t count, cap, key_count, key_cap;
} arg_items;

static th_status arg_key(th_parser *p, th_map *seen, arg_items *items) {
  th_lex_done(&p->lex);
  th_loc loc = th_lex_loc(&p->lex);
  th_arg key;
  TH_TRY(arg_string(p, &key));
  if (th_map_get(seen, key.text)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc, "'%s' is twice in the dict",
                             key.text);
  }
  th_map_put(seen, key.text, seen);
  TH_PUSH(&p->ir->arena, items->keys, items->key_count, items->key_cap) =
      key.text;
  return th_parse_expect(p, ":");
}

// After the opening bracket.
static th_status arg_items_read(th_parser *p, const th_param *param,
                                th_arg_kind kind, const char *close,
                                th_arg *out) {
  arg_items items = {0};
  th_map seen;
  th_map_init(&seen, &p->ir->arena);
  while (!th_lex_take(&p->lex, close)) {
    if (items.count) {
      TH_TRY(th_parse_expect(p, ","));
      if (th_lex_take(&p->lex, close)) {
        break;
      }
    }
    if (kind == TH_ARG_DICT) {
      TH_TRY(arg_key(p, &seen, &items));
    }
    th_arg item;
    TH_TRY(th_parse_arg(p, param, &item));
    TH_PUSH(&p->ir->arena, items.items, items.count, items.cap) = item;
  }
  *out = (th_arg){.kind = kind, .count = items.count, .keys = items.keys};
  out->items = items.count ? items.items : TH_NEW(&p->ir->arena, th_arg);
  return TH_OK;
}

static th_status arg_sequence(th_parser *p, const th_param *param,
                              th_arg *out) {
  static const struct {
    const char *open, *close;
    th_arg_kind kind;
  } kinds[] = {{"[", "]", TH_ARG_LIST},
               {"(", ")", TH_ARG_TUPLE},
               {"{", "}", TH_ARG_DICT}};
  if (p->tree_depth == TH_TEXT_TREE_DEPTH) {
    return TH_PARSE_ERROR(p, "lists nest at most %d deep", TH_TEXT_TREE_DEPTH);
  }
  for (size_t i = 0; i < TH_COUNT(kinds); i++) {
    if (th_lex_take(&p->lex, kinds[i].open)) {
      p->tree_depth++;
      th_status status =
          arg_items_read(p, param, kinds[i].kind, kinds[i].close, out);
      p->tree_depth--;
      return status;
    }
  }
  return TH_PARSE_ERROR(p, "expected a list");
}

// device('cuda:0'), where nothing else says that it is one.
static bool arg_take_device(th_parser *p) {
  th_lex lex = p->lex;
  if (th_lex_take(&lex, "device") && th_lex_take(&lex, "(")) {
    p->lex = lex;
    return true;
  }
  return false;
}

static th_status arg_free(th_parser *p, th_arg *out, bool *out_done) {
  *out_done = true;
  if (arg_take_device(p)) {
    TH_TRY(arg_device(p, out));
    return th_parse_expect(p, ")");
  }
  *out_done = false;
  return TH_OK;
}

th_status th_parse_arg(th_parser *p, const th_param *param, th_arg *out) {
  th_lex start = p->lex;
  const char *text = NULL;
  size_t size = 0;
  *out = th_none();
  if (th_lex_take(&p->lex, "None")) {
    return TH_OK;
  }
  if (arg_is(param, TH_P_DTYPE)) {
    return arg_dtype(p, out);
  }
  if (arg_is(param, TH_P_DEVICE)) {
    return arg_device(p, out);
  }
  if (arg_is(param, TH_P_TRACE)) {
    return arg_trace(p, out);
  }
  if (th_lex_done(&p->lex)) {
    return TH_PARSE_ERROR(p, "expected a value, a number or a list");
  }
  if (strchr("'\"", *p->lex.at) && *p->lex.at) {
    return arg_string(p, out);
  }
  if (*p->lex.at == '[' || *p->lex.at == '{' ||
      (*p->lex.at == '(' && arg_is_tuple(&p->lex))) {
    return arg_sequence(p, param, out);
  }
  if (arg_lone_name(p, &text, &size)) {
    return arg_name(p, &start, text, size, param, out);
  }
  bool done = false;
  if (arg_is_free(param)) {
    TH_TRY(arg_free(p, out, &done));
  }
  return done ? TH_OK : arg_number(p, out);
}

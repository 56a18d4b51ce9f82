// Expressions as text, in Python's syntax and precedence.
#include "ir/expr.h"
#include "ir/lex.h"

#include <math.h>
#include <string.h>

enum {
  TEXT_DEPTH = 4 * TH_EXPR_DEPTH, // nesting that the reader accepts
  TEXT_MEMORY = 16 << 20,         // bytes that reading one expression may take
  PREC_OR = 1,
  PREC_AND,
  PREC_NOT,
  PREC_COMPARE,
  PREC_ADD,
  PREC_MUL,
  PREC_UNARY,
  PREC_POW,
  PREC_ATOM,
};

static const char *const text_symbols[] = {
#define X(name, arity, text) [TH_X_##name] = text,
    TH_EXPR_MAP(X)
#undef X
};

static int text_precedence(const th_expr *e) {
  switch (e->op) {
  case TH_X_CONST:
    return (e->dtype == TH_I64 && e->i < 0) ||
                   (e->dtype == TH_F64 && signbit(e->f))
               ? PREC_UNARY
               : PREC_ATOM;
  case TH_X_OR:
    return PREC_OR;
  case TH_X_AND:
    return PREC_AND;
  case TH_X_NOT:
    return PREC_NOT;
  case TH_X_EQ:
  case TH_X_NE:
  case TH_X_LT:
  case TH_X_LE:
    return PREC_COMPARE;
  case TH_X_ADD:
    return PREC_ADD;
  case TH_X_MUL:
  case TH_X_DIV:
  case TH_X_FLOORDIV:
  case TH_X_MOD:
    return PREC_MUL;
  case TH_X_POW:
    return PREC_POW;
  default:
    return PREC_ATOM;
  }
}

static void text_print(th_buffer *out, const th_expr *e, int least);

static void text_print_const(th_buffer *out, const th_expr *e) {
  if (e->dtype == TH_BOOL) {
    th_buffer_puts(out, e->i ? "True" : "False");
  } else if (e->dtype == TH_F64) {
    th_buffer_double(out, e->f);
  } else {
    th_buffer_printf(out, "%lld", (long long)e->i);
  }
}

// Binary operators group to the left; ADD and MUL are n-ary.
static void text_print_infix(th_buffer *out, const th_expr *e) {
  int p = text_precedence(e);
  for (uint32_t i = 0; i < e->arg_count; i++) {
    if (i) {
      th_buffer_printf(out, e->op == TH_X_MUL ? "%s" : " %s ",
                       text_symbols[e->op]);
    }
    int least = i || e->op == TH_X_POW || p == PREC_COMPARE ? p + 1 : p;
    text_print(out, e->args[i], least);
  }
}

static void text_print(th_buffer *out, const th_expr *e, int least) {
  int p = text_precedence(e);
  if (p < least) {
    th_buffer_putc(out, '(');
  }
  if (e->op == TH_X_CONST) {
    text_print_const(out, e);
  } else if (e->op == TH_X_SYM) {
    th_buffer_puts(out, e->symbol->name);
  } else if (e->op == TH_X_NOT) {
    th_buffer_puts(out, "not ");
    text_print(out, e->args[0], PREC_NOT);
  } else if (p == PREC_ATOM) {
    th_buffer_printf(out, "%s(", text_symbols[e->op]);
    for (uint32_t i = 0; i < e->arg_count; i++) {
      th_buffer_puts(out, i ? ", " : "");
      text_print(out, e->args[i], PREC_OR);
    }
    th_buffer_putc(out, ')');
  } else {
    text_print_infix(out, e);
  }
  if (p < least) {
    th_buffer_putc(out, ')');
  }
}

void th_expr_print(th_buffer *buffer, const th_expr *e) {
  text_print(buffer, e, PREC_OR);
}

// ---- reading

typedef struct text_reader {
  th_ir *ir;
  const char *at, *end;
  size_t total; // of the arena, at the beginning
  int depth;
} text_reader;

static const th_expr *text_read(text_reader *r, int least);

static void text_space(text_reader *r) {
  while (r->at < r->end && *r->at == ' ') {
    r->at++;
  }
}

static bool text_is_digit(char c) { return c >= '0' && c <= '9'; }

static bool text_word_char(char c) {
  return th_text_is_name((char[]){'a', c}, 2);
}

// Takes `word` if it stands here (as a whole word when it is one).
static bool text_take(text_reader *r, const char *word) {
  size_t n = strlen(word);
  text_space(r);
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) {
    return false;
  }
  if (text_word_char(word[0]) && r->at + n < r->end &&
      text_word_char(r->at[n])) {
    return false;
  }
  r->at += n;
  return true;
}

static const th_expr *text_number(text_reader *r) {
  const char *p = r->at;
  while (p < r->end && text_is_digit(*p)) {
    p++;
  }
  if (p < r->end && (*p == '.' || *p == 'e' || *p == 'E')) {
    double f = th_parse_double(r->at, r->end, &r->at);
    return th_float(r->ir, f);
  }
  uint64_t v = 0;
  for (const char *q = r->at; q < p; q++) {
    if (__builtin_mul_overflow(v, 10, &v) ||
        __builtin_add_overflow(v, (uint64_t)(*q - '0'), &v)) {
      return NULL;
    }
  }
  r->at = p;
  return v <= (uint64_t)INT64_MAX ? th_int(r->ir, (int64_t)v) : NULL;
}

static const th_expr *text_call(text_reader *r, th_expr_op op) {
  const th_expr *args[3] = {0};
  uint32_t n = 0;
  do {
    if (n == 3 || !(args[n] = text_read(r, PREC_OR))) {
      return NULL;
    }
    n++;
  } while (text_take(r, ","));
  static const uint8_t arity[] = {
#define X(name, count, text) [TH_X_##name] = count,
      TH_EXPR_MAP(X)
#undef X
  };
  return text_take(r, ")") && n == arity[op] ? th_expr_make(r->ir, op, args, n)
                                             : NULL;
}

static const th_expr *text_name(text_reader *r) {
  const char *start = r->at;
  while (r->at < r->end && text_word_char(*r->at)) {
    r->at++;
  }
  size_t n = (size_t)(r->at - start);
  char name[128];
  if (n == 0 || n >= sizeof name) {
    return NULL;
  }
  memcpy(name, start, n);
  name[n] = 0;
  if (r->at < r->end && *r->at == '(') {
    for (int op = 0; op < TH_X_COUNT; op++) {
      if (strcmp(text_symbols[op], name) == 0) {
        r->at++;
        return text_call(r, (th_expr_op)op);
      }
    }
    return NULL;
  }
  return th_sym(r->ir, name, TH_I64);
}

static const th_expr *text_atom(text_reader *r) {
  text_space(r);
  if (text_take(r, "(")) {
    const th_expr *e = text_read(r, PREC_OR);
    return e && text_take(r, ")") ? e : NULL;
  }
  if (text_take(r, "True") || text_take(r, "False")) {
    return th_bool(r->ir, r->at[-2] == 'u');
  }
  if (text_take(r, "inf")) {
    return th_float(r->ir, INFINITY);
  }
  if (text_take(r, "nan")) {
    return th_float(r->ir, NAN);
  }
  if (r->at < r->end && text_is_digit(*r->at)) {
    return text_number(r);
  }
  return text_name(r);
}

static const th_expr *text_negate(text_reader *r) {
  // The least integer has no positive twin.
  static const char least[] = "9223372036854775808";
  if (text_take(r, least)) {
    return th_int(r->ir, INT64_MIN);
  }
  const th_expr *e = text_read(r, PREC_UNARY);
  if (e && e->op == TH_X_CONST && e->dtype == TH_F64) {
    return th_float(r->ir, -e->f);
  }
  return e ? th_expr_mul(r->ir, th_int(r->ir, -1), e) : NULL;
}

static const th_expr *text_prefix(text_reader *r, int least) {
  if (least <= PREC_NOT && text_take(r, "not")) {
    const th_expr *e = text_read(r, PREC_NOT);
    return e ? th_expr_make(r->ir, TH_X_NOT, &e, 1) : NULL;
  }
  return text_take(r, "-") ? text_negate(r) : text_atom(r);
}

static const struct {
  const char *text;
  th_expr_op op;
  int precedence;
  bool negated, swapped;
} text_operators[] = {
    {"or", TH_X_OR, PREC_OR, false, false},
    {"and", TH_X_AND, PREC_AND, false, false},
    {"==", TH_X_EQ, PREC_COMPARE, false, false},
    {"!=", TH_X_NE, PREC_COMPARE, false, false},
    {"<=", TH_X_LE, PREC_COMPARE, false, false},
    {">=", TH_X_LE, PREC_COMPARE, false, true},
    {"<", TH_X_LT, PREC_COMPARE, false, false},
    {">", TH_X_LT, PREC_COMPARE, false, true},
    {"+", TH_X_ADD, PREC_ADD, false, false},
    {"-", TH_X_ADD, PREC_ADD, true, false},
    {"**", TH_X_POW, PREC_POW, false, false},
    {"*", TH_X_MUL, PREC_MUL, false, false},
    {"//", TH_X_FLOORDIV, PREC_MUL, false, false},
    {"/", TH_X_DIV, PREC_MUL, false, false},
    {"%", TH_X_MOD, PREC_MUL, false, false},
};

static int text_operator(text_reader *r, int least) {
  for (size_t i = 0; i < TH_COUNT(text_operators); i++) {
    const char *before = r->at;
    if (text_take(r, text_operators[i].text)) {
      if (text_operators[i].precedence >= least) {
        return (int)i;
      }
      r->at = before;
      return -1;
    }
  }
  return -1;
}

static const th_expr *text_read(text_reader *r, int least) {
  if (++r->depth > TEXT_DEPTH) {
    return NULL;
  }
  const th_expr *left = text_prefix(r, least);
  int i = 0;
  while (left && (i = text_operator(r, least)) >= 0) {
    if (r->ir->arena.total - r->total > TEXT_MEMORY) {
      return NULL;
    }
    const th_expr *right = text_read(r, text_operators[i].precedence + 1);
    if (right && text_operators[i].negated) {
      right = th_expr_mul(r->ir, th_int(r->ir, -1), right);
    }
    const th_expr *args[] = {left, right};
    if (text_operators[i].swapped) {
      args[0] = right;
      args[1] = left;
    }
    left = th_expr_make(r->ir, text_operators[i].op, args, 2);
  }
  r->depth--;
  return left;
}

const th_expr *th_expr_parse(th_ir *ir, const char **text, const char *end) {
  text_reader r = {.ir = ir, .at = *text, .end = end, .total = ir->arena.total};
  const th_expr *e = text_read(&r, PREC_OR);
  if (e) {
    *text = r.at;
  }
  return e;
}

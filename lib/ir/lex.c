// Lines, words and quoted strings of trace text.
//
// Nothing here allocates but strings, which get no longer than their text, and
// nothing depends on the locale.
#include "ir/lex.h"

#include <limits.h>
#include <string.h>

static bool lex_is_digit(char c) { return c >= '0' && c <= '9'; }

static bool lex_is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool lex_is_name_char(char c) {
  return lex_is_letter(c) || lex_is_digit(c);
}

static bool lex_is_word_char(char c) {
  return lex_is_name_char(c) || c == '.' || c == '/' || c == '+' || c == '-';
}

// ---- lines

void th_lex_init(th_lex *lex, const char *name, const char *text, size_t size) {
  *lex = (th_lex){.name = name,
                  .next = text,
                  .end = text + size,
                  .start = text,
                  .at = text,
                  .stop = text};
}

// Cuts the next line off the text; false when there is none.
static bool lex_cut(th_lex *lex) {
  if (lex->next == lex->end) {
    lex->start = lex->at = lex->stop = lex->end;
    return false;
  }
  lex->start = lex->next;
  const char *newline =
      memchr(lex->start, '\n', (size_t)(lex->end - lex->start));
  lex->stop = newline ? newline : lex->end;
  lex->next = newline ? newline + 1 : lex->end;
  lex->line += lex->line < INT_MAX;
  while (lex->stop > lex->start &&
         (lex->stop[-1] == ' ' || lex->stop[-1] == '\r')) {
    lex->stop--;
  }
  return true;
}

bool th_lex_line(th_lex *lex) {
  do {
    if (!lex_cut(lex)) {
      return false;
    }
    lex->at = lex->start;
    while (lex->at < lex->stop && *lex->at == ' ') {
      lex->at++;
    }
  } while (lex->at == lex->stop);
  ptrdiff_t indent = lex->at - lex->start;
  lex->indent = indent < INT_MAX ? (int)indent : INT_MAX;
  lex->comment = *lex->at == '#';
  if (lex->comment) {
    lex->at++;
    lex->at += lex->at < lex->stop && *lex->at == ' ';
  }
  return true;
}

th_loc th_lex_loc(const th_lex *lex) {
  ptrdiff_t column = lex->at - lex->start;
  return (th_loc){lex->name, lex->line,
                  column < INT_MAX ? (int)column + 1 : INT_MAX};
}

// ---- words

bool th_lex_done(th_lex *lex) {
  while (lex->at < lex->stop && *lex->at == ' ') {
    lex->at++;
  }
  return lex->at == lex->stop;
}

bool th_lex_take(th_lex *lex, const char *text) {
  size_t n = strlen(text);
  if (th_lex_done(lex) || (size_t)(lex->stop - lex->at) < n ||
      memcmp(lex->at, text, n) != 0) {
    return false;
  }
  if (lex_is_name_char(text[n - 1]) && lex->at + n < lex->stop &&
      lex_is_name_char(lex->at[n])) {
    return false;
  }
  lex->at += n;
  return true;
}

bool th_lex_name(th_lex *lex, const char **out_text, size_t *out_size) {
  if (th_lex_done(lex) || !lex_is_letter(*lex->at)) {
    return false;
  }
  *out_text = lex->at;
  while (lex->at < lex->stop && lex_is_name_char(*lex->at)) {
    lex->at++;
  }
  *out_size = (size_t)(lex->at - *out_text);
  return true;
}

bool th_lex_int(th_lex *lex, int64_t *out_value) {
  if (th_lex_done(lex) || !lex_is_digit(*lex->at)) {
    return false;
  }
  const char *at = lex->at;
  int64_t value = 0;
  for (; at < lex->stop && lex_is_digit(*at); at++) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, *at - '0', &value)) {
      return false;
    }
  }
  lex->at = at;
  *out_value = value;
  return true;
}

// ---- strings

static int lex_hex(char c) {
  return lex_is_digit(c)        ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

// `count` hex digits; -1: they are not there.
static int32_t lex_hex_number(th_lex *lex, int count) {
  int32_t value = 0;
  for (int i = 0; i < count; i++, lex->at++) {
    int digit = lex->at < lex->stop ? lex_hex(*lex->at) : -1;
    if (digit < 0) {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

// At most 3 bytes: \u names the characters of the basic plane.
static size_t lex_put_utf8(char *out, int32_t c) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  if (c < 0x800) {
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
  }
  out[0] = (char)(0xe0 | c >> 12);
  out[1] = (char)(0x80 | (c >> 6 & 0x3f));
  out[2] = (char)(0x80 | (c & 0x3f));
  return 3;
}

// What stands after a backslash, written to out; 0: no such escape.
static size_t lex_escape(th_lex *lex, char *out) {
  static const char letters[] = "\\'\"nrt", meanings[] = "\\'\"\n\r\t";
  if (lex->at == lex->stop) {
    return 0;
  }
  char c = *lex->at++;
  const char *found = c ? strchr(letters, c) : NULL;
  if (found) {
    *out = meanings[found - letters];
    return 1;
  }
  int32_t value = c == 'x'   ? lex_hex_number(lex, 2)
                  : c == 'u' ? lex_hex_number(lex, 4)
                             : -1;
  if (value <= 0) {
    return 0;
  }
  if (c == 'x') { // a byte
    *out = (char)value;
    return 1;
  }
  return lex_put_utf8(out, value);
}

bool th_lex_string(th_lex *lex, th_arena *arena, const char **out_text,
                   const char **out_error) {
  *out_error = NULL;
  if (th_lex_done(lex) || (*lex->at != '\'' && *lex->at != '"')) {
    return false;
  }
  th_lex from = *lex;
  char quote = *lex->at++;
  // No escape is longer than what it stands for.
  const char *close = lex->at;
  for (; close < lex->stop && *close != quote; close++) {
    close += *close == '\\' && close + 1 < lex->stop;
  }
  char *text = th_arena_alloc(arena, (size_t)(close - lex->at) + 1);
  size_t size = 0;
  while (lex->at < close) {
    char c = *lex->at++;
    size_t wrote = 1;
    if (c == '\\') {
      wrote = lex_escape(lex, text + size);
    } else {
      text[size] = c;
    }
    if (wrote == 0 || c == 0) {
      lex->at--;
      *out_error = "a string has \\\\ \\' \\\" \\n \\r \\t \\xHH \\uHHHH and "
                   "no NUL";
      return false;
    }
    size += wrote;
  }
  if (lex->at == lex->stop) {
    *lex = from;
    *out_error = "the string does not end on this line";
    return false;
  }
  lex->at++;
  *out_text = text;
  return true;
}

bool th_lex_word(th_lex *lex, th_arena *arena, const char **out_text,
                 const char **out_error) {
  *out_error = NULL;
  if (th_lex_done(lex)) {
    return false;
  }
  if (*lex->at == '\'' || *lex->at == '"') {
    return th_lex_string(lex, arena, out_text, out_error);
  }
  const char *start = lex->at, *at = start;
  while (at < lex->stop && lex_is_word_char(*at)) {
    at++;
  }
  size_t size = (size_t)(at - start);
  if (size == 0 || (size == 1 && *start == '-')) {
    return false;
  }
  lex->at = at;
  *out_text = th_arena_strndup(arena, start, size);
  return true;
}

// ---- writing

// Bytes of the UTF-8 character that begins here; 0: it is none.  Overlong
// forms and surrogates do not occur in UTF-8.
static size_t lex_utf8_size(const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  size_t size = s[0] < 0x80                   ? 1
                : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                              : 0;
  for (size_t i = 1; i < size; i++) {
    if (s[i] < 0x80 || s[i] > 0xbf) {
      return 0;
    }
  }
  bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
             (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
  return bad ? 0 : size;
}

static void lex_put_escape(th_buffer *out, unsigned char c) {
  if (c == '\\' || c == '\'' || c == '"') {
    th_buffer_printf(out, "\\%c", c);
  } else if (c == '\n' || c == '\r' || c == '\t') {
    th_buffer_puts(out, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
  } else {
    th_buffer_printf(out, "\\x%02x", c);
  }
}

void th_text_quote(th_buffer *out, const char *text, char quote) {
  th_buffer_putc(out, quote);
  for (const char *p = text; *p;) {
    unsigned char c = (unsigned char)*p;
    size_t size = lex_utf8_size(p);
    if (size == 0 || c < ' ' || c == 0x7f || c == '\\' || *p == quote) {
      lex_put_escape(out, c);
      p++;
    } else {
      th_buffer_append(out, p, size);
      p += size;
    }
  }
  th_buffer_putc(out, quote);
}

void th_text_word(th_buffer *out, const char *text) {
  size_t size = 0;
  while (lex_is_word_char(text[size])) {
    size++;
  }
  if (text[size] || size == 0 || strcmp(text, "-") == 0) {
    th_text_quote(out, text, '"');
  } else {
    th_buffer_append(out, text, size);
  }
}

// ---- names

bool th_text_is_name(const char *text, size_t size) {
  if (size == 0 || !lex_is_letter(text[0])) {
    return false;
  }
  for (size_t i = 1; i < size; i++) {
    if (!lex_is_name_char(text[i])) {
      return false;
    }
  }
  return true;
}

bool th_text_is_reserved(const char *text, size_t size) {
  // Python's keywords, the numbers that are words, and the dtypes.
  static const char *const words[] = {
      "False",        "None",     "True",  "and",    "as",       "assert",
      "async",        "await",    "break", "class",  "continue", "def",
      "del",          "elif",     "else",  "except", "finally",  "for",
      "from",         "global",   "if",    "import", "in",       "is",
      "lambda",       "nonlocal", "not",   "or",     "pass",     "raise",
      "return",       "try",      "while", "with",   "yield",    "inf",
      "nan",          "_",        "bool",
#define X(name, text, size, kind) text,
      TH_DTYPE_MAP(X)
#undef X
  };
  for (size_t i = 0; i < TH_COUNT(words); i++) {
    if (strlen(words[i]) == size && memcmp(words[i], text, size) == 0) {
      return true;
    }
  }
  return false;
}

bool th_text_is_word(const char *text, size_t size) {
  return th_text_is_name(text, size) && !th_text_is_reserved(text, size);
}

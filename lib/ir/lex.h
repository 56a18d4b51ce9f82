// Lines, words and quoted strings of trace text: what print.c writes and
// parse*.c read.
//
// The language is made of lines; a reader stands inside one line.  Comments
// are lines too, since some of them carry meaning.
#ifndef TH_IR_LEX_H
#define TH_IR_LEX_H

#include "base/buffer.h"
#include "base/context.h"

typedef struct th_lex {
  const char *name;      // of the file, for locations
  const char *next;      // first byte of the line after this one
  const char *end;       // of the text
  const char *start;     // first byte of this line
  const char *at, *stop; // what is left of it, without spaces at its end
  int line;              // from 1
  int indent;            // column of its first byte that is no space, from 0
  bool comment;          // a full-line comment; `at` stands after "# "
} th_lex;

void th_lex_init(th_lex *lex, const char *name, const char *text, size_t size);
// Goes to the next line that is not empty; false at the end of the text.
bool th_lex_line(th_lex *lex);
th_loc th_lex_loc(const th_lex *lex);

// Skips spaces; is the line read up?
bool th_lex_done(th_lex *lex);
// Takes `text` if it stands here, after spaces.  A word must end there.
bool th_lex_take(th_lex *lex, const char *text);
// [A-Za-z_][A-Za-z0-9_]*; false: there is none here.
bool th_lex_name(th_lex *lex, const char **out_text, size_t *out_size);
// Digits; false: none, or more than an int64_t holds.
bool th_lex_int(th_lex *lex, int64_t *out_value);
// A string in ' or ".  False with a text in *out_error (NULL: none here).
bool th_lex_string(th_lex *lex, th_arena *arena, const char **out_text,
                   const char **out_error);
// A bare word of [A-Za-z0-9_./+-], or a string.  "-" alone is no word.
bool th_lex_word(th_lex *lex, th_arena *arena, const char **out_text,
                 const char **out_error);

// The reverse of th_lex_string and th_lex_word.  Bytes that are no UTF-8 and
// control characters are written \xHH.
void th_text_quote(th_buffer *out, const char *text, char quote);
void th_text_word(th_buffer *out, const char *text);

bool th_text_is_name(const char *text, size_t size);
// Words that mean something else: no value can have them as its name.
bool th_text_is_reserved(const char *text, size_t size);
// A name that is not reserved.
bool th_text_is_word(const char *text, size_t size);

#endif

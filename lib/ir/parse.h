// The inside of the reader of trace text: parse.c reads defs, headers and
// bodies, parse_stmt.c statements, parse_arg.c operands, parse_type.c types.
//
// Every function that returns a status has reported what it does not like,
// except where an operand has no value since the statement that makes it has
// an error of its own: then it returns TH_PARSE and is silent.
#ifndef TH_IR_PARSE_H
#define TH_IR_PARSE_H

#include "ir/infer.h"
#include "ir/text.h"

// A trace that is being read, and those around it.
typedef struct th_parse_scope {
  struct th_parse_scope *outer;
  th_trace *trace;
  th_map lost;    // names of results of statements with errors
  th_map symbols; // declared here
  // Sub-traces that the next statement takes.
  th_trace **pending;
  uint32_t pending_count, pending_cap;
  th_loc pending_loc; // of the first
} th_parse_scope;

// Where a statement says that it comes from.  Until the end of reading its
// own location is that of its text, which is what diagnostics should name.
typedef struct th_parse_place {
  th_stmt *stmt;
  const char *scope;
  th_loc loc;
} th_parse_place;

typedef struct th_parser {
  th_ir *ir;
  th_lex lex;
  bool more; // lex stands on a line
  th_parse_scope *scope;
  uint32_t errors;
  bool lost;        // what follows cannot be understood
  size_t memory;    // how large the arena may get
  th_status status; // of the first error
  int tree_depth, trace_depth;
  th_parse_place place; // what the location comment above says
  th_parse_place *places;
  uint32_t place_count, place_cap;
  th_type *room; // for results of one statement
  uint32_t room_cap;
} th_parser;

// Records an error at `loc`.
void th_parse_report(th_parser *p, th_status status, th_loc loc,
                     const char *fmt, ...) TH_PRINTF(4, 5);
// The same as a status that no reader of the code can take for TH_OK; the
// second one is for where reading stands.
#define TH_PARSE_ERROR_AT(p, status, loc, ...)                                 \
  (th_parse_report(p, status, loc, __VA_ARGS__), status)
#define TH_PARSE_ERROR(p, ...)                                                 \
  TH_PARSE_ERROR_AT(p, TH_PARSE, th_lex_loc(&(p)->lex), __VA_ARGS__)
bool th_parse_full(const th_parser *p); // no more errors are wanted
void th_parse_next(th_parser *p);       // goes to the next line
th_status th_parse_expect(th_parser *p, const char *text);
// A free comment or nothing may follow.
th_status th_parse_end(th_parser *p);

// parse_type.c
typedef struct th_parse_range {
  th_dtype dtype;
  int64_t min, max;
} th_parse_range;
th_status th_parse_number(th_parser *p, const th_expr **out_num);
// With the quotes around it.
th_status th_parse_type(th_parser *p, th_type *out_type);
// "int" in [1, 16] of a symbol; false (and nothing read): this is none.
bool th_parse_is_symbol(const th_lex *at);
th_status th_parse_symbol(th_parser *p, th_parse_range *out_range);
// @4096; -1: there is none.
th_status th_parse_slab(th_parser *p, int64_t *out_slab);

// parse_arg.c
th_status th_parse_arg(th_parser *p, const th_param *param, th_arg *out);
const th_expr *th_parse_declared(const th_parser *p, const char *name);
// The value of a name, or NULL with *out_lost: it has had its error.
th_value *th_parse_value(const th_parser *p, const char *name, size_t size,
                         bool *out_lost);

// parse_stmt.c
// Does a comment read like a statement of a body?
bool th_parse_is_stmt(const th_lex *at);
// One statement with its body.  `level` is 0 in a trace, 1 in a region, 2 in a
// kernel.  Appends nothing.
th_status th_parse_stmt(th_parser *p, int level, th_stmt **out_stmt);

// parse.c
// "scope  file:line:column"; false (and nothing read): this is none.
bool th_parse_place_comment(th_parser *p, th_parse_place *out_place);
void th_parse_put_place(th_parser *p, th_stmt *stmt,
                        const th_parse_place *place);

#endif

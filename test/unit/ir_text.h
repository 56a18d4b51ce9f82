// Traces for tests, written as text: inputs and statements in short form.
#ifndef TH_TEST_IR_TEXT_H
#define TH_TEST_IR_TEXT_H

#include "ir/trace.h"

// A context and an IR of one test.
typedef struct ir_text {
  th_context *ctx;
  th_ir *ir;
} ir_text;

ir_text ir_text_new(void);
void ir_text_free(ir_text *t);

// Reads a trace.  `inputs` is "x f32[2, 3]; i i64[s0]; n int 3" (a device may
// stand before the dtype); symbols that it mentions lie in [1, 64].  `body` is
// one statement a line.  NULL, with a diagnostic, where it cannot be read.
th_trace *ir_text_read(ir_text *t, const char *inputs, const char *body);

// "f32[2, 3]; i64[2]": the types of the results of a statement.  "cpu " is left
// out; "-" is a result that does not exist.
const char *ir_text_types(ir_text *t, const th_stmt *stmt);
// Are these the types of its results?
bool ir_text_match(ir_text *t, const th_stmt *stmt, const char *types);

#endif

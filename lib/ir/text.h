// Conventions of the text form that its writer and its reader share.
#ifndef TH_IR_TEXT_H
#define TH_IR_TEXT_H

#include "ir/lex.h"
#include "ir/trace.h"

enum {
  TH_TEXT_INDENT = 2,
  TH_TEXT_TREE_DEPTH = 64, // nesting of lists and dicts that is read
  TH_TEXT_TRACE_DEPTH = 8, // nesting of sub-traces
  TH_TEXT_NAME_SIZE = 64,  // bytes of the name of a symbol
  TH_TEXT_ERRORS = 20,     // diagnostics of one text
  // Reading takes at most this many bytes for each byte of the text, and a
  // fixed number besides.
  TH_TEXT_MEMORY = 1024,
  TH_TEXT_MEMORY_FIXED = 32 << 20,
};

// A region or kernel whose label is "hostFusion3" or "hostKernel3" belongs to
// the executor "host" unless its text says otherwise.  The length of that name;
// 0: the label says nothing.
size_t th_text_label_executor(const char *label);

// Reads a part of a file that begins at `first_line` (1 is the first), so that
// locations are those of the whole file.
th_status th_text_parse_part(th_ir *ir, const char *name, const char *text,
                             size_t size, int first_line, th_trace **out_trace);

// The part of th_trace_verify that looks at the plan: results that share bytes
// of the slab are not needed at once, and all lie inside it.
th_status th_verify_slab(const th_trace *trace);

// Do both say the same place?  A location without a file is none.
bool th_text_same_loc(th_loc a, th_loc b);

#endif

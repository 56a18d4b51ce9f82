// The inside of thunder-opt.
//
//   main.c     reads files, cuts them into parts, sums up the exit status
//   options.c  the command line
//   run.c      one part: read, passes, dumps, output
//   expect.c   --verify-diagnostics
//   extract.c  --extract
//   list.c     --list-*
#ifndef THUNDER_OPT_H
#define THUNDER_OPT_H

#include "ir/text.h"
#include "passes/pass.h"

#include <stdio.h>

enum { OPT_OK = 0, OPT_FAILED = 1, OPT_USAGE = 2 };

typedef enum opt_emit {
  OPT_TRACE,
  OPT_LLVM,
  OPT_ASM,
} opt_emit;

typedef struct opt_options {
  const char *input;       // "-": standard input
  const char *output;      // NULL: standard output
  const char *model;       // program of a .pt2 archive; NULL: the default one
  const char *passes;      // NULL: none
  const char *print_after; // "dce,cse", "" for all; NULL: none
  const char *executors;   // NULL: those of the device
  const char *extract;     // label of a region
  th_device device;
  opt_emit emit;
  int64_t fuel; // -1: no limit
  bool print_changed, verify_each, roundtrip_each, time_passes;
  bool split_input, verify_diagnostics, explain;
  th_print_options print;
  bool list_passes, list_ops, list_executors;
} opt_options;

// False: the process ends with *out_status.
bool opt_read_options(int argc, char **argv, opt_options *options,
                      int *out_status);

// A trace text, or one of those that "# -----" separates in a file.
typedef struct opt_part {
  const char *name; // of the file
  const char *text;
  size_t size;
  int first_line;
} opt_part;

// Runs inside th_protect.
th_status opt_run_part(th_context *ctx, const opt_options *options,
                       const opt_part *part, FILE *out);
th_status opt_run_archive(th_context *ctx, const opt_options *options,
                          FILE *out);

// Does the part ask for exactly the diagnostics that the context has?  Says on
// stderr what differs.
bool opt_check_diagnostics(th_context *ctx, const opt_part *part);

// A trace that computes what the region computes: its arguments are the inputs,
// its results the result, its statements those of the body.
th_status opt_extract(const th_trace *trace, const char *label,
                      th_trace **out_trace);

void opt_list_passes(FILE *out);
void opt_list_ops(th_context *ctx, FILE *out);
void opt_list_executors(th_context *ctx, FILE *out);

#endif

// The inside of a callable.
//
// An entry is one compilation with the tensors that are bound to it.  A
// program of an archive (or a trace) has one entry for its life; a traced
// function (jit.c) has one for each set of guards.
#ifndef TH_CALLABLE_H
#define TH_CALLABLE_H

#include "compile.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct th_entry {
  th_compiled compiled;
  const th_trace *prologue;  // of a traced function
  const char *prologue_text; // made when it is asked for
  th_tensor **bound;         // by trace input: weights; NULL: the user gives it
  uint32_t *user;            // by user input: trace input
  uint32_t user_count;
} th_entry;

// One call, with what its options say filled in.
typedef struct th_call_args {
  th_context *ctx; // for diagnostics
  int threads;
  bool guarded; // the inputs were compared with the entry
  const th_leaf *inputs;
  size_t input_count;
  th_leaf *outputs;
  size_t output_count;
} th_call_args;

struct th_callable {
  th_context *ctx;
  th_jit_options options;
  th_executor_list executors;
  _Atomic(th_entry *) newest; // of the last compilation
  // Finds or makes the entry for these inputs and runs it; NULL: `newest`
  // always fits.
  th_status (*call)(th_callable *callable, const th_call_args *call);
  void (*release)(th_callable *callable); // what `function` keeps
  void *function;                         // jit.c
  pthread_mutex_t lock;                   // compilations and reports
  th_arena arena;   // copies that options point to, input types as text
  th_map types;     // those texts
  th_arena claims;  // rows, until they are asked for again
  atomic_bool busy; // a call that runs alone, or somebody at its states
  atomic_uint_fast64_t hits;
  uint64_t misses; // under the lock, like what follows
  int64_t trace_ns, passes_ns, codegen_ns;
  uint64_t weights_rounded; // quantize.h
  double weight_error, weight_error_largest;
  char reason_text[256];
  char reason_read[256]; // a copy for the reader
};

// A callable without entries; checks and copies the options.
th_status th_callable_new(th_context *ctx, const th_jit_options *options,
                          th_callable **out);
// Are options.weights known, and made of an archive's where they are asked for?
th_status th_callable_check_weights(const th_callable *c, bool has_archive);
// Compiles `trace` (takes its th_ir) and binds; bound[i] is retained by the
// caller for the entry, NULL entries are the user's.  The caller makes it the
// newest.
th_status th_callable_add(th_callable *callable, th_trace *trace,
                          th_tensor *const *bound, th_entry **out);
void th_entry_free(th_entry *entry);

// Runs an entry.
th_status th_entry_call(th_callable *callable, th_entry *entry,
                        const th_call_args *call);

#endif

// Runs traces that tests write in short form, and compares numbers.
#ifndef TH_TEST_RUN_TEXT_H
#define TH_TEST_RUN_TEXT_H

#include "thunder/jit.h"

typedef struct run_case {
  // "x f32[2, 2] = 1 2 3 4; i i64[2] = 0 1; s i64[] = 5": numbers in row-major
  // order; nan, inf and hexadecimal floats are numbers too.  An input of a
  // symbolic size states it: "x f32[s0=3] = 1 2 3".
  const char *inputs;
  const char *body; // statements, one a line
  // Names of the results with their numbers: "t = 1 2; i = 0 1".  A message
  // that begins with "error: " is a part of the diagnostic of a call.
  const char *want;
  double tolerance; // absolute and relative; 0: the same numbers
} run_case;

void run_text(const run_case *c, const char *executors);
// The same with the whole pipeline in place of claims alone.
void run_text_passes(const run_case *c, const char *executors,
                     const char *passes);

#define RUN_ALL(executors, cases)                                              \
  for (size_t i_ = 0; i_ < sizeof(cases) / sizeof *(cases); i_++) {            \
    run_text(&(cases)[i_], executors);                                         \
  }
#define RUN_ALL_PASSES(executors, passes, cases)                               \
  for (size_t i_ = 0; i_ < sizeof(cases) / sizeof *(cases); i_++) {            \
    run_text_passes(&(cases)[i_], executors, passes);                          \
  }

#endif

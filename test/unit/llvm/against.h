// Short traces run by some executors and by the oracle, on the same random
// numbers.
#ifndef TH_TEST_AGAINST_H
#define TH_TEST_AGAINST_H

#include "thunder/thunder.h"

typedef struct against_case {
  const char *inputs[6]; // "x f32[2, 3]"
  const char *body;      // statements; the result is z
  const char *region;    // stands in the final trace
} against_case;

// All inputs are constant weights.
th_callable *against_compile(th_context *ctx, const char *text,
                             const char *executors);

// Equal to within 1e-5.  `poison`, if any, is a number that the first input
// gets in one place.
void against_ref(const against_case *c, const char *executors,
                 const char *poison);

#endif

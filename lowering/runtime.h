// Functions that generated code calls.  Their names are part of what objects
// on disk refer to (orc.h).
#ifndef TH_LOWERING_RUNTIME_H
#define TH_LOWERING_RUNTIME_H

#include "base/context.h"

// Registers all of them with the JIT; again and again is fine.
th_status th_lower_runtime(th_context *ctx);

// Sorts n keys, stable, NaN last (first when descending), and writes the
// sorted keys to `values` and where each was to `places`; NULL: not wanted.
// Strides in elements.  `order` is the dtype, + 256 for descending.
void th_rt_sort(const void *keys, int64_t key_stride, int64_t n, void *values,
                int64_t value_stride, int64_t *places, int64_t place_stride,
                int64_t order);

#endif

// Results that are stored past the caches.
//
// An ordinary store first reads the line that it overwrites, which for a
// result larger than the caches is a third of the traffic of a chain with two
// operands.  Measured on Sapphire Rapids, x + r over 64 MiB arrays, as a share
// of memcpy: 0.73 with ordinary stores, 0.96 with these; Zen 3 gains as much,
// Skylake nothing and loses nothing.
#ifndef TH_LOWERING_STREAM_H
#define TH_LOWERING_STREAM_H

#include "lowering/plan.h"

enum {
  TH_STREAM_ALIGN = 64,           // bytes; the widest vector
  TH_STREAM_LEAST = 32 * 1 << 20, // bytes of a result that no cache keeps
};

// By buffer: may its stores be streamed when it begins at a multiple of
// TH_STREAM_ALIGN?  NULL: none.
const bool *th_stream_buffers(const th_plan *plan);

// Is it larger than what caches keep?
bool th_stream_is_large(const th_buffer_info *buffer);

#endif

// Kernels by key: each is compiled once, whatever regions, models and contexts
// ask for it.
//
// A kernel is looked for among those of the process, then on disk
// (cache_disk.h), then built.  The key is the caller's SHA-256 of everything
// that decides about the code: the canonical text of the kernel (names
// stripped), strides and alignment class, numerics, TH_KERNEL_VERSION and the
// version of the lowering, LLVM's version, and of the target triple, CPU and
// features.  It is never made from LLVM IR, so that a hit builds none.
//
// Lifetime: what is returned is counted and the caller's.  The process keeps a
// kernel as long as a context that has asked for it lives; a context with more
// than a few thousand of them lets go of all and starts again.
//
// Threads: any, with a context each.  Two that want the same kernel at once
// build it once.  TH_NO_CACHE=1 keeps away from the disk.
#ifndef TH_LOWERING_CACHE_H
#define TH_LOWERING_CACHE_H

#include "lowering/codegen.h"
#include "lowering/orc.h"

// For the kernels that the context asks for from here on.
typedef struct th_kernel_cache_options {
  bool no_disk;       // no_cache of th_jit_options
  const char *folder; // NULL: from the environment; copied
  uint64_t limit;     // bytes on disk; 0: from the environment
} th_kernel_cache_options;

th_status th_kernel_cache_configure(th_context *ctx,
                                    const th_kernel_cache_options *options);

// Emits the object for a kernel whose function must be named `symbol`, all
// else internal.  May report to `ctx` and may run out of arena memory; must
// not ask for the same key.
typedef th_status (*th_kernel_build)(th_context *ctx, void *user,
                                     const char *symbol, th_bytes *out_object);

// `label` becomes part of the symbol, for profilers; equal kernels share the
// label of whichever came first.
th_status th_kernel_cache_get(th_context *ctx, const uint8_t key[32],
                              const char *label, th_kernel_build build,
                              void *user, th_code **out_code);

// One of several kernels that are wanted at once.
typedef struct th_kernel_request {
  uint8_t key[32];
  const char *label;
  th_kernel_build build; // on any thread, with a context of that thread's own
  void *user;
  th_code *code; // the result
} th_kernel_request;

// Gets all of them, building what is neither in memory nor on disk on
// `threads` threads.  A callback sees the context only through its argument,
// and shares what it reads with the others.  Results and reports are those of
// one call after the other.  On an error no request keeps a code.
th_status th_kernel_cache_get_many(th_context *ctx, th_kernel_request *requests,
                                   size_t count, int threads);

// Of one context, since it was made.
typedef struct th_kernel_stats {
  uint64_t memory_hits;
  uint64_t disk_hits;
  uint64_t compiled;
  uint64_t object_bytes; // of what was compiled
  uint64_t build_ns;     // CPU time in the callbacks
  uint64_t load_ns;      // CPU time in the JIT's linker
} th_kernel_stats;

th_kernel_stats th_kernel_stats_get(const th_context *ctx);

#endif

// Runs a trace text through the lowering alone: all its statements as one
// region, its kernels one after another.
#ifndef TH_TEST_LOWER_KIT_H
#define TH_TEST_LOWER_KIT_H

#include "lowering/lower.h"

typedef struct lower_kit {
  th_context *ctx;
  th_ir *ir;
  th_trace *trace; // as read
  th_trace *fused; // one region
  void *data[512]; // by value id of `fused`
  size_t bytes[512];
  bool owned[512];
  th_scalar symbols[16]; // by index
  int threads;           // pieces into which the outer loop is cut
  th_kernel_error error; // of the last run
} lower_kit;

// Reads and fuses; fails the test when that does not work.
void lower_kit_open(lower_kit *kit, const char *text);
void lower_kit_close(lower_kit *kit);
void lower_kit_symbol(lower_kit *kit, const char *name, int64_t value);
// Memory of an input; the kit does not copy it.
void lower_kit_input(lower_kit *kit, const char *name, void *data);
// Compiles and runs all kernels; false when one reports an error.
bool lower_kit_run(lower_kit *kit);
// Leaf number i of the result.
void *lower_kit_output(lower_kit *kit, uint32_t i);
uint32_t lower_kit_kernels(const lower_kit *kit);
// The LLVM IR of kernel i, for messages; lives as long as the kit.
const char *lower_kit_ir(lower_kit *kit, uint32_t i);

// A run of pseudo-random numbers in [-1, 1].
void lower_kit_fill(float *data, size_t count, uint32_t seed);

#endif

// The interface between generated code and the run time.  Objects on disk
// were made for one version of it: TH_KERNEL_VERSION is part of every key.
//
// A kernel covers [begin, end) of its outer loop; the run time cuts the loop
// and may call the pieces from several threads at once, each with an error
// of its own.  It neither allocates nor keeps anything between calls.
#ifndef TH_LOWERING_KERNEL_H
#define TH_LOWERING_KERNEL_H

#include <stdint.h>

#define TH_KERNEL_VERSION 1

// What stopped a kernel; the first of a call wins.  The numbers are part of
// the interface.
typedef enum th_kernel_fault {
  TH_KERNEL_OK = 0,
  TH_KERNEL_INDEX = 1,  // value is outside [-limit, limit)
  TH_KERNEL_DIVIDE = 2, // integer division by zero
  TH_KERNEL_ASSERT = 3, // a condition of the trace does not hold
} th_kernel_fault;

// Zeroed by the caller.  `stmt` is the number of the statement inside the
// region, from which the run time finds name and source line.
typedef struct th_kernel_error {
  int32_t code; // th_kernel_fault
  int32_t stmt;
  int64_t value;
  int64_t limit;
} th_kernel_error;

// buffers: one pointer for each buffer of the kernel, inputs before outputs,
// in the order of its canonical text.  symbols: the values of its symbolic
// sizes, then those of its scalar arguments (floats as bits).  Returns
// error->code.
typedef int (*th_kernel_fn)(void *const *buffers, const int64_t *symbols,
                            int64_t begin, int64_t end, th_kernel_error *error);

#endif

// Writes kernels for AArch64 with their inputs and the host's results, so that
// runner.c can call them under an emulator: FOLDER/<symbol>.o or .s, cases.inc
// with a row for each kernel, and data.bin.
//
// data.bin holds for each kernel a case_head, the numbers (int64_t), and each
// buffer as a case_buffer and its bytes: what it holds before the call for an
// input, after it for an output.
#ifndef TH_AARCH64_EMIT_H
#define TH_AARCH64_EMIT_H

#include "base/context.h"
#include "lowering/kernel.h"

#include <stdio.h>

typedef struct case_head {
  int64_t extent;
  int64_t number_count;
  int64_t buffer_count;
} case_head;

typedef struct case_buffer {
  int64_t dtype;
  int64_t count;
  int64_t is_output;
} case_buffer;

typedef struct emitter {
  th_context *ctx;
  const char *folder;
  FILE *table, *data;
  int count; // of kernels
} emitter;

// What the host made of a kernel.  `exact`: equal bits are wanted.
typedef struct emit_case {
  const char *name;
  char symbol[32];
  int64_t extent;
  const int64_t *numbers;
  int64_t number_count;
  void *const *data;
  const case_buffer *buffers;
  int64_t buffer_count;
  bool exact;
} emit_case;

// The name of the next kernel's function.
void emit_symbol(emitter *m, char symbol[32]);
// Bytes as FOLDER/<symbol><extension>.
th_status emit_file(emitter *m, const char *symbol, const char *extension,
                    const void *data, size_t size);
void emit_case_write(emitter *m, const emit_case *c);

// Each function of lowering/math.h.
th_status emit_math(emitter *m);
// The kernels of a trace that the fuse pass has made, as text.
th_status emit_trace(emitter *m, const char *path);

#endif

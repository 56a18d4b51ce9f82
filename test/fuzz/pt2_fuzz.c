// Fuzzes the .pt2 reader: opens bytes as an archive and reads whatever is in
// it.  Random bytes are seldom a zip file, so the corpus holds small archives.
#include "frontend/archive.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_program(th_context *ctx, th_pt2 *archive, const char *name) {
  const th_pt2_input *inputs = NULL;
  size_t count = 0;
  th_trace *trace = NULL;
  th_ir *ir = th_ir_new(ctx);
  if (ir && th_pt2_trace(archive, name, ir, &trace) == TH_OK &&
      th_trace_verify(trace) != TH_OK) {
    // What the reader accepts is valid.
    fprintf(stderr, "accepted, but:\n%s\n", th_diagnostics_all(ctx));
    abort();
  }
  th_ir_release(ir);
  if (th_pt2_inputs(archive, name, &inputs, &count) == TH_OK) {
    for (size_t i = 0; i < count && i < 8; i++) {
      th_tensor *weight = NULL;
      if (inputs[i].fqn &&
          th_pt2_weight(archive, name, inputs[i].fqn, &weight) == TH_OK) {
        th_tensor_release(weight);
      }
    }
  }
  th_tensor **samples = NULL;
  if (th_pt2_sample_inputs(archive, name, &samples, &count) == TH_OK) {
    th_pt2_free_tensors(samples, count);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  th_context *ctx = th_context_new();
  th_pt2 *archive = NULL;
  if (ctx && th_pt2_open_memory(ctx, "fuzz.pt2", data, size, NULL, NULL, NULL,
                                &archive) == TH_OK) {
    for (size_t i = 0; i < th_pt2_program_count(archive) && i < 4; i++) {
      fuzz_program(ctx, archive, th_pt2_program_name(archive, i));
    }
    th_pt2_free(archive);
  }
  th_context_free(ctx);
  return 0;
}

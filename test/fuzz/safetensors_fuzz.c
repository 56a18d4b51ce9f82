// Feeds bytes to the safetensors reader, takes every tensor out and reads it
// whole.  The bytes lie in a block of exactly their size, so that ASan sees a
// read behind them.
#include "thunder/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_read(th_safetensors *file) {
  for (size_t i = 0; i < th_safetensors_metadata_count(file); i++) {
    const char *key = th_safetensors_metadata_key(file, i);
    if (!th_safetensors_metadata(file, key)) {
      abort();
    }
  }
  for (size_t i = 0; i < th_safetensors_count(file); i++) {
    th_tensor *tensor;
    if (th_safetensors_tensor(file, th_safetensors_name(file, i), &tensor) !=
        TH_OK) {
      continue;
    }
    if (!th_tensor_equal(tensor, tensor)) {
      abort();
    }
    for (int64_t j = 0; j < th_tensor_numel(tensor) && j < 4096; j++) {
      (void)th_tensor_get(tensor, j);
    }
    th_tensor_release(tensor);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  th_context *ctx = th_context_new();
  char *bytes = malloc(size ? size : 1);
  if (!ctx || !bytes) {
    abort();
  }
  if (size) {
    memcpy(bytes, data, size);
  }
  th_safetensors *file;
  if (th_safetensors_open_memory(ctx, "fuzz", bytes, size, free, bytes,
                                 &file) == TH_OK) {
    fuzz_read(file);
    th_safetensors_free(file);
  } else {
    // One located error, no more.
    if (th_diagnostic_count(ctx) != 1) {
      abort();
    }
    free(bytes);
  }
  th_context_free(ctx);
  return 0;
}

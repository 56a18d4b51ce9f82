// Inputs of a call: from a file, from the archive, or random.
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_SYMBOLIC_SIZE = 8 }; // for a size that the model leaves open

void run_free_leaves(th_leaf *leaves, size_t count) {
  for (size_t i = 0; leaves && i < count; i++) {
    th_tensor_release(leaves[i].tensor);
  }
  free(leaves);
}

th_leaf run_constant_leaf(const th_callable *callable, size_t index) {
  return th_callable_input_constant(callable, index);
}

// ---- random

static uint64_t run_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u); // splitmix64, Steele 2014
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static void run_fill_random(th_tensor *t, int64_t limit, uint64_t *state) {
  int64_t n = th_tensor_numel(t);
  for (int64_t i = 0; i < n; i++) {
    if (th_dtype_is_float(th_tensor_dtype(t))) {
      double u = (double)(run_next(state) >> 11) * 0x1p-53;
      th_tensor_set(t, i, 2 * u - 1);
    } else {
      th_tensor_set_int(t, i, (int64_t)(run_next(state) % (uint64_t)limit));
    }
  }
}

static th_status run_random_leaf(th_context *ctx, const th_callable *c,
                                 size_t index, uint64_t *state, th_leaf *out) {
  int64_t dims[TH_MAX_RANK];
  int rank = th_callable_input_rank(c, index);
  *out = run_constant_leaf(c, index);
  if (th_callable_input_kind(c, index) != TH_LEAF_TENSOR) {
    return TH_OK;
  }
  for (int d = 0; d < rank; d++) {
    dims[d] = th_callable_input_dim(c, index, d, RUN_SYMBOLIC_SIZE);
  }
  *out = (th_leaf){.kind = TH_LEAF_TENSOR};
  th_dtype dtype = (th_dtype)th_callable_input_dtype(c, index);
  th_status status = th_tensor_new(ctx, dtype, rank, dims, &out->tensor);
  if (status == TH_OK) {
    run_fill_random(out->tensor,
                    dtype == TH_BOOL ? 2 : th_callable_input_limit(c, index),
                    state);
  }
  return status;
}

// ---- from a file

static th_status run_file_leaf(th_context *ctx, th_safetensors *file,
                               const th_callable *c, size_t index,
                               th_leaf *out) {
  char by_position[2][32];
  const char *names[3] = {by_position[0], by_position[1],
                          th_callable_input_name(c, index)};
  snprintf(by_position[0], sizeof by_position[0], "in.%zu", index);
  snprintf(by_position[1], sizeof by_position[1], "%zu", index);
  *out = run_constant_leaf(c, index);
  if (th_callable_input_kind(c, index) != TH_LEAF_TENSOR) {
    return TH_OK;
  }
  for (int i = 0; i < 3; i++) {
    if (th_safetensors_has(file, names[i])) {
      *out = (th_leaf){.kind = TH_LEAF_TENSOR};
      return th_safetensors_tensor(file, names[i], &out->tensor);
    }
  }
  (void)ctx;
  fprintf(stderr, "thunder-run: the file has no input %zu ('%s')\n", index,
          names[2]);
  return TH_NOT_FOUND;
}

// ---- from the archive

static th_status run_sample_leaves(th_pt2 *archive, const char *program,
                                   th_callable *c, th_leaf *leaves) {
  size_t n = th_callable_input_count(c), count = 0;
  th_tensor **tensors = NULL;
  th_status status = th_pt2_sample_inputs(archive, program, &tensors, &count);
  if (status == TH_OK && count != n) {
    fprintf(stderr, "thunder-run: the archive has %zu sample inputs, not %zu\n",
            count, n);
    status = TH_NOT_FOUND;
  }
  for (size_t i = 0; i < n && status == TH_OK; i++) {
    leaves[i] = run_constant_leaf(c, i);
    if (tensors[i] && th_callable_input_kind(c, i) == TH_LEAF_TENSOR) {
      leaves[i] = (th_leaf){.kind = TH_LEAF_TENSOR,
                            .tensor = th_tensor_retain(tensors[i])};
    }
  }
  th_pt2_free_tensors(tensors, count);
  return status;
}

static th_status run_fill_leaves(th_context *ctx, const run_options *o,
                                 th_callable *c, th_leaf *leaves) {
  th_safetensors *file = NULL;
  th_status status = TH_OK;
  uint64_t state = o->seed;
  if (o->inputs) {
    status = th_safetensors_open(ctx, o->inputs, &file);
  }
  size_t n = th_callable_input_count(c);
  for (size_t i = 0; i < n && status == TH_OK; i++) {
    status = file ? run_file_leaf(ctx, file, c, i, &leaves[i])
                  : run_random_leaf(ctx, c, i, &state, &leaves[i]);
  }
  th_safetensors_free(file);
  return status;
}

th_status run_make_inputs(th_context *ctx, const run_options *options,
                          th_pt2 *archive, const char *program,
                          th_callable *callable, th_leaf **out_leaves) {
  size_t n = th_callable_input_count(callable);
  th_leaf *leaves = calloc(n + 1, sizeof *leaves);
  if (!leaves) {
    return TH_NO_MEMORY;
  }
  *out_leaves = leaves;
  // Without a flag: what the archive brings, else random ones.
  bool sample = options->sample_inputs ||
                (archive && !options->inputs && !options->random_inputs);
  if (sample) {
    th_status status = run_sample_leaves(archive, program, callable, leaves);
    if (status == TH_OK || options->sample_inputs) {
      return status;
    }
    th_diagnostics_clear(ctx);
  }
  return run_fill_leaves(ctx, options, callable, leaves);
}

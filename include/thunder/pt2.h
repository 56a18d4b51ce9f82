// Models that PyTorch exported: .pt2 archives of torch.export.
//
// An archive holds programs (graphs with names such as "model" or "train_ir"),
// the weights of each, and sample inputs.  Both containers are read: the one of
// torch >= 2.8, and the flat one before it.  Weights stay where they lie in the
// file, which is mapped; a tensor keeps its file alive, so an archive may be
// freed before its tensors.  What else is kept is at most 64 times the size of
// the file.  (A trace made of a program is in proportion to it, but for
// recurrent layers, which are unrolled: up to 16384 cells each.)
//
// Errors in a file are one diagnostic each, with the archive, the entry and
// the place in it: TH_PARSE; what is legal and not supported: TH_UNSUPPORTED.
//
// A program is named by its name; NULL is the default one, everywhere.
//
// Threads: an archive belongs to its context.
#ifndef THUNDER_PT2_H
#define THUNDER_PT2_H

#include "thunder/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct th_pt2 th_pt2;

// Grows at its end; begins with its size, so that later fields default.
typedef struct th_pt2_options {
  size_t size; // sizeof(th_pt2_options)
  // Weights that an archive was saved without become small random numbers,
  // which depend on the seed and on their names only.
  bool random_weights;
  uint64_t seed;
} th_pt2_options;

#define TH_PT2_OPTIONS_INIT {sizeof(th_pt2_options), false, 0}

// `options` NULL: none.
//   TH_IO: cannot be read.  TH_PARSE: no archive, or a broken one.
//   TH_INVALID: the options have no size
TH_API th_status th_pt2_open(th_context *ctx, const char *path,
                             const th_pt2_options *options,
                             th_pt2 **out_archive);
// From memory, which stays the caller's until release(user) is called, once
// neither the archive nor a tensor needs it; `release` NULL: it outlives both.
// On an error it is not called.  `name` stands in diagnostics; NULL: "memory".
TH_API th_status th_pt2_open_memory(th_context *ctx, const char *name,
                                    const void *data, size_t size,
                                    th_deleter release, void *user,
                                    const th_pt2_options *options,
                                    th_pt2 **out_archive);
// NULL is legal.
TH_API void th_pt2_free(th_pt2 *archive);

// Programs, in the order of the archive.
TH_API size_t th_pt2_program_count(const th_pt2 *archive);
TH_API const char *th_pt2_program_name(const th_pt2 *archive, size_t index);
// The only program, else "train_ir", else the first.
TH_API const char *th_pt2_default_program(const th_pt2 *archive);

// What a program takes, in the order of its signature: parameters, buffers,
// constants, then the leaves of its arguments.
typedef enum th_pt2_input_kind {
  TH_PT2_USER,
  TH_PT2_PARAM,
  TH_PT2_BUFFER,
  TH_PT2_CONSTANT,
} th_pt2_input_kind;

typedef struct th_pt2_input {
  th_pt2_input_kind kind;
  const char *name; // in the graph
  const char *fqn;  // "layers.0.weight"; NULL for USER
  bool persistent;  // BUFFER: part of the state dict
  bool is_tensor;   // false: a number, string or None that was given at export
} th_pt2_input;

// *out_inputs lives as long as the archive.
TH_API th_status th_pt2_inputs(th_pt2 *archive, const char *program,
                               const th_pt2_input **out_inputs,
                               size_t *out_count);

// A parameter, buffer or constant; the caller releases it.  Tied names give
// tensors of one storage.
//   TH_NOT_FOUND: no such name
//   TH_INVALID: saved without weights, and random ones were not asked for
TH_API th_status th_pt2_weight(th_pt2 *archive, const char *program,
                               const char *fqn, th_tensor **out_tensor);

// From now on parameters and buffers of these names come from a safetensors
// file.  Dtypes and shapes must be those of the program that asks; names that
// no program has are an error.
TH_API th_status th_pt2_replace_weights(th_pt2 *archive, const char *path);

// The leaves of the arguments that the model was exported with; a leaf that is
// no tensor is NULL.  *out_count is 0 when the archive has none.  The caller
// frees tensors and array with th_pt2_free_tensors.
TH_API th_status th_pt2_sample_inputs(th_pt2 *archive, const char *program,
                                      th_tensor ***out_tensors,
                                      size_t *out_count);
TH_API void th_pt2_free_tensors(th_tensor **tensors, size_t count);

#ifdef __cplusplus
}
#endif
#endif

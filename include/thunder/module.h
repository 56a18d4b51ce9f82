// Modules: the parameters and buffers of a model, by fully qualified name
// ("layers.0.weight").
//
// A name is a path of submodules and the tensor's own name.  A name may be tied
// to another: both are then one tensor.  Parameters and persistent buffers are
// the state of a module, as PyTorch's state_dict has it.
//
// Threads: a module belongs to its context; while calls of a callable that was
// made from it are under way, tensors may not be set, loaded or tied.
#ifndef THUNDER_MODULE_H
#define THUNDER_MODULE_H

#include "thunder/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct th_module th_module;

TH_API th_status th_module_new(th_context *ctx, th_module **out_module);
// Counted: a callable holds its module.  NULL is legal for release.
TH_API th_module *th_module_retain(th_module *module);
TH_API void th_module_release(th_module *module);

// Sets or replaces; the module retains the tensor.
//   TH_INVALID: an empty part in the name, or the name of a submodule; the
//   tensor is NULL
TH_API th_status th_module_set_param(th_module *module, const char *fqn,
                                     th_tensor *tensor);
// `persistent`: part of the state.
TH_API th_status th_module_set_buffer(th_module *module, const char *fqn,
                                      th_tensor *tensor, bool persistent);
// A zeroed parameter of its own.
TH_API th_status th_module_add_param(th_module *module, const char *fqn,
                                     th_dtype dtype, int rank,
                                     const int64_t *dims);
// From now on `fqn` is another name of `target`.
//   TH_NOT_FOUND: there is no `target`
TH_API th_status th_module_tie(th_module *module, const char *fqn,
                               const char *target);
// Marks parameters whose names match a glob (* and ?) as not to be trained.
// Returns how many matched.
TH_API size_t th_module_freeze(th_module *module, const char *glob,
                               bool frozen);

// The tensor; borrowed.  NULL: no such name.
TH_API th_tensor *th_module_tensor(const th_module *module, const char *fqn);

typedef enum th_module_kind {
  TH_MODULE_PARAM,
  TH_MODULE_BUFFER,
} th_module_kind;

typedef struct th_module_entry {
  size_t size; // sizeof this, so that it may grow
  const char *fqn;
  th_module_kind kind;
  bool persistent;
  bool frozen;
  const char *tied_to; // NULL: a tensor of its own
  th_tensor *tensor;   // borrowed
} th_module_entry;

#define TH_MODULE_ENTRY_INIT                                                   \
  {sizeof(th_module_entry), NULL, TH_MODULE_PARAM, false, false, NULL, NULL}

// Names in the order in which they were set.
TH_API size_t th_module_count(const th_module *module);
// TH_NOT_FOUND: beyond the last.
TH_API th_status th_module_at(const th_module *module, size_t index,
                              th_module_entry *out_entry);
// The submodules directly below `fqn` ("" or NULL the top), in order; NULL
// beyond the last.  Valid until a name is added.
TH_API const char *th_module_child(const th_module *module, const char *fqn,
                                   size_t index);

// Reads the state from a safetensors file, which is mapped.  `strict`: names
// that the file lacks or the module does not know are an error.  Nothing is
// changed when it fails.
//   TH_SHAPE, TH_DTYPE: a tensor differs from the module's
//   TH_NOT_FOUND: a name is missing on one side
TH_API th_status th_module_load(th_module *module, const char *path,
                                bool strict);
// Writes the state; of tied names the first one alone, as safetensors has it.
TH_API th_status th_module_save(const th_module *module, const char *path);
// Makes a module of everything in a safetensors file, as parameters.
TH_API th_status th_module_open(th_context *ctx, const char *path,
                                th_module **out_module);

#ifdef __cplusplus
}
#endif
#endif

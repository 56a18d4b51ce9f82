// The inside of a module.
#ifndef TH_MODULE_H
#define TH_MODULE_H

#include "base/context.h"
#include "thunder/module.h"

#include <stdatomic.h>

typedef struct th_module_slot th_module_slot;
struct th_module_slot {
  const char *fqn;
  th_module_kind kind;
  bool persistent, frozen;
  th_module_slot *tied; // NULL: a tensor of its own
  th_tensor *tensor;    // retained; NULL when tied
};

struct th_module {
  atomic_uint refs;
  th_context *ctx;
  th_arena arena;
  th_map slots;    // FQN -> th_module_slot
  th_map children; // names of submodules that were asked for
  // Counts every change of a tensor, so that guards look at tensors once.
  atomic_uint_fast64_t version;
};

// The slot that holds the tensor of this name; NULL: none.
th_module_slot *th_module_find(const th_module *module, const char *fqn);

#endif

// oneDNN, loaded when it is first wanted: a program that asks for `host` alone
// does not pay for it.  Its status codes become diagnostics here.
#ifndef TH_EXEC_ONEDNN_LIBRARY_H
#define TH_EXEC_ONEDNN_LIBRARY_H

#include "exec/executor.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#if DNNL_VERSION_MAJOR != 2
#error "lib/exec/onednn*.c are written for the C API of oneDNN 2"
#endif

// name
#define TH_ONEDNN_MAP(X)                                                       \
  X(engine_create)                                                             \
  X(memory_create)                                                             \
  X(memory_desc_get_size)                                                      \
  X(memory_desc_init_by_strides)                                               \
  X(memory_desc_equal)                                                         \
  X(memory_desc_init_by_tag)                                                   \
  X(memory_destroy)                                                            \
  X(matmul_desc_init)                                                          \
  X(post_ops_append_binary)                                                    \
  X(post_ops_append_eltwise)                                                   \
  X(post_ops_append_sum)                                                       \
  X(dilated_convolution_forward_desc_init)                                     \
  X(post_ops_create)                                                           \
  X(post_ops_destroy)                                                          \
  X(primitive_attr_create)                                                     \
  X(primitive_attr_destroy)                                                    \
  X(primitive_attr_set_post_ops)                                               \
  X(primitive_attr_set_scratchpad_mode)                                        \
  X(primitive_create)                                                          \
  X(primitive_desc_create)                                                     \
  X(primitive_desc_destroy)                                                    \
  X(primitive_desc_query)                                                      \
  X(primitive_desc_query_md)                                                   \
  X(primitive_destroy)                                                         \
  X(reorder_primitive_desc_create)                                             \
  X(sgemm)                                                                     \
  X(stream_wait)                                                               \
  X(primitive_execute)                                                         \
  X(status2str)                                                                \
  X(stream_create)                                                             \
  X(stream_destroy)

typedef struct th_onednn {
#define X(name) __typeof__(&dnnl_##name) name;
  TH_ONEDNN_MAP(X)
#undef X
  dnnl_engine_t engine;
  const char *missing; // why it cannot be used; NULL: it can
} th_onednn;

// The library of the process; never NULL.  Any thread.
const th_onednn *th_onednn_get(void);

// Reports what a function of the library returned; `call` begins with its name.
th_status th_onednn_error(th_run *run, const char *call, dnnl_status_t status);

// Returns from the calling function when the library's `call` fails.
#define TH_ONEDNN_TRY(run, call)                                               \
  do {                                                                         \
    dnnl_status_t dnnl_status_ = th_onednn_get()->call;                        \
    if (dnnl_status_ != dnnl_success) {                                        \
      return th_onednn_error(run, #call, dnnl_status_);                        \
    }                                                                          \
  } while (0)

#endif

// What the files aten*.c share.
#ifndef TH_FRONTEND_ATEN_H
#define TH_FRONTEND_ATEN_H

#include "frontend/graph.h"

// ---- functions of templates (aten_helpers.c)

#define TH_ATEN_HELPERS(X)                                                     \
  X(times)    /* x times a number; x itself for 1 */                           \
  X(or)       /* the first unless it is None */                                \
  X(blend)    /* beta * self + alpha * x; self unread when beta is 0 */        \
  X(int)      /* a boolean as a number */                                      \
  X(dims)     /* a dim as a list; None stays */                                \
  X(dtype)    /* the dtype of a tensor */                                      \
  X(shape)    /* the sizes of a tensor */                                      \
  X(ones)     /* the dims of size 1 */                                         \
  X(channels) /* a vector along dimension 1 of a tensor */                     \
  X(wide)     /* the first in the shape that both broadcast to */              \
  X(isclose)  /* (self, other, rtol, atol, equal_nan) */                       \
  X(diff)     /* (self, n, dim, prepend, append) */                            \
  X(inner)    /* products over the last dims */                                \
  X(reduce)   /* by the argument 'reduction' */                                \
  X(nothing)

typedef th_arg (*th_aten_helper)(th_call *call, const th_arg *args,
                                 uint32_t count);
#define HELPER(name)                                                           \
  th_arg th_aten_at_##name(th_call *call, const th_arg *args, uint32_t count);
TH_ATEN_HELPERS(HELPER)
#undef HELPER

// ---- for handlers

#define ATEN_FN(target, function) th_status th_##function(th_call *call);
#include "frontend/aten.def"

// A tensor argument as autocast wants it for this target.
th_value *th_autocast(th_call *call, th_value *value);

th_status th_call_return_stmt(th_call *call, const th_stmt *stmt);
// Fresh memory, whatever the schema says of views.
th_status th_call_return_copy(th_call *call, th_value *value);

// The base name of the target: "add" of "aten.add_.Tensor".
bool th_call_is(const th_call *call, const char *packet);

// The constants of a list argument; false: not a list of constants.
bool th_call_ints(const th_call *call, const char *name, int64_t *out,
                  uint32_t cap, uint32_t *out_count);
// A dim, wrapped; -1 when it is out of range.
int th_call_dim(const th_call *call, const char *name, uint8_t rank);
// Sizes of a value as an argument.
th_arg th_call_shape(th_call *call, const th_value *value);
// sum, mean or nothing, by the argument 'reduction' (2, 1, 0).
th_value *th_call_reduce(th_call *call, th_value *value);
th_status th_call_unsupported(th_call *call, const char *what);

#endif

// Weights of linear layers in fewer bits: chosen when a program is loaded, so
// that a step which reads each weight once reads half or a quarter as much.
#ifndef TH_QUANTIZE_H
#define TH_QUANTIZE_H

#include "ir/trace.h"
#include "tensor/tensor.h"

// `in` with weights of linear layers as BF16 or I8: f32 parameters of two
// constant sizes, 4096 elements at least, which linear alone reads, as its
// weight.  linear(x, w, b) becomes
//   linear(x, to(w, f32), b)                      BF16
//   add(mul(linear(x, to(w, f32)), scale), b)     I8, symmetric for each row
// with `scale` a new parameter "<w>.scale" of one f32 for each row.  Any
// executor runs what comes out.
th_status th_quantize_trace(th_ir *ir, const th_trace *in, th_dtype dtype,
                            th_trace **out);

// Is `input` the scale of another one, named in *out_fqn (of the ir)?
bool th_quantize_is_scale(const th_trace *trace, const th_value *input,
                          const char **out_fqn);

// Errors of what was rounded, against f32.
typedef struct th_quantize_error {
  double sum, size; // of |w - rounded| and of |w|
  double largest;   // |w - rounded| as a share of the largest |w| of its row
  uint64_t tensors;
} th_quantize_error;

// Fills `out`, a row-major tensor of the weight's sizes, as a program with such
// an input reads it.
//   TH_INVALID: I8, and an element is not finite
th_status th_quantize_weight(th_context *ctx, const char *fqn,
                             const th_tensor *weight, th_quantize_error *error,
                             th_tensor *out);
th_status th_quantize_scale(th_context *ctx, const th_tensor *weight,
                            th_tensor **out);

#endif

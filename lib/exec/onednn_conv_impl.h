// A region of convolutions, as it is read from the trace and run.
#ifndef TH_EXEC_ONEDNN_CONV_IMPL_H
#define TH_EXEC_ONEDNN_CONV_IMPL_H

#include "exec/onednn_conv.h"
#include "exec/onednn_library.h"
#include "exec/onednn_table.h"

enum { TH_ONEDNN_CONV_STEPS = 8 };

typedef struct th_onednn_conv_step {
  int weight, bias, residual; // arguments of the region; -1: none
  int norm[4];                // weight, bias, mean, variance
  bool is_normed, is_clipped;
  double eps;
  dnnl_dims_t stride, padding, dilation;
  int64_t groups;
} th_onednn_conv_step;

// Weights and bias as a primitive reads them.
typedef struct th_onednn_conv_pack {
  struct th_onednn_conv_pack *next;
  uint32_t step;
  dnnl_memory_desc_t desc;
  void *weights;
  float *bias;
} th_onednn_conv_pack;

struct th_onednn_convs {
  int x;
  bool lays_out; // the result has its channels last
  uint32_t count;
  th_onednn_conv_step steps[TH_ONEDNN_CONV_STEPS];
  th_onednn_table table; // its lock also guards the packs
  th_onednn_conv_pack *packs;
};

// onednn_conv_run.c
void th_onednn_conv_plan_free(th_onednn_entry *entry);
void th_onednn_conv_pack_free(th_onednn_conv_pack *pack); // NULL is legal

#endif

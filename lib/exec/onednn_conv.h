// Convolutions as oneDNN runs them, one after the other: a region of them keeps
// what lies between two in the order that the library likes.
#ifndef TH_EXEC_ONEDNN_CONV_H
#define TH_EXEC_ONEDNN_CONV_H

#include "exec/executor.h"

// A convolution that the library takes?
bool th_onednn_conv_takes(const th_stmt *stmt, const char **reason);

// May `next` join the chain, which begins with a convolution?  After each one
// may come, in this order: batch norm of constant statistics, a sum with
// another tensor, relu; then the next one.
bool th_onednn_conv_follows(const th_stmt *const *chain, uint32_t count,
                            const th_stmt *next, const char **reason);

// th_executor.lay_out: the channels of a convolution's result come last in
// memory where only convolutions and their sums read it.
th_value *th_onednn_conv_lay_out(th_builder *b, th_value *out,
                                 const th_stmt *const *readers, uint32_t count);

// A region whose body is such a chain.
typedef struct th_onednn_convs th_onednn_convs;
th_status th_onednn_convs_new(th_context *ctx, const th_stmt *region,
                              th_onednn_convs **out_convs);
void th_onednn_convs_free(th_onednn_convs *convs); // NULL is legal

// May be called by several threads at once.
th_status th_onednn_convs_run(th_run *run, th_onednn_convs *convs);

#endif

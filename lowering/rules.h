// The rules that say how one element of a result is made of elements of the
// operands, and the list of which operation has which.  Private to lowering.
#ifndef TH_LOWERING_RULES_H
#define TH_LOWERING_RULES_H

#include "lowering/nest.h"

// RULE(operation, rule): other operations with the trait TH_EW are elementwise.
#define TH_RULE_MAP(RULE)                                                      \
  RULE(to, elementwise)                                                        \
  RULE(where, where)                                                           \
  RULE(reshape, reshape)                                                       \
  RULE(permute, permute)                                                       \
  RULE(expand, expand)                                                         \
  RULE(squeeze, squeeze)                                                       \
  RULE(unsqueeze, unsqueeze)                                                   \
  RULE(slice, slice)                                                           \
  RULE(select, select)                                                         \
  RULE(split, split)                                                           \
  RULE(diagonal, diagonal)                                                     \
  RULE(unfold, unfold)                                                         \
  RULE(as_strided, as_strided)                                                 \
  RULE(detach, same)                                                           \
  RULE(clone, same)                                                            \
  RULE(cat, cat)                                                               \
  RULE(flip, flip)                                                             \
  RULE(pad, pad)                                                               \
  RULE(full, full)                                                             \
  RULE(arange, arange)                                                         \
  RULE(sum, reduction)                                                         \
  RULE(prod, reduction)                                                        \
  RULE(amax, reduction)                                                        \
  RULE(amin, reduction)                                                        \
  RULE(any, reduction)                                                         \
  RULE(all, reduction)                                                         \
  RULE(argmax, arg_reduction)                                                  \
  RULE(argmin, arg_reduction)                                                  \
  RULE(matmul, matmul)                                                         \
  RULE(linear, linear)                                                         \
  RULE(grouped_mm, grouped_mm)                                                 \
  RULE(convolution, convolution)                                               \
  RULE(max_pool, max_pool)                                                     \
  RULE(avg_pool, avg_pool)                                                     \
  RULE(adaptive_avg_pool, adaptive_avg_pool)                                   \
  RULE(upsample_nearest, upsample_nearest)                                     \
  RULE(embedding, embedding)                                                   \
  RULE(gather, gather)                                                         \
  RULE(index_select, index_select)                                             \
  RULE(index, index)                                                           \
  RULE(slice_scatter, slice_scatter)                                           \
  RULE(select_scatter, select_scatter)                                         \
  RULE(diagonal_scatter, diagonal_scatter)

#define RULE(op, rule)                                                         \
  th_node *th_rule_##rule(th_nest *n, const th_stmt *stmt, uint16_t out,       \
                          const th_expr *const *index);
TH_RULE_MAP(RULE)
#undef RULE

// Statements that store by themselves.
//   SPECIAL(operation, function)
#define TH_SPECIAL_MAP(SPECIAL)                                                \
  SPECIAL(scatter, scatter)                                                    \
  SPECIAL(scatter_add, scatter)                                                \
  SPECIAL(index_put, index_put)                                                \
  SPECIAL(index_copy, index_copy)                                              \
  SPECIAL(index_add, index_copy)                                               \
  SPECIAL(as_strided_scatter, as_strided_scatter)                              \
  SPECIAL(cumsum, scan)                                                        \
  SPECIAL(cumprod, scan)                                                       \
  SPECIAL(sort, sort)                                                          \
  SPECIAL(histc, histc)

#define SPECIAL(op, function)                                                  \
  void th_special_##function(th_nest *n, const th_stmt *stmt);
TH_SPECIAL_MAP(SPECIAL)
#undef SPECIAL

// Start of a slice inside [0, size]; NULL is 0.
const th_expr *th_rule_clamped(th_nest *n, const th_expr *index,
                               const th_expr *size, const th_expr *missing);
// Element index of x for element `index` of index(x, indices): the dimensions
// with an index tensor are read from memory and checked.
void th_rule_advanced(th_nest *n, const th_stmt *stmt, const th_value *x,
                      const th_arg *indices, uint8_t rank,
                      const th_expr *const *index, const th_expr **out_index);
// The shape that advanced indices and the other dimensions give together.
uint8_t th_rule_advanced_shape(th_nest *n, const th_value *x,
                               const th_arg *indices, const th_expr **out_dims);

static inline const th_value *th_operand(const th_stmt *stmt, uint16_t arg) {
  return stmt->args[arg].kind == TH_ARG_VALUE ? stmt->args[arg].value : NULL;
}
static inline th_dtype th_result_dtype(const th_stmt *stmt, uint16_t out) {
  return stmt->outs[out] ? stmt->outs[out]->type.dtype
                         : stmt->args[0].value->type.dtype;
}

#endif

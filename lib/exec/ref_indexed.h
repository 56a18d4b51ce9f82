// x[indices], as reads and writes see it.
//
// The index tensors, broadcast to one shape, replace the dimensions that they
// index.  That shape stands where the first of them is when they are
// neighbours, else in front:
//
//   x[a, b, c, d]   indices None, [i, j], [j], None  ->  [a, i, j, d]
//                   indices [j], None, [i, j], None  ->  [i, j, b, d]
#ifndef TH_EXEC_REF_INDEXED_H
#define TH_EXEC_REF_INDEXED_H

#include "exec/ref.h"

typedef struct th_ref_indices {
  const th_view *x;
  int at; // where the joined dimensions stand
  int joined_rank;
  int64_t joined[TH_MAX_RANK];
  const int64_t *index[TH_MAX_RANK]; // by dimension of x; NULL: not indexed
  int rank;                          // of the whole
  int64_t dims[2 * TH_MAX_RANK];
} th_ref_indices;

th_status th_ref_indexed(th_run *run, const th_view *x, uint32_t list_arg,
                         th_ref_indices *out);
// Where in x an element of the whole lies; an error outside of x.
th_status th_ref_indexed_offset(th_run *run, const th_ref_indices *in,
                                const int64_t *position, int64_t *out_offset);

#endif

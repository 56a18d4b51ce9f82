// What the files of the `ref` executor share.
//
// Every operand is first packed: copied row-major into double or int64_t, by
// way of the dtype in which the statement computes.  The loops then see flat
// arrays of two types only, and the result is unpacked into the strides that
// the program wants.  Slow, short, and easy to believe.
#ifndef TH_EXEC_REF_H
#define TH_EXEC_REF_H

#include "exec/executor.h"
#include "ir/infer.h"
#include "tensor/element.h"

#define TH_REF(name) th_status th_ref_run_##name(th_run *run)

int64_t th_ref_numel(const th_view *view);
// Elements of dims[from .. to).
int64_t th_ref_extent(const th_view *view, int from, int to);

static inline bool th_ref_is_float(th_dtype dtype) {
  return th_dtype_is_float(dtype);
}
// F64 for floats, I64 for everything else.
static inline th_dtype th_ref_wide(th_dtype dtype) {
  return th_ref_is_float(dtype) ? TH_F64 : TH_I64;
}

// `view` broadcast to dims, as `wide` (F64 or I64), each element converted to
// `via` first.  NULL: memory is out (reported).
void *th_ref_pack_to(th_run *run, const th_view *view, int rank,
                     const int64_t *dims, th_dtype via, th_dtype wide);
// The view as it is, in its own wide type.
void *th_ref_pack(th_run *run, const th_view *view);
double *th_ref_pack_floats(th_run *run, const th_view *view);
int64_t *th_ref_pack_ints(th_run *run, const th_view *view);

// Row-major `data` of type F64 or I64 into the result, converted to `via` and
// then to the result's dtype.
void th_ref_unpack(const th_view *out, th_dtype wide, const void *data,
                   th_dtype via);

void *th_ref_alloc(th_run *run, int64_t count, size_t size);

// A dimension argument, wrapped.
int th_ref_dim(const th_run *run, uint32_t arg, int rank);

// Row-major index -> position; strides in elements.
void th_ref_unravel(int64_t index, int rank, const int64_t *dims,
                    int64_t *out_position);
int64_t th_ref_offset(const th_view *view, const int64_t *position);

// Elements of any dtype, moved as bytes.
static inline char *th_ref_at(const th_view *view, int64_t offset) {
  return (char *)view->data + offset * (int64_t)th_dtype_size(view->dtype);
}
void th_ref_move(const th_view *to, int64_t to_offset, const th_view *from,
                 int64_t from_offset);
// Copies between equal shapes, same dtype.
void th_ref_copy(const th_view *to, const th_view *from);

// Sizes that the trace could not compare are compared here, before memory is
// read by them.  fits: `view` broadcasts to dims.  inside: same rank, and no
// dimension but `except` is larger.
th_status th_ref_fits(th_run *run, const th_view *view, int rank,
                      const int64_t *dims);
th_status th_ref_inside(th_run *run, const th_view *view, int rank,
                        const int64_t *dims, int except);

// Fills with a number argument.
void th_ref_fill(const th_run *run, uint32_t arg, const th_view *out);

// The next position in row-major order; false after the last one.
static inline bool th_ref_next(int64_t *position, int rank,
                               const int64_t *dims) {
  for (int i = rank; i-- > 0;) {
    if (++position[i] < dims[i]) {
      return true;
    }
    position[i] = 0;
  }
  return false;
}

// A window with sizes and strides of its own, to be changed at will.  It points
// into itself: it is filled in place and never copied.
typedef struct th_ref_box {
  th_view view;
  int64_t dims[TH_MAX_RANK], strides[TH_MAX_RANK];
} th_ref_box;

void th_ref_box_like(th_ref_box *box, const th_view *view);
void th_ref_box_dense(th_ref_box *box, th_dtype dtype, void *data, int rank,
                      const int64_t *dims);
// Row-major copy of a view.
th_status th_ref_flatten(th_run *run, const th_view *view, th_ref_box *out);
// Dimension `from` becomes dimension `to`.  A 0-dim view first gets one of 1.
void th_ref_box_move(th_ref_box *box, int from, int to);
// Elements [start, start + size * step) of a dimension.
void th_ref_box_slice(th_ref_box *box, int dim, int64_t start, int64_t size,
                      int64_t step);
void th_ref_box_drop(th_ref_box *box, int dim);

// An index in [-size, size), wrapped; an error outside.
th_status th_ref_index(th_run *run, int64_t index, int64_t size,
                       int64_t *out_index);

#define CLAIM(op, run) TH_REF(run);
#include "exec/ref.def"
#undef CLAIM

#endif

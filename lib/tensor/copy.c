// Work on all elements: copies, conversions, filling, comparing.
//
// Everything walks two tensors of one shape in row-major order.  Before that,
// dimensions of size 1 are dropped and neighbours that lie one after the other
// in both tensors are merged, so a contiguous tensor of any rank is one row;
// what remains is a loop over rows and a function for a row.
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
  COPY_TILE = 32,   // elements on a side
  COPY_BLOCK = 256, // elements compared at a time
};

// Two tensors as rows; steps in bytes.
typedef struct copy_walk {
  int rank; // at least 1
  int64_t dims[TH_MAX_RANK + 1];
  int64_t to_steps[TH_MAX_RANK + 1];
  int64_t from_steps[TH_MAX_RANK + 1];
} copy_walk;

// A row of `count` elements that starts at the row-major index `first`; false
// stops the walk.
typedef bool (*copy_row)(void *user, char *to, int64_t to_step,
                         const char *from, int64_t from_step, int64_t count,
                         int64_t first);

static copy_walk copy_walk_of(const th_tensor *to, const th_tensor *from) {
  int64_t to_size = (int64_t)th_dtype_size(to->dtype);
  int64_t from_size = (int64_t)th_dtype_size(from->dtype);
  copy_walk walk = {.rank = 0};
  for (int i = 0; i < to->rank; i++) {
    int64_t to_step = to->strides[i] * to_size;
    int64_t from_step = from->strides[i] * from_size;
    int last = walk.rank - 1;
    if (to->dims[i] == 1) {
      continue;
    }
    if (walk.rank > 0 && walk.to_steps[last] == to_step * to->dims[i] &&
        walk.from_steps[last] == from_step * to->dims[i]) {
      walk.dims[last] *= to->dims[i];
    } else {
      last = walk.rank++;
      walk.dims[last] = to->dims[i];
    }
    walk.to_steps[last] = to_step;
    walk.from_steps[last] = from_step;
  }
  if (walk.rank == 0) {
    walk = (copy_walk){.rank = 1, .dims = {1}};
  }
  return walk;
}

static void copy_walk_rows(const th_tensor *to, const th_tensor *from,
                           copy_row row, void *user) {
  if (th_tensor_numel(to) == 0) {
    return;
  }
  copy_walk walk = copy_walk_of(to, from);
  int inner = walk.rank - 1;
  int64_t index[TH_MAX_RANK + 1] = {0};
  char *to_at = to->data;
  const char *from_at = from->data;
  int64_t first = 0;
  for (;;) {
    if (!row(user, to_at, walk.to_steps[inner], from_at, walk.from_steps[inner],
             walk.dims[inner], first)) {
      return;
    }
    first += walk.dims[inner];
    int i = inner - 1;
    for (; i >= 0 && ++index[i] == walk.dims[i]; i--) {
      to_at -= (walk.dims[i] - 1) * walk.to_steps[i];
      from_at -= (walk.dims[i] - 1) * walk.from_steps[i];
      index[i] = 0;
    }
    if (i < 0) {
      return;
    }
    to_at += walk.to_steps[i];
    from_at += walk.from_steps[i];
  }
}

typedef struct copy_dtypes {
  th_dtype to, from;
} copy_dtypes;

static bool copy_row_convert(void *user, char *to, int64_t to_step,
                             const char *from, int64_t from_step, int64_t count,
                             int64_t first) {
  (void)first;
  const copy_dtypes *dtypes = user;
  th_convert_row(dtypes->to, to, to_step, dtypes->from, from, from_step, count);
  return true;
}

#define COPY_ROW(size)                                                         \
  static bool copy_row_##size(void *user, char *to, int64_t to_step,           \
                              const char *from, int64_t from_step,             \
                              int64_t count, int64_t first) {                  \
    (void)user;                                                                \
    (void)first;                                                               \
    if (to_step == (size) && from_step == (size)) {                            \
      memcpy(to, from, (size_t)count * (size));                                \
      return true;                                                             \
    }                                                                          \
    for (int64_t i = 0; i < count; i++) {                                      \
      memcpy(to + i * to_step, from + i * from_step, size);                    \
    }                                                                          \
    return true;                                                               \
  }
COPY_ROW(1)
COPY_ROW(2)
COPY_ROW(4)
COPY_ROW(8)

// The dimension, not the last one, along which `from` is read byte after byte
// while the last one jumps; -1 when rows are read well as they are.
static int copy_turned_dimension(const copy_walk *walk, int64_t size) {
  int inner = walk->rank - 1;
  if (walk->to_steps[inner] != size || walk->from_steps[inner] < 64) {
    return -1;
  }
  for (int i = 0; i < inner; i++) {
    if (walk->from_steps[i] == size) {
      return i;
    }
  }
  return -1;
}

// Copies the tile with this number; `counts` has the tiles of each dimension.
static void copy_tile(const copy_walk *walk, const int64_t *counts, int turned,
                      int64_t number, copy_row row, char *to,
                      const char *from) {
  int inner = walk->rank - 1;
  int64_t rows = 0;
  int64_t width = 0;
  for (int i = inner; i >= 0; i--) {
    bool tiled = i == inner || i == turned;
    int64_t at = number % counts[i] * (tiled ? COPY_TILE : 1);
    int64_t left = walk->dims[i] - at;
    number /= counts[i];
    to += at * walk->to_steps[i];
    from += at * walk->from_steps[i];
    if (i == inner) {
      width = left < COPY_TILE ? left : COPY_TILE;
    } else if (i == turned) {
      rows = left < COPY_TILE ? left : COPY_TILE;
    }
  }
  for (int64_t i = 0; i < rows; i++) {
    row(NULL, to + i * walk->to_steps[turned], walk->to_steps[inner],
        from + i * walk->from_steps[turned], walk->from_steps[inner], width, 0);
  }
}

// Elements as tiles of 32 by 32 over the last dimension and `turned`, so that
// both sides stay in the cache.
static void copy_tiles(const copy_walk *walk, int turned, copy_row row,
                       const th_tensor *to, const th_tensor *from) {
  int inner = walk->rank - 1;
  int64_t counts[TH_MAX_RANK + 1] = {0};
  int64_t total = 1;
  for (int i = 0; i <= inner; i++) {
    bool tiled = i == inner || i == turned;
    counts[i] =
        tiled ? (walk->dims[i] + COPY_TILE - 1) / COPY_TILE : walk->dims[i];
    total *= counts[i];
  }
  for (int64_t number = 0; number < total; number++) {
    copy_tile(walk, counts, turned, number, row, to->data, from->data);
  }
}

// Between tensors of one shape that do not overlap.
static void copy_elements(const th_tensor *to, const th_tensor *from) {
  static const copy_row plain[] = {
      [1] = copy_row_1, [2] = copy_row_2, [4] = copy_row_4, [8] = copy_row_8};
  if (to->dtype != from->dtype) {
    copy_dtypes dtypes = {to->dtype, from->dtype};
    copy_walk_rows(to, from, copy_row_convert, &dtypes);
    return;
  }
  size_t size = th_dtype_size(to->dtype);
  copy_walk walk = copy_walk_of(to, from);
  int turned = copy_turned_dimension(&walk, (int64_t)size);
  if (turned < 0 || th_tensor_numel(to) == 0) {
    copy_walk_rows(to, from, plain[size], NULL);
  } else {
    copy_tiles(&walk, turned, plain[size], to, from);
  }
}

static bool copy_same_shape(const th_tensor *a, const th_tensor *b) {
  return a->rank == b->rank &&
         (a->rank == 0 ||
          memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

static th_status copy_check_shapes(th_context *ctx, const char *what,
                                   const th_tensor *a, const th_tensor *b) {
  if (copy_same_shape(a, b)) {
    return TH_OK;
  }
  char a_text[512];
  char b_text[512];
  return th_error(ctx, TH_SHAPE, TH_NOWHERE, "%s: shapes differ: %s and %s",
                  what, th_tensor_describe(a, a_text, sizeof a_text),
                  th_tensor_describe(b, b_text, sizeof b_text));
}

th_status th_tensor_check_target(th_context *ctx, const char *what,
                                 const th_tensor *to) {
  if (to->storage->is_read_only) {
    return th_error(ctx, TH_INVALID, TH_NOWHERE, "%s: the tensor is read-only",
                    what);
  }
  for (int i = 0; i < to->rank; i++) {
    if (to->dims[i] > 1 && to->strides[i] == 0) {
      return th_error(ctx, TH_INVALID, TH_NOWHERE,
                      "%s: dimension %d repeats one element", what, i);
    }
  }
  return TH_OK;
}

th_status th_tensor_to_dtype(th_context *ctx, const th_tensor *tensor,
                             th_dtype dtype, th_tensor **out_tensor) {
  TH_TRY(th_tensor_empty(ctx, dtype, tensor->rank, tensor->dims, out_tensor));
  copy_elements(*out_tensor, tensor);
  return TH_OK;
}

th_status th_tensor_clone(th_context *ctx, const th_tensor *tensor,
                          th_tensor **out_tensor) {
  return th_tensor_to_dtype(ctx, tensor, tensor->dtype, out_tensor);
}

th_status th_tensor_contiguous(th_context *ctx, th_tensor *tensor,
                               th_tensor **out_tensor) {
  if (th_tensor_is_contiguous(tensor)) {
    *out_tensor = th_tensor_retain(tensor);
    return TH_OK;
  }
  return th_tensor_clone(ctx, tensor, out_tensor);
}

th_status th_tensor_copy(th_context *ctx, th_tensor *to,
                         const th_tensor *from) {
  TH_TRY(copy_check_shapes(ctx, "copy", to, from));
  TH_TRY(th_tensor_check_target(ctx, "copy", to));
  if (!th_tensor_overlaps(to, from)) {
    copy_elements(to, from);
    return TH_OK;
  }
  th_tensor *apart;
  TH_TRY(th_tensor_clone(ctx, from, &apart));
  copy_elements(to, apart);
  th_tensor_release(apart);
  return TH_OK;
}

// `value` has rank 0 and the dtype of `tensor`: it is read with strides of 0.
static th_status copy_fill(th_context *ctx, th_tensor *tensor,
                           const void *value) {
  TH_TRY(th_tensor_check_target(ctx, "fill", tensor));
  th_tensor repeated = *tensor;
  memset(repeated.strides, 0, sizeof repeated.strides);
  repeated.data = (char *)(uintptr_t)value;
  copy_elements(tensor, &repeated);
  return TH_OK;
}

th_status th_tensor_fill(th_context *ctx, th_tensor *tensor, double value) {
  char element[8];
  th_element_set(tensor->dtype, element, value);
  return copy_fill(ctx, tensor, element);
}

th_status th_tensor_fill_int(th_context *ctx, th_tensor *tensor,
                             int64_t value) {
  char element[8];
  th_element_set_int(tensor->dtype, element, value);
  return copy_fill(ctx, tensor, element);
}

static char *copy_element_at(const th_tensor *tensor, int64_t index) {
  TH_ASSERT(index >= 0 && index < th_tensor_numel(tensor));
  int64_t offset = 0;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    offset += index % tensor->dims[i] * tensor->strides[i];
    index /= tensor->dims[i];
  }
  return tensor->data + offset * (int64_t)th_dtype_size(tensor->dtype);
}

double th_tensor_get(const th_tensor *tensor, int64_t index) {
  return th_element_get(tensor->dtype, copy_element_at(tensor, index));
}

int64_t th_tensor_get_int(const th_tensor *tensor, int64_t index) {
  return th_element_get_int(tensor->dtype, copy_element_at(tensor, index));
}

void th_tensor_set(th_tensor *tensor, int64_t index, double value) {
  th_element_set(tensor->dtype, copy_element_at(tensor, index), value);
}

void th_tensor_set_int(th_tensor *tensor, int64_t index, int64_t value) {
  th_element_set_int(tensor->dtype, copy_element_at(tensor, index), value);
}

typedef struct copy_equal {
  size_t size;
  bool equal;
} copy_equal;

static bool copy_row_equal(void *user, char *to, int64_t to_step,
                           const char *from, int64_t from_step, int64_t count,
                           int64_t first) {
  (void)first;
  copy_equal *state = user;
  int64_t size = (int64_t)state->size;
  if (to_step == size && from_step == size) {
    state->equal = memcmp(to, from, (size_t)(count * size)) == 0;
    return state->equal;
  }
  for (int64_t i = 0; i < count && state->equal; i++) {
    state->equal =
        memcmp(to + i * to_step, from + i * from_step, state->size) == 0;
  }
  return state->equal;
}

bool th_tensor_equal(const th_tensor *a, const th_tensor *b) {
  if (a->dtype != b->dtype || !copy_same_shape(a, b)) {
    return false;
  }
  copy_equal state = {th_dtype_size(a->dtype), true};
  copy_walk_rows(a, b, copy_row_equal, &state);
  return state.equal;
}

typedef struct copy_compare {
  th_dtype dtype;
  double rtol, atol;
  th_difference *out;
} copy_compare;

// The error between two floats; 0 where they count as equal.
static double copy_float_error(double got, double want) {
  if (isnan(got) || isnan(want)) {
    return isnan(got) && isnan(want) ? 0 : INFINITY;
  }
  return got == want ? 0 : fabs(got - want);
}

// One element: off or not, and the largest error so far.
static void copy_note_error(th_difference *out, bool off, double error,
                            int64_t index, double got, double want) {
  out->count += off;
  if (error > out->error || (off && out->count == 1)) {
    *out = (th_difference){.count = out->count,
                           .index = index,
                           .error = error,
                           .got = got,
                           .want = want};
  }
}

static void copy_compare_floats(const copy_compare *state, const double *got,
                                const double *want, int64_t count,
                                int64_t first) {
  for (int64_t i = 0; i < count; i++) {
    if (got[i] == want[i]) {
      continue;
    }
    double error = copy_float_error(got[i], want[i]);
    bool off =
        isinf(error) || error > state->atol + state->rtol * fabs(want[i]);
    copy_note_error(state->out, off, error, first + i, got[i], want[i]);
  }
}

static void copy_compare_ints(const copy_compare *state, const int64_t *got,
                              const int64_t *want, int64_t count,
                              int64_t first) {
  for (int64_t i = 0; i < count; i++) {
    if (got[i] != want[i]) {
      double a = (double)got[i];
      double b = (double)want[i];
      copy_note_error(state->out, true, fabs(a - b), first + i, a, b);
    }
  }
}

static bool copy_row_compare(void *user, char *got, int64_t got_step,
                             const char *want, int64_t want_step, int64_t count,
                             int64_t first) {
  const copy_compare *state = user;
  for (int64_t i = 0; i < count; i += COPY_BLOCK) {
    union {
      double floats[COPY_BLOCK];
      int64_t ints[COPY_BLOCK];
    } a, b;
    bool is_float = th_dtype_is_float(state->dtype);
    th_dtype wide = is_float ? TH_F64 : TH_I64;
    int64_t block = count - i < COPY_BLOCK ? count - i : COPY_BLOCK;
    th_convert_row(wide, &a, 8, state->dtype, got + i * got_step, got_step,
                   block);
    th_convert_row(wide, &b, 8, state->dtype, want + i * want_step, want_step,
                   block);
    if (is_float) {
      copy_compare_floats(state, a.floats, b.floats, block, first + i);
    } else {
      copy_compare_ints(state, a.ints, b.ints, block, first + i);
    }
  }
  return true;
}

th_status th_tensor_compare(th_context *ctx, const th_tensor *got,
                            const th_tensor *want, double rtol, double atol,
                            th_difference *out_difference) {
  if (got->dtype != want->dtype) {
    return th_error(ctx, TH_DTYPE, TH_NOWHERE,
                    "compare: dtypes differ: %s and %s",
                    th_dtype_name(got->dtype), th_dtype_name(want->dtype));
  }
  TH_TRY(copy_check_shapes(ctx, "compare", got, want));
  *out_difference = (th_difference){0};
  copy_compare state = {got->dtype, rtol, atol, out_difference};
  copy_walk_rows(got, want, copy_row_compare, &state);
  return TH_OK;
}

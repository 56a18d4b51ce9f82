// The `flash` executor: f32 attention on the CPU by online softmax.
//
// Queries are taken in blocks, keys in tiles.  Of a tile the library makes the
// scores, flash_tile.c their exponentials and what earlier sums are worth now,
// and the library adds the tile's part to the result, which is divided by the
// sums in the end:
//
//              keys ->
//   queries  [ tile | tile | til\        ]    causal: what lies right of the
//            [ tile | tile | tile | ti\  ]    diagonal is never made
//
// Blocks of all heads are shared by threads; inside one the library is on one
// thread.  How rows are cut does not depend on threads, so results repeat.
#include "exec/executor.h"
#include "exec/flash_tile.h"
#include "exec/onednn_library.h"

#include "base/alloc.h"
#include "base/pool.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { ROWS = TH_FLASH_ROWS, COLUMNS = TH_FLASH_COLUMNS };

// ---- what it takes

static bool flash_is_f32(const th_arg *arg) {
  const th_type *t = &arg->value->type;
  return t->dtype == TH_F32 && t->device.type == TH_CPU;
}

static bool flash_can_fuse(const th_stmt *stmt, const char **reason) {
  if (stmt->op->op != TH_OP_scaled_dot_product_attention) {
    *reason = "not in its table";
    return false;
  }
  if (th_onednn_get()->missing) {
    *reason = th_onednn_get()->missing;
    return false;
  }
  const th_arg *scale = &stmt->args[6];
  bool given = scale->kind == TH_ARG_NUM;
  *reason = !flash_is_f32(&stmt->args[0])       ? "takes f32 on the CPU"
            : given && !th_is_const(scale->num) ? "takes a constant scale"
            : th_is_const(stmt->args[5].num)    ? NULL
                                                : "is_causal is no constant";
  return !*reason;
}

static bool flash_follows(const th_stmt *const *chain, uint32_t count,
                          const th_stmt *next, const char **reason) {
  (void)chain, (void)count, (void)next;
  *reason = "nothing joins attention";
  return false;
}

// ---- a region

typedef struct flash_region {
  const th_flash_tile *tile;
  int query, key, value, mask; // arguments of the region; mask -1: none
  bool is_causal, grouped;
  float scale; // NaN: 1 / sqrt(width of a query)
} flash_region;

static float flash_number(const th_expr *e) {
  return e->dtype == TH_F64 ? (float)e->f : (float)e->i;
}

// ---- one call

// A tensor as matrices, one for each place of the batch.
typedef struct flash_operand {
  const char *data;
  int64_t batch[TH_MAX_RANK]; // bytes from one matrix to the next
  int64_t row, column;        // strides in elements
  bool is_turned;             // columns lie behind each other
} flash_operand;

typedef struct flash_call {
  const flash_region *region;
  flash_operand query, key, value, mask;
  bool has_mask;
  th_dtype mask_dtype;
  const th_view *out;
  int batch_rank;
  int64_t groups; // heads of queries for one of keys
  int64_t queries, keys, width, out_width;
  float scale;
  int64_t blocks, items; // of one matrix; of all
  int chunks;
  float *scratch; // FLASH_SCRATCH for each chunk
  _Atomic(dnnl_status_t) status;
} flash_call;

enum { FLASH_SCRATCH = 2 * ROWS * COLUMNS + 5 * ROWS };

// One query block.
typedef struct flash_block {
  const char *query, *key, *value, *mask;
  float *out;
  int64_t first, rows; // of the queries
  th_flash_softmax softmax;
} flash_block;

static const char *flash_place(const flash_operand *o, const int64_t *place,
                               int rank) {
  const char *at = o->data;
  for (int i = 0; i < rank; i++) {
    at += place[i] * o->batch[i];
  }
  return at;
}

static void flash_locate(const flash_call *c, int64_t item, flash_block *b) {
  int64_t place[TH_MAX_RANK], matrix = item / c->blocks, rest = matrix;
  int rank = c->batch_rank;
  for (int i = rank - 1; i >= 0; i--) {
    place[i] = rest % c->out->dims[i];
    rest /= c->out->dims[i];
  }
  b->first = item % c->blocks * ROWS;
  b->rows = c->queries - b->first < ROWS ? c->queries - b->first : ROWS;
  b->query = flash_place(&c->query, place, rank);
  b->query += b->first * c->query.row * (int64_t)sizeof(float);
  b->mask = c->has_mask ? flash_place(&c->mask, place, rank) : NULL;
  b->out =
      (float *)c->out->data + (matrix * c->queries + b->first) * c->out_width;
  if (rank) {
    place[rank - 1] /= c->groups;
  }
  b->key = flash_place(&c->key, place, rank);
  b->value = flash_place(&c->value, place, rank);
}

static void flash_scratch(flash_block *b, float *at) {
  th_flash_softmax *s = &b->softmax;
  s->scores = at;
  s->weights = at += ROWS * COLUMNS;
  s->scale = at += ROWS * COLUMNS;
  s->highest = at += ROWS;
  s->sum = at += ROWS;
  s->new_highest = at += ROWS;
  s->new_sum = at + ROWS;
}

// ---- masks

static int64_t flash_mask_index(const flash_call *c, const flash_block *b,
                                int64_t i, int64_t j) {
  return (b->first + i) * c->mask.row + j * c->mask.column;
}

static bool flash_hides(const flash_call *c, const flash_block *b, int64_t i,
                        int64_t j) {
  int64_t at = flash_mask_index(c, b, i, j);
  return c->mask_dtype == TH_BOOL ? !((const unsigned char *)b->mask)[at]
                                  : ((const float *)b->mask)[at] == -INFINITY;
}

// Is nothing of this tile seen?
static bool flash_is_hidden(const flash_call *c, const flash_block *b,
                            int64_t first, int64_t columns) {
  for (int64_t i = 0; i < b->rows && c->has_mask; i++) {
    for (int64_t j = 0; j < columns; j++) {
      if (!flash_hides(c, b, i, first + j)) {
        return false;
      }
    }
    i = c->mask.row ? i : b->rows; // one row for all
  }
  return c->has_mask;
}

static void flash_mask_row(const flash_call *c, const flash_block *b, int64_t i,
                           int64_t first, int64_t columns, float *scores) {
  int64_t at = flash_mask_index(c, b, i, first), step = c->mask.column;
  const unsigned char *seen = (const unsigned char *)b->mask + at;
  const float *added = (const float *)b->mask + at;
  for (int64_t j = 0; j < columns; j++) {
    if (c->mask_dtype != TH_BOOL) {
      scores[j] += added[j * step];
    } else if (!seen[j * step]) {
      scores[j] = -INFINITY;
    }
  }
}

static void flash_mask(const flash_call *c, const flash_block *b, int64_t first,
                       int64_t columns) {
  for (int64_t i = 0; i < b->rows; i++) {
    float *row = b->softmax.scores + i * columns;
    if (c->has_mask) {
      flash_mask_row(c, b, i, first, columns, row);
    }
    int64_t seen = b->first + i + 1 - first; // the diagonal too
    for (int64_t j = seen < 0 ? 0 : seen; c->region->is_causal && j < columns;
         j++) {
      row[j] = -INFINITY;
    }
  }
}

// ---- products

// A row of one element has no stride, yet the library checks it.
static int64_t flash_leading(const flash_operand *o, int64_t rows,
                             int64_t columns) {
  int64_t stride = o->is_turned ? o->column : o->row;
  int64_t least = o->is_turned ? rows : columns;
  return stride < least ? least : stride;
}

static dnnl_status_t flash_scores(const flash_call *c, const flash_block *b,
                                  int64_t first, int64_t columns) {
  int64_t ldq = flash_leading(&c->query, b->rows, c->width);
  int64_t ldk = flash_leading(&c->key, columns, c->width);
  const float *keys = (const float *)b->key + first * c->key.row;
  return th_onednn_get()->sgemm(c->query.is_turned ? 'T' : 'N',
                                c->key.is_turned ? 'N' : 'T', b->rows, columns,
                                c->width, c->scale, (const float *)b->query,
                                ldq, keys, ldk, 0, b->softmax.scores, columns);
}

static dnnl_status_t flash_add(const flash_call *c, const flash_block *b,
                               int64_t first, int64_t columns, bool is_first) {
  int64_t ldv = flash_leading(&c->value, columns, c->out_width);
  const float *values = (const float *)b->value + first * c->value.row;
  return th_onednn_get()->sgemm('N', c->value.is_turned ? 'T' : 'N', b->rows,
                                c->out_width, columns, 1, b->softmax.weights,
                                columns, values, ldv, is_first ? 0 : 1, b->out,
                                c->out_width);
}

// ---- one block

static void flash_rescale(const flash_call *c, const flash_block *b) {
  for (int64_t i = 0; i < b->rows; i++) {
    float scale = b->softmax.scale[i];
    float *row = b->out + i * c->out_width;
    for (int64_t d = 0; scale != 1 && d < c->out_width; d++) {
      row[d] *= scale;
    }
  }
}

// A row that sees nothing gives 0.
static void flash_divide(const flash_call *c, const flash_block *b,
                         bool is_empty) {
  for (int64_t i = 0; i < b->rows; i++) {
    float sum = b->softmax.sum[i], part = 1 / sum;
    float *row = b->out + i * c->out_width;
    if (is_empty || sum == 0) {
      memset(row, 0, (size_t)c->out_width * sizeof *row);
    }
    for (int64_t d = 0; !is_empty && sum != 0 && d < c->out_width; d++) {
      row[d] *= part;
    }
  }
}

static void flash_swap(float **a, float **b) {
  float *c = *a;
  *a = *b;
  *b = c;
}

static dnnl_status_t flash_tile(const flash_call *c, flash_block *b,
                                int64_t first, int64_t columns, bool is_first) {
  th_flash_softmax *s = &b->softmax;
  dnnl_status_t status = flash_scores(c, b, first, columns);
  if (status != dnnl_success) {
    return status;
  }
  flash_mask(c, b, first, columns);
  th_flash_tile_run(c->region->tile, s, b->rows, columns);
  flash_swap(&s->highest, &s->new_highest);
  flash_swap(&s->sum, &s->new_sum);
  if (!is_first) {
    flash_rescale(c, b);
  }
  return flash_add(c, b, first, columns, is_first);
}

static dnnl_status_t flash_run_block(const flash_call *c, int64_t item,
                                     float *scratch) {
  flash_block b;
  bool is_first = true;
  flash_locate(c, item, &b);
  flash_scratch(&b, scratch);
  for (int64_t i = 0; i < b.rows; i++) {
    b.softmax.highest[i] = -INFINITY;
    b.softmax.sum[i] = 0;
  }
  int64_t seen = b.first + b.rows;
  int64_t end = c->region->is_causal && seen < c->keys ? seen : c->keys;
  for (int64_t first = 0; first < end; first += COLUMNS) {
    int64_t columns = end - first < COLUMNS ? end - first : COLUMNS;
    if (flash_is_hidden(c, &b, first, columns)) {
      continue;
    }
    dnnl_status_t status = flash_tile(c, &b, first, columns, is_first);
    if (status != dnnl_success) {
      return status;
    }
    is_first = false;
  }
  flash_divide(c, &b, is_first);
  return dnnl_success;
}

static void flash_run_chunks(void *user, int64_t begin, int64_t end) {
  flash_call *c = user;
  int before = th_pool_lend(1);
  for (int64_t chunk = begin; chunk < end; chunk++) {
    int64_t item, last;
    th_pool_chunk((int)chunk, c->chunks, c->items, 1, &item, &last);
    for (; item < last; item++) {
      dnnl_status_t status =
          flash_run_block(c, item, c->scratch + chunk * FLASH_SCRATCH);
      if (status != dnnl_success) {
        atomic_store(&c->status, status);
      }
    }
  }
  th_pool_lend(before);
}

// ---- preparing a call

static bool flash_lies(int64_t step, int64_t count, int64_t stride,
                       int64_t others) {
  return (step == 1 || count == 1) && (stride >= count || others == 1);
}

// The library reads matrices whose rows or columns lie behind each other;
// others are copied.
static th_status flash_matrices(th_run *run, const th_view *view, int rank,
                                flash_operand *out) {
  int last = view->rank - 1, lead = rank - (view->rank - 2);
  int64_t dense[TH_MAX_RANK], rows = view->dims[last - 1];
  int64_t columns = view->dims[last];
  th_view copy = *view;
  const int64_t *at = view->strides;
  out->is_turned = false;
  if (!flash_lies(at[last], columns, at[last - 1], rows)) {
    out->is_turned = flash_lies(at[last - 1], rows, at[last], columns);
    if (!out->is_turned) {
      TH_TRY(th_run_dense(run, view, dense, &copy));
    }
  }
  out->data = copy.data;
  out->row = copy.strides[last - 1];
  out->column = copy.strides[last];
  for (int i = 0; i < rank; i++) {
    bool own = i >= lead && view->dims[i - lead] != 1;
    out->batch[i] = own ? copy.strides[i - lead] * (int64_t)sizeof(float) : 0;
  }
  return TH_OK;
}

// Any strides; what is missing in front, or of size 1, is repeated.
static void flash_mask_operand(flash_call *c, const th_view *view) {
  int64_t size = view->dtype == TH_BOOL ? 1 : (int64_t)sizeof(float);
  int lead = c->batch_rank + 2 - view->rank;
  int64_t strides[TH_MAX_RANK] = {0};
  for (int i = 0; i < c->batch_rank + 2; i++) {
    if (i >= lead && view->dims[i - lead] != 1) {
      strides[i] = view->strides[i - lead];
    }
  }
  for (int i = 0; i < c->batch_rank; i++) {
    c->mask.batch[i] = strides[i] * size;
  }
  c->mask.data = view->data;
  c->mask.row = strides[c->batch_rank];
  c->mask.column = strides[c->batch_rank + 1];
  c->mask_dtype = view->dtype;
  c->has_mask = true;
}

static int64_t flash_groups(const flash_region *r, const th_view *query,
                            const th_view *key) {
  int64_t heads = r->grouped ? key->dims[key->rank - 3] : 0;
  return heads ? query->dims[query->rank - 3] / heads : 1;
}

static void flash_sizes(flash_call *c, const th_view *query,
                        const th_view *key) {
  const th_view *out = c->out;
  c->batch_rank = out->rank - 2;
  c->queries = out->dims[out->rank - 2];
  c->out_width = out->dims[out->rank - 1];
  c->width = query->dims[query->rank - 1];
  c->keys = key->dims[key->rank - 2];
  c->groups = flash_groups(c->region, query, key);
  c->scale =
      isnan(c->region->scale) ? 1 / sqrtf((float)c->width) : c->region->scale;
  c->blocks = (c->queries + ROWS - 1) / ROWS;
  c->items = c->out_width ? c->blocks : 0;
  for (int i = 0; i < c->batch_rank; i++) {
    c->items *= out->dims[i];
  }
}

static th_status flash_run(th_run *run) {
  const flash_region *r = th_run_state(run);
  flash_call c = {.region = r, .out = th_run_out(run, 0)};
  const th_view *query = th_run_tensor(run, (uint32_t)r->query);
  const th_view *key = th_run_tensor(run, (uint32_t)r->key);
  const th_view *value = th_run_tensor(run, (uint32_t)r->value);
  flash_sizes(&c, query, key);
  if (!c.items) {
    return TH_OK;
  }
  if (!c.width) {
    return th_run_error(run, TH_UNSUPPORTED, "queries have no elements");
  }
  TH_TRY(flash_matrices(run, query, c.batch_rank, &c.query));
  TH_TRY(flash_matrices(run, key, c.batch_rank, &c.key));
  TH_TRY(flash_matrices(run, value, c.batch_rank, &c.value));
  if (r->mask >= 0) {
    flash_mask_operand(&c, th_run_tensor(run, (uint32_t)r->mask));
  }
  c.chunks = th_pool_chunks(th_run_threads(run), c.items, 1);
  c.scratch =
      th_run_scratch(run, (size_t)c.chunks * FLASH_SCRATCH * sizeof *c.scratch);
  if (!c.scratch) {
    return th_run_error(run, TH_NO_MEMORY, "out of memory");
  }
  th_parallel(c.chunks, c.chunks, 1, flash_run_chunks, &c);
  dnnl_status_t status = atomic_load(&c.status);
  return status == dnnl_success
             ? TH_OK
             : th_run_error(run, TH_BACKEND, "oneDNN: sgemm: %s",
                            th_onednn_get()->status2str(status));
}

static int flash_argument(const th_stmt *region, const th_arg *arg) {
  for (uint16_t i = 0; arg->kind == TH_ARG_VALUE && i < region->arg_count;
       i++) {
    if (region->args[i].value == arg->value) {
      return i;
    }
  }
  return -1;
}

static th_status flash_fuse(th_context *ctx, const th_stmt *region,
                            th_run_fn *out_run, void **out_state) {
  const th_stmt *stmt = region->body[0];
  const char *reason = NULL;
  const th_flash_tile *tile = NULL;
  if (region->body_count != 1 || !flash_can_fuse(stmt, &reason)) {
    return th_error(ctx, TH_UNSUPPORTED, region->loc,
                    "%s: not one attention that flash takes", region->label);
  }
  TH_TRY(th_flash_tile_get(ctx, &tile));
  flash_region *r = th_malloc(sizeof *r);
  if (!r) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  const th_arg *scale = &stmt->args[6];
  *r = (flash_region){
      .tile = tile,
      .query = flash_argument(region, &stmt->args[0]),
      .key = flash_argument(region, &stmt->args[1]),
      .value = flash_argument(region, &stmt->args[2]),
      .mask = flash_argument(region, &stmt->args[3]),
      .is_causal = stmt->args[5].num->i,
      .grouped = stmt->args[7].num->i,
      .scale = scale->kind == TH_ARG_NUM ? flash_number(scale->num) : NAN};
  *out_run = flash_run;
  *out_state = r;
  return TH_OK;
}

const th_executor_options th_flash_executor = {
    .size = sizeof(th_executor_options),
    .name = "flash",
    .version = "1",
    .claim_size = sizeof(th_claim),
    .can_fuse = flash_can_fuse,
    .fuse = flash_fuse,
    .release = th_free,
};

void th_flash_executor_init(th_executor *executor) {
  executor->follows = flash_follows;
}

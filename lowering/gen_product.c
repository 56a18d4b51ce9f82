// Code of products in tiles; see product.h.
#include "lowering/gen.h"

#include "lowering/convert.h"

typedef struct product_gen {
  const th_product *p;
  LLVMTypeRef element, vector;
  uint32_t width;                      // of a panel
  LLVMValueRef panel, sums, rows_of_a; // buffers on the stack
  LLVMValueRef row, rows;              // the block: first row, number of rows
  LLVMValueRef column, columns; // the panel: first column, number that exist
  LLVMValueRef line, lines;     // of p->line
  LLVMValueRef k, steps;        // the block of k, in steps of p->k
  uint32_t inner;               // steps of the sum in one step of k
} product_gen;

static unsigned product_bytes(const product_gen *d) {
  return d->p->dtype == TH_F64 ? 8 : 4;
}

static LLVMValueRef product_min(th_emit *e, LLVMValueRef a, LLVMValueRef b) {
  return th_emit_select(e, th_emit_icmp(e, LLVMIntSLT, a, b), a, b);
}

static LLVMValueRef product_extent(th_gen *g, int var) {
  return th_gen_expr(g, g->nest->space.vars[var].extent);
}

// Memory on the stack for `count` elements.
static LLVMValueRef product_buffer(th_gen *g, const product_gen *d,
                                   uint64_t count, const char *name) {
  th_emit *e = &g->e;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
  LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(e->function);
  LLVMPositionBuilderBefore(e->builder, LLVMGetFirstInstruction(entry));
  LLVMValueRef buffer =
      LLVMBuildAlloca(e->builder, LLVMArrayType2(d->element, count), name);
  LLVMSetAlignment(buffer, 64);
  LLVMPositionBuilderAtEnd(e->builder, here);
  return buffer;
}

static LLVMValueRef product_at(th_gen *g, const product_gen *d,
                               LLVMValueRef buffer, LLVMValueRef row,
                               uint32_t width, LLVMValueRef column) {
  th_emit *e = &g->e;
  LLVMValueRef at = th_emit_mul(e, row, th_emit_i64(e, width));
  at = column ? th_emit_add(e, at, column) : at;
  return th_emit_gep(e, d->element, buffer, at);
}

// ---- lanes by hand

typedef struct product_lanes {
  int lane;
  uint32_t lanes;
  LLVMValueRef mask, var;
  uint32_t mark;
} product_lanes;

static product_lanes product_enter(th_gen *g, int var, LLVMValueRef first,
                                   uint32_t lanes, LLVMValueRef mask) {
  product_lanes saved = {g->lane, g->lanes, g->mask, g->vars[var],
                         th_gen_mark(g)};
  g->vars[var] = first;
  g->lane = lanes > 1 ? var : -1;
  g->lanes = lanes;
  g->mask = mask;
  g->mask_is_select = mask != NULL;
  return saved;
}

static void product_leave(th_gen *g, int var, const product_lanes *saved) {
  th_gen_forget(g, saved->mark);
  g->lane = saved->lane;
  g->lanes = saved->lanes;
  g->mask = saved->mask;
  g->mask_is_select = false;
  g->vars[var] = saved->var;
}

// ---- lines

typedef struct product_line {
  LLVMValueRef var;
  uint32_t mark;
} product_line;

// Line number v of the panel; what does not exist repeats the last one.
static product_line product_enter_line(th_gen *g, product_gen *d, uint32_t v) {
  th_emit *e = &g->e;
  int var = d->p->line;
  product_line saved = {var < 0 ? NULL : g->vars[var], th_gen_mark(g)};
  if (var >= 0) {
    LLVMValueRef last =
        th_emit_sub(e, product_extent(g, var), th_emit_i64(e, 1));
    LLVMValueRef line = th_emit_add(e, d->line, th_emit_i64(e, v));
    g->vars[var] = product_min(e, line, last);
  }
  return saved;
}

static void product_leave_line(th_gen *g, const product_gen *d,
                               const product_line *saved) {
  if (d->p->line >= 0) {
    th_gen_forget(g, saved->mark);
    g->vars[d->p->line] = saved->var;
  }
}

// ---- packing b

typedef struct product_step {
  product_gen *d;
  bool partial;     // the panel has columns that do not exist
  LLVMValueRef row; // of the panel, counts up
} product_step;

// One row of the panel, element by element of n.
static void product_pack_row(th_gen *g, product_gen *d, LLVMValueRef row,
                             bool partial) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  for (uint32_t v = 0; v < p->vectors; v++) {
    LLVMValueRef shift = th_emit_i64(e, (int64_t)v * p->lanes);
    LLVMValueRef skip = p->line < 0 ? shift : th_emit_i64(e, 0);
    LLVMValueRef first = th_emit_add(e, d->column, skip);
    LLVMValueRef mask =
        partial
            ? th_emit_tail_mask(e, th_emit_sub(e, d->columns, skip), p->lanes)
            : NULL;
    product_line saved_line = product_enter_line(g, d, v);
    product_lanes saved = product_enter(g, p->n, first, p->lanes, mask);
    LLVMValueRef b = th_gen_widen(g, th_gen_node(g, p->b));
    product_leave(g, p->n, &saved);
    product_leave_line(g, d, &saved_line);
    th_emit_store(e, b, product_at(g, d, d->panel, row, d->width, shift),
                  product_bytes(d));
  }
}

// The position inside one step of k, in row-major order over the inner
// variables.
static LLVMValueRef product_inner_position(th_gen *g, const product_gen *d) {
  th_emit *e = &g->e;
  LLVMValueRef at = th_emit_i64(e, 0);
  for (uint32_t v = 0; v < g->nest->space.var_count; v++) {
    if (d->p->k_inner >> v & 1) {
      at = th_emit_mul(e, at, product_extent(g, (int)v));
      at = th_emit_add(e, at, g->vars[v]);
    }
  }
  return at;
}

static void product_pack_inner(th_gen *g, void *user) {
  product_step *s = user;
  th_emit *e = &g->e;
  LLVMValueRef row =
      th_emit_add(e, th_emit_mul(e, s->row, th_emit_i64(e, s->d->inner)),
                  product_inner_position(g, s->d));
  product_pack_row(g, s->d, row, s->partial);
}

static void product_pack_along_n(th_gen *g, product_gen *d, bool partial) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  th_emit_loop loop = {
      .begin = th_emit_i64(e, 0), .end = d->steps, .name = "pack"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  LLVMValueRef outside = g->vars[p->k];
  g->vars[p->k] = th_emit_add(e, d->k, loop.index);
  product_step step = {d, partial, loop.index};
  th_gen_loops(g, p->k_inner, product_pack_inner, &step);
  g->vars[p->k] = outside;
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

// ---- transposing squares, in steps that are single instructions everywhere:
// inside pieces of 128 bits, then whole pieces.

// Pairs of elements (of `size` lanes) side by side from the low or high half
// of each piece.
static LLVMValueRef product_zip(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                                uint32_t lanes, uint32_t piece, uint32_t size,
                                bool high) {
  int pick[64];
  for (uint32_t i = 0; i < lanes; i++) {
    uint32_t start = i / piece * piece, at = i % piece;
    uint32_t pair = at / (2 * size), inside = at % (2 * size);
    uint32_t from = start + (high ? piece / 2 : 0) + pair * size;
    pick[i] =
        (int)(inside < size ? from + inside : lanes + from + inside - size);
  }
  return th_emit_shuffle(e, a, b, pick, lanes);
}

// The even (odd) pieces of a, then those of b.
static LLVMValueRef product_pieces(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                                   uint32_t lanes, uint32_t piece,
                                   uint32_t odd) {
  int pick[64];
  uint32_t half = lanes / 2;
  for (uint32_t i = 0; i < lanes; i++) {
    uint32_t inside = i % half;
    uint32_t from = (inside / piece * 2 + odd) * piece + inside % piece;
    pick[i] = (int)(i < half ? from : lanes + from);
  }
  return th_emit_shuffle(e, a, b, pick, lanes);
}

static void product_transpose_pieces(th_emit *e, LLVMValueRef *rows,
                                     uint32_t lanes, uint32_t piece) {
  for (uint32_t i = 0; i < lanes; i += piece) {
    for (uint32_t size = 1; size < piece; size *= 2) {
      // Rows i and i + size of each group of 2 * size.
      LLVMValueRef next[4] = {NULL};
      for (uint32_t k = 0; k < piece; k++) {
        uint32_t low = size == 1 ? k / 2 * 2 : k / 2;
        uint32_t high = size == 1 ? low + 1 : low + 2;
        next[k] = product_zip(e, rows[i + low], rows[i + high], lanes, piece,
                              size, k & 1);
      }
      for (uint32_t k = 0; k < piece; k++) {
        rows[i + k] = next[k];
      }
    }
  }
}

static void product_transpose(th_emit *e, LLVMValueRef *rows, uint32_t lanes,
                              uint32_t piece) {
  uint32_t groups = lanes / piece;
  product_transpose_pieces(e, rows, lanes, piece);
  for (uint32_t j = 0; j < piece && groups > 1; j++) {
    LLVMValueRef in[16] = {NULL}, out[16] = {NULL};
    for (uint32_t q = 0; q < groups; q++) {
      in[q] = rows[q * piece + j];
    }
    for (uint32_t width = groups; width > 1; width /= 2) {
      // Pairs of neighbours; evens go to the first half of the result.
      for (uint32_t q = 0; q < groups; q += 2) {
        out[q / 2] = product_pieces(e, in[q], in[q + 1], lanes, piece, 0);
        out[groups / 2 + q / 2] =
            product_pieces(e, in[q], in[q + 1], lanes, piece, 1);
      }
      for (uint32_t q = 0; q < groups; q++) {
        in[q] = out[q];
      }
    }
    for (uint32_t q = 0; q < groups; q++) {
      rows[q * piece + j] = in[q];
    }
  }
}

// A square of lanes x lanes: read along k, stored along n.  Columns that do
// not exist repeat the last one: what they give is not looked at.
static void product_pack_square(th_gen *g, product_gen *d, LLVMValueRef k,
                                LLVMValueRef shift, LLVMValueRef mask) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  LLVMValueRef rows[64] = {NULL};
  LLVMValueRef last =
      th_emit_sub(e, product_extent(g, p->n), th_emit_i64(e, 1));
  LLVMValueRef outside = g->vars[p->n];
  for (uint32_t i = 0; i < p->lanes; i++) {
    LLVMValueRef column =
        th_emit_add(e, th_emit_add(e, d->column, shift), th_emit_i64(e, i));
    g->vars[p->n] = product_min(e, column, last);
    LLVMValueRef first = th_emit_add(e, d->k, k);
    product_lanes saved = product_enter(g, p->k, first, p->lanes, mask);
    rows[i] = th_gen_widen(g, th_gen_node(g, p->b));
    product_leave(g, p->k, &saved);
  }
  g->vars[p->n] = outside;
  product_transpose(e, rows, p->lanes, 16 / product_bytes(d));
  for (uint32_t i = 0; i < p->lanes; i++) {
    LLVMValueRef row = th_emit_add(e, k, th_emit_i64(e, i));
    th_emit_store(e, rows[i], product_at(g, d, d->panel, row, d->width, shift),
                  product_bytes(d));
  }
}

static void product_pack_squares(th_gen *g, product_gen *d, LLVMValueRef from,
                                 LLVMValueRef to, bool masked) {
  th_emit *e = &g->e;
  th_emit_loop loop = {.begin = from,
                       .end = to,
                       .step = th_emit_i64(e, d->p->lanes),
                       .name = "pack"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  LLVMValueRef mask = NULL;
  if (masked) {
    LLVMValueRef left = th_emit_sub(e, to, loop.index);
    mask = th_emit_tail_mask(e, left, d->p->lanes);
  }
  th_emit_loop columns = {.begin = th_emit_i64(e, 0),
                          .end = th_emit_i64(e, d->width),
                          .step = th_emit_i64(e, d->p->lanes),
                          .name = "square"};
  th_emit_loop_begin(e, &columns, NULL, 0);
  product_pack_square(g, d, loop.index, columns.index, mask);
  th_emit_loop_end(e, &columns, NULL, NULL);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

static void product_pack_along_k(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  LLVMValueRef whole =
      th_emit_and(e, d->steps, th_emit_i64(e, -(int64_t)d->p->lanes));
  product_pack_squares(g, d, th_emit_i64(e, 0), whole, false);
  const th_expr *extent = g->nest->space.vars[d->p->k].extent;
  if (!th_is_const(extent) || extent->i % d->p->lanes != 0) {
    product_pack_squares(g, d, whole, d->steps, true);
  }
}

static void product_pack_b(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  const th_expr *extent = g->nest->space.vars[d->p->n].extent;
  if (d->p->pack == TH_PRODUCT_ALONG_K) {
    product_pack_along_k(g, d);
    return;
  }
  if (d->p->line >= 0) {
    product_pack_along_n(g, d, extent->i != d->p->lanes);
    return;
  }
  if (th_is_const(extent) && extent->i % d->width == 0) {
    product_pack_along_n(g, d, false);
    return;
  }
  th_emit_if branch;
  LLVMValueRef full =
      th_emit_icmp(e, LLVMIntEQ, d->columns, th_emit_i64(e, d->width));
  th_emit_if_begin(e, &branch, full);
  product_pack_along_n(g, d, false);
  th_emit_if_else(e, &branch, NULL, 0);
  product_pack_along_n(g, d, true);
  th_emit_if_end(e, &branch, NULL, 0, NULL);
}

// ---- packing a, where it is not read as it lies

static void product_store_a(th_gen *g, void *user) {
  product_step *s = user;
  th_emit *e = &g->e;
  product_gen *d = s->d;
  LLVMValueRef step = th_emit_sub(e, g->vars[d->p->k], d->k);
  LLVMValueRef column =
      th_emit_add(e, th_emit_mul(e, step, th_emit_i64(e, d->inner)),
                  product_inner_position(g, d));
  LLVMValueRef a = th_gen_node(g, d->p->a);
  a = g->lanes > 1 ? th_gen_widen(g, a) : a;
  LLVMValueRef to =
      product_at(g, d, d->rows_of_a, s->row, d->p->block_k * d->inner, column);
  if (g->mask) {
    th_emit_masked_store(e, a, to, g->mask, product_bytes(d));
  } else {
    th_emit_store(e, a, to, product_bytes(d));
  }
}

static void product_pack_a(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  th_emit_loop loop = {
      .begin = th_emit_i64(e, 0), .end = d->rows, .name = "rows"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  LLVMValueRef outside = g->vars[p->m];
  g->vars[p->m] = th_emit_add(e, d->row, loop.index);
  product_step step = {d, false, loop.index};
  LLVMValueRef end = th_emit_add(e, d->k, d->steps);
  if (!p->k_inner) {
    th_gen_lanes(g, p->k, d->k, end, NULL, product_store_a, &step);
  } else {
    th_emit_loop inner = {.begin = d->k, .end = end, .name = "k"};
    th_emit_loop_begin(e, &inner, NULL, 0);
    uint32_t inside = th_gen_mark(g);
    g->vars[p->k] = inner.index;
    th_gen_loops(g, p->k_inner, product_store_a, &step);
    th_gen_forget(g, inside);
    th_emit_loop_end(e, &inner, NULL, NULL);
  }
  g->vars[p->m] = outside;
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

// ---- the tile

// a at row `row` of the block and position `at` of the sum inside the block.
static LLVMValueRef product_a(th_gen *g, product_gen *d, LLVMValueRef row,
                              LLVMValueRef at) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  if (!p->a_step) {
    LLVMValueRef address =
        product_at(g, d, d->rows_of_a, row, p->block_k * d->inner, at);
    return th_emit_load(e, d->element, address, product_bytes(d));
  }
  th_space *s = &g->nest->space;
  const th_expr *offset = p->a->expr;
  for (uint32_t v = 0; v < s->var_count; v++) {
    if ((p->k_inner | (th_var_set)1 << p->k) >> v & 1) {
      offset = th_space_replace(s, offset, s->vars[v].symbol,
                                th_int(g->nest->ir, 0));
    }
  }
  LLVMValueRef outside = g->vars[p->m];
  g->vars[p->m] = th_emit_add(e, d->row, row);
  LLVMValueRef base = th_gen_expr(g, offset);
  g->vars[p->m] = outside;
  LLVMValueRef start = th_emit_mul(e, d->k, th_emit_i64(e, d->inner));
  LLVMValueRef step = th_gen_expr(g, p->a_step);
  base = th_emit_add(e, base, th_emit_mul(e, start, step));
  base = th_emit_add(e, base, th_emit_mul(e, at, step));
  LLVMValueRef address =
      th_emit_gep(e, d->element, g->buffers[p->a->buffer], base);
  return th_emit_load(e, d->element, address, product_bytes(d));
}

static LLVMValueRef product_sum_at(th_gen *g, product_gen *d, LLVMValueRef row,
                                   uint32_t vector) {
  return product_at(g, d, d->sums, row, d->width,
                    th_emit_i64(&g->e, (int64_t)vector * d->p->lanes));
}

// `count` rows from `row` of the block on.
static void product_tile(th_gen *g, product_gen *d, LLVMValueRef row,
                         uint32_t count) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  LLVMValueRef acc[TH_EMIT_MAX_CARRIED], next[TH_EMIT_MAX_CARRIED];
  LLVMValueRef rows[16];
  for (uint32_t r = 0; r < count; r++) {
    rows[r] = th_emit_add(e, row, th_emit_i64(e, r));
    for (uint32_t v = 0; v < p->vectors; v++) {
      acc[r * p->vectors + v] = th_emit_load(
          e, d->vector, product_sum_at(g, d, rows[r], v), product_bytes(d));
    }
  }
  LLVMValueRef end = th_emit_mul(e, d->steps, th_emit_i64(e, d->inner));
  th_emit_loop loop = {.begin = th_emit_i64(e, 0), .end = end, .name = "dot"};
  th_emit_loop_begin(e, &loop, acc, count * p->vectors);
  LLVMValueRef b[8];
  for (uint32_t v = 0; v < p->vectors; v++) {
    LLVMValueRef shift = th_emit_i64(e, (int64_t)v * p->lanes);
    b[v] = th_emit_load(e, d->vector,
                        product_at(g, d, d->panel, loop.index, d->width, shift),
                        product_bytes(d));
  }
  for (uint32_t r = 0; r < count; r++) {
    LLVMValueRef a = product_a(g, d, rows[r], loop.index);
    a = th_emit_splat(e, a, p->lanes);
    for (uint32_t v = 0; v < p->vectors; v++) {
      uint32_t i = r * p->vectors + v;
      next[i] = th_emit_fma(e, a, b[v], loop.carried[i]);
    }
  }
  th_emit_loop_end(e, &loop, next, acc);
  for (uint32_t r = 0; r < count; r++) {
    for (uint32_t v = 0; v < p->vectors; v++) {
      th_emit_store(e, acc[r * p->vectors + v],
                    product_sum_at(g, d, rows[r], v), product_bytes(d));
    }
  }
}

// Tiles of fewer and fewer rows until none is left.
static void product_tiles(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  LLVMValueRef at = th_emit_i64(e, 0);
  const th_expr *extent = g->nest->space.vars[d->p->m].extent;
  int64_t total = th_is_const(extent) ? extent->i : -1;
  int64_t left = total < 0 ? -1
                 : total % d->p->block_rows == 0
                     ? d->p->block_rows
                     : (total < d->p->block_rows ? total : -1);
  for (uint32_t count = d->p->tile; count;
       count = count > 3 ? count / 2 : count - 1) {
    if (left >= 0 && left < count) {
      continue;
    }
    LLVMValueRef size = th_emit_i64(e, count);
    LLVMValueRef span = th_emit_sub(e, d->rows, at);
    LLVMValueRef whole =
        th_emit_mul(e, LLVMBuildUDiv(e->builder, span, size, ""), size);
    LLVMValueRef end = th_emit_add(e, at, whole);
    th_emit_loop loop = {.begin = at, .end = end, .step = size, .name = "tile"};
    th_emit_loop_begin(e, &loop, NULL, 0);
    product_tile(g, d, loop.index, count);
    th_emit_loop_end(e, &loop, NULL, NULL);
    at = end;
    left = left >= 0 ? left % count : -1;
    if (left == 0) {
      return;
    }
  }
}

static void product_clear_sums(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  th_emit_loop loop = {
      .begin = th_emit_i64(e, 0), .end = d->rows, .name = "clear"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  for (uint32_t v = 0; v < d->p->vectors; v++) {
    th_emit_store(e, LLVMConstNull(d->vector),
                  product_sum_at(g, d, loop.index, v), product_bytes(d));
  }
  th_emit_loop_end(e, &loop, NULL, NULL);
}

static void product_many_rows(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  product_clear_sums(g, d);
  LLVMValueRef k = product_extent(g, p->k);
  LLVMValueRef block = th_emit_i64(e, p->block_k);
  th_emit_loop loop = {
      .begin = th_emit_i64(e, 0), .end = k, .step = block, .name = "block"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  d->k = loop.index;
  d->steps = product_min(e, th_emit_sub(e, k, loop.index), block);
  product_pack_b(g, d);
  if (!p->a_step) {
    product_pack_a(g, d);
  }
  product_tiles(g, d);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

// ---- few rows

typedef struct product_dot {
  product_gen *d;
  LLVMValueRef slots[TH_MAX_VARIANTS][4]; // sums by width and column
  LLVMValueRef columns[4];
} product_dot;

static void product_dot_step(th_gen *g, void *user) {
  product_dot *s = user;
  th_emit *e = &g->e;
  const th_product *p = s->d->p;
  LLVMTypeRef type = th_emit_type_vector(s->d->element, g->lanes);
  LLVMValueRef a = th_gen_node(g, p->a);
  a = g->lanes > 1 ? th_gen_widen(g, a) : a;
  LLVMValueRef outside = g->vars[p->n];
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t mark = th_gen_mark(g);
    g->vars[p->n] = s->columns[i];
    LLVMValueRef b = th_gen_node(g, p->b);
    b = g->lanes > 1 ? th_gen_widen(g, b) : b;
    th_gen_forget(g, mark);
    LLVMValueRef old =
        LLVMBuildLoad2(e->builder, type, s->slots[g->variant][i], "");
    LLVMValueRef next = th_emit_fma(e, a, b, old);
    if (g->mask) {
      next = th_emit_select(e, g->mask, next, old);
    }
    LLVMBuildStore(e->builder, next, s->slots[g->variant][i]);
  }
  g->vars[p->n] = outside;
}

static LLVMValueRef product_add(th_emit *e, LLVMValueRef a, LLVMValueRef b,
                                void *user) {
  (void)user;
  return th_emit_fadd(e, a, b);
}

// Four columns of one row: lanes along k.
static void product_dots(th_gen *g, product_gen *d, LLVMValueRef column) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  product_dot s = {.d = d};
  LLVMValueRef last =
      th_emit_sub(e, product_extent(g, p->n), th_emit_i64(e, 1));
  const th_variant *variants = g->phase->variants;
  for (uint32_t i = 0; i < 4; i++) {
    LLVMValueRef c =
        th_emit_add(e, d->column, th_emit_add(e, column, th_emit_i64(e, i)));
    s.columns[i] = product_min(e, c, last);
    for (uint32_t w = 0; w < g->phase->variant_count; w++) {
      LLVMTypeRef type = th_emit_type_vector(d->element, variants[w].lanes);
      s.slots[w][i] = th_gen_slot(g, type);
      LLVMBuildStore(e->builder, LLVMConstNull(type), s.slots[w][i]);
    }
  }
  const th_expr *extent = g->nest->space.vars[p->k].extent;
  th_gen_lanes(g, p->k, th_emit_i64(e, 0), product_extent(g, p->k), extent,
               product_dot_step, &s);
  LLVMValueRef row = th_emit_sub(e, g->vars[p->m], d->row);
  for (uint32_t i = 0; i < 4; i++) {
    LLVMValueRef sum = NULL;
    for (uint32_t w = 0; w < g->phase->variant_count; w++) {
      uint32_t lanes = variants[w].lanes;
      LLVMTypeRef type = th_emit_type_vector(d->element, lanes);
      LLVMValueRef part = LLVMBuildLoad2(e->builder, type, s.slots[w][i], "");
      part =
          lanes > 1 ? th_emit_reduce_lanes(e, part, product_add, NULL) : part;
      sum = sum ? th_emit_fadd(e, sum, part) : part;
    }
    LLVMValueRef to = th_emit_add(e, column, th_emit_i64(e, i));
    th_emit_store(e, sum, product_at(g, d, d->sums, row, d->width, to),
                  product_bytes(d));
  }
}

// One row along n: sums of a whole panel, b read where it lies.
static void product_row_sums(th_gen *g, product_gen *d, bool partial) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  LLVMValueRef acc[8], next[8];
  for (uint32_t v = 0; v < p->vectors; v++) {
    acc[v] = LLVMConstNull(d->vector);
  }
  th_emit_loop loop = {.begin = th_emit_i64(e, 0),
                       .end = product_extent(g, p->k),
                       .name = "sum"};
  th_emit_loop_begin(e, &loop, acc, p->vectors);
  uint32_t mark = th_gen_mark(g);
  LLVMValueRef outside = g->vars[p->k];
  g->vars[p->k] = loop.index;
  LLVMValueRef a = th_emit_splat(e, th_gen_node(g, p->a), p->lanes);
  for (uint32_t v = 0; v < p->vectors; v++) {
    LLVMValueRef shift = th_emit_i64(e, (int64_t)v * p->lanes);
    LLVMValueRef mask =
        partial
            ? th_emit_tail_mask(e, th_emit_sub(e, d->columns, shift), p->lanes)
            : NULL;
    product_lanes saved = product_enter(
        g, p->n, th_emit_add(e, d->column, shift), p->lanes, mask);
    LLVMValueRef b = th_gen_widen(g, th_gen_node(g, p->b));
    product_leave(g, p->n, &saved);
    next[v] = th_emit_fma(e, a, b, loop.carried[v]);
  }
  g->vars[p->k] = outside;
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &loop, next, acc);
  LLVMValueRef row = th_emit_sub(e, g->vars[p->m], d->row);
  for (uint32_t v = 0; v < p->vectors; v++) {
    th_emit_store(e, acc[v], product_sum_at(g, d, row, v), product_bytes(d));
  }
}

static void product_few_along_n(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  const th_expr *extent = g->nest->space.vars[d->p->n].extent;
  if (th_is_const(extent) && extent->i % d->width == 0) {
    product_row_sums(g, d, false);
    return;
  }
  th_emit_if branch;
  LLVMValueRef full =
      th_emit_icmp(e, LLVMIntEQ, d->columns, th_emit_i64(e, d->width));
  th_emit_if_begin(e, &branch, full);
  product_row_sums(g, d, false);
  th_emit_if_else(e, &branch, NULL, 0);
  product_row_sums(g, d, true);
  th_emit_if_end(e, &branch, NULL, 0, NULL);
}

static void product_few_rows(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  bool dots = p->pack == TH_PRODUCT_ALONG_K;
  LLVMValueRef outside = g->vars[p->m];
  th_emit_loop columns = {.begin = th_emit_i64(e, 0),
                          .end = d->columns,
                          .step = th_emit_i64(e, 4),
                          .name = "columns"};
  if (dots) {
    th_emit_loop_begin(e, &columns, NULL, 0);
  }
  th_emit_loop rows = {
      .begin = d->row, .end = th_emit_add(e, d->row, d->rows), .name = "rows"};
  th_emit_loop_begin(e, &rows, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  g->vars[p->m] = rows.index;
  if (dots) {
    product_dots(g, d, columns.index);
  } else {
    product_few_along_n(g, d);
  }
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &rows, NULL, NULL);
  if (dots) {
    th_emit_loop_end(e, &columns, NULL, NULL);
  }
  g->vars[p->m] = outside;
}

// ---- the rest of the kernel

LLVMValueRef th_gen_product_sum(th_gen *g) {
  th_emit *e = &g->e;
  product_gen *d = g->product;
  LLVMValueRef row = th_emit_sub(e, g->vars[d->p->m], d->row);
  LLVMValueRef column = th_emit_sub(e, g->vars[d->p->n], d->column);
  if (d->p->line >= 0) {
    LLVMValueRef line = th_emit_sub(e, g->vars[d->p->line], d->line);
    line = th_emit_mul(e, line, th_emit_i64(e, d->p->lanes));
    column = th_emit_add(e, column, line);
  }
  LLVMValueRef at = product_at(g, d, d->sums, row, d->width, column);
  LLVMTypeRef type = th_emit_type_vector(d->element, g->lanes);
  return g->mask ? th_emit_masked_load(e, type, at, g->mask, product_bytes(d))
                 : th_emit_load(e, type, at, product_bytes(d));
}

static void product_finish(th_gen *g, product_gen *d) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  LLVMValueRef outside = g->vars[p->m];
  th_emit_loop rows = {.begin = d->row,
                       .end = th_emit_add(e, d->row, d->rows),
                       .name = "finish"};
  th_emit_loop_begin(e, &rows, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  g->vars[p->m] = rows.index;
  g->product = d;
  const th_expr *extent = g->nest->space.vars[p->n].extent;
  bool whole = th_is_const(extent) && extent->i % d->width == 0;
  const th_expr *known = whole ? th_int(g->nest->ir, d->width) : NULL;
  LLVMValueRef end = th_emit_add(e, d->column, d->columns);
  if (p->line < 0) {
    th_gen_lanes(g, p->n, d->column, end, known, th_gen_store_all, NULL);
  } else {
    th_emit_loop lines = {.begin = d->line,
                          .end = th_emit_add(e, d->line, d->lines),
                          .name = "line"};
    LLVMValueRef before = g->vars[p->line];
    th_emit_loop_begin(e, &lines, NULL, 0);
    uint32_t inside = th_gen_mark(g);
    g->vars[p->line] = lines.index;
    th_gen_lanes(g, p->n, d->column, end, extent, th_gen_store_all, NULL);
    th_gen_forget(g, inside);
    g->vars[p->line] = before;
    th_emit_loop_end(e, &lines, NULL, NULL);
  }
  g->product = NULL;
  th_gen_forget(g, mark);
  g->vars[p->m] = outside;
  th_emit_loop_end(e, &rows, NULL, NULL);
}

// ---- blocks

const th_expr *th_gen_product_extent(const th_nest *n, const th_product *p) {
  uint32_t width = p->lanes * p->vectors;
  const th_expr *rows = th_expr_ceildiv(n->ir, n->space.vars[p->m].extent,
                                        th_int(n->ir, p->block_rows));
  const th_expr *panels =
      p->line < 0 ? th_expr_ceildiv(n->ir, n->space.vars[p->n].extent,
                                    th_int(n->ir, width))
                  : th_expr_ceildiv(n->ir, n->space.vars[p->line].extent,
                                    th_int(n->ir, p->vectors));
  const th_expr *extent = th_expr_mul(n->ir, rows, panels);
  for (uint32_t v = 0; v < n->space.var_count; v++) {
    if (p->outer >> v & 1 && (int)v != p->line) {
      extent = th_expr_mul(n->ir, extent, n->space.vars[v].extent);
    }
  }
  return extent;
}

static LLVMValueRef product_digit(th_gen *g, LLVMValueRef *rest,
                                  LLVMValueRef size) {
  th_emit *e = &g->e;
  LLVMValueRef q = LLVMBuildUDiv(e->builder, *rest, size, "");
  LLVMValueRef digit = th_emit_sub(e, *rest, th_emit_mul(e, q, size));
  *rest = q;
  return digit;
}

static LLVMValueRef product_blocks(th_emit *e, LLVMValueRef size,
                                   uint32_t block) {
  LLVMValueRef up = th_emit_add(e, size, th_emit_i64(e, block - 1));
  return LLVMBuildUDiv(e->builder, up, th_emit_i64(e, block), "");
}

// The outer position is (others, block of rows, panel), the panel fastest: a
// block of rows stays in the cache while panels pass.
static void product_place(th_gen *g, product_gen *d, LLVMValueRef position) {
  th_emit *e = &g->e;
  const th_product *p = d->p;
  LLVMValueRef m = product_extent(g, p->m), n = product_extent(g, p->n);
  LLVMValueRef rest = position;
  LLVMValueRef lines = p->line < 0 ? NULL : product_extent(g, p->line);
  LLVMValueRef panels = lines ? product_blocks(e, lines, p->vectors)
                              : product_blocks(e, n, d->width);
  LLVMValueRef panel = product_digit(g, &rest, panels);
  LLVMValueRef block =
      product_digit(g, &rest, product_blocks(e, m, p->block_rows));
  if (lines) {
    d->line = th_emit_mul(e, panel, th_emit_i64(e, p->vectors));
    d->lines = product_min(e, th_emit_sub(e, lines, d->line),
                           th_emit_i64(e, p->vectors));
    d->column = th_emit_i64(e, 0);
    d->columns = n;
  } else {
    d->column = th_emit_mul(e, panel, th_emit_i64(e, d->width));
    d->columns =
        product_min(e, th_emit_sub(e, n, d->column), th_emit_i64(e, d->width));
  }
  d->row = th_emit_mul(e, block, th_emit_i64(e, p->block_rows));
  d->rows =
      product_min(e, th_emit_sub(e, m, d->row), th_emit_i64(e, p->block_rows));
  for (int v = (int)g->nest->space.var_count - 1; v >= 0; v--) {
    if (p->outer >> v & 1 && v != p->line) {
      g->vars[v] = product_digit(g, &rest, product_extent(g, v));
    }
  }
}

void th_gen_product(th_gen *g, LLVMValueRef begin, LLVMValueRef end) {
  th_emit *e = &g->e;
  const th_product *p = &g->plan->product;
  product_gen *d = TH_NEW(g->nest->arena, product_gen);
  d->p = p;
  d->element = p->dtype == TH_F64 ? e->f64 : e->f32;
  d->vector = th_emit_type_vector(d->element, p->lanes);
  d->width = p->lanes * p->vectors;
  d->inner = 1;
  for (uint32_t v = 0; v < g->nest->space.var_count; v++) {
    if (p->k_inner >> v & 1) {
      d->inner *= (uint32_t)g->nest->space.vars[v].extent->i;
    }
  }
  g->phase = &g->plan->phases[0];
  uint64_t deep = (uint64_t)p->block_k * d->inner;
  uint64_t padded = (deep + p->lanes - 1) / p->lanes * p->lanes;
  d->sums = product_buffer(g, d, (uint64_t)p->block_rows * d->width, "sums");
  if (p->many) {
    d->panel = product_buffer(g, d, padded * d->width, "panel");
  }
  if (p->many && !p->a_step) {
    d->rows_of_a = product_buffer(g, d, p->block_rows * deep, "rows");
  }
  th_emit_loop loop = {.begin = begin, .end = end, .name = "outer"};
  th_emit_loop_begin(e, &loop, NULL, 0);
  uint32_t mark = th_gen_mark(g);
  product_place(g, d, loop.index);
  if (p->few && p->many) {
    th_emit_if branch;
    LLVMValueRef few = th_emit_icmp(e, LLVMIntSLT, d->rows, th_emit_i64(e, 8));
    th_emit_if_begin(e, &branch, few);
    product_few_rows(g, d);
    th_emit_if_else(e, &branch, NULL, 0);
    product_many_rows(g, d);
    th_emit_if_end(e, &branch, NULL, 0, NULL);
  } else if (p->few) {
    product_few_rows(g, d);
  } else {
    product_many_rows(g, d);
  }
  product_finish(g, d);
  th_gen_forget(g, mark);
  th_emit_loop_end(e, &loop, NULL, NULL);
}

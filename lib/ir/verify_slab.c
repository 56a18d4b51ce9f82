// The plan of a trace: results that share bytes of the slab are never needed
// at once.
//
// A walk in the order in which steps run; a step is a statement, or a kernel of
// a region.  The bytes of living results are kept sorted.  A step that writes
// over others ends their lives; nobody may read them from that step on, and not
// in it either, since kernels assume that their arguments do not overlap.
#include "ir/infer.h"
#include "ir/text.h"

#include <string.h>

typedef struct slab_piece {
  int64_t begin, end; // bytes
  uint32_t root;      // id of the value that lies there
} slab_piece;

typedef struct slab_check {
  const th_trace *trace;
  const th_stmt *stmt;
  slab_piece *pieces; // alive, sorted, none overlaps another
  uint32_t count;
  uint32_t *root;          // by value id: whose memory it uses
  const th_value **killer; // by root: what was written over it
  th_status status;
} slab_check;

static void slab_fail(slab_check *c, const char *fmt, const th_value *a,
                      const th_value *b) {
  th_ir *ir = c->trace->ir;
  const char *text = th_arena_printf(&ir->arena, fmt, a->name, b->name);
  const char *who = !c->stmt         ? c->trace->name
                    : c->stmt->label ? c->stmt->label
                                     : c->stmt->op->name;
  c->status = th_error(ir->ctx, TH_VERIFY, c->stmt ? c->stmt->loc : TH_NOWHERE,
                       "%s: %s", who, text);
}

// From the first byte to the last that the strides reach; -1: not constant.
static int64_t slab_bytes(const th_type *type) {
  int64_t last = 0, size = (int64_t)th_dtype_size(type->dtype), stride = size;
  for (uint8_t i = type->rank; i-- > 0;) {
    const th_expr *step = type->strides ? type->strides[i] : NULL;
    if (!th_is_const(type->dims[i]) || (step && !th_is_const(step))) {
      return -1;
    }
    int64_t dim = type->dims[i]->i, reach = 0;
    if (dim == 0) {
      return 0;
    }
    if ((step && __builtin_mul_overflow(step->i, size, &stride)) ||
        __builtin_mul_overflow(dim - 1, stride, &reach) ||
        __builtin_add_overflow(last, reach, &last) ||
        (!step && __builtin_mul_overflow(stride, dim, &stride))) {
      return INT64_MAX;
    }
  }
  return last > INT64_MAX - size ? INT64_MAX : last + size;
}

// The first piece that ends behind `begin`.
static uint32_t slab_find(const slab_check *c, int64_t begin) {
  uint32_t low = 0, high = c->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (c->pieces[middle].end <= begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Puts a result in its place; what overlaps it is gone.
static void slab_place(slab_check *c, const th_value *value) {
  int64_t size =
      value->type.kind == TH_KIND_TENSOR ? slab_bytes(&value->type) : -1;
  if (value->slab < 0 || size <= 0) {
    return;
  }
  if (value->slab > c->trace->slab_size ||
      size > c->trace->slab_size - value->slab) {
    slab_fail(c, "'%s' ends behind the slab", value, value);
    return;
  }
  slab_piece piece = {value->slab, value->slab + size, c->root[value->id]};
  uint32_t first = slab_find(c, piece.begin), last = first;
  for (; last < c->count && c->pieces[last].begin < piece.end; last++) {
    uint32_t root = c->pieces[last].root;
    if (root != piece.root) {
      c->killer[root] = value;
    }
  }
  memmove(&c->pieces[first + 1], &c->pieces[last],
          (c->count - last) * sizeof piece);
  c->pieces[first] = piece;
  c->count = c->count - (last - first) + 1;
}

static void slab_read(void *user, th_value *value) {
  slab_check *c = user;
  const th_value *killer = c->killer[c->root[value->id]];
  if (killer && c->status == TH_OK) {
    slab_fail(c, "'%s' is read where '%s' has been written over it", value,
              killer);
  }
}

static void slab_step(slab_check *c, const th_stmt *stmt) {
  bool window = !stmt->executor && th_stmt_is_window(c->trace->ir, stmt);
  c->stmt = stmt;
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    const th_value *out = stmt->outs[i];
    if (out && (window || (stmt->in_place && i == 0))) {
      c->root[out->id] = c->root[stmt->args[0].value->id];
    } else if (out) {
      slab_place(c, out);
    }
  }
  if (stmt->op->op != TH_OP_del) {
    th_stmt_operands(stmt, slab_read, c);
  }
  // Results of one step are all alive behind it.
  for (uint16_t i = 0; i < stmt->out_count && c->status == TH_OK; i++) {
    if (stmt->outs[i]) {
      slab_read(c, stmt->outs[i]);
    }
  }
}

th_status th_verify_slab(const th_trace *trace) {
  th_arena *arena = &trace->ir->arena;
  slab_check c = {
      .trace = trace,
      .pieces = TH_NEW_ARRAY(arena, slab_piece, trace->value_count + 1u),
      .root = TH_NEW_ARRAY(arena, uint32_t, trace->value_count + 1u),
      .killer = TH_NEW_ARRAY(arena, const th_value *, trace->value_count + 1u)};
  for (uint32_t i = 0; i < trace->value_count; i++) {
    c.root[i] = i;
  }
  for (uint32_t i = 0; i < trace->stmt_count && c.status == TH_OK; i++) {
    const th_stmt *stmt = trace->stmts[i];
    bool whole = !stmt->body_count || th_stmt_is_whole(stmt);
    for (uint32_t k = 0; !whole && k < stmt->body_count && c.status == TH_OK;
         k++) {
      slab_step(&c, stmt->body[k]);
    }
    if (whole) {
      slab_step(&c, stmt);
    }
  }
  c.stmt = NULL;
  if (c.status == TH_OK) {
    th_arg_values(&trace->result, slab_read, &c);
  }
  return c.status;
}

// The partition; see partition.h.
#include "lowering/partition.h"

#include "lowering/lower.h"

#include "ir/infer.h"
#include "lowering/nest.h"

#include <string.h>

enum {
  PART_NONE = -1,    // a dimension of size 1, or one that is broadcast
  PART_UNKNOWN = -2, // no plain dimension of the kernel
  PART_ROW = 100,    // reduced dimensions that the kernel's result lacks
};

// One kernel under way.
typedef struct part_cluster {
  const th_value *main; // whose dimensions are the kernel's
  uint64_t outer;       // of main's dimensions: at which reductions stand
  bool reduces, anchor, in_place;
  bool product; // one of its statements is a product
  uint32_t stmt_count, reduction_count;
  uint32_t *needs; // clusters that must run before, with repeats
  uint32_t need_count, need_cap;
  th_value **outs;
  uint32_t out_count, out_cap;
  uint32_t seen;  // stamp of a search
  uint32_t state; // of the ordering
} part_cluster;

// A reader of a value: in which kernel, and which of the kernel's dimensions
// the value's are.
typedef struct part_use {
  uint32_t cluster;
  int16_t dims[TH_MAX_RANK];
  bool exact; // the element of the kernel's position, not a neighbour
  bool once;  // the kernel reads each element once
  struct part_use *next;
} part_use;

typedef struct part_info {
  part_use *uses;
  bool outside;   // a result of the region
  bool reduced;   // made of reductions
  bool stored;    // some reader needs it in memory
  bool memory;    // a window: what it looks at must be in memory
  int32_t owner;  // the cluster that stores it; -1
  int32_t def;    // statement that makes it; -1: comes from outside
  int32_t writer; // statement that overwrites its memory; -1
  uint32_t weight, loads;
} part_info;

typedef struct part_state {
  th_ir *ir;
  th_arena *arena;
  th_stmt *const *stmts;
  uint32_t count;
  th_map info; // value -> part_info
  part_cluster *clusters;
  uint32_t cluster_count, cluster_cap;
  uint32_t stamp;
  uint32_t **in_clusters; // by statement: clusters that contain it
  uint32_t *in_count, *in_cap;
} part_state;

// ---- classes and costs

th_part_class th_part_class_of(const th_stmt *stmt) {
  uint32_t traits = stmt->op->traits;
  if (stmt->in_place || traits & (TH_CONTRACTS | TH_POOLS) ||
      th_nest_special(stmt->op->op)) {
    return TH_PART_ANCHOR;
  }
  if (traits & TH_REDUCES) {
    return TH_PART_REDUCE;
  }
  if ((traits & TH_VIEW) || stmt->op->op == TH_OP_clone) {
    return TH_PART_VIEW;
  }
  return traits & (TH_MOVES | TH_GATHER | TH_SCATTER) ? TH_PART_MOVE
                                                      : TH_PART_POINT;
}

uint32_t th_part_weight(th_op op) {
  uint32_t traits = th_op_row(op)->traits;
  return traits & TH_COSTS_10  ? 10
         : traits & TH_COSTS_4 ? 4
         : traits & TH_VIEW    ? 0
                               : 1;
}

// ---- values

static part_info *part_info_of(part_state *s, const th_value *value) {
  part_info *info = th_map_get_bytes(&s->info, &value, sizeof(void *));
  if (!info) {
    info = TH_NEW(s->arena, part_info);
    info->owner = info->def = info->writer = -1;
    info->loads = 1;
    th_map_put_bytes(&s->info, &value, sizeof(void *), info);
  }
  return info;
}

typedef struct part_walk {
  part_state *s;
  bool reduced;
  uint32_t weight, loads;
} part_walk;

static void part_add_cost(void *user, th_value *value) {
  part_walk *w = user;
  const part_info *info = part_info_of(w->s, value);
  w->weight += info->weight;
  w->loads += info->loads;
  w->reduced = w->reduced || info->reduced;
}

// What computing a value again would cost, as if nothing were stored but
// reductions and anchors.
static void part_estimate(part_state *s, uint32_t i) {
  enum { MOST = 10000 };
  const th_stmt *stmt = s->stmts[i];
  th_part_class class = th_part_class_of(stmt);
  part_walk w = {.s = s};
  th_stmt_operands(stmt, part_add_cost, &w);
  w.weight += th_part_weight(stmt->op->op);
  bool memory = class == TH_PART_REDUCE || class == TH_PART_ANCHOR;
  for (uint16_t k = 0; k < stmt->out_count; k++) {
    if (stmt->outs[k]) {
      part_info *info = part_info_of(s, stmt->outs[k]);
      info->def = (int32_t)i;
      info->reduced =
          class == TH_PART_REDUCE || (w.reduced && class != TH_PART_ANCHOR);
      info->weight = memory ? 0 : w.weight < MOST ? w.weight : MOST;
      info->loads = memory ? 1 : w.loads < MOST ? w.loads : MOST;
    }
  }
}

// ---- clusters

static uint32_t part_new_cluster(part_state *s, const th_value *main) {
  TH_PUSH(s->arena, s->clusters, s->cluster_count, s->cluster_cap) =
      (part_cluster){.main = main};
  return s->cluster_count - 1;
}

static void part_need(part_state *s, uint32_t reader, uint32_t maker) {
  part_cluster *c = &s->clusters[reader];
  if (reader != maker) {
    TH_PUSH(s->arena, c->needs, c->need_count, c->need_cap) = maker;
  }
}

static bool part_reaches_from(part_state *s, uint32_t from, uint32_t to) {
  part_cluster *c = &s->clusters[from];
  if (from == to) {
    return true;
  }
  if (c->seen == s->stamp) {
    return false;
  }
  c->seen = s->stamp;
  for (uint32_t i = 0; i < c->need_count; i++) {
    if (part_reaches_from(s, c->needs[i], to)) {
      return true;
    }
  }
  return false;
}

// Must `from` run after `to`?
static bool part_reaches(part_state *s, uint32_t from, uint32_t to) {
  s->stamp++;
  return part_reaches_from(s, from, to);
}

static bool part_is_in(const part_state *s, uint32_t stmt, uint32_t cluster) {
  for (uint32_t i = 0; i < s->in_count[stmt]; i++) {
    if (s->in_clusters[stmt][i] == cluster) {
      return true;
    }
  }
  return false;
}

static void part_put(part_state *s, uint32_t stmt, uint32_t cluster) {
  if (!part_is_in(s, stmt, cluster)) {
    TH_PUSH(s->arena, s->in_clusters[stmt], s->in_count[stmt],
            s->in_cap[stmt]) = cluster;
    s->clusters[cluster].stmt_count++;
  }
}

static void part_store(part_state *s, th_value *value, uint32_t cluster) {
  part_cluster *c = &s->clusters[cluster];
  part_info *info = part_info_of(s, value);
  info->owner = (int32_t)cluster;
  TH_PUSH(s->arena, c->outs, c->out_count, c->out_cap) = value;
  for (part_use *use = info->uses; use; use = use->next) {
    part_need(s, use->cluster, cluster);
  }
}

// ---- dimensions

static void part_identity(const th_value *value, part_use *use) {
  for (uint8_t i = 0; i < value->type.rank; i++) {
    bool one = th_is_int(value->type.dims[i], 1);
    use->dims[i] = one ? PART_NONE : i;
  }
  use->exact = use->once = true;
}

static void part_add_use(part_state *s, const th_value *value,
                         const part_use *use) {
  part_info *info = part_info_of(s, value);
  for (part_use *old = info->uses; old; old = old->next) {
    if (old->cluster != use->cluster) {
      continue;
    }
    // Two ways to it inside one kernel: they agree or nothing is known.
    old->once = old->once && use->once;
    for (uint8_t i = 0; i < value->type.rank; i++) {
      old->once = old->once && use->dims[i] != PART_UNKNOWN;
      if (old->dims[i] != use->dims[i]) {
        old->dims[i] = PART_UNKNOWN;
        old->once = false;
      }
    }
    old->exact = old->exact && use->exact;
    return;
  }
  part_use *copy = TH_NEW(s->arena, part_use);
  *copy = *use;
  copy->next = info->uses;
  info->uses = copy;
  if (info->owner >= 0) {
    part_need(s, use->cluster, (uint32_t)info->owner);
  }
}

static void part_unknown(part_use *use) {
  for (uint8_t i = 0; i < TH_MAX_RANK; i++) {
    use->dims[i] = PART_UNKNOWN;
  }
  use->exact = use->once = false;
}

// Right-aligned, sizes of 1 broadcast.
static part_use part_broadcast(const th_value *operand, const th_value *result,
                               const part_use *of) {
  part_use use = {.cluster = of->cluster, .exact = of->exact};
  int lead = (int)result->type.rank - operand->type.rank;
  use.once = of->once && lead == 0;
  for (uint8_t i = 0; i < operand->type.rank; i++) {
    bool one = th_is_int(operand->type.dims[i], 1);
    use.dims[i] = one ? PART_NONE : of->dims[lead + i];
    bool repeats = one && !th_is_int(result->type.dims[lead + i], 1);
    use.once = use.once && !repeats;
  }
  return use;
}

// A reshape that only puts in or takes out sizes of 1, before and after what
// it changes.
static part_use part_through_reshape(const th_value *x, const th_value *y,
                                     const part_use *of) {
  part_use use = {.cluster = of->cluster, .exact = false};
  part_unknown(&use);
  int i = 0, k = 0, end = x->type.rank, end_y = y->type.rank;
  bool same = true;
  for (; i < end; i++) {
    if (th_is_int(x->type.dims[i], 1)) {
      use.dims[i] = PART_NONE;
      continue;
    }
    while (k < end_y && th_is_int(y->type.dims[k], 1)) {
      k++;
    }
    if (k == end_y || y->type.dims[k] != x->type.dims[i]) {
      same = false;
      break;
    }
    use.dims[i] = of->dims[k++];
  }
  use.exact = of->exact && same;
  use.once = of->once;
  return use;
}

static int64_t part_dim_arg(const th_arg *arg, uint8_t rank) {
  int64_t dim = arg->num->i;
  return dim < 0 ? dim + (rank ? rank : 1) : dim;
}

// Which dimensions of the kernel the first operand of a view has.
static part_use part_through_view(const th_stmt *stmt, const th_value *y,
                                  const part_use *of) {
  const th_value *x = stmt->args[0].value;
  part_use use = {.cluster = of->cluster, .exact = of->exact, .once = of->once};
  uint8_t rank = x->type.rank;
  switch (stmt->op->op) {
  case TH_OP_detach:
  case TH_OP_clone:
  case TH_OP_expand:
    return part_broadcast(x, y, of);
  case TH_OP_reshape:
  case TH_OP_squeeze:
  case TH_OP_unsqueeze:
    return part_through_reshape(x, y, of);
  case TH_OP_permute:
    for (uint8_t i = 0; i < rank; i++) {
      use.dims[part_dim_arg(&stmt->args[1].items[i], rank)] = of->dims[i];
    }
    return use;
  case TH_OP_slice:
  case TH_OP_split:
  case TH_OP_flip:
    memcpy(use.dims, of->dims, sizeof use.dims);
    use.exact = use.once = false;
    return use;
  case TH_OP_select: {
    int64_t dim = part_dim_arg(&stmt->args[1], rank);
    for (uint8_t i = 0; i < rank; i++) {
      use.dims[i] = i == dim ? PART_NONE : of->dims[i - (i > dim)];
    }
    use.exact = use.once = false;
    return use;
  }
  default:
    part_unknown(&use);
    return use;
  }
}

// ---- operands

static const th_value *part_value(const th_arg *arg) {
  return arg->kind == TH_ARG_VALUE ? arg->value : NULL;
}

// Marks what must be in memory: what an anchor or a gather reads, through
// windows.
static void part_in_memory(part_state *s, const th_value *value,
                           const part_use *use) {
  part_info *info = part_info_of(s, value);
  part_add_use(s, value, use);
  if (info->def < 0) {
    return;
  }
  const th_stmt *stmt = s->stmts[info->def];
  if (!th_stmt_is_window(s->ir, stmt)) {
    info->stored = true;
  } else {
    info->memory = true;
  }
}

typedef struct part_operands {
  part_state *s;
  part_use use;
  bool memory;
} part_operands;

static void part_operand_unknown(void *user, th_value *value) {
  part_operands *o = user;
  if (o->memory) {
    part_in_memory(o->s, value, &o->use);
  } else {
    part_add_use(o->s, value, &o->use);
  }
}

static void part_arg_uses(part_state *s, const th_arg *arg, uint32_t cluster,
                          bool memory) {
  part_operands o = {.s = s, .use = {.cluster = cluster}, .memory = memory};
  part_unknown(&o.use);
  th_arg_values(arg, part_operand_unknown, &o);
}

bool th_lower_is_row(const th_stmt *stmt) {
  bool linear = stmt->op->op == TH_OP_linear;
  if (!linear && stmt->op->op != TH_OP_matmul) {
    return false;
  }
  const th_type *x = &stmt->args[0].value->type;
  int first = linear || x->rank < 2 ? 0 : x->rank - 2;
  for (int i = first; i + 1 < x->rank; i++) {
    if (!th_is_int(x->dims[i], 1)) {
      return false;
    }
  }
  return true;
}

// A matrix of another dtype that a product of one row converts on the way.
static bool part_is_converted(part_state *s, const th_stmt *stmt,
                              uint16_t arg) {
  const th_value *y = arg == 1 ? part_value(&stmt->args[1]) : NULL;
  const part_info *info = y ? part_info_of(s, y) : NULL;
  return info && info->def >= 0 && s->stmts[info->def]->op->op == TH_OP_to &&
         th_lower_is_row(stmt);
}

// Operands of an anchor: products, windows and sources of scatters read
// memory; running sums and what is copied are computed on the way.
static void part_anchor_operands(part_state *s, const th_stmt *stmt,
                                 uint32_t cluster) {
  bool memory = stmt->op->traits & (TH_CONTRACTS | TH_REDUCES) ||
                stmt->op->op == TH_OP_sort;
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    // What is written in place is memory, and so is all that is read beside
    // it: it could be the same.
    part_arg_uses(s, &stmt->args[i], cluster,
                  (memory && !part_is_converted(s, stmt, i)) || stmt->in_place);
  }
}

static void part_point_operands(part_state *s, const th_stmt *stmt,
                                const th_value *y, const part_use *of) {
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    const th_value *x = part_value(&stmt->args[i]);
    if (x) {
      part_use use = part_broadcast(x, y, of);
      part_add_use(s, x, &use);
    }
  }
}

static void part_move_operands(part_state *s, const th_stmt *stmt,
                               uint32_t cluster) {
  bool gathers = stmt->op->traits & TH_GATHER;
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    // The table of a gather is read at any place: it must be there.
    part_arg_uses(s, &stmt->args[i], cluster, gathers && i == 0);
  }
}

// ---- reductions

static void part_reduced_dims(const th_stmt *stmt, bool *reduced) {
  const th_arg *dims = &stmt->args[1];
  uint8_t rank = stmt->args[0].value->type.rank;
  bool list = dims->kind == TH_ARG_LIST;
  bool all = dims->kind == TH_ARG_NONE || (list && dims->count == 0);
  for (uint8_t i = 0; i < rank; i++) {
    reduced[i] = all;
  }
  for (uint32_t i = 0; !all && rank && i < (list ? dims->count : 1); i++) {
    reduced[part_dim_arg(list ? &dims->items[i] : dims, rank)] = true;
  }
}

// The kernel's dimensions at which a reduction stands; false when they are not
// plain, or one stands for two.
static bool part_stands_at(const th_value *result, const part_use *use,
                           uint64_t *out_outer) {
  *out_outer = 0;
  for (uint8_t i = 0; i < result->type.rank; i++) {
    int dim = use->dims[i];
    if (dim == PART_NONE) {
      continue;
    }
    if (dim < 0 || dim >= PART_ROW || (*out_outer >> dim & 1)) {
      return false;
    }
    *out_outer |= (uint64_t)1 << dim;
  }
  return true;
}

static uint64_t part_all_dims(const th_value *value) {
  uint64_t all = 0;
  for (uint8_t i = 0; i < value->type.rank; i++) {
    all |= th_is_int(value->type.dims[i], 1) ? 0 : (uint64_t)1 << i;
  }
  return all;
}

// A whole tensor in one iteration is worth it only when it is small.
static bool part_is_small(const th_value *value) {
  enum { SMALL = 1 << 15 };
  int64_t size = 1;
  for (uint8_t i = 0; i < value->type.rank; i++) {
    const th_expr *dim = value->type.dims[i];
    if (!th_is_const(dim) || dim->i > SMALL) {
      return false;
    }
    size *= dim->i;
    if (size > SMALL) {
      return false;
    }
  }
  return true;
}

// Whether a reduction can be computed inside the kernel of its reader.
static bool part_reduction_fits(const part_cluster *c, const th_stmt *stmt,
                                const part_use *use) {
  uint64_t outer = 0;
  if (c->anchor || c->reduction_count >= TH_PARTITION_REDUCTIONS ||
      !part_stands_at(stmt->outs[0], use, &outer)) {
    return false;
  }
  if (c->reduces) {
    return outer == c->outer;
  }
  uint64_t all = part_all_dims(c->main);
  return outer || !all || part_is_small(c->main);
}

static void part_reduce_operand(part_state *s, const th_stmt *stmt,
                                const th_value *y, const part_use *of) {
  const th_value *x = stmt->args[0].value;
  const part_cluster *c = &s->clusters[of->cluster];
  bool reduced[TH_MAX_RANK], keepdim = x->type.rank == y->type.rank;
  part_use use = {.cluster = of->cluster, .exact = of->exact};
  part_reduced_dims(stmt, reduced);
  uint64_t taken = c->outer;
  int16_t row = PART_ROW;
  for (uint8_t i = 0, from = 0; i < x->type.rank; i++) {
    if (!reduced[i]) {
      use.dims[i] = of->dims[from++];
      continue;
    }
    from = (uint8_t)(from + keepdim);
    use.dims[i] = row++;
    for (uint8_t d = 0; d < c->main->type.rank; d++) {
      if (!(taken >> d & 1) && c->main->type.dims[d] == x->type.dims[i]) {
        use.dims[i] = d;
        taken |= (uint64_t)1 << d;
        row--;
        break;
      }
    }
    use.dims[i] = th_is_int(x->type.dims[i], 1) ? PART_NONE : use.dims[i];
  }
  part_add_use(s, x, &use);
}

// ---- placing

// Adds the statement to a kernel, where its result y is read as `of` says.
static void part_place(part_state *s, uint32_t i, const th_value *y,
                       const part_use *of) {
  const th_stmt *stmt = s->stmts[i];
  part_cluster *c = &s->clusters[of->cluster];
  part_use use;
  part_put(s, i, of->cluster);
  switch (th_part_class_of(stmt)) {
  case TH_PART_POINT:
    part_point_operands(s, stmt, y, of);
    break;
  case TH_PART_VIEW:
    use = part_through_view(stmt, y, of);
    if (part_info_of(s, y)->memory) {
      part_in_memory(s, stmt->args[0].value, &use);
    } else {
      part_add_use(s, stmt->args[0].value, &use);
    }
    break;
  case TH_PART_MOVE:
    part_move_operands(s, stmt, of->cluster);
    break;
  case TH_PART_REDUCE:
    c->reduces = true;
    c->reduction_count++;
    part_stands_at(y, of, &c->outer);
    part_reduce_operand(s, stmt, y, of);
    break;
  case TH_PART_ANCHOR:
    c->product = true;
    part_anchor_operands(s, stmt, of->cluster);
    break;
  }
}

// Are dimensions of the kernel that a result lacks sure to be walked?
static bool part_never_empty(const th_value *main, uint64_t dims) {
  for (uint8_t i = 0; i < main->type.rank; i++) {
    int64_t lo = 0, hi = 0;
    if ((dims >> i & 1) &&
        !(th_expr_range(main->type.dims[i], &lo, &hi) && lo > 0)) {
      return false;
    }
  }
  return true;
}

// Whether a stored value can be one more result of the kernel that reads it.
static bool part_joins(part_state *s, const th_value *value,
                       const part_use *use) {
  const part_cluster *c = &s->clusters[use->cluster];
  uint64_t at = 0;
  if (c->anchor || !use->exact || !part_stands_at(value, use, &at) ||
      c->stmt_count >= TH_PARTITION_STMTS || c->out_count >= 16) {
    return false;
  }
  // All of the kernel's dimensions, or those at which its reductions stand.
  const part_info *info = part_info_of(s, value);
  uint64_t all = part_all_dims(c->main);
  if (at != all &&
      !(c->reduces ? at == c->outer
                   : info->reduced && part_never_empty(c->main, all & ~at))) {
    return false;
  }
  // In the order of the kernel's dimensions, each of full size.
  for (uint8_t i = 0, last = 0; i < value->type.rank; i++) {
    int dim = use->dims[i];
    if (dim < 0) {
      continue;
    }
    if (dim < last || c->main->type.dims[dim] != value->type.dims[i]) {
      return false;
    }
    last = (uint8_t)dim;
  }
  // All other readers must be able to run after it.
  for (const part_use *other = info->uses; other; other = other->next) {
    if (other->cluster != use->cluster &&
        part_reaches(s, use->cluster, other->cluster)) {
      return false;
    }
  }
  return true;
}

// What follows a product can be computed on its tiles, when each of its
// elements is read once.
static bool part_ends_product(const part_cluster *c, const th_stmt *stmt,
                              const part_use *use) {
  bool product = stmt->op->op == TH_OP_matmul || stmt->op->op == TH_OP_linear ||
                 stmt->op->op == TH_OP_convolution;
  return product && use->once && !c->product && !c->reduces && !c->anchor &&
         th_dtype_is_float(stmt->outs[0]->type.dtype);
}

static bool part_can_inline(part_state *s, const th_stmt *stmt,
                            const th_value *y, const part_use *use) {
  const part_cluster *c = &s->clusters[use->cluster];
  th_part_class class = th_part_class_of(stmt);
  if (class == TH_PART_ANCHOR) {
    return part_ends_product(c, stmt, use);
  }
  if (class != TH_PART_VIEW && c->stmt_count >= TH_PARTITION_STMTS) {
    return false;
  }
  if (class == TH_PART_REDUCE) {
    return !c->product && part_reduction_fits(c, stmt, use);
  }
  // What costs much is not computed again for each row.
  const part_info *info = part_info_of(s, y);
  uint64_t at = 0;
  bool plain = part_stands_at(y, use, &at);
  uint64_t all = part_all_dims(c->main);
  bool repeats = plain && at && at != all &&
                 !(c->reduces && !(at & ~c->outer)) && !info->reduced &&
                 !c->anchor;
  return !(repeats && info->weight >= 8) &&
         !(c->anchor && info->weight >= 8 && class == TH_PART_POINT &&
           !part_is_small(y));
}

static bool part_is_cheap(const part_info *info) {
  return (info->loads <= 1 && info->weight <= 4) ||
         (info->loads == 0 && info->weight <= 12);
}

typedef struct part_doom {
  part_state *s;
  int32_t cluster; // -1: any
  bool found;
} part_doom;

static void part_find_doom(void *user, th_value *value) {
  part_doom *d = user;
  int32_t writer = part_info_of(d->s, value)->writer;
  if (writer < 0) {
    return;
  }
  bool placed = d->s->in_count[writer];
  d->found = d->found || d->cluster < 0 ||
             (placed && part_reaches(d->s, (uint32_t)d->cluster,
                                     d->s->in_clusters[writer][0]));
}

// A statement whose operand is overwritten later must not slip behind that:
// whether it reads such an operand, and whether a kernel would be too late.
static bool part_reads_doomed(part_state *s, const th_stmt *stmt) {
  part_doom d = {s, -1, false};
  th_stmt_operands(stmt, part_find_doom, &d);
  return d.found;
}

static bool part_is_late(part_state *s, const th_stmt *stmt, uint32_t cluster) {
  part_doom d = {s, (int32_t)cluster, false};
  th_stmt_operands(stmt, part_find_doom, &d);
  return d.found;
}

static bool part_same_shape(const th_value *a, const th_value *b) {
  bool same = a->type.rank == b->type.rank;
  for (uint8_t i = 0; same && i < a->type.rank; i++) {
    same = a->type.dims[i] == b->type.dims[i];
  }
  return same;
}

// A kernel of the same small shape that has nothing to do with this value: one
// call does for both.  -1: none of the last few.
static int32_t part_sibling(part_state *s, const th_stmt *stmt,
                            const th_value *y) {
  enum { LOOK_BACK = 8, OUTS = 16 };
  const part_info *info = part_info_of(s, y);
  for (uint32_t k = 0; k < LOOK_BACK && k < s->cluster_count; k++) {
    uint32_t cluster = s->cluster_count - 1 - k;
    const part_cluster *c = &s->clusters[cluster];
    bool fits = !c->anchor && !c->in_place && !c->product && !c->reduces &&
                c->out_count < OUTS && c->stmt_count < TH_PARTITION_STMTS / 2 &&
                part_same_shape(c->main, y) && part_is_small(y) &&
                !part_is_late(s, stmt, cluster);
    for (const part_use *use = info->uses; use && fits; use = use->next) {
      fits = !part_reaches(s, cluster, use->cluster);
    }
    if (fits) {
      return (int32_t)cluster;
    }
  }
  return -1;
}

// One result that has to be in memory: as a result of a reader's kernel, or of
// a kernel of its own.
static void part_materialise(part_state *s, uint32_t i, th_value *y) {
  part_info *info = part_info_of(s, y);
  const th_stmt *stmt = s->stmts[i];
  th_part_class class = th_part_class_of(stmt);
  for (part_use *use = info->uses; use && class != TH_PART_ANCHOR;
       use = use->next) {
    if (part_joins(s, y, use) && part_can_inline(s, stmt, y, use) &&
        !part_is_late(s, stmt, use->cluster)) {
      part_store(s, y, use->cluster);
      part_place(s, i, y, use);
      return;
    }
  }
  int32_t sibling = class == TH_PART_POINT ? part_sibling(s, stmt, y) : -1;
  uint32_t cluster = sibling >= 0 ? (uint32_t)sibling : part_new_cluster(s, y);
  s->clusters[cluster].anchor = class == TH_PART_ANCHOR;
  s->clusters[cluster].in_place = stmt->in_place;
  part_use own = {.cluster = cluster};
  part_identity(y, &own);
  part_store(s, y, cluster);
  part_place(s, i, y, &own);
}

static void part_visit_out(part_state *s, uint32_t i, th_value *y) {
  part_info *info = part_info_of(s, y);
  const th_stmt *stmt = s->stmts[i];
  if (!info->uses && !info->outside) {
    return;
  }
  bool view = th_part_class_of(stmt) == TH_PART_VIEW;
  bool store = info->outside || info->stored ||
               (part_reads_doomed(s, stmt) && !info->memory);
  bool several = info->uses && info->uses->next;
  store = store || (several && !view && !part_is_cheap(info));
  for (part_use *use = info->uses; use && !store; use = use->next) {
    store = !part_can_inline(s, stmt, y, use) ||
            (!stmt->in_place && part_is_late(s, stmt, use->cluster));
  }
  if (store) {
    part_materialise(s, i, y);
    return;
  }
  for (part_use *use = info->uses; use; use = use->next) {
    part_place(s, i, y, use);
  }
}

// The results of one statement that is a kernel of its own stand together.
static void part_visit(part_state *s, uint32_t i) {
  const th_stmt *stmt = s->stmts[i];
  bool anchor = th_part_class_of(stmt) == TH_PART_ANCHOR;
  int32_t cluster = -1;
  for (uint16_t k = 0; k < stmt->out_count; k++) {
    th_value *y = stmt->outs[k];
    part_info *info = y ? part_info_of(s, y) : NULL;
    if (!y || (!info->uses && !info->outside)) {
      continue;
    }
    if (anchor && cluster >= 0) {
      part_store(s, y, (uint32_t)cluster);
      continue;
    }
    part_visit_out(s, i, y);
    cluster = info->owner;
  }
}

// Readers of what is overwritten run before the writer.
static void part_order_writers(part_state *s) {
  for (uint32_t e = 0; e < s->info.count; e++) {
    const part_info *info = s->info.entries[e].value;
    if (info->writer < 0 || !s->in_count[info->writer]) {
      continue;
    }
    uint32_t writer = s->in_clusters[info->writer][0];
    for (const part_use *use = info->uses; use; use = use->next) {
      part_need(s, writer, use->cluster);
    }
  }
}

// ---- the result

static void part_emit(part_state *s, uint32_t cluster, th_part *parts,
                      uint32_t *count) {
  part_cluster *c = &s->clusters[cluster];
  if (c->state) {
    return;
  }
  c->state = 1;
  for (uint32_t i = 0; i < c->need_count; i++) {
    part_emit(s, c->needs[i], parts, count);
  }
  th_part *part = &parts[(*count)++];
  *part = (th_part){.in_place = c->in_place};
  for (uint32_t i = 0; i < s->count; i++) {
    if (part_is_in(s, i, cluster)) {
      TH_PUSH(s->arena, part->stmts, part->stmt_count, part->stmt_cap) = i;
    }
  }
  for (uint32_t i = c->out_count; i-- > 0;) {
    TH_PUSH(s->arena, part->outs, part->out_count, part->out_cap) = c->outs[i];
  }
}

static void part_find_writers(part_state *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    const th_stmt *stmt = s->stmts[i];
    part_estimate(s, i);
    const th_value *x = stmt->in_place ? part_value(&stmt->args[0]) : NULL;
    if (x) {
      part_info_of(s, x)->writer = (int32_t)i;
    }
  }
  // A view of what is overwritten is overwritten as well.
  for (uint32_t i = 0; i < s->count; i++) {
    const th_stmt *stmt = s->stmts[i];
    const th_value *x = th_part_class_of(stmt) == TH_PART_VIEW
                            ? part_value(&stmt->args[0])
                            : NULL;
    int32_t writer = x ? part_info_of(s, x)->writer : -1;
    for (uint16_t k = 0; k < stmt->out_count && writer > (int32_t)i; k++) {
      if (stmt->outs[k]) {
        part_info_of(s, stmt->outs[k])->writer = writer;
      }
    }
  }
}

th_status th_partition(th_ir *ir, th_arena *arena, th_stmt *const *stmts,
                       uint32_t count, th_value *const *outs,
                       uint32_t out_count, th_part **out_parts,
                       uint32_t *out_part_count) {
  part_state s = {.ir = ir, .arena = arena, .stmts = stmts, .count = count};
  th_map_init(&s.info, arena);
  s.in_clusters = TH_NEW_ARRAY(arena, uint32_t *, count + 1);
  s.in_count = TH_NEW_ARRAY(arena, uint32_t, count + 1);
  s.in_cap = TH_NEW_ARRAY(arena, uint32_t, count + 1);
  part_find_writers(&s);
  for (uint32_t i = 0; i < out_count; i++) {
    part_info_of(&s, outs[i])->outside = true;
  }
  for (uint32_t i = count; i-- > 0;) {
    part_visit(&s, i);
  }
  part_order_writers(&s);
  *out_parts = TH_NEW_ARRAY(arena, th_part, s.cluster_count + 1);
  *out_part_count = 0;
  for (uint32_t i = s.cluster_count; i-- > 0;) {
    part_emit(&s, i, *out_parts, out_part_count);
  }
  return TH_OK;
}

// Which convolutions the library gets, as chains: after each one may come batch
// norm, a sum and relu, then the next one.
#include "exec/onednn_conv_impl.h"

#include "base/alloc.h"

#include <string.h>

enum { CONV_RANK = 5 }; // three dimensions in space

// ---- what it takes

static bool conv_is_f32(const th_arg *arg) {
  return arg->kind == TH_ARG_VALUE && arg->value->type.kind == TH_KIND_TENSOR &&
         arg->value->type.dtype == TH_F32 &&
         arg->value->type.device.type == TH_CPU;
}

static bool conv_has_constants(const th_arg *list) {
  bool constant = list->kind == TH_ARG_LIST;
  for (uint32_t i = 0; constant && i < list->count; i++) {
    constant = th_is_const(list->items[i].num);
  }
  return constant;
}

bool th_onednn_conv_takes(const th_stmt *stmt, const char **reason) {
#ifndef __x86_64__
  *reason = "has only a slow one for this CPU";
  return false;
#endif
  if (stmt->op->op != TH_OP_convolution) {
    *reason = "not in its table";
    return false;
  }
  const th_arg *args = stmt->args;
  if (!conv_is_f32(&args[0])) {
    *reason = "takes f32 on the CPU";
    return false;
  }
  uint8_t rank = args[0].value->type.rank;
  bool plain = !args[6].num->i && conv_has_constants(&args[3]) &&
               conv_has_constants(&args[4]) && conv_has_constants(&args[5]);
  *reason = rank < 3 || rank > CONV_RANK ? "takes one to three dimensions"
            : !plain                     ? "takes no transposed convolution"
                                         : th_onednn_get()->missing;
  return !*reason;
}

typedef enum conv_stage { // how far a convolution has come
  CONV_PLAIN,
  CONV_NORMED,
  CONV_SUMMED,
  CONV_CLIPPED,
  CONV_TURNED,   // seen with channels last
  CONV_LAID_OUT, // and written so
} conv_stage;

static conv_stage conv_stage_after(const th_stmt *stmt) {
  switch (stmt->op->op) {
  case TH_OP_batch_norm:
    return CONV_NORMED;
  case TH_OP_add:
    return CONV_SUMMED;
  case TH_OP_relu:
    return CONV_CLIPPED;
  case TH_OP_permute:
    return CONV_TURNED;
  case TH_OP_clone:
    return CONV_LAID_OUT;
  default:
    return CONV_PLAIN;
  }
}

static bool conv_reads_once(const th_stmt *stmt, const th_value *x) {
  uint32_t count = 0;
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    count += stmt->args[i].kind == TH_ARG_VALUE && stmt->args[i].value == x;
  }
  return count == 1;
}

// Of constant statistics, and only the result is wanted.
static bool conv_is_norm(const th_stmt *stmt, const th_value *x) {
  bool plain = stmt->args[0].value == x && stmt->args[5].kind == TH_ARG_NUM &&
               th_is_const(stmt->args[5].num) && !stmt->args[5].num->i &&
               th_is_const(stmt->args[7].num);
  for (uint16_t i = 1; plain && i < stmt->out_count; i++) {
    plain = !stmt->outs[i];
  }
  for (uint32_t i = 1; plain && i < 5; i++) { // no weight: 1, no bias: 0
    plain = conv_is_f32(&stmt->args[i]) ||
            (i < 3 && stmt->args[i].kind != TH_ARG_VALUE);
  }
  return plain;
}

static bool conv_is_sum(const th_stmt *stmt, const th_value *x) {
  const th_arg *other = &stmt->args[stmt->args[0].value == x];
  return stmt->arg_count == 2 && conv_is_f32(other) &&
         th_type_equal(&stmt->outs[0]->type, &x->type) &&
         other->value->type.rank == x->type.rank &&
         !memcmp(other->value->type.dims, x->type.dims,
                 x->type.rank * sizeof *x->type.dims);
}

// ---- channels last

// [0, 2, 3, 1], or its inverse [0, 3, 1, 2].
static th_arg conv_turn(th_ir *ir, uint8_t rank, bool inverse) {
  int64_t order[TH_MAX_RANK] = {0};
  for (uint8_t i = 1; i < rank; i++) {
    order[i] = inverse ? (i == 1 ? rank - 1 : i - 1) : i % (rank - 1) + 1;
  }
  return th_ints(ir, order, rank);
}

static bool conv_is_turn(const th_stmt *stmt, uint8_t rank) {
  const th_arg *order = &stmt->args[1];
  bool turn = order->kind == TH_ARG_LIST && order->count == rank &&
              th_is_int(order->items[0].num, 0);
  for (uint8_t i = 1; turn && i < rank; i++) {
    turn = th_is_int(order->items[i].num, i % (rank - 1) + 1);
  }
  return turn;
}

// A sum is one of a convolution, it is hoped: what else it is only costs time.
static bool conv_likes_channels_last(const th_stmt *reader,
                                     const th_value *out) {
  const char *reason = NULL;
  bool sum = reader->op->op == TH_OP_add && reader->arg_count == 2;
  return sum || (th_onednn_conv_takes(reader, &reason) &&
                 reader->args[0].value != reader->args[1].value &&
                 reader->args[0].value->type.rank == out->type.rank);
}

static th_value *conv_mine(th_value *value) {
  value->def->executor = "onednn";
  return value;
}

th_value *th_onednn_conv_lay_out(th_builder *b, th_value *out,
                                 const th_stmt *const *readers,
                                 uint32_t count) {
  uint8_t rank = out->type.rank;
  const th_stmt *last = out->def;
  bool pays =
      conv_stage_after(last) != CONV_PLAIN || last->op->op == TH_OP_convolution;
  for (uint32_t i = 0; pays && i < count; i++) {
    pays = conv_likes_channels_last(readers[i], out);
  }
  if (!pays) {
    return out;
  }
  th_value *turned = TH_BUILD(b, permute, th_v(out), conv_turn(b->ir, rank, 0));
  th_value *laid = turned ? TH_BUILD(b, clone, th_v(turned)) : NULL;
  if (!laid) {
    return out;
  }
  conv_mine(turned);
  conv_mine(laid);
  return TH_BUILD(b, permute, th_v(laid), conv_turn(b->ir, rank, 1));
}

static bool conv_follows(const th_stmt *const *chain, uint32_t count,
                         const th_stmt *next, const char **reason) {
  const th_value *x = chain[count - 1]->outs[0];
  conv_stage stage = conv_stage_after(chain[count - 1]);
  uint32_t convolutions = 0;
  for (uint32_t i = 0; i < count; i++) {
    convolutions += chain[i]->op->op == TH_OP_convolution;
  }
  *reason = "does not follow a convolution";
  if (!next->outs[0] || !conv_reads_once(next, x)) {
    return false;
  }
  switch (next->op->op) {
  case TH_OP_batch_norm:
    return stage < CONV_NORMED && conv_is_norm(next, x);
  case TH_OP_add:
    return stage < CONV_SUMMED && conv_is_sum(next, x);
  case TH_OP_relu:
    return stage < CONV_CLIPPED;
  case TH_OP_convolution:
    return stage <= CONV_CLIPPED && convolutions < TH_ONEDNN_CONV_STEPS &&
           next->args[0].value == x && th_onednn_conv_takes(next, reason);
  case TH_OP_permute:
    return stage < CONV_TURNED && conv_is_turn(next, x->type.rank);
  case TH_OP_clone:
    return stage == CONV_TURNED;
  default:
    return false;
  }
}

// A permute or clone of the user's is not one of lay_out.
bool th_onednn_conv_follows(const th_stmt *const *chain, uint32_t count,
                            const th_stmt *next, const char **reason) {
  return conv_follows(chain, count, next, reason) &&
         (conv_stage_after(next) < CONV_TURNED || next->executor);
}

// ---- a region

static int conv_argument(const th_stmt *region, const th_arg *arg) {
  for (uint16_t i = 0; arg->kind == TH_ARG_VALUE && i < region->arg_count;
       i++) {
    if (region->args[i].value == arg->value) {
      return i;
    }
  }
  return -1;
}

static void conv_read_list(const th_arg *list, uint32_t spatial, int64_t add,
                           int64_t *out) {
  for (uint32_t i = 0; i < spatial; i++) { // one number stands for all
    out[i] = list->items[list->count == 1 ? 0 : i].num->i + add;
  }
}

static void conv_read(const th_stmt *region, const th_stmt *stmt,
                      th_onednn_conv_step *step) {
  uint32_t spatial = stmt->args[0].value->type.rank - 2u;
  *step = (th_onednn_conv_step){.weight = conv_argument(region, &stmt->args[1]),
                                .bias = conv_argument(region, &stmt->args[2]),
                                .residual = -1,
                                .groups = stmt->args[8].num->i};
  conv_read_list(&stmt->args[3], spatial, 0, step->stride);
  conv_read_list(&stmt->args[4], spatial, 0, step->padding);
  conv_read_list(&stmt->args[5], spatial, -1, step->dilation);
}

static double conv_number(const th_expr *e) {
  return e->dtype == TH_F64 ? e->f : (double)e->i;
}

static void conv_read_after(const th_stmt *region, const th_stmt *stmt,
                            const th_value *x, th_onednn_conv_step *step) {
  switch (conv_stage_after(stmt)) {
  case CONV_NORMED:
    step->is_normed = true;
    step->eps = conv_number(stmt->args[7].num);
    for (int i = 0; i < 4; i++) {
      step->norm[i] = conv_argument(region, &stmt->args[i + 1]);
    }
    break;
  case CONV_SUMMED:
    step->residual =
        conv_argument(region, &stmt->args[stmt->args[0].value == x]);
    break;
  case CONV_CLIPPED:
    step->is_clipped = true;
    break;
  default:
    break;
  }
}

static bool conv_read_region(th_onednn_convs *c, const th_stmt *region) {
  const th_stmt *const *body = (const th_stmt *const *)region->body;
  const char *reason = NULL;
  if (!th_onednn_conv_takes(body[0], &reason) || region->out_count != 1) {
    return false;
  }
  c->x = conv_argument(region, &body[0]->args[0]);
  for (uint32_t i = 0; i < region->body_count; i++) {
    if (i && !conv_follows(body, i, body[i], &reason)) {
      return false;
    }
    if (body[i]->op->op == TH_OP_convolution) {
      conv_read(region, body[i], &c->steps[c->count++]);
    } else {
      conv_read_after(region, body[i], body[i - 1]->outs[0],
                      &c->steps[c->count - 1]);
    }
  }
  c->lays_out = body[region->body_count - 1]->op->op == TH_OP_clone;
  return true;
}

th_status th_onednn_convs_new(th_context *ctx, const th_stmt *region,
                              th_onednn_convs **out_convs) {
  th_onednn_convs *convs = th_calloc(1, sizeof *convs);
  if (!convs) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "out of memory");
  }
  th_onednn_table_init(&convs->table, th_onednn_conv_plan_free);
  if (!conv_read_region(convs, region)) {
    th_onednn_convs_free(convs);
    return th_error(ctx, TH_UNSUPPORTED, region->loc,
                    "%s: not a convolution and what follows it", region->label);
  }
  *out_convs = convs;
  return TH_OK;
}

void th_onednn_convs_free(th_onednn_convs *convs) {
  if (!convs) {
    return;
  }
  while (convs->packs) {
    th_onednn_conv_pack *next = convs->packs->next;
    th_onednn_conv_pack_free(convs->packs);
    convs->packs = next;
  }
  th_onednn_table_deinit(&convs->table);
  th_free(convs);
}

// Expanding a composite: the entry, what all expansions share, and the
// elementwise ones.
//
// Values follow PyTorch's CPU kernels (aten/src/ATen/native/cpu), with its
// treatment of NaN; f16 and bf16 are computed in f32 and rounded once.
#include "ir/expand_util.h"

#include <math.h>

th_status th_expand(th_builder *b, const th_stmt *stmt, th_value **outs) {
  const char *scope = b->scope;
  th_loc loc = b->loc;
  if (b->status != TH_OK) {
    return b->status;
  }
  if (!stmt->op->expand) {
    return b->status =
               th_error(b->ir->ctx, TH_UNSUPPORTED, stmt->loc,
                        "%s: the operation has no expansion", stmt->op->name);
  }
  b->scope = stmt->scope;
  b->loc = stmt->loc;
  th_status status = stmt->op->expand(b, stmt, outs);
  b->scope = scope;
  b->loc = loc;
  if (b->status == TH_OK) {
    b->status = status;
  }
  return b->status;
}

// ---- shared

th_value *th_expand_arg(const th_stmt *stmt, uint32_t arg) {
  const th_arg *a = &stmt->args[arg];
  return a->kind == TH_ARG_VALUE ? a->value : NULL;
}

bool th_expand_const(const th_stmt *stmt, uint32_t arg, double *out) {
  const th_arg *a = &stmt->args[arg];
  if (a->kind != TH_ARG_NUM || !th_is_const(a->num)) {
    return false;
  }
  *out = a->num->dtype == TH_F64 ? a->num->f : (double)a->num->i;
  return true;
}

bool th_expand_flag(const th_stmt *stmt, uint32_t arg) {
  double value = 0;
  return th_expand_const(stmt, arg, &value) && value != 0;
}

int64_t th_expand_int(const th_stmt *stmt, uint32_t arg) {
  const th_arg *a = &stmt->args[arg];
  TH_ASSERT(a->kind == TH_ARG_NUM && th_is_const(a->num));
  return a->num->i;
}

uint8_t th_expand_dim(const th_stmt *stmt, uint32_t arg, uint8_t rank) {
  int64_t dim = th_expand_int(stmt, arg);
  return (uint8_t)(dim < 0 ? dim + (rank ? rank : 1) : dim);
}

th_type th_expand_type(th_builder *b, const th_stmt *stmt, uint32_t out) {
  if (out < stmt->out_count && stmt->outs[out]) {
    return stmt->outs[out]->type;
  }
  th_type types[TH_MAX_OUTS] = {{0}};
  th_infer in = {.ir = b->ir,
                 .op = stmt->op,
                 .args = stmt->args,
                 .arg_count = stmt->arg_count,
                 .loc = stmt->loc,
                 .scope = stmt->scope,
                 .outs = types,
                 .out_cap = TH_MAX_OUTS};
  if (b->status == TH_OK) {
    b->status = th_infer_run(&in);
  }
  return types[out];
}

th_dtype th_expand_compute(th_dtype dtype) {
  return dtype == TH_F16 || dtype == TH_BF16 ? TH_F32 : dtype;
}

th_value *th_expand_to(th_builder *b, th_value *x, th_dtype dtype) {
  return !x || x->type.dtype == dtype ? x
                                      : TH_BUILD(b, to, th_v(x), th_d(dtype));
}

th_arg th_expand_operand(th_builder *b, const th_arg *arg, th_dtype dtype) {
  return arg->kind == TH_ARG_VALUE ? th_v(th_expand_to(b, arg->value, dtype))
                                   : *arg;
}

th_arg th_expand_scalar(th_builder *b, const th_stmt *stmt, uint32_t arg,
                        th_dtype dtype) {
  double value = 0;
  bool is_cut = !th_dtype_is_float(dtype) &&
                th_expand_const(stmt, arg, &value) &&
                stmt->args[arg].num->dtype == TH_F64 && fabs(value) < 0x1p62;
  return is_cut ? th_i(b->ir, (int64_t)value) : stmt->args[arg];
}

th_status th_expand_out(th_builder *b, const th_stmt *stmt, uint32_t i,
                        th_value *x, th_value **outs) {
  th_type type = th_expand_type(b, stmt, i);
  x = th_expand_to(b, x, type.dtype);
  if (x && x->type.strides && !type.strides) {
    x = TH_E1(clone, x);
  }
  outs[i] = x;
  return b->status;
}

th_arg th_expand_num(th_builder *b, const th_expr *num) {
  if (num) {
    return th_n(num);
  }
  if (b->status == TH_OK) {
    b->status = th_error(b->ir->ctx, TH_SHAPE, b->loc,
                         "a size does not fit into 64 bits");
  }
  return th_i(b->ir, 0);
}

const th_expr *th_expand_size(th_builder *b, const th_value *x,
                              const uint8_t *dims, uint32_t count) {
  const th_expr *size = th_int(b->ir, 1);
  for (uint32_t i = 0; x && x->type.rank && i < count; i++) {
    size = th_expr_mul(b->ir, size, x->type.dims[dims[i]]);
  }
  return size;
}

bool th_expand_is(const th_arg *arg, int64_t value) {
  return arg->kind == TH_ARG_NUM && th_is_const(arg->num) &&
         (arg->num->dtype == TH_F64 ? arg->num->f == (double)value
                                    : arg->num->i == value);
}

th_value *th_expand_scale(th_builder *b, th_value *x, th_arg factor) {
  bool is_one =
      factor.kind == TH_ARG_NUM && th_is_const(factor.num) &&
      (factor.num->dtype == TH_F64 ? factor.num->f == 1 : factor.num->i == 1);
  return is_one ? x : TH_BUILD(b, mul, th_v(x), factor);
}

th_value *th_expand_reshape(th_builder *b, th_value *x,
                            const th_expr *const *dims, uint32_t rank) {
  th_arg items[TH_MAX_RANK];
  TH_ASSERT(rank <= TH_MAX_RANK);
  for (uint32_t i = 0; i < rank; i++) {
    items[i] = th_expand_num(b, dims[i]);
  }
  return TH_BUILD(b, reshape, th_v(x), th_list(b->ir, items, rank));
}

static th_arg expand_dims(th_builder *b, const uint8_t *dims, uint32_t count) {
  int64_t ints[TH_MAX_RANK];
  for (uint32_t i = 0; i < count; i++) {
    ints[i] = dims[i];
  }
  return th_ints(b->ir, ints, count);
}

th_value *th_expand_sum(th_builder *b, th_value *x, const uint8_t *dims,
                        uint32_t count, bool keep) {
  return count ? TH_BUILD(b, sum, th_v(x), expand_dims(b, dims, count),
                          th_b(b->ir, keep))
               : x;
}

th_value *th_expand_mean(th_builder *b, th_value *x, const uint8_t *dims,
                         uint32_t count, bool keep) {
  const th_expr *size = th_expand_size(b, x, dims, count);
  th_value *sum = th_expand_sum(b, x, dims, count, keep);
  return TH_BUILD(b, div, th_v(sum), th_expand_num(b, size));
}

th_value *th_expand_iota(th_builder *b, const th_value *like,
                         const th_expr *size, uint32_t axes) {
  th_arg device = {.kind = TH_ARG_DEVICE};
  if (like) {
    device.device = like->type.device;
  }
  th_value *iota = TH_BUILD(b, arange, th_i(b->ir, 0), th_expand_num(b, size),
                            th_i(b->ir, 1), th_d(TH_I64), device);
  for (uint32_t i = 0; i < axes; i++) {
    iota = TH_EI(unsqueeze, iota, -1);
  }
  return iota;
}

// ---- elementwise

th_status th_expand_rule_clamp(th_builder *b, const th_stmt *stmt,
                               th_value **outs) {
  th_dtype dtype = th_expand_type(b, stmt, 0).dtype;
  th_arg x = th_expand_operand(b, &stmt->args[0], dtype);
  if (stmt->args[1].kind != TH_ARG_NONE) {
    x = th_v(TH_BUILD(b, maximum, x, stmt->args[1]));
  }
  if (stmt->args[2].kind != TH_ARG_NONE) {
    x = th_v(TH_BUILD(b, minimum, x, stmt->args[2]));
  }
  if (x.kind == TH_ARG_NUM) {
    x = th_v(TH_BUILD(b, scalar, x, th_d(dtype)));
  }
  return th_expand_out(b, stmt, 0, x.kind == TH_ARG_VALUE ? x.value : NULL,
                       outs);
}

// The end that is nearer is the one from which it goes, so that a weight of 1
// gives y exactly.
th_status th_expand_rule_lerp(th_builder *b, const th_stmt *stmt,
                              th_value **outs) {
  th_dtype dtype = th_expand_compute(th_expand_type(b, stmt, 0).dtype);
  th_arg x = th_expand_operand(b, &stmt->args[0], dtype);
  th_arg y = th_expand_operand(b, &stmt->args[1], dtype);
  th_arg w = th_expand_operand(b, &stmt->args[2], dtype);
  th_value *span = TH_BUILD(b, sub, y, x);
  double weight = 0;
  bool is_const = th_expand_const(stmt, 2, &weight);
  th_value *low = NULL, *high = NULL;
  if (!is_const || fabs(weight) < 0.5) {
    low = TH_BUILD(b, add, x, th_v(TH_BUILD(b, mul, w, th_v(span))));
  }
  if (!is_const || !low) {
    th_value *rest = TH_BUILD(b, sub, th_f(b->ir, 1), w);
    high = TH_BUILD(b, sub, y, th_v(TH_E2(mul, span, rest)));
  }
  if (!is_const) {
    th_value *is_low = TH_EF(lt, TH_BUILD(b, abs, w), 0.5);
    low = TH_BUILD(b, where, th_v(is_low), th_v(low), th_v(high));
  }
  return th_expand_out(b, stmt, 0, low ? low : high, outs);
}

static th_status expand_addc(th_builder *b, const th_stmt *stmt, th_op op,
                             th_value **outs) {
  th_dtype dtype = th_expand_compute(th_expand_type(b, stmt, 0).dtype);
  th_arg x[3];
  for (uint32_t i = 0; i < 3; i++) {
    x[i] = th_expand_operand(b, &stmt->args[i], dtype);
  }
  th_arg value = th_expand_scalar(b, stmt, 3, dtype);
  if (!th_expand_is(&value, 1)) {
    x[1] = th_v(TH_BUILD(b, mul, x[1], value));
  }
  th_value *y = th_build1(b, op, (th_arg[]){x[1], x[2]}, 2);
  return th_expand_out(b, stmt, 0, TH_BUILD(b, add, x[0], th_v(y)), outs);
}

th_status th_expand_rule_addcmul(th_builder *b, const th_stmt *stmt,
                                 th_value **outs) {
  return expand_addc(b, stmt, TH_OP_mul, outs);
}

th_status th_expand_rule_addcdiv(th_builder *b, const th_stmt *stmt,
                                 th_value **outs) {
  return expand_addc(b, stmt, TH_OP_div, outs);
}

th_status th_expand_rule_masked_fill(th_builder *b, const th_stmt *stmt,
                                     th_value **outs) {
  th_value *x = th_expand_arg(stmt, 0);
  th_arg value = th_expand_operand(b, &stmt->args[2], x->type.dtype);
  th_arg pair[] = {stmt->args[0], value};
  if (th_promote_args(pair, 2) != x->type.dtype) { // 0.5 into integers
    th_arg device = {.kind = TH_ARG_DEVICE, .device = x->type.device};
    value = th_v(TH_BUILD(b, full, th_ints(b->ir, NULL, 0), value,
                          th_d(x->type.dtype), device));
  }
  th_value *y = TH_BUILD(b, where, stmt->args[1], value, stmt->args[0]);
  return th_expand_out(b, stmt, 0, y, outs);
}

th_status th_expand_rule_scalar(th_builder *b, const th_stmt *stmt,
                                th_value **outs) {
  th_value *y = TH_BUILD(b, full, th_ints(b->ir, NULL, 0), stmt->args[0],
                         stmt->args[1], stmt->args[2]);
  return th_expand_out(b, stmt, 0, y, outs);
}

// Promotion of dtypes, broadcasting, and the shape rules of elementwise
// operations.  Results are row-major, whatever strides the operands have.
#include "ir/infer_util.h"

// ---- promotion

static bool promote_is_f8(th_dtype dtype) {
  return dtype == TH_F8_E4M3FN || dtype == TH_F8_E5M2 || dtype == TH_F8_E8M0FNU;
}

// Wider ones are later in the map; f16 and bf16 have no order between them.
static th_dtype promote_floats(th_dtype a, th_dtype b) {
  th_dtype wide = a > b ? a : b;
  return wide == TH_BF16 ? TH_F32 : wide;
}

static th_dtype promote_ints(th_dtype a, th_dtype b) {
  th_dtype wide = a > b ? a : b;
  return wide == TH_I8 ? TH_I16 : wide; // u8 with i8
}

th_dtype th_promote_types(th_dtype a, th_dtype b) {
  if (a == b) {
    return a;
  }
  if (a >= TH_DTYPE_COUNT || b >= TH_DTYPE_COUNT || promote_is_f8(a) ||
      promote_is_f8(b)) {
    return TH_DTYPE_COUNT; // as PyTorch: 8-bit floats meet nothing else
  }
  bool is_float_a = th_dtype_is_float(a), is_float_b = th_dtype_is_float(b);
  if (a == TH_BOOL || b == TH_BOOL) {
    return a == TH_BOOL ? b : a;
  }
  if (is_float_a && is_float_b) {
    return promote_floats(a, b);
  }
  if (is_float_a || is_float_b) {
    return is_float_a ? a : b;
  }
  return promote_ints(a, b);
}

// The promoted dtype of each group of operands; NONE: the group is empty.
enum { PROMOTE_NONE = TH_DTYPE_COUNT + 1 };

typedef struct promote_groups {
  int tensors, scalars, numbers; // with dims, 0-dim, no tensors
} promote_groups;

static int promote_join(int a, int b) {
  if (a == PROMOTE_NONE || b == PROMOTE_NONE) {
    return a == PROMOTE_NONE ? b : a;
  }
  return (int)th_promote_types((th_dtype)a, (th_dtype)b);
}

// A group of lower rank matters only where its category is higher.
static int promote_combine(int higher, int lower) {
  if (higher == PROMOTE_NONE || lower == PROMOTE_NONE) {
    return higher == PROMOTE_NONE ? lower : higher;
  }
  if (higher == TH_DTYPE_COUNT || lower == TH_DTYPE_COUNT) {
    return TH_DTYPE_COUNT;
  }
  bool is_float = th_dtype_is_float((th_dtype)higher);
  if (is_float) {
    return higher;
  }
  if (higher == TH_BOOL || th_dtype_is_float((th_dtype)lower)) {
    return promote_join(higher, lower);
  }
  return higher;
}

static void promote_number(promote_groups *g, th_dtype dtype) {
  // Of numbers the category counts; a float has the default dtype.
  g->numbers = promote_join(g->numbers, dtype == TH_F64 ? TH_F32 : (int)dtype);
}

static void promote_see(promote_groups *g, const th_arg *arg) {
  if (arg->kind == TH_ARG_NUM) {
    promote_number(g, arg->num->dtype);
  } else if (arg->kind == TH_ARG_VALUE) {
    const th_type *type = &arg->value->type;
    if (type->kind == TH_KIND_NUMBER) {
      promote_number(g, type->dtype);
    } else if (type->kind == TH_KIND_TENSOR) {
      int *group = type->rank ? &g->tensors : &g->scalars;
      *group = promote_join(*group, (int)type->dtype);
    }
  }
}

static promote_groups promote_start(void) {
  return (promote_groups){PROMOTE_NONE, PROMOTE_NONE, PROMOTE_NONE};
}

static th_dtype promote_end(const promote_groups *g) {
  int dtype =
      promote_combine(g->tensors, promote_combine(g->scalars, g->numbers));
  return dtype == PROMOTE_NONE ? TH_DTYPE_COUNT : (th_dtype)dtype;
}

th_dtype th_promote_args(const th_arg *args, uint32_t count) {
  promote_groups g = promote_start();
  for (uint32_t i = 0; i < count; i++) {
    promote_see(&g, &args[i]);
  }
  return promote_end(&g);
}

// Over the operands of a row: tensors and E, from parameter `first` on; plain
// numbers (alpha, beta) have no say.
static th_dtype promote_operands(const th_op_info *op, const th_arg *args,
                                 uint32_t first) {
  promote_groups g = promote_start();
  for (uint32_t i = first; i < op->param_count; i++) {
    if (op->params[i].kind == TH_P_TENSOR ||
        op->params[i].kind == TH_P_OPERAND) {
      promote_see(&g, &args[i]);
    }
  }
  return promote_end(&g);
}

static th_dtype promote_to_float(th_dtype dtype) {
  return dtype < TH_DTYPE_COUNT && !th_dtype_is_float(dtype) ? TH_F32 : dtype;
}

th_dtype th_compute_dtype(const th_stmt *stmt) {
  const th_op_info *op = stmt->op;
  if (op->infer == th_infer_rule_predicate) {
    bool is_logic = op->op == TH_OP_logical_not ||
                    op->op == TH_OP_logical_and || op->op == TH_OP_logical_or ||
                    op->op == TH_OP_logical_xor;
    return is_logic ? TH_BOOL : promote_operands(op, stmt->args, 0);
  }
  if (op->infer == th_infer_rule_promote_float) {
    return promote_to_float(promote_operands(op, stmt->args, 0));
  }
  if (op->infer == th_infer_rule_where) {
    return promote_operands(op, stmt->args, 1);
  }
  if (op->infer == th_infer_rule_to) {
    return stmt->args[1].dtype;
  }
  if (op->infer == th_infer_rule_masked_fill) {
    return stmt->args[0].value->type.dtype;
  }
  return promote_operands(op, stmt->args, 0);
}

// ---- broadcasting

static th_status broadcast_error(th_infer *in, const th_type *const *types,
                                 uint32_t a, uint32_t b, uint32_t dim,
                                 const th_expr *have, const th_expr *got) {
  return th_infer_error(
      in, TH_SHAPE,
      "sizes differ: %s and %s (%s and %s in dimension %u of "
      "the result); they must be equal or 1",
      th_infer_text(in, types[a]), th_infer_text(in, types[b]),
      th_infer_num_text(in, have), th_infer_num_text(in, got), dim);
}

th_status th_broadcast(th_infer *in, const th_type *const *types,
                       uint32_t count, th_type *out) {
  uint8_t rank = 0;
  for (uint32_t i = 0; i < count; i++) {
    rank = types[i]->rank > rank ? types[i]->rank : rank;
  }
  const th_expr **dims =
      TH_NEW_ARRAY(&in->ir->arena, const th_expr *, rank + 1u);
  uint32_t from[TH_MAX_RANK] = {0}; // which operand gave this size
  for (uint8_t d = 0; d < rank; d++) {
    dims[d] = th_int(in->ir, 1);
  }
  for (uint32_t i = 0; i < count; i++) {
    const th_type *type = types[i];
    for (uint8_t k = 0; k < type->rank; k++) {
      uint8_t d = (uint8_t)(rank - type->rank + k);
      const th_expr *size = type->dims[k];
      if (th_is_int(size, 1)) {
        continue;
      }
      if (th_is_int(dims[d], 1)) {
        dims[d] = size;
        from[d] = i;
      } else if (!th_infer_same_dim(in, dims[d], size, &dims[d])) {
        return broadcast_error(in, types, from[d], i, d, dims[d], size);
      }
    }
  }
  out->rank = rank;
  out->dims = dims;
  return TH_OK;
}

// ---- rules

// The broadcast of all operands, with a dtype that the rule has found.
static th_status promote_result(th_infer *in, th_dtype dtype) {
  const th_type *types[TH_MAX_PARAMS];
  const char *texts[2] = {"a number", "a number"};
  uint32_t count = 0;
  for (uint32_t i = 0; i < in->op->param_count; i++) {
    const th_type *type = th_infer_tensor(in, i);
    if (i < 2 && type) {
      texts[i] = th_infer_text(in, type);
    }
    if (type) {
      types[count++] = type;
    }
  }
  if (dtype >= TH_DTYPE_COUNT) {
    return th_infer_error(in, TH_DTYPE,
                          "no common dtype of %s and %s; convert one of them "
                          "with 'to'",
                          texts[0], texts[1]);
  }
  th_type result = th_tensor_type(dtype, 0, NULL);
  TH_TRY(th_infer_device(in, &result.device));
  TH_TRY(th_broadcast(in, types, count, &result));
  return th_infer_out_type(in, &result);
}

th_status th_infer_rule_promote(th_infer *in) {
  return promote_result(in, promote_operands(in->op, in->args, 0));
}

th_status th_infer_rule_promote_number(th_infer *in) {
  th_dtype dtype = promote_operands(in->op, in->args, 0);
  if (dtype == TH_BOOL) {
    return th_infer_error(in, TH_DTYPE,
                          "not defined for bool; use logical_not, logical_xor "
                          "or an integer dtype");
  }
  return promote_result(in, dtype);
}

th_status th_infer_rule_promote_float(th_infer *in) {
  return promote_result(
      in, promote_to_float(promote_operands(in->op, in->args, 0)));
}

th_status th_infer_rule_promote_int(th_infer *in) {
  th_dtype dtype = promote_operands(in->op, in->args, 0);
  if (dtype < TH_DTYPE_COUNT && th_dtype_is_float(dtype)) {
    return th_infer_error(in, TH_DTYPE,
                          "operands promote to %s; integers or bool are needed",
                          th_dtype_name(dtype));
  }
  return promote_result(in, dtype);
}

th_status th_infer_rule_predicate(th_infer *in) {
  th_dtype dtype = promote_operands(in->op, in->args, 0);
  return promote_result(in, dtype < TH_DTYPE_COUNT ? TH_BOOL : dtype);
}

static th_status promote_need_mask(th_infer *in, uint32_t arg) {
  const th_type *mask = th_infer_tensor(in, arg);
  if (!mask || mask->dtype == TH_BOOL || mask->dtype == TH_U8) {
    return TH_OK;
  }
  th_infer_blame(in, arg);
  return th_infer_error(in, TH_DTYPE, "'%s' is %s; it must be bool",
                        in->op->params[arg].name, th_infer_text(in, mask));
}

th_status th_infer_rule_where(th_infer *in) {
  TH_TRY(promote_need_mask(in, 0));
  return promote_result(in, promote_operands(in->op, in->args, 1));
}

th_status th_infer_rule_masked_fill(th_infer *in) {
  const th_type *value = th_infer_tensor(in, 2);
  TH_TRY(promote_need_mask(in, 1));
  if (value && value->rank) {
    th_infer_blame(in, 2);
    return th_infer_error(in, TH_SHAPE,
                          "'value' is %s; it must be a number or 0-dim",
                          th_infer_text(in, value));
  }
  return promote_result(in, th_infer_tensor(in, 0)->dtype);
}

th_status th_infer_rule_to(th_infer *in) {
  return promote_result(in, in->args[1].dtype);
}

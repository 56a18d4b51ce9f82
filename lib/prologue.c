// The prologue of a traced function: its guards as a trace.
//
//   def prologue(t_fc_weight, in0, in1):
//     # t_fc_weight: "cpu f32[4, 8]"  param fc.weight
//     # in0: "cpu f32[s0, 8]"
//     # in1: "float in1"
//     # s0: "int" in [2, inf]
//
//     check_tensor(t_fc_weight, 'cpu', f32, [4, 8], [8, 1])
//     check_tensor(in0, 'cpu', f32, [s0, 8])
//     check_number(in1, 2.0)
//     return {'output': (t_fc_weight, in0, in1)}
//
// It returns the inputs of the computation.
#include "guards.h"

#include "tensor/tensor.h"

typedef struct prologue {
  const th_prologue *from;
  th_ir *ir;
  th_builder b;
} prologue;

static th_arg prologue_strides(prologue *p, const th_type *type) {
  th_arg items[TH_MAX_RANK];
  for (uint8_t d = 0; d < type->rank; d++) {
    items[d] = th_n(th_type_stride(p->ir, type, d));
  }
  return th_list(p->ir, items, type->rank);
}

static th_value *prologue_tensor(prologue *p, const th_value *in) {
  const th_type *type = &in->type;
  th_value *value = th_trace_input(p->b.trace, type, in->name, in->input);
  bool is_user = in->input->kind == TH_INPUT_USER;
  th_arg args[] = {
      th_v(value),
      {.kind = TH_ARG_DEVICE, .device = type->device},
      th_d(type->dtype),
      th_nums(p->ir, type->dims, type->rank),
      is_user && p->from->any_strides ? th_none() : prologue_strides(p, type),
  };
  th_build(&p->b, th_op_row(TH_OP_check_tensor), args, TH_COUNT(args), NULL);
  return value;
}

// A constant is a symbol before it is checked.
static th_value *prologue_number(prologue *p, const th_value *in) {
  const th_expr *num = in->type.num;
  const th_expr *symbol =
      th_is_const(num) ? th_sym(p->ir, in->name, num->dtype) : num;
  th_type type = th_number_type(symbol);
  th_value *value = th_trace_input(p->b.trace, &type, in->name, in->input);
  th_arg args[] = {th_n(symbol), th_n(num)};
  th_build(&p->b, th_op_row(TH_OP_check_number), args, 2, NULL);
  return value;
}

static th_value *prologue_other(prologue *p, const th_value *in) {
  th_value *value = th_trace_input(p->b.trace, &in->type, in->name, in->input);
  th_arg args[] = {th_s(in->name), th_s(in->type.text)};
  bool is_none = in->type.kind == TH_KIND_NONE;
  th_op op = is_none ? TH_OP_check_none : TH_OP_check_string;
  th_build(&p->b, th_op_row(op), args, is_none ? 1 : 2, NULL);
  return value;
}

th_status th_prologue_build(const th_prologue *from, th_trace **out_trace) {
  const th_trace *t = from->computation;
  prologue p = {.from = from, .ir = t->ir};
  const char *keys[] = {"output"};
  th_builder_init(&p.b, th_trace_new(t->ir, "prologue"));
  th_arg *outs = TH_NEW_ARRAY(&t->ir->arena, th_arg, t->input_count + 1);
  for (uint32_t i = 0; i < t->input_count; i++) {
    const th_value *in = t->inputs[i];
    th_value *value = in->type.kind == TH_KIND_TENSOR ? prologue_tensor(&p, in)
                      : in->type.kind == TH_KIND_NUMBER
                          ? prologue_number(&p, in)
                          : prologue_other(&p, in);
    outs[i] = th_v(value);
  }
  for (uint32_t i = 0; i < from->condition_count; i++) {
    th_arg args[] = {th_n(from->conditions[i]),
                     th_s("taken for granted when it was traced")};
    th_build(&p.b, th_op_row(TH_OP_assert_number), args, 2, NULL);
  }
  th_arg result = th_tuple(t->ir, outs, t->input_count);
  p.b.trace->result = th_dict(t->ir, keys, &result, 1);
  p.b.trace->provenance = "Constructed by jit";
  *out_trace = p.b.trace;
  return p.b.status;
}

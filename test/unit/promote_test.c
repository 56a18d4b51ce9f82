// Promotion of dtypes against PyTorch's rules (torch.promote_types,
// torch.result_type).
#include "ir/infer.h"
#include "ir_text.h"

#include <criterion/criterion.h>

enum { NONE = TH_DTYPE_COUNT };

Test(promote, types) {
  enum { B = TH_BOOL, U = TH_U8, C = TH_I8, S = TH_I16, I = TH_I32 };
  enum { L = TH_I64, H = TH_F16, G = TH_BF16, F = TH_F32, D = TH_F64 };
  static const int dtypes[] = {B, U, C, S, I, L, H, G, F, D};
  static const int table[10][10] = {
      // b  u8 i8 i16 i32 i64 f16 bf16 f32 f64
      {B, U, C, S, I, L, H, G, F, D}, // bool
      {U, U, S, S, I, L, H, G, F, D}, // u8
      {C, S, C, S, I, L, H, G, F, D}, // i8
      {S, S, S, S, I, L, H, G, F, D}, // i16
      {I, I, I, I, I, L, H, G, F, D}, // i32
      {L, L, L, L, L, L, H, G, F, D}, // i64
      {H, H, H, H, H, H, H, F, F, D}, // f16
      {G, G, G, G, G, G, F, G, F, D}, // bf16
      {F, F, F, F, F, F, F, F, F, D}, // f32
      {D, D, D, D, D, D, D, D, D, D}, // f64
  };
  for (int i = 0; i < 10; i++) {
    for (int j = 0; j < 10; j++) {
      th_dtype a = (th_dtype)dtypes[i], b = (th_dtype)dtypes[j];
      cr_expect_eq((int)th_promote_types(a, b), table[i][j], "%s with %s",
                   th_dtype_name(a), th_dtype_name(b));
    }
  }
}

Test(promote, eight_bit_floats_meet_nothing) {
  static const th_dtype f8[] = {TH_F8_E4M3FN, TH_F8_E5M2, TH_F8_E8M0FNU};
  for (size_t i = 0; i < TH_COUNT(f8); i++) {
    for (int other = 0; other < TH_DTYPE_COUNT; other++) {
      int want = other == (int)f8[i] ? other : NONE;
      cr_expect_eq((int)th_promote_types(f8[i], (th_dtype)other), want);
      cr_expect_eq((int)th_promote_types((th_dtype)other, f8[i]), want);
    }
  }
}

// ---- operands: tensors, 0-dim tensors, numbers

typedef struct promote_case {
  const char *inputs, *stmt;
  th_dtype result, compute;
} promote_case;

Test(promote, operands) {
  static const promote_case cases[] = {
      // The category of a number counts, not its width.
      {"x u8[2]", "t = add(x, 1000)", TH_U8, TH_U8},
      {"x u8[2]", "t = add(x, True)", TH_U8, TH_U8},
      {"x b8[2]", "t = add(x, True)", TH_BOOL, TH_BOOL},
      {"x b8[2]", "t = add(x, 1)", TH_I64, TH_I64},
      {"x b8[2]", "t = mul(x, 1.0)", TH_F32, TH_F32},
      {"x i16[2]", "t = add(x, 1.0)", TH_F32, TH_F32},
      {"x bf16[2]", "t = add(x, 1.0)", TH_BF16, TH_BF16},
      {"x f64[2]", "t = add(x, 1.0)", TH_F64, TH_F64},
      // A 0-dim tensor outranks a number and yields to a tensor.
      {"x i32[2]; y i64[]", "t = add(x, y)", TH_I32, TH_I32},
      {"x i32[2]; y f16[]", "t = add(x, y)", TH_F16, TH_F16},
      {"x b8[2]; y u8[]", "t = add(x, y)", TH_U8, TH_U8},
      {"x f16[2]; y f32[]", "t = add(y, x)", TH_F16, TH_F16},
      {"x i16[]", "t = add(x, 1)", TH_I16, TH_I16},
      {"x i16[]", "t = add(x, 1.0)", TH_F32, TH_F32},
      {"x f16[]", "t = add(x, 1.0)", TH_F16, TH_F16},
      {"x f32[1]; y f64[]", "t = add(x, y)", TH_F32, TH_F32},
      {"x f32[1]; y f64[1]", "t = add(x, y)", TH_F64, TH_F64},
      {"x i32[2]; lo f64[]", "t = clamp(x, lo, 0.5)", TH_F64, TH_F64},
      // What is computed in differs from what results.
      {"x i32[2]; y f16[2]", "t = lt(x, y)", TH_BOOL, TH_F16},
      {"x i32[2]", "t = lt(x, 0.5)", TH_BOOL, TH_F32},
      {"x u8[2]; y i8[2]", "t = eq(x, y)", TH_BOOL, TH_I16},
      {"x i32[2]; y f16[2]", "t = logical_and(x, y)", TH_BOOL, TH_BOOL},
      {"x i32[2]", "t = sqrt(x)", TH_F32, TH_F32},
      {"x i32[2]; y i64[2]", "t = div(x, y)", TH_F32, TH_F32},
      {"c b8[2]; x i32[2]; y i64[2]", "t = where(c, x, y)", TH_I64, TH_I64},
      {"x f32[2]", "t = to(x, i8)", TH_I8, TH_I8},
      {"x i8[2]; m b8[2]", "t = masked_fill(x, m, 0.5)", TH_I8, TH_I8},
      // Plain numbers of a row have no say.
      {"x i64[2]", "t = addcmul(x, x, x, 2.5)", TH_I64, TH_I64},
      {"x i64[2]", "t = hardtanh(x, -1.0, 1.0)", TH_I64, TH_I64},
  };
  for (size_t i = 0; i < TH_COUNT(cases); i++) {
    const promote_case *c = &cases[i];
    ir_text t = ir_text_new();
    th_trace *trace = ir_text_read(&t, c->inputs, c->stmt);
    cr_assert(trace, "%s: %s", c->stmt, th_diagnostics_all(t.ctx));
    const th_stmt *stmt = trace->stmts[0];
    th_dtype result = stmt->outs[0]->type.dtype;
    cr_expect_eq(result, c->result, "%s with %s: %s", c->stmt, c->inputs,
                 th_dtype_name(result));
    cr_expect_eq(th_compute_dtype(stmt), c->compute,
                 "%s with %s computes in %s", c->stmt, c->inputs,
                 th_dtype_name(th_compute_dtype(stmt)));
    ir_text_free(&t);
  }
}

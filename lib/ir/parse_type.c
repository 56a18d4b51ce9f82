// Types, numbers and symbols in trace text.
#include "ir/parse.h"

#include <string.h>

typedef struct type_symbols {
  th_parser *p;
  const th_symbol *unknown;
} type_symbols;

static void type_check_symbol(void *user, const th_symbol *symbol) {
  type_symbols *symbols = user;
  if (!th_parse_declared(symbols->p, symbol->name)) {
    symbols->unknown = symbol;
  }
}

th_status th_parse_number(th_parser *p, const th_expr **out_num) {
  th_lex *lex = &p->lex;
  bool empty = th_lex_done(lex);
  th_loc loc = th_lex_loc(lex);
  const char *at = lex->at;
  const th_expr *num = empty ? NULL : th_expr_parse(p->ir, &at, lex->stop);
  if (!num) {
    return TH_PARSE_ERROR(p,
                          "expected a number, a name or an expression of at "
                          "most %d parts",
                          TH_EXPR_SIZE);
  }
  type_symbols symbols = {.p = p};
  th_expr_symbols(num, type_check_symbol, &symbols);
  if (symbols.unknown) {
    return TH_PARSE_ERROR_AT(
        p, TH_PARSE, loc,
        "'%s' is no symbol of this trace; a symbol has a line like "
        "`# %s: \"int\" in [1, inf]` under the def",
        symbols.unknown->name, symbols.unknown->name);
  }
  lex->at = at;
  *out_num = num;
  return TH_OK;
}

// ---- tensors

// Sizes or strides.
static th_status type_dims(th_parser *p, const char *close, uint8_t *out_rank,
                           const th_expr *const **out_dims) {
  const th_expr *dims[TH_MAX_RANK];
  uint8_t rank = 0;
  if (!th_lex_take(&p->lex, close)) {
    do {
      th_lex_done(&p->lex);
      th_loc loc = th_lex_loc(&p->lex);
      if (rank == TH_MAX_RANK) {
        return TH_PARSE_ERROR(p, "a tensor has at most %d dimensions",
                              TH_MAX_RANK);
      }
      TH_TRY(th_parse_number(p, &dims[rank]));
      if (dims[rank]->dtype != TH_I64 ||
          (th_is_const(dims[rank]) && dims[rank]->i < 0)) {
        return TH_PARSE_ERROR_AT(p, TH_PARSE, loc,
                                 "sizes and strides are integers from 0");
      }
      rank++;
    } while (th_lex_take(&p->lex, ","));
    TH_TRY(th_parse_expect(p, close));
  }
  const th_expr **copy =
      TH_NEW_ARRAY(&p->ir->arena, const th_expr *, rank + 1u);
  memcpy(copy, dims, rank * sizeof *copy);
  *out_rank = rank;
  *out_dims = copy;
  return TH_OK;
}

// The bytes of a tensor whose sizes are known fit into 63 bits.
static bool type_fits(const th_type *type) {
  int64_t bytes = (int64_t)th_dtype_size(type->dtype);
  bool overflow = false;
  for (uint8_t i = 0; i < type->rank; i++) {
    const th_expr *dim = type->dims[i];
    if (th_is_int(dim, 0)) {
      return true;
    }
    overflow |=
        th_is_const(dim) && __builtin_mul_overflow(bytes, dim->i, &bytes);
  }
  return !overflow;
}

static th_status type_device(th_parser *p, th_device *out_device) {
  const char *at = NULL;
  size_t size = 0;
  char text[24] = {0};
  th_lex_done(&p->lex);
  th_loc loc = th_lex_loc(&p->lex);
  if (th_lex_name(&p->lex, &at, &size)) {
    while (p->lex.at < p->lex.stop &&
           (*p->lex.at == ':' || (*p->lex.at >= '0' && *p->lex.at <= '9'))) {
      p->lex.at++;
    }
    size = (size_t)(p->lex.at - at);
  }
  if (size < sizeof text) {
    memcpy(text, size ? at : "", size);
  }
  return th_device_parse(text, out_device)
             ? TH_OK
             : TH_PARSE_ERROR_AT(p, TH_PARSE, loc,
                                 "expected a type: \"cpu f32[2, 3]\", "
                                 "\"int 3\", \"float 1.0\", \"bool True\", "
                                 "\"str 'text'\" or \"None\"");
}

static th_status type_dtype(th_parser *p, th_dtype *out_dtype) {
  const char *at = NULL;
  size_t size = 0;
  char text[24] = {0};
  th_lex_done(&p->lex);
  th_loc loc = th_lex_loc(&p->lex);
  if (th_lex_name(&p->lex, &at, &size) && size < sizeof text) {
    memcpy(text, at, size);
  }
  *out_dtype = th_dtype_parse(text);
  return *out_dtype < TH_DTYPE_COUNT
             ? TH_OK
             : TH_PARSE_ERROR_AT(p, TH_PARSE, loc, "expected a dtype");
}

static th_status type_tensor(th_parser *p, th_type *out) {
  out->kind = TH_KIND_TENSOR;
  TH_TRY(type_device(p, &out->device));
  TH_TRY(type_dtype(p, &out->dtype));
  TH_TRY(th_parse_expect(p, "["));
  th_loc loc = th_lex_loc(&p->lex);
  TH_TRY(type_dims(p, "]", &out->rank, &out->dims));
  if (!type_fits(out)) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc,
                             "the tensor is larger than 63 bits can say");
  }
  if (th_lex_take(&p->lex, "{")) {
    uint8_t count = 0;
    TH_TRY(type_dims(p, "}", &count, &out->strides));
    if (count != out->rank) {
      return TH_PARSE_ERROR(p, "%u strides for %u dimensions", count,
                            out->rank);
    }
  }
  return TH_OK;
}

// ---- the others

static const struct {
  const char *name;
  th_dtype dtype;
} type_numbers[] = {{"int", TH_I64}, {"float", TH_F64}, {"bool", TH_BOOL}};

static const char *type_number_name(th_dtype dtype) {
  return dtype == TH_F64 ? "float" : dtype == TH_BOOL ? "bool" : "int";
}

static th_status type_number(th_parser *p, th_dtype dtype, th_type *out) {
  const th_expr *num = NULL;
  th_lex_done(&p->lex);
  th_loc loc = th_lex_loc(&p->lex);
  TH_TRY(th_parse_number(p, &num));
  if (num->dtype != dtype) {
    return TH_PARSE_ERROR_AT(p, TH_PARSE, loc, "expected %s, and this is %s",
                             type_number_name(dtype),
                             type_number_name(num->dtype));
  }
  *out = th_number_type(num);
  return TH_OK;
}

static th_status type_string(th_parser *p, th_type *out) {
  const char *text = NULL, *error = NULL;
  if (!th_lex_string(&p->lex, &p->ir->arena, &text, &error)) {
    return TH_PARSE_ERROR(p, "%s", error ? error : "expected a string in '");
  }
  *out = (th_type){.kind = TH_KIND_STRING, .text = th_ir_string(p->ir, text)};
  return TH_OK;
}

static th_status type_any(th_parser *p, th_type *out) {
  for (size_t i = 0; i < TH_COUNT(type_numbers); i++) {
    if (th_lex_take(&p->lex, type_numbers[i].name)) {
      return type_number(p, type_numbers[i].dtype, out);
    }
  }
  if (th_lex_take(&p->lex, "str")) {
    return type_string(p, out);
  }
  if (th_lex_take(&p->lex, "None")) {
    out->kind = TH_KIND_NONE;
    return TH_OK;
  }
  return type_tensor(p, out);
}

th_status th_parse_type(th_parser *p, th_type *out_type) {
  *out_type = (th_type){.kind = TH_KIND_NONE};
  TH_TRY(th_parse_expect(p, "\""));
  TH_TRY(type_any(p, out_type));
  return th_parse_expect(p, "\"");
}

// ---- symbols

bool th_parse_is_symbol(const th_lex *at) {
  th_lex lex = *at;
  for (size_t i = 0; i < TH_COUNT(type_numbers); i++) {
    if (th_lex_take(&lex, "\"") && th_lex_take(&lex, type_numbers[i].name) &&
        th_lex_take(&lex, "\"")) {
      return true;
    }
    lex = *at;
  }
  return false;
}

static th_status type_bound(th_parser *p, int64_t *out_bound) {
  bool negative = th_lex_take(&p->lex, "-");
  if (th_lex_take(&p->lex, "inf")) {
    *out_bound = negative ? INT64_MIN : INT64_MAX;
    return TH_OK;
  }
  int64_t bound = 0;
  if (!th_lex_int(&p->lex, &bound)) {
    return TH_PARSE_ERROR(p, "expected an integer, inf or -inf");
  }
  *out_bound = negative ? -bound : bound;
  return TH_OK;
}

th_status th_parse_symbol(th_parser *p, th_parse_range *out_range) {
  *out_range = (th_parse_range){TH_I64, INT64_MIN, INT64_MAX};
  TH_TRY(th_parse_expect(p, "\""));
  for (size_t i = 0; i < TH_COUNT(type_numbers); i++) {
    if (th_lex_take(&p->lex, type_numbers[i].name)) {
      out_range->dtype = type_numbers[i].dtype;
    }
  }
  TH_TRY(th_parse_expect(p, "\""));
  if (out_range->dtype == TH_I64 && th_lex_take(&p->lex, "in")) {
    TH_TRY(th_parse_expect(p, "["));
    TH_TRY(type_bound(p, &out_range->min));
    TH_TRY(th_parse_expect(p, ","));
    TH_TRY(type_bound(p, &out_range->max));
    TH_TRY(th_parse_expect(p, "]"));
    if (out_range->min > out_range->max) {
      return TH_PARSE_ERROR(p, "the range is empty");
    }
  }
  return TH_OK;
}

th_status th_parse_slab(th_parser *p, int64_t *out_slab) {
  *out_slab = -1;
  if (th_lex_take(&p->lex, "@") && !th_lex_int(&p->lex, out_slab)) {
    return TH_PARSE_ERROR(p, "expected the byte offset in the slab");
  }
  return TH_OK;
}

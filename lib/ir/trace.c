// Values, types, arguments and traces as data.
#include "ir/trace.h"
#include "ir/lex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- traces and values

th_trace *th_trace_new(th_ir *ir, const char *name) {
  th_trace *trace = TH_NEW(&ir->arena, th_trace);
  trace->ir = ir;
  trace->name = th_ir_string(ir, name);
  trace->slab_size = -1;
  th_map_init(&trace->names, &ir->arena);
  TH_PUSH(&ir->arena, trace->values, trace->value_count, trace->value_cap) =
      NULL;
  return trace;
}

th_trace *th_trace_like(const th_trace *trace) {
  th_trace *next = th_trace_new(trace->ir, trace->name);
  next->direction = trace->direction;
  next->no_grad = trace->no_grad;
  next->has_autocast = trace->has_autocast;
  next->autocast = trace->autocast;
  next->slab_size = trace->slab_size;
  next->next_number = trace->next_number;
  return next;
}

// A name that the text form can read back: bytes that no identifier has become
// '_', and words that mean something else get one behind.
static const char *trace_legal(th_ir *ir, const char *wanted) {
  size_t size = strlen(wanted);
  bool is_name = th_text_is_name(wanted, size);
  if (is_name && !th_text_is_reserved(wanted, size)) {
    return wanted;
  }
  char *legal = th_arena_printf(&ir->arena, is_name ? "%s_" : "_%s", wanted);
  for (char *p = legal; *p; p++) {
    *p = *p == '_' || th_text_is_name((char[]){'a', *p}, 2) ? *p : '_';
  }
  return legal;
}

// No trace that is made from this one gives the number of t7 to another value.
static void trace_count_number(th_trace *trace, const char *name) {
  enum { DIGITS = 8 };
  size_t digits = name[0] == 't' ? strspn(name + 1, "0123456789") : 0;
  if (digits && digits <= DIGITS && !name[1 + digits]) {
    uint32_t number = (uint32_t)strtoul(name + 1, NULL, 10);
    if (trace->next_number <= number) {
      trace->next_number = number + 1;
    }
  }
}

// `wanted`, or wanted_1, wanted_2, ...; a new number (t7) when NULL or empty.
static const char *trace_unique(th_trace *trace, const char *wanted) {
  wanted = wanted && *wanted ? trace_legal(trace->ir, wanted) : NULL;
  if (wanted && !th_map_get(&trace->names, wanted)) {
    trace_count_number(trace, wanted);
    return th_ir_string(trace->ir, wanted);
  }
  uint32_t made = trace->value_count - 1 - trace->input_count;
  uint32_t number = made > trace->next_number ? made : trace->next_number;
  for (uint32_t i = wanted ? 1 : number;; i++) {
    char name[256];
    if (wanted) {
      snprintf(name, sizeof name, "%.200s_%u", wanted, i);
    } else {
      snprintf(name, sizeof name, "t%u", i);
    }
    if (!th_map_get(&trace->names, name)) {
      trace_count_number(trace, name);
      return th_ir_string(trace->ir, name);
    }
  }
}

th_value *th_trace_value(th_trace *trace, const th_type *type,
                         const char *name) {
  th_value *value = TH_NEW(&trace->ir->arena, th_value);
  value->name = trace_unique(trace, name);
  value->id = trace->value_count;
  value->type = *type;
  value->slab = -1;
  TH_PUSH(&trace->ir->arena, trace->values, trace->value_count,
          trace->value_cap) = value;
  th_map_put(&trace->names, value->name, value);
  return value;
}

th_value *th_trace_input(th_trace *trace, const th_type *type, const char *name,
                         const th_input *input) {
  th_value *value = th_trace_value(trace, type, name);
  th_input *copy = TH_NEW(&trace->ir->arena, th_input);
  *copy = input ? *input : (th_input){.kind = TH_INPUT_USER};
  copy->fqn = th_ir_string(trace->ir, copy->fqn);
  value->input = copy;
  TH_PUSH(&trace->ir->arena, trace->inputs, trace->input_count,
          trace->input_cap) = value;
  return value;
}

void th_value_rename(th_trace *trace, th_value *value, const char *name) {
  if (value->input || !*name) {
    return;
  }
  name = trace_legal(trace->ir, name);
  if (!th_map_get(&trace->names, name)) {
    value->name = th_ir_string(trace->ir, name);
    th_map_put(&trace->names, value->name, value);
  }
}

static void trace_escape(th_buffer *out, char c) {
  if (c == '.' || c == '_') {
    th_buffer_putc(out, c == '.' ? 'd' : 'u');
  } else {
    th_buffer_printf(out, "x%02x", (unsigned)(unsigned char)c);
  }
}

// Between letters and digits a single '.' is '_' and a single '_' is '__';
// any other run of other bytes is '___', a letter for each byte (d for a dot, u
// for an underscore, xHH else) and '_'.  No two FQNs meet: the number of
// underscores tells the three apart, and runs never touch.
const char *th_name_of_fqn(th_ir *ir, const char *fqn) {
  th_buffer out;
  th_buffer_init(&out, &ir->arena);
  th_buffer_puts(&out, "t_");
  for (const char *p = fqn; *p;) {
    size_t run = 0;
    while (p[run] &&
           (p[run] == '_' || !th_text_is_name((char[]){'a', p[run]}, 2))) {
      run++;
    }
    if (run == 0) {
      th_buffer_putc(&out, *p++);
      continue;
    }
    if (run == 1 && (*p == '.' || *p == '_')) {
      th_buffer_puts(&out, *p == '.' ? "_" : "__");
    } else {
      th_buffer_puts(&out, "___");
      for (size_t i = 0; i < run; i++) {
        trace_escape(&out, p[i]);
      }
      th_buffer_putc(&out, '_');
    }
    p += run;
  }
  return th_ir_string(ir, out.data);
}

// ---- types

th_type th_tensor_type(th_dtype dtype, uint8_t rank,
                       const th_expr *const *dims) {
  return (th_type){
      .kind = TH_KIND_TENSOR, .dtype = dtype, .rank = rank, .dims = dims};
}

th_type th_number_type(const th_expr *num) {
  return (th_type){.kind = TH_KIND_NUMBER, .dtype = num->dtype, .num = num};
}

static bool trace_nums_equal(const th_expr *const *a, const th_expr *const *b,
                             uint8_t count) {
  if (!a || !b) {
    return a == b;
  }
  for (uint8_t i = 0; i < count; i++) {
    if (a[i] != b[i]) {
      return false;
    }
  }
  return true;
}

bool th_type_equal(const th_type *a, const th_type *b) {
  if (a->kind != b->kind) {
    return false;
  }
  switch (a->kind) {
  case TH_KIND_TENSOR:
    return a->dtype == b->dtype && a->rank == b->rank &&
           a->device.type == b->device.type &&
           a->device.index == b->device.index &&
           (a->rank == 0 || trace_nums_equal(a->dims, b->dims, a->rank)) &&
           trace_nums_equal(a->strides, b->strides, a->rank);
  case TH_KIND_NUMBER:
    return a->num == b->num;
  case TH_KIND_STRING:
    return strcmp(a->text, b->text) == 0;
  default:
    return true;
  }
}

const th_expr *th_type_stride(th_ir *ir, const th_type *type, uint8_t i) {
  if (type->strides) {
    return type->strides[i];
  }
  const th_expr *stride = th_int(ir, 1);
  for (uint8_t k = type->rank; k > i + 1; k--) {
    stride = th_expr_mul(ir, stride, type->dims[k - 1]);
  }
  return stride;
}

const th_expr *th_type_numel(th_ir *ir, const th_type *type) {
  const th_expr *numel = th_int(ir, 1);
  for (uint8_t i = 0; i < type->rank; i++) {
    numel = th_expr_mul(ir, numel, type->dims[i]);
  }
  return numel;
}

bool th_type_is_contiguous(th_ir *ir, const th_type *type) {
  if (!type->strides) {
    return true;
  }
  const th_expr *stride = th_int(ir, 1);
  for (uint8_t i = type->rank; i-- > 0;) {
    if (!th_is_int(type->dims[i], 1) && type->strides[i] != stride) {
      return false;
    }
    stride = th_expr_mul(ir, stride, type->dims[i]);
  }
  return true;
}

static void trace_print_nums(th_buffer *out, const th_expr *const *nums,
                             uint8_t count, char open, char close) {
  th_buffer_putc(out, open);
  for (uint8_t i = 0; i < count; i++) {
    th_buffer_puts(out, i ? ", " : "");
    th_expr_print(out, nums[i]);
  }
  th_buffer_putc(out, close);
}

static void trace_print_number(th_buffer *out, const th_type *type) {
  th_buffer_puts(out, type->dtype == TH_BOOL  ? "bool "
                      : type->dtype == TH_F64 ? "float "
                                              : "int ");
  th_expr_print(out, type->num);
}

static void trace_print_string(th_buffer *out, const char *text) {
  th_buffer_puts(out, "str '");
  for (const char *p = text; *p; p++) {
    unsigned char c = (unsigned char)*p;
    if (c == '\'' || c == '\\' || c == '"' || c < ' ' || c == 127) {
      th_buffer_printf(out, "\\x%02x", c);
    } else {
      th_buffer_putc(out, *p);
    }
  }
  th_buffer_putc(out, '\'');
}

void th_type_print(th_buffer *buffer, const th_type *type) {
  static const char *const devices[] = {"cpu", "cuda", "ptxsim"};
  switch (type->kind) {
  case TH_KIND_TENSOR:
    th_buffer_puts(buffer, devices[type->device.type]);
    if (type->device.type != TH_CPU) {
      th_buffer_printf(buffer, ":%d", type->device.index);
    }
    th_buffer_printf(buffer, " %s", th_dtype_name(type->dtype));
    trace_print_nums(buffer, type->dims, type->rank, '[', ']');
    if (type->strides) {
      trace_print_nums(buffer, type->strides, type->rank, '{', '}');
    }
    break;
  case TH_KIND_NUMBER:
    trace_print_number(buffer, type);
    break;
  case TH_KIND_STRING:
    trace_print_string(buffer, type->text);
    break;
  case TH_KIND_NONE:
    th_buffer_puts(buffer, "None");
    break;
  }
}

const th_arg *th_trace_result(const th_trace *trace, const char *part) {
  const th_arg *result = &trace->result;
  for (uint32_t i = 0; result->kind == TH_ARG_DICT && i < result->count; i++) {
    if (strcmp(result->keys[i], part) == 0) {
      return &result->items[i];
    }
  }
  return NULL;
}

// ---- arguments

static th_arg trace_sequence(th_ir *ir, th_arg_kind kind, const th_arg *items,
                             uint32_t count) {
  th_arg *copy = TH_NEW_ARRAY(&ir->arena, th_arg, count ? count : 1);
  if (count) {
    memcpy(copy, items, count * sizeof *copy);
  }
  return (th_arg){.kind = kind, .count = count, .items = copy};
}

th_arg th_list(th_ir *ir, const th_arg *items, uint32_t count) {
  return trace_sequence(ir, TH_ARG_LIST, items, count);
}

th_arg th_tuple(th_ir *ir, const th_arg *items, uint32_t count) {
  return trace_sequence(ir, TH_ARG_TUPLE, items, count);
}

th_arg th_dict(th_ir *ir, const char *const *keys, const th_arg *items,
               uint32_t count) {
  th_arg dict = trace_sequence(ir, TH_ARG_DICT, items, count);
  const char **copy = TH_NEW_ARRAY(&ir->arena, const char *, count ? count : 1);
  for (uint32_t i = 0; i < count; i++) {
    copy[i] = th_ir_string(ir, keys[i]);
  }
  dict.keys = copy;
  return dict;
}

th_arg th_ints(th_ir *ir, const int64_t *ints, uint32_t count) {
  th_arg *items = TH_NEW_ARRAY(&ir->arena, th_arg, count ? count : 1);
  for (uint32_t i = 0; i < count; i++) {
    items[i] = th_i(ir, ints[i]);
  }
  return (th_arg){.kind = TH_ARG_LIST, .count = count, .items = items};
}

th_arg th_nums(th_ir *ir, const th_expr *const *nums, uint32_t count) {
  th_arg *items = TH_NEW_ARRAY(&ir->arena, th_arg, count ? count : 1);
  for (uint32_t i = 0; i < count; i++) {
    items[i] = th_n(nums[i]);
  }
  return (th_arg){.kind = TH_ARG_LIST, .count = count, .items = items};
}

bool th_arg_equal(const th_arg *a, const th_arg *b) {
  if (a->kind != b->kind || a->count != b->count) {
    return false;
  }
  switch (a->kind) {
  case TH_ARG_NONE:
    return true;
  case TH_ARG_STRING:
    return strcmp(a->text, b->text) == 0;
  case TH_ARG_DTYPE:
    return a->dtype == b->dtype;
  case TH_ARG_DEVICE:
    return a->device.type == b->device.type &&
           a->device.index == b->device.index;
  case TH_ARG_LIST:
  case TH_ARG_TUPLE:
  case TH_ARG_DICT:
    for (uint32_t i = 0; i < a->count; i++) {
      if (!th_arg_equal(&a->items[i], &b->items[i]) ||
          (a->kind == TH_ARG_DICT && strcmp(a->keys[i], b->keys[i]) != 0)) {
        return false;
      }
    }
    return true;
  default: // pointers that are shared: value, num, trace
    return a->value == b->value;
  }
}

void th_arg_values(const th_arg *arg, void (*fn)(void *user, th_value *value),
                   void *user) {
  if (arg->kind == TH_ARG_VALUE) {
    fn(user, arg->value);
  } else if (arg->kind == TH_ARG_LIST || arg->kind == TH_ARG_TUPLE ||
             arg->kind == TH_ARG_DICT) {
    for (uint32_t i = 0; i < arg->count; i++) {
      th_arg_values(&arg->items[i], fn, user);
    }
  }
}

void th_stmt_operands(const th_stmt *stmt,
                      void (*fn)(void *user, th_value *value), void *user) {
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    th_arg_values(&stmt->args[i], fn, user);
  }
}

static void trace_arg_numbers(const th_arg *arg,
                              void (*fn)(void *user, const th_expr *num),
                              void *user) {
  if (arg->kind == TH_ARG_NUM) {
    fn(user, arg->num);
  } else if (arg->kind == TH_ARG_LIST || arg->kind == TH_ARG_TUPLE ||
             arg->kind == TH_ARG_DICT) {
    for (uint32_t i = 0; i < arg->count; i++) {
      trace_arg_numbers(&arg->items[i], fn, user);
    }
  }
}

void th_stmt_numbers(const th_stmt *stmt,
                     void (*fn)(void *user, const th_expr *num), void *user) {
  for (uint16_t i = 0; i < stmt->arg_count; i++) {
    trace_arg_numbers(&stmt->args[i], fn, user);
  }
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    const th_type *type = stmt->outs[i] ? &stmt->outs[i]->type : NULL;
    if (type && type->kind == TH_KIND_NUMBER) {
      fn(user, type->num);
    }
    for (uint8_t d = 0; type && d < type->rank; d++) {
      fn(user, type->dims[d]);
      if (type->strides) {
        fn(user, type->strides[d]);
      }
    }
  }
}

// Are two traces the same text?  They may come from different th_irs, as a
// trace and what was read from its print do; then numbers are compared by
// structure, and symbols by name.
#include "ir/text.h"

#include <string.h>

static bool equal_text(const char *a, const char *b) {
  return a == b || strcmp(a ? a : "", b ? b : "") == 0;
}

static bool equal_num(const th_expr *a, const th_expr *b) {
  if (a == b) {
    return true;
  }
  if (!a || !b || a->op != b->op || a->dtype != b->dtype ||
      a->arg_count != b->arg_count) {
    return false;
  }
  if (a->op == TH_X_SYM) {
    return strcmp(a->symbol->name, b->symbol->name) == 0 &&
           a->symbol->min == b->symbol->min && a->symbol->max == b->symbol->max;
  }
  if (a->op == TH_X_CONST) {
    return a->i == b->i; // the bits, also of floats
  }
  for (uint32_t i = 0; i < a->arg_count; i++) {
    if (!equal_num(a->args[i], b->args[i])) {
      return false;
    }
  }
  return true;
}

static bool equal_nums(const th_expr *const *a, const th_expr *const *b,
                       uint8_t count) {
  if (!a || !b) {
    return a == b;
  }
  for (uint8_t i = 0; i < count; i++) {
    if (!equal_num(a[i], b[i])) {
      return false;
    }
  }
  return true;
}

static bool equal_type(const th_type *a, const th_type *b) {
  if (a->kind != b->kind) {
    return false;
  }
  switch (a->kind) {
  case TH_KIND_TENSOR:
    return a->dtype == b->dtype && th_device_equal(a->device, b->device) &&
           a->rank == b->rank &&
           (a->rank == 0 || equal_nums(a->dims, b->dims, a->rank)) &&
           equal_nums(a->strides, b->strides, a->rank);
  case TH_KIND_NUMBER:
    return equal_num(a->num, b->num);
  case TH_KIND_STRING:
    return equal_text(a->text, b->text);
  default:
    return true;
  }
}

static bool equal_input(const th_input *a, const th_input *b) {
  if (!a || !b) {
    return a == b;
  }
  return a->kind == b->kind &&
         (a->kind == TH_INPUT_USER || equal_text(a->fqn, b->fqn)) &&
         (a->kind != TH_INPUT_BUFFER || a->persistent == b->persistent);
}

static bool equal_value(const th_value *a, const th_value *b) {
  if (!a || !b) {
    return a == b;
  }
  return strcmp(a->name, b->name) == 0 && equal_type(&a->type, &b->type) &&
         a->slab == b->slab && equal_input(a->input, b->input);
}

static bool equal_items(const th_arg *a, const th_arg *b);

static bool equal_arg(const th_arg *a, const th_arg *b) {
  if (a->kind != b->kind) {
    return false;
  }
  switch (a->kind) {
  case TH_ARG_NONE:
    return true;
  case TH_ARG_VALUE: // its type is compared where it is made
    return strcmp(a->value->name, b->value->name) == 0;
  case TH_ARG_NUM:
    return equal_num(a->num, b->num);
  case TH_ARG_STRING:
    return strcmp(a->text, b->text) == 0;
  case TH_ARG_DTYPE:
    return a->dtype == b->dtype;
  case TH_ARG_DEVICE:
    return th_device_equal(a->device, b->device);
  case TH_ARG_TRACE:
    return th_trace_equal(a->trace, b->trace);
  default:
    return equal_items(a, b);
  }
}

static bool equal_items(const th_arg *a, const th_arg *b) {
  if (a->count != b->count) {
    return false;
  }
  for (uint32_t i = 0; i < a->count; i++) {
    if (a->kind == TH_ARG_DICT && strcmp(a->keys[i], b->keys[i]) != 0) {
      return false;
    }
    if (!equal_arg(&a->items[i], &b->items[i])) {
      return false;
    }
  }
  return true;
}

static bool equal_stmt(const th_stmt *a, const th_stmt *b) {
  if (strcmp(a->op->name, b->op->name) != 0 || a->arg_count != b->arg_count ||
      a->out_count != b->out_count || a->body_count != b->body_count ||
      a->in_place != b->in_place || !equal_text(a->executor, b->executor) ||
      !equal_text(a->label, b->label) || !equal_text(a->scope, b->scope) ||
      !th_text_same_loc(a->loc, b->loc)) {
    return false;
  }
  for (uint16_t i = 0; i < a->arg_count; i++) {
    if (!equal_arg(&a->args[i], &b->args[i])) {
      return false;
    }
  }
  for (uint16_t i = 0; i < a->out_count; i++) {
    if (!equal_value(a->outs[i], b->outs[i])) {
      return false;
    }
  }
  for (uint32_t i = 0; i < a->body_count; i++) {
    if (!equal_stmt(a->body[i], b->body[i])) {
      return false;
    }
  }
  return true;
}

bool th_trace_equal(const th_trace *a, const th_trace *b) {
  if (strcmp(a->name, b->name) != 0 || a->direction != b->direction ||
      a->no_grad != b->no_grad || a->has_autocast != b->has_autocast ||
      (a->has_autocast && a->autocast != b->autocast) ||
      a->slab_size != b->slab_size || a->input_count != b->input_count ||
      a->stmt_count != b->stmt_count) {
    return false;
  }
  for (uint32_t i = 0; i < a->input_count; i++) {
    if (!equal_value(a->inputs[i], b->inputs[i])) {
      return false;
    }
  }
  for (uint32_t i = 0; i < a->stmt_count; i++) {
    if (!equal_stmt(a->stmts[i], b->stmts[i])) {
      return false;
    }
  }
  return equal_arg(&a->result, &b->result);
}

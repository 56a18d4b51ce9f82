#include "lower_kit.h"

#include "base/alloc.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void kit_collect(th_arg *arg, th_value **leaves, uint32_t *count) {
  if (arg->kind == TH_ARG_VALUE) {
    leaves[(*count)++] = arg->value;
  } else if (arg->kind == TH_ARG_LIST || arg->kind == TH_ARG_TUPLE ||
             arg->kind == TH_ARG_DICT) {
    for (uint32_t i = 0; i < arg->count; i++) {
      kit_collect((th_arg *)(uintptr_t)&arg->items[i], leaves, count);
    }
  }
}

static void kit_fuse(lower_kit *kit) {
  static uint32_t regions, kernels;
  th_value *outs[64], *unique[64];
  uint32_t out_count = 0, unique_count = 0;
  th_builder b;
  th_remap m;
  regions = kernels = 0;
  kit->fused = th_remap_begin(&m, kit->trace, &b);
  kit_collect(&kit->trace->result, outs, &out_count);
  for (uint32_t i = 0; i < out_count; i++) {
    bool seen = outs[i]->input != NULL;
    for (uint32_t k = 0; k < unique_count; k++) {
      seen = seen || unique[k] == outs[i];
    }
    if (!seen) {
      unique[unique_count++] = outs[i];
    }
  }
  th_lower_input in = {.remap = &m,
                       .stmts = kit->trace->stmts,
                       .count = kit->trace->stmt_count,
                       .outs = unique,
                       .out_count = unique_count,
                       .executor = "host",
                       .region_number = &regions,
                       .kernel_number = &kernels};
  cr_assert_eq(th_lower_region(&in), TH_OK, "%s", th_diagnostics_all(kit->ctx));
  cr_assert_eq(th_remap_end(&m), TH_OK);
  cr_assert_eq(th_trace_verify(kit->fused), TH_OK, "%s",
               th_diagnostics_all(kit->ctx));
}

void lower_kit_open(lower_kit *kit, const char *text) {
  *kit = (lower_kit){.ctx = th_context_new(), .threads = 1};
  setenv("TH_NO_CACHE", "1", 1);
  kit->ir = th_ir_new(kit->ctx);
  th_status status =
      th_trace_parse(kit->ir, "test.trace", text, strlen(text), &kit->trace);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(kit->ctx));
  kit_fuse(kit);
}

void lower_kit_close(lower_kit *kit) {
  for (size_t i = 0; i < TH_COUNT(kit->data); i++) {
    if (kit->owned[i]) {
      free(kit->data[i]);
    }
  }
  th_ir_release(kit->ir);
  th_context_free(kit->ctx);
}

void lower_kit_symbol(lower_kit *kit, const char *name, int64_t value) {
  const th_expr *symbol = th_sym(kit->ir, name, TH_I64);
  kit->symbols[symbol->symbol->index].i = value;
}

void lower_kit_input(lower_kit *kit, const char *name, void *data) {
  for (uint32_t i = 0; i < kit->fused->input_count; i++) {
    if (strcmp(kit->fused->inputs[i]->name, name) == 0) {
      kit->data[kit->fused->inputs[i]->id] = data;
      return;
    }
  }
  cr_assert_fail("no input '%s'", name);
}

static void kit_allocate(lower_kit *kit, const th_value *value) {
  int64_t count = 1;
  for (uint8_t d = 0; d < value->type.rank; d++) {
    th_scalar size = {0};
    th_expr_eval(value->type.dims[d], kit->symbols, &size);
    count *= size.i;
  }
  size_t bytes = (size_t)count * th_dtype_size(value->type.dtype);
  free(kit->owned[value->id] ? kit->data[value->id] : NULL);
  kit->data[value->id] = malloc(bytes + 1);
  memset(kit->data[value->id], 0xcd, bytes + 1);
  kit->bytes[value->id] = bytes;
  kit->owned[value->id] = true;
}

static bool kit_run_kernel(lower_kit *kit, const th_stmt *stmt) {
  th_kernel *kernel = NULL;
  void *buffers[64];
  int64_t numbers[64];
  th_status status = th_lower_kernels(kit->ctx, &stmt, 1, 1, &kernel);
  cr_assert_eq(status, TH_OK, "%s", th_diagnostics_all(kit->ctx));
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    if (stmt->in_place && i == 0) {
      kit->data[stmt->outs[0]->id] = kit->data[stmt->args[0].value->id];
    } else {
      kit_allocate(kit, stmt->outs[i]);
    }
  }
  for (uint32_t i = 0; i < kernel->buffer_count; i++) {
    buffers[i] = kit->data[kernel->buffers[i]->id];
    cr_assert(buffers[i], "no memory for %s", kernel->buffers[i]->name);
  }
  for (uint32_t i = 0; i < kernel->number_count; i++) {
    th_scalar v = {0};
    th_expr_eval(kernel->numbers[i], kit->symbols, &v);
    numbers[i] = v.i;
  }
  th_scalar extent = {0};
  th_expr_eval(kernel->extent, kit->symbols, &extent);
  kit->error = (th_kernel_error){0};
  for (int t = 0; t < kit->threads && !kit->error.code; t++) {
    kernel->fn(buffers, numbers, extent.i * t / kit->threads,
               extent.i * (t + 1) / kit->threads, &kit->error);
  }
  for (uint16_t i = 0; i < stmt->out_count; i++) {
    const unsigned char *end = kit->data[stmt->outs[i]->id];
    if (!stmt->in_place) {
      cr_assert_eq(end[kit->bytes[stmt->outs[i]->id]], 0xcd,
                   "written past the end of %s", stmt->outs[i]->name);
    }
  }
  th_lower_kernel_release(kernel);
  return kit->error.code == 0;
}

bool lower_kit_run(lower_kit *kit) {
  const th_stmt *region = kit->fused->stmts[0];
  for (uint32_t i = 0; i < region->body_count; i++) {
    if (!kit_run_kernel(kit, region->body[i])) {
      return false;
    }
  }
  return true;
}

void *lower_kit_output(lower_kit *kit, uint32_t i) {
  th_value *leaves[64];
  uint32_t count = 0;
  kit_collect(&kit->fused->result, leaves, &count);
  cr_assert_lt(i, count);
  return kit->data[leaves[i]->id];
}

uint32_t lower_kit_kernels(const lower_kit *kit) {
  return kit->fused->stmts[0]->body_count;
}

const char *lower_kit_ir(lower_kit *kit, uint32_t i) {
  th_buffer text;
  th_buffer_init(&text, &kit->ir->arena);
  th_lower_text(kit->ctx, kit->fused->stmts[0]->body[i], TH_LOWER_LLVM, &text);
  return text.data;
}

void lower_kit_fill(float *data, size_t count, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 12345;
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    data[i] = (float)(int32_t)state * 0x1p-31f;
  }
}

// The step is written as a trace, as it is after claim: its kernel goes through
// the lowering like those of any program.  A row in which everything is hidden
// so far has its highest score at -inf; 0 stands for that, so that no NaN is
// made.
#include "exec/flash_tile.h"

#include "ir/trace.h"
#include "lowering/lower.h"

#include <string.h>

enum { TILE_BUFFERS = 7, TILE_NUMBERS = 8 };

static const char tile_text[] =
    "def flash_tile(scores, highest, sum):\n"
    "  # scores: \"cpu f32[rows, columns]\"\n"
    "  # highest: \"cpu f32[rows, 1]\"\n"
    "  # sum: \"cpu f32[rows, 1]\"\n"
    "  # rows: \"int\" in [1, 64]\n"
    "  # columns: \"int\" in [1, 512]\n"
    "  [new_highest, weights, scale, new_sum] = "
    "hostFusion0(scores, highest, sum)\n"
    "    # [new_highest, weights, scale, new_sum] = "
    "hostKernel0(scores, highest, sum)\n"
    "      # high = amax(scores, [1], True)\n"
    "      # new_highest = maximum(highest, high)\n"
    "      # hidden = eq(new_highest, -inf)\n"
    "      # base = where(hidden, 0.0, new_highest)\n"
    "      # shifted = sub(scores, base)\n"
    "      # weights = exp(shifted)\n"
    "      # more = sum(weights, [1], True)\n"
    "      # old = sub(highest, base)\n"
    "      # scale = exp(old)\n"
    "      # kept = mul(sum, scale)\n"
    "      # new_sum = add(kept, more)\n"
    "  return (weights, new_highest, new_sum, scale)\n";

// name of the trace, member of th_flash_softmax
#define TILE_MAP(X)                                                            \
  X(scores)                                                                    \
  X(weights)                                                                   \
  X(scale)                                                                     \
  X(highest)                                                                   \
  X(sum)                                                                       \
  X(new_highest)                                                               \
  X(new_sum)

struct th_flash_tile {
  th_kernel *kernel;
  size_t members[TILE_BUFFERS]; // of its buffers: offsets in th_flash_softmax
  uint32_t rows, columns;       // the symbols
};

static void tile_release_ir(void *ir) { th_ir_release(ir); }

static void tile_release_kernel(void *kernel) {
  th_lower_kernel_release(kernel);
}

static size_t tile_member(const char *name) {
#define X(member)                                                              \
  if (strcmp(name, #member) == 0) {                                            \
    return offsetof(th_flash_softmax, member);                                 \
  }
  TILE_MAP(X)
#undef X
  TH_ASSERT(!"a buffer of the tile has another name");
  return 0;
}

static void tile_bind(th_flash_tile *tile) {
  const th_kernel *k = tile->kernel;
  TH_ASSERT(k->buffer_count == TILE_BUFFERS && k->number_count <= TILE_NUMBERS);
  for (uint32_t i = 0; i < k->buffer_count; i++) {
    tile->members[i] = tile_member(k->buffers[i]->name);
  }
}

th_status th_flash_tile_get(th_context *ctx, const th_flash_tile **out_tile) {
  *out_tile = ctx->slots[TH_SLOT_FLASH];
  if (*out_tile) {
    return TH_OK;
  }
  th_flash_tile *tile = TH_NEW(&ctx->arena, th_flash_tile);
  th_trace *trace = NULL;
  th_ir *ir = th_ir_new(ctx);
  if (!ir) {
    return TH_NO_MEMORY;
  }
  th_arena_defer(&ctx->arena, tile_release_ir, ir);
  TH_TRY(th_trace_parse(ir, "flash_tile", tile_text, sizeof tile_text - 1,
                        &trace));
  const th_stmt *region = trace->stmts[0];
  TH_ASSERT(region->body_count == 1);
  TH_TRY(th_lower_kernels(ctx, (const th_stmt *const *)region->body, 1, 1,
                          &tile->kernel));
  th_arena_defer(&ctx->arena, tile_release_kernel, tile->kernel);
  tile_bind(tile);
  const th_type *scores = &trace->inputs[0]->type;
  tile->rows = scores->dims[0]->symbol->index;
  tile->columns = scores->dims[1]->symbol->index;
  *out_tile = ctx->slots[TH_SLOT_FLASH] = tile;
  return TH_OK;
}

void th_flash_tile_run(const th_flash_tile *tile, const th_flash_softmax *at,
                       int64_t rows, int64_t columns) {
  const th_kernel *k = tile->kernel;
  void *buffers[TILE_BUFFERS];
  int64_t numbers[TILE_NUMBERS];
  th_scalar symbols[2], number = {0};
  th_kernel_error error = {0};
  symbols[tile->rows].i = rows;
  symbols[tile->columns].i = columns;
  for (uint32_t i = 0; i < k->buffer_count; i++) {
    memcpy(&buffers[i], (const char *)at + tile->members[i], sizeof *buffers);
  }
  for (uint32_t i = 0; i < k->number_count; i++) {
    th_expr_eval(k->numbers[i], symbols, &number);
    numbers[i] = number.i;
  }
  th_expr_eval(k->extent, symbols, &number);
  k->fn(buffers, numbers, 0, number.i, &error);
}

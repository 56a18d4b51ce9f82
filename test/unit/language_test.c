// IR.md lists each operation once, as its row is.
#include "base/file.h"
#include "ir/op.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static bool language_has(const char *text, const char *line) {
  const char *first = strstr(text, line);
  cr_assert(!first || !strstr(first + 1, line), "twice in IR.md: %s", line);
  return first;
}

// `| \`name(schema) -> 2\` |`, as the first column has it.
static void language_row(const th_op_info *op, char *out, size_t size) {
  char results[16] = "";
  if (op->outs == TH_OUTS_LIST) {
    snprintf(results, sizeof results, " -> list");
  } else if (op->outs != 1) {
    snprintf(results, sizeof results, " -> %u", op->outs);
  }
  int n =
      snprintf(out, size, "\n| `%s(%s)%s` | ", op->name, op->schema, results);
  cr_assert(n > 0 && (size_t)n < size);
}

Test(language, every_row_has_an_entry_and_every_entry_a_row) {
  th_context *ctx = th_context_new();
  th_file file = {0};
  cr_assert_eq(th_file_map(ctx, TH_SOURCE_DIR "/IR.md", &file), TH_OK, "%s",
               th_diagnostics_all(ctx));
  char *text = th_arena_strndup(&ctx->arena, file.data, file.size);
  char row[512];
  for (int op = 1; op < TH_OP_COUNT; op++) {
    const th_op_info *info = th_op_row((th_op)op);
    language_row(info, row, sizeof row);
    cr_expect(language_has(text, row), "not in IR.md: %s", row + 1);
  }
  int entries = 0;
  const char *section = strstr(text, "\n## Operations\n");
  cr_assert(section);
  for (const char *at = section; (at = strstr(at, "\n| `")); at++) {
    entries++;
  }
  cr_expect_eq(entries, TH_OP_COUNT - 1, "IR.md has %d entries for %d rows",
               entries, TH_OP_COUNT - 1);
  th_file_unmap(&file);
  th_context_free(ctx);
}

// test/lit/ir/ops.trace has a statement of each.
Test(language, every_row_is_printed_and_read_in_a_test) {
  th_context *ctx = th_context_new();
  th_file file = {0};
  cr_assert_eq(th_file_map(ctx, TH_SOURCE_DIR "/test/lit/ir/ops.trace", &file),
               TH_OK, "%s", th_diagnostics_all(ctx));
  char *text = th_arena_strndup(&ctx->arena, file.data, file.size);
  for (int op = 1; op < TH_OP_COUNT; op++) {
    const th_op_info *info = th_op_row((th_op)op);
    if (info->traits & TH_STRUCT) {
      continue; // these have forms of their own
    }
    char call[64], alone[64];
    snprintf(call, sizeof call, " = %s(", info->name);
    snprintf(alone, sizeof alone, "\n  %s(", info->name);
    cr_expect(strstr(text, call) || strstr(text, alone),
              "no statement of %s in test/lit/ir/ops.trace", info->name);
  }
  th_file_unmap(&file);
  th_context_free(ctx);
}

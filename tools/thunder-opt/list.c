// What there is: passes, operations, executors.
#include "opt.h"

#include <string.h>

void opt_list_passes(FILE *out) {
  for (size_t i = 0; i < th_pass_count; i++) {
    fprintf(out, "%-14s %s\n", th_passes[i].name, th_passes[i].summary);
  }
}

static void list_traits(const th_op_info *op, FILE *out) {
  static const char *const names[] = {
#define TRAIT(name, text) text,
#include "ir/traits.def"
#undef TRAIT
  };
  const char *between = "  # ";
  for (size_t i = 0; i < TH_COUNT(names); i++) {
    if (op->traits >> i & 1) {
      fprintf(out, "%s%s", between, names[i]);
      between = " ";
    }
  }
}

static void list_op(const th_op_info *op, FILE *out) {
  fprintf(out, "%s(%s)", op->name, op->schema);
  if (op->outs == TH_OUTS_LIST) {
    fputs(" -> list", out);
  } else if (op->outs != 1) {
    fprintf(out, " -> %u", op->outs);
  }
  list_traits(op, out);
  fputc('\n', out);
}

void opt_list_ops(th_context *ctx, FILE *out) {
  (void)ctx;
  for (int op = 1; op < TH_OP_COUNT; op++) {
    list_op(th_op_row((th_op)op), out);
  }
}

void opt_list_executors(th_context *ctx, FILE *out) {
  const char *version = NULL, *replacement = NULL;
  fprintf(out, "%-20s %-10s %s\n", "name", "version", "deprecated");
  for (size_t i = 0;; i++) {
    const char *name = th_executor_name(ctx, i, &version, &replacement);
    if (!name) {
      return;
    }
    fprintf(out, "%-20s %-10s %s%s\n", name,
            version && *version ? version : "-", replacement ? "use " : "-",
            replacement ? replacement : "");
  }
}

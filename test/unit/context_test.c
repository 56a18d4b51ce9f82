// Diagnostics: their text, their order, and what happens without memory.
#include "base/context.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static th_context *context;

static void context_setup(void) { context = th_context_new(); }

static void context_teardown(void) { th_context_free(context); }

TestSuite(context, .init = context_setup, .fini = context_teardown);

Test(context, diagnostics_are_formatted) {
  th_loc loc = {"model.c", 42, 0};
  cr_assert_eq(th_error(context, TH_SHAPE, loc, "matmul: %d vs %d", 16, 32),
               TH_SHAPE);
  th_note(context, (th_loc){"model.c", 40, 7}, "left operand");
  th_warn_once(context, "name", TH_NOWHERE, "old name");
  th_error(context, TH_IO, (th_loc){.file = "x.pt2"}, "open");
  cr_assert_eq(th_diagnostic_count(context), 4);
  cr_assert_str_eq(th_diagnostics_all(context),
                   "model.c:42: error: matmul: 16 vs 32\n"
                   "model.c:40:7: note: left operand\n"
                   "warning: old name\n"
                   "x.pt2: error: open\n");
  cr_assert_eq(th_diagnostic_severity(context, 1), TH_NOTE);
  cr_assert_eq(th_diagnostic_severity(context, 2), TH_WARNING);
  cr_assert_eq(th_error_count(context), 2);
  cr_assert_str_eq(th_diagnostic_text(context, 4), "");
}

Test(context, clearing_forgets) {
  th_error(context, TH_IO, TH_NOWHERE, "%s", "one");
  th_diagnostics_clear(context);
  cr_assert_eq(th_diagnostic_count(context), 0);
  cr_assert_eq(th_error_count(context), 1);
  cr_assert_str_eq(th_diagnostics_all(context), "");
  th_error(context, TH_IO, TH_NOWHERE, "two");
  cr_assert_str_eq(th_diagnostic_text(context, 0), "error: two");
}

Test(context, terminals_do_not_obey_names) {
  th_error(context, TH_IO, TH_NOWHERE, "name %s", "\x1b[2J\x7f");
  cr_assert_str_eq(th_diagnostic_text(context, 0), "error: name ?[2J?");
}

Test(context, warns_once_for_a_key) {
  th_warn_once(context, "alias", TH_NOWHERE, "a");
  th_warn_once(context, "alias", TH_NOWHERE, "b");
  th_warn_once(context, "other", TH_NOWHERE, "c");
  cr_assert_str_eq(th_diagnostics_all(context), "warning: a\nwarning: c\n");
  th_diagnostics_clear(context);
  th_warn_once(context, "alias", TH_NOWHERE, "d");
  cr_assert_eq(th_diagnostic_count(context), 0);
}

typedef struct context_lines {
  char text[200];
} context_lines;

static void context_collect(void *user, th_log_level level, const char *text) {
  context_lines *lines = user;
  size_t used = strlen(lines->text);
  snprintf(lines->text + used, sizeof lines->text - used, "%d %s|", (int)level,
           text);
}

Test(context, the_log_sees_its_levels_and_diagnostics) {
  context_lines lines = {""};
  th_log(context, TH_LOG_ERROR, "nobody listens");
  th_set_log(context, TH_LOG_INFO, context_collect, &lines);
  th_log(context, TH_LOG_INFO, "took %d ms", 3);
  th_log(context, TH_LOG_DEBUG, "hidden");
  th_error(context, TH_IO, TH_NOWHERE, "bad");
  th_warn_once(context, "old", TH_NOWHERE, "old");
  cr_assert_str_eq(lines.text, "2 took 3 ms|0 error: bad|1 warning: old|");
}

Test(context, a_null_context_only_passes_the_status) {
  cr_assert_eq(th_error(NULL, TH_BUSY, TH_NOWHERE, "unseen"), TH_BUSY);
}

Test(context, lost_diagnostics_are_counted) {
  th_alloc_fail_at(1, true);
  cr_assert_eq(th_error(context, TH_PARSE, TH_NOWHERE, "x"), TH_PARSE);
  th_warn_once(context, "y", TH_NOWHERE, "y");
  cr_assert_str_eq(th_diagnostics_all(context), "error: out of memory\n");
  th_alloc_fail_at(0, false);
  cr_assert_eq(th_error_count(context), 1);
  cr_assert_eq(th_diagnostic_count(context), 0);
  cr_assert_str_eq(th_diagnostics_all(context),
                   "error: out of memory; 2 diagnostics lost\n");
}

Test(context, no_memory_no_context) {
  th_alloc_fail_at(1, false);
  cr_assert_null(th_context_new());
  th_alloc_fail_at(0, false);
  th_context_free(NULL);
}

static void context_count(void *object) { ++*(int *)object; }

Test(context, what_hangs_on_a_context_goes_with_it) {
  int released = 0;
  th_context *own = th_context_new();
  th_arena_defer(&own->arena, context_count, &released);
  th_context_free(own);
  cr_assert_eq(released, 1);
}

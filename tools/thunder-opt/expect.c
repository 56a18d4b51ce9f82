// --verify-diagnostics: comments say which diagnostics have to come.
//
//   # expected-error {{text}}          on this line
//   # expected-error@+1 {{text}}       one line further on; also -2
//   # expected-note@unknown {{text}}   without a line, or in another file
//
// Each matches one diagnostic whose text holds `text`; none may be left over.
#include "opt.h"

#include <stdlib.h>
#include <string.h>

typedef struct expect_entry {
  th_severity severity;
  int line; // 0: unknown
  int at;   // line of the comment
  const char *text;
  size_t size;
  bool met;
} expect_entry;

typedef struct expect_list {
  th_arena *arena;
  expect_entry *entries;
  uint32_t count, cap;
} expect_list;

static const char *expect_find(const char *at, const char *end,
                               const char *word) {
  size_t n = strlen(word);
  for (; (size_t)(end - at) >= n; at++) {
    if (memcmp(at, word, n) == 0) {
      return at;
    }
  }
  return NULL;
}

// "@+1", "@unknown" or nothing.
static const char *expect_offset(const char *at, const char *end,
                                 expect_entry *entry) {
  if (at == end || *at != '@') {
    return at;
  }
  static const char unknown[] = "@unknown";
  size_t n = strlen(unknown);
  if ((size_t)(end - at) >= n && memcmp(at, unknown, n) == 0) {
    entry->line = 0;
    return at + n;
  }
  char digits[12] = {0};
  size_t count = 0;
  for (at++; at < end && count + 1 < sizeof digits &&
             strchr("+-0123456789", *at) && *at;
       at++) {
    digits[count++] = *at;
  }
  entry->line += (int)strtol(digits, NULL, 10);
  return at;
}

static void expect_read_line(expect_list *list, const char *start,
                             const char *end, int line) {
  static const struct {
    const char *word;
    th_severity severity;
  } kinds[] = {{"expected-error", TH_ERROR},
               {"expected-warning", TH_WARNING},
               {"expected-note", TH_NOTE}};
  for (size_t i = 0; i < TH_COUNT(kinds); i++) {
    const char *at = expect_find(start, end, kinds[i].word);
    if (!at) {
      continue;
    }
    expect_entry entry = {
        .severity = kinds[i].severity, .line = line, .at = line};
    at = expect_offset(at + strlen(kinds[i].word), end, &entry);
    const char *open = expect_find(at, end, "{{");
    const char *close = open ? expect_find(open, end, "}}") : NULL;
    if (close) {
      entry.text = open + 2;
      entry.size = (size_t)(close - entry.text);
      TH_PUSH(list->arena, list->entries, list->count, list->cap) = entry;
    }
  }
}

static void expect_read(expect_list *list, const opt_part *part) {
  const char *at = part->text, *end = part->text + part->size;
  for (int line = part->first_line; at < end; line++) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline ? newline : end;
    expect_read_line(list, at, stop, line);
    at = stop + (newline != NULL);
  }
}

// "name:12:3: error: ..." -> 12; 0: no line of this file.
static int expect_line(const char *text, const char *name) {
  size_t n = strlen(name);
  bool is_here = strncmp(text, name, n) == 0 && text[n] == ':';
  return is_here ? (int)strtol(text + n + 1, NULL, 10) : 0;
}

static bool expect_meet(expect_list *list, th_severity severity,
                        const char *text, int line) {
  for (uint32_t i = 0; i < list->count; i++) {
    expect_entry *entry = &list->entries[i];
    if (!entry->met && entry->severity == severity && entry->line == line &&
        expect_find(text, text + strlen(text),
                    th_arena_strndup(list->arena, entry->text, entry->size))) {
      entry->met = true;
      return true;
    }
  }
  return false;
}

bool opt_check_diagnostics(th_context *ctx, const opt_part *part) {
  expect_list list = {.arena = &ctx->arena};
  bool ok = true;
  expect_read(&list, part);
  for (size_t i = 0; i < th_diagnostic_count(ctx); i++) {
    const char *text = th_diagnostic_text(ctx, i);
    th_severity severity = th_diagnostic_severity(ctx, i);
    // Notes explain; they need not be asked for.
    if (!expect_meet(&list, severity, text, expect_line(text, part->name)) &&
        severity != TH_NOTE) {
      fprintf(stderr, "unexpected: %s\n", text);
      ok = false;
    }
  }
  for (uint32_t i = 0; i < list.count; i++) {
    if (!list.entries[i].met) {
      fprintf(stderr, "%s:%d: expected and missing: %.*s\n", part->name,
              list.entries[i].at, (int)list.entries[i].size,
              list.entries[i].text);
      ok = false;
    }
  }
  return ok;
}

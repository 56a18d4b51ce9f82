// The inside of a context, and how code reports a diagnostic.
#ifndef TH_BASE_CONTEXT_H
#define TH_BASE_CONTEXT_H

#include "base/arena.h"
#include "base/map.h"

#include <pthread.h>

typedef struct th_diagnostic {
  th_severity severity;
  th_status status;
  const char *text; // as printed, without newline
} th_diagnostic;

// Extension points that higher folders hang on a context; each is owned by
// its folder, which registers its release with th_arena_defer.
typedef enum th_slot {
  TH_SLOT_EXECUTORS, // lib/exec
  TH_SLOT_OPS,       // lib/ir: user operations
  TH_SLOT_JIT,       // lowering: one LLJIT
  TH_SLOT_FLASH,     // lib/exec: the softmax kernel of attention
  TH_SLOT_WARNED,    // th_map of warnings given once
  TH_SLOT_COUNT
} th_slot;

struct th_context {
  th_unwind unwind;
  th_arena arena; // lives as long as the context
  // Reports may come from several threads, as those of calls do.
  pthread_mutex_t diag_lock;
  th_unwind diag_unwind;
  th_arena diag_arena; // emptied by th_diagnostics_clear
  th_diagnostic *diags;
  uint32_t diag_count, diag_cap;
  th_arena joined_arena; // of `joined` alone
  const char *joined;    // all of them as one text; NULL: not as they are now
  uint32_t diag_lost;    // diagnostics that did not fit into memory
  uint64_t error_count;  // of all errors so far, lost and cleared ones too
  th_log_fn log;
  void *log_user;
  th_log_level log_level;
  bool logs_no_diagnostics; // they are logged when they move on
  void *slots[TH_SLOT_COUNT];
};

// Each records one diagnostic and returns `status`, so that
//   return th_error(ctx, TH_SHAPE, loc, "%s: ...", name);
// reads as one step.  One line of fact with the actual values, lower case.
// They never unwind.  With a NULL context th_error only returns its status.
th_status th_error(th_context *ctx, th_status status, th_loc loc,
                   const char *fmt, ...) TH_PRINTF(4, 5);
void th_note(th_context *ctx, th_loc loc, const char *fmt, ...) TH_PRINTF(3, 4);
// Warns once for each `key` in the life of the context.
void th_warn_once(th_context *ctx, const char *key, th_loc loc, const char *fmt,
                  ...) TH_PRINTF(4, 5);
void th_log(th_context *ctx, th_log_level level, const char *fmt, ...)
    TH_PRINTF(3, 4);

#ifdef __clang_analyzer__
// The analyzer sees one file at a time, and so not that th_error fails.
#define th_error(ctx, status, loc, ...)                                        \
  ((void)th_error(ctx, status, loc, __VA_ARGS__), (status))
#endif

// Appends the diagnostics of `from` as they are, logs them, and clears it.
void th_diagnostics_move(th_context *to, th_context *from);

// Errors that were ever reported.  What fails without a report of its own
// leaves the number as it was before.
uint64_t th_error_count(const th_context *ctx);

#define TH_NOWHERE ((th_loc){0})

// Returns from the calling function when `expr` fails.
#define TH_TRY(expr)                                                           \
  do {                                                                         \
    th_status th_try_status_ = (expr);                                         \
    if (th_try_status_ != TH_OK) {                                             \
      return th_try_status_;                                                   \
    }                                                                          \
  } while (0)

// For bugs of ours only, never for input.  On in every build: it is cheap.
#define TH_ASSERT(condition)                                                   \
  ((condition) ? (void)0 : th_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void th_assert_failed(const char *condition, const char *file,
                                int line);

#define TH_COUNT(array) (sizeof(array) / sizeof *(array))

#endif

// Arenas: bump allocation with one lifetime.
//
// th_arena_alloc zeroes and never returns NULL.  When memory is out it unwinds
// to the nearest th_protect of its unwind point, which every API entry sets;
// a pass holds nothing outside arenas, and what must be released anyway (an
// LLVM module) is registered with th_arena_defer.  This file has the only
// longjmp of the project.
#ifndef TH_BASE_ARENA_H
#define TH_BASE_ARENA_H

#include "thunder/base.h"

#include <setjmp.h>
#include <stdarg.h>

// Where an allocation failure goes.  One lives in each context.
typedef struct th_unwind {
  jmp_buf *target; // NULL: nobody protects, which is a bug of ours
} th_unwind;

typedef struct th_chunk th_chunk;
typedef struct th_cleanup th_cleanup;

typedef struct th_arena {
  th_chunk *chunks; // newest first
  char *next, *end; // free part of the newest chunk
  th_cleanup *cleanups;
  th_unwind *unwind;
  size_t total; // bytes taken from the system
} th_arena;

// In the caller's storage; `unwind` outlives the arena.
void th_arena_init(th_arena *arena, th_unwind *unwind);
// Runs the deferred releases, newest first, and frees everything.
void th_arena_deinit(th_arena *arena);

// `size` zeroed bytes aligned to 16.
void *th_arena_alloc(th_arena *arena, size_t size);
#define TH_NEW(arena, type) ((type *)th_arena_alloc(arena, sizeof(type)))
#define TH_NEW_ARRAY(arena, type, count)                                       \
  ((type *)th_arena_alloc_array(arena, count, sizeof(type)))
void *th_arena_alloc_array(th_arena *arena, size_t count, size_t size);
char *th_arena_strdup(th_arena *arena, const char *text);
char *th_arena_strndup(th_arena *arena, const char *text, size_t length);
char *th_arena_printf(th_arena *arena, const char *fmt, ...) TH_PRINTF(2, 3);
char *th_arena_vprintf(th_arena *arena, const char *fmt, va_list args);

// Calls release(object) when the arena goes, or at once when memory for the
// note is out (then it unwinds).
void th_arena_defer(th_arena *arena, void (*release)(void *), void *object);

// Runs fn(arg); an arena of `unwind` that runs out of memory inside makes this
// return TH_NO_MEMORY.  Nests.
th_status th_protect(th_unwind *unwind, th_status (*fn)(void *), void *arg);

// Grows an arena array to hold one more: doubles when `count` is at capacity.
//   TH_PUSH(arena, trace->stmts, trace->stmt_count, trace->stmt_cap) = s;
#define TH_PUSH(arena, array, count, cap)                                      \
  (*((count) == (cap)                                                          \
         ? ((array) = th_arena_grow(arena, array, &(cap), sizeof *(array)),    \
            &(array)[(count)++])                                               \
         : &(array)[(count)++]))
void *th_arena_grow(th_arena *arena, const void *array, uint32_t *cap,
                    size_t size);

#endif

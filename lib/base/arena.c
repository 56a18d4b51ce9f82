// Arenas: a list of chunks, newest first, and a bump pointer into the newest.
//
//   chunk ── header │ a │ gap │ b │ gap │ ... free ... │
//                                        ^next         ^end
//
// Chunks double from 4 KiB to 1 MiB; a larger request gets a chunk of its own,
// which is put behind the newest so that the rest of that one stays in use.
// Under ASan all that is not handed out is poisoned, and a gap follows each
// allocation, so that an overflow inside a chunk is found.
#include "base/arena.h"

#include "base/alloc.h"
#include "base/asan.h"
#include "base/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if TH_ASAN
#include <sanitizer/asan_interface.h>
enum { ARENA_GAP = 16 };
#define ARENA_POISON(start, size) ASAN_POISON_MEMORY_REGION(start, size)
#define ARENA_UNPOISON(start, size) ASAN_UNPOISON_MEMORY_REGION(start, size)
#else
enum { ARENA_GAP = 0 };
#define ARENA_POISON(start, size) ((void)(start), (void)(size))
#define ARENA_UNPOISON(start, size) ((void)(start), (void)(size))
#endif

enum {
  ARENA_ALIGN = 16,
  ARENA_FIRST_CHUNK = 4096,
  ARENA_LARGEST_CHUNK = 1 << 20,
};

struct th_chunk {
  th_chunk *older;
  size_t size; // with this header
};

struct th_cleanup {
  th_cleanup *older;
  void (*release)(void *);
  void *object;
};

#define ARENA_HEADER                                                           \
  ((sizeof(th_chunk) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN)

void th_arena_init(th_arena *arena, th_unwind *unwind) {
  *arena = (th_arena){.unwind = unwind};
}

void th_arena_deinit(th_arena *arena) {
  // A release may defer nothing more: the arena is going.
  for (th_cleanup *c = arena->cleanups; c; c = c->older) {
    c->release(c->object);
  }
  for (th_chunk *chunk = arena->chunks; chunk;) {
    th_chunk *older = chunk->older;
    ARENA_UNPOISON(chunk, chunk->size);
    th_free(chunk);
    chunk = older;
  }
  *arena = (th_arena){.unwind = arena->unwind};
}

_Noreturn static void arena_unwind(th_arena *arena) {
  TH_ASSERT(arena->unwind && arena->unwind->target);
  longjmp(*arena->unwind->target, 1);
}

static th_chunk *arena_chunk_new(th_arena *arena, size_t size) {
  th_chunk *chunk = th_malloc(size);
  if (chunk) {
    chunk->size = size;
    arena->total += size;
    ARENA_POISON((char *)chunk + ARENA_HEADER, size - ARENA_HEADER);
  }
  return chunk;
}

// `need` bytes from a chunk of their own; the newest chunk stays the newest.
static char *arena_alloc_large(th_arena *arena, size_t need) {
  th_chunk *chunk = arena_chunk_new(arena, ARENA_HEADER + need);
  if (!chunk) {
    return NULL;
  }
  if (arena->chunks) {
    chunk->older = arena->chunks->older;
    arena->chunks->older = chunk;
  } else {
    chunk->older = NULL;
    arena->chunks = chunk;
    arena->next = arena->end = (char *)chunk + chunk->size;
  }
  return (char *)chunk + ARENA_HEADER;
}

static bool arena_add_chunk(th_arena *arena, size_t need) {
  size_t size = ARENA_FIRST_CHUNK;
  while (size < ARENA_LARGEST_CHUNK &&
         (size < arena->total || size < ARENA_HEADER + need)) {
    size *= 2;
  }
  th_chunk *chunk = arena_chunk_new(arena, size);
  if (!chunk) {
    return false;
  }
  chunk->older = arena->chunks;
  arena->chunks = chunk;
  arena->next = (char *)chunk + ARENA_HEADER;
  arena->end = (char *)chunk + size;
  return true;
}

// NULL when memory is out.
static void *arena_try_alloc(th_arena *arena, size_t size) {
  if (size > PTRDIFF_MAX / 2) {
    return NULL;
  }
  // No bytes take one as well: an arena without a chunk has nothing to point
  // at.
  size_t need = ((size ? size : 1) + ARENA_GAP + ARENA_ALIGN - 1) &
                ~(size_t)(ARENA_ALIGN - 1);
  char *start;
  if (need <= (size_t)(arena->end - arena->next)) {
    start = arena->next;
    arena->next += need;
  } else if (need > ARENA_LARGEST_CHUNK / 4) {
    start = arena_alloc_large(arena, need);
  } else if (arena_add_chunk(arena, need)) {
    start = arena->next;
    arena->next += need;
  } else {
    start = NULL;
  }
  if (start) {
    ARENA_UNPOISON(start, size);
    memset(start, 0, size);
  }
  return start;
}

void *th_arena_alloc(th_arena *arena, size_t size) {
  void *start = arena_try_alloc(arena, size);
  if (!start) {
    arena_unwind(arena);
  }
  return start;
}

void *th_arena_alloc_array(th_arena *arena, size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) {
    arena_unwind(arena);
  }
  return th_arena_alloc(arena, count * size);
}

char *th_arena_strndup(th_arena *arena, const char *text, size_t length) {
  char *copy = th_arena_alloc(arena, length + 1);
  if (length) {
    memcpy(copy, text, length);
  }
  return copy;
}

char *th_arena_strdup(th_arena *arena, const char *text) {
  return th_arena_strndup(arena, text, strlen(text));
}

char *th_arena_vprintf(th_arena *arena, const char *fmt, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, fmt, args);
  TH_ASSERT(length >= 0);
  char *text = arena_try_alloc(arena, (size_t)length + 1);
  if (text) {
    vsnprintf(text, (size_t)length + 1, fmt, again);
  }
  va_end(again);
  if (!text) {
    arena_unwind(arena);
  }
  return text;
}

char *th_arena_printf(th_arena *arena, const char *fmt, ...) {
  // A jump over va_end is undefined in the standard's words, though harmless
  // with every compiler that we support.
  va_list args;
  va_start(args, fmt);
  char *text = th_arena_vprintf(arena, fmt, args);
  va_end(args);
  return text;
}

void th_arena_defer(th_arena *arena, void (*release)(void *), void *object) {
  th_cleanup *cleanup = arena_try_alloc(arena, sizeof *cleanup);
  if (!cleanup) {
    release(object);
    arena_unwind(arena);
  }
  *cleanup = (th_cleanup){arena->cleanups, release, object};
  arena->cleanups = cleanup;
}

void *th_arena_grow(th_arena *arena, const void *array, uint32_t *cap,
                    size_t size) {
  if (*cap > UINT32_MAX / 2) {
    arena_unwind(arena);
  }
  uint32_t grown = *cap ? *cap * 2 : 8;
  void *bigger = th_arena_alloc_array(arena, grown, size);
  if (*cap) {
    memcpy(bigger, array, *cap * size);
  }
  *cap = grown;
  return bigger;
}

th_status th_protect(th_unwind *unwind, th_status (*fn)(void *), void *arg) {
  jmp_buf here;
  jmp_buf *outer = unwind->target;
  if (setjmp(here)) {
    unwind->target = outer;
    return TH_NO_MEMORY;
  }
  unwind->target = &here;
  th_status status = fn(arg);
  unwind->target = outer;
  return status;
}

void th_assert_failed(const char *condition, const char *file, int line) {
  fprintf(stderr, "%s:%d: internal error: %s\n", file, line, condition);
  abort();
}

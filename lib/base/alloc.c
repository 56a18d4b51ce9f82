// The system allocator behind one counter, so that tests can fail each
// allocation in turn.  The counter is relaxed: only its own value matters.
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_size_t alloc_made;      // since the last th_alloc_fail_at
static atomic_size_t alloc_fail_from; // 0: none fails
static atomic_bool alloc_sticky;
static atomic_size_t alloc_live;

// Counts one allocation; true when the test wants it to fail.
static bool alloc_must_fail(void) {
  size_t ordinal =
      atomic_fetch_add_explicit(&alloc_made, 1, memory_order_relaxed) + 1;
  size_t from = atomic_load_explicit(&alloc_fail_from, memory_order_relaxed);
  if (from == 0 || ordinal < from) {
    return false;
  }
  return ordinal == from ||
         atomic_load_explicit(&alloc_sticky, memory_order_relaxed);
}

static void *alloc_counted(void *block) {
  if (block) {
    atomic_fetch_add_explicit(&alloc_live, 1, memory_order_relaxed);
  }
  return block;
}

void *th_malloc(size_t size) {
  return alloc_must_fail() ? NULL : alloc_counted(malloc(size ? size : 1));
}

void *th_calloc(size_t count, size_t size) {
  bool empty = count == 0 || size == 0;
  return alloc_must_fail()
             ? NULL
             : alloc_counted(calloc(empty ? 1 : count, empty ? 1 : size));
}

void *th_realloc(void *pointer, size_t size) {
  if (!pointer) {
    return th_malloc(size);
  }
  return alloc_must_fail() ? NULL : realloc(pointer, size ? size : 1);
}

// Whole huge pages only: the rest of the block costs what it holds.
void *th_aligned_alloc(size_t alignment, size_t size) {
  enum { HUGE_PAGE = 2 << 20 };
  bool is_large = size >= HUGE_PAGE;
  if (is_large && alignment < HUGE_PAGE) {
    alignment = HUGE_PAGE;
  }
  // posix_memalign rather than aligned_alloc: its size need not be rounded up,
  // so ASan sees the exact end.
  void *block = NULL;
  if (alloc_must_fail() || size > PTRDIFF_MAX - alignment ||
      posix_memalign(&block, alignment, size ? size : 1)) {
    return NULL;
  }
  if (is_large) {
    (void)madvise(block, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
  }
  return alloc_counted(block);
}

void th_free(void *pointer) {
  if (pointer) {
    atomic_fetch_sub_explicit(&alloc_live, 1, memory_order_relaxed);
  }
  free(pointer);
}

size_t th_alloc_live(void) { return atomic_load(&alloc_live); }

char *th_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = th_malloc(size);
  if (copy) {
    memcpy(copy, text, size);
  }
  return copy;
}

size_t th_alloc_fail_at(size_t ordinal, bool sticky) {
  atomic_store(&alloc_fail_from, 0);
  size_t made = atomic_exchange(&alloc_made, 0);
  atomic_store(&alloc_sticky, sticky);
  atomic_store(&alloc_fail_from, ordinal);
  return made;
}

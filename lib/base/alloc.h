// The only way to the system allocator.  Each allocation can be made to fail in
// turn; that costs a relaxed counter or two, so it is in every build.
#ifndef TH_BASE_ALLOC_H
#define TH_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

// NULL when memory is out.  th_calloc zeroes.
void *th_malloc(size_t size);
void *th_calloc(size_t count, size_t size);
void *th_realloc(void *pointer, size_t size);
// Large blocks stand in huge pages where the system has them: one stream of
// reads is then half as fast again.
void *th_aligned_alloc(size_t alignment, size_t size);
void th_free(void *pointer);
char *th_strdup(const char *text);

// Test hook: the allocation with this ordinal from now on (1 is the next)
// fails, and so do all after it when `sticky`; 0 turns it off.  Returns how
// many were made since the last call.  Not for use while other threads
// allocate.
size_t th_alloc_fail_at(size_t ordinal, bool sticky);

// Blocks that were allocated here and not freed yet.
size_t th_alloc_live(void);

#endif

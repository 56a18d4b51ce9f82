// Storage: bytes with an owner count.
//
//   own        │ header, padding to 64 │ bytes ... │     one allocation
//   guarded    │ slack │ bytes ... │ unmapped page │    header apart
//   foreign    bytes where they are; a deleter          header apart
//
// In guarded storage the end is exact, so the start has whatever alignment the
// size leaves; the slack in front holds a pattern that is checked on release,
// so that writes before the start are found as well.
#include "tensor/tensor.h"

#include "base/alloc.h"
#include "base/asan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  STORAGE_ALIGN = 64,
  STORAGE_SLACK_BYTE = 0xa5,
  STORAGE_SMALL = 4096, // malloc is several times faster than aligned
};

#define STORAGE_HEADER ((size_t)STORAGE_ALIGN)
_Static_assert(sizeof(th_storage) <= STORAGE_ALIGN, "header fits its padding");

static atomic_int storage_guard = -1; // -1: the environment was not read yet

bool th_guard_pages(void) {
  int on = atomic_load_explicit(&storage_guard, memory_order_relaxed);
  if (on < 0) {
    const char *text = getenv("TH_GUARD_PAGES");
    on = text && strcmp(text, "") != 0 && strcmp(text, "0") != 0;
    atomic_store(&storage_guard, on);
  }
  return on;
}

void th_guard_pages_set(bool on) { atomic_store(&storage_guard, on); }

static th_status storage_no_memory(th_context *ctx, size_t size) {
  return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE,
                  "out of memory: %zu bytes for a tensor", size);
}

static th_status storage_new_guarded(th_context *ctx, size_t size,
                                     th_storage **out_storage) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t body = (size + page - 1) / page * page;
  th_storage *storage = th_malloc(sizeof *storage);
  char *map = storage ? mmap(NULL, body + page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : MAP_FAILED;
  if (map == MAP_FAILED) {
    th_free(storage);
    return storage_no_memory(ctx, size);
  }
  mprotect(map + body, page, PROT_NONE);
  memset(map, STORAGE_SLACK_BYTE, body - size);
  *storage = (th_storage){.refs = 1,
                          .data = map + body - size,
                          .size = size,
                          .map = map,
                          .map_size = body + page};
  *out_storage = storage;
  return TH_OK;
}

// The header, with room for `size` bytes on an aligned address behind it.
static th_storage *storage_alloc(size_t size) {
#if !TH_ASAN
  if (size <= STORAGE_SMALL) {
    return th_malloc(STORAGE_HEADER + STORAGE_ALIGN - 1 + size);
  }
#endif
  return th_aligned_alloc(STORAGE_ALIGN, STORAGE_HEADER + size);
}

// ---- parked blocks
//
// The system clears fresh memory, which takes as long as computing a simple
// result into it.  So the last large blocks that tensors gave back wait for one
// of the same size.

enum {
  STORAGE_PARKED = 2,
  STORAGE_PARK_MIN = 1 << 20,
  STORAGE_PARK_MAX = 64 << 20,
};

static _Atomic(th_storage *) storage_parked[STORAGE_PARKED];
static atomic_uint storage_parks;

static bool storage_parks_size(size_t size) {
  return !TH_ASAN && size >= STORAGE_PARK_MIN && size <= STORAGE_PARK_MAX;
}

static void storage_park(th_storage *storage) {
  unsigned slot = atomic_fetch_add(&storage_parks, 1) % STORAGE_PARKED;
  th_free(atomic_exchange(&storage_parked[slot], storage));
}

static th_storage *storage_unpark(size_t size) {
  for (int i = 0; storage_parks_size(size) && i < STORAGE_PARKED; i++) {
    th_storage *found = atomic_exchange(&storage_parked[i], NULL);
    th_storage *none = NULL;
    if (found && found->size == size) {
      return found;
    }
    if (found &&
        !atomic_compare_exchange_strong(&storage_parked[i], &none, found)) {
      th_free(found);
    }
  }
  return NULL;
}

// Was there any?
static bool storage_drop_parked(void) {
  bool any = false;
  for (int i = 0; i < STORAGE_PARKED; i++) {
    th_storage *found = atomic_exchange(&storage_parked[i], NULL);
    any = any || found;
    th_free(found);
  }
  return any;
}

// NULL only when there is no memory even without what waits.
static th_storage *storage_get(size_t size) {
  th_storage *storage = storage_unpark(size);
  if (!storage) {
    storage = storage_alloc(size);
  }
  return storage || !storage_drop_parked() ? storage : storage_alloc(size);
}

th_status th_storage_new(th_context *ctx, size_t size,
                         th_storage **out_storage) {
  if (size > PTRDIFF_MAX - STORAGE_HEADER) {
    return storage_no_memory(ctx, size);
  }
  if (th_guard_pages()) {
    return storage_new_guarded(ctx, size, out_storage);
  }
  th_storage *storage = storage_get(size);
  if (!storage) {
    return storage_no_memory(ctx, size);
  }
  uintptr_t data = (uintptr_t)storage + sizeof *storage + STORAGE_ALIGN - 1;
  *storage =
      (th_storage){.refs = 1,
                   .data = (char *)(data & ~(uintptr_t)(STORAGE_ALIGN - 1)),
                   .size = size,
                   .is_own = true};
  *out_storage = storage;
  return TH_OK;
}

th_status th_storage_wrap(th_context *ctx, void *data, size_t size,
                          th_deleter deleter, void *user,
                          th_storage **out_storage) {
  th_storage *storage = th_malloc(sizeof *storage);
  if (!storage) {
    return storage_no_memory(ctx, sizeof *storage);
  }
  *storage = (th_storage){
      .refs = 1, .data = data, .size = size, .deleter = deleter, .user = user};
  *out_storage = storage;
  return TH_OK;
}

th_status th_storage_wrap_file(th_context *ctx, void *data, size_t size,
                               th_deleter deleter, void *user,
                               th_storage **out_storage) {
  if (!th_guard_pages()) {
    return th_storage_wrap(ctx, data, size, deleter, user, out_storage);
  }
  TH_TRY(storage_new_guarded(ctx, size, out_storage));
  if (size) {
    memcpy((*out_storage)->data, data, size);
  }
  if (deleter) {
    deleter(user);
  }
  return TH_OK;
}

th_storage *th_storage_retain(th_storage *storage) {
  atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
  return storage;
}

static void storage_unmap(th_storage *storage) {
  const unsigned char *slack = storage->map;
  for (; slack < (const unsigned char *)storage->data; slack++) {
    TH_ASSERT(*slack == STORAGE_SLACK_BYTE); // written before its start
  }
  munmap(storage->map, storage->map_size);
}

void th_storage_release(th_storage *storage) {
  if (!storage ||
      atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) > 1) {
    return;
  }
  if (storage->map) {
    storage_unmap(storage);
  } else if (storage->deleter) {
    storage->deleter(storage->user);
  } else if (storage->is_own && storage_parks_size(storage->size)) {
    storage_park(storage);
    return;
  }
  th_free(storage);
}

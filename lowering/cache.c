// The table of the process, and what each context holds of it.
//
// An entry is made by the first who asks and is `building` until its code is
// there; others wait.  It counts the contexts that hold it and goes with the
// last.  The table has its own reference to the code, so a caller's code may
// live longer; the JIT copes with two codes of one symbol.
#include "lowering/cache.h"

#include "base/alloc.h"
#include "base/pool.h"
#include "base/sha256.h"
#include "lowering/cache_disk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CACHE_BUCKETS 1024
#define CACHE_HELD_MAX 4096 // kernels that one context keeps
#define CACHE_HELD_SLOTS (CACHE_HELD_MAX * 2)

typedef struct cache_entry {
  uint8_t key[32];
  th_code *code; // NULL while it is being built
  pthread_t builder;
  uint32_t holders; // contexts
  struct cache_entry *next;
} cache_entry;

// A context's part, in TH_SLOT_JIT.
typedef struct cache_state {
  th_disk disk;
  bool disk_open;
  bool no_disk;
  char *folder;
  uint64_t limit;
  th_kernel_stats stats;
  uint32_t held_count;
  cache_entry *held[CACHE_HELD_SLOTS]; // a set, by address
} cache_state;

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cache_change = PTHREAD_COND_INITIALIZER;
static pthread_once_t cache_once = PTHREAD_ONCE_INIT;
static cache_entry *cache_table[CACHE_BUCKETS]; // under cache_lock

// ---- the table: under cache_lock -------------------------------------------

static cache_entry **cache_find(const uint8_t key[32]) {
  uint32_t bucket = (uint32_t)key[0] | (uint32_t)key[1] << 8;
  cache_entry **link = &cache_table[bucket % CACHE_BUCKETS];
  while (*link != NULL && memcmp((*link)->key, key, 32) != 0) {
    link = &(*link)->next;
  }
  return link;
}

static void cache_unlink(cache_entry *entry) {
  *cache_find(entry->key) = entry->next;
}

// Who loses the last holder is freed by the caller, outside the lock.
static cache_entry *cache_let_go(cache_entry *entry) {
  if (--entry->holders != 0) {
    return NULL;
  }
  cache_unlink(entry);
  return entry;
}

static void cache_before_fork(void) { pthread_mutex_lock(&cache_lock); }
static void cache_after_fork(void) { pthread_mutex_unlock(&cache_lock); }

// What other threads were building will never be done in the child.
static void cache_in_child(void) {
  for (size_t i = 0; i < CACHE_BUCKETS; i++) {
    for (cache_entry **link = &cache_table[i]; *link != NULL;) {
      cache_entry *entry = *link;
      if (entry->code == NULL &&
          !pthread_equal(entry->builder, pthread_self())) {
        *link = entry->next;
        th_free(entry);
      } else {
        link = &entry->next;
      }
    }
  }
  pthread_cond_init(&cache_change, NULL); // its waiters are gone
  pthread_mutex_unlock(&cache_lock);
}

static void cache_init_once(void) {
  pthread_atfork(cache_before_fork, cache_after_fork, cache_in_child);
}

// ---- a context's part ------------------------------------------------------

static void cache_drop_held(cache_state *state) {
  for (size_t i = 0; i < CACHE_HELD_SLOTS; i++) {
    if (state->held[i] == NULL) {
      continue;
    }
    pthread_mutex_lock(&cache_lock);
    cache_entry *dead = cache_let_go(state->held[i]);
    pthread_mutex_unlock(&cache_lock);
    if (dead != NULL) {
      th_code_release(dead->code);
      th_free(dead);
    }
    state->held[i] = NULL;
  }
  state->held_count = 0;
}

static void cache_release_state(void *object) {
  cache_state *state = object;
  cache_drop_held(state);
  th_disk_close(&state->disk);
  th_free(state->folder);
  th_free(state);
}

static th_status cache_make_state(void *arg) {
  th_context *ctx = arg;
  cache_state *state = th_calloc(1, sizeof *state);
  if (state == NULL) {
    return TH_NO_MEMORY;
  }
  state->disk.folder = -1;
  th_arena_defer(&ctx->arena, cache_release_state, state);
  ctx->slots[TH_SLOT_JIT] = state;
  return TH_OK;
}

static th_status cache_state_of(th_context *ctx, cache_state **out_state) {
  pthread_once(&cache_once, cache_init_once);
  if (ctx->slots[TH_SLOT_JIT] == NULL) {
    if (th_protect(&ctx->unwind, cache_make_state, ctx) != TH_OK) {
      return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "kernel cache");
    }
  }
  *out_state = ctx->slots[TH_SLOT_JIT];
  return TH_OK;
}

static bool cache_is_as(const cache_state *state,
                        const th_kernel_cache_options *options) {
  const char *a = state->folder, *b = options->folder;
  return state->no_disk == options->no_disk && state->limit == options->limit &&
         (a != NULL && b != NULL ? strcmp(a, b) == 0 : a == b);
}

th_status th_kernel_cache_configure(th_context *ctx,
                                    const th_kernel_cache_options *options) {
  cache_state *state;
  TH_TRY(cache_state_of(ctx, &state));
  if (cache_is_as(state, options)) {
    return TH_OK;
  }
  char *folder = NULL;
  if (options->folder != NULL) {
    folder = th_strdup(options->folder);
    if (folder == NULL) {
      return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "kernel cache");
    }
  }
  th_free(state->folder);
  state->folder = folder;
  state->no_disk = options->no_disk;
  state->limit = options->limit;
  th_disk_close(&state->disk);
  state->disk_open = false;
  return TH_OK;
}

// The disk is opened when the first kernel is not in memory.
static th_disk *cache_disk(th_context *ctx, cache_state *state) {
  if (!state->disk_open) {
    state->disk_open = true;
    const char *off = getenv("TH_NO_CACHE");
    bool no_disk =
        state->no_disk || (off != NULL && *off != 0 && strcmp(off, "0") != 0);
    if (no_disk) {
      state->disk = (th_disk){.folder = -1};
    } else {
      th_disk_open(ctx, state->folder, state->limit, &state->disk);
    }
  }
  return &state->disk;
}

// The slot of `entry` in the set, or the free one where it belongs.
static cache_entry **cache_held(cache_state *state, const cache_entry *entry) {
  uint64_t hash = (uint64_t)(uintptr_t)entry * UINT64_C(0x9e3779b97f4a7c15);
  size_t i = hash >> 40 & (CACHE_HELD_SLOTS - 1);
  while (state->held[i] != NULL && state->held[i] != entry) {
    i = (i + 1) & (CACHE_HELD_SLOTS - 1);
  }
  return &state->held[i];
}

// ---- making code -----------------------------------------------------------

static uint64_t cache_cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

// "label_0123456789abcdef": readable, and its own for each key.
static void cache_symbol(const uint8_t key[32], const char *label,
                         char symbol[TH_DISK_SYMBOL]) {
  char hex[65];
  th_sha256_hex(key, hex);
  size_t used = 0;
  for (; label[used] != 0 && used < TH_DISK_SYMBOL - 18; used++) {
    char c = label[used];
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                 (c >= '0' && c <= '9' && used > 0);
    symbol[used] = plain ? c : '_';
  }
  snprintf(symbol + used, TH_DISK_SYMBOL - used, "_%.16s", hex);
}

typedef struct cache_request {
  th_context *ctx;
  cache_state *state;
  const uint8_t *key;
  const char *label;
  th_kernel_build build;
  void *user;
  char symbol[TH_DISK_SYMBOL];
  th_bytes object;
} cache_request;

// Consumes the object.
static th_status cache_load(cache_request *request, th_context *ctx,
                            th_code **out_code) {
  uint64_t start = cache_cpu_ns();
  th_status status =
      th_code_load(ctx, request->object.data, request->object.size,
                   request->symbol, out_code);
  request->state->stats.load_ns += cache_cpu_ns() - start;
  th_free(request->object.data);
  return status;
}

static bool cache_from_disk(cache_request *request, th_code **out_code) {
  th_disk *disk = cache_disk(request->ctx, request->state);
  if (!th_disk_read(disk, request->key, request->symbol, &request->object)) {
    return false;
  }
  // Whole, yet perhaps not to be linked here: then it is built anew, and
  // nobody need know.
  if (cache_load(request, NULL, out_code) == TH_OK) {
    request->state->stats.disk_hits++;
    return true;
  }
  th_disk_remove(disk, request->key);
  return false;
}

static th_status cache_call_build(void *arg) {
  cache_request *request = arg;
  return request->build(request->ctx, request->user, request->symbol,
                        &request->object);
}

static th_status cache_compile(cache_request *request, th_code **out_code) {
  th_kernel_stats *stats = &request->state->stats;
  cache_symbol(request->key, request->label, request->symbol);
  uint64_t start = cache_cpu_ns();
  th_status status =
      th_protect(&request->ctx->unwind, cache_call_build, request);
  stats->build_ns += cache_cpu_ns() - start;
  TH_TRY(status);
  stats->compiled++;
  stats->object_bytes += request->object.size;
  th_disk_write(request->ctx, cache_disk(request->ctx, request->state),
                request->key, request->symbol, request->object);
  return cache_load(request, request->ctx, out_code);
}

// ---- asking ----------------------------------------------------------------

// The entry of a key once nobody builds it, or a new one that the caller has to
// fill; NULL when memory is out.
static cache_entry *cache_claim(const uint8_t key[32], bool *out_fill) {
  cache_entry **link = cache_find(key);
  while (*link != NULL && (*link)->code == NULL) {
    pthread_cond_wait(&cache_change, &cache_lock);
    link = cache_find(key);
  }
  *out_fill = *link == NULL;
  if (*link == NULL) {
    *link = th_calloc(1, sizeof **link);
    if (*link != NULL) {
      memcpy((*link)->key, key, 32);
      (*link)->builder = pthread_self();
    }
  }
  return *link;
}

// Makes the code of a claimed entry known, or takes the entry away (code NULL).
static void cache_publish(cache_entry *entry, th_code *code) {
  pthread_mutex_lock(&cache_lock);
  if (code != NULL) {
    entry->code = th_code_retain(code);
    entry->holders++;
  } else {
    cache_unlink(entry);
  }
  pthread_cond_broadcast(&cache_change);
  pthread_mutex_unlock(&cache_lock);
  if (code == NULL) {
    th_free(entry);
  }
}

static th_status cache_fill(cache_request *request, cache_entry *entry,
                            th_code **out_code) {
  th_code *code = NULL;
  th_status status = TH_OK;
  if (!cache_from_disk(request, &code)) {
    status = cache_compile(request, &code);
  }
  cache_publish(entry, status == TH_OK ? code : NULL);
  if (status == TH_OK) {
    *cache_held(request->state, entry) = entry;
    request->state->held_count++;
    *out_code = code;
  }
  return status;
}

th_status th_kernel_cache_get(th_context *ctx, const uint8_t key[32],
                              const char *label, th_kernel_build build,
                              void *user, th_code **out_code) {
  cache_state *state;
  TH_TRY(cache_state_of(ctx, &state));
  if (state->held_count == CACHE_HELD_MAX) {
    cache_drop_held(state);
  }
  cache_request request = {ctx, state, key, label, build, user, {0}, {0}};
  bool fill;
  pthread_mutex_lock(&cache_lock);
  cache_entry *entry = cache_claim(key, &fill);
  cache_entry **held = entry != NULL && !fill ? cache_held(state, entry) : NULL;
  if (held != NULL) {
    *out_code = th_code_retain(entry->code);
    if (*held == NULL) {
      *held = entry;
      state->held_count++;
      entry->holders++;
    }
  }
  pthread_mutex_unlock(&cache_lock);
  if (entry == NULL) {
    return th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "kernel cache");
  }
  if (fill) {
    return cache_fill(&request, entry, out_code);
  }
  state->stats.memory_hits++;
  return TH_OK;
}

// ---- several at once -------------------------------------------------------

typedef struct cache_crew {
  const cache_state *state; // of the caller, read only
  const th_kernel_request **missing;
  size_t count;
  _Atomic size_t next;
  th_context **contexts; // one for each thread; they hold what was made
} cache_crew;

// One thread's part.  Reports are dropped here: the caller asks for everything
// again, and then errors are reported to its own context.
static void cache_work(void *arg, int64_t begin, int64_t end) {
  (void)end;
  cache_crew *crew = arg;
  th_context *own = th_context_new();
  crew->contexts[begin] = own;
  th_kernel_cache_options options = {.no_disk = crew->state->no_disk,
                                     .folder = crew->state->folder,
                                     .limit = crew->state->limit};
  if (own == NULL || th_kernel_cache_configure(own, &options) != TH_OK) {
    return;
  }
  size_t i;
  while ((i = atomic_fetch_add(&crew->next, 1)) < crew->count) {
    const th_kernel_request *request = crew->missing[i];
    th_code *code;
    if (th_kernel_cache_get(own, request->key, request->label, request->build,
                            request->user, &code) == TH_OK) {
      th_code_release(code);
    }
  }
}

// Counts what a worker did as the caller's.  The caller then meets it in
// memory, where it would have made it itself.
static void cache_add_stats(th_kernel_stats *stats,
                            const th_kernel_stats *part) {
  stats->memory_hits -= part->disk_hits + part->compiled;
  stats->disk_hits += part->disk_hits;
  stats->compiled += part->compiled;
  stats->object_bytes += part->object_bytes;
  stats->build_ns += part->build_ns;
  stats->load_ns += part->load_ns;
}

static th_status cache_get_each(th_context *ctx, th_kernel_request *requests,
                                size_t count) {
  for (size_t i = 0; i < count; i++) {
    th_kernel_request *request = &requests[i];
    th_status status =
        th_kernel_cache_get(ctx, request->key, request->label, request->build,
                            request->user, &request->code);
    if (status != TH_OK) {
      while (i-- > 0) {
        th_code_release(requests[i].code);
        requests[i].code = NULL;
      }
      return status;
    }
  }
  return TH_OK;
}

// In memory or on disk, from where one thread gets it sooner than two.
static bool cache_is_known(th_context *ctx, cache_state *state,
                           const uint8_t key[32]) {
  pthread_mutex_lock(&cache_lock);
  const cache_entry *entry = *cache_find(key);
  bool known = entry != NULL && entry->code != NULL;
  pthread_mutex_unlock(&cache_lock);
  return known || th_disk_has(cache_disk(ctx, state), key);
}

// Builds what is missing, each thread for a context of its own, which holds it.
// A disk that takes nothing is reported here; what else a disk warns of the
// caller has met when it looked for the missing ones.
static void cache_build_missing(th_context *ctx, cache_state *state,
                                cache_crew *crew, int threads) {
  th_parallel(threads, threads, 1, cache_work, crew);
  for (int i = 0; i < threads; i++) {
    const th_context *own = crew->contexts[i];
    const cache_state *part = own != NULL ? own->slots[TH_SLOT_JIT] : NULL;
    if (part != NULL) {
      cache_add_stats(&state->stats, &part->stats);
      if (part->disk.write_error != 0) {
        th_disk_stop_writing(ctx, &state->disk, part->disk.write_error);
      }
    }
  }
}

th_status th_kernel_cache_get_many(th_context *ctx, th_kernel_request *requests,
                                   size_t count, int threads) {
  if (threads <= 1 || count <= 1) {
    return cache_get_each(ctx, requests, count);
  }
  cache_state *state;
  TH_TRY(cache_state_of(ctx, &state));
  cache_crew crew = {.state = state};
  crew.contexts = th_calloc((size_t)threads, sizeof(th_context *));
  crew.missing = th_calloc(count, sizeof(th_kernel_request *));
  th_status status = TH_OK;
  if (crew.contexts == NULL || crew.missing == NULL) {
    status = th_error(ctx, TH_NO_MEMORY, TH_NOWHERE, "kernel cache");
  }
  for (size_t i = 0; status == TH_OK && i < count; i++) {
    if (!cache_is_known(ctx, state, requests[i].key)) {
      crew.missing[crew.count++] = &requests[i];
    }
  }
  if (crew.count > 1) {
    threads = crew.count < (size_t)threads ? (int)crew.count : threads;
    cache_build_missing(ctx, state, &crew, threads);
  }
  if (status == TH_OK) {
    status = cache_get_each(ctx, requests, count);
  }
  for (int i = 0; crew.contexts != NULL && i < threads; i++) {
    th_context_free(crew.contexts[i]);
  }
  th_free(crew.contexts);
  th_free(crew.missing);
  return status;
}

th_kernel_stats th_kernel_stats_get(const th_context *ctx) {
  const cache_state *state = ctx->slots[TH_SLOT_JIT];
  return state != NULL ? state->stats : (th_kernel_stats){0};
}

// Hash map from strings (or from any bytes) to pointers, in an arena.
// Keys are copied; nothing is ever removed.  Iterates in insertion order.
#ifndef TH_BASE_MAP_H
#define TH_BASE_MAP_H

#include "base/arena.h"

typedef struct th_map_entry {
  const char *key;
  uint32_t size;
  uint32_t hash;
  void *value;
} th_map_entry;

typedef struct th_map {
  th_arena *arena;
  th_map_entry *entries; // insertion order
  uint32_t count, cap;
  uint32_t *slots; // index + 1 into entries; 0 is empty
  uint32_t slot_count;
} th_map;

void th_map_init(th_map *map, th_arena *arena);
void *th_map_get(const th_map *map, const char *key); // NULL: absent
void *th_map_get_bytes(const th_map *map, const void *key, size_t size);
// Inserts or replaces.
void th_map_put(th_map *map, const char *key, void *value);
void th_map_put_bytes(th_map *map, const void *key, size_t size, void *value);
// The one stored copy of a string.
const char *th_intern(th_map *map, const char *text);

uint64_t th_hash_bytes(const void *bytes, size_t size, uint64_t seed);

#endif

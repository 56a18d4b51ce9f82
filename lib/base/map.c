// Open addressing with linear probing over an insertion-ordered list of
// entries; at most three quarters full.  The hash is murmur's 64-bit mixer, 8
// bytes at a time: the keys are names and kernel texts of files that the user
// chose, so no key is secret.
#include "base/map.h"

#include <string.h>

enum { MAP_FIRST_SLOTS = 16 };

uint64_t th_hash_bytes(const void *bytes, size_t size, uint64_t seed) {
  const uint64_t multiplier = 0xc6a4a7935bd1e995u;
  const unsigned char *at = bytes;
  uint64_t hash = seed ^ (size * multiplier);
  for (size_t left = size; left > 0;) {
    uint64_t word = 0;
    size_t take = left < 8 ? left : 8;
    memcpy(&word, at, take);
    word *= multiplier;
    word ^= word >> 47;
    hash = (hash ^ (word * multiplier)) * multiplier;
    at += take;
    left -= take;
  }
  hash ^= hash >> 47;
  hash *= multiplier;
  return hash ^ (hash >> 47);
}

static uint32_t map_hash(const void *key, size_t size) {
  return (uint32_t)th_hash_bytes(key, size, 0);
}

void th_map_init(th_map *map, th_arena *arena) {
  *map = (th_map){.arena = arena};
}

// The slot of the key, or the empty one where it belongs.  Needs slots.
static uint32_t map_find(const th_map *map, const void *key, size_t size,
                         uint32_t hash) {
  uint32_t mask = map->slot_count - 1;
  uint32_t slot = hash & mask;
  for (; map->slots[slot]; slot = (slot + 1) & mask) {
    const th_map_entry *entry = &map->entries[map->slots[slot] - 1];
    if (entry->hash == hash && entry->size == size &&
        memcmp(entry->key, key, size) == 0) {
      break;
    }
  }
  return slot;
}

void *th_map_get_bytes(const th_map *map, const void *key, size_t size) {
  if (map->count == 0) {
    return NULL;
  }
  uint32_t slot = map_find(map, key, size, map_hash(key, size));
  return map->slots[slot] ? map->entries[map->slots[slot] - 1].value : NULL;
}

void *th_map_get(const th_map *map, const char *key) {
  return th_map_get_bytes(map, key, strlen(key));
}

static void map_grow_slots(th_map *map) {
  uint32_t slot_count = map->slot_count ? map->slot_count * 2 : MAP_FIRST_SLOTS;
  uint32_t *slots = TH_NEW_ARRAY(map->arena, uint32_t, slot_count);
  for (uint32_t i = 0; i < map->count; i++) {
    uint32_t slot = map->entries[i].hash & (slot_count - 1);
    while (slots[slot]) {
      slot = (slot + 1) & (slot_count - 1);
    }
    slots[slot] = i + 1;
  }
  map->slots = slots;
  map->slot_count = slot_count;
}

// The entry of the key, made with a NULL value when absent.
static th_map_entry *map_entry(th_map *map, const void *key, size_t size) {
  if (map->count + 1 > map->slot_count / 4 * 3) {
    map_grow_slots(map);
  }
  uint32_t hash = map_hash(key, size);
  uint32_t slot = map_find(map, key, size, hash);
  if (!map->slots[slot]) {
    // All that can unwind comes before the map is changed.
    char *copy = th_arena_strndup(map->arena, key, size);
    TH_PUSH(map->arena, map->entries, map->count, map->cap) =
        (th_map_entry){copy, (uint32_t)size, hash, NULL};
    map->slots[slot] = map->count;
  }
  return &map->entries[map->slots[slot] - 1];
}

void th_map_put_bytes(th_map *map, const void *key, size_t size, void *value) {
  map_entry(map, key, size)->value = value;
}

void th_map_put(th_map *map, const char *key, void *value) {
  th_map_put_bytes(map, key, strlen(key), value);
}

const char *th_intern(th_map *map, const char *text) {
  th_map_entry *entry = map_entry(map, text, strlen(text));
  entry->value = (void *)entry->key;
  return entry->key;
}

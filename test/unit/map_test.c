// Maps and interning.
#include "base/map.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(map, keeps_what_was_put_in_insertion_order) {
  enum { COUNT = 5000 };
  static int values[COUNT];
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  th_map map;
  th_map_init(&map, &arena);
  cr_assert_null(th_map_get(&map, "absent"));
  char key[16];
  for (int i = 0; i < COUNT; i++) {
    snprintf(key, sizeof key, "k%d", i);
    th_map_put(&map, key, &values[i]);
  }
  cr_assert_eq(map.count, COUNT);
  for (int i = 0; i < COUNT; i++) {
    snprintf(key, sizeof key, "k%d", i);
    cr_assert_eq(th_map_get(&map, key), &values[i]);
    cr_assert_str_eq(map.entries[i].key, key);
  }
  cr_assert_null(th_map_get(&map, "k5000"));
  th_map_put(&map, "k7", &values[0]);
  cr_assert_eq(th_map_get(&map, "k7"), &values[0]);
  cr_assert_eq(map.count, COUNT);
  th_arena_deinit(&arena);
}

Test(map, keys_may_be_any_bytes) {
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  th_map map;
  th_map_init(&map, &arena);
  int a;
  int b;
  int c;
  th_map_put_bytes(&map, "x\0y", 3, &a);
  th_map_put_bytes(&map, "x\0z", 3, &b);
  th_map_put_bytes(&map, "", 0, &c);
  cr_assert_eq(th_map_get_bytes(&map, "x\0y", 3), &a);
  cr_assert_eq(th_map_get_bytes(&map, "x\0z", 3), &b);
  cr_assert_eq(th_map_get(&map, ""), &c);
  cr_assert_null(th_map_get(&map, "x"));
  th_arena_deinit(&arena);
}

Test(map, interned_texts_are_one) {
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  th_map map;
  th_map_init(&map, &arena);
  char word[] = "word";
  const char *one = th_intern(&map, word);
  word[0] = 'l';
  const char *other = th_intern(&map, word);
  cr_assert_eq(th_intern(&map, "word"), one);
  cr_assert_neq(one, other);
  cr_assert_str_eq(other, "lord");
  th_arena_deinit(&arena);
}

typedef struct map_work {
  th_arena arena;
  th_map map;
} map_work;

static th_status map_put_many(void *arg) {
  map_work *work = arg;
  char key[16];
  for (int i = 0; i < 2000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    th_map_put(&work->map, key, work);
  }
  return TH_OK;
}

Test(map, stays_whole_when_memory_runs_out) {
  for (size_t ordinal = 1; ordinal < 6; ordinal++) {
    th_unwind unwind = {NULL};
    map_work work;
    th_arena_init(&work.arena, &unwind);
    th_map_init(&work.map, &work.arena);
    th_alloc_fail_at(ordinal, false);
    cr_assert_eq(th_protect(&unwind, map_put_many, &work), TH_NO_MEMORY);
    th_alloc_fail_at(0, false);
    for (uint32_t i = 0; i < work.map.count; i++) {
      cr_assert_eq(th_map_get(&work.map, work.map.entries[i].key), &work);
    }
    cr_assert_eq(th_protect(&unwind, map_put_many, &work), TH_OK);
    cr_assert_eq(work.map.count, 2000);
    th_arena_deinit(&work.arena);
  }
}

Test(map, hashes_depend_on_every_byte) {
  char bytes[40] = {0};
  uint64_t before = th_hash_bytes(bytes, 40, 0);
  for (int i = 0; i < 40; i++) {
    bytes[i] ^= 1;
    cr_assert_neq(th_hash_bytes(bytes, 40, 0), before);
    bytes[i] ^= 1;
  }
  cr_assert_neq(th_hash_bytes(bytes, 39, 0), before);
  cr_assert_neq(th_hash_bytes(bytes, 40, 1), before);
}

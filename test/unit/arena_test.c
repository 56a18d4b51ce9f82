// Arenas: alignment, zeroes, unwinding, deferred releases.
#include "base/arena.h"

#include "base/alloc.h"

#include <criterion/criterion.h>
#include <string.h>

static th_status arena_fill(void *arg) {
  th_arena *arena = arg;
  for (size_t size = 0; size < 3000; size += 7) {
    unsigned char *bytes = th_arena_alloc(arena, size);
    cr_assert_eq((uintptr_t)bytes % 16, 0);
    for (size_t i = 0; i < size; i++) {
      cr_assert_eq(bytes[i], 0);
    }
    memset(bytes, 0xff, size);
  }
  unsigned char *large = th_arena_alloc(arena, 3000000);
  cr_assert(large[0] == 0 && large[2999999] == 0);
  return TH_OK;
}

Test(arena, allocations_are_zeroed_and_aligned) {
  th_unwind unwind = {NULL};
  th_arena arena;
  size_t live = th_alloc_live();
  th_arena_init(&arena, &unwind);
  cr_assert_eq(th_protect(&unwind, arena_fill, &arena), TH_OK);
  cr_assert(arena.total > 3000000);
  th_arena_deinit(&arena);
  cr_assert_eq(th_alloc_live(), live);
  cr_assert_eq(th_protect(&unwind, arena_fill, &arena), TH_OK);
  th_arena_deinit(&arena);
}

Test(arena, a_large_allocation_keeps_the_rest_of_the_chunk) {
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  char *small = th_arena_alloc(&arena, 16);
  th_arena_alloc(&arena, 1 << 20);
  char *next = th_arena_alloc(&arena, 16);
  cr_assert(next > small && next - small < 4096);
  th_arena_deinit(&arena);
}

Test(arena, texts_are_copied) {
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  cr_assert_str_eq(th_arena_strdup(&arena, "word"), "word");
  cr_assert_str_eq(th_arena_strndup(&arena, "word", 2), "wo");
  cr_assert_str_eq(th_arena_printf(&arena, "%d %s", 7, "x"), "7 x");
  char *text = th_arena_printf(&arena, "%5000d", 1);
  cr_assert_eq(strlen(text), 5000);
  th_arena_deinit(&arena);
}

Test(arena, arrays_grow) {
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  int *numbers = NULL;
  uint32_t count = 0;
  uint32_t cap = 0;
  for (int i = 0; i < 1000; i++) {
    TH_PUSH(&arena, numbers, count, cap) = i;
  }
  cr_assert_eq(count, 1000);
  for (int i = 0; i < 1000; i++) {
    cr_assert_eq(numbers[i], i);
  }
  th_arena_deinit(&arena);
}

static th_status arena_overflow(void *arg) {
  th_arena_alloc_array(arg, SIZE_MAX / 2, 4);
  return TH_OK;
}

static th_status arena_inner(void *arg) {
  th_arena *arena = arg;
  cr_assert_eq(th_protect(arena->unwind, arena_overflow, arena), TH_NO_MEMORY);
  // The outer target is back.
  th_arena_alloc(arena, SIZE_MAX / 2);
  return TH_OK;
}

Test(arena, unwinding_nests) {
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  cr_assert_eq(th_protect(&unwind, arena_inner, &arena), TH_NO_MEMORY);
  cr_assert_null(unwind.target);
  th_arena_deinit(&arena);
}

static int arena_released[4];
static int arena_release_count;

static void arena_note(void *object) {
  arena_released[arena_release_count++] = *(int *)object;
}

Test(arena, deferred_releases_run_newest_first) {
  static int objects[] = {1, 2, 3};
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  for (int i = 0; i < 3; i++) {
    th_arena_defer(&arena, arena_note, &objects[i]);
  }
  th_arena_deinit(&arena);
  cr_assert_eq(arena_release_count, 3);
  cr_assert(arena_released[0] == 3 && arena_released[2] == 1);
}

static th_status arena_defer_one(void *arg) {
  static int object = 9;
  th_arena_defer(arg, arena_note, &object);
  return TH_OK;
}

Test(arena, a_release_that_cannot_be_noted_runs_at_once) {
  th_unwind unwind = {NULL};
  th_arena arena;
  th_arena_init(&arena, &unwind);
  th_alloc_fail_at(1, false);
  cr_assert_eq(th_protect(&unwind, arena_defer_one, &arena), TH_NO_MEMORY);
  cr_assert(arena_release_count == 1 && arena_released[0] == 9);
  th_arena_deinit(&arena);
  cr_assert_eq(arena_release_count, 1);
}

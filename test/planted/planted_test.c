// Faults on purpose: the suite asan-planted fails when the sanitizers do not
// find them, since then they would not find others either.

#include <criterion/criterion.h>

#include "base/alloc.h"

static void *volatile planted_block;

Test(planted, leak) {
  planted_block = th_malloc(77);
  cr_assert_not_null(planted_block);
  planted_block = NULL;
}

Test(planted, overflow) {
  char *volatile block = th_malloc(8);
  volatile size_t past = 8;
  block[past] = 1;
  th_free(block);
}

// Fails every allocation of a piece of work in turn, like curl's torture tests.
#ifndef TH_TEST_TORTURE_H
#define TH_TEST_TORTURE_H

#include "base/alloc.h"
#include "thunder/base.h"

#include <criterion/criterion.h>

// Runs work(user) with its 1st, 2nd, ... allocation failing (alone, then with
// all that follow) until it has fewer.  Each run must return TH_NO_MEMORY or,
// where the work can do without that memory, TH_OK, and must leave as many
// blocks as it found.  Work makes and frees its own context.
static inline void torture(th_status (*work)(void *), void *user) {
  for (int sticky = 0; sticky < 2; sticky++) {
    size_t made = 0;
    for (size_t ordinal = 1; made + 1 >= ordinal; ordinal++) {
      size_t live = th_alloc_live();
      th_alloc_fail_at(ordinal, sticky);
      th_status status = work(user);
      made = th_alloc_fail_at(0, false);
      cr_assert(status == TH_NO_MEMORY || status == TH_OK,
                "allocation %zu of %zu: %s", ordinal, made,
                th_status_text(status));
      cr_assert(made >= ordinal || status == TH_OK);
      cr_assert_eq(th_alloc_live(), live, "allocation %zu leaks", ordinal);
    }
    cr_assert_eq(work(user), TH_OK);
  }
}

#endif

// Results larger than the caches, which are stored past them: what a row keeps
// lies on the stack then.
#include "against.h"

#include <criterion/criterion.h>

Test(large, softmax) {
  const against_case c = {
      {"x f32[2100, 4099]"}, "  z = softmax(x, 1)\n", "hostFusion0"};
  against_ref(&c, "host", NULL);
}

Test(large, softmax_over_pairs) {
  const against_case c = {{"x f32[70000, 8, 16]", "y f32[16]"},
                          "  a = add(x, y)\n  m = amax(a, [1, 2], True)\n"
                          "  d = sub(a, m)\n  e = exp(d)\n"
                          "  s = sum(e, [1, 2], True)\n  z = div(e, s)\n",
                          "hostFusion0"};
  against_ref(&c, "host", NULL);
}

// Products of one row against the oracle; those of more go by.
#include "against.h"

#include <criterion/criterion.h>

static const against_case gemv_cases[] = {
    {{"x f32[1, 40]", "w f32[9, 40]", "b f32[9]"},
     "  z = linear(x, w, b)\n",
     "= gemvFusion0(x, w, b)"},
    {{"x f32[1, 1, 7]", "w f32[300, 7]"},
     "  y = linear(x, w)\n  z = silu(y)\n",
     "= gemvFusion0(x, w)"},
    {{"x f32[40]", "w f32[9, 40]"}, "  z = linear(x, w)\n", "= gemvFusion0"},
    {{"x f32[1, 40]", "y f32[40, 9]"}, "  z = matmul(x, y)\n", "= gemvFusion0"},
    {{"x f32[3, 1, 40]", "y f32[3, 40, 9]"},
     "  z = matmul(x, y)\n",
     "= gemvFusion0"},
    {{"x f32[2, 40]", "w f32[9, 40]"}, "  z = linear(x, w)\n", "hostFusion0"},
    {{"x f32[2, 1, 40]", "w f32[9, 40]"},
     "  z = linear(x, w)\n",
     "hostFusion0"},
    {{"x f32[40]", "y f32[40, 9]"}, "  z = matmul(x, y)\n", "= gemvFusion0"},
    {{"x f32[9, 40]", "y f32[40]"}, "  z = matmul(x, y)\n", "hostFusion0"},
};

Test(gemv, agrees_with_ref) {
  for (size_t i = 0; i < sizeof gemv_cases / sizeof *gemv_cases; i++) {
    against_ref(&gemv_cases[i], "gemv,host", NULL);
  }
}

// All conversions from memory to memory against those of tensors, which are
// tested against PyTorch's.
#include "lowering/convert.h"

#include "tensor/element.h"
#include "llvm/math_kernel.h"

#include <criterion/criterion.h>

#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 8192 };

static th_context *ctx;

static void convert_setup(void) { ctx = th_context_new(); }
static void convert_teardown(void) { th_context_free(ctx); }

TestSuite(convert, .init = convert_setup, .fini = convert_teardown,
          .timeout = 300);

// `which` is from + TH_DTYPE_COUNT * to.
static th_dtype case_from(int which) {
  return (th_dtype)(which % TH_DTYPE_COUNT);
}

static th_dtype case_to(int which) {
  return (th_dtype)(which / TH_DTYPE_COUNT);
}

static LLVMTypeRef type_from(th_emit *e, int which) {
  return th_convert_memory_type(e, case_from(which));
}

static LLVMTypeRef type_to(th_emit *e, int which) {
  return th_convert_memory_type(e, case_to(which));
}

static LLVMValueRef emit_convert(th_emit *e, LLVMValueRef *in, int which) {
  th_dtype from = case_from(which), to = case_to(which);
  LLVMValueRef v = th_convert_from_memory(e, in[0], from);
  return th_convert_to_memory(e, th_convert(e, v, from, to), to);
}

static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Numbers at which some type ends, ties between neighbours, and their twins.
static const double edges[] = {
    0.0,          INFINITY,     NAN,           0.5,           1.5,
    2.5,          127.5,        128.0,         255.0,         256.0,
    300.0,        32767.0,      32768.0,       65504.0,       65519.0,
    65520.0,      65536.0,      70000.0,       0x1p31,        0x1.fffffep30,
    2147483647.0, 2147483649.0, 3e9,           0x1p32,        4294967551.0,
    0x1p53,       0x1p63,       0x1.fffffep62, 0x1p64,        1e30,
    FLT_MAX,      DBL_MAX,      0x1p-149,      0x1p-126,      0x1p-24,
    0x1p-25,      0x1.8p-25,    0x1p-133,      0x1.8p-134,    448.0,
    464.0,        465.0,        480.0,         57344.0,       61440.0,
    61439.0,      0x1p-9,       0x1p-10,       0x1.8p-10,     0x1p-16,
    0x1p-17,      0x1.8p-17,    1.00390625,    1.01171875,    0x1.8p127,
    0x1p-127,     0x1.8p-127,   1.0009765625,  1.00048828125, 1.00146484375,
};

// Random bits, then whole numbers and edges of both signs where the type has
// them.
static void fill(th_dtype dtype, unsigned char *bytes) {
  size_t size = th_dtype_size(dtype), edge_count = 2 * TH_COUNT(edges);
  for (size_t i = 0; i < BLOCK; i++) {
    uint64_t bits = size == 1 ? i : mix(i);
    if (dtype == TH_BOOL) {
      bits &= 1;
    }
    memcpy(bytes + i * size, &bits, size);
    double x = i < edge_count ? edges[i / 2] : (double)(int64_t)(mix(i) % 4001);
    x = i % 2 ? -x : x;
    if (th_dtype_is_float(dtype) && (i < edge_count || i % 4 == 0)) {
      th_element_set(dtype, bytes + i * size, x);
    }
  }
}

static bool same_element(th_dtype dtype, const void *a, const void *b) {
  if (memcmp(a, b, th_dtype_size(dtype)) == 0) {
    return true;
  }
  return th_dtype_is_float(dtype) && isnan(th_element_get(dtype, a)) &&
         isnan(th_element_get(dtype, b));
}

static void check_pair(int which, unsigned lanes, const char *target) {
  static unsigned char in[BLOCK * 8], got[BLOCK * 8], want[BLOCK * 8];
  th_dtype from = case_from(which), to = case_to(which);
  math_kernel k = {emit_convert, which, type_from, type_to, 1, lanes};
  th_code *code;
  math_kernel_fn fn = math_kernel_load(ctx, &k, target, &code);
  fill(from, in);
  size_t in_size = th_dtype_size(from), size = th_dtype_size(to);
  fn(in, NULL, got, BLOCK);
  th_convert_row(to, want, (ptrdiff_t)size, from, in, (ptrdiff_t)in_size,
                 BLOCK);
  for (size_t i = 0; i < BLOCK; i++) {
    cr_expect(same_element(to, got + i * size, want + i * size),
              "%s to %s x %u: %.17g gives %.17g, want %.17g",
              th_dtype_name(from), th_dtype_name(to), lanes,
              th_element_get(from, in + i * in_size),
              th_element_get(to, got + i * size),
              th_element_get(to, want + i * size));
  }
  th_code_release(code);
}

Test(convert, every_pair) {
  for (int which = 0; which < TH_DTYPE_COUNT * TH_DTYPE_COUNT; which++) {
    check_pair(which, 16, NULL);
    check_pair(which, 1, NULL);
  }
}

Test(convert, every_pair_without_mask_registers) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    for (int which = 0; which < TH_DTYPE_COUNT * TH_DTYPE_COUNT; which++) {
      check_pair(which, 8, "haswell");
    }
  }
#endif
}

// Without instructions for f16.
Test(convert, every_pair_on_any_x86) {
#if defined(__x86_64__)
  for (int which = 0; which < TH_DTYPE_COUNT * TH_DTYPE_COUNT; which++) {
    check_pair(which, 4, "x86-64");
  }
#endif
}

Test(convert, compiles_elsewhere) {
  for (int which = 0; which < TH_DTYPE_COUNT * TH_DTYPE_COUNT; which++) {
    math_kernel k = {emit_convert, which, type_from, type_to, 1, 4};
    math_kernel_compile(ctx, &k, "sm_90");
    math_kernel_compile(ctx, &k, "aarch64");
  }
}

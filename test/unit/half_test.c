// Small float formats: against definitions that are written down differently,
// and against casts that PyTorch made, where those are present.
#include "base/half.h"

#include "base/file.h"
#include "thunder/safetensors.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The value of a finite code, from the definition of the format.
static double half_value(unsigned code, int exponent_bits, int mantissa_bits,
                         int bias) {
  unsigned mantissa = code & ((1u << mantissa_bits) - 1);
  int exponent = (int)(code >> mantissa_bits & ((1u << exponent_bits) - 1));
  double sign = code >> (exponent_bits + mantissa_bits) ? -1 : 1;
  double fraction = ldexp(mantissa, -mantissa_bits);
  return sign * (exponent ? ldexp(1 + fraction, exponent - bias)
                          : ldexp(fraction, 1 - bias));
}

Test(half, f16_decodes_and_encodes_every_code) {
  for (unsigned code = 0; code < 65536; code++) {
    float value = th_f16_to_f32((uint16_t)code);
    if ((code & 0x7c00) != 0x7c00) {
      cr_assert_eq((double)value, half_value(code, 5, 10, 15));
      cr_assert_eq(signbit(value) != 0, code >> 15);
    } else {
      cr_assert(code & 0x3ff ? isnan(value) : isinf(value));
    }
    if (!isnan(value)) {
      cr_assert_eq(th_f16_from_f32(value), code);
    }
  }
  cr_assert(isnan(th_f16_to_f32(th_f16_from_f32(NAN))));
}

Test(half, f16_rounds_to_nearest_even) {
  for (unsigned code = 0; code < 0x7bff; code++) {
    float low = th_f16_to_f32((uint16_t)code);
    float high = th_f16_to_f32((uint16_t)(code + 1));
    float middle = (low + high) / 2; // exact in a float
    unsigned even = code & 1 ? code + 1 : code;
    cr_assert_eq(th_f16_from_f32(middle), even);
    cr_assert_eq(th_f16_from_f32(nextafterf(middle, 0)), code);
    cr_assert_eq(th_f16_from_f32(nextafterf(middle, INFINITY)), code + 1);
    cr_assert_eq(th_f16_from_f32(-middle), even | 0x8000);
  }
  cr_assert_eq(th_f16_from_f32(65519.996f), 0x7bff);
  cr_assert_eq(th_f16_from_f32(65520), 0x7c00);
  cr_assert_eq(th_f16_from_f32(1e-45f), 0);
}

Test(half, bf16_is_the_upper_half_of_a_float) {
  for (unsigned code = 0; code < 65536; code++) {
    float value = th_bf16_to_f32((uint16_t)code);
    if (!isnan(value)) {
      cr_assert_eq(th_bf16_from_f32(value), code);
    } else {
      cr_assert(isnan(th_bf16_to_f32(th_bf16_from_f32(value))));
    }
  }
  for (unsigned code = 0; code < 0x7f7f; code++) {
    uint32_t bits = code << 16 | 0x8000;
    float middle;
    memcpy(&middle, &bits, sizeof middle);
    cr_assert_eq(th_bf16_from_f32(middle), code & 1 ? code + 1 : code);
    cr_assert_eq(th_bf16_from_f32(nextafterf(middle, 0)), code);
    cr_assert_eq(th_bf16_from_f32(nextafterf(middle, INFINITY)), code + 1);
  }
  cr_assert_eq(th_bf16_from_f32(3.4e38f), 0x7f80);
}

Test(half, f8_overflows_by_the_rule_that_is_asked_for) {
  cr_assert_eq(th_f8_e4m3fn_to_f32(0x7e), 448);
  cr_assert_eq(th_f8_e4m3fn_from_f32(464, TH_OVERFLOW_IEEE), 0x7e);
  cr_assert_eq(th_f8_e4m3fn_from_f32(465, TH_OVERFLOW_IEEE), 0x7f);
  cr_assert_eq(th_f8_e4m3fn_from_f32(-1e9f, TH_OVERFLOW_SATURATE), 0xfe);
  cr_assert_eq(th_f8_e5m2_to_f32(0x7b), 57344);
  cr_assert_eq(th_f8_e5m2_from_f32(INFINITY, TH_OVERFLOW_IEEE), 0x7c);
  cr_assert_eq(th_f8_e5m2_from_f32(INFINITY, TH_OVERFLOW_SATURATE), 0x7b);
  cr_assert(isinf(th_f8_e5m2_to_f32(0xfc)));
  cr_assert(isnan(th_f8_e4m3fn_to_f32(0xff)));
}

Test(half, e8m0_is_a_power_of_two) {
  for (int code = 0; code < 255; code++) {
    cr_assert_eq((double)th_f8_e8m0fnu_to_f32((uint8_t)code),
                 ldexp(1, code - 127));
  }
  cr_assert(isnan(th_f8_e8m0fnu_to_f32(255)));
  cr_assert_eq(th_f8_e8m0fnu_from_f32(1.25f, TH_E8M0_UP), 128);
  cr_assert_eq(th_f8_e8m0fnu_from_f32(1.25f, TH_E8M0_FLOOR), 127);
  cr_assert_eq(th_f8_e8m0fnu_from_f32(1.5f, TH_E8M0_NEAREST), 128);
}

typedef uint8_t (*half_cast)(float value);

static uint8_t half_e4m3_sat(float x) {
  return th_f8_e4m3fn_from_f32(x, TH_OVERFLOW_SATURATE);
}
static uint8_t half_e4m3_ieee(float x) {
  return th_f8_e4m3fn_from_f32(x, TH_OVERFLOW_IEEE);
}
static uint8_t half_e5m2_sat(float x) {
  return th_f8_e5m2_from_f32(x, TH_OVERFLOW_SATURATE);
}
static uint8_t half_e5m2_ieee(float x) {
  return th_f8_e5m2_from_f32(x, TH_OVERFLOW_IEEE);
}
static uint8_t half_e8m0_up(float x) {
  return th_f8_e8m0fnu_from_f32(x, TH_E8M0_UP);
}
static uint8_t half_e8m0_floor(float x) {
  return th_f8_e8m0fnu_from_f32(x, TH_E8M0_FLOOR);
}
static uint8_t half_e8m0_nearest(float x) {
  return th_f8_e8m0fnu_from_f32(x, TH_E8M0_NEAREST);
}

static const struct half_format_case {
  const char *format, *rule;
  half_cast cast;
  float (*decode)(uint8_t);
} half_cases[] = {
    {"e4m3", "sat", half_e4m3_sat, th_f8_e4m3fn_to_f32},
    {"e4m3", "ieee", half_e4m3_ieee, th_f8_e4m3fn_to_f32},
    {"e5m2", "sat", half_e5m2_sat, th_f8_e5m2_to_f32},
    {"e5m2", "ieee", half_e5m2_ieee, th_f8_e5m2_to_f32},
    {"e8m0", "up", half_e8m0_up, th_f8_e8m0fnu_to_f32},
    {"e8m0", "floor", half_e8m0_floor, th_f8_e8m0fnu_to_f32},
    {"e8m0", "nearest", half_e8m0_nearest, th_f8_e8m0fnu_to_f32},
};

static th_tensor *half_tensor(th_context *ctx, th_safetensors *file,
                              const char *format, const char *source,
                              const char *what) {
  char name[64];
  snprintf(name, sizeof name, "%s.from_%s.%s", format, source, what);
  th_tensor *tensor = NULL;
  cr_assert_eq(th_safetensors_tensor(file, name, &tensor), TH_OK, "%s",
               th_diagnostics_all(ctx));
  return tensor;
}

static void half_check(th_context *ctx, th_safetensors *file,
                       const struct half_format_case *c, const char *source) {
  th_tensor *in = half_tensor(ctx, file, c->format, source, "in");
  th_tensor *want = half_tensor(ctx, file, c->format, source, c->rule);
  const uint8_t *codes = th_tensor_data(want);
  int64_t count = th_tensor_numel(in);
  cr_assert(count > 1000 && count == th_tensor_numel(want));
  for (int64_t i = 0; i < count; i++) {
    float x = (float)th_tensor_get(in, i);
    uint8_t code = c->cast(x);
    cr_assert(code == codes[i] ||
                  (isnan(c->decode(code)) && isnan(c->decode(codes[i]))),
              "%s.from_%s.%s: %a gives %#x, wanted %#x", c->format, source,
              c->rule, (double)x, code, codes[i]);
  }
  th_tensor_release(in);
  th_tensor_release(want);
}

// The recorded casts lie beside the project; TH_CONFORMANCE says where.
static const char *half_casts_path(char *buffer, size_t size) {
  const char *folder = getenv("TH_CONFORMANCE");
  snprintf(buffer, size, "%s/fp8/casts.safetensors",
           folder ? folder : TH_SOURCE_DIR "/../shared/conformance");
  return buffer;
}

Test(half, f8_casts_are_those_of_pytorch) {
  char path[4096];
  if (access(half_casts_path(path, sizeof path), R_OK) != 0) {
    cr_assert_null(getenv("CI"), "no %s", path); // there it has to be
    cr_skip_test("no %s", path);
  }
  th_context *ctx = th_context_new();
  th_safetensors *file = NULL;
  cr_assert_eq(th_safetensors_open(ctx, path, &file), TH_OK);
  static const char *const sources[] = {"f32", "bf16", "f16"};
  for (size_t i = 0; i < TH_COUNT(half_cases); i++) {
    for (size_t j = 0; j < TH_COUNT(sources); j++) {
      half_check(ctx, file, &half_cases[i], sources[j]);
    }
  }
  th_safetensors_free(file);
  th_context_free(ctx);
}

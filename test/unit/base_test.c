// Tables of statuses, element types and devices; allocation.
#include "base/alloc.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "thunder/base.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(base, version_is_three_numbers) {
  char want[32];
  snprintf(want, sizeof want, "%d.%d.%d", TH_VERSION_MAJOR, TH_VERSION_MINOR,
           TH_VERSION_PATCH);
  cr_assert_str_eq(th_version(), want);
}

Test(base, every_status_has_a_text) {
  cr_assert_str_eq(th_status_text(TH_OK), "ok");
  cr_assert_str_eq(th_status_text(TH_SHAPE), "shape mismatch");
  cr_assert_str_eq(th_status_text((th_status)1000), "unknown status");
}

Test(base, dtype_names_read_back) {
  for (int i = 0; i < TH_DTYPE_COUNT; i++) {
    cr_assert_eq((int)th_dtype_parse(th_dtype_name((th_dtype)i)), i);
    cr_assert(th_dtype_size((th_dtype)i) > 0);
  }
  cr_assert_eq(th_dtype_parse("bool"), TH_BOOL);
  cr_assert_eq(th_dtype_parse("f33"), TH_DTYPE_COUNT);
  cr_assert_eq(th_dtype_size(TH_DTYPE_COUNT), 0);
  cr_assert(th_dtype_is_float(TH_F8_E8M0FNU));
  cr_assert_not(th_dtype_is_float(TH_I64));
}

Test(base, devices_read_back) {
  char text[24];
  th_device device;
  cr_assert(th_device_parse("cpu", &device));
  cr_assert_str_eq(th_device_text(device, text, sizeof text), "cpu");
  cr_assert(th_device_parse("ptxsim:3", &device));
  cr_assert_str_eq(th_device_text(device, text, sizeof text), "ptxsim:3");
  cr_assert(th_device_parse("cuda", &device));
  cr_assert(th_device_equal(device, (th_device){TH_CUDA, 0}));
  static const char *const bad[] = {
      "",        "gpu", "cuda:",   "cuda:x", "cpu:1",
      "cuda:1 ", "cud", "cuda:-1", "cuda0",  "cuda:99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_assert_not(th_device_parse(bad[i], &device), "%s", bad[i]);
  }
}

Test(base, allocations_fail_as_told) {
  th_alloc_fail_at(2, false);
  void *first = th_malloc(1);
  void *second = th_malloc(1);
  void *third = th_calloc(1, 1);
  cr_assert(first && !second && third);
  cr_assert_eq(th_alloc_fail_at(1, true), 3);
  cr_assert_null(th_aligned_alloc(64, 1));
  cr_assert_null(th_realloc(first, 100));
  cr_assert_null(th_strdup("x"));
  cr_assert_eq(th_alloc_fail_at(0, false), 3);
  size_t live = th_alloc_live();
  th_free(first);
  th_free(third);
  cr_assert_eq(th_alloc_live(), live - 2);
  cr_assert_null(th_aligned_alloc(64, SIZE_MAX - 10));
}

Test(base, sha256_of_the_standard) {
  static const struct {
    const char *text, *digest;
  } cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc",
       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
  };
  uint8_t digest[32];
  char hex[65];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    th_sha256(cases[i].text, strlen(cases[i].text), digest);
    th_sha256_hex(digest, hex);
    cr_assert_str_eq(hex, cases[i].digest);
  }
}

Test(base, sha256_does_not_depend_on_the_pieces) {
  char bytes[300];
  for (int i = 0; i < 300; i++) {
    bytes[i] = (char)(i * 7);
  }
  for (size_t size = 0; size <= 300; size++) {
    uint8_t whole[32];
    uint8_t pieces[32];
    th_sha256(bytes, size, whole);
    th_sha256_state state;
    th_sha256_init(&state);
    for (size_t at = 0, step = 1; at < size; at += step, step = step % 90 + 3) {
      th_sha256_update(&state, bytes + at, at + step < size ? step : size - at);
    }
    th_sha256_final(&state, pieces);
    cr_assert_arr_eq(whole, pieces, 32);
  }
}

Test(base, utf8_follows_the_table) {
  static const char *const good[] = {"",
                                     "abc",
                                     "\xc3\xa9",
                                     "\xe2\x82\xac",
                                     "\xed\x9f\xbf",
                                     "\xf4\x8f\xbf\xbf"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    cr_assert_eq(th_utf8_prefix(good[i], strlen(good[i])), strlen(good[i]));
  }
  static const char *const bad[] = {
      "\x80",     "\xc0\x80",         "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
      "\xe2\x82", "\xf4\x90\x80\x80", "\xff", "\xe2\x28\xa1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cr_assert_eq(th_utf8_prefix(bad[i], strlen(bad[i])), 0, "%zu", i);
  }
  cr_assert_eq(th_utf8_prefix("ab\xff", 3), 2);
}

Test(base, utf8_encodes_what_it_accepts) {
  for (uint32_t scalar = 1; scalar < 0x110000; scalar++) {
    char bytes[4];
    size_t size = th_utf8_encode(scalar, bytes);
    bool surrogate = scalar >= 0xd800 && scalar < 0xe000;
    cr_assert_eq(th_utf8_prefix(bytes, size), surrogate ? 0 : size);
  }
}

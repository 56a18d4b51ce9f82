// Texts, and doubles to and from text.
#include "base/buffer.h"

#include <criterion/criterion.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <string.h>

static th_unwind buffer_unwind;
static th_arena buffer_arena;

static void buffer_setup(void) { th_arena_init(&buffer_arena, &buffer_unwind); }

static void buffer_teardown(void) { th_arena_deinit(&buffer_arena); }

TestSuite(buffer, .init = buffer_setup, .fini = buffer_teardown);

Test(buffer, grows_by_pieces) {
  th_buffer text;
  th_buffer_init(&text, &buffer_arena);
  cr_assert_str_eq(text.data, "");
  for (int i = 0; i < 100; i++) {
    th_buffer_puts(&text, "abc");
    th_buffer_putc(&text, '-');
    th_buffer_printf(&text, "%03d", i);
    th_buffer_append(&text, "ignored", 0);
  }
  cr_assert_eq(text.size, 700);
  cr_assert_eq(strlen(text.data), 700);
  cr_assert_eq(memcmp(text.data + 693, "abc-099", 8), 0);
}

static const char *buffer_print(double value) {
  th_buffer text;
  th_buffer_init(&text, &buffer_arena);
  th_buffer_double(&text, value);
  return text.data;
}

static double buffer_read(const char *text, const char *want_rest) {
  const char *end;
  double value = th_parse_double(text, text + strlen(text), &end);
  cr_assert_str_eq(end, want_rest);
  return value;
}

Test(buffer, doubles_print_shortest) {
  cr_assert_str_eq(buffer_print(0.0), "0.0");
  cr_assert_str_eq(buffer_print(-0.0), "-0.0");
  cr_assert_str_eq(buffer_print(1), "1.0");
  cr_assert_str_eq(buffer_print(0.1), "0.1");
  cr_assert_str_eq(buffer_print(1e22), "1e+22");
  cr_assert_str_eq(buffer_print(0.1 + 0.2), "0.30000000000000004");
  cr_assert_str_eq(buffer_print(5e-324), "5e-324");
  cr_assert_str_eq(buffer_print((double)0.1f), "0.10000000149011612");
  cr_assert_str_eq(buffer_print(INFINITY), "inf");
  cr_assert_str_eq(buffer_print(-INFINITY), "-inf");
  cr_assert_str_eq(buffer_print(-NAN), "nan");
}

static uint64_t buffer_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state ^ (*state >> 29);
}

Test(buffer, random_doubles_read_back) {
  uint64_t state = 1;
  for (int i = 0; i < 100000; i++) {
    uint64_t bits = buffer_random(&state);
    double value;
    memcpy(&value, &bits, sizeof value);
    if (isnan(value)) {
      continue;
    }
    double again = buffer_read(buffer_print(value), "");
    cr_assert_eq(memcmp(&again, &value, sizeof value), 0, "%a", value);
    if (i % 1000 == 0) {
      buffer_teardown();
      buffer_setup();
    }
  }
}

Test(buffer, reading_stops_where_the_number_does) {
  cr_assert_eq(buffer_read("12.5, 3", ", 3"), 12.5);
  cr_assert_eq(buffer_read(".5x", "x"), 0.5);
  cr_assert_eq(buffer_read("5.", ""), 5);
  cr_assert_eq(buffer_read("1e5", ""), 1e5);
  cr_assert_eq(buffer_read("1e", "e"), 1);
  cr_assert_eq(buffer_read("1e+", "e+"), 1);
  cr_assert_eq(buffer_read("-inf]", "]"), -INFINITY);
  cr_assert_eq(buffer_read("Infinity", ""), INFINITY);
  cr_assert(isnan(buffer_read("nan", "")));
  cr_assert(signbit(buffer_read("-0.0", "")));
  cr_assert_eq(buffer_read("", ""), 0);
  cr_assert_eq(buffer_read("x1", "x1"), 0);
  cr_assert_eq(buffer_read("-", "-"), 0);
  cr_assert_eq(buffer_read("-.e5", "-.e5"), 0);
  const char *text = "123456";
  const char *end;
  cr_assert_eq(th_parse_double(text, text + 3, &end), 123);
  cr_assert_eq(end, text + 3);
}

Test(buffer, long_and_absurd_numbers_are_read) {
  cr_assert_eq(buffer_read("1e400", ""), INFINITY);
  cr_assert_eq(buffer_read("1e-400", ""), 0);
  cr_assert_eq(buffer_read("0e999999999999999999999", ""), 0);
  cr_assert_eq(buffer_read("1e99999999999999999999999", ""), INFINITY);
  char text[4000];
  // 0.000...1 with 3000 zeros, times 10^3001
  memset(text, '0', sizeof text);
  text[1] = '.';
  strcpy(text + 3002, "1e3001");
  cr_assert_eq(buffer_read(text, ""), 1.0);
  // Half a unit above 1, and then a little: more than 17 digits decide.
  memset(text, '0', sizeof text);
  memcpy(text, "1.00000000000000011102230246251565404236316680908203125", 55);
  strcpy(text + 55, "");
  cr_assert_eq(buffer_read(text, ""), 1.0);
  text[55] = '0';
  strcpy(text + 2000, "1");
  cr_assert_eq(buffer_read(text, ""), 1.0 + DBL_EPSILON);
}

Test(buffer, the_locale_does_not_matter) {
  // Absent locales leave "C", and then this shows nothing; the CI image has
  // one.
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"};
  for (size_t i = 0; i < 3 && !setlocale(LC_ALL, names[i]); i++) {
  }
  cr_assert_str_eq(buffer_print(2.5), "2.5");
  cr_assert_eq(buffer_read("2.5", ""), 2.5);
}

// Text building, and doubles to and from text without the locale.
//
// A double prints with the fewest digits that read back to it: %.15g is right
// for every number that was written with up to 15 digits; else 16 or 17 are
// needed.  Below the normal range fewer digits may do, so all are tried.
// Reading normalises the digits first (a bounded number of them decides the
// result; what is beyond is one sticky digit), so any length of input is read
// with a buffer of fixed size.
#include "base/buffer.h"

#include "base/context.h"

#include <ctype.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

void th_buffer_init(th_buffer *buffer, th_arena *arena) {
  *buffer = (th_buffer){.arena = arena};
  buffer->cap = 64;
  buffer->data = th_arena_alloc(arena, buffer->cap);
}

// Room for `more` bytes and the closing NUL.
static void buffer_reserve(th_buffer *buffer, size_t more) {
  if (more < buffer->cap - buffer->size) {
    return;
  }
  size_t cap = buffer->cap;
  while (cap - buffer->size <= more && cap < SIZE_MAX / 4) {
    cap *= 2;
  }
  char *data = th_arena_alloc(buffer->arena, cap);
  memcpy(data, buffer->data, buffer->size);
  buffer->data = data;
  buffer->cap = cap;
}

void th_buffer_append(th_buffer *buffer, const char *bytes, size_t size) {
  if (size == 0) {
    return;
  }
  buffer_reserve(buffer, size);
  memcpy(buffer->data + buffer->size, bytes, size);
  buffer->size += size;
  buffer->data[buffer->size] = '\0';
}

void th_buffer_puts(th_buffer *buffer, const char *text) {
  th_buffer_append(buffer, text, strlen(text));
}

void th_buffer_putc(th_buffer *buffer, char c) {
  th_buffer_append(buffer, &c, 1);
}

void th_buffer_printf(th_buffer *buffer, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int length = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  TH_ASSERT(length >= 0);
  buffer_reserve(buffer, (size_t)length);
  va_start(args, fmt);
  vsnprintf(buffer->data + buffer->size, (size_t)length + 1, fmt, args);
  va_end(args);
  buffer->size += (size_t)length;
}

// The "C" locale for this thread until buffer_locale_end.  glibc and musl make
// it without allocating; (locale_t)0 leaves the thread's locale as it is.
static locale_t buffer_locale_begin(void) {
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  TH_ASSERT(c_locale);
  return uselocale(c_locale);
}

static void buffer_locale_end(locale_t before) {
  locale_t c_locale = uselocale(before);
  freelocale(c_locale);
}

void th_buffer_double(th_buffer *buffer, double value) {
  if (isnan(value)) {
    th_buffer_puts(buffer, "nan");
    return;
  }
  char text[40];
  locale_t before = buffer_locale_begin();
  int digits = fabs(value) < DBL_MIN ? 1 : 15;
  do {
    snprintf(text, sizeof text, "%.*g", digits, value);
  } while (digits++ < 17 && strtod(text, NULL) != value);
  buffer_locale_end(before);
  th_buffer_puts(buffer, text);
  if (!strpbrk(text, ".en")) {
    th_buffer_puts(buffer, ".0");
  }
}

// Beyond 768 significant digits only "is there more" matters for a double.
enum { BUFFER_DIGITS = 780 };

typedef struct buffer_number {
  char digits[BUFFER_DIGITS + 32]; // then 'e', exponent, NUL
  int count;
  int64_t exponent; // of the last digit kept
} buffer_number;

static void buffer_add_digit(buffer_number *number, char digit, bool fraction) {
  bool kept = number->count < BUFFER_DIGITS;
  if (kept && (digit != '0' || number->count > 0)) {
    number->digits[number->count++] = digit;
  } else if (!kept && digit != '0') {
    number->digits[BUFFER_DIGITS - 1] |= 1; // sticky: not an exact tie
  }
  number->exponent += (kept ? 0 : 1) - (fraction ? 1 : 0);
}

static bool buffer_is_digit(const char *at, const char *end) {
  return at < end && *at >= '0' && *at <= '9';
}

// Digits, a point, digits; where it stopped, or `at` when there is no digit.
static const char *buffer_scan_mantissa(buffer_number *number, const char *at,
                                        const char *end) {
  const char *start = at;
  bool any = false;
  for (; buffer_is_digit(at, end); at++, any = true) {
    buffer_add_digit(number, *at, false);
  }
  if (at < end && *at == '.') {
    for (at++; buffer_is_digit(at, end); at++, any = true) {
      buffer_add_digit(number, *at, true);
    }
  }
  return any ? at : start;
}

static const char *buffer_scan_exponent(buffer_number *number, const char *at,
                                        const char *end) {
  const char *start = at;
  if (at == end || (*at != 'e' && *at != 'E')) {
    return start;
  }
  at++;
  bool negative = at < end && *at == '-';
  at += at < end && (*at == '-' || *at == '+');
  if (!buffer_is_digit(at, end)) {
    return start;
  }
  int64_t exponent = 0;
  for (; buffer_is_digit(at, end); at++) {
    // Far beyond the range of a double for any text that fits in memory.
    exponent =
        exponent < INT64_MAX / 100 ? exponent * 10 + (*at - '0') : exponent;
  }
  number->exponent += negative ? -exponent : exponent;
  return at;
}

static const char *buffer_match_word(const char *at, const char *end,
                                     const char *word) {
  for (; *word; word++, at++) {
    if (at == end || (*at | 0x20) != *word) {
      return NULL;
    }
  }
  return at;
}

static double buffer_scan_special(const char *at, const char *end,
                                  const char **out_end) {
  static const struct {
    const char *word;
    double value;
  } specials[] = {{"infinity", INFINITY}, {"inf", INFINITY}, {"nan", NAN}};
  for (size_t i = 0; i < TH_COUNT(specials); i++) {
    const char *stop = buffer_match_word(at, end, specials[i].word);
    if (stop) {
      *out_end = stop;
      return specials[i].value;
    }
  }
  return 0;
}

double th_parse_double(const char *text, const char *end,
                       const char **out_end) {
  *out_end = text;
  const char *at = text;
  bool negative = at < end && *at == '-';
  at += at < end && (*at == '-' || *at == '+');
  buffer_number number = {.count = 0};
  const char *stop = buffer_scan_mantissa(&number, at, end);
  double value = 0;
  if (stop == at) {
    value = buffer_scan_special(at, end, out_end);
  } else {
    stop = buffer_scan_exponent(&number, stop, end);
    *out_end = stop;
    if (number.count > 0) {
      int64_t exponent = number.exponent < -100000  ? -100000
                         : number.exponent > 100000 ? 100000
                                                    : number.exponent;
      snprintf(number.digits + number.count, 32, "e%d", (int)exponent);
      // No point and no grouping is in the text, so the locale does not matter.
      value = strtod(number.digits, NULL);
    }
  }
  return negative ? -value : value;
}

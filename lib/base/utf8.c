// UTF-8 by the table of well-formed byte sequences (Unicode 15, table 3-7).
#include "base/utf8.h"

#include <stdbool.h>

// The length of a sequence by its first byte, and the bounds of its second.
typedef struct utf8_lead {
  size_t length; // 0: no sequence starts so
  unsigned char low, high;
} utf8_lead;

static utf8_lead utf8_lead_of(unsigned char byte) {
  if (byte < 0x80) {
    return (utf8_lead){1, 0, 0};
  }
  if (byte >= 0xc2 && byte <= 0xdf) {
    return (utf8_lead){2, 0x80, 0xbf};
  }
  if (byte >= 0xe0 && byte <= 0xef) {
    return (utf8_lead){3, byte == 0xe0 ? 0xa0 : 0x80,
                       byte == 0xed ? 0x9f : 0xbf};
  }
  if (byte >= 0xf0 && byte <= 0xf4) {
    return (utf8_lead){4, byte == 0xf0 ? 0x90 : 0x80,
                       byte == 0xf4 ? 0x8f : 0xbf};
  }
  return (utf8_lead){0, 0, 0};
}

static bool utf8_sequence(const unsigned char *at, size_t left,
                          size_t *out_length) {
  utf8_lead lead = utf8_lead_of(at[0]);
  *out_length = lead.length;
  if (lead.length == 0 || lead.length > left) {
    return false;
  }
  if (lead.length > 1 && (at[1] < lead.low || at[1] > lead.high)) {
    return false;
  }
  for (size_t i = 2; i < lead.length; i++) {
    if (at[i] < 0x80 || at[i] > 0xbf) {
      return false;
    }
  }
  return true;
}

size_t th_utf8_prefix(const char *text, size_t size) {
  size_t at = 0;
  size_t length = 0;
  while (at < size &&
         utf8_sequence((const unsigned char *)text + at, size - at, &length)) {
    at += length;
  }
  return at;
}

size_t th_utf8_encode(uint32_t scalar, char out_bytes[4]) {
  if (scalar < 0x80) {
    out_bytes[0] = (char)scalar;
    return 1;
  }
  size_t length = scalar < 0x800 ? 2 : scalar < 0x10000 ? 3 : 4;
  static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = length - 1; i > 0; i--) {
    out_bytes[i] = (char)(0x80 | (scalar & 0x3f));
    scalar >>= 6;
  }
  out_bytes[0] = (char)(leads[length] | scalar);
  return length;
}

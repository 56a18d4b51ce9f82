// A growing byte buffer for texts that are built piece by piece.
#ifndef TH_BASE_BUFFER_H
#define TH_BASE_BUFFER_H

#include "base/arena.h"

// In an arena; always NUL-terminated.  data is valid until the next append.
typedef struct th_buffer {
  th_arena *arena;
  char *data;
  size_t size, cap;
} th_buffer;

void th_buffer_init(th_buffer *buffer, th_arena *arena);
void th_buffer_append(th_buffer *buffer, const char *bytes, size_t size);
void th_buffer_puts(th_buffer *buffer, const char *text);
void th_buffer_putc(th_buffer *buffer, char c);
void th_buffer_printf(th_buffer *buffer, const char *fmt, ...) TH_PRINTF(2, 3);
// Shortest decimal that reads back to the same double, locale-independent;
// always with a '.', an 'e', "inf" or "nan" in it.
void th_buffer_double(th_buffer *buffer, double value);

// Locale-independent strtod on [text, end); *out_end is where it stopped.
double th_parse_double(const char *text, const char *end, const char **out_end);

#endif

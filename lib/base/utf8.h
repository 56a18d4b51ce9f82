// UTF-8, as Unicode 15 defines it: no overlong forms, no surrogates.
#ifndef TH_BASE_UTF8_H
#define TH_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

// The length of the longest well-formed prefix: `size` when all is well.
size_t th_utf8_prefix(const char *text, size_t size);

// Writes 1 to 4 bytes of a scalar value; returns how many.
size_t th_utf8_encode(uint32_t scalar, char out_bytes[4]);

#endif

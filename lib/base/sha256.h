// SHA-256 (FIPS 180-4), for the keys and checksums of caches.
#ifndef TH_BASE_SHA256_H
#define TH_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct th_sha256_state {
  uint32_t hash[8];
  uint64_t size; // bytes so far
  uint8_t block[64];
} th_sha256_state;

void th_sha256_init(th_sha256_state *state);
void th_sha256_update(th_sha256_state *state, const void *data, size_t size);
// The state must be initialised again before more is added.
void th_sha256_final(th_sha256_state *state, uint8_t out_digest[32]);

// All of the above at once.
void th_sha256(const void *data, size_t size, uint8_t out_digest[32]);

// 64 lower-case digits and a NUL.
void th_sha256_hex(const uint8_t digest[32], char out_text[65]);

#endif

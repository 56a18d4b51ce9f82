// SHA-256 as FIPS 180-4 writes it, one block at a time.
#include "base/sha256.h"

#include <string.h>

static const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t sha256_rotate(uint32_t x, int n) {
  return x >> n | x << (32 - n);
}

static uint32_t sha256_load(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 |
         at[3];
}

static void sha256_schedule(const uint8_t block[64], uint32_t w[64]) {
  for (int i = 0; i < 16; i++) {
    w[i] = sha256_load(block + (size_t)4 * i);
  }
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15];
    uint32_t b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] +
           (sha256_rotate(a, 7) ^ sha256_rotate(a, 18) ^ a >> 3) +
           (sha256_rotate(b, 17) ^ sha256_rotate(b, 19) ^ b >> 10);
  }
}

static void sha256_block(uint32_t hash[8], const uint8_t block[64]) {
  uint32_t w[64];
  uint32_t v[8];
  sha256_schedule(block, w);
  memcpy(v, hash, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t a = v[0];
    uint32_t e = v[4];
    uint32_t one =
        v[7] + sha256_constants[i] + w[i] +
        (sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25)) +
        ((e & v[5]) ^ (~e & v[6]));
    uint32_t two =
        (sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^ sha256_rotate(a, 22)) +
        ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += one;
    v[0] = one + two;
  }
  for (int i = 0; i < 8; i++) {
    hash[i] += v[i];
  }
}

void th_sha256_init(th_sha256_state *state) {
  *state = (th_sha256_state){.hash = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                      0xa54ff53a, 0x510e527f, 0x9b05688c,
                                      0x1f83d9ab, 0x5be0cd19}};
}

void th_sha256_update(th_sha256_state *state, const void *data, size_t size) {
  const uint8_t *at = data;
  while (size > 0) {
    size_t used = state->size % 64;
    if (used == 0 && size >= 64) {
      sha256_block(state->hash, at);
      state->size += 64;
      at += 64;
      size -= 64;
      continue;
    }
    size_t take = size < 64 - used ? size : 64 - used;
    memcpy(state->block + used, at, take);
    state->size += take;
    at += take;
    size -= take;
    if (used + take == 64) {
      sha256_block(state->hash, state->block);
    }
  }
}

void th_sha256_final(th_sha256_state *state, uint8_t out_digest[32]) {
  uint64_t bits = state->size * 8;
  uint8_t tail[72] = {0x80};
  size_t used = state->size % 64;
  size_t zeros = used < 56 ? 56 - used : 120 - used; // with the 0x80
  for (int i = 0; i < 8; i++) {
    tail[zeros + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
  }
  th_sha256_update(state, tail, zeros + 8);
  for (int i = 0; i < 32; i++) {
    out_digest[i] = (uint8_t)(state->hash[i / 4] >> (24 - 8 * (i % 4)));
  }
}

void th_sha256(const void *data, size_t size, uint8_t out_digest[32]) {
  th_sha256_state state;
  th_sha256_init(&state);
  th_sha256_update(&state, data, size);
  th_sha256_final(&state, out_digest);
}

void th_sha256_hex(const uint8_t digest[32], char out_text[65]) {
  for (int i = 0; i < 32; i++) {
    out_text[2 * i] = "0123456789abcdef"[digest[i] >> 4];
    out_text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
  }
  out_text[64] = '\0';
}

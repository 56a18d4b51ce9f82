// One step of an online softmax over a tile of scores, as a kernel of our own.
//
// Source: Milakov and Gimelshein, Online normalizer calculation for softmax,
// 2018; Dao et al., FlashAttention, 2022.
#ifndef TH_EXEC_FLASH_TILE_H
#define TH_EXEC_FLASH_TILE_H

#include "base/context.h"

enum { TH_FLASH_ROWS = 64, TH_FLASH_COLUMNS = 512 };

// The compiled step; one for each context, which keeps it.
typedef struct th_flash_tile th_flash_tile;
th_status th_flash_tile_get(th_context *ctx, const th_flash_tile **out_tile);

// Of one query block; rows of all are those of `scores`.
typedef struct th_flash_softmax {
  float *scores;  // [rows, columns], row-major
  float *weights; // out: exp(scores - highest), the same shape
  float *scale;   // out: [rows], what earlier sums and results are worth now
  float *highest, *sum;         // [rows]: so far; -inf and 0 at first
  float *new_highest, *new_sum; // out
} th_flash_softmax;

// rows <= TH_FLASH_ROWS, columns <= TH_FLASH_COLUMNS.  Any thread.
void th_flash_tile_run(const th_flash_tile *tile, const th_flash_softmax *at,
                       int64_t rows, int64_t columns);

#endif

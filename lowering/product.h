// Products in tiles: a reduction of a(m, k) * b(k, n), with anything computed
// from its result in the same kernel.
//
//   for each block of rows m and panel of columns n            (outer loop)
//     for each block of k
//       panel[k][n] = b, packed side by side
//       for each tile of a few rows: sums in registers, broadcast a * panel
//     the rest of the kernel over the block, reading the sums from a buffer
//
// n is the variable along which results lie side by side, so the operand that
// depends on it is b: the weights of `linear`, the image of a convolution.
// With few rows packing does not pay; then b is read where it is: dot products
// along k where that is its order, sums along n elsewhere.
#ifndef TH_LOWERING_PRODUCT_H
#define TH_LOWERING_PRODUCT_H

#include "lowering/nest.h"
#include "lowering/target.h"

typedef enum th_product_pack {
  TH_PRODUCT_ALONG_N, // b's neighbours are along n, or nowhere
  TH_PRODUCT_ALONG_K, // they are along k: transposed on the way
} th_product_pack;

typedef struct th_product {
  th_node *reduce; // NULL: no product in this kernel
  th_node *a, *b;
  int m, n;
  int line; // where columns are few: a panel is several of their lines, a
            // register each, along this variable; -1
  int k;    // the blocked variable of the sum
  th_var_set k_inner;    // variables of the sum inside one step of k
  th_var_set outer;      // all others (and line)
  th_dtype dtype;        // f32 or f64: of the sums
  const th_expr *a_step; // from one k to the next in memory; NULL: a is packed
  th_product_pack pack;
  uint32_t lanes;      // of one register
  uint32_t vectors;    // registers side by side: a panel is lanes * vectors
  uint32_t tile;       // rows in registers
  uint32_t block_rows; // rows between two packings
  uint32_t block_k;    // steps of k in a panel
  bool few, many;      // which forms are needed: few rows, many rows
} th_product;

// Finds out whether the kernel is one; `reduce` stays NULL when not.
void th_product_find(th_nest *n, const th_target *target,
                     th_product *out_product);

#endif

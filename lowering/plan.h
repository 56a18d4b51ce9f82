// Which loops a kernel has, and what runs in vector lanes.
//
// Stores of one phase share their outer loops.  Where something is reduced,
// the outer variables are those at which the reductions stand: each reduction
// runs inside them, and so does the rest of a row.
//
//   row      lanes run over the innermost variable of each inner loop
//            (softmax over the last dimension)
//   column   lanes run over an outer variable, and the inner loops are scalar
//            (sum over the first dimension; everything without reductions)
//
// The choice is made by strides: lanes should touch neighbours.
#ifndef TH_LOWERING_PLAN_H
#define TH_LOWERING_PLAN_H

#include "lowering/nest.h"
#include "lowering/product.h"

enum {
  TH_MAX_PHASES = 4,
  TH_MAX_VARIANTS = 4,
  TH_PLAN_TILE = 16, // steps of the tile variable
};

// One loop over lanes; several after one another cover a range.
typedef struct th_variant {
  uint32_t lanes;
  bool masked; // covers all that is left
} th_variant;

typedef struct th_phase {
  th_var_set outer;
  int lane; // of outer: column; -1: row
  th_variant variants[TH_MAX_VARIANTS];
  uint32_t variant_count;
} th_phase;

// A value that the reduction which first needs it stores, to be read again: it
// lies where a store will write or, when that goes past the caches, on the
// stack, which is the buffer behind the last one.
typedef struct th_keep {
  th_node *node; // NULL: none
  uint16_t buffer;
  const th_expr *offset;
  int64_t stack; // elements; 0: not there
} th_keep;

typedef struct th_plan {
  th_nest *nest;
  const th_target *target;
  th_phase phases[TH_MAX_PHASES];
  uint32_t phase_count;
  // The outer loop that threads share counts positions of phase 0's outer
  // variables, where the lane variable counts in chunks.
  int64_t chunk; // 0: no chunks
  int tile;      // a variable that is walked in short runs inside the chunk,
                 // since memory that lanes gather is side by side along it
  th_product product;
  th_keep keep;
} th_plan;

// Merges variables of the nest where nothing tells them apart, then chooses.
th_status th_plan_make(th_nest *n, const th_target *target, th_plan *out_plan);

// The best variable of a set to run in lanes for these nodes and stores; -1
// for an empty set.  out_score is higher for better strides.
// Where `walked` (the variables of reductions) is not empty, loads that vary
// with none of them do not weigh.
int th_plan_lane(const th_plan *p, th_var_set vars, th_node *const *roots,
                 uint32_t count, const th_expr *const *offsets,
                 th_var_set walked, int *out_score);

#endif

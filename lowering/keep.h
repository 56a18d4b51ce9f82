// A value of a row that costs much and is needed by a reduction and again by
// what is stored: exp(x - max) of softmax.  It is kept, in the memory of the
// result, between the two.
#ifndef TH_LOWERING_KEEP_H
#define TH_LOWERING_KEEP_H

#include "lowering/plan.h"

// Fills plan->keep and plan->keep_store; the node is NULL where nothing pays.
void th_keep_find(th_plan *plan);

#endif

// A value of a row that costs much and is needed by a reduction and again by
// what is stored: exp(x - max) of softmax.  It is kept between the two, in the
// memory of the result or on the stack.
#ifndef TH_LOWERING_KEEP_H
#define TH_LOWERING_KEEP_H

#include "lowering/plan.h"

// Fills plan->keep, where something pays.
void th_keep_find(th_plan *plan);

#endif

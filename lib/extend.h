// Transforms as passes.
#ifndef TH_EXTEND_H
#define TH_EXTEND_H

#include "passes/pass.h"
#include "thunder/transform.h"

// Runs p->transform.
th_status th_transform_run(th_pipeline *p, const th_trace *in, th_trace **out);

#endif

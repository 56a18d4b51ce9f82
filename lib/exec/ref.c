// `ref`: every primitive in plain C.  The oracle of the tests, and what runs
// where nothing better does.
#include "exec/ref.h"

static const th_claim ref_claims[] = {
#define CLAIM(op, run) {#op, NULL, th_ref_run_##run},
#include "exec/ref.def"
#undef CLAIM
};

const th_executor_options th_ref_executor = {
    .size = sizeof th_ref_executor,
    .name = "ref",
    .version = "1",
    .claims = ref_claims,
    .claim_count = TH_COUNT(ref_claims),
};

// `ref`: every primitive in plain C.  The oracle of the tests, and what runs
// where nothing better does.
#include "exec/ref.h"

#include "exec/program_impl.h"

static const th_run_fn ref_functions[TH_OP_COUNT] = {
#define CLAIM(op, run) [TH_OP_##op] = th_ref_run_##run,
#include "exec/ref.def"
#undef CLAIM
};

static th_status ref_run(th_run *run) {
  return ref_functions[run->stmt->op->op](run);
}

static const th_claim ref_claims[] = {
#define CLAIM(name, fn) {.op = #name, .run = ref_run},
#include "exec/ref.def"
#undef CLAIM
};

const th_executor_options th_ref_executor = {
    .size = sizeof th_ref_executor,
    .name = "ref",
    .version = "1",
    .claims = ref_claims,
    .claim_count = TH_COUNT(ref_claims),
    .claim_size = sizeof(th_claim),
};

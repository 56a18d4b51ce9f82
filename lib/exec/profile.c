// What steps take: summed by step where they end, read as rows.
#include "exec/program_impl.h"

#include "base/clock.h"

// ---- while calls run

// Outside of what is timed.
void th_profile_add(th_frame *call, uint32_t step, int64_t start) {
  int64_t took = th_clock_ns() - start;
  th_program *p = call->program;
  th_profile_step *s = &p->profile[step];
  th_work work = p->is_static
                     ? s->work
                     : th_work_of(p->steps[step].stmt, call->sizes->symbols);
  atomic_fetch_add(&s->nanoseconds, took - call->branch_ns);
  atomic_fetch_add(&s->calls, 1);
  atomic_fetch_add(&s->bytes, work.bytes);
  atomic_fetch_add(&s->flops, work.flops);
  call->steps_ns += took;
  call->branch_ns = 0;
}

// ---- before and after

void th_program_profile(th_program *p) {
  th_profile_step *steps =
      TH_NEW_ARRAY(&p->arena, th_profile_step, p->step_count + 1u);
  for (uint32_t i = 0; i < p->step_count; i++) {
    const th_step *step = &p->steps[i];
    steps[i].scope = th_work_scope(step->stmt, &p->arena);
    if (p->is_static) {
      steps[i].work = th_work_of(step->stmt, NULL);
    }
    for (int k = 0; step->kind == TH_STEP_COND && k < 2; k++) {
      th_program_profile(step->branches[k]);
    }
  }
  p->profile = steps;
}

void th_program_profile_reset(th_program *p) {
  for (uint32_t i = 0; p->profile && i < p->step_count; i++) {
    th_profile_step *s = &p->profile[i];
    atomic_store(&s->nanoseconds, 0);
    atomic_store(&s->calls, 0);
    atomic_store(&s->bytes, 0);
    atomic_store(&s->flops, 0);
    for (int k = 0; p->steps[i].kind == TH_STEP_COND && k < 2; k++) {
      th_program_profile_reset(p->steps[i].branches[k]);
    }
  }
}

static void profile_row(const th_program *p, uint32_t i, th_profile_row *out) {
  const th_stmt *stmt = p->steps[i].stmt;
  const th_profile_step *s = &p->profile[i];
  const char *nobody = stmt->op->traits & TH_CONTROL ? "program" : "window";
  *out = (th_profile_row){.size = out->size,
                          .stmt = stmt,
                          .name = stmt->label ? stmt->label : stmt->op->name,
                          .executor = stmt->executor ? stmt->executor : nobody,
                          .scope = s->scope,
                          .nanoseconds = atomic_load(&s->nanoseconds),
                          .calls = atomic_load(&s->calls),
                          .bytes = atomic_load(&s->bytes),
                          .flops = atomic_load(&s->flops)};
}

bool th_program_profile_row(const th_program *p, size_t *index,
                            th_profile_row *out) {
  for (uint32_t i = 0; p->profile && i < p->step_count; i++) {
    if ((*index)-- == 0) {
      profile_row(p, i, out);
      return true;
    }
    for (int k = 0; p->steps[i].kind == TH_STEP_COND && k < 2; k++) {
      if (th_program_profile_row(p->steps[i].branches[k], index, out)) {
        return true;
      }
    }
  }
  return false;
}

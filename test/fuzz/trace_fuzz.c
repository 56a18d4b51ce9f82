// Any bytes are refused with a diagnostic, or are a trace whose print reads
// back as the same trace.
#include "ir/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fuzz_job {
  th_context *ctx;
  th_ir *first, *second;
  const char *text;
  size_t size;
} fuzz_job;

static void fuzz_fail(const fuzz_job *job, const char *why, const char *text) {
  fprintf(stderr, "%s\n%s\n%s", why, th_diagnostics_all(job->ctx), text);
  abort();
}

static th_status fuzz_run(void *user) {
  fuzz_job *job = user;
  th_trace *trace = NULL, *again = NULL;
  if (th_trace_parse(job->first, "fuzz", job->text, job->size, &trace) !=
      TH_OK) {
    if (th_error_count(job->ctx) == 0) {
      fuzz_fail(job, "refused without a diagnostic", "");
    }
    return TH_OK;
  }
  th_buffer text, second;
  th_buffer_init(&text, &job->first->arena);
  th_trace_print(&text, trace, NULL);
  if (th_trace_parse(job->second, "again", text.data, text.size, &again) !=
      TH_OK) {
    fuzz_fail(job, "the print is refused", text.data);
  }
  th_buffer_init(&second, &job->second->arena);
  th_trace_print(&second, again, NULL);
  if (strcmp(text.data, second.data) != 0 || !th_trace_equal(trace, again)) {
    fuzz_fail(job, "the print is another trace", text.data);
  }
  return TH_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  th_context *ctx = th_context_new();
  if (!ctx) {
    return 0;
  }
  fuzz_job job = {.ctx = ctx,
                  .first = th_ir_new(ctx),
                  .second = th_ir_new(ctx),
                  .text = (const char *)data,
                  .size = size};
  if (job.first && job.second) {
    (void)th_protect(&ctx->unwind, fuzz_run, &job);
  }
  th_ir_release(job.first);
  th_ir_release(job.second);
  th_context_free(ctx);
  return 0;
}

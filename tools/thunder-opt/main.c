// thunder-opt: reads a trace, runs passes over it, prints it.
#include "opt.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

typedef struct main_job {
  th_context *ctx;
  const opt_options *options;
  const opt_part *part; // NULL: an archive
  FILE *out;
} main_job;

static th_status main_run(void *user) {
  main_job *job = user;
  return job->part ? opt_run_part(job->ctx, job->options, job->part, job->out)
                   : opt_run_archive(job->ctx, job->options, job->out);
}

typedef struct main_check {
  main_job job;
  bool ok;
} main_check;

static th_status main_check_diagnostics(void *user) {
  main_check *check = user;
  check->ok = opt_check_diagnostics(check->job.ctx, check->job.part);
  return TH_OK;
}

// A context for each part, so that nothing of one is seen by the next.
static bool main_part(const opt_options *options, const opt_part *part,
                      FILE *out) {
  th_context *ctx = th_context_new();
  if (!ctx) {
    fprintf(stderr, "thunder-opt: out of memory\n");
    return false;
  }
  main_check check = {{ctx, options, part, out}, false};
  th_status status = th_protect(&ctx->unwind, main_run, &check.job);
  if (part && options->verify_diagnostics) {
    (void)th_protect(&ctx->unwind, main_check_diagnostics, &check);
  } else {
    check.ok = status == TH_OK;
    fputs(th_diagnostics_all(ctx), stderr);
    if (status != TH_OK && th_diagnostic_count(ctx) == 0) {
      fprintf(stderr, "thunder-opt: %s\n", th_status_text(status));
    }
  }
  th_context_free(ctx);
  return check.ok;
}

// The next line that is "# -----", from `at` on; NULL: none.
static const char *main_separator(const char *at, const char *end) {
  static const char separator[] = "# -----";
  size_t n = strlen(separator);
  while (at < end) {
    if ((size_t)(end - at) >= n && memcmp(at, separator, n) == 0) {
      return at;
    }
    at = memchr(at, '\n', (size_t)(end - at));
    if (!at) {
      return NULL;
    }
    at++;
  }
  return NULL;
}

static bool main_parts(const opt_options *options, const th_file *file,
                       FILE *out) {
  const char *at = file->data, *end = file->data + file->size;
  opt_part part = {.name = strcmp(options->input, "-") == 0 ? "<stdin>"
                                                            : options->input,
                   .first_line = 1};
  bool ok = true;
  for (bool more = true; more;) {
    const char *stop = options->split_input ? main_separator(at, end) : NULL;
    more = stop != NULL;
    part.text = at;
    part.size = (size_t)((more ? stop : end) - at);
    ok = main_part(options, &part, out) && ok;
    for (; more && at < stop; at++) {
      part.first_line += *at == '\n';
    }
    if (more) {
      fputs("# -----\n", out);
      const char *newline = memchr(stop, '\n', (size_t)(end - stop));
      at = newline ? newline + 1 : end;
      part.first_line += newline != NULL;
    }
  }
  return ok;
}

static bool main_is_archive(const th_file *file) {
  return file->size >= 4 && memcmp(file->data, "PK\3\4", 4) == 0;
}

static bool main_input(th_context *ctx, const opt_options *options, FILE *out) {
  bool is_stdin = strcmp(options->input, "-") == 0;
  th_file file = {0};
  if (th_file_map(ctx, is_stdin ? "/dev/stdin" : options->input, &file) !=
      TH_OK) {
    fputs(th_diagnostics_all(ctx), stderr);
    return false;
  }
  bool is_archive = main_is_archive(&file);
  bool ok = is_archive || main_parts(options, &file, out);
  th_file_unmap(&file);
  return is_archive ? main_part(options, NULL, out) : ok;
}

static bool main_list(th_context *ctx, const opt_options *options) {
  if (options->list_passes) {
    opt_list_passes(stdout);
  }
  if (options->list_ops) {
    opt_list_ops(ctx, stdout);
  }
  if (options->list_executors) {
    opt_list_executors(ctx, stdout);
  }
  return options->list_passes || options->list_ops || options->list_executors;
}

static bool main_to_stdout(th_context *ctx, const opt_options *options) {
  bool ok = main_input(ctx, options, stdout);
  if (fflush(stdout) != 0) {
    fprintf(stderr, "thunder-opt: cannot write the output\n");
    return false;
  }
  return ok;
}

// All at once, at the end: the output may be the input, and what goes wrong
// leaves the old file.
static bool main_to_file(th_context *ctx, const opt_options *options) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  bool ok = out && main_input(ctx, options, out);
  bool written = out && fclose(out) == 0;
  if (!written) {
    fprintf(stderr, "thunder-opt: out of memory\n");
  } else if (ok && th_file_write(ctx, options->output, text, size) != TH_OK) {
    fputs(th_diagnostics_all(ctx), stderr);
    ok = false;
  }
  free(text);
  return ok && written;
}

static bool main_work(th_context *ctx, const opt_options *options) {
  if (main_list(ctx, options)) {
    return true;
  }
  return options->output ? main_to_file(ctx, options)
                         : main_to_stdout(ctx, options);
}

int main(int argc, char **argv) {
  opt_options options;
  int status = OPT_OK;
  if (!opt_read_options(argc, argv, &options, &status)) {
    return status;
  }
  th_context *ctx = th_context_new();
  if (!ctx) {
    fprintf(stderr, "thunder-opt: out of memory\n");
    return OPT_FAILED;
  }
  status = main_work(ctx, &options) ? OPT_OK : OPT_FAILED;
  th_context_free(ctx);
  return status;
}

// Options of the command line.
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { EXIT_USAGE = 2, FIRST_FLAG = 256 };

static const char usage[] =
    "usage: thunder-run MODEL.pt2 [options]\n"
    "       thunder-run TRACE.trace [options]\n"
    "Compiles and runs a model, or a trace, and prints its outputs.  Without\n"
    "--inputs, --random and --cases the inputs are those that the model was\n"
    "exported with, else random ones.\n"
    "\n"
    "  --model PROGRAM          a program of the archive (default: the only\n"
    "                           one, else train_ir, else the first)\n"
    "  --inputs F.safetensors   inputs by position (in.0, 0) or name\n"
    "  --sample-inputs          the inputs that the model was exported with\n"
    "  --random SEED            random inputs\n"
    "  --outputs F.safetensors  write the outputs (out.0, ...)\n"
    "  --cases F.safetensors    run recorded cases and compare\n"
    "  --trace F.trace          run this trace, as printed, with the weights\n"
    "                           of the archive\n"
    "  --claims                 print who runs what\n"
    "  --weights F.safetensors  replace weights by qualified name\n"
    "  --weight-dtype DTYPE     f32, bf16 or i8: what weights of linear "
    "layers\n"
    "                           become when they are loaded\n"
    "  --random-weights SEED    fill weights that the archive leaves out\n"
    "  --executors LIST         who may run what (default:\n"
    "                           gemv,onednn,flash,host,ref)\n"
    "  --passes LIST            passes instead of the whole pipeline\n"
    "  --threads N              threads of a call\n"
    "  --time N                 time N calls\n"
    "  --compile-only           compile, read no weights, print the times\n"
    "  --profile[=step]         time calls and print a table by step: time,\n"
    "                           bytes, flops, share of the machine's limit\n"
    "  --profile=module[:DEPTH] the same summed by module path, or by its\n"
    "                           first DEPTH names\n"
    "  --dump-traces DIR        write every trace to DIR\n"
    "  --print-trace            print the final trace\n"
    "  --verify-each            check every trace\n"
    "  --roundtrip-each         read every trace back and compare\n"
    "  --no-cache               leave the object cache on disk alone\n"
    "  --quiet                  print results only\n"
    "  --version, --help\n";

typedef enum options_kind {
  OPTION_TEXT,   // const char *
  OPTION_SET,    // bool
  OPTION_NUMBER, // int64_t
  OPTION_SEED,   // uint64_t; `given` says that there is one
  OPTION_PROFILE,
  OPTION_VERSION,
  OPTION_HELP,
} options_kind;

#define AT(field) offsetof(run_options, field)

static const struct {
  const char *name;
  options_kind kind;
  size_t at, given; // offsets in run_options
} options_rows[] = {
    {"model", OPTION_TEXT, AT(program), 0},
    {"inputs", OPTION_TEXT, AT(inputs), 0},
    {"sample-inputs", OPTION_SET, AT(sample_inputs), 0},
    {"random", OPTION_SEED, AT(seed), AT(random_inputs)},
    {"outputs", OPTION_TEXT, AT(outputs), 0},
    {"cases", OPTION_TEXT, AT(cases), 0},
    {"trace", OPTION_TEXT, AT(trace), 0},
    {"claims", OPTION_SET, AT(claims), 0},
    {"weights", OPTION_TEXT, AT(weights), 0},
    {"random-weights", OPTION_SEED, AT(weight_seed), AT(random_weights)},
    {"executors", OPTION_TEXT, AT(jit.executors), 0},
    {"weight-dtype", OPTION_TEXT, AT(jit.weights), 0},
    {"passes", OPTION_TEXT, AT(jit.passes), 0},
    {"threads", OPTION_NUMBER, AT(threads), 0},
    {"time", OPTION_NUMBER, AT(time), 0},
    {"compile-only", OPTION_SET, AT(jit.compile_only), 0},
    {"profile", OPTION_PROFILE, 0, 0},
    {"dump-traces", OPTION_TEXT, AT(jit.dump_traces), 0},
    {"print-trace", OPTION_SET, AT(print_trace), 0},
    {"verify-each", OPTION_SET, AT(jit.verify_each), 0},
    {"roundtrip-each", OPTION_SET, AT(jit.roundtrip_each), 0},
    {"no-cache", OPTION_SET, AT(jit.no_cache), 0},
    {"quiet", OPTION_SET, AT(quiet), 0},
    {"version", OPTION_VERSION, 0, 0},
    {"help", OPTION_HELP, 0, 0},
};

enum { ROWS = sizeof options_rows / sizeof *options_rows };

static _Noreturn void options_fail(const char *problem) {
  fprintf(stderr, "thunder-run: %s\n%s", problem, usage);
  exit(EXIT_USAGE);
}

static int64_t options_number(const char *text, const char *name) {
  char *end = NULL;
  errno = 0;
  int64_t value = strtoll(text, &end, 10);
  if (*text == 0 || *end != 0 || value < 0 || errno) {
    fprintf(stderr, "thunder-run: --%s takes a number, not '%s'\n", name, text);
    exit(EXIT_USAGE);
  }
  return value;
}

// step, module, module:2; NULL: step.
static void options_profile(run_options *o, const char *value) {
  static const char module[] = "module";
  size_t n = sizeof module - 1;
  o->jit.profile = true;
  o->profile_modules = value && strncmp(value, module, n) == 0;
  const char *rest = o->profile_modules ? value + n : "";
  o->profile_depth = *rest == ':' ? options_number(rest + 1, "profile") : 0;
  if ((*rest && *rest != ':') ||
      (value && !o->profile_modules && strcmp(value, "step") != 0)) {
    fprintf(stderr,
            "thunder-run: --profile takes step, module or module:DEPTH, not "
            "'%s'\n",
            value);
    exit(EXIT_USAGE);
  }
}

static void options_take(run_options *o, size_t row, const char *value) {
  char *at = (char *)o + options_rows[row].at;
  switch (options_rows[row].kind) {
  case OPTION_TEXT:
    *(const char **)(void *)at = value;
    break;
  case OPTION_SET:
    *(bool *)at = true;
    break;
  case OPTION_NUMBER:
    *(int64_t *)(void *)at = options_number(value, options_rows[row].name);
    break;
  case OPTION_SEED:
    *(uint64_t *)(void *)at =
        (uint64_t)options_number(value, options_rows[row].name);
    *(bool *)((char *)o + options_rows[row].given) = true;
    break;
  case OPTION_PROFILE:
    options_profile(o, value);
    break;
  case OPTION_VERSION:
    printf("thunder-run %s\n", th_version());
    exit(0);
  case OPTION_HELP:
    fputs(usage, stdout);
    exit(0);
  }
}

static void options_parse(int argc, char **argv, run_options *o) {
  struct option flags[ROWS + 1] = {0};
  for (int i = 0; i < ROWS; i++) {
    options_kind kind = options_rows[i].kind;
    bool alone = kind == OPTION_SET || kind >= OPTION_VERSION;
    int takes = alone                    ? no_argument
                : kind == OPTION_PROFILE ? optional_argument
                                         : required_argument;
    flags[i] =
        (struct option){options_rows[i].name, takes, NULL, FIRST_FLAG + i};
  }
  int flag = 0;
  while ((flag = getopt_long(argc, argv, "", flags, NULL)) >= 0) {
    if (flag < FIRST_FLAG) { // getopt has said why
      fputs(usage, stderr);
      exit(EXIT_USAGE);
    }
    options_take(o, (size_t)(flag - FIRST_FLAG), optarg);
  }
}

// A trace is told from an archive (a zip file) by its name, else by how it
// begins.
static bool options_is_text(const char *path) {
  const char *dot = strrchr(path, '.');
  if (dot && (strcmp(dot, ".trace") == 0 || strcmp(dot, ".pt2") == 0)) {
    return strcmp(dot, ".trace") == 0;
  }
  char head[2] = {0};
  struct stat info;
  bool is_file = stat(path, &info) == 0 && S_ISREG(info.st_mode);
  FILE *f = is_file ? fopen(path, "rb") : NULL; // a pipe would lose its head
  size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (f) {
    fclose(f);
  }
  return n && memcmp(head, "PK", sizeof head) != 0;
}

void run_read_options(int argc, char **argv, run_options *o) {
  options_parse(argc, argv, o);
  if (optind + 1 != argc) {
    options_fail(optind == argc ? "no model" : "more than one model");
  }
  if ((o->inputs != NULL) + o->sample_inputs + o->random_inputs +
          (o->cases != NULL) >
      1) {
    options_fail("--inputs, --sample-inputs, --random and --cases exclude each "
                 "other");
  }
  if (o->cases &&
      (o->outputs || o->time || o->jit.profile || o->jit.compile_only)) {
    options_fail("--cases goes with none of --outputs, --time, --profile and "
                 "--compile-only");
  }
  o->model = argv[optind];
  o->is_text = options_is_text(o->model);
  if (o->is_text && (o->cases || o->sample_inputs || o->trace || o->program ||
                     o->weights || o->random_weights)) {
    options_fail("--cases, --sample-inputs, --trace, --model, --weights and "
                 "--random-weights need an archive");
  }
  if (o->threads > INT_MAX) {
    options_fail("--threads takes a smaller number");
  }
  o->jit.threads = (int)o->threads;
}

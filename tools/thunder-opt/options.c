// The command line of thunder-opt.
#include "opt.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char options_usage[] =
    "usage: thunder-opt [option]... INPUT\n"
    "Reads a trace (text, or a .pt2 archive; - is standard input), runs "
    "passes\n"
    "over it and prints it.\n"
    "\n"
    "  --passes=LIST          passes to run, in this order: dce,cse; the word\n"
    "                         'default' is the whole pipeline; without the\n"
    "                         option none runs\n"
    "  --print-after[=LIST]   print the trace after these passes (all) on "
    "stderr\n"
    "  --print-after-all      the same as --print-after\n"
    "  --print-changed        print it after passes that changed it\n"
    "  --verify-each          verify after each pass\n"
    "  --roundtrip-each       print and read back after each pass\n"
    "  --time-passes          how long each pass took, on stderr\n"
    "  --fuel=N               let at most N statements join the region of the\n"
    "                         one before them, to bisect\n"
    "  --explain              why executors declined statements, on stderr\n"
    "  --executors=LIST       who may claim: gemv,onednn,flash,host,ref\n"
    "  --device=DEVICE        whose default executors are used: cpu\n"
    "  --extract=LABEL        go on with this region or kernel, as a\n"
    "                         trace of its own\n"
    "  --emit=trace|llvm|asm  what to print in the end: the trace, or the "
    "code\n"
    "                         of its kernels\n"
    "  --model=PROGRAM        which program of an archive\n"
    "  --split-input-file     the file holds traces between lines '# -----'\n"
    "  --verify-diagnostics   the file says which errors have to come:\n"
    "                         # expected-error@+1 {{text}}\n"
    "  --expand               show what composites mean under them\n"
    "  --no-locations         leave scopes and source lines out\n"
    "  --mask-times           print (took N ms) for every time\n"
    "  -o, --output=FILE      write there\n"
    "  --list-passes, --list-ops, --list-executors\n"
    "  --version, --help\n"
    "\n"
    "Exit status: 0 done, 1 bad input or a failed check, 2 wrong usage.\n";

enum {
  OPTION_PASSES = 256,
  OPTION_PRINT_AFTER,
  OPTION_PRINT_AFTER_ALL,
  OPTION_PRINT_CHANGED,
  OPTION_VERIFY_EACH,
  OPTION_ROUNDTRIP_EACH,
  OPTION_TIME_PASSES,
  OPTION_FUEL,
  OPTION_EXPLAIN,
  OPTION_EXECUTORS,
  OPTION_DEVICE,
  OPTION_EXTRACT,
  OPTION_EMIT,
  OPTION_MODEL,
  OPTION_SPLIT,
  OPTION_DIAGNOSTICS,
  OPTION_EXPAND,
  OPTION_NO_LOCATIONS,
  OPTION_MASK_TIMES,
  OPTION_LIST_PASSES,
  OPTION_LIST_OPS,
  OPTION_LIST_EXECUTORS,
  OPTION_VERSION,
  OPTION_HELP,
};

static const struct option options_long[] = {
    {"passes", required_argument, NULL, OPTION_PASSES},
    {"print-after", optional_argument, NULL, OPTION_PRINT_AFTER},
    {"print-after-all", no_argument, NULL, OPTION_PRINT_AFTER_ALL},
    {"print-changed", no_argument, NULL, OPTION_PRINT_CHANGED},
    {"verify-each", no_argument, NULL, OPTION_VERIFY_EACH},
    {"roundtrip-each", no_argument, NULL, OPTION_ROUNDTRIP_EACH},
    {"time-passes", no_argument, NULL, OPTION_TIME_PASSES},
    {"fuel", required_argument, NULL, OPTION_FUEL},
    {"explain", no_argument, NULL, OPTION_EXPLAIN},
    {"executors", required_argument, NULL, OPTION_EXECUTORS},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"extract", required_argument, NULL, OPTION_EXTRACT},
    {"emit", required_argument, NULL, OPTION_EMIT},
    {"model", required_argument, NULL, OPTION_MODEL},
    {"split-input-file", no_argument, NULL, OPTION_SPLIT},
    {"verify-diagnostics", no_argument, NULL, OPTION_DIAGNOSTICS},
    {"expand", no_argument, NULL, OPTION_EXPAND},
    {"no-locations", no_argument, NULL, OPTION_NO_LOCATIONS},
    {"mask-times", no_argument, NULL, OPTION_MASK_TIMES},
    {"output", required_argument, NULL, 'o'},
    {"list-passes", no_argument, NULL, OPTION_LIST_PASSES},
    {"list-ops", no_argument, NULL, OPTION_LIST_OPS},
    {"list-executors", no_argument, NULL, OPTION_LIST_EXECUTORS},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

// Says what an option takes when `is_good` is false; returns it.
static bool options_told(bool is_good, const char *option, const char *value,
                         const char *wanted) {
  if (!is_good) {
    fprintf(stderr, "thunder-opt: %s takes %s, not '%s'\n", option, wanted,
            value);
  }
  return is_good;
}

static bool options_fuel(const char *text, int64_t *out_fuel) {
  char *end = NULL;
  long long fuel = strtoll(text, &end, 10);
  *out_fuel = fuel;
  return options_told(*text && !*end && fuel >= 0, "--fuel", text,
                      "a number that is not negative");
}

static bool options_emit(const char *text, opt_emit *out_emit) {
  static const char *const names[] = {
      [OPT_TRACE] = "trace", [OPT_LLVM] = "llvm", [OPT_ASM] = "asm"};
  for (size_t i = 0; i < TH_COUNT(names); i++) {
    if (strcmp(names[i], text) == 0) {
      *out_emit = (opt_emit)i;
      return true;
    }
  }
  return options_told(false, "--emit", text, "trace, llvm or asm");
}

// A list of names of passes; "default" is none here.
static bool options_passes(const char *list, bool with_default) {
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ",");
    bool is_default =
        with_default && n == strlen("default") && memcmp(at, "default", n) == 0;
    if (n && !is_default && !th_pass_find(at, n)) {
      fprintf(stderr,
              "thunder-opt: there is no pass '%.*s'; --list-passes names "
              "them\n",
              (int)n, at);
      return false;
    }
    at += n + (at[n] == ',');
  }
  return true;
}

// Options that are on or off.
static bool options_flag(opt_options *o, int option) {
  switch (option) {
  case OPTION_PRINT_AFTER_ALL:
    o->print_after = "";
    return true;
  case OPTION_PRINT_CHANGED:
    o->print_changed = true;
    return true;
  case OPTION_VERIFY_EACH:
    o->verify_each = true;
    return true;
  case OPTION_ROUNDTRIP_EACH:
    o->roundtrip_each = true;
    return true;
  case OPTION_TIME_PASSES:
    o->time_passes = true;
    return true;
  case OPTION_EXPLAIN:
    o->explain = true;
    return true;
  case OPTION_SPLIT:
    o->split_input = true;
    return true;
  case OPTION_DIAGNOSTICS:
    o->verify_diagnostics = true;
    return true;
  case OPTION_EXPAND:
    o->print.expand = true;
    return true;
  case OPTION_NO_LOCATIONS:
    o->print.no_locations = true;
    return true;
  case OPTION_MASK_TIMES:
    o->print.mask_time = true;
    return true;
  case OPTION_LIST_PASSES:
    o->list_passes = true;
    return true;
  case OPTION_LIST_OPS:
    o->list_ops = true;
    return true;
  case OPTION_LIST_EXECUTORS:
    o->list_executors = true;
    return true;
  default:
    return false;
  }
}

// Options with a value; false: the value is wrong.
static bool options_value(opt_options *o, int option, const char *value) {
  switch (option) {
  case OPTION_PASSES:
    o->passes = value;
    return options_passes(value, true);
  case OPTION_PRINT_AFTER:
    o->print_after = value ? value : "";
    return options_passes(o->print_after, false);
  case OPTION_FUEL:
    return options_fuel(value, &o->fuel);
  case OPTION_EXECUTORS:
    o->executors = value;
    return true;
  case OPTION_DEVICE:
    return options_told(th_device_parse(value, &o->device) &&
                            th_executor_default(o->device.type),
                        "--device", value, "a device with executors: cpu");
  case OPTION_EXTRACT:
    o->extract = value;
    return true;
  case OPTION_EMIT:
    return options_emit(value, &o->emit);
  case OPTION_MODEL:
    o->model = value;
    return true;
  case 'o':
    o->output = value;
    return true;
  default:
    return false;
  }
}

static bool options_ask(const char *text, int *out_status) {
  fputs(text, stdout);
  *out_status = OPT_OK;
  return false;
}

bool opt_read_options(int argc, char **argv, opt_options *o, int *out_status) {
  *o = (opt_options){.fuel = -1};
  *out_status = OPT_USAGE;
  int option = 0;
  while ((option = getopt_long(argc, argv, "o:", options_long, NULL)) != -1) {
    if (option == OPTION_HELP) {
      return options_ask(options_usage, out_status);
    }
    if (option == OPTION_VERSION) {
      printf("thunder-opt %s\n", th_version());
      return options_ask("", out_status);
    }
    if (option == '?') {
      return false; // getopt has said why
    }
    if (!options_flag(o, option) && !options_value(o, option, optarg)) {
      return false; // the readers of values have said why
    }
  }
  bool list = o->list_passes || o->list_ops || o->list_executors;
  if (argc - optind != (list ? 0 : 1)) {
    fprintf(stderr, list ? "thunder-opt: --list-* takes no input\n"
                         : "thunder-opt: give one input; --help says more\n");
    return false;
  }
  o->input = list ? NULL : argv[optind];
  return true;
}

// Measures figures, each in pairs with a reference: `bench [NAME...]`.
//
//   ours, reference, ours, reference, ...  the ratio of each pair, its median
//                                          and quartiles
//
// References are memcpy, C and oneDNN in this process, and with --peers other
// programs in a Python process.  A model without peers has its time alone.
#include "bench_figures.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, MOST_PAIRS = 1001, MOST_THREADS = 1024 };

typedef struct bench {
  const char *json, *compare, *peers; // options; NULL: not given
  int threads, pairs;                 // threads 0: one, then two
  char archives[4096], cpu[192], commit[64];
  FILE *out;
  bench_older *older;
  int compared, slower, failed;
} bench;

static const char usage[] =
    "usage: bench [NAME...] [options]\n"
    "Prints figures (all without a NAME) as ratios: the time of a reference "
    "by\n"
    "ours, above 1 where ours is faster, with the quartiles of the pairs.\n"
    "\n"
    "  --threads N      N threads on both sides (default: 1, then 2)\n"
    "  --pairs N        pairs of a figure (default 15)\n"
    "  --json F         append a line for each figure to F\n"
    "  --compare F      print what got slower since the lines in F; the exit\n"
    "                   status is 1 then\n"
    "  --peers PYTHON   measure against eager, compile, ort and openvino too,\n"
    "                   where PYTHON has them\n"
    "  --list           print the names\n"
    "  --help\n";

void bench_say(const char *format, ...) {
  char text[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  text[strcspn(text, "\n")] = 0; // the first of several diagnostics
  fflush(stdout);
  fprintf(stderr, "bench: %s\n", text);
}

// ---- measuring

// A sample is as many runs as take this long, and they follow one that does not
// count: what the other side left in the caches is gone then.
#define SAMPLE_SECONDS 0.02
// Our threads spin before they sleep, and another process waits for that; its
// own are stopped while we run.
#define GAP_MICROSECONDS 10000

// Runs in a sample; 0: it failed.  Compiles and warms up as it goes.
static int bench_calibrate(bench_side *side) {
  int count = 1;
  if (side->run(side->state, 1) < 0) {
    return 0;
  }
  for (;;) {
    double took = side->run(side->state, count);
    if (took < 0) {
      return 0;
    }
    if (took >= SAMPLE_SECONDS || count >= INT_MAX / 16) {
      return count;
    }
    double wanted = 1.2 * SAMPLE_SECONDS / (took > 1e-9 ? took : 1e-9) * count;
    count = wanted < 16.0 * count ? (int)wanted + 1 : 16 * count;
  }
}

// Milliseconds of one run; below 0: it failed.
static double bench_sample(bench_side *side, int count, bool apart) {
  if (apart) {
    usleep(GAP_MICROSECONDS);
  }
  if (count > 1 && side->run(side->state, 1) < 0) {
    return -1;
  }
  return side->run(side->state, count) * 1e3 / count;
}

// `reference` NULL: alone.
static bool bench_pairs(bench_side *ours, bench_side *reference, int pairs,
                        bench_result *r) {
  static double mine[MOST_PAIRS], other[MOST_PAIRS], ratios[MOST_PAIRS];
  bool apart = reference && reference->apart;
  int count = bench_calibrate(ours);
  int other_count = reference ? bench_calibrate(reference) : 1;
  for (int i = 0; i < pairs; i++) {
    mine[i] = count ? bench_sample(ours, count, apart) : -1;
    other[i] = other_count && reference
                   ? bench_sample(reference, other_count, apart)
                   : other_count - 1;
    if (mine[i] < 0 || other[i] < 0) {
      return false;
    }
    ratios[i] = other[i] / mine[i];
  }
  r->pairs = pairs;
  r->ours = bench_sort(mine, pairs);
  r->reference = reference ? reference->name : NULL;
  r->reference_ms = bench_sort(other, pairs).median;
  r->ratio = bench_sort(ratios, pairs);
  return true;
}

// ---- a figure

static void bench_print(const bench_result *r) {
  printf("%-14s %2d  %9.4g ms", r->name, r->threads, r->ours.median);
  if (r->reference) {
    printf("  %-8s %9.4g ms  %6.3f  (%.3f to %.3f, %d pairs)\n", r->reference,
           r->reference_ms, r->ratio.median, r->ratio.low, r->ratio.high,
           r->pairs);
  } else {
    printf("  alone  (%.4g to %.4g, %d runs)\n", r->ours.low, r->ours.high,
           r->pairs);
  }
  fflush(stdout);
}

static void bench_measure(bench *b, const bench_figure *figure, int threads,
                          bench_side *ours, bench_side *reference) {
  bench_result r = {.name = figure->name,
                    .threads = threads,
                    .cpu = b->cpu,
                    .commit = b->commit};
  if (!bench_pairs(ours, reference, b->pairs, &r)) {
    b->failed++;
    return;
  }
  bench_print(&r);
  if (b->out && !bench_write(b->out, &r)) {
    bench_say("%s: cannot be written", b->json);
    b->failed++;
  }
  bench_verdict verdict =
      b->older ? bench_older_compare(b->older, &r) : BENCH_NEW;
  b->compared += verdict != BENCH_NEW;
  b->slower += verdict == BENCH_SLOWER;
}

static void bench_threads(bench *b, const bench_figure *figure, int threads,
                          bench_peers *peers) {
  bench_side ours = {0}, reference = {0};
  int measured = 0;
  bench_set_threads(threads);
  if (!bench_ours(figure, b->archives, threads, &ours)) {
    b->failed++;
    return;
  }
  if (figure->reference && figure->reference(threads, &reference)) {
    bench_measure(b, figure, threads, &ours, &reference);
    bench_side_release(&reference);
    measured++;
  }
  for (int i = 0; peers && i < BENCH_PEERS; i++) {
    if (bench_peers_make(peers, i, threads, &reference)) {
      bench_measure(b, figure, threads, &ours, &reference);
      bench_side_release(&reference);
      measured++;
    }
  }
  if (!measured) {
    bench_measure(b, figure, threads, &ours, NULL);
  }
  bench_side_release(&ours);
}

// False: the Python does not start, nor will it for others.
static bool bench_one(bench *b, const bench_figure *figure) {
  bench_peers *peers = NULL;
  if (b->peers && !(peers = bench_peers_start(b->peers, figure->name))) {
    b->failed++;
    return false;
  }
  for (int threads = b->threads ? b->threads : 1;
       threads <= (b->threads ? b->threads : 2); threads++) {
    bench_threads(b, figure, threads, peers);
  }
  bench_peers_stop(peers);
  return true;
}

// Without names: all but models whose archives are not here.
static void bench_all_figures(bench *b) {
  bool go_on = true;
  for (size_t i = 0; i < bench_count && go_on; i++) {
    const bench_figure *figure = &bench_all[i];
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", b->archives,
             figure->archive ? figure->archive : "");
    if (figure->archive && access(path, R_OK)) {
      bench_say("%s is left out: there is no %s", figure->name, path);
    } else {
      go_on = bench_one(b, figure);
    }
  }
}

// ---- options

static int bench_number(const char *text, const char *name, int most) {
  char *end = NULL;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (*text == 0 || *end || value < 1 || value > most || errno) {
    fprintf(stderr, "bench: --%s takes a number from 1 to %d, not '%s'\n", name,
            most, text);
    exit(EXIT_USAGE);
  }
  return (int)value;
}

static void bench_check_names(char *const *names, int count) {
  for (int i = 0; i < count; i++) {
    const bench_figure *figure = bench_find(names[i]);
    if (!figure) {
      bench_say("no figure is named '%s'; --list has the names", names[i]);
      exit(EXIT_USAGE);
    }
    if (strcmp(figure->name, names[i]) != 0) {
      bench_say("'%s' is an old name: use '%s'", names[i], figure->name);
    }
  }
}

static void bench_options(bench *b, int argc, char **argv) {
  static const struct option flags[] = {
      {"threads", required_argument, NULL, 't'},
      {"pairs", required_argument, NULL, 'n'},
      {"json", required_argument, NULL, 'j'},
      {"compare", required_argument, NULL, 'c'},
      {"peers", required_argument, NULL, 'p'},
      {"list", no_argument, NULL, 'l'},
      {"help", no_argument, NULL, 'h'},
      {0}};
  for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) >= 0;) {
    switch (flag) {
    case 't':
      b->threads = bench_number(optarg, "threads", MOST_THREADS);
      break;
    case 'n':
      b->pairs = bench_number(optarg, "pairs", MOST_PAIRS);
      break;
    case 'j':
      b->json = optarg;
      break;
    case 'c':
      b->compare = optarg;
      break;
    case 'p':
      b->peers = optarg;
      break;
    case 'l':
      bench_print_names(stdout);
      exit(0);
    case 'h':
      fputs(usage, stdout);
      exit(0);
    default: // getopt has said why
      fputs(usage, stderr);
      exit(EXIT_USAGE);
    }
  }
  bench_check_names(argv + optind, argc - optind);
}

static void bench_surroundings(bench *b) {
  char *const argv[] = {"git",      "-C",      TH_BENCH_DIR,  "describe",
                        "--always", "--dirty", "--exclude=*", NULL};
  const char *conformance = getenv("TH_CONFORMANCE");
  snprintf(b->archives, sizeof b->archives, "%s/bench",
           conformance ? conformance
                       : TH_BENCH_DIR "/../../shared/conformance");
  bench_cpu_name(b->cpu, sizeof b->cpu);
  bench_first_line(argv, b->commit, sizeof b->commit);
}

static bool bench_files(bench *b) {
  if (b->compare && !(b->older = bench_older_read(b->compare))) {
    return false;
  }
  if (b->json && !(b->out = fopen(b->json, "a"))) {
    bench_say("%s: %s", b->json, strerror(errno));
    return false;
  }
  return true;
}

int main(int argc, char **argv) {
  static bench b = {.pairs = 15};
  bench_options(&b, argc, argv);
  bench_surroundings(&b);
  if (!bench_files(&b)) {
    bench_older_free(b.older);
    return EXIT_USAGE;
  }
  printf("cpu: %s, commit: %s\n", b.cpu, b.commit);
  printf("name     threads  ours          reference                ratio\n");
  for (int i = optind; i < argc; i++) {
    if (!bench_one(&b, bench_find(argv[i]))) {
      break;
    }
  }
  if (optind == argc) {
    bench_all_figures(&b);
  }
  if (b.older && !b.compared) {
    bench_say("%s has none of these figures on this CPU", b.compare);
  } else if (b.older) {
    printf("%d of %d figures got slower since %s\n", b.slower, b.compared,
           b.compare);
  }
  bench_older_free(b.older);
  if (b.out) {
    fclose(b.out);
  }
  return b.failed || b.slower;
}

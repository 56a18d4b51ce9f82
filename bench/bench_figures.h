// The program `bench`: its figures, what they are measured against, its lines.
//
// A figure is a name, a thread count and a reference.  Both sides run in turn;
// the ratio of each such pair is the reference's time by ours, above 1 where
// ours is the faster one.  Names, and the keys of a line of JSON, are an
// interface: what is renamed leaves a row among the aliases.
#ifndef THUNDER_BENCH_FIGURES_H
#define THUNDER_BENCH_FIGURES_H

#include "bench.h"

#include <thunder/thunder.h>

// One of the two things that are measured in turn.
typedef struct bench_side {
  const char *name;
  // Seconds that `count` runs took.  Below 0: one failed, and has said why.
  double (*run)(void *state, int count);
  void (*release)(void *state);
  void *state;
  bool apart; // in another process
} bench_side;

static inline void bench_side_release(bench_side *side) {
  if (side->release) {
    side->release(side->state);
  }
  *side = (bench_side){0};
}

enum { BENCH_INPUTS = 10 };

typedef struct bench_figure {
  const char *name, *what;
  const char *archive; // of a model; NULL: the text of a trace
  const char *trace;
  // What runs without a Python; NULL: nothing, the time stands alone.  False:
  // there is none here, and that was said.
  bool (*reference)(int threads, bench_side *out_side);
} bench_figure;

// ---- bench_figures.c

extern const bench_figure bench_all[];
extern const size_t bench_count;

// Aliases are followed; NULL: no such name.
const bench_figure *bench_find(const char *name);
void bench_print_names(FILE *out);

// Our side.  False: it cannot run, and that was said.  `archives`: a folder.
bool bench_ours(const bench_figure *figure, const char *archives, int threads,
                bench_side *out_side);

// ---- references that are called directly

bool bench_memcpy_rmsnorm(int threads, bench_side *out_side);
bool bench_memcpy_gelu(int threads, bench_side *out_side);
bool bench_plain_sum(int threads, bench_side *out_side);
bool bench_onednn_softmax(int threads, bench_side *out_side);
bool bench_onednn_layernorm(int threads, bench_side *out_side);
bool bench_onednn_attention(int threads, bench_side *out_side);

// What oneDNN, and copies that are spread over threads, take from here on.
void bench_set_threads(int threads);

// ---- bench_peers.c: a Python process that has the same work in other programs

typedef struct bench_peers bench_peers;

enum { BENCH_PEERS = 4 };
extern const char *const bench_peer_names[BENCH_PEERS];

// NULL: it does not start, and that was said.
bench_peers *bench_peers_start(const char *python, const char *figure);
void bench_peers_stop(bench_peers *peers);
// One peer, built and warmed up; the one before it is dropped.  False: it is
// not there, and that was said.
bool bench_peers_make(bench_peers *peers, int peer, int threads,
                      bench_side *out_side);

// The first line that a program prints, without its newline; "unknown" when
// there is none.
void bench_first_line(char *const *argv, char *buffer, size_t size);

// ---- bench_json.c

typedef struct bench_result {
  const char *name;
  int threads, pairs;
  bench_quartiles ours;  // ms
  const char *reference; // NULL: none, and neither of the next two
  double reference_ms;
  bench_quartiles ratio;
  const char *cpu, *commit;
} bench_result;

// False: it cannot be written.
bool bench_write(FILE *out, const bench_result *result);

typedef struct bench_older bench_older; // lines of an older run

// NULL: it cannot be read, and that was said.
bench_older *bench_older_read(const char *path);
void bench_older_free(bench_older *older);

typedef enum bench_verdict {
  BENCH_NEW, // no line for it on this CPU
  BENCH_KEPT,
  BENCH_SLOWER, // was printed
} bench_verdict;

// Against the newest line of the same name, threads, reference and CPU: slower
// where the quartiles of the two lie apart.
bench_verdict bench_older_compare(const bench_older *older,
                                  const bench_result *result);

// "bench: " and the text, to stderr.
void bench_say(const char *format, ...) TH_PRINTF(1, 2);

#endif

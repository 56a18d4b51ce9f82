// A Python process with the same work in other programs: bench/peers.py, which
// is asked a line at a time, so that pairs stay pairs.  Between its answers it
// is stopped: pools with nothing to do spin, some for tens of milliseconds, and
// would take our CPUs.
#include "bench_figures.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const bench_peer_names[BENCH_PEERS] = {"eager", "compile", "ort",
                                                   "openvino"};

struct bench_peers {
  const char *figure;
  const char *asked; // the peer that runs
  pid_t pid;
  FILE *to, *from;
  bool missing[BENCH_PEERS]; // asked for before, and said so
  char line[512];            // the last answer
};

// ---- a process with pipes

// Runs argv with its input from, and its output to, the pipes; 0: not at all.
// `quiet`: its errors go nowhere.
static pid_t process_start(char *const *argv, bool quiet, int *out_to,
                           int *out_from) {
  int to[2], from[2];
  if (pipe(to)) {
    return 0;
  }
  if (pipe(from)) {
    close(to[0]), close(to[1]);
    return 0;
  }
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a stopped one would stay
    int nowhere = quiet ? open("/dev/null", O_WRONLY) : -1;
    dup2(to[0], 0), dup2(from[1], 1);
    if (nowhere >= 0) {
      dup2(nowhere, 2);
    }
    close(to[0]), close(to[1]), close(from[0]), close(from[1]);
    execvp(argv[0], argv);
    _exit(127);
  }
  close(to[0]), close(from[1]);
  if (pid < 0) {
    close(to[1]), close(from[0]);
    return 0;
  }
  *out_to = to[1];
  *out_from = from[0];
  return pid;
}

static bool process_line(FILE *from, char *buffer, size_t size) {
  if (!from || !fgets(buffer, (int)size, from)) {
    return false;
  }
  buffer[strcspn(buffer, "\n")] = 0;
  return true;
}

void bench_first_line(char *const *argv, char *buffer, size_t size) {
  int to = -1, from = -1;
  pid_t pid = process_start(argv, true, &to, &from);
  snprintf(buffer, size, "unknown");
  if (pid) {
    close(to);
    FILE *f = fdopen(from, "r");
    if (!process_line(f, buffer, size) || !*buffer) {
      snprintf(buffer, size, "unknown");
    }
    if (f) {
      fclose(f);
    }
    waitpid(pid, NULL, 0);
  }
}

// ---- peers

// Sends a line and reads the answer; false: there is none.
static bool peers_ask(bench_peers *p, const char *line) {
  kill(p->pid, SIGCONT);
  bool ok = fputs(line, p->to) >= 0 && fflush(p->to) == 0 &&
            process_line(p->from, p->line, sizeof p->line);
  kill(p->pid, SIGSTOP);
  return ok;
}

bench_peers *bench_peers_start(const char *python, const char *figure) {
  char *argv[] = {(char *)(uintptr_t)python, TH_BENCH_DIR "/peers.py",
                  (char *)(uintptr_t)figure, NULL};
  bench_peers *p = calloc(1, sizeof *p);
  int to = -1, from = -1;
  if (!p) {
    bench_say("out of memory");
    return NULL;
  }
  signal(SIGPIPE, SIG_IGN);
  p->figure = figure;
  p->pid = process_start(argv, false, &to, &from);
  p->to = p->pid ? fdopen(to, "w") : NULL;
  p->from = p->pid ? fdopen(from, "r") : NULL;
  if (!p->to || !p->from || !peers_ask(p, "hello\n")) {
    bench_say("%s: %s does not run bench/peers.py", figure, python);
    bench_peers_stop(p);
    return NULL;
  }
  return p;
}

void bench_peers_stop(bench_peers *p) {
  if (p) {
    if (p->to) {
      fclose(p->to); // its input ends, and so does it
    }
    if (p->from) {
      fclose(p->from);
    }
    if (p->pid > 0) {
      kill(p->pid, SIGCONT);
      waitpid(p->pid, NULL, 0);
    }
    free(p);
  }
}

static double peers_run(void *state, int count) {
  bench_peers *p = state;
  char line[32], *end = p->line;
  snprintf(line, sizeof line, "run %d\n", count);
  bool answered = peers_ask(p, line);
  double nanoseconds = answered ? strtod(p->line, &end) : -1;
  if (!answered || end == p->line || *end || !(nanoseconds > 0)) {
    bench_say("%s: %s: %s", p->figure, p->asked,
              answered ? p->line : "the process ended");
    return -1;
  }
  return nanoseconds * 1e-9;
}

bool bench_peers_make(bench_peers *p, int peer, int threads,
                      bench_side *out_side) {
  char line[64];
  p->asked = bench_peer_names[peer];
  if (p->missing[peer]) {
    return false;
  }
  snprintf(line, sizeof line, "make %s %d\n", p->asked, threads);
  bool answered = peers_ask(p, line);
  if (!answered || strcmp(p->line, "ready") != 0) {
    bench_say("%s: %s: %s", p->figure, p->asked,
              answered ? p->line : "the process ended");
    p->missing[peer] = true;
    return false;
  }
  *out_side = (bench_side){p->asked, peers_run, NULL, p, true};
  return true;
}

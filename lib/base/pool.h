// Loops cut over threads, through libgomp: oneDNN uses its pool, and a second
// one beside it would fight for the same CPUs (18 times slower when measured).
//
// Cut: [0, n) falls into th_pool_chunks(threads, n, grain) chunks, all
// multiples of `grain` but the last, their sizes differing by at most one
// grain.  That depends on the three numbers alone, never on the load or on how
// many threads really came; a reduction that keeps one partial result for each
// chunk repeats bit for bit.
//
// A loop of one chunk runs in the caller and enters no pool.  A call from
// inside a loop that is spread over threads runs its chunks in order where it
// is, and so does one from inside an OpenMP region of the user's.
//
// Many calling threads: libgomp keeps a team for each of them.  They do not
// disturb each other, but k callers with t threads each are k * t threads: give
// each callable its share.
//
// fork: the child has the caller's thread only, and a team that was waiting in
// the parent does not exist there.  So the child runs all chunks itself, in
// order, with the same results, and OpenMP in it (oneDNN) is told to do
// likewise. A child that calls exec is not concerned.
//
// dlclose: the threads of a team wait inside libgomp, never in our code, so
// the library may be unloaded while no call is under way.
#ifndef TH_BASE_POOL_H
#define TH_BASE_POOL_H

#include <stdint.h>

// Covers [begin, end) of the loop.
typedef void (*th_pool_fn)(void *arg, int64_t begin, int64_t end);

// The number of threads to use: `wanted` where it is positive, else the first
// number of OMP_NUM_THREADS, else the CPUs that this process may run on.
int th_pool_threads(int wanted);

// How many chunks a loop falls into: at most `threads`, none of them smaller
// than `grain` but the last.  0 for an empty loop.
int th_pool_chunks(int threads, int64_t n, int64_t grain);
// The bounds of one of them.
void th_pool_chunk(int chunk, int chunks, int64_t n, int64_t grain,
                   int64_t *out_begin, int64_t *out_end);

// Calls fn for each chunk and returns when all are done.
void th_parallel(int threads, int64_t n, int64_t grain, th_pool_fn fn,
                 void *arg);

// How many threads a library that calls OpenMP itself takes from here on, when
// this thread calls it; returns what it was.
int th_pool_lend(int threads);

#endif

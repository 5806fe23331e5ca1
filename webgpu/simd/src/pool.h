// The threads that share a run: natively threads of the process, in WebAssembly instances of the module over one shared
// memory, each with a stack of its own.
//
// A large dispatch has more parts than there are threads. Whoever is free takes a share of what is left, and shares
// shrink. So nobody waits for a thread that sleeps, only for parts that were begun. Dispatches too small to share are
// computed by the thread that ended the one before; the others wait for it. The host may leave some threads out of a
// job: see crew.go.
#pragma once
#include <stddef.h>
#include "kernel.h"
#include "wait.h"

// A dispatch of a program.
typedef struct {
  ADDRESS(const dispatch, at);
} listed;

// What the host and the threads share. The host writes the job before it calls run.
typedef struct {
  // The job: dispatches [from, to) of a program, in at most `most` parts each, for the first `threads` threads. stride
  // is the bytes of a thread's scratch, max_waits the waits of a tenth of a second before a thread counts as dead.
  ADDRESS(const listed, program);
  ADDRESS(u8, scratch);
  u32 from, to, most;
  u32 stride;
  u32 max_waits;
  u32 threads;
  u32 running;   // the dispatch that is open or computed by one thread, or `to`
  u32 failed;    // a thread trapped: the others leave
  u32 ended;     // there are no more jobs
  u32 parts;     // of the open dispatch
  u32 sleepers;  // threads that wait rather than spin
  u32 crew;      // threads of the latest job; the others rest
  // What all threads write for each dispatch has cache lines of its own.
  _Alignas(64) u32 open;      // counts openings in steps of OPEN; the rest is the parts of the last that nobody took
  _Alignas(64) u32 computed;  // parts of the open dispatch
} pool;

// pool.go has these places too.
_Static_assert(offsetof(pool, running) == 4 * 10 && offsetof(pool, failed) == 4 * 11 && offsetof(pool, ended) == 4 * 12,
               "words that the host reads and writes");
_Static_assert(offsetof(pool, open) == 4 * 16 && sizeof(pool) == 4 * 48, "words of the pool");

#ifndef __wasm__
// What the host calls: see main.c.
u32 foretoken_kernel_name(u32, char *);
u32 foretoken_scratch_size(const dispatch *);
void foretoken_zero(u32 *, u32);
u32 foretoken_run_alone(pool *);
u32 foretoken_run(pool *);
void foretoken_work(pool *, u32);
#endif

// OPEN is more than the parts of a dispatch. OVER in place of the parts left: the job has ended.
enum { OPEN = 1024, OVER = OPEN - 1 };

static inline u32 left_of(u32 open) { return open % OPEN == OVER ? 0 : open % OPEN; }

// A thread takes SHARE/most of the parts that are left: with eight parts a thread, half of its equal share.
enum { SHARE = 4 };

// Whether two values of `open` are of one opening.
static inline int same(u32 a, u32 b) { return a / OPEN == b / OPEN; }

#define GET(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define SET(x, v) __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST)
#define ADD(x, v) __atomic_add_fetch(&(x), v, __ATOMIC_SEQ_CST)
#define SWAP(x, old, v) __atomic_compare_exchange_n(&(x), old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

static const i64 slice = 100000000;  // nanoseconds

// Waits until there is another opening than in `seen`: spins, then sleeps. 0: a thread failed, or does not answer. A
// thread without a job waits without limit.
static inline u32 await(pool *p, u32 seen, u32 limit) {
  for (u32 i = 0; i < SPINS; i++) {
    if (!same(GET(p->open), seen)) return 1;
    relax();
  }
  for (u32 waits = 0; same(GET(p->open), seen); waits++) {
    if (GET(p->failed) || GET(p->ended) || (limit && waits >= limit)) return 0;
    ADD(p->sleepers, 1);
    sleep_while(&p->open, seen, slice);
    ADD(p->sleepers, -1);
  }
  return 1;
}

// Has the threads of the job form the crew.
static inline void form_crew(pool *p) {
  if (p->threads == p->crew) return;
  SET(p->crew, p->threads);
  wake(&p->crew);
}

// Waits until thread `self` belongs to the crew. 0: a thread failed, or the pool ends.
static inline u32 rest(pool *p, u32 self) {
  for (u32 crew; (crew = GET(p->crew)) <= self;) {
    if (GET(p->failed) || GET(p->ended)) return 0;
    sleep_while(&p->crew, crew, slice);
  }
  return 1;
}

// Opens a dispatch of so many parts; or ends the job, with OVER.
static inline void open_parts(pool *p, u32 parts) {
  p->parts = parts;
  SET(p->computed, 0);
  SET(p->open, (GET(p->open) / OPEN + 1) * OPEN + parts);
  if (GET(p->sleepers)) wake(&p->open);
}

// The threads that share a run. Each is an instance of the module over one shared memory, with a stack of its own.
// The module for unshared memory has one thread, and the same code without the waiting.
#pragma once
#include "kernel.h"

// What the host and the threads share. The host writes the job before it calls run.
typedef struct {
  // The job: dispatches [from, to) of a program, in `parts` parts. stride is the bytes of a thread's scratch, max_waits
  // the waits of a tenth of a second before a thread counts as dead.
  const dispatch *const *program;
  u32 from, to, parts;
  u8 *scratch;
  u32 stride;
  u32 max_waits;
  u32 running;     // the dispatch that part 0 is in, for messages
  u32 generation;  // counts jobs, in steps of JOB; the rest is the parts of the last
  u32 arrived;     // threads at the barrier
  u32 phase;       // counts barriers
  u32 sleepers;    // threads that wait rather than spin
  u32 failed;      // a thread trapped: the others leave
  u32 ended;       // there are no more jobs
} pool;

// A thread that had no part in a job may look for the next while the host writes its words. So it reads the parts from
// `generation`, and other words only of a job that waits for it.
enum { JOB = 256 };

#ifdef __wasm_atomics__
#define GET(x) __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define SET(x, v) __atomic_store_n(&(x), v, __ATOMIC_SEQ_CST)
#define ADD(x, v) __atomic_add_fetch(&(x), v, __ATOMIC_SEQ_CST)

enum { spins = 20000 };  // some tens of microseconds: a dispatch of a small model, or the host's time between two runs
static const i64 slice = 100000000;  // nanoseconds

// Waits until *word is not `old`: spins, then sleeps. 0: a thread failed, or does not answer. A thread without a job
// waits without limit.
static inline u32 await(pool *p, u32 *word, u32 old, u32 limit) {
  for (u32 i = 0; i < spins; i++)
    if (GET(*word) != old) return 1;
  for (u32 waits = 0; GET(*word) == old; waits++) {
    if (GET(p->failed) || GET(p->ended) || (limit && waits >= limit)) return 0;
    ADD(p->sleepers, 1);
    __builtin_wasm_memory_atomic_wait32((int *)word, (int)old, slice);
    ADD(p->sleepers, -1);
  }
  return 1;
}

static inline void wake(pool *p, u32 *word) {
  if (GET(p->sleepers)) __builtin_wasm_memory_atomic_notify((int *)word, ~0u);
}

static inline void begin(pool *p) {
  if (p->parts < 2) return;
  SET(p->generation, p->generation / JOB * JOB + JOB + p->parts);
  wake(p, &p->generation);
}

// Waits for a job after the one with generation *seen, and writes its own there. 0: there are no more.
static inline u32 next(pool *p, u32 *seen) {
  if (!await(p, &p->generation, *seen, 0)) return 0;
  *seen = GET(p->generation);
  return !GET(p->ended);
}

static inline u32 barrier(pool *p, u32 parts, u32 max_waits) {
  if (parts < 2) return 1;
  u32 phase = GET(p->phase);
  if (ADD(p->arrived, 1) < parts) return await(p, &p->phase, phase, max_waits);
  SET(p->arrived, 0);
  ADD(p->phase, 1);
  wake(p, &p->phase);
  return 1;
}
#else
static inline void begin(pool *p) { (void)p; }
static inline u32 next(pool *p, u32 *seen) {
  (void)p, (void)seen;
  return 0;
}
static inline u32 barrier(pool *p, u32 parts, u32 max_waits) {
  (void)p, (void)parts, (void)max_waits;
  return 1;
}
#endif

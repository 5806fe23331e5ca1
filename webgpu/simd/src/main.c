// The table of kernels, and the loop over the dispatches of a program.
#include "kernel.h"
#include "pool.h"

#define KERNEL(name) void name(const dispatch *, const thread *);
#define KERNEL_SCRATCH(name) KERNEL(name) u32 name##_scratch(const dispatch *);
#include "kernels.h"
#undef KERNEL
#undef KERNEL_SCRATCH

#define KERNEL(name) {#name, name, 0},
#define KERNEL_SCRATCH(name) {#name, name, name##_scratch},
static const kernel kernels[] = {
#include "kernels.h"
};
static const u32 count = sizeof kernels / sizeof *kernels;

#define EXPORT(name) __attribute__((export_name(#name))) name

// The name of a kernel by its number, or 0 past the last.
const char *EXPORT(kernel_name)(u32 i) { return i < count ? kernels[i].name : 0; }

// Where buffers may begin.
extern u8 __heap_base;
u8 *EXPORT(heap_base)(void) { return &__heap_base; }

// The bytes of scratch that each thread needs for a dispatch.
u32 EXPORT(scratch_size)(const dispatch *d) {
  u32 (*scratch)(const dispatch *) = kernels[d->kernel].scratch;
  return scratch ? scratch(d) : 0;
}

void narrow_only(void);
void EXPORT(prefer_narrow)(void) { narrow_only(); }

// Has `size` bytes at an address be zero; size is a multiple of 4.
void EXPORT(zero)(u32 *at, u32 size) {
  for (u32 i = 0; i < size / 4; i++) at[i] = 0;
}

// Runs the job that Go wrote into the pool in this thread, the last part of a dispatch first. Returns 1.
u32 EXPORT(run_alone)(pool *p) {
  for (u32 i = p->from; i < p->to; i++) {
    p->running = i;
    const dispatch *d = p->program[i];
    for (u32 part = p->parts; part-- > 0;) {
      thread t = {part, p->parts, part + 1 == p->parts, p->scratch};
      kernels[d->kernel].run(d, &t);
    }
  }
  return 1;
}

#ifdef __wasm_atomics__
// Computes parts of the job as thread `self`, until the dispatch of *end is open; 0: until the pool ends. Returns 0
// where a thread failed or did not answer.
static u32 compute(pool *p, u32 self, const u32 *end, u32 max_waits) {
  u32 open = GET(p->open), last = open, first = 1;
  for (;; open = GET(p->open)) {
    while (open % OPEN == 0) {
      if (end && same(open, *end)) return 1;
      if (!await(p, open, max_waits)) return 0;
      open = GET(p->open);
    }
    if (!same(open, last)) last = open, first = 1;
    if (!SWAP(p->open, &open, open - 1)) continue;
    // The host may write the next job once this part is computed, and not before.
    u32 i = p->running, parts = p->parts;
    thread t = {open % OPEN - 1, parts, first, p->scratch + (u64)self * p->stride};
    kernels[p->program[i]->kernel].run(p->program[i], &t);
    first = 0;
    if (ADD(p->computed, 1) < parts) continue;
    p->running = i + 1;
    open_next(p, i + 1 < p->to ? parts : 0);
  }
}

// Runs the job together with the other threads, and returns 1; or 0 where a thread failed or did not answer.
u32 EXPORT(run)(pool *p) {
  u32 end = GET(p->open) + OPEN * (p->to - p->from + 1);
  p->running = p->from;
  open_next(p, p->parts);
  return compute(p, 0, &end, p->max_waits);
}

// A thread's life: parts of every job, until the pool ends.
void EXPORT(work)(pool *p, u32 self) { compute(p, self, 0, 0); }
#endif

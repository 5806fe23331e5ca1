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

// Runs part `part` of the job, and returns whether all parts reached its end. The job is read before the first barrier:
// behind the last one the host may already write the next.
static u32 run_part(pool *p, u32 part) {
  const dispatch *const *program = p->program;
  u32 from = p->from, to = p->to, parts = p->parts, max_waits = p->max_waits;
  thread t = {part, parts, p->scratch + (u64)part * p->stride};
  for (u32 i = from; i < to; i++) {
    if (part == 0) p->running = i;
    const dispatch *d = program[i];
    kernels[d->kernel].run(d, &t);
    if (!barrier(p, parts, max_waits)) return 0;
  }
  return 1;
}

// Runs the job that Go wrote into the pool, this thread as part 0, and returns 1; or 0 where a thread failed or did not
// answer.
u32 EXPORT(run)(pool *p) {
  begin(p);
  return run_part(p, 0);
}

// Runs the job with its parts one after the other in this thread: a check that parts do not read what others write.
// Returns 1.
u32 EXPORT(run_in_turn)(pool *p) {
  for (u32 i = p->from; i < p->to; i++) {
    p->running = i;
    const dispatch *d = p->program[i];
    for (u32 part = p->parts; part-- > 0;) {
      thread t = {part, p->parts, p->scratch + (u64)part * p->stride};
      kernels[d->kernel].run(d, &t);
    }
  }
  return 1;
}

// A thread's life: part `part` of every job, until the pool ends.
void EXPORT(work)(pool *p, u32 part) {
  for (u32 job = 0; next(p, &job);) {
    if (part < job % JOB) run_part(p, part);
  }
}

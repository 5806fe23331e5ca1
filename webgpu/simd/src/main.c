// The table of kernels, and the loop over the dispatches of a program.
#include "kernel.h"
#include "pool.h"

#define KERNEL(name, needs) void name(const dispatch *, const thread *);
#include "kernels.h"
#undef KERNEL

need attention_needs(const dispatch *), filter_needs(const dispatch *), matmul_needs(const dispatch *),
    matmul_avx2_needs(const dispatch *), matmul_vnni_needs(const dispatch *), matmul_dotprod_needs(const dispatch *),
    verify_needs(const dispatch *);

static need any_parts(__attribute__((unused)) const dispatch *d) { return (need){0, ~0ull}; }
static need by_rows(const dispatch *d) { return (need){0, PARAM(0)}; }
static need in_one(__attribute__((unused)) const dispatch *d) { return (need){0, 1}; }

#define KERNEL(name, needs) {#name, name, needs},
static const kernel kernels[] = {
#include "kernels.h"
};
static const u32 count = sizeof kernels / sizeof *kernels;

#ifdef __wasm__
#define EXPORT(name) __attribute__((export_name(#name))) name
#else
#define EXPORT(name) foretoken_##name
#endif

// Writes the name of a kernel by its number. Returns its length, 0 past the last.
u32 EXPORT(kernel_name)(u32 i, char *to) {
  u32 n = 0;
  for (const char *from = i < count ? kernels[i].name : ""; from[n]; n++) to[n] = from[n];
  return n;
}

#ifdef __wasm__
// Where buffers may begin.
extern u8 __heap_base;
u8 *EXPORT(heap_base)(void) { return &__heap_base; }

void narrow_only(void);
void EXPORT(prefer_narrow)(void) { narrow_only(); }
#endif

// The bytes of scratch that each thread needs for a dispatch.
u32 EXPORT(scratch_size)(const dispatch *d) { return kernels[d->kernel].needs(d).scratch; }

// Has `size` bytes at an address be zero; size is a multiple of 4.
void EXPORT(zero)(u32 *at, u32 size) {
  for (u32 i = 0; i < size / 4; i++) at[i] = 0;
}

// Computes parts [part, end) of `parts` of dispatch i as thread `self`.
static void run_parts(const pool *p, u32 i, u32 self, u32 part, u32 end, u32 parts, u32 first) {
  thread t = {part, end, parts, first, p->scratch + (u64)self * p->stride};
  const dispatch *d = p->program[i].at;
  kernels[d->kernel].run(d, &t);
}

// Runs the job that Go wrote into the pool in this thread, the last parts of a dispatch first, in shrinking shares.
// Returns 1.
u32 EXPORT(run_alone)(pool *p) {
  for (u32 i = p->running = p->from; i < p->to; p->running = ++i)
    for (u32 left = p->most, share; left > 0; left -= share) {
      share = max_u32(left / 4, 1);
      run_parts(p, i, 0, left - share, left, p->most, left == p->most);
    }
  return 1;
}

// Computes dispatches from i on as thread `self` while they are too small to share, then opens one, or ends the job.
static void proceed(pool *p, u32 i, u32 self) {
  for (; i < p->to; i++) {
    if (GET(p->failed)) return;
    p->running = i;
    const dispatch *d = p->program[i].at;
    u64 parts = kernels[d->kernel].needs(d).parts;
    if (parts > 1) return open_parts(p, parts < p->most ? (u32)parts : p->most);
    run_parts(p, i, self, 0, 1, 1, 1);
  }
  p->running = i;
  open_parts(p, OVER);
}

// Computes parts of the job as thread `self`: until it has ended, or, where another thread began it, until the pool
// ends. Returns 0 where a thread failed or did not answer.
static u32 compute(pool *p, u32 self, u32 began) {
  for (;;) {
    if (self >= GET(p->crew) && !rest(p, self)) return 0;
    u32 open = GET(p->open), done = 0, parts = 0;
    for (u32 left; (left = left_of(open)) > 0; open = GET(p->open)) {
      u32 share = max_u32(left * SHARE / p->most, 1);
      if (!SWAP(p->open, &open, open - share)) continue;
      // The host may write the next job once these parts are computed, and not before.
      parts = p->parts;
      run_parts(p, p->running, self, left - share, left, parts, done == 0);
      done += share;
    }
    if (done > 0) {
      if (ADD(p->computed, done) == parts) proceed(p, p->running + 1, self);
    } else if (began && open % OPEN == OVER) {
      return 1;
    } else if (!await(p, open, began ? p->max_waits : 0)) {
      return 0;
    }
  }
}

// Runs the job together with the other threads, and returns 1; or 0 where a thread failed or did not answer.
u32 EXPORT(run)(pool *p) {
  form_crew(p);
  proceed(p, p->from, 0);
  return compute(p, 0, 1);
}

// A thread's life: parts of every job, until the pool ends.
void EXPORT(work)(pool *p, u32 self) { compute(p, self, 0); }

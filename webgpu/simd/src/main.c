// The table of kernels, and the loop over the dispatches of a program.
#include "kernel.h"

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

// The dispatch that runs, for the message of a trap.
static u32 at;
u32 EXPORT(running)(void) { return at; }

// Runs part `part` of `parts` of the dispatches of a program from number `from` to before number `to`.
void EXPORT(run_part)(const dispatch *const *program, u32 from, u32 to, u8 *scratch, u32 part, u32 parts) {
  thread t = {part, parts, scratch};
  for (at = from; at < to; at++) kernels[program[at]->kernel].run(program[at], &t);
}

// Runs them all.
void EXPORT(run)(const dispatch *const *program, u32 from, u32 to, u8 *scratch) {
  run_part(program, from, to, scratch, 0, 1);
}

// Has `size` bytes at an address be zero; size is a multiple of 4.
void EXPORT(zero)(u32 *at, u32 size) {
  for (u32 i = 0; i < size / 4; i++) at[i] = 0;
}

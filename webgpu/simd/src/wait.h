// How a thread waits for a word to change: an instruction of WebAssembly, a call of Linux or Windows, elsewhere a
// condition that all words share.
#pragma once
#include "kernel.h"

#ifdef __wasm__

// Sleeps until another thread wakes those at a word, at most so many nanoseconds; not at all where the word has another
// value than `seen`.
static inline void sleep_while(u32 *word, u32 seen, i64 most) {
  __builtin_wasm_memory_atomic_wait32((int *)word, (int)seen, most);
}
static inline void wake(u32 *word) { __builtin_wasm_memory_atomic_notify((int *)word, ~0u); }
static inline void relax(void) {}

// How often a thread looks before it sleeps: for some hundred microseconds, the host's time between two runs.
enum { SPINS = 150000 };

#else

enum { SPINS = 4000 };

void sleep_while(u32 *word, u32 seen, i64 most);
void wake(u32 *word);

// Leaves the processor's units to its other thread.
static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

#endif

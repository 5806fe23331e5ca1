// What all kernels share: a dispatch as Go lays it out, and the thread that computes a part of it.
//
// A kernel is batch invariant: the bits of an output row depend neither on the number of rows nor on the number of
// threads. No operation here differs between processors: no fused multiply-add, no libm, and of relaxed SIMD only what
// gives the same integers everywhere.
#pragma once
#include <stdint.h>
#include "simd.h"

// Whether matrix products are compiled for AVX2 and AVX-512 too. gcc for Windows puts vectors of 32 bytes on a stack
// that is aligned to 16.
#if defined(__x86_64__) && !defined(_WIN32)
#define AVX2
#endif

// Whether they are compiled for ARM's dot products of bytes.
#ifdef __aarch64__
#define DOTPROD
#endif

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int64_t i64;
typedef uint64_t u64;
typedef float f32;
typedef double f64;

// A field that Go writes in 64 bits, wherever pointers are shorter.
#define ADDRESS(type, name) \
  union {                   \
    type *name;             \
    u64 name##_address;     \
  }

// A range of a buffer. Size is in bytes.
typedef struct {
  ADDRESS(void, at);
  u32 size, unused;
} binding;

// One launch of a kernel. words are those of its specialisation: see the Entry of a webgpu.KernelSource. Binding 0 of
// our kernels is the block of parameters.
typedef struct {
  u32 kernel;
  u32 groups[3];
  ADDRESS(const u32, words);
  u32 count, unused;
  binding b[];
} dispatch;

// The thread that runs parts [part, end) of `parts` of a dispatch. scratch belongs to it alone; it has the bytes that
// the kernel needs, aligned to 16. Unless these are the thread's first parts of the dispatch, they hold what those
// before left there.
typedef struct {
  u32 part, end, parts, first;
  u8 *scratch;
} thread;

// What a kernel needs for a dispatch: bytes of scratch for each thread, and the most parts that are worth handing out.
typedef struct {
  u32 scratch;
  u64 parts;
} need;

typedef struct {
  const char *name;
  void (*run)(const dispatch *, const thread *);
  need (*needs)(const dispatch *);
} kernel;

typedef struct {
  u32 from, to;
} range;

// The items of n that belong to a thread, in whole steps.
static inline range share(const thread *t, u32 n, u32 step) {
  u64 steps = (n + step - 1) / step;
  u32 from = (u32)(steps * t->part / t->parts) * step, to = (u32)(steps * t->end / t->parts) * step;
  return (range){from < n ? from : n, to < n ? to : n};
}

typedef union {
  u32 bits;
  f32 number;
} word;

static inline f32 as_f32(u32 bits) { return (word){.bits = bits}.number; }
static inline u32 as_u32(f32 x) { return (word){.number = x}.bits; }
static inline f32 sqrt_f32(f32 x) { return wasm_f32x4_extract_lane(wasm_f32x4_sqrt(wasm_f32x4_splat(x)), 0); }
static inline u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }
static inline u32 max_u32(u32 a, u32 b) { return a > b ? a : b; }

// Whether a binding has `rows` rows of `width` elements of four bytes, `stride` apart, from `first` on.
static inline int holds(binding b, u64 first, u64 rows, u64 stride, u64 width) {
  return first + (rows - 1) * stride + width <= b.size / 4;
}

// Names and addresses of the parameters and bindings of a dispatch.
#define PARAM(i) (((const u32 *)d->b[0].at)[i])
#define PARAM_F32(i) (((const f32 *)d->b[0].at)[i])
#define AT(type, i) ((type *)d->b[i].at)

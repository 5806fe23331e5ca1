// The KV cache, as kernels.CacheLayout describes it: slot after slot, head after head. In q8 the scales of all heads of
// a slot come first.
#pragma once
#include "half.h"

enum { KV_F32, KV_F16, KV_Q8 };

typedef struct {
  u32 format;
  u32 heads, dim;  // of a slot, and elements of a head, a multiple of 8
  u32 block;       // elements that share a scale in q8: 32, 16 or 8
} cache;

static inline u32 cache_scales(const cache *c) { return c->format == KV_Q8 ? c->heads * c->dim / c->block : 0; }

// Bytes of a head without its scales, and of a slot.
static inline u32 cache_head(const cache *c) {
  return c->format == KV_Q8 ? c->dim : c->dim * 4 >> c->format;
}
static inline u32 cache_slot(const cache *c) { return 4 * cache_scales(c) + c->heads * cache_head(c); }

// Reads a head of f16.
static inline void load_f16(const u8 *from, f32 *to, u32 dim) {
  v128_t top = wasm_i16x8_splat(0x7c00), infinite = wasm_i32x4_splat(0x7f800000);
  for (u32 i = 0; i < dim; i += 8) {
    v128_t h = wasm_v128_load(from + 2 * i), above = wasm_i16x8_eq(wasm_v128_and(h, top), top);
    v128_t low = finite_f16x4(wasm_i32x4_extend_low_i16x8(h)), high = finite_f16x4(wasm_i32x4_extend_high_i16x8(h));
    if (wasm_v128_any_true(above)) {  // ∞ and NaN, which have the exponent that is highest
      low = wasm_v128_or(low, wasm_v128_and(wasm_i32x4_extend_low_i16x8(above), infinite));
      high = wasm_v128_or(high, wasm_v128_and(wasm_i32x4_extend_high_i16x8(above), infinite));
    }
    wasm_v128_store(to + i, low);
    wasm_v128_store(to + i + 4, high);
  }
}

// f32 of four integers. The empty instruction hides where they come from: clang converts lanes one by one after an
// extension from 16 bits.
static inline v128_t to_f32x4(v128_t integers) {
  HIDE(integers);
  return wasm_f32x4_convert_i32x4(integers);
}

// Reads a head of q8.
static inline void load_q8(const u8 *from, const u8 *scales, f32 *to, u32 dim, u32 block) {
  for (u32 i = 0; i < dim; scales += 4) {
    v128_t scale = wasm_v128_load32_splat(scales);
    for (u32 end = i + block; i < end; i += 8) {
      v128_t h = wasm_i16x8_load8x8(from + i);
      wasm_v128_store(to + i, wasm_f32x4_mul(to_f32x4(wasm_i32x4_extend_low_i16x8(h)), scale));
      wasm_v128_store(to + i + 4, wasm_f32x4_mul(to_f32x4(wasm_i32x4_extend_high_i16x8(h)), scale));
    }
  }
}

// Stores a block of bytes and its scale: the largest magnitude over 127, NaN if an element is NaN.
static inline void store_block(u32 block, f32 *scale, u8 *to, const f32 *x) {
  v128_t size = wasm_f32x4_splat(0);
  for (u32 i = 0; i < block; i += 4) size = wasm_f32x4_max(size, wasm_f32x4_abs(wasm_v128_load(x + i)));
  size = wasm_f32x4_max(size, wasm_i32x4_shuffle(size, size, 2, 3, 0, 1));
  size = wasm_f32x4_max(size, wasm_i32x4_shuffle(size, size, 1, 0, 3, 2));
  f32 most = wasm_f32x4_extract_lane(size, 0);
  *scale = most / 127;
  f32 inverse = most > 0 ? 127 / most : 0;
  for (u32 i = 0; i < block; i += 4) {
    v128_t v = wasm_f32x4_mul(wasm_v128_load(x + i), wasm_f32x4_splat(inverse));
    v = wasm_f32x4_floor(wasm_f32x4_add(v, wasm_f32x4_splat(0.5f)));
    v = wasm_f32x4_min(wasm_f32x4_max(v, wasm_f32x4_splat(-127)), wasm_f32x4_splat(127));
    v = wasm_i32x4_trunc_sat_f32x4(v);
    v = wasm_i16x8_narrow_i32x4(v, v);
    wasm_v128_store32_lane(to + i, wasm_i8x16_narrow_i16x8(v, v), 0);
  }
}

// Stores a head of `dim` elements in a slot; a slot outside the cache is skipped.
static inline void cache_store(const cache *c, binding b, u32 slot, u32 head, const f32 *x) {
  if (slot >= b.size / cache_slot(c)) return;
  u8 *at = (u8 *)b.at + slot * cache_slot(c);
  u8 *to = at + 4 * cache_scales(c) + head * cache_head(c);
  for (u32 i = 0; i < c->dim;) {
    if (c->format == KV_F32) {
      wasm_v128_store(to + 4 * i, wasm_v128_load(x + i));
      i += 4;
    } else if (c->format == KV_F16) {
      v128_t low = to_f16x4(wasm_v128_load(x + i)), high = to_f16x4(wasm_v128_load(x + i + 4));
      wasm_v128_store(to + 2 * i, wasm_u16x8_narrow_i32x4(low, high));
      i += 8;
    } else {
      store_block(c->block, (f32 *)at + (head * c->dim + i) / c->block, to + i, x + i);
      i += c->block;
    }
  }
}

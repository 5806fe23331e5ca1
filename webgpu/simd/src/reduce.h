// Sums in a fixed order: lanes of four, several at once, then across.
#pragma once
#include "kernel.h"

static inline f32 sum_lanes(v128_t v) {
  return (wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1)) +
         (wasm_f32x4_extract_lane(v, 2) + wasm_f32x4_extract_lane(v, 3));
}

// Σ x·y. n is any number.
static inline f32 dot(const f32 *x, const f32 *y, u32 n) {
  v128_t a = wasm_f32x4_splat(0), b = a;
  u32 i = 0;
  for (; i + 8 <= n; i += 8) {
    a = wasm_f32x4_add(a, wasm_f32x4_mul(wasm_v128_load(x + i), wasm_v128_load(y + i)));
    b = wasm_f32x4_add(b, wasm_f32x4_mul(wasm_v128_load(x + i + 4), wasm_v128_load(y + i + 4)));
  }
  f32 sum = sum_lanes(wasm_f32x4_add(a, b));
  for (; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static inline f32 sum_squares(const f32 *x, u32 n) { return dot(x, x, n); }

// Sums in a fixed order: lanes of four, several at once, then across.
#pragma once
#include "kernel.h"

static inline f32 sum_lanes(v128_t v) {
  return (wasm_f32x4_extract_lane(v, 0) + wasm_f32x4_extract_lane(v, 1)) +
         (wasm_f32x4_extract_lane(v, 2) + wasm_f32x4_extract_lane(v, 3));
}

// Σ x². n is any number.
static inline f32 sum_squares(const f32 *x, u32 n) {
  v128_t a = wasm_f32x4_splat(0), b = a;
  u32 i = 0;
  for (; i + 8 <= n; i += 8) {
    v128_t u = wasm_v128_load(x + i), v = wasm_v128_load(x + i + 4);
    a = wasm_f32x4_add(a, wasm_f32x4_mul(u, u));
    b = wasm_f32x4_add(b, wasm_f32x4_mul(v, v));
  }
  f32 sum = sum_lanes(wasm_f32x4_add(a, b));
  for (; i < n; i++) sum += x[i] * x[i];
  return sum;
}

// e to the power of f32 numbers, within 1 ulp: a polynomial between ±ln 2 / 2 and a power of two, as in Moshier's
// Cephes.
#pragma once
#include "kernel.h"

// 2^n of each lane; n is from -126 to 127.
static inline v128_t power_of_two(v128_t n) {
  return wasm_i32x4_shl(wasm_i32x4_add(n, wasm_i32x4_splat(127)), 23);
}

// exp(x) of each lane: 0 below the subnormal numbers and at -∞, ∞ above the finite ones, NaN of NaN.
static inline v128_t exp_f32x4(v128_t x) {
  // Outside the bounds the result is 0 or ∞ already. These comparisons keep a NaN, and are one instruction each, as min
  // and max are not.
  x = wasm_f32x4_pmin(wasm_f32x4_pmax(x, wasm_f32x4_splat(-104)), wasm_f32x4_splat(89));
  // This sum rounds x / ln 2 to an integer n, and has it in its low bits.
  const v128_t magic = wasm_f32x4_splat(0x1.8p23f);
  v128_t sum = wasm_f32x4_add(wasm_f32x4_mul(x, wasm_f32x4_splat(1.44269504f)), magic), n = wasm_f32x4_sub(sum, magic);
  // ln 2 in two parts: the product with the first one is exact.
  x = wasm_f32x4_sub(x, wasm_f32x4_mul(n, wasm_f32x4_splat(0.693359375f)));
  x = wasm_f32x4_sub(x, wasm_f32x4_mul(n, wasm_f32x4_splat(-2.12194440e-4f)));
  static const f32 terms[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  v128_t y = wasm_f32x4_splat(1.9875691500e-4f);
  for (u32 i = 0; i < sizeof terms / sizeof *terms; i++)
    y = wasm_f32x4_add(wasm_f32x4_mul(y, x), wasm_f32x4_splat(terms[i]));
  y = wasm_f32x4_add(wasm_f32x4_add(wasm_f32x4_mul(wasm_f32x4_mul(y, x), x), x), wasm_f32x4_splat(1));
  // 2^n in two parts too: n reaches 128, and -150 where the second product rounds to a subnormal number.
  n = wasm_i32x4_sub(sum, magic);
  v128_t half = wasm_i32x4_shr(n, 1);
  y = wasm_f32x4_mul(y, power_of_two(half));
  return wasm_f32x4_mul(y, power_of_two(wasm_i32x4_sub(n, half)));
}

// exp(x), with the bits of a lane.
static inline f32 exp_f32(f32 x) { return wasm_f32x4_extract_lane(exp_f32x4(wasm_f32x4_splat(x)), 0); }

// x / (1 + exp(-x)).
static inline v128_t silu_f32x4(v128_t x) {
  return wasm_f32x4_div(x, wasm_f32x4_add(wasm_f32x4_splat(1), exp_f32x4(wasm_f32x4_neg(x))));
}
static inline f32 silu_f32(f32 x) { return x / (1 + exp_f32(-x)); }

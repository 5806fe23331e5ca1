// Natural logarithms of f32 numbers, within 1 ulp: a polynomial between √½ and √2 and a multiple of ln 2, as in
// Moshier's Cephes.
#pragma once
#include "kernel.h"

// ln(x) of each lane: -∞ of 0, ∞ of ∞, NaN of negative numbers and NaN.
static inline v128_t log_f32x4(v128_t x) {
  // Subnormal numbers become normal ones first.
  v128_t tiny = wasm_f32x4_lt(x, wasm_f32x4_splat(0x1p-126f));
  v128_t bits = wasm_v128_bitselect(wasm_f32x4_mul(x, wasm_f32x4_splat(0x1p23f)), x, tiny);
  // x = m·2^e with m from √½ to √2.
  v128_t above = wasm_i32x4_sub(bits, wasm_i32x4_splat(0x3f3504f3));
  v128_t e = wasm_f32x4_convert_i32x4(wasm_i32x4_shr(above, 23));
  e = wasm_f32x4_sub(e, wasm_v128_and(tiny, wasm_f32x4_splat(23)));
  v128_t m = wasm_i32x4_sub(bits, wasm_v128_and(above, wasm_i32x4_splat((i32)0xff800000)));
  v128_t f = wasm_f32x4_sub(m, wasm_f32x4_splat(1)), square = wasm_f32x4_mul(f, f);
  static const f32 terms[] = {-1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                              -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f};
  v128_t y = wasm_f32x4_splat(7.0376836292e-2f);
  for (u32 i = 0; i < sizeof terms / sizeof *terms; i++)
    y = wasm_f32x4_add(wasm_f32x4_mul(y, f), wasm_f32x4_splat(terms[i]));
  y = wasm_f32x4_mul(wasm_f32x4_mul(y, f), square);
  // ln 2 in two parts: the product with the larger one is exact.
  y = wasm_f32x4_add(y, wasm_f32x4_mul(e, wasm_f32x4_splat(-2.12194440e-4f)));
  y = wasm_f32x4_sub(y, wasm_f32x4_mul(square, wasm_f32x4_splat(0.5f)));
  y = wasm_f32x4_add(wasm_f32x4_add(f, y), wasm_f32x4_mul(e, wasm_f32x4_splat(0.693359375f)));
  const v128_t zero = wasm_f32x4_splat(0), infinity = wasm_f32x4_splat(__builtin_inff());
  y = wasm_v128_bitselect(wasm_f32x4_neg(infinity), y, wasm_f32x4_eq(x, zero));
  y = wasm_v128_bitselect(x, y, wasm_f32x4_eq(x, infinity));
  return wasm_v128_bitselect(y, wasm_f32x4_splat(__builtin_nanf("")), wasm_f32x4_ge(x, zero));
}

// ln(x), with the bits of a lane.
static inline f32 log_f32(f32 x) { return wasm_f32x4_extract_lane(log_f32x4(wasm_f32x4_splat(x)), 0); }

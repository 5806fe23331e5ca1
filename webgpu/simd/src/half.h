// f16 numbers, of which wasm has no instructions.
#pragma once
#include "kernel.h"

// f32 of finite f16 in the low halves of four words whose upper halves repeat the sign.
static inline v128_t finite_f16x4(v128_t h) {
  v128_t x = wasm_v128_and(wasm_i32x4_shl(h, 13), wasm_i32x4_splat((i32)0x8fffe000));
  return wasm_f32x4_mul(x, wasm_f32x4_splat(0x1p112f));
}

// f32 of the f16 in the low halves of four words whose upper halves repeat the sign. An exponent of 31 is that of ∞ and
// NaN.
static inline v128_t from_f16x4(v128_t h) {
  v128_t size = wasm_v128_and(wasm_i32x4_shl(h, 13), wasm_i32x4_splat(0x0fffe000));
  v128_t above = wasm_i32x4_ge(size, wasm_i32x4_splat(31 << 23));
  return wasm_v128_or(finite_f16x4(h), wasm_v128_and(above, wasm_i32x4_splat(0x7f800000)));
}

// The same without subnormal operands, which slow down x86 processors a hundred times and which many scales are.
static inline v128_t scales_f16x4(v128_t h) {
  v128_t x = wasm_v128_and(wasm_i32x4_shl(h, 13), wasm_i32x4_splat(0x0fffe000)), sign = wasm_i32x4_splat(INT32_MIN);
  v128_t low = wasm_f32x4_sub(wasm_i32x4_add(x, wasm_i32x4_splat(113 << 23)), wasm_f32x4_splat(0x1p-14f));
  v128_t above = wasm_i32x4_ge(x, wasm_i32x4_splat(31 << 23));
  v128_t normal = wasm_i32x4_add(x, wasm_i32x4_splat(112 << 23));
  x = wasm_v128_bitselect(low, normal, wasm_i32x4_lt(x, wasm_i32x4_splat(1 << 23)));
  x = wasm_v128_or(x, wasm_v128_and(above, wasm_i32x4_splat(0x7f800000)));
  return wasm_v128_or(x, wasm_v128_and(h, sign));
}

// f32 of the f16 in the low and in the high halves of four words.
static inline v128_t low_halves(v128_t w) { return scales_f16x4(wasm_i32x4_shr(wasm_i32x4_shl(w, 16), 16)); }
static inline v128_t high_halves(v128_t w) { return scales_f16x4(wasm_i32x4_shr(w, 16)); }

// f16 of four f32, to the nearest and ties to even, in the low halves of four words.
static inline v128_t to_f16x4(v128_t x) {
  v128_t size = wasm_v128_and(x, wasm_i32x4_splat(0x7fffffff));
  v128_t sign = wasm_u32x4_shr(wasm_v128_xor(x, size), 16);
  v128_t nan = wasm_i32x4_gt(size, wasm_i32x4_splat(0x7f800000));
  size = wasm_i32x4_min(size, wasm_i32x4_splat(0x47800000));  // 65536 becomes ∞
  // The sum with 1/2 rounds to a multiple of 2^-24, as subnormal numbers of f16 are.
  v128_t low = wasm_i32x4_sub(wasm_f32x4_add(size, wasm_f32x4_splat(0.5f)), wasm_f32x4_splat(0.5f));
  v128_t odd = wasm_v128_and(wasm_u32x4_shr(size, 13), wasm_i32x4_splat(1));
  v128_t high = wasm_i32x4_add(wasm_i32x4_add(size, odd), wasm_i32x4_splat(0xfff - (112 << 23)));
  v128_t bits = wasm_v128_bitselect(low, wasm_u32x4_shr(high, 13), wasm_i32x4_lt(size, wasm_i32x4_splat(0x38800000)));
  bits = wasm_v128_bitselect(wasm_i32x4_splat(0x7e00), bits, nan);
  return wasm_v128_or(bits, sign);
}

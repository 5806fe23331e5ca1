// Compares each intrinsic that simd.h defines with its definition for one lane. TestIntrinsics compiles this file for
// each target, WebAssembly among them, whose intrinsics the compiler defines.
#include "../src/simd.h"
#include <stdint.h>

typedef union {
  v128_t v;
  int8_t i8[16];
  uint8_t u8[16];
  int16_t i16[8];
  uint16_t u16[8];
  int32_t i32[4];
  uint32_t u32[4];
  float f32[4];
} vector;

// Floats with a property of their own, then integers; all of them are used as both.
static const uint32_t words[] = {
    0x00000000, 0x80000000,                          // ±0
    0x3f800000, 0xbf800000, 0x3f000000, 0xbf000000,  // ±1, ±½
    0x3fc00000, 0xc0200000, 0x402ccccd, 0xc02ccccd,  // 1.5, -2.5, ±2.7
    0x7f800000, 0xff800000,                          // ±∞
    0x7fc00000, 0xffc00000, 0x7f800001, 0xffffffff,  // NaN
    0x00000001, 0x80000001, 0x007fffff, 0x807fffff,  // subnormal
    0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff,  // the least and the largest normal
    0x4b000000, 0x4affffff, 0xcaffffff, 0x4b800001,  // about 2^23 and 2^24
    0x4f000000, 0x4effffff, 0xcf000000, 0xcf000001,  // about 2^31
    0x4f800000, 0x4f7fffff, 0x3effffff, 0x3f7fffff,  // about 2^32, and below ½ and 1
    0x7fffffff, 0x7ffffffe, 0x80007fff, 0x7fff8000, 0x80008000, 0x7fff7fff, 0x80018001, 0x0000ffff, 0xffff0000,
    0x00010000, 0x00ff0100, 0x807f7f80, 0x0f101112, 0x03020100, 0x8f900f10, 0x01ffff01, 0x12345678, 0xdeadbeef,
};
enum { WORDS = sizeof words / sizeof *words };

static vector vector_at(unsigned i) {
  vector v;
  for (unsigned k = 0; k < 4; k++) v.u32[k] = words[(i + 11 * k) % WORDS];
  return v;
}

static int is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
static float number(uint32_t bits) { return (vector){.u32 = {bits}}.f32[0]; }
static uint32_t bits_of(float x) { return (vector){.f32 = {x}}.u32[0]; }

// The definitions that C has no operator for.
static float least(float a, float b) {
  if (a != a || b != b) return a + b;
  return a == b ? number(bits_of(a) | bits_of(b)) : a < b ? a : b;
}
static float most(float a, float b) {
  if (a != a || b != b) return a + b;
  return a == b ? number(bits_of(a) & bits_of(b)) : a > b ? a : b;
}
static float rounded_down(float x) {
  if (!(x > -0x1p23f && x < 0x1p23f)) return x;
  float whole = (float)(int32_t)x;
  if (whole > x) whole -= 1;
  return number(bits_of(whole) | (bits_of(x) & 0x80000000));
}
static int32_t truncated(float x) {
  return x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : (int32_t)x;
}
static int32_t clamped(int32_t x, int32_t low, int32_t high) { return x < low ? low : x > high ? high : x; }

static const char *failed;  // the first intrinsic that differed
static vector got, want;

// Compares got and want. Any NaN is that of an arithmetic result.
static void compare(const char *name, int arithmetic) {
  for (unsigned k = 0; k < 4; k++) {
    if (got.u32[k] == want.u32[k] || (arithmetic && is_nan(got.u32[k]) && is_nan(want.u32[k]))) continue;
    if (!failed) failed = name;
  }
}

#define EACH(to, lanes, value) \
  for (unsigned k = 0; k < lanes; k++) want.to[k] = value

// An operation on lanes x, or x and y, of vectors a and b. The result has lanes of type `to`.
#define ONE(name, of, to, lanes, value)           \
  got.v = wasm_##name(a.v);                       \
  for (unsigned k = 0; k < lanes; k++) {          \
    __typeof__(a.of[0]) x = a.of[k];              \
    want.to[k] = (__typeof__(a.to[0]))(value);    \
  }                                               \
  compare(#name, 0)
#define TWO_IS(name, of, to, lanes, arithmetic, value)  \
  got.v = wasm_##name(a.v, b.v);                        \
  for (unsigned k = 0; k < lanes; k++) {                \
    __typeof__(a.of[0]) x = a.of[k], y = b.of[k];       \
    want.to[k] = (__typeof__(a.to[0]))(value);          \
  }                                                     \
  compare(#name, arithmetic)
#define TWO(name, of, to, lanes, value) TWO_IS(name, of, to, lanes, 0, value)
#define FLOATS(name, value) TWO_IS(name, f32, f32, 4, 1, value)
#define SHIFT(name, of, lanes, value)                                \
  for (unsigned by = 0; by < 70; by++) {                             \
    unsigned n = by % (128 / lanes);                                 \
    got.v = wasm_##name(a.v, by);                                    \
    for (unsigned k = 0; k < lanes; k++) {                           \
      __typeof__(a.of[0]) x = a.of[k];                               \
      want.of[k] = (__typeof__(a.of[0]))(value);                     \
    }                                                                \
    compare(#name, 0);                                               \
  }
#define SHUFFLE_IS(name, of, lanes, ...)                                                     \
  {                                                                                          \
    static const uint8_t at[] = {__VA_ARGS__};                                               \
    got.v = wasm_##name(a.v, b.v, __VA_ARGS__);                                              \
    for (unsigned k = 0; k < lanes; k++) want.of[k] = at[k] < lanes ? a.of[at[k]] : b.of[at[k] - lanes]; \
    compare(#name, 0);                                                                       \
  }

static void compare_one(vector a) {
  ONE(v128_not, u32, u32, 4, ~x);
  ONE(i32x4_neg, u32, u32, 4, 0 - x);
  ONE(f32x4_neg, u32, u32, 4, x ^ 0x80000000);
  ONE(f32x4_abs, u32, u32, 4, x & 0x7fffffff);
  ONE(f32x4_convert_i32x4, i32, f32, 4, x);
  ONE(f32x4_convert_u32x4, u32, f32, 4, x);
  ONE(i32x4_trunc_sat_f32x4, f32, i32, 4, truncated(x));
  ONE(u16x8_extend_low_u8x16, u8, u16, 8, x);
  ONE(i32x4_extend_low_i16x8, i16, i32, 4, x);
  got.v = wasm_u16x8_extend_high_u8x16(a.v);
  EACH(i16, 8, a.u8[8 + k]);
  compare("u16x8_extend_high_u8x16", 0);
  got.v = wasm_i32x4_extend_high_i16x8(a.v);
  EACH(i32, 4, a.i16[4 + k]);
  compare("i32x4_extend_high_i16x8", 0);
  got.v = wasm_f32x4_floor(a.v);
  EACH(f32, 4, rounded_down(a.f32[k]));
  compare("f32x4_floor", 1);
  got.v = wasm_f32x4_sqrt(a.v);
  EACH(f32, 4, __builtin_sqrtf(a.f32[k]));
  compare("f32x4_sqrt", 1);

  SHIFT(u8x16_shr, u8, 16, x >> n)
  SHIFT(i16x8_shl, u16, 8, x << n)
  SHIFT(u16x8_shr, u16, 8, x >> n)
  SHIFT(i32x4_shl, u32, 4, x << n)
  SHIFT(i32x4_shr, i32, 4, x >> n)
  SHIFT(u32x4_shr, u32, 4, x >> n)

  uint32_t bits = 0, any = 0;
  for (unsigned k = 0; k < 4; k++) bits |= a.u32[k] >> 31 << k, any |= a.u32[k];
  if (wasm_i32x4_bitmask(a.v) != bits) failed = "i32x4_bitmask";
  for (unsigned k = 0; k < 128; k++) {
    vector one = {.u32 = {0}};
    one.u8[k / 8] = (uint8_t)(1 << k % 8);
    if (!wasm_v128_any_true(one.v)) failed = "v128_any_true";
  }
  if (!!wasm_v128_any_true(a.v) != !!any || wasm_v128_any_true(wasm_i32x4_splat(0))) failed = "v128_any_true";
}

// Loads, stores and lanes, at an address that is not aligned.
static void compare_memory(vector a) {
  uint8_t memory[32];
  for (unsigned k = 0; k < 16; k++) memory[1 + k] = a.u8[k];
  got.v = wasm_v128_load(memory + 1);
  want = a;
  compare("v128_load", 0);
  got.v = wasm_v128_load32_splat(memory + 1);
  EACH(u32, 4, a.u32[0]);
  compare("v128_load32_splat", 0);
  got.v = wasm_v128_load64_zero(memory + 1);
  EACH(u32, 4, k < 2 ? a.u32[k] : 0);
  compare("v128_load64_zero", 0);
  got.v = wasm_i16x8_load8x8(memory + 1);
  EACH(i16, 8, a.i8[k]);
  compare("i16x8_load8x8", 0);
  got.v = wasm_u16x8_load8x8(memory + 1);
  EACH(u16, 8, a.u8[k]);
  compare("u16x8_load8x8", 0);
  got.v = wasm_i32x4_load16x4(memory + 1);
  EACH(i32, 4, a.i16[k]);
  compare("i32x4_load16x4", 0);

  wasm_v128_store(memory + 1, a.v);
  for (unsigned k = 0; k < 16; k++) got.u8[k] = memory[1 + k];
  want = a;
  compare("v128_store", 0);
  wasm_v128_store32_lane(memory + 1, a.v, 0);
  wasm_v128_store32_lane(memory + 5, a.v, 3);
  wasm_v128_store32_lane(memory + 9, a.v, 2);
  wasm_v128_store32_lane(memory + 13, a.v, 1);
  for (unsigned k = 0; k < 16; k++) got.u8[k] = memory[1 + k];
  EACH(u32, 4, a.u32[(4 - k) % 4]);
  compare("v128_store32_lane", 0);

  want = a;
  got.v = wasm_i32x4_make(a.i32[0], a.i32[1], a.i32[2], a.i32[3]);
  compare("i32x4_make", 0);
  got.v = wasm_u32x4_make(a.u32[0], a.u32[1], a.u32[2], a.u32[3]);
  compare("u32x4_make", 0);
  got.v = wasm_f32x4_make(a.f32[0], a.f32[1], a.f32[2], a.f32[3]);
  compare("f32x4_make", 1);
  got.v = wasm_i8x16_make(a.i8[0], a.i8[1], a.i8[2], a.i8[3], a.i8[4], a.i8[5], a.i8[6], a.i8[7], a.i8[8], a.i8[9],
                          a.i8[10], a.i8[11], a.i8[12], a.i8[13], a.i8[14], a.i8[15]);
  compare("i8x16_make", 0);
  got.i32[0] = wasm_i32x4_extract_lane(a.v, 0), got.i32[1] = wasm_i32x4_extract_lane(a.v, 1);
  got.i32[2] = wasm_i32x4_extract_lane(a.v, 2), got.i32[3] = wasm_i32x4_extract_lane(a.v, 3);
  compare("i32x4_extract_lane", 0);
  got.f32[0] = wasm_f32x4_extract_lane(a.v, 0), got.f32[1] = wasm_f32x4_extract_lane(a.v, 1);
  got.f32[2] = wasm_f32x4_extract_lane(a.v, 2), got.f32[3] = wasm_f32x4_extract_lane(a.v, 3);
  compare("f32x4_extract_lane", 1);
  got.v = wasm_i8x16_splat(a.i8[0]);
  EACH(i8, 16, a.i8[0]);
  compare("i8x16_splat", 0);
  got.v = wasm_i16x8_splat(a.i16[0]);
  EACH(i16, 8, a.i16[0]);
  compare("i16x8_splat", 0);
  got.v = wasm_i32x4_splat(a.i32[0]);
  EACH(i32, 4, a.i32[0]);
  compare("i32x4_splat", 0);
  got.v = wasm_f32x4_splat(a.f32[0]);
  compare("f32x4_splat", 1);
  got.v = wasm_u32x4_const_splat(0x80000001);
  EACH(u32, 4, 0x80000001);
  compare("u32x4_const_splat", 0);
}

static void compare_two(vector a, vector b) {
  TWO(v128_and, u32, u32, 4, x & y);
  TWO(v128_or, u32, u32, 4, x | y);
  TWO(v128_xor, u32, u32, 4, x ^ y);
  TWO(i8x16_add, u8, u8, 16, x + y);
  TWO(i8x16_sub, u8, u8, 16, x - y);
  TWO(i8x16_eq, i8, i8, 16, x == y ? -1 : 0);
  TWO(i16x8_add, u16, u16, 8, x + y);
  TWO(i16x8_sub, u16, u16, 8, x - y);
  TWO(i16x8_mul, u16, u16, 8, (uint32_t)x * y);
  TWO(i16x8_eq, i16, i16, 8, x == y ? -1 : 0);
  TWO(i32x4_add, u32, u32, 4, x + y);
  TWO(i32x4_sub, u32, u32, 4, x - y);
  TWO(i32x4_mul, u32, u32, 4, x * y);
  TWO(i32x4_lt, i32, i32, 4, x < y ? -1 : 0);
  TWO(i32x4_gt, i32, i32, 4, x > y ? -1 : 0);
  TWO(i32x4_ge, i32, i32, 4, x >= y ? -1 : 0);
  TWO(u32x4_ge, u32, i32, 4, x >= y ? -1 : 0);
  TWO(i32x4_min, i32, i32, 4, x < y ? x : y);
  TWO(i32x4_max, i32, i32, 4, x > y ? x : y);
  TWO(f32x4_eq, f32, i32, 4, x == y ? -1 : 0);
  TWO(f32x4_lt, f32, i32, 4, x < y ? -1 : 0);
  TWO(f32x4_gt, f32, i32, 4, x > y ? -1 : 0);
  TWO(f32x4_ge, f32, i32, 4, x >= y ? -1 : 0);
  TWO(f32x4_pmin, u32, u32, 4, number(y) < number(x) ? y : x);
  TWO(f32x4_pmax, u32, u32, 4, number(x) < number(y) ? y : x);
  FLOATS(f32x4_add, x + y);
  FLOATS(f32x4_sub, x - y);
  FLOATS(f32x4_mul, x * y);
  FLOATS(f32x4_div, x / y);
  FLOATS(f32x4_min, least(x, y));
  FLOATS(f32x4_max, most(x, y));

  got.v = wasm_v128_bitselect(a.v, b.v, vector_at(b.u8[0]).v);
  EACH(u32, 4, (a.u32[k] & vector_at(b.u8[0]).u32[k]) | (b.u32[k] & ~vector_at(b.u8[0]).u32[k]));
  compare("v128_bitselect", 0);
  got.v = wasm_i8x16_swizzle(a.v, b.v);
  EACH(u8, 16, b.u8[k] < 16 ? a.u8[b.u8[k]] : 0);
  compare("i8x16_swizzle", 0);
  got.v = wasm_i32x4_dot_i16x8(a.v, b.v);
  EACH(u32, 4, (uint32_t)(a.i16[2 * k] * b.i16[2 * k]) + (uint32_t)(a.i16[2 * k + 1] * b.i16[2 * k + 1]));
  compare("i32x4_dot_i16x8", 0);
  got.v = wasm_i8x16_narrow_i16x8(a.v, b.v);
  EACH(i8, 16, (int8_t)clamped(k < 8 ? a.i16[k] : b.i16[k - 8], -128, 127));
  compare("i8x16_narrow_i16x8", 0);
  got.v = wasm_i16x8_narrow_i32x4(a.v, b.v);
  EACH(i16, 8, (int16_t)clamped(k < 4 ? a.i32[k] : b.i32[k - 4], -32768, 32767));
  compare("i16x8_narrow_i32x4", 0);
  got.v = wasm_u16x8_narrow_i32x4(a.v, b.v);
  EACH(u16, 8, (uint16_t)clamped(k < 4 ? a.i32[k] : b.i32[k - 4], 0, 65535));
  compare("u16x8_narrow_i32x4", 0);

  SHUFFLE_IS(i8x16_shuffle, u8, 16, 0, 2, 4, 6, 1, 3, 5, 7, 31, 16, 30, 17, 12, 13, 14, 15)
  SHUFFLE_IS(i16x8_shuffle, u16, 8, 0, 8, 1, 9, 7, 15, 3, 3)
  SHUFFLE_IS(i32x4_shuffle, u32, 4, 0, 4, 1, 5)
  SHUFFLE_IS(i32x4_shuffle, u32, 4, 2, 3, 0, 1)
  SHUFFLE_IS(i32x4_shuffle, u32, 4, 7, 6, 3, 3)
}

// The name of an intrinsic that differs, or "".
#ifdef __wasm__
__attribute__((export_name("differs")))
#endif
const char *differs(void);
const char *differs(void) {
  for (unsigned i = 0; i < WORDS; i++) {
    compare_one(vector_at(i));
    compare_memory(vector_at(i));
    for (unsigned j = 0; j < WORDS; j++) compare_two(vector_at(i), vector_at(j));
  }
  return failed ? failed : "";
}

#ifndef __wasm__
#include <stdio.h>
int main(void) {
  fputs(differs(), stdout);
  return 0;
}
#endif

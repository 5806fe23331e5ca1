// The formats of weights, as kernels.Format numbers them and unpack_*.wgsl describes them.
//
// Weights of a quantised format are unpacked to i16 numbers: the value of a weight is number · scale + offset. A block
// is 32 weights with one scale and no, one or two offsets (two: of 16 weights each); a group is four blocks, whose
// scales are the lanes of one vector. Some formats have a whole scale for each half of a block too. Times it, the
// largest number is 4096, in Q6_K.
#pragma once
#include "half.h"

enum { F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, FORMATS };

// Expands X for each format with scales.
#define QUANTISED(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(IQ4_NL) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K)

#define INLINE static inline __attribute__((always_inline))

// What distinguishes the formats. Words of scales are those of a block, or of a superblock of 256 from Q2_K on.
// Arguments called `format` and `j` are constants where these functions are inlined.
INLINE u32 offsets_of(u32 format) {
  return format == Q2_K ? 2 : format == Q4_1 || format == Q5_1 || format == Q4_K || format == Q5_K;
}
INLINE u32 has_wholes(u32 format) { return format == Q2_K || format == Q3_K || format == Q6_K; }
INLINE u32 in_superblocks(u32 format) { return format >= Q2_K; }
INLINE u32 quantised(u32 format) { return format >= Q8_0; }

// Weights of a step, in which parameters count columns: see kernels.Format.Step.
static inline u32 step_of(u32 format) { return format <= Q8_0 ? 4 : 8; }

// Bytes of a row of weights and of its scales.
static inline u32 row_bytes(u32 format, u32 cols) {
  static const u8 words[FORMATS] = {32, 16, 16, 8, 4, 4, 5, 5, 4, 2, 3, 4, 5, 6};  // of 32 weights
  return cols / 4 * words[format] / 2;
}
static inline u32 scale_bytes(u32 format, u32 cols) {
  static const u8 words[FORMATS] = {0, 0, 0, 1, 1, 1, 1, 1, 1, 5, 4, 6, 6, 5};
  return cols / (in_superblocks(format) ? 256 : 32) * 4 * words[format];
}

// The scales and offsets of a group.
typedef struct {
  v128_t scale, offset[2];
} scales;

// The first n of four words, then zeros.
INLINE v128_t load_words(const void *at, u32 n) {
  if (n >= 4) return wasm_v128_load(at);
  const u32 *w = at;
  return wasm_u32x4_make(w[0], n > 1 ? w[1] : 0, n > 2 ? w[2] : 0, 0);
}

// Four bytes as floats.
INLINE v128_t floats(u32 bytes) {
  v128_t apart = wasm_i8x16_make(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1);
  return wasm_f32x4_convert_i32x4(wasm_i8x16_swizzle(wasm_i32x4_splat((i32)bytes), apart));
}

// The scales of group g of a row, whose last group may have n < 4 blocks.
INLINE scales unpack_scales(u32 format, const u32 *s, u32 g, u32 n) {
  scales r = {wasm_f32x4_splat(0), {wasm_f32x4_splat(0), wasm_f32x4_splat(0)}};
  v128_t two;
  u32 upper = g % 2;
  switch (format) {
    case Q8_0:
    case Q4_0:
    case Q5_0:
    case IQ4_NL:
      r.scale = load_words(s + 4 * g, n);
      break;
    case Q4_1:
    case Q5_1:
      two = load_words(s + 4 * g, n);
      r.scale = low_halves(two);
      r.offset[0] = high_halves(two);
      break;
    case Q2_K: {
      s += g / 2 * 5;
      two = wasm_i32x4_splat((i32)s[4]);
      r.scale = low_halves(two);
      v128_t factor = wasm_f32x4_neg(high_halves(two));
      v128_t least = wasm_u8x16_shr(wasm_v128_load64_zero(s + 2 * upper), 4);
      least = wasm_i8x16_shuffle(least, least, 0, 2, 4, 6, 1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      r.offset[0] = wasm_f32x4_mul(factor, floats((u32)wasm_i32x4_extract_lane(least, 0)));
      r.offset[1] = wasm_f32x4_mul(factor, floats((u32)wasm_i32x4_extract_lane(least, 1)));
      break;
    }
    case Q3_K:
      r.scale = wasm_v128_load32_splat(s + g / 2 * 4);
      break;
    case Q4_K:
    case Q5_K: {
      s += g / 2 * 6;
      v128_t pairs = wasm_u16x8_load8x8(s + 2 + 2 * upper);  // of a scale and a minimum
      v128_t scale = wasm_f32x4_convert_i32x4(wasm_v128_and(pairs, wasm_i32x4_splat(0xffff)));
      v128_t least = wasm_f32x4_convert_i32x4(wasm_u32x4_shr(pairs, 16));
      r.scale = wasm_f32x4_mul(wasm_v128_load32_splat(s), scale);
      r.offset[0] = wasm_f32x4_mul(wasm_f32x4_neg(wasm_v128_load32_splat(s + 1)), least);
      break;
    }
    case Q6_K:
      r.scale = wasm_v128_load32_splat(s + g / 2 * 5 + 4);
      break;
  }
  return r;
}

// The whole scales of the first and of the second halves of the blocks of group g.
typedef struct {
  v128_t first, second;
} wholes;

INLINE wholes unpack_wholes(u32 format, const u32 *s, u32 g) {
  u32 upper = g % 2, super = g / 2;
  v128_t v;
  if (format == Q2_K) {
    v = wasm_v128_and(wasm_v128_load64_zero(s + super * 5 + 2 * upper), wasm_i8x16_splat(15));
  } else if (format == Q3_K) {
    s += super * 4;
    v = wasm_v128_and(wasm_u16x8_shr(wasm_v128_load64_zero(s + 1), 4 * upper), wasm_i8x16_splat(15));
    u32 high = s[3] >> (4 * upper);
    v = wasm_v128_or(v, wasm_i32x4_make((i32)(high << 4 & 0x30303030), (i32)(high << 2 & 0x30303030), 0, 0));
    v = wasm_i8x16_sub(v, wasm_i8x16_splat(32));
  } else {
    v = wasm_v128_load64_zero(s + super * 5 + 2 * upper);
  }
  v128_t even = wasm_i8x16_make(-1, -1, -1, 0, -1, -1, -1, 2, -1, -1, -1, 4, -1, -1, -1, 6);
  v128_t odd = wasm_i8x16_make(-1, -1, -1, 1, -1, -1, -1, 3, -1, -1, -1, 5, -1, -1, -1, 7);
  return (wholes){wasm_i32x4_shr(wasm_i8x16_swizzle(v, even), 24), wasm_i32x4_shr(wasm_i8x16_swizzle(v, odd), 24)};
}

// Signed or unsigned bytes as the numbers of half a block.
INLINE void widen(v128_t bytes, v128_t *w) {
  w[0] = wasm_i16x8_extend_low_i8x16(bytes);
  w[1] = wasm_i16x8_extend_high_i8x16(bytes);
}

INLINE v128_t bytes_of(i8 x) { return wasm_i8x16_splat(x); }

// Field `bits` wide at bit `shift` of each byte.
INLINE v128_t field(v128_t v, u32 shift, i8 mask) {
  return wasm_v128_and(shift ? wasm_u16x8_shr(v, shift) : v, bytes_of(mask));
}

// The fifth bits of half a block: bit i of two bytes as 16 in byte i.
INLINE v128_t fifth_bits(v128_t two) {
  v128_t bit = wasm_i8x16_make(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
  return wasm_v128_and(wasm_i8x16_eq(wasm_v128_and(two, bit), bit), bytes_of(16));
}

// The bytes of numbers of a group, or of the superblock that holds it.
INLINE u32 group_bytes(u32 format) {
  switch (format) {
    case Q8_0:
      return 128;
    case Q5_0:
    case Q5_1:
      return 80;
    case Q2_K:
      return 32;
    case Q3_K:
      return 96;
    case Q5_K:
      return 160;
    case Q6_K:
      return 192;
  }
  return 64;  // Q4_0, Q4_1, IQ4_NL, Q4_K
}

INLINE u32 by_superblocks(u32 format) { return format == Q3_K || format == Q5_K || format == Q6_K; }

// The numbers of group g of a row, of which `whole` has all its blocks. Its loads have constant offsets from one
// pointer, and wazero compares each with the size of the memory unless it has compared a later one: so the last byte is
// read first.
INLINE const u8 *group_of(u32 format, const u8 *q, u32 g, u32 whole) {
  q += (by_superblocks(format) ? g / 2 : g) * group_bytes(format);
  __asm__("" : "+r"(q));
  if (whole) (void)*((const volatile u8 *)q + group_bytes(format) - 1);
  return q;
}

// The numbers of block j of a group, the g-th of its row, without whole scales.
INLINE void unpack_block(u32 format, const u8 *q, u32 g, u32 j, v128_t *w) {
  u32 upper = g % 2;
  switch (format) {
    case Q8_0:
      for (u32 i = 0; i < 4; i++) w[i] = wasm_i16x8_load8x8(q + 32 * j + 8 * i);
      break;
    case Q4_0:
    case Q4_1:
    case IQ4_NL: {
      v128_t v = wasm_v128_load(q + j * 16), low = field(v, 0, 15), high = field(v, 4, 15);
      if (format == Q4_0) low = wasm_i8x16_sub(low, bytes_of(8)), high = wasm_i8x16_sub(high, bytes_of(8));
      if (format == IQ4_NL) {
        v128_t levels = wasm_i8x16_make(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
        low = wasm_i8x16_swizzle(levels, low), high = wasm_i8x16_swizzle(levels, high);
      }
      widen(low, w);
      widen(high, w + 2);
      break;
    }
    case Q5_0:
    case Q5_1: {
      q += j * 20;
      v128_t v = wasm_v128_load(q + 4), bits = wasm_v128_load32_splat(q);
      v128_t low = wasm_i8x16_shuffle(bits, bits, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
      v128_t high = wasm_i8x16_shuffle(bits, bits, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
      low = wasm_v128_or(field(v, 0, 15), fifth_bits(low));
      high = wasm_v128_or(field(v, 4, 15), fifth_bits(high));
      if (format == Q5_0) low = wasm_i8x16_sub(low, bytes_of(16)), high = wasm_i8x16_sub(high, bytes_of(16));
      widen(low, w);
      widen(high, w + 2);
      break;
    }
    case Q2_K:
      for (u32 i = 0; i < 2; i++) widen(field(wasm_v128_load(q + 16 * i), 2 * j, 3), w + 2 * i);
      break;
    case Q3_K:
      for (u32 i = 0; i < 2; i++) {
        v128_t third = wasm_u16x8_shr(wasm_v128_load(q + 16 * i), 4 * upper);
        third = field(j == 3 ? wasm_u16x8_shr(third, 1) : wasm_i16x8_shl(third, 2 - j), 0, 4);
        v128_t v = wasm_v128_or(field(wasm_v128_load(q + 32 + 32 * upper + 16 * i), 2 * j, 3), third);
        widen(wasm_i8x16_sub(v, bytes_of(4)), w + 2 * i);
      }
      break;
    case Q4_K:
      q += j / 2 * 32;
      for (u32 i = 0; i < 2; i++) widen(field(wasm_v128_load(q + 16 * i), j % 2 * 4, 15), w + 2 * i);
      break;
    case Q5_K:
      for (u32 i = 0; i < 2; i++) {
        v128_t fifth = wasm_u16x8_shr(wasm_v128_load(q + 16 * i), 4 * upper);
        fifth = field(wasm_i16x8_shl(fifth, 4 - j), 0, 16);
        v128_t v = wasm_v128_load(q + 32 + upper * 64 + j / 2 * 32 + 16 * i);
        widen(wasm_v128_or(field(v, j % 2 * 4, 15), fifth), w + 2 * i);
      }
      break;
    case Q6_K:
      for (u32 i = 0; i < 2; i++) {
        v128_t high = wasm_v128_load(q + 128 + 32 * upper + 16 * i);
        high = field(j < 2 ? wasm_i16x8_shl(high, 4 - 2 * j) : j == 3 ? wasm_u16x8_shr(high, 2) : high, 0, 48);
        v128_t v = wasm_v128_load(q + 64 * upper + j % 2 * 32 + 16 * i);
        v = wasm_v128_or(field(v, j / 2 * 4, 15), high);
        widen(wasm_i8x16_sub(v, bytes_of(32)), w + 2 * i);
      }
      break;
  }
}

INLINE void unpack_to(u32 format, const u8 *q, u32 g, u32 j, const i32 (*whole)[4], i16 *w) {
  v128_t v[4];
  unpack_block(format, q, g, j, v);
  for (u32 e = 0; e < 4; e++) {
    if (has_wholes(format)) v[e] = wasm_i16x8_mul(v[e], wasm_i16x8_splat((i16)whole[e / 2][j]));
    wasm_v128_store(w + 32 * j + 8 * e, v[e]);
  }
}

// Unpacks group g of a row, which has n blocks, to numbers (n, 32), which include whole scales, and to scales and
// offsets (4).
INLINE void unpack_group(u32 format, const u8 *q, const u32 *s, u32 g, u32 n, i16 *w, f32 *scale, f32 *const *offset) {
  scales of = unpack_scales(format, s, g, n);
  wasm_v128_store(scale, of.scale);
  for (u32 o = 0; o < offsets_of(format); o++) wasm_v128_store(offset[o], of.offset[o]);
  i32 whole[2][4];
  if (has_wholes(format)) {
    wholes v = unpack_wholes(format, s, g);
    wasm_v128_store(whole[0], v.first);
    wasm_v128_store(whole[1], v.second);
  }
  q = group_of(format, q, g, in_superblocks(format));
  if (in_superblocks(format)) {
    unpack_to(format, q, g, 0, whole, w);
    unpack_to(format, q, g, 1, whole, w);
    unpack_to(format, q, g, 2, whole, w);
    unpack_to(format, q, g, 3, whole, w);
  } else {
    for (u32 j = 0; j < n; j++) unpack_to(format, q, g, j, whole, w);
  }
}

// Four weights of a format without scales, from column k on.
INLINE v128_t unpack_floats(u32 format, const u8 *q, u32 k) {
  if (format == F32) return wasm_v128_load(q + 4 * k);
  if (format == BF16) {
    v128_t h = wasm_v128_load64_zero(q + 2 * k), zero = wasm_i32x4_splat(0);
    return wasm_i16x8_shuffle(zero, h, 0, 8, 1, 9, 2, 10, 3, 11);
  }
  return from_f16x4(wasm_i32x4_load16x4(q + 2 * k));
}

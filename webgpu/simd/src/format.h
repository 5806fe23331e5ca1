// The formats of weights, as kernels.Format numbers them and unpack_*.wgsl describes them.
//
// Weights of a quantised format are unpacked to unsigned bytes, those of Q8_0 to signed ones: a weight is (number -
// excess) · scale + offset, with the excess of the format. A block is 32 weights with one scale and no, one or two
// offsets (two: of 16 weights each); a group is four blocks, whose scales are the lanes of one vector. Some formats
// have a whole scale for each half of a block too. Times it, the largest number is 4096, in Q6_K.
#pragma once
#ifdef BYTES256
#include "bytes256.h"
#else
#include "bytes.h"
#endif

enum { F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4, Q1_0, Q2_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, FORMATS };

// Expands X for each format with scales.
#define QUANTISED(X)                                                                                        \
  X(Q8_0) X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(IQ4_NL) X(MXFP4) X(Q1_0) X(Q2_0) X(Q2_K) X(Q3_K) X(Q4_K)    \
  X(Q5_K) X(Q6_K)

// What distinguishes the formats. Words of scales are those of a block, or of a superblock of 256 from Q2_K on.
// Arguments called `format` and `j` are constants where these functions are inlined.
INLINE u32 offsets_of(u32 format) {
  return format == Q2_K ? 2 : format == Q4_1 || format == Q5_1 || format == Q4_K || format == Q5_K;
}
// Whether numbers of four bits are places in a table.
INLINE u32 has_levels(u32 format) { return format == IQ4_NL || format == MXFP4; }
INLINE u32 has_wholes(u32 format) { return format == Q2_K || format == Q3_K || format == Q6_K; }
// The bits of the unsigned numbers.
INLINE u32 number_bits(u32 format) {
  switch (format) {
    case Q1_0:
    case Q2_0:
    case Q2_K:
      return 2;
    case Q3_K:
      return 3;
    case Q4_0:
    case Q4_1:
    case Q4_K:
      return 4;
    case Q5_0:
    case Q5_1:
    case MXFP4:
    case Q5_K:
      return 5;
    case Q6_K:
      return 6;
  }
  return 8;
}
// Whether a number is half of what it stands for, so that a sum is doubled and not each number.
INLINE u32 doubled(u32 format) { return PER > 1 && format == Q1_0; }
// Whether x is in planes of bytes, see quantise.h.
INLINE u32 in_planes(u32 format) { return format != Q8_0 && number_bits(format) <= PLANES; }
// Whether the first group of a unit is of its even, and the second of its odd blocks: the two in a byte stay together
// longer.
INLINE u32 in_pairs(u32 format) { return PER > 1 && format == Q4_K; }
// Whether the numbers of a byte are crossed together too, which are of a block's two halves.
INLINE u32 in_halves(u32 format) {
  return PER > 1 && in_planes(format) && (format == Q4_0 || format == Q4_1 || has_levels(format));
}
INLINE u32 in_superblocks(u32 format) { return format >= Q2_K; }
INLINE u32 quantised(u32 format) { return format >= Q8_0; }

// Weights of a step, in which parameters count columns: see kernels.Format.Step.
static inline u32 step_of(u32 format) { return format <= Q8_0 ? 4 : 8; }

// Bytes of a row of weights and of its scales.
static inline u32 row_bytes(u32 format, u32 cols) {
  static const u8 words[FORMATS] = {32, 16, 16, 8, 4, 4, 5, 5, 4, 4, 1, 2, 2, 3, 4, 5, 6};  // of 32 weights
  return cols / 4 * words[format] / 2;
}
static inline u32 scale_bytes(u32 format, u32 cols) {
  static const u8 words[FORMATS] = {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 4, 6, 6, 5};
  return cols / (in_superblocks(format) ? 256 : format == Q1_0 ? 128 : format == Q2_0 ? 64 : 32) * 4 * words[format];
}

// A unit is a group, or a superblock of two for formats that have them. Functions of a unit take the group in it.
INLINE u32 unit_groups(u32 format) { return in_superblocks(format) ? 2 : 1; }
INLINE u32 unit_words(u32 format) {
  switch (format) {
    case Q4_K:
    case Q5_K:
      return 6;
    case Q2_K:
    case Q6_K:
      return 5;
    case Q1_0:
      return 1;
    case Q2_0:
      return 2;
  }
  return 4;
}

// The scales and offsets of a group, for each of two rows of weights.
typedef struct {
  lanes scale, offset[2];
} scales;

// The first n of four words, then zeros.
INLINE v128_t load_words(const void *at, u32 n) {
  const u32 *w = at;
  return wasm_u32x4_make(w[0], n > 1 ? w[1] : 0, n > 2 ? w[2] : 0, n > 3 ? w[3] : 0);
}
INLINE lanes join_words(const void *a, const void *b, u32 n) {
  return n == 4 ? load_lanes(a, b) : join(load_words(a, n), load_words(b, n));
}

// The scales of two blocks of 64, of which the second exists if n > 2.
INLINE v128_t two_words(const void *at, u32 n) {
  v128_t v = n > 2 ? wasm_v128_load64_zero(at) : load_words(at, 1);
  return wasm_i32x4_shuffle(v, v, 0, 0, 1, 1);
}

// Four bytes as floats.
INLINE v128_t floats(u32 four) {
  v128_t apart = wasm_i8x16_make(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1);
  return wasm_f32x4_convert_i32x4(wasm_i8x16_swizzle(wasm_i32x4_splat((i32)four), apart));
}

// The offsets of a group of Q2_K: those of the first, or of the second halves of its blocks.
INLINE v128_t offsets_q2_k(const u32 *s, u32 upper, u32 second) {
  v128_t factor = wasm_f32x4_neg(high_halves(wasm_i32x4_splat((i32)s[4])));
  v128_t least = wasm_u8x16_shr(wasm_v128_load64_zero(s + 2 * upper), 4);
  least = wasm_i8x16_shuffle(least, least, 0, 2, 4, 6, 1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return wasm_f32x4_mul(factor, floats((u32)(second ? wasm_i32x4_extract_lane(least, 1)
                                                    : wasm_i32x4_extract_lane(least, 0))));
}

// The scales of a group of units a and b, which has n blocks.
INLINE scales unpack_scales(u32 format, const u32 *a, const u32 *b, u32 upper, u32 n) {
  scales r = {};
  switch (format) {
    case Q8_0:
    case Q4_0:
    case Q5_0:
    case IQ4_NL:
    case MXFP4:
      r.scale = join_words(a, b, n);
      break;
    case Q1_0:
      r.scale = splat_words(a, b);
      break;
    case Q2_0:
      r.scale = join(two_words(a, n), two_words(b, n));
      break;
    case Q4_1:
    case Q5_1: {
      v128_t v = load_words(a, n), w = load_words(b, n);
      r.scale = join(low_halves(v), low_halves(w));
      r.offset[0] = join(high_halves(v), high_halves(w));
      break;
    }
    case Q2_K:
      r.scale = join(low_halves(wasm_i32x4_splat((i32)a[4])), low_halves(wasm_i32x4_splat((i32)b[4])));
      for (u32 i = 0; i < 2; i++) r.offset[i] = join(offsets_q2_k(a, upper, i), offsets_q2_k(b, upper, i));
      break;
    case Q3_K:
      r.scale = splat_words(a, b);
      break;
    case Q4_K:
    case Q5_K: {
      float_pairs p = load_pairs((const u8 *)(a + 2), (const u8 *)(b + 2), upper);  // of a scale and a minimum
      r.scale = mul_lanes(splat_words(a, b), p.even);
      r.offset[0] = mul_lanes(negate_lanes(splat_words(a + 1, b + 1)), p.odd);
      break;
    }
    case Q6_K:
      r.scale = splat_words(a + 4, b + 4);
      break;
  }
  return r;
}

// The whole scales of a group of a unit.
INLINE wholes unpack_wholes(u32 format, const u32 *s, u32 upper) {
  v128_t v;
  if (format == Q2_K) {
    v = wasm_v128_and(wasm_v128_load64_zero(s + 2 * upper), wasm_i8x16_splat(15));
  } else if (format == Q3_K) {
    v = wasm_v128_and(wasm_u16x8_shr(wasm_v128_load64_zero(s + 1), 4 * upper), wasm_i8x16_splat(15));
    u32 high = s[3] >> (4 * upper);
    v = wasm_v128_or(v, wasm_i32x4_make((i32)(high << 4 & 0x30303030), (i32)(high << 2 & 0x30303030), 0, 0));
    v = wasm_i8x16_sub(v, wasm_i8x16_splat(32));
  } else {
    v = wasm_v128_load64_zero(s + 2 * upper);
  }
  return wholes_of(v);
}

// The excess of numbers.
INLINE u32 excess(u32 format) {
  switch (format) {
    case Q1_0:
    case Q2_0:
      return 1;
    case Q3_K:
      return 4;
    case Q4_0:
      return 8;
    case Q5_0:
      return 16;
    case Q6_K:
      return 32;
    case MXFP4:
      return 12;
    case IQ4_NL:
      return 128;
  }
  return 0;
}

// The bytes of numbers of a unit.
INLINE u32 unit_bytes(u32 format) {
  switch (format) {
    case Q8_0:
      return 128;
    case Q1_0:
      return 16;
    case Q2_0:
      return 32;
    case Q5_0:
    case Q5_1:
      return 80;
    case Q4_0:
    case Q4_1:
    case IQ4_NL:
    case MXFP4:
    case Q2_K:
      return 64;
    case Q3_K:
      return 96;
    case Q4_K:
      return 128;
    case Q5_K:
      return 160;
  }
  return 192;  // Q6_K
}

// Has loads from an address have constant offsets: clang would keep two addresses in a vector. wazero compares the end
// of each load with the size of the memory unless it compared a later one, so the last of `size` bytes is read first.
#ifdef __wasm__
#define LOADS_FROM(at, size)                          \
  do {                                                \
    __asm__("" : "+r"(at));                           \
    (void)*((const volatile u8 *)(at) + (size) - 1);  \
  } while (0)
#else
#define LOADS_FROM(at, size) __asm__("" : "+r"(at))
#endif

// The levels of numbers and the excess.
INLINE v128_t table_of(u32 format) {
  if (format == MXFP4) return wasm_i8x16_make(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  return wasm_i8x16_make(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15);
}

// The numbers of block j of a group of a unit. Q8_0 has none: its weights are signed.
INLINE bytes unpack_block(u32 format, const u8 *q, u32 upper, u32 j) {
  if (has_levels(format)) return look_up(table_of(format), nibbles(q + 16 * j));
  switch (format) {
    case Q5_0:
    case Q5_1:
      return or_bytes(nibbles(q + 20 * j + 4), fifths(q + 20 * j));
    case Q1_0:
      return two_fields(q, 2 * j, 1, !doubled(format));
    case Q2_0:
      return two_fields(q + j / 2 * 16, j % 2 * 4, 2, 0);
    case Q2_K:
      return field(load_bytes(q + 32 * upper), 2 * j, 0, 3);
    case Q3_K:
      return or_bytes(field(load_bytes(q + 32 + 32 * upper), 2 * j, 0, 3),
                      field(load_bytes(q), 4 * upper + j, 2, 4));
    case Q4_K:
      return field(load_bytes(q + 64 * upper + j / 2 * 32), j % 2 * 4, 0, 15);
    case Q5_K:
      return or_bytes(field(load_bytes(q + 32 + upper * 64 + j / 2 * 32), j % 2 * 4, 0, 15),
                      field(load_bytes(q), 4 * upper + j, 4, 16));
    case Q6_K:
      return or_bytes(field(load_bytes(q + 64 * upper + j % 2 * 32), j / 2 * 4, 0, 15),
                      field(load_bytes(q + 128 + 32 * upper), 2 * j, 4, 48));
  }
  return nibbles(q + 16 * j);  // Q4_0, Q4_1
}

// The same in the order of x: see quantise.h.
INLINE numbers unpack_numbers(u32 format, const u8 *q, u32 upper, u32 j) {
  if (format == Q8_0) return signed_numbers(q + 32 * j);
#ifdef BYTE_PRODUCTS
  if (in_planes(format)) return in_bytes(unpack_block(format, q, upper, j));
#endif
  if (format == Q4_0 || format == Q4_1) return all_nibbles(q + 16 * j);
#ifndef BYTES256
  if (format == Q1_0) return four_fields(q, 2 * j, 1, 1);
  if (format == Q2_0) return four_fields(q + j / 2 * 16, j % 2 * 4, 2, 0);
#endif
  if (format == Q4_K) return four_bits(load_bytes(q + 64 * upper + j / 2 * 32), j % 2);
  return apart(unpack_block(format, q, upper, j));
}

#ifdef BYTES256
// The numbers of a group, which has n blocks, of a unit.
INLINE crossed unpack_crossed(u32 format, const u8 *q, u32 upper, u32 n) {
  if (in_halves(format)) {
    crossed c = cross_halves(load_halves(q, (i32)n), load_halves(q + 32, (i32)n - 2));
    UNROLL for (u32 k = 0; k < 4; k++)
      if (has_levels(format)) c.v[k] = look_up(table_of(format), c.v[k]);
    return c;
  }
  if (format == Q1_0) return cross_bits(q);
  if (format == Q2_0) return cross_pairs(q, n);
  if (in_pairs(format)) {
    crossed c = cross(load_bytes(q), load_bytes(q + 32), load_bytes(q + 64), load_bytes(q + 96));
    UNROLL for (u32 k = 0; k < 4; k++) c.v[k] = field(c.v[k], 4 * upper, 0, 15);
    return c;
  }
  bytes b[4];
  UNROLL for (u32 j = 0; j < 4; j++) b[j] = j < n ? unpack_block(format, q, upper, j) : no_bytes();
  return cross(b[0], b[1], b[2], b[3]);
}
#endif

// Stores the weights of half a block as numbers with a sign, times their whole scale.
INLINE void store_half(u32 format, v128_t half, i32 whole, i16 *w) {
  v128_t v[2] = {wasm_u16x8_extend_low_u8x16(half), wasm_u16x8_extend_high_u8x16(half)};
  for (u32 i = 0; i < 2; i++) {
    if (doubled(format)) v[i] = wasm_i16x8_add(v[i], v[i]);
    if (excess(format)) v[i] = wasm_i16x8_sub(v[i], wasm_i16x8_splat((i16)excess(format)));
    if (has_wholes(format)) v[i] = wasm_i16x8_mul(v[i], wasm_i16x8_splat((i16)whole));
    wasm_v128_store(w + 8 * i, v[i]);
  }
}

INLINE void unpack_to(u32 format, const u8 *q, u32 upper, u32 j, const i32 *whole, i16 *w) {
  w += 32 * j;
  if (format == Q8_0) {
    for (u32 i = 0; i < 32; i += 8) wasm_v128_store(w + i, wasm_i16x8_load8x8(q + 32 * j + i));
  } else {
    bytes v = unpack_block(format, q, upper, j);
    store_half(format, first_half(v), whole[j], w);
    store_half(format, last_half(v), whole[4 + j], w + 16);
  }
}

// Unpacks group g of a row, which has n blocks, to numbers (n, 32), which include whole scales, and to scales and
// offsets (4).
INLINE void unpack_group(u32 format, const u8 *q, const u32 *s, u32 g, u32 n, i16 *w, f32 *scale, f32 *const *offset) {
  u32 groups = unit_groups(format), upper = g % groups;
  q += g / groups * unit_bytes(format), s += g / groups * unit_words(format);
  scales of = upper ? unpack_scales(format, s, s, 1, n) : unpack_scales(format, s, s, 0, n);
  wasm_v128_store(scale, part_of(of.scale, 0));
  for (u32 o = 0; o < offsets_of(format); o++) wasm_v128_store(offset[o], part_of(of.offset[o], 0));
  i32 whole[8] = {0};
  if (has_wholes(format)) {
    wholes v = unpack_wholes(format, s, upper);
    __builtin_memcpy(whole, &v, sizeof whole);
  }
  if (groups == 2 && upper)
    UNROLL for (u32 j = 0; j < 4; j++) unpack_to(format, q, 1, j, whole, w);
  else if (groups == 2)
    UNROLL for (u32 j = 0; j < 4; j++) unpack_to(format, q, 0, j, whole, w);
  else
    for (u32 j = 0; j < n; j++) unpack_to(format, q, 0, j, whole, w);
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

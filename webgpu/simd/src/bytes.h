// The parts of products, in vectors of 16 bytes; bytes256.h has the same in vectors of 32. A block is 32 numbers.
//
// Arguments called `format`, `wholes`, `shift` and `up` are constants where these functions are inlined.
#pragma once
#include "half.h"

#define INLINE static inline __attribute__((always_inline))
#define UNUSED __attribute__((unused))

// The most bits of numbers that an instruction multiplies as bytes.
#ifdef __wasm_relaxed_simd__
#define BYTE_PRODUCTS
#endif
#ifdef BYTE_PRODUCTS
enum { PLANES = 7 };
#else
enum { PLANES = 0 };
#endif

// Vectors of f32 have four lanes for each of PER pairs of a weight row and a row of x.
enum { PER = 1 };
typedef v128_t lanes;

// The unsigned numbers of a block: the first and the last 16.
typedef struct {
  v128_t a, b;
} bytes;

INLINE v128_t first_half(bytes v) { return v.a; }
INLINE v128_t last_half(bytes v) { return v.b; }
INLINE bytes load_bytes(const u8 *at) { return (bytes){wasm_v128_load(at), wasm_v128_load(at + 16)}; }
INLINE bytes or_bytes(bytes v, bytes w) { return (bytes){wasm_v128_or(v.a, w.a), wasm_v128_or(v.b, w.b)}; }

INLINE v128_t shifted(v128_t v, u32 shift, u32 up) {
  return shift > up ? wasm_u16x8_shr(v, shift - up) : shift < up ? wasm_i16x8_shl(v, up - shift) : v;
}

// The bits at `shift` of each byte, moved to `up`; mask is that of their new place.
INLINE bytes field(bytes v, u32 shift, u32 up, u8 mask) {
  v128_t bits = wasm_i8x16_splat((i8)mask);
  return (bytes){wasm_v128_and(shifted(v.a, shift, up), bits), wasm_v128_and(shifted(v.b, shift, up), bits)};
}

// The lower, then the upper four bits of 16 bytes.
INLINE bytes nibbles(const u8 *at) {
  v128_t v = wasm_v128_load(at), bits = wasm_i8x16_splat(15);
  return (bytes){wasm_v128_and(v, bits), wasm_v128_and(wasm_u16x8_shr(v, 4), bits)};
}

// The fields of some bits at `shift` of 16 bytes, and the next ones, moved to bits from `up` on.
INLINE bytes two_fields(const u8 *at, u32 shift, u32 width, u32 up) {
  v128_t v = wasm_v128_load(at), bits = wasm_i8x16_splat((i8)(((1 << width) - 1) << up));
  return (bytes){wasm_v128_and(shifted(v, shift, up), bits), wasm_v128_and(shifted(v, shift + width, up), bits)};
}

// Bit i of two bytes, as 16 in byte i.
INLINE v128_t fifth_bits(v128_t two) {
  v128_t bit = wasm_i8x16_make(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128);
  return wasm_v128_and(wasm_i8x16_eq(wasm_v128_and(two, bit), bit), wasm_i8x16_splat(16));
}
INLINE bytes fifths(const u8 *at) {
  v128_t v = wasm_v128_load32_splat(at);
  return (bytes){fifth_bits(wasm_i8x16_shuffle(v, v, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)),
                 fifth_bits(wasm_i8x16_shuffle(v, v, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3))};
}

// Entries of a table of 16.
INLINE bytes look_up(v128_t table, bytes at) {
  return (bytes){wasm_i8x16_swizzle(table, at.a), wasm_i8x16_swizzle(table, at.b)};
}

// The numbers in 16 bits and in the order of those of x: see quantise.h.
typedef struct {
  v128_t v[4];
} numbers;

INLINE numbers signed_numbers(const u8 *at) {
  return (numbers){{wasm_i16x8_load8x8(at), wasm_i16x8_load8x8(at + 8), wasm_i16x8_load8x8(at + 16),
                    wasm_i16x8_load8x8(at + 24)}};
}

INLINE v128_t even(v128_t v) { return wasm_v128_and(v, wasm_i16x8_splat(255)); }
INLINE v128_t odd(v128_t v) { return wasm_u16x8_shr(v, 8); }
INLINE numbers apart(bytes v) { return (numbers){{even(v.a), even(v.b), odd(v.a), odd(v.b)}}; }

// Four bits of each byte, the upper ones or the lower.
INLINE v128_t even_four(v128_t v, u32 upper) {
  return wasm_v128_and(upper ? wasm_u16x8_shr(v, 4) : v, wasm_i16x8_splat(15));
}
INLINE v128_t odd_four(v128_t v, u32 upper) {
  return upper ? wasm_u16x8_shr(v, 12) : wasm_v128_and(wasm_u16x8_shr(v, 8), wasm_i16x8_splat(15));
}
INLINE numbers four_bits(bytes v, u32 upper) {
  return (numbers){{even_four(v.a, upper), even_four(v.b, upper), odd_four(v.a, upper), odd_four(v.b, upper)}};
}
INLINE numbers all_nibbles(const u8 *at) {
  v128_t v = wasm_v128_load(at);
  return (numbers){{even_four(v, 0), even_four(v, 1), odd_four(v, 0), odd_four(v, 1)}};
}

// The numbers of two_fields.
INLINE v128_t field_of_16(v128_t v, u32 shift, u32 width, u32 up) {
  return wasm_v128_and(shifted(v, shift, up), wasm_i16x8_splat((i16)(((1 << width) - 1) << up)));
}
INLINE numbers four_fields(const u8 *at, u32 shift, u32 width, u32 up) {
  v128_t v = wasm_v128_load(at);
  return (numbers){{field_of_16(v, shift, width, up), field_of_16(v, shift + width, width, up),
                    field_of_16(v, shift + 8, width, up), field_of_16(v, shift + width + 8, width, up)}};
}

// Sums of products in integers. For a format with whole scales, `second` is that of the block's last 16.
typedef struct {
  v128_t first, second;
} sums;

// Has sums be computed here, while the weights are in registers: clang moves them to where they are needed.
INLINE void keep_sums(u32 wholes, sums *s) {
  KEEP(s->first);
  if (wholes) KEEP(s->second);
}
INLINE sums no_sums(void) { return (sums){wasm_i32x4_splat(0), wasm_i32x4_splat(0)}; }

#ifdef BYTE_PRODUCTS
// Adds products of signed bytes and of numbers of 7 bits. Engines of WebAssembly differ where a number has 8.
INLINE v128_t add_products(v128_t sum, const void *x, v128_t w) {
#ifdef __wasm__
  return (v128_t)__builtin_wasm_relaxed_dot_i8x16_i7x16_add_s_i32x4(wasm_v128_load(x), w, sum);
#else
  // clang 16 has the intrinsic only for programs that are compiled for such processors alone.
  __asm__("sdot %0.4s, %1.16b, %2.16b" : "+w"(sum) : "w"(wasm_v128_load(x)), "w"(w));
  return sum;
#endif
}

// The sums of a block, whose x is in planes of 32 upper bytes and 32 lower ones.
INLINE sums dot_planes(u32 wholes, numbers w, const i16 *x) {
  v128_t none = wasm_i32x4_splat(0), first = add_products(none, x, w.v[0]);
  if (!wholes) {
    first = wasm_i32x4_shl(add_products(first, x + 8, w.v[1]), 8);
    return (sums){add_products(add_products(first, x + 16, w.v[0]), x + 24, w.v[1]), none};
  }
  v128_t second = wasm_i32x4_shl(add_products(none, x + 8, w.v[1]), 8);
  return (sums){add_products(wasm_i32x4_shl(first, 8), x + 16, w.v[0]), add_products(second, x + 24, w.v[1])};
}
INLINE numbers in_bytes(bytes v) { return (numbers){{v.a, v.b}}; }
#endif

// Stores bytes of x: half a block's upper bytes, plane 0, or lower ones.
INLINE void store_plane(UNUSED u32 halves, i16 *group, u32 block, u32 plane, u32 half, v128_t v) {
  wasm_v128_store(group + 32 * block + 16 * plane + 8 * half, v);
}

INLINE sums dot_block(UNUSED u32 planes, u32 wholes, numbers w, const i16 *x) {
#ifdef BYTE_PRODUCTS
  if (planes) return dot_planes(wholes, w, x);
#endif
  v128_t a = wasm_i32x4_add(wasm_i32x4_dot_i16x8(w.v[0], wasm_v128_load(x)),
                            wasm_i32x4_dot_i16x8(w.v[2], wasm_v128_load(x + 16)));
  v128_t b = wasm_i32x4_add(wasm_i32x4_dot_i16x8(w.v[1], wasm_v128_load(x + 8)),
                            wasm_i32x4_dot_i16x8(w.v[3], wasm_v128_load(x + 24)));
  return wholes ? (sums){a, b} : (sums){wasm_i32x4_add(a, b), a};
}

// The sum of the lanes of each of four vectors, in two steps: of two of them, then of two such pairs.
INLINE v128_t pair_lanes(v128_t a, v128_t b) {
  return wasm_i32x4_add(wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), wasm_i32x4_shuffle(a, b, 2, 6, 3, 7));
}
INLINE v128_t four_lanes(v128_t ab, v128_t cd) {
  return wasm_i32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}
INLINE sums pair(u32 wholes, sums a, sums b) {
  return (sums){pair_lanes(a.first, b.first), wholes ? pair_lanes(a.second, b.second) : a.second};
}
INLINE sums four(u32 wholes, sums ab, sums cd) {
  return (sums){four_lanes(ab.first, cd.first), wholes ? four_lanes(ab.second, cd.second) : ab.second};
}

// Floats of four blocks for each of PER rows. Functions with arguments for two rows take the first PER of them.
INLINE lanes splat_lanes(f32 x) { return wasm_f32x4_splat(x); }
INLINE lanes add_lanes(lanes a, lanes b) { return wasm_f32x4_add(a, b); }
INLINE lanes mul_lanes(lanes a, lanes b) { return wasm_f32x4_mul(a, b); }
INLINE lanes negate_lanes(lanes v) { return wasm_f32x4_neg(v); }
INLINE v128_t part_of(lanes v, UNUSED u32 k) { return v; }
INLINE lanes join(v128_t a, UNUSED v128_t b) { return a; }
INLINE lanes load_lanes(const void *a, UNUSED const void *b) { return wasm_v128_load(a); }
INLINE lanes splat_words(const void *a, UNUSED const void *b) { return wasm_v128_load32_splat(a); }

// The even and the odd ones of the first or the upper eight bytes as floats.
typedef struct {
  lanes even, odd;
} float_pairs;
INLINE float_pairs load_pairs(const u8 *a, UNUSED const u8 *b, u32 upper) {
  v128_t v = wasm_u16x8_load8x8(a + 8 * upper);
  return (float_pairs){wasm_f32x4_convert_i32x4(wasm_v128_and(v, wasm_i32x4_splat(0xffff))),
                       wasm_f32x4_convert_i32x4(wasm_u32x4_shr(v, 16))};
}

// The whole scales of the first and of the second halves of four blocks.
typedef struct {
  v128_t first, second;
} wholes;

// Of eight bytes, two for each block.
INLINE wholes wholes_of(v128_t v) {
  v128_t evens = wasm_i8x16_make(-1, -1, -1, 0, -1, -1, -1, 2, -1, -1, -1, 4, -1, -1, -1, 6);
  v128_t odds = wasm_i8x16_make(-1, -1, -1, 1, -1, -1, -1, 3, -1, -1, -1, 5, -1, -1, -1, 7);
  return (wholes){wasm_i32x4_shr(wasm_i8x16_swizzle(v, evens), 24), wasm_i32x4_shr(wasm_i8x16_swizzle(v, odds), 24)};
}

// The sums of four blocks without whole scales.
typedef v128_t ints;
INLINE ints join_sums(UNUSED u32 halves, const sums *s) { return s->first; }
INLINE ints in_turn(ints a, UNUSED ints b, UNUSED u32 last) { return a; }
INLINE ints double_ints(ints v) { return wasm_i32x4_add(v, v); }
INLINE ints less_ints(ints v, const i32 *a, UNUSED const i32 *b) { return wasm_i32x4_sub(v, wasm_v128_load(a)); }

// The sums of four blocks times their whole scales, as floats. `less`, unless it is 0, is what to take off before: from
// the first, and then from the second halves of the blocks. `apart` adds the halves as floats.
INLINE lanes scaled_sums(u32 apart, const sums *s, const wholes *w, const i32 *less, UNUSED const i32 *other_less) {
  v128_t first = s->first, second = s->second;
  if (less) first = less_ints(first, less, less), second = less_ints(second, less + 4, less + 4);
  first = wasm_i32x4_mul(first, w->first), second = wasm_i32x4_mul(second, w->second);
  if (apart) return wasm_f32x4_add(wasm_f32x4_convert_i32x4(first), wasm_f32x4_convert_i32x4(second));
  return wasm_f32x4_convert_i32x4(wasm_i32x4_add(first, second));
}

// Vectors of LANES words, and sums of products of pairs of 16-bit numbers.
INLINE ints no_ints(void) { return wasm_i32x4_splat(0); }
INLINE ints load_ints(const void *at) { return wasm_v128_load(at); }
INLINE ints splat_ints(const void *at) { return wasm_v128_load32_splat(at); }
INLINE ints add_dot(ints sum, ints a, ints b) { return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(a, b)); }
INLINE lanes to_floats(ints v) { return wasm_f32x4_convert_i32x4(v); }
INLINE lanes load_floats(const f32 *at) { return wasm_v128_load(at); }
INLINE void store_floats(f32 *at, lanes v) { wasm_v128_store(at, v); }

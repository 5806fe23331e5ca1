// bytes.h in vectors of 32 bytes, with AVX2 and, where VNNI is defined, AVX-512's VNNI. Sums of a block and of two
// pairs of rows are the same integers.
#pragma once
#include <immintrin.h>
#include "half.h"

#define INLINE static inline __attribute__((always_inline))
#define UNUSED __attribute__((unused))

#ifdef VNNI
enum { PER = 2, PLANES = 8 };
#else
enum { PER = 2, PLANES = 6 };
#endif
typedef __m256 lanes;
typedef __m256i bytes;

INLINE v128_t first_half(bytes v) { return (v128_t)_mm256_castsi256_si128(v); }
INLINE v128_t last_half(bytes v) { return (v128_t)_mm256_extracti128_si256(v, 1); }
INLINE bytes load_bytes(const void *at) { return _mm256_loadu_si256(at); }
INLINE bytes no_bytes(void) { return _mm256_setzero_si256(); }
INLINE bytes or_bytes(bytes v, bytes w) { return _mm256_or_si256(v, w); }
INLINE bytes field(bytes v, u32 shift, u32 up, u8 mask) {
  v = shift > up ? _mm256_srli_epi16(v, (i32)(shift - up)) : shift < up ? _mm256_slli_epi16(v, (i32)(up - shift)) : v;
  return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}
INLINE __m256i twice(const void *at) { return _mm256_broadcastsi128_si256(_mm_loadu_si128(at)); }
INLINE __m256i upper_four(__m256i v) { return _mm256_srlv_epi32(v, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4)); }
INLINE bytes nibbles(const u8 *at) { return _mm256_and_si256(upper_four(twice(at)), _mm256_set1_epi8(15)); }
INLINE bytes two_fields(const u8 *at, i32 shift, i32 width, UNUSED u32 up) {
  i32 next = shift + width;
  __m256i by = _mm256_setr_epi32(shift, shift, shift, shift, next, next, next, next);
  return _mm256_and_si256(_mm256_srlv_epi32(twice(at), by), _mm256_set1_epi8((char)((1 << width) - 1)));
}
INLINE bytes fifths(const u8 *at) {
  i32 word;
  __builtin_memcpy(&word, at, 4);
  __m256i bit = _mm256_set1_epi64x((i64)0x8040201008040201), v = _mm256_set1_epi32(word);
  v = _mm256_shuffle_epi8(v, _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit), _mm256_set1_epi8(16));
}
INLINE bytes look_up(v128_t table, bytes at) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256((__m128i)table), at);
}

typedef struct {
  __m256i v[2];
} numbers;

INLINE numbers signed_numbers(const u8 *at) {
  return (numbers){{_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)at)),
                    _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(at + 16)))}};
}
INLINE numbers apart(bytes v) {
  return (numbers){{_mm256_and_si256(v, _mm256_set1_epi16(255)), _mm256_srli_epi16(v, 8)}};
}
INLINE numbers four_bits(bytes v, u32 upper) {
  __m256i bits = _mm256_set1_epi16(15);
  if (upper) return (numbers){{_mm256_and_si256(_mm256_srli_epi16(v, 4), bits), _mm256_srli_epi16(v, 12)}};
  return (numbers){{_mm256_and_si256(v, bits), _mm256_and_si256(_mm256_srli_epi16(v, 8), bits)}};
}
INLINE numbers all_nibbles(const u8 *at) { return four_bits(upper_four(twice(at)), 0); }

typedef __m256i ints;
INLINE ints add_dot(ints sum, ints a, ints b) {
#ifdef VNNI
  return _mm256_dpwssd_epi32(sum, a, b);
#else
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

// The sums of the first 16 numbers are in the lower half.
typedef ints sums;

INLINE void keep_sums(UNUSED u32 wholes, sums *s) { KEEP(*s); }
INLINE sums no_sums(void) { return _mm256_setzero_si256(); }
INLINE sums dot_block(UNUSED u32 planes, UNUSED u32 wholes, numbers w, const i16 *x) {
  return add_dot(_mm256_madd_epi16(w.v[0], load_bytes(x)), w.v[1], load_bytes(x + 16));
}
INLINE sums pair(UNUSED u32 wholes, sums a, sums b) {
  return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
INLINE sums four(UNUSED u32 wholes, sums ab, sums cd) {
  return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

// Vectors with four numbers of each of four blocks: those of the first 16 in the lower half. Sums of products with them
// are in their lanes, where the lanes of a block's sum would have to be added.
typedef struct {
  bytes v[4];
} crossed;

INLINE crossed cross(bytes a, bytes b, bytes c, bytes d) {
  bytes ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
  bytes ab2 = _mm256_unpackhi_epi32(a, b), cd2 = _mm256_unpackhi_epi32(c, d);
  return (crossed){{_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd), _mm256_unpacklo_epi64(ab2, cd2),
                    _mm256_unpackhi_epi64(ab2, cd2)}};
}

// The same of two times two blocks, each byte a number of the first and one of the last 16: a vector has two times two
// numbers of each block, of one half.
INLINE crossed cross_halves(bytes ab, bytes cd) {
  bytes first = _mm256_unpacklo_epi32(ab, cd), last = _mm256_unpackhi_epi32(ab, cd);
  return (crossed){{field(first, 0, 0, 15), field(first, 4, 0, 15), field(last, 0, 0, 15), field(last, 4, 0, 15)}};
}

// The same of 16 bytes each of which has a bit of every half of four blocks, or of two times 16 with pairs of bits of
// the halves of two blocks. A shift of lanes crosses: a byte is of the same four numbers in every half.
INLINE __m256i splat_word(const u8 *at) { return _mm256_castps_si256(_mm256_broadcast_ss((const void *)at)); }
INLINE crossed cross_bits(const u8 *at) {
  __m256i by = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7), bit = _mm256_set1_epi8(1);
  crossed c;
  UNROLL for (u32 k = 0; k < 4; k++)
    c.v[k] = _mm256_and_si256(_mm256_srlv_epi32(splat_word(at + 4 * k), by), bit);
  return c;
}
INLINE crossed cross_pairs(const u8 *at, u32 n) {
  __m256i by = _mm256_setr_epi32(0, 4, 0, 4, 2, 6, 2, 6), bits = _mm256_set1_epi8(3);
  __m256 a = _mm256_castsi256_ps(twice(at)), b = _mm256_castsi256_ps(n > 2 ? twice(at + 16) : no_bytes());
  __m256 words[] = {_mm256_shuffle_ps(a, b, 0), _mm256_shuffle_ps(a, b, 0x55), _mm256_shuffle_ps(a, b, 0xaa),
                    _mm256_shuffle_ps(a, b, 0xff)};
  crossed c;
  UNROLL for (u32 k = 0; k < 4; k++)
    c.v[k] = _mm256_and_si256(_mm256_srlv_epi32(_mm256_castps_si256(words[k]), by), bits);
  return c;
}

// 32 bytes, of which n times 16 exist; zeros stand for others.
INLINE bytes load_halves(const u8 *at, i32 n) {
  if (n >= 2) return load_bytes(at);
  return n == 1 ? _mm256_zextsi128_si256(_mm_loadu_si128((const void *)at)) : no_bytes();
}

// Stores the bytes of half a block of x for them: upper ones, plane 0, or lower ones.
INLINE void store_plane(u32 halves, i16 *group, u32 block, u32 plane, u32 half, v128_t v) {
  i32 *to = (i32 *)group + 32 * plane;
  for (u32 k = 0; k < 4; k++)
    to[halves ? 16 * (k / 2) + 8 * half + 4 * (block % 2) + 2 * (k % 2) + block / 2 : 8 * k + 4 * half + block] = v[k];
}

// The sums of four blocks of each of W rows, with numbers of some bits.
#ifdef VNNI
INLINE void dot_crossed(UNUSED u32 bits, u32 W, const crossed *w, const i16 *x, sums *const *to) {
  ints upper[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, lower[2] = {upper[0], upper[0]};
  UNROLL for (u32 k = 0; k < 4; k++)
    UNROLL for (u32 r = 0; r < W; r++) {
      upper[r] = _mm256_dpbusd_epi32(upper[r], w[r].v[k], load_bytes(x + 16 * k));
      lower[r] = _mm256_dpbusd_epi32(lower[r], w[r].v[k], load_bytes(x + 64 + 16 * k));
    }
  UNROLL for (u32 r = 0; r < W; r++) *to[r] = _mm256_add_epi32(_mm256_slli_epi32(upper[r], 8), lower[r]);
}
#else
// The sums with a plane. 16 bits have room for two products of numbers of six bits, or for four of five.
INLINE ints dot_plane(u32 bits, const crossed *w, const i16 *x, i16 factor) {
  __m256i v[4], by = _mm256_set1_epi16(factor);
  UNROLL for (u32 k = 0; k < 4; k++) v[k] = _mm256_maddubs_epi16(w->v[k], load_bytes(x + 16 * k));
  __m256i a = _mm256_add_epi16(v[0], v[1]), b = _mm256_add_epi16(v[2], v[3]);
  if (bits <= 5) return _mm256_madd_epi16(_mm256_add_epi16(a, b), by);
  return _mm256_add_epi32(_mm256_madd_epi16(a, by), _mm256_madd_epi16(b, by));
}
INLINE void dot_crossed(u32 bits, u32 W, const crossed *w, const i16 *x, sums *const *to) {
  UNROLL for (u32 r = 0; r < W; r++)
    *to[r] = _mm256_add_epi32(dot_plane(bits, w + r, x, 256), dot_plane(bits, w + r, x + 64, 1));
}
#endif

INLINE lanes splat_lanes(f32 x) { return _mm256_set1_ps(x); }
INLINE lanes add_lanes(lanes a, lanes b) { return _mm256_add_ps(a, b); }
INLINE lanes mul_lanes(lanes a, lanes b) { return _mm256_mul_ps(a, b); }
INLINE lanes negate_lanes(lanes v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
INLINE v128_t part_of(lanes v, u32 k) {
  return (v128_t)(k ? _mm256_extractf128_ps(v, 1) : _mm256_castps256_ps128(v));
}
INLINE lanes join(v128_t a, v128_t b) { return _mm256_set_m128((__m128)b, (__m128)a); }
// Whether the compiler knows two addresses to be the same.
#define same(a, b) (__builtin_constant_p((a) == (b)) && (a) == (b))
INLINE lanes load_lanes(const void *a, const void *b) {
  if (same(a, b)) return _mm256_broadcast_ps(a);
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
}
INLINE lanes splat_words(const void *a, const void *b) {
  if (same(a, b)) return _mm256_broadcast_ss(a);
  return _mm256_blend_ps(_mm256_broadcast_ss(a), _mm256_broadcast_ss(b), 0xf0);
}

typedef struct {
  lanes even, odd;
} float_pairs;
// Every second of eight bytes, in each half of v.
INLINE lanes float_bytes(__m256i v, i8 from) {
  __m128i at = _mm_setr_epi8(from, -1, -1, -1, (i8)(from + 2), -1, -1, -1, (i8)(from + 4), -1, -1, -1, (i8)(from + 6),
                             -1, -1, -1);
  return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(at)));
}
INLINE float_pairs load_pairs(const void *a, const void *b, u32 upper) {
  __m256i v = (__m256i)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
  return (float_pairs){float_bytes(v, (i8)(8 * upper)), float_bytes(v, (i8)(8 * upper + 1))};
}

typedef __m256i wholes;
INLINE wholes wholes_of(v128_t v) {
  return _mm256_cvtepi8_epi32(_mm_shuffle_epi8((__m128i)v, _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, -1, -1, -1, -1, -1,
                                                                         -1, -1, -1)));
}

INLINE ints join_sums(u32 halves, const sums *s) {
  if (halves) {
    ints v = _mm256_add_epi32(_mm256_unpacklo_epi64(s[0], s[1]), _mm256_unpackhi_epi64(s[0], s[1]));
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
  return _mm256_add_epi32(_mm256_blend_epi32(s[0], s[1], 0xf0), _mm256_permute2x128_si256(s[0], s[1], 0x21));
}
INLINE ints in_turn(ints a, ints b, u32 last) {
  return last ? _mm256_unpackhi_epi32(a, b) : _mm256_unpacklo_epi32(a, b);
}
INLINE ints double_ints(ints v) { return _mm256_add_epi32(v, v); }
INLINE ints less_ints(ints v, const i32 *a, const i32 *b) { return _mm256_sub_epi32(v, (__m256i)load_lanes(a, b)); }
INLINE lanes scaled_sums(u32 apart, const sums *s, const wholes *w, const i32 *less, const i32 *other_less) {
  __m256i a = s[0], b = s[1];
  if (less) a = _mm256_sub_epi32(a, load_bytes(less)), b = _mm256_sub_epi32(b, load_bytes(other_less));
  a = _mm256_mullo_epi32(a, w[0]), b = _mm256_mullo_epi32(b, w[1]);
  if (!apart) return _mm256_cvtepi32_ps(join_sums(0, (sums[]){a, b}));
  lanes f = _mm256_cvtepi32_ps(a), g = _mm256_cvtepi32_ps(b);
  return _mm256_add_ps(_mm256_blend_ps(f, g, 0xf0), _mm256_permute2f128_ps(f, g, 0x21));
}

INLINE ints no_ints(void) { return _mm256_setzero_si256(); }
INLINE ints load_ints(const void *at) { return _mm256_loadu_si256(at); }
INLINE ints splat_ints(const void *at) { return _mm256_castps_si256(_mm256_broadcast_ss(at)); }
INLINE lanes to_floats(ints v) { return _mm256_cvtepi32_ps(v); }
INLINE lanes load_floats(const f32 *at) { return _mm256_loadu_ps(at); }
INLINE void store_floats(f32 *at, lanes v) { _mm256_storeu_ps(at, v); }

// Activations in 16 bits: 32 of them share a scale, the largest magnitude over 32639.
#pragma once
#include "format.h"
#include "reduce.h"

// A group of a row of x. A block has the order in which its weights are unpacked: numbers at even places, then those at
// odd ones; for Q8_0 all in their order; in planes the upper bytes of all, then the lower ones.
// A sum is of a block, times its scale, or of each half of a block for a format with two offsets. For a format with
// an excess it is an integer, the excess times the sum.
typedef struct {
  i16 x[128];
  f32 scale[4], sum[2][4];
  u32 unused[4];  // a group is whole cache lines
} group;

// A wide tile of m rows of x. Pairs of neighbours are together: x is (blocks, 16, m, 2), scale is (blocks, m), and each
// sum too. Blocks are rounded up to whole groups, with scales of zero.
typedef struct {
  i16 *x;
  f32 *scale, *sum[2];
} tile;

static inline u32 groups_of(u32 cols) { return (cols + 127) / 128; }

// Bytes of a row of x, in a tile or of its own.
static inline u32 quantised_bytes(u32 cols) { return groups_of(cols) * sizeof(group); }

static inline tile tile_at(u8 *at, u32 m, u32 cols) {
  u32 blocks = 4 * groups_of(cols);
  f32 *scale = (f32 *)(at + 64 * blocks * m);
  return (tile){(i16 *)at, scale, {scale + blocks * m, scale + 2 * blocks * m}};
}

static inline i32 sum_numbers(v128_t a, v128_t b) {
  v128_t one = wasm_i16x8_splat(1);
  v128_t v = wasm_i32x4_add(wasm_i32x4_dot_i16x8(a, one), wasm_i32x4_dot_i16x8(b, one));
  v = wasm_i32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
  return wasm_i32x4_extract_lane(v, 0) + wasm_i32x4_extract_lane(v, 1);
}

// Quantises a block. It returns the scale: NaN if an activation is not finite, which makes all sums NaN.
static inline f32 quantise_block(const f32 *x, v128_t *w) {
  v128_t v[8], most = wasm_i32x4_splat(0);
  for (u32 i = 0; i < 8; i++) {
    v[i] = wasm_v128_load(x + 4 * i);
    // Magnitudes have the order of their bits, in which NaN is above ∞.
    most = wasm_i32x4_max(most, wasm_v128_and(v[i], wasm_i32x4_splat(0x7fffffff)));
  }
  most = wasm_i32x4_max(most, wasm_i32x4_shuffle(most, most, 2, 3, 0, 1));
  most = wasm_i32x4_max(most, wasm_i32x4_shuffle(most, most, 1, 0, 3, 2));
  u32 bits = (u32)wasm_i32x4_extract_lane(most, 0);
  f32 largest = as_f32(bits), up = largest < 0x1p-60f ? 0x1p100f : 1;  // the inverse stays finite
  f32 scale = largest * up / 32639 / up, inverse = bits == 0 ? 0 : 32639 / (largest * up);
  if (bits >= 0x7f800000) scale = __builtin_nanf(""), inverse = 0;
  // A sum with 1.5·2^23 rounds to a whole number, ties to even, in its lower bits.
  v128_t magic = wasm_f32x4_splat(0x1.8p23f);
  for (u32 i = 0; i < 8; i++) {
    v[i] = wasm_f32x4_mul(wasm_f32x4_mul(v[i], wasm_f32x4_splat(up)), wasm_f32x4_splat(inverse));
    v[i] = wasm_i32x4_sub(wasm_f32x4_add(v[i], magic), magic);
  }
  for (u32 i = 0; i < 4; i++) w[i] = wasm_i16x8_narrow_i32x4(v[2 * i], v[2 * i + 1]);
  return scale;
}

// Quantises a row of its own.
static inline void quantise_row(const f32 *x, u32 cols, u32 format, group *to) {
  u32 blocks = cols / 32, offsets = offsets_of(format), over = excess(format);
  for (u32 b = 0; b < blocks; b++) {
    group *g = to + b / 4;
    i16 *numbers = g->x + b % 4 * 32;
    v128_t w[4];
    f32 scale = g->scale[b % 4] = quantise_block(x + 32 * b, w);
    if (offsets || over) {
      i32 first = sum_numbers(w[0], w[1]), second = sum_numbers(w[2], w[3]);
      if (offsets < 2 && !has_wholes(format)) first += second;
      g->sum[0][b % 4] = over ? as_f32((u32)(first * (i32)over)) : scale * (f32)first;
      g->sum[1][b % 4] = over ? as_f32((u32)(second * (i32)over)) : scale * (f32)second;
    }
    for (u32 k = 0; k < 2; k++) {
      v128_t a = w[2 * k], e = w[2 * k + 1];
      if (in_planes(format)) {
        u32 pairs = in_pairs(format), place = pairs ? b % 8 / 2 : b % 4;
        i16 *group_x = pairs ? to[b / 8 * 2 + b % 2].x : g->x;
        // The lower byte has a sign, so the upper one is rounded.
        v128_t half = wasm_i16x8_splat(128), c = wasm_i16x8_add(a, half), d = wasm_i16x8_add(e, half);
        store_plane(in_halves(format), group_x, place, 0, k,
                    wasm_i8x16_shuffle(c, d, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
        store_plane(in_halves(format), group_x, place, 1, k,
                    wasm_i8x16_shuffle(a, e, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
        continue;
      }
      u32 in_order = format == Q8_0;
      wasm_v128_store(numbers + (in_order ? 16 * k : 8 * k),
                      in_order ? a : wasm_i16x8_shuffle(a, e, 0, 2, 4, 6, 8, 10, 12, 14));
      wasm_v128_store(numbers + (in_order ? 16 * k + 8 : 8 * k + 16),
                      in_order ? e : wasm_i16x8_shuffle(a, e, 1, 3, 5, 7, 9, 11, 13, 15));
    }
  }
  for (u32 b = blocks; b % 4; b++) to[b / 4].scale[b % 4] = to[b / 4].sum[0][b % 4] = to[b / 4].sum[1][b % 4] = 0;
}

// Quantises a row as row i of a tile of m.
static inline void quantise(const f32 *x, u32 cols, u32 offsets, const tile *t, u32 m, u32 i) {
  u32 blocks = cols / 32;
  for (u32 b = 0; b < blocks; b++) {
    v128_t w[4];
    f32 scale = quantise_block(x + 32 * b, w);
    u32 place = b * m + i;
    t->scale[place] = scale;
    i32 low = offsets ? sum_numbers(w[0], w[1]) : 0, high = offsets ? sum_numbers(w[2], w[3]) : 0;
    t->sum[0][place] = scale * (f32)(offsets == 1 ? low + high : low);
    t->sum[1][place] = scale * (f32)high;
    u32 *to = (u32 *)t->x + b * 16 * m + i;
    for (u32 k = 0; k < 4; k++) {
      wasm_v128_store32_lane(to + (4 * k) * m, w[k], 0);
      wasm_v128_store32_lane(to + (4 * k + 1) * m, w[k], 1);
      wasm_v128_store32_lane(to + (4 * k + 2) * m, w[k], 2);
      wasm_v128_store32_lane(to + (4 * k + 3) * m, w[k], 3);
    }
  }
  for (u32 b = blocks; b < 4 * groups_of(cols); b++)
    t->scale[b * m + i] = t->sum[0][b * m + i] = t->sum[1][b * m + i] = 0;
}

// Dot products of rows of x and rows of weights: tiles of up to eight rows of x by four rows of weights.
//
// Rows of x are quantised to 16-bit numbers in blocks of 32 (quantise.h), so the sum of a block is a whole number, and
// its order does not matter. It becomes an f32; block b adds to the b%4-th of four sums. All tiles keep to this order,
// so the bits of a row are the same in each of them.
#pragma once
#include "format.h"
#include "quantise.h"

enum { R = 4, CHUNK = 256 };  // weight rows of a tile, columns that are unpacked at once

// The rows of a tile: those past the end repeat the last one.
typedef struct {
  const u8 *q[R];
  const u32 *s[R];
} rows;

INLINE v128_t add4(v128_t a, v128_t b, v128_t c, v128_t d) {
  return wasm_i32x4_add(wasm_i32x4_add(a, b), wasm_i32x4_add(c, d));
}

// The sum of the lanes of each of four vectors.
INLINE v128_t across(v128_t a, v128_t b, v128_t c, v128_t d) {
  v128_t ab = wasm_i32x4_add(wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), wasm_i32x4_shuffle(a, b, 2, 6, 3, 7));
  v128_t cd = wasm_i32x4_add(wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), wasm_i32x4_shuffle(c, d, 2, 6, 3, 7));
  return wasm_i32x4_add(wasm_i32x4_shuffle(ab, cd, 0, 1, 4, 5), wasm_i32x4_shuffle(ab, cd, 2, 3, 6, 7));
}

// The sum of a block of Q6_K may need 33 bits, those of its halves do not.
INLINE u32 by_halves(u32 format) { return format == Q6_K; }

// The f32 to add for four sums of blocks.
INLINE v128_t scaled(v128_t sums, v128_t x_scale, v128_t scale) {
  return wasm_f32x4_mul(wasm_f32x4_mul(sums, x_scale), scale);
}

// Sums of a block for m rows of x and n weight rows: of all of it, or of its halves.
typedef struct {
  v128_t all[2][2], half[2][2];
} block_sums;

INLINE block_sums dots(u32 format, u32 m, u32 n, const rows *w, u32 r, const tile *x, u32 g, u32 j) {
  block_sums sum;
  for (u32 k = 0; k < n; k++) {
    v128_t v[4], d[4];
    unpack_block(format, w->q[r + k], w->s[r + k], g, j, v);
    for (u32 i = 0; i < m; i++) {
      const i16 *at = x[i].x + (4 * g + j) * 32;
      for (u32 e = 0; e < 4; e++) d[e] = wasm_i32x4_dot_i16x8(v[e], wasm_v128_load(at + 8 * e));
      if (by_halves(format))
        sum.all[i][k] = wasm_i32x4_add(d[0], d[1]), sum.half[i][k] = wasm_i32x4_add(d[2], d[3]);
      else
        sum.all[i][k] = add4(d[0], d[1], d[2], d[3]);
    }
  }
  return sum;
}

// Adds group g, which has n4 blocks, for m rows of x, each a tile of its own, and n weight rows from r on.
INLINE void add_group(u32 format, u32 m, u32 n, const rows *w, u32 r, const tile *x, u32 g, u32 n4,
                      const block_sums *sum, v128_t (*acc)[2]) {
  for (u32 k = 0; k < n; k++) {
    scales s = unpack_scales(format, w->s[r + k], g, n4);
    for (u32 i = 0; i < m; i++) {
      v128_t f = wasm_f32x4_convert_i32x4(
          across(sum[0].all[i][k], sum[1].all[i][k], sum[2].all[i][k], sum[3].all[i][k]));
      if (by_halves(format))
        f = wasm_f32x4_add(f, wasm_f32x4_convert_i32x4(across(sum[0].half[i][k], sum[1].half[i][k], sum[2].half[i][k],
                                                              sum[3].half[i][k])));
      f = scaled(f, wasm_v128_load(x[i].scale + 4 * g), s.scale);
      for (u32 o = 0; o < offsets_of(format); o++)
        f = wasm_f32x4_add(f, wasm_f32x4_mul(s.offset[o], wasm_v128_load(x[i].sum[o] + 4 * g)));
      acc[i][k] = wasm_f32x4_add(acc[i][k], f);
    }
  }
}

// The sums of m = 1 or 2 rows of x, each a tile of its own, and n weight rows from r on. out is (m, stride).
INLINE void direct(u32 format, u32 m, u32 n, const rows *w, u32 r, const tile *x, u32 blocks, f32 *out, u32 stride) {
  v128_t acc[2][2];
  for (u32 i = 0; i < m; i++)
    for (u32 k = 0; k < n; k++) acc[i][k] = wasm_f32x4_splat(0);
  u32 g = 0;
  for (; 4 * g + 4 <= blocks; g++) {
    block_sums sum[4] = {dots(format, m, n, w, r, x, g, 0), dots(format, m, n, w, r, x, g, 1),
                         dots(format, m, n, w, r, x, g, 2), dots(format, m, n, w, r, x, g, 3)};
    add_group(format, m, n, w, r, x, g, 4, sum, acc);
  }
  if (!in_superblocks(format) && 4 * g < blocks) {
    block_sums sum[4] = {};
    for (u32 j = 0; 4 * g + j < blocks; j++) sum[j] = dots(format, m, n, w, r, x, g, j);
    add_group(format, m, n, w, r, x, g, blocks - 4 * g, sum, acc);
  }
  for (u32 i = 0; i < m; i++)
    for (u32 k = 0; k < n; k++) out[i * stride + r + k] = sum_lanes(acc[i][k]);
}

// Up to eight blocks of the rows of a tile, unpacked.
typedef struct {
  i16 w[R][CHUNK];
  f32 scale[R][CHUNK / 32], offset[2][R][CHUNK / 32];
} chunk;

// Adds the blocks of a chunk, block `from` of the row being its first, for a tile of m = 4 or 8 rows of x. The lanes
// are rows of x; sums are (4, R, m/4) vectors.
INLINE void wide(const chunk *c, const tile *x, u32 from, u32 blocks, u32 m, u32 offsets, u32 halves, v128_t *sums) {
  u32 quads = m / 4;
  for (u32 b = 0; b < blocks; b++) {
    const i16 *at = x->x + (from + b) * 32 * m;
    const f32 *x_scale = x->scale + (from + b) * m;
    v128_t f[R][2];
    for (u32 part = 0; part <= halves; part++) {
      v128_t d[R][2];
      u32 pairs = halves ? 8 : 16;
#pragma clang loop unroll(full)
      for (u32 k = 0; k < pairs; k++) {
        v128_t v[2];
        for (u32 p = 0; p < quads; p++) v[p] = wasm_v128_load(at + (part * 8 + k) * 2 * m + 8 * p);
        for (u32 r = 0; r < R; r++) {
          v128_t two = wasm_v128_load32_splat(&c->w[r][b * 32 + (part * 8 + k) * 2]);
          for (u32 p = 0; p < quads; p++) {
            v128_t product = wasm_i32x4_dot_i16x8(two, v[p]);
            d[r][p] = k == 0 ? product : wasm_i32x4_add(d[r][p], product);
          }
        }
      }
      for (u32 r = 0; r < R; r++)
        for (u32 p = 0; p < quads; p++) {
          v128_t sum = wasm_f32x4_convert_i32x4(d[r][p]);
          f[r][p] = part == 0 ? sum : wasm_f32x4_add(f[r][p], sum);
        }
    }
    v128_t *to = sums + b % 4 * R * quads;
    for (u32 r = 0; r < R; r++) {
      v128_t scale = wasm_v128_load32_splat(&c->scale[r][b]);
      for (u32 p = 0; p < quads; p++) {
        v128_t v = scaled(f[r][p], wasm_v128_load(x_scale + 4 * p), scale);
        for (u32 o = 0; o < offsets; o++)
          v = wasm_f32x4_add(v, wasm_f32x4_mul(wasm_v128_load32_splat(&c->offset[o][r][b]),
                                               wasm_v128_load(x->sum[o] + (from + b) * m + 4 * p)));
        to[r * quads + p] = wasm_f32x4_add(to[r * quads + p], v);
      }
    }
  }
}

// A tile of m rows of x, f32, by n weight rows from r on, of a format without scales: four sums, of every fourth
// column.
INLINE void plain(u32 format, u32 m, u32 n, const rows *w, u32 r, const f32 *x, u32 ldx, u32 cols, f32 *out,
                  u32 stride) {
  v128_t acc[8][4];
  for (u32 i = 0; i < m; i++)
    for (u32 k = 0; k < n; k++) acc[i][k] = wasm_f32x4_splat(0);
  for (u32 c = 0; c < cols; c += 4) {
    v128_t v[4];
    for (u32 k = 0; k < n; k++) v[k] = unpack_floats(format, w->q[r + k], c);
    for (u32 i = 0; i < m; i++) {
      v128_t at = wasm_v128_load(x + i * ldx + c);
      for (u32 k = 0; k < n; k++) acc[i][k] = wasm_f32x4_add(acc[i][k], wasm_f32x4_mul(v[k], at));
    }
  }
  for (u32 i = 0; i < m; i++)
    for (u32 k = 0; k < n; k++) out[i * stride + r + k] = sum_lanes(acc[i][k]);
}

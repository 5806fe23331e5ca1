// Dot products of rows of x and rows of weights: tiles of eight rows of x by four rows of weights, or of up to four by
// one.
//
// Rows of x are quantised to 16-bit numbers in blocks of 32 (quantise.h), so the sum of a block is a whole number, and
// its order does not matter. It becomes an f32; block b adds to the b%4-th of four sums. All tiles keep to this order,
// so the bits of a row are the same in each of them.
#pragma once
#include "format.h"
#include "quantise.h"

enum { R = 4, CHUNK = 256 };                    // weight rows of a tile, columns that are unpacked at once
enum { WIDE_ROWS = 8, QUADS = WIDE_ROWS / 4 };  // rows of x of a wide tile, and vectors of them

// The rows of a tile: those past the end repeat the last one.
typedef struct {
  const u8 *q[R];
  const u32 *s[R];
} rows;

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

// The sum of a block without whole scales, in the lanes of vectors: of all of it in `first`, or of its halves.
typedef struct {
  v128_t first, second;
} block_sum;

// x is that of a group, of which this is block j.
INLINE block_sum dot_block(u32 format, v128_t a, v128_t b, v128_t c, v128_t d, const i16 *x, u32 j) {
  a = wasm_i32x4_dot_i16x8(a, wasm_v128_load(x + 32 * j));
  b = wasm_i32x4_dot_i16x8(b, wasm_v128_load(x + 32 * j + 8));
  c = wasm_i32x4_dot_i16x8(c, wasm_v128_load(x + 32 * j + 16));
  d = wasm_i32x4_dot_i16x8(d, wasm_v128_load(x + 32 * j + 24));
  block_sum sum = {wasm_i32x4_add(a, b), wasm_i32x4_add(c, d)};
  if (!has_wholes(format)) sum.first = wasm_i32x4_add(sum.first, sum.second);
  return sum;
}

enum { NARROW = 4 };  // most rows of x that share a weight row's registers

// The sums of a block for up to four rows of x.
typedef struct {
  block_sum of[NARROW];
} block_sums;

INLINE block_sums dots(u32 format, u32 m, const u8 *q, const i16 *const *x, u32 g, u32 j) {
  v128_t v[4];
  unpack_block(format, q, g, j, v);
  block_sums r;
  for (u32 i = 0; i < m; i++) {
    r.of[i] = dot_block(format, v[0], v[1], v[2], v[3], x[i], j);
    // Here, while the weights are in registers: clang moves sums to where they are needed.
    KEEP(r.of[i].first);
    if (has_wholes(format)) KEEP(r.of[i].second);
  }
  return r;
}

INLINE block_sum dot_one(u32 format, const u8 *q, const i16 *x, u32 g, u32 j) {
  v128_t v[4];
  unpack_block(format, q, g, j, v);
  return dot_block(format, v[0], v[1], v[2], v[3], x, j);
}

// The numbers of group g of a row of x, which has n blocks there: see group_of.
INLINE const i16 *numbers_of(const i16 *x, u32 g, u32 n) {
  x += 128 * g;
  __asm__("" : "+r"(x));
  if (n == 4) (void)*((const volatile i16 *)x + 127);
  return x;
}

// What group g, with the sums of four blocks, adds to the sums of a row of x.
INLINE v128_t of_group(u32 format, const tile *x, u32 g, const scales *s, const wholes *w, block_sum a, block_sum b,
                       block_sum c, block_sum d) {
  v128_t sum = across(a.first, b.first, c.first, d.first), f;
  if (has_wholes(format)) {
    v128_t rest = wasm_i32x4_mul(across(a.second, b.second, c.second, d.second), w->second);
    sum = wasm_i32x4_mul(sum, w->first);
    f = by_halves(format) ? wasm_f32x4_add(wasm_f32x4_convert_i32x4(sum), wasm_f32x4_convert_i32x4(rest))
                          : wasm_f32x4_convert_i32x4(wasm_i32x4_add(sum, rest));
  } else {
    f = wasm_f32x4_convert_i32x4(sum);
  }
  f = scaled(f, wasm_v128_load(x->scale + 4 * g), s->scale);
  if (offsets_of(format) > 0) f = wasm_f32x4_add(f, wasm_f32x4_mul(s->offset[0], wasm_v128_load(x->sum[0] + 4 * g)));
  if (offsets_of(format) > 1) f = wasm_f32x4_add(f, wasm_f32x4_mul(s->offset[1], wasm_v128_load(x->sum[1] + 4 * g)));
  return f;
}

// What group g of a row of x and of a weight row, with n blocks, adds to the sums.
INLINE v128_t group_one(u32 format, const u8 *q, const u32 *s, const tile *x, u32 g, u32 n) {
  const u8 *w = group_of(format, q, g, n == 4);
  const i16 *at = numbers_of(x->x, g, n);
  block_sum none = {}, a = dot_one(format, w, at, g, 0);
  block_sum b = n > 1 ? dot_one(format, w, at, g, 1) : none;
  block_sum c = n > 2 ? dot_one(format, w, at, g, 2) : none;
  block_sum d = n > 3 ? dot_one(format, w, at, g, 3) : none;
  scales of = unpack_scales(format, s, g, n);
  wholes by = has_wholes(format) ? unpack_wholes(format, s, g) : (wholes){};
  return of_group(format, x, g, &of, &by, a, b, c, d);
}

// The sum of a row of x and a weight row, as `direct` computes it. With arrays of one, `direct` took much longer.
INLINE f32 direct_one(u32 format, const u8 *q, const u32 *s, const tile *x, u32 blocks) {
  v128_t acc = wasm_f32x4_splat(0);
  tile t = *x;
  u32 g = 0;
  for (; 4 * g + 4 <= blocks; g++) acc = wasm_f32x4_add(acc, group_one(format, q, s, &t, g, 4));
  if (!in_superblocks(format) && blocks % 4 > 0)
    acc = wasm_f32x4_add(acc, group_one(format, q, s, &t, g, blocks % 4));
  return sum_lanes(acc);
}

// Adds group g of m rows of x and a weight row, with n blocks.
INLINE void add_group(u32 format, u32 m, const u8 *q, const u32 *s, const tile *x, u32 g, u32 n, v128_t *acc) {
  const u8 *w = group_of(format, q, g, n == 4);
  const i16 *at[NARROW];
  for (u32 i = 0; i < m; i++) at[i] = numbers_of(x[i].x, g, n);
  block_sums none = {}, a = dots(format, m, w, at, g, 0);
  block_sums b = n > 1 ? dots(format, m, w, at, g, 1) : none;
  block_sums c = n > 2 ? dots(format, m, w, at, g, 2) : none;
  block_sums d = n > 3 ? dots(format, m, w, at, g, 3) : none;
  scales of = unpack_scales(format, s, g, n);
  wholes by = has_wholes(format) ? unpack_wholes(format, s, g) : (wholes){};
  for (u32 i = 0; i < m; i++)
    acc[i] = wasm_f32x4_add(acc[i], of_group(format, &x[i], g, &of, &by, a.of[i], b.of[i], c.of[i], d.of[i]));
}

// The sums of m rows of x, each a tile of its own, and a weight row: to out, out[stride] and so on.
INLINE void direct(u32 format, u32 m, const u8 *q, const u32 *s, const tile *x, u32 blocks, f32 *out, u32 stride) {
  v128_t acc[NARROW];
  tile t[NARROW];
  for (u32 i = 0; i < m; i++) {
    acc[i] = wasm_f32x4_splat(0);
    t[i] = x[i];
  }
  u32 g = 0;
  for (; 4 * g + 4 <= blocks; g++) add_group(format, m, q, s, t, g, 4, acc);
  if (!in_superblocks(format) && blocks % 4 > 0) add_group(format, m, q, s, t, g, blocks % 4, acc);
  for (u32 i = 0; i < m; i++) out[i * stride] = sum_lanes(acc[i]);
}

// Up to eight blocks of the rows of a tile, unpacked.
typedef struct {
  i16 w[R][CHUNK];
  f32 scale[R][CHUNK / 32], offset[2][R][CHUNK / 32];
} chunk;

// Adds the blocks of a chunk, block `from` of the row being its first, for a wide tile. The lanes are rows of
// x; sums are (4, R, QUADS) vectors.
INLINE void wide(const chunk *c, const tile *x, u32 from, u32 blocks, u32 offsets, u32 halves, v128_t *sums) {
  const u32 m = WIDE_ROWS;
  for (u32 b = 0; b < blocks; b++) {
    const i16 *at = x->x + (from + b) * 32 * m;
    const f32 *x_scale = x->scale + (from + b) * m;
    v128_t f[R][QUADS];
    UNROLL for (u32 part = 0; part <= halves; part++) {
      v128_t d[R][QUADS];
      u32 pairs = halves ? 8 : 16;
      for (u32 r = 0; r < R; r++)
        for (u32 p = 0; p < QUADS; p++) d[r][p] = wasm_i32x4_splat(0);
      const i16 *numbers = at + part * 16 * m, *weights = c->w[0] + b * 32 + part * 16;
      NO_UNROLL  // else clang loads all of x first, and engines run out of registers
      for (u32 k = 0; k < pairs; k++, numbers += 2 * m, weights += 2) {
        v128_t v[QUADS];
        for (u32 p = 0; p < QUADS; p++) v[p] = wasm_v128_load(numbers + 8 * p);
        for (u32 r = 0; r < R; r++) {
          v128_t two = wasm_v128_load32_splat(weights + r * CHUNK);
          for (u32 p = 0; p < QUADS; p++) d[r][p] = wasm_i32x4_add(d[r][p], wasm_i32x4_dot_i16x8(two, v[p]));
        }
      }
      for (u32 r = 0; r < R; r++)
        for (u32 p = 0; p < QUADS; p++) {
          v128_t sum = wasm_f32x4_convert_i32x4(d[r][p]);
          f[r][p] = part == 0 ? sum : wasm_f32x4_add(f[r][p], sum);
        }
    }
    v128_t *to = sums + b % 4 * R * QUADS;
    for (u32 r = 0; r < R; r++) {
      v128_t scale = wasm_v128_load32_splat(&c->scale[r][b]);
      for (u32 p = 0; p < QUADS; p++) {
        v128_t v = scaled(f[r][p], wasm_v128_load(x_scale + 4 * p), scale);
        for (u32 o = 0; o < offsets; o++)
          v = wasm_f32x4_add(v, wasm_f32x4_mul(wasm_v128_load32_splat(&c->offset[o][r][b]),
                                               wasm_v128_load(x->sum[o] + (from + b) * m + 4 * p)));
        to[r * QUADS + p] = wasm_f32x4_add(to[r * QUADS + p], v);
      }
    }
  }
}

// The sums of m rows of x, f32, and the rows of a tile, of a format without scales: four, of every fourth column, for n
// weight rows at a time. out is (m, stride).
INLINE void plain(u32 format, u32 m, u32 n, const rows *w, const f32 *x, u32 ldx, u32 cols, f32 *out, u32 stride) {
  for (u32 r = 0; r < R; r += n) {
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
}

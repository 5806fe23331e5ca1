// Dot products of rows of x and rows of weights: wide tiles of eight or sixteen rows of x by four rows of weights, or
// narrow ones of up to four by one or two.
//
// Rows of x are quantised to 16-bit numbers in blocks of 32 (quantise.h), so the sum of a block is a whole number, and
// its order does not matter. It becomes an f32; block b adds to the b%4-th of four sums. All tiles keep to this order,
// so the bits of a row are the same in each of them.
#pragma once
#include "format.h"
#include "quantise.h"

enum { R = 4, CHUNK = 256 };                // weight rows of a tile, columns that are unpacked at once
enum { LANES = 4 * PER, V = 2, WIDE_ROWS = V * LANES };  // rows of x of a vector, and of a wide tile of V vectors

// The rows of a tile: those past the end repeat the last one.
typedef struct {
  const u8 *q[R];
  const u32 *s[R];
} rows;

// The sum of a block of Q6_K may need 33 bits, those of its halves do not.
INLINE u32 by_halves(u32 format) { return format == Q6_K; }

enum { NARROW = 4 };  // most rows of x that share a weight row's registers

// The position of a step of W weight rows and m rows of x: a unit.
typedef struct {
  const u8 *q[2];
  const u32 *s[2];
  const group *x[NARROW];
} step;

enum { MOST_PAIRS = 6 };

// The sums in integers of a group, which has n blocks, for all pairs of rows: pair k is weight row k / m and row k % m
// of x.
INLINE void sum_group(u32 format, u32 W, u32 m, const step *t, u32 upper, u32 n, sums *a) {
  u32 whole = has_wholes(format);
#ifdef BYTES256
  if (in_planes(format)) {
    crossed w[2];
    UNROLL for (u32 r = 0; r < W; r++) w[r] = unpack_crossed(format, t->q[r], upper, n);
    UNROLL for (u32 i = 0; i < m; i++) {
      sums *to[] = {a + i, a + m + i};
      dot_crossed(number_bits(format), W, w, t->x[i][upper].x, to);
    }
    return;
  }
#endif
  sums c[MOST_PAIRS];
  UNROLL for (u32 j = 0; j < 4; j++) {
    UNROLL for (u32 r = 0; r < W; r++) {
      numbers w = {};
      if (j < n) w = unpack_numbers(format, t->q[r], upper, j);
      UNROLL for (u32 i = 0; i < m; i++) {
        u32 k = r * m + i;
        sums s = j < n ? dot_block(in_planes(format), whole, w, t->x[i][upper].x + 32 * j) : no_sums();
        if (j == 0) a[k] = s;
        else if (j == 1) a[k] = pair(whole, a[k], s);
        else if (j == 2) c[k] = s;
        else a[k] = four(whole, a[k], pair(whole, c[k], s));
        if (m > 1) keep_sums(whole, j == 2 ? &c[k] : &a[k]);
      }
    }
  }
}

// Adds a unit, whose last group has n blocks, to the sums of all pairs of rows.
INLINE void add_unit(u32 format, u32 W, u32 m, const step *t, u32 n, lanes *acc) {
  u32 groups = unit_groups(format), whole = has_wholes(format), pairs = W * m;
  sums a[2][MOST_PAIRS + 1];
  UNROLL for (u32 g = 0; g < groups; g++) {
    sum_group(format, W, m, t, g, n, a[g]);
    if (pairs % PER) a[g][pairs] = a[g][pairs - 1];
  }
  wholes by[2][2];
  UNROLL for (u32 g = 0; g < groups; g++)
    UNROLL for (u32 r = 0; r < W; r++)
      if (whole) by[g][r] = unpack_wholes(format, t->s[r], g);
  UNROLL for (u32 k = 0; k < pairs; k += PER) {
    u32 other = k + PER - 1 < pairs ? k + PER - 1 : pairs - 1;
    ints joined[2];
    UNROLL for (u32 g = 0; g < groups; g++) joined[g] = join_sums(in_halves(format), a[g] + k);
    UNROLL for (u32 g = 0; g < groups; g++) {
      const group *x = t->x[k % m] + g, *y = t->x[other % m] + g;
      const i32 *less = excess(format) ? (i32 *)x->sum : 0, *other_less = (i32 *)y->sum;
      scales of = unpack_scales(format, t->s[k / m], t->s[other / m], g, n);
      lanes f;
      if (whole) {
        wholes w[] = {by[g][k / m], by[g][other / m]};
        f = scaled_sums(by_halves(format), a[g] + k, w, less, other_less);
      } else {
        ints v = in_pairs(format) ? in_turn(joined[0], joined[1], g) : joined[g];
        if (doubled(format)) v = double_ints(v);
        f = to_floats(less ? less_ints(v, less, other_less) : v);
      }
      f = mul_lanes(mul_lanes(f, load_lanes(x->scale, y->scale)), of.scale);
      UNROLL for (u32 o = 0; o < offsets_of(format); o++)
        f = add_lanes(f, mul_lanes(of.offset[o], load_lanes(x->sum[o], y->sum[o])));
      acc[k / PER] = add_lanes(acc[k / PER], f);
    }
  }
}

// The sums of W weight rows and m rows of x. The sum of row i of x and weight row r goes to out[i * stride + r].
INLINE void direct(u32 format, u32 W, u32 m, const step *from, u32 blocks, f32 *out, u32 stride) {
  lanes acc[MOST_PAIRS];
  step t = *from;
  UNROLL for (u32 k = 0; k < W * m; k += PER) acc[k / PER] = splat_lanes(0);
  u32 units = blocks / (4 * unit_groups(format)), ahead = 4 * W * units * unit_bytes(format);
  for (u32 left = units; left > 0; left--) {
    UNROLL for (u32 r = 0; r < W; r++) {
      LOADS_FROM(t.q[r], unit_bytes(format));
      FETCH(t.q[r], ahead, unit_bytes(format));  // for the fourth call from here
    }
    UNROLL for (u32 i = 0; i < m; i++) LOADS_FROM(t.x[i], unit_groups(format) * sizeof(group));
    add_unit(format, W, m, &t, 4, acc);
    UNROLL for (u32 r = 0; r < W; r++) t.q[r] += unit_bytes(format), t.s[r] += unit_words(format);
    UNROLL for (u32 i = 0; i < m; i++) t.x[i] += unit_groups(format);
  }
  if (!in_superblocks(format) && blocks % 4 > 0) add_unit(format, W, m, &t, blocks % 4, acc);
  UNROLL for (u32 k = 0; k < W * m; k++) out[k % m * stride + k / m] = sum_lanes(part_of(acc[k / PER], k % PER));
}

// Up to eight blocks of the rows of a tile, unpacked.
typedef struct {
  i16 w[R][CHUNK];
  f32 scale[R][CHUNK / 32], offset[2][R][CHUNK / 32];
} chunk;

// Adds the blocks of a chunk, block `from` of the row being its first, for a wide tile. The lanes are rows of
// x; sums are (4, R, V) vectors.
INLINE void wide(const chunk *c, const tile *x, u32 from, u32 blocks, u32 offsets, u32 halves,
                 f32 *restrict sums) {
  const u32 m = WIDE_ROWS;
  for (u32 b = 0; b < blocks; b++) {
    const i16 *at = x->x + (from + b) * 32 * m;
    u32 place = (from + b) * m;
    lanes f[R][V];
    UNROLL for (u32 part = 0; part <= halves; part++) {
      ints d[R][V];
      u32 pairs = halves ? 8 : 16;
      UNROLL for (u32 r = 0; r < R; r++)
        UNROLL for (u32 v = 0; v < V; v++) d[r][v] = no_ints();
      const i16 *numbers = at + part * 16 * m, *weights = c->w[0] + b * 32 + part * 16;
      UNROLL_SOME for (u32 k = 0; k < pairs; k++, numbers += 2 * m, weights += 2) {
        ints n[V];
        UNROLL for (u32 v = 0; v < V; v++) n[v] = load_ints(numbers + 2 * LANES * v);
        UNROLL for (u32 r = 0; r < R; r++) {
          ints two = splat_ints(weights + r * CHUNK);
          UNROLL for (u32 v = 0; v < V; v++) d[r][v] = add_dot(d[r][v], two, n[v]);
        }
      }
      UNROLL for (u32 r = 0; r < R; r++)
        UNROLL for (u32 v = 0; v < V; v++) {
          lanes sum = to_floats(d[r][v]);
          f[r][v] = part == 0 ? sum : add_lanes(f[r][v], sum);
        }
    }
    f32 *to = sums + b % 4 * R * m;
    UNROLL for (u32 r = 0; r < R; r++) {
      lanes scale = splat_words(&c->scale[r][b], &c->scale[r][b]);
      UNROLL for (u32 v = 0; v < V; v++, to += LANES) {
        lanes s = mul_lanes(mul_lanes(f[r][v], load_floats(x->scale + place + LANES * v)), scale);
        UNROLL for (u32 o = 0; o < offsets; o++)
          s = add_lanes(s, mul_lanes(splat_words(&c->offset[o][r][b], &c->offset[o][r][b]),
                                     load_floats(x->sum[o] + place + LANES * v)));
        store_floats(to, add_lanes(load_floats(to), s));
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

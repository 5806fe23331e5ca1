// Matrix products: see webgpu/kernels/matmul.
#include "exp.h"
#include "tiles.h"

enum { STORE, NEXT, GATE, ROTATE };  // how a product ends

enum { PANEL = 64 };  // weight rows whose sums are in scratch at once

// A product: out (m, n) of x (m, cols) and weights (n, cols).
typedef struct {
  u32 format, m, n, cols;
  const u8 *q, *s;
  u32 q_bytes, s_bytes;  // of a row
  const f32 *x;
  u32 ldx;
  u8 *tiles;     // x, quantised
  f32 *wide;     // sums of the wide tiles: (4, R, WIDE_ROWS) of each
  f32 *factors;  // of the sums of each row of x
  f32 *sums;     // (m, PANEL)
} product;

// The rows of x in the next wide tile, of `left`: its last rows may repeat the last one of x, where this is faster than
// smaller tiles. 0: the rest has the narrow tiles, of one to four rows.
static u32 wide_from = PER > 1 ? 13 : 7;
static u32 wide_rows(u32 left) { return left >= wide_from ? WIDE_ROWS : 0; }

#ifdef __wasm__
// Has all rows go by narrow tiles, which some engines compute faster; the bits are the same.
void narrow_only(void) { wide_from = ~0u; }
#endif

// Room for the rows of all tiles.
static u32 padded(u32 m) { return m + WIDE_ROWS - 1; }

// The first row of x that is in no wide tile.
static u32 narrow_from(u32 m) {
  u32 i = 0;
  while (i < m && wide_rows(m - i)) i += wide_rows(m - i);
  return i;
}

enum { GRAIN = 8192 };  // multiplications of a part that is worth handing out

need matmul_needs(const dispatch *d) {
  u32 format = d->words[0], m = PARAM(2), cols = PARAM(1) * step_of(format);
  u32 each = 4 * PANEL + 4 * 4 * R + 4 + (quantised(format) ? quantised_bytes(cols) : 0);
  return (need){padded(m) * each + 16 + 63, (u64)PARAM(0) * cols * m / GRAIN};
}

// Sums of m rows of x and the rows of a tile, W at a time.
#define DIRECT(name, m, W)                                                                      \
  static void direct_##name##_##m(const rows *w, const group *const *x, u32 blocks, f32 *out) { \
    step t;                                                                                     \
    for (u32 i = 0; i < m; i++) t.x[i] = x[i];                                                  \
    for (u32 r = 0; r < R; r += W) {                                                            \
      for (u32 k = 0; k < W; k++) t.q[k] = w->q[r + k], t.s[k] = w->s[r + k];                   \
      direct(name, W, m, &t, blocks, out + r, PANEL);                                           \
    }                                                                                           \
  }

#define FORMAT(name)                                                                                    \
  static void unpack_##name(const rows *w, u32 from, u32 blocks, chunk *c) {                            \
    for (u32 r = 0; r < R; r++)                                                                         \
      for (u32 b = 0; b < blocks; b += 4) {                                                             \
        f32 *const offset[] = {c->offset[0][r] + b, c->offset[1][r] + b};                               \
        unpack_group(name, w->q[r], w->s[r], (from + b) / 4, min_u32(blocks - b, 4), c->w[r] + 32 * b,  \
                     c->scale[r] + b, offset);                                                          \
      }                                                                                                 \
  }                                                                                                     \
  DIRECT(name, 1, PER) DIRECT(name, 2, 1) DIRECT(name, 3, PER) DIRECT(name, 4, 1)
QUANTISED(FORMAT)

// The functions of a format with blocks.
static const struct {
  void (*unpack)(const rows *w, u32 from, u32 blocks, chunk *c);
  void (*direct[NARROW])(const rows *w, const group *const *x, u32 blocks, f32 *out);  // by rows of x, from one
} blocked[FORMATS] = {
#define ENTRY(name) \
  [name] = {unpack_##name, {direct_##name##_1, direct_##name##_2, direct_##name##_3, direct_##name##_4}},
    QUANTISED(ENTRY)};

// A function that is not inlined: an engine compiles those that a model calls, sooner than one large function.
#define APART static __attribute__((noinline))

#define PLAIN(name)                                                                                                  \
  APART void plain_##name(const product *p, const rows *w, f32 *out) {                                               \
    u32 i = 0;                                                                                                       \
    for (; i + 8 <= p->m; i += 8) plain(name, 8, 1, w, p->x + i * p->ldx, p->ldx, p->cols, out + i * PANEL, PANEL);  \
    for (; i + 4 <= p->m; i += 4) plain(name, 4, 2, w, p->x + i * p->ldx, p->ldx, p->cols, out + i * PANEL, PANEL);  \
    for (; i + 2 <= p->m; i += 2) plain(name, 2, 4, w, p->x + i * p->ldx, p->ldx, p->cols, out + i * PANEL, PANEL);  \
    for (; i < p->m; i++) plain(name, 1, 4, w, p->x + i * p->ldx, p->ldx, p->cols, out + i * PANEL, PANEL);          \
  }
PLAIN(F32) PLAIN(F16) PLAIN(BF16)

#define WIDE(name, offsets, halves)                                                 \
  APART void name(const chunk *c, const tile *x, u32 from, u32 blocks, f32 *sums) { \
    wide(c, x, from, blocks, offsets, halves, sums);                                \
  }
WIDE(by_scale, 0, 0) WIDE(by_offset, 1, 0) WIDE(by_offsets, 2, 0) WIDE(by_half, 0, 1)

// Adds a chunk for a wide tile.
static void add_chunk(u32 format, const chunk *c, const tile *x, u32 from, u32 blocks, f32 *sums) {
  static void (*const by_count[])(const chunk *, const tile *, u32, u32, f32 *) = {by_scale, by_offset, by_offsets};
  (by_halves(format) ? by_half : by_count[offsets_of(format)])(c, x, from, blocks, sums);
}

// Writes the sums of the wide tiles.
static void wide_tiles(const product *p, const rows *w, f32 *out) {
  u32 end = narrow_from(p->m);
  if (end == 0) return;
  for (u32 i = 0; i < 4 * end * R; i += 4) wasm_v128_store(p->wide + i, wasm_f32x4_splat(0));
  for (u32 from = 0; from < p->cols / 32; from += CHUNK / 32) {
    u32 blocks = min_u32(p->cols / 32 - from, CHUNK / 32);
    chunk c;
    blocked[p->format].unpack(w, from, blocks, &c);
    for (u32 i = 0; i < end; i += WIDE_ROWS) {
      tile x = tile_at(p->tiles + i * quantised_bytes(p->cols), WIDE_ROWS, p->cols);
      add_chunk(p->format, &c, &x, from, blocks, p->wide + 4 * i * R);
    }
  }
  for (u32 i = 0; i < end; i += WIDE_ROWS) {
    const f32 *sums = p->wide + 4 * i * R;
    const u32 each = WIDE_ROWS * R;
    for (u32 k = 0; k < each; k += 4) {
      v128_t ab = wasm_f32x4_add(wasm_v128_load(sums + k), wasm_v128_load(sums + each + k));
      v128_t cd = wasm_f32x4_add(wasm_v128_load(sums + 2 * each + k), wasm_v128_load(sums + 3 * each + k));
      v128_t v = wasm_f32x4_add(ab, cd);
      f32 *to = out + (i + k % WIDE_ROWS) * PANEL + k / WIDE_ROWS;
      wasm_v128_store32_lane(to, v, 0);
      wasm_v128_store32_lane(to + PANEL, v, 1);
      wasm_v128_store32_lane(to + 2 * PANEL, v, 2);
      wasm_v128_store32_lane(to + 3 * PANEL, v, 3);
    }
  }
}

static void narrow_tiles(const product *p, const rows *w, f32 *out) {
  for (u32 i = narrow_from(p->m), m; i < p->m; i += m) {
    m = min_u32(p->m - i, NARROW);
    const group *x[NARROW];
    for (u32 k = 0; k < m; k++) x[k] = (const group *)(p->tiles + (i + k) * quantised_bytes(p->cols));
    blocked[p->format].direct[m - 1](w, x, p->cols / 32, out + i * PANEL);
  }
}

// Computes sums[i][at + k], k < count, of the weight rows in a list. count is at most PANEL - at.
static void sums_of(const product *p, const u32 *list, u32 count, u32 at) {
  for (u32 k = 0; k < count; k += R) {
    rows w;
    for (u32 r = 0; r < R; r++) {
      u32 row = list[min_u32(k + r, count - 1)];
      w.q[r] = p->q + row * p->q_bytes;
      w.s[r] = (const u32 *)(p->s + row * p->s_bytes);
    }
    f32 *out = p->sums + at + k;
    switch (p->format) {
      case F32: plain_F32(p, &w, out); break;
      case F16: plain_F16(p, &w, out); break;
      case BF16: plain_BF16(p, &w, out); break;
      default:
        wide_tiles(p, &w, out);
        narrow_tiles(p, &w, out);
    }
  }
  for (u32 i = 0; i < p->m; i++)
    for (u32 k = 0; k < count; k++) p->sums[i * PANEL + at + k] *= p->factors[i];
}

// The factor of the sums of a row, which sums of squares follow: see matmul/norm.wgsl.
static f32 factor_of(const f32 *x, u32 cols, u32 squares, f32 eps) {
  if (squares == 0) return 1;
  v128_t sum = wasm_f32x4_splat(0);
  for (u32 i = 0; i + 4 <= squares; i += 4) sum = wasm_f32x4_add(sum, wasm_v128_load(x + cols + i));
  return 1 / sqrt_f32(sum_lanes(sum) / (f32)cols + eps);
}

// Quantises the rows of x, each in its tile.
static void quantise_rows(const product *p) {
  u32 i = 0, each = quantised_bytes(p->cols);
  for (; i < narrow_from(p->m); i += WIDE_ROWS) {
    tile t = tile_at(p->tiles + i * each, WIDE_ROWS, p->cols);
    for (u32 k = 0; k < WIDE_ROWS; k++)
      quantise(p->x + min_u32(i + k, p->m - 1) * p->ldx, p->cols, offsets_of(p->format), &t, WIDE_ROWS, k);
  }
  for (; i < p->m; i++) quantise_row(p->x + i * p->ldx, p->cols, p->format, (group *)(p->tiles + i * each));
}

static void finish_store(const dispatch *d, const thread *t, const product *p) {
  u32 ldo = PARAM(5), add = PARAM(7);
  f32 *out = AT(f32, 3) + PARAM(6);
  if (!holds(d->b[3], PARAM(6), p->m, ldo, p->n)) return;
  range r = share(t, p->n, R);
  for (u32 from = r.from; from < r.to; from += PANEL) {
    u32 list[PANEL], count = min_u32(r.to - from, PANEL);
    for (u32 k = 0; k < count; k++) list[k] = from + k;
    sums_of(p, list, count, 0);
    for (u32 i = 0; i < p->m; i++) {
      f32 *to = out + i * ldo + from, *sum = p->sums + i * PANEL;
      for (u32 k = 0; k < count; k++) to[k] = add ? to[k] + sum[k] : sum[k];
    }
  }
}

// Adds to out, and writes out · gain and sums of the squares of `each` outputs, at most 8.
static void finish_next(const dispatch *d, const thread *t, const product *p) {
  u32 ldo = PARAM(5), ldn = PARAM(12), each = d->words[2];
  f32 *out = AT(f32, 3) + PARAM(6), *gain = AT(f32, 5), *next = AT(f32, 6);
  if (!holds(d->b[3], PARAM(6), p->m, ldo, p->n) || !holds(d->b[5], 0, 1, 0, p->n) ||
      !holds(d->b[6], 0, p->m, ldn, p->n + p->n / each))
    return;
  range r = share(t, p->n, 8);
  for (u32 from = r.from; from < r.to; from += PANEL) {
    u32 list[PANEL], count = min_u32(r.to - from, PANEL);
    for (u32 k = 0; k < count; k++) list[k] = from + k;
    sums_of(p, list, count, 0);
    for (u32 i = 0; i < p->m; i++) {
      f32 *stream = out + i * ldo, *to = next + i * ldn, *sum = p->sums + i * PANEL;
      for (u32 k = 0; k < count; k += each) {
        f32 squares = 0;
        for (u32 e = k; e < k + each; e++) {
          f32 v = stream[from + e] + sum[e];
          stream[from + e] = v;
          to[from + e] = v * gain[from + e];
          squares += v * v;
        }
        to[p->n + (from + k) / each] = squares;
      }
    }
  }
}

// SiLU(gate) · up: the first half of the weight rows are gates.
static void finish_gate(const dispatch *d, const thread *t, const product *p) {
  u32 ldo = PARAM(5), half = p->n / 2, side = PANEL / 2;
  f32 *out = AT(f32, 3) + PARAM(6);
  if (!holds(d->b[3], PARAM(6), p->m, ldo, half)) return;
  range r = share(t, half, R);
  for (u32 from = r.from; from < r.to; from += side) {
    u32 list[PANEL / 2], count = min_u32(r.to - from, side);
    for (u32 k = 0; k < count; k++) list[k] = from + k;
    sums_of(p, list, count, 0);
    for (u32 k = 0; k < count; k++) list[k] += half;
    sums_of(p, list, count, side);
    for (u32 i = 0; i < p->m; i++) {
      f32 *sum = p->sums + i * PANEL, *to = out + i * ldo + from;
      for (u32 k = 0; k < count; k += 4) {
        v128_t g = wasm_v128_load(sum + k), below = wasm_f32x4_add(wasm_f32x4_splat(1), exp_f32x4(wasm_f32x4_neg(g)));
        wasm_v128_store(sum + k, wasm_f32x4_mul(wasm_f32x4_div(g, below), wasm_v128_load(sum + side + k)));
      }
      for (u32 k = 0; k < count; k++) to[k] = sum[k];
    }
  }
}

// Stores two neighbours in a cache of f32 or f16; `at` is the first one's element, which is even.
static void store_two(binding cache, u32 half, u64 at, f32 a, f32 b) {
  if (at + 2 > cache.size / (half ? 2 : 4)) return;
  if (half) {
    v128_t h = to_f16x4(wasm_f32x4_make(a, b, 0, 0));
    ((u32 *)cache.at)[at / 2] = (u32)wasm_i32x4_extract_lane(h, 0) | (u32)wasm_i32x4_extract_lane(h, 1) << 16;
  } else {
    ((f32 *)cache.at)[at] = a;
    ((f32 *)cache.at)[at + 1] = b;
  }
}

// Four weight rows of a head: from `a` on, two pairs of neighbours, or two neighbours and their partners from b on.
typedef struct {
  u32 a, b, angle;
} quad;

static quad quad_at(u32 row, u32 head, u32 rotary, u32 paired) {
  u32 e = row % head;
  if (e >= paired) return (quad){row, row + 2, e / 2};
  u32 a = row - e + e / 2;
  return (quad){a, a + rotary / 2, e / 2};
}

// Rotates queries and keys, writes queries to out, keys and values to the cache: see matmul/rotate.wgsl.
static void finish_rotate(const dispatch *d, const thread *t, const product *p) {
  u32 ldo = PARAM(5), head = PARAM(10), paired = PARAM(11), heads = PARAM(13), kv = PARAM(14), rotary = PARAM(15);
  f32 *out = AT(f32, 3) + PARAM(6), *table = AT(f32, 6);
  u32 positions = d->b[6].size / 4 / max_u32(rotary, 1);
  if (!holds(d->b[3], PARAM(6), p->m, ldo, heads * head) || !holds(d->b[5], 0, p->m, 4, 4)) return;
  range r = share(t, p->n, 4);
  for (u32 from = r.from; from < r.to; from += PANEL) {
    u32 list[PANEL], count = min_u32(r.to - from, PANEL);
    for (u32 k = 0; k < count; k += 4) {
      quad q = quad_at(from + k, head, rotary, paired);
      list[k] = q.a, list[k + 1] = q.a + 1, list[k + 2] = q.b, list[k + 3] = q.b + 1;
    }
    sums_of(p, list, count, 0);
    for (u32 i = 0; i < p->m; i++) {
      const u32 *row = AT(u32, 5) + 4 * i;
      for (u32 k = 0; k < count; k += 4) {
        f32 *v = p->sums + i * PANEL + k;
        u32 of = (from + k) / head, e = (from + k) % head;
        quad q = quad_at(from + k, head, rotary, paired);
        if (of < heads + kv && e < rotary && row[0] < positions) {
          const f32 *angle = table + (u64)row[0] * rotary + 2 * q.angle;
          for (u32 pair = 0; pair < 2; pair++) {
            f32 *x = e < paired ? v + pair : v + 2 * pair, *y = e < paired ? x + 2 : x + 1;
            f32 a = *x, b = *y, c = angle[2 * pair], s = angle[2 * pair + 1];
            *x = a * c - b * s;
            *y = a * s + b * c;
          }
        }
        for (u32 two = 0; two < 4; two += 2) {
          u32 at = two ? q.b : q.a;
          if (of < heads) {
            out[i * ldo + at] = v[two];
            out[i * ldo + at + 1] = v[two + 1];
          } else {
            u32 key = of < heads + kv;
            u64 to = (u64)row[1] * kv * head + at - (key ? heads : heads + kv) * head;
            store_two(d->b[key ? 7 : 8], d->words[2], to, v[two], v[two + 1]);
          }
        }
      }
    }
  }
}

// matmul.Record, RecordNext, RecordSiLU and RecordRope; words: format, end, and what it needs.
void matmul(const dispatch *d, const thread *t) {
  u32 format = d->words[0], m = PARAM(2), squares = PARAM(8), cols = PARAM(1) * step_of(format);
  product p = {.format = format, .m = m, .n = PARAM(0), .cols = cols, .q = AT(u8, 1), .s = AT(u8, 4)};
  p.q_bytes = row_bytes(format, cols), p.s_bytes = scale_bytes(format, cols);
  p.x = AT(f32, 2) + 4 * PARAM(4), p.ldx = 4 * PARAM(3);
  if (m == 0 || p.n == 0 || !holds(d->b[2], 4 * PARAM(4), m, p.ldx, cols + squares) ||
      !holds(d->b[1], 0, p.n, p.q_bytes / 4, p.q_bytes / 4) || !holds(d->b[4], 0, p.n, p.s_bytes / 4, p.s_bytes / 4))
    return;
  p.tiles = t->scratch + (0 - (uintptr_t)t->scratch) % 64;
  p.wide = (f32 *)(p.tiles + (quantised(format) ? padded(m) * quantised_bytes(cols) : 0));
  p.sums = p.wide + 4 * padded(m) * R;
  p.factors = p.sums + padded(m) * PANEL;
  if (t->first) {
    for (u32 i = 0; i < m; i++) p.factors[i] = factor_of(p.x + i * p.ldx, cols, squares, PARAM_F32(9));
    if (quantised(format)) quantise_rows(&p);
  }
  static void (*const finish[])(const dispatch *, const thread *, const product *) = {
      [STORE] = finish_store, [NEXT] = finish_next, [GATE] = finish_gate, [ROTATE] = finish_rotate};
  finish[d->words[1]](d, t, &p);
}

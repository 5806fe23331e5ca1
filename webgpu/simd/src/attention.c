// Attention over a KV cache: see webgpu/kernels/attention. A row's scores come first, for all its positions, then their
// softmax, then the sum of values. Every sum over positions is in their order, in lanes that the first position fixes:
// it depends neither on the slots nor on the heads that are computed together.
#include "cache.h"
#include "exp.h"
#include "reduce.h"

#define INLINE static inline __attribute__((always_inline))

enum {
  MOST_HEADS = 4,  // that share the loads of a key or value
  PLACES = 4,      // positions of a step of scores
  TILE = 16,       // positions that are decoded together, a multiple of PLACES
  MOST_SCORES = 1 << 16,  // that are kept at once, unless those of one team are more
};

// The heads of one row that share a key: as many scores as positions for each, n of them, a multiple of PLACES.
typedef struct {
  u32 n, octets, heads;
  const f32 *q;  // (heads, dim)
  f32 *scores;   // (heads, n), then weights
  f32 *out;      // (heads, dim)
} team;

// Keys or values in f32 of positions from `from` to before `to`: that of position j is `offsets[j - from]` bytes behind
// `at`.
typedef struct {
  u32 from, to;
  const u8 *at;
  const u32 *offsets;
} tile;

// The sum of the lanes of each of four vectors.
INLINE v128_t sum_each(v128_t a, v128_t b, v128_t c, v128_t d) {
  v128_t u = wasm_f32x4_add(wasm_i32x4_shuffle(a, b, 0, 2, 4, 6), wasm_i32x4_shuffle(a, b, 1, 3, 5, 7));
  v128_t v = wasm_f32x4_add(wasm_i32x4_shuffle(c, d, 0, 2, 4, 6), wasm_i32x4_shuffle(c, d, 1, 3, 5, 7));
  return wasm_f32x4_add(wasm_i32x4_shuffle(u, v, 0, 2, 4, 6), wasm_i32x4_shuffle(u, v, 1, 3, 5, 7));
}

// Scores of H heads: q·k.
INLINE void score(u32 H, const team *m, const tile *keys) {
  for (u32 j = keys->from; j < keys->to; j += PLACES) {
    const u32 *offsets = keys->offsets + (j - keys->from);
    v128_t sum[MOST_HEADS][PLACES];
    UNROLL for (u32 h = 0; h < H; h++)
      UNROLL for (u32 p = 0; p < PLACES; p++) sum[h][p] = wasm_f32x4_splat(0);
    for (u32 i = 0; i < 2 * m->octets; i++) {
      UNROLL for (u32 p = 0; p < PLACES; p++) {
        v128_t k = wasm_v128_load(keys->at + offsets[p] + 16 * i);
        UNROLL for (u32 h = 0; h < H; h++) {
          v128_t q = wasm_v128_load(m->q + 8 * h * m->octets + 4 * i);
          sum[h][p] = wasm_f32x4_add(sum[h][p], wasm_f32x4_mul(k, q));
        }
      }
    }
    UNROLL for (u32 h = 0; h < H; h++)
      wasm_v128_store(m->scores + h * m->n + j, sum_each(sum[h][0], sum[h][1], sum[h][2], sum[h][3]));
  }
}

// Scores of one head become their softmax; those from `count` on are no positions and become 0.
static void soften(f32 *scores, u32 n, u32 count, f32 scale) {
  for (u32 j = count; j < n; j++) scores[j] = as_f32(0xff800000);  // -∞
  v128_t most = wasm_f32x4_splat(as_f32(0xff800000)), sum = wasm_f32x4_splat(0);
  for (u32 j = 0; j < n; j += 4) {
    v128_t s = wasm_f32x4_mul(wasm_v128_load(scores + j), wasm_f32x4_splat(scale));
    wasm_v128_store(scores + j, s);
    most = wasm_f32x4_pmax(most, s);  // without NaN, which the sum has
  }
  most = wasm_f32x4_pmax(most, wasm_i32x4_shuffle(most, most, 2, 3, 0, 1));
  most = wasm_f32x4_pmax(most, wasm_i32x4_shuffle(most, most, 1, 0, 3, 2));
  for (u32 j = 0; j < n; j += 4) {
    v128_t w = exp_f32x4(wasm_f32x4_sub(wasm_v128_load(scores + j), most));
    wasm_v128_store(scores + j, w);
    sum = wasm_f32x4_add(sum, w);
  }
  v128_t part = wasm_f32x4_splat(1 / sum_lanes(sum));
  for (u32 j = 0; j < n; j += 4) wasm_v128_store(scores + j, wasm_f32x4_mul(wasm_v128_load(scores + j), part));
}

// Adds weighted values to T vectors of the output of H heads, from element 4·i on.
INLINE void mix(u32 H, u32 T, const team *m, const tile *values, u32 i) {
  v128_t sum[MOST_HEADS][4];
  f32 *out = m->out + 4 * i;
  UNROLL for (u32 h = 0; h < H; h++)
    UNROLL for (u32 o = 0; o < T; o++) sum[h][o] = wasm_v128_load(out + 8 * h * m->octets + 4 * o);
  for (u32 j = values->from; j < values->to; j++) {
    const u8 *at = values->at + values->offsets[j - values->from] + 16 * i;
    UNROLL for (u32 o = 0; o < T; o++) {
      v128_t v = wasm_v128_load(at + 16 * o);
      UNROLL for (u32 h = 0; h < H; h++)
        sum[h][o] = wasm_f32x4_add(sum[h][o], wasm_f32x4_mul(wasm_v128_load32_splat(m->scores + h * m->n + j), v));
    }
  }
  UNROLL for (u32 h = 0; h < H; h++)
    UNROLL for (u32 o = 0; o < T; o++) wasm_v128_store(out + 8 * h * m->octets + 4 * o, sum[h][o]);
}

INLINE void mix_all(u32 H, const team *m, const tile *values) {
  u32 i = 0, T = H > 2 ? 2 : 4;  // as many sums as there are registers
  for (; i + T <= 2 * m->octets; i += T) mix(H, T, m, values, i);
  if (T > 2 && i < 2 * m->octets) mix(H, 2, m, values, i);
}

#define HEADS(H) \
  static void score_##H(const team *m, const tile *keys) { score(H, m, keys); } \
  static void mix_##H(const team *m, const tile *values) { mix_all(H, m, values); }
HEADS(1) HEADS(2) HEADS(3) HEADS(4)
static void (*const score_heads[])(const team *, const tile *) = {score_1, score_2, score_3, score_4};
static void (*const mix_heads[])(const team *, const tile *) = {mix_1, mix_2, mix_3, mix_4};

// A row: it attends to `count` positions, with n scores a head.
typedef struct {
  u32 i, count, n;
} attending;

// A dispatch, and what a thread has in its scratch.
typedef struct {
  const dispatch *d;
  cache c;
  u32 heads, group, chunks, size;  // `chunks` teams of up to `size` heads share a key
  u32 fit;                         // teams that scores has room for
  u32 *slots;                      // of the positions that the row attends to: bytes from slot 0
  f32 *scores;                     // (fit, MOST_HEADS, positions)
  f32 *decoded;                    // (TILE, dim)
  u32 *in_order;                   // the offsets in decoded
  attending *row;                  // whose slots are found
} job;

// Team u of a row, the k-th of those that have scores.
static team team_of(const job *g, const attending *row, u32 u, u32 k) {
  u32 first = u % g->chunks * g->size, head = u / g->chunks * g->group + first, dim = g->c.dim;
  const dispatch *d = g->d;
  return (team){row->n, dim / 8, min_u32(g->size, g->group - first), AT(f32, 4) + row->i * PARAM(3) + head * dim,
                g->scores + k * MOST_HEADS * row->n, AT(f32, 7) + (row->i * g->heads + head) * dim};
}

// Has a part of the keys or values of a head be in f32.
static void decode(const job *g, const u8 *at, u32 head, tile *part) {
  const cache *c = &g->c;
  u32 dim = c->dim, block = c->block, data = 4 * cache_scales(c) + head * cache_head(c);
  part->at = at + data, part->offsets = g->slots + part->from;
  if (c->format == KV_F32) return;
  u32 scales = 4 * head * (cache_scales(c) / c->heads);
  for (u32 j = part->from; j < part->to; j++) {
    const u8 *slot = at + g->slots[j];
    f32 *to = g->decoded + (j - part->from) * dim;
    if (c->format == KV_F16) load_f16(slot + data, to, dim);
    else load_q8(slot + data, slot + scales, to, dim, block);
  }
  part->at = (const u8 *)g->decoded, part->offsets = g->in_order;
}

// Calls one of `use` for teams r of a row with each tile of the first `end` positions. All teams take a tile before the
// next one, so that the cache is read in its order.
static void each_tile(const job *g, const attending *row, range r, const u8 *at, u32 end,
                      void (*const *use)(const team *, const tile *)) {
  for (u32 from = 0; from < end; from += TILE) {
    tile part = {from, min_u32(end, from + TILE), 0, 0};
    for (u32 u = r.from; u < r.to; u++) {
      team m = team_of(g, row, u, u - r.from);
      if (u == r.from || u % g->chunks == 0) decode(g, at, u / g->chunks, &part);
      use[m.heads - 1](&m, &part);
    }
  }
}

static void attend(const job *g, const attending *row, range r) {
  const dispatch *d = g->d;
  each_tile(g, row, r, AT(u8, 5), row->n, score_heads);
  for (u32 u = r.from; u < r.to; u++) {
    team m = team_of(g, row, u, u - r.from);
    for (u32 h = 0; h < m.heads; h++) soften(m.scores + h * m.n, m.n, row->count, PARAM_F32(5));
    for (u32 k = 0; k < m.heads * g->c.dim; k++) m.out[k] = 0;
  }
  each_tile(g, row, r, AT(u8, 6), row->count, mix_heads);
}

// The positions that a row may attend to, in whole steps.
static u32 most_positions(const dispatch *d) {
  u32 n = min_u32(d->b[2].size / 4, PARAM(6));
  return (n + PLACES - 1) / PLACES * PLACES;
}

static job job_of(const dispatch *d, u8 *scratch) {
  u32 n = most_positions(d), group = PARAM(2), kv = PARAM(1) / group, dim = d->words[1];
  u32 chunks = (group + MOST_HEADS - 1) / MOST_HEADS;
  u32 fit = min_u32(kv * chunks, max_u32(MOST_SCORES / (MOST_HEADS * n), 1));
  job g = {d, {d->words[0], kv, dim, d->words[2]}, PARAM(1), group, chunks, (group + chunks - 1) / chunks, fit,
           (u32 *)scratch, 0, 0, 0, 0};
  g.scores = (f32 *)(g.slots + n);
  g.decoded = g.scores + fit * MOST_HEADS * n;
  g.in_order = (u32 *)(g.decoded + TILE * dim);
  g.row = (attending *)(g.in_order + TILE);
  return g;
}

need attention_needs(const dispatch *d) {
  job g = job_of(d, 0);
  return (need){(u32)(uintptr_t)(g.row + 1), (u64)PARAM(0) * g.c.heads * g.chunks};
}

// Writes the bytes from slot 0 to the slot of each position that row i attends to. Returns their number.
static u32 find_slots(const dispatch *d, u32 i, u32 slot_bytes, u32 *slots) {
  const u32 *row = AT(u32, 1) + 4 * i, *table = AT(u32, 2), *ancestors = AT(u32, 3);
  u32 positions = d->b[2].size / 4, listed = d->b[3].size / 4, window = PARAM(6), stride = PARAM(4), shared = row[2];
  u32 last = min_u32(row[0], positions - 1), first = last < window ? 0 : last + 1 - window;
  u32 most = min_u32(d->b[5].size, d->b[6].size) / slot_bytes - 1, count = last + 1 - first;
  for (u32 k = 0; k < count; k++) {
    u32 j = first + k;
    u32 slot = j < shared ? table[j] : ancestors[min_u32(i * stride + j - shared, listed - 1)];
    slots[k] = min_u32(slot, most) * slot_bytes;
  }
  for (u32 k = count; k % PLACES != 0; k++) slots[k] = slots[count - 1];
  return count;
}

// softmax(q·k·scale)·v for each row and head; attention.Record on a host. words: format of the caches, elements of a
// head, block.
void attention(const dispatch *d, const thread *t) {
  job g = job_of(d, t->scratch);
  if (t->first) {
    for (u32 j = 0; j < TILE; j++) g.in_order[j] = 4 * j * g.c.dim;
    g.row->i = ~0u;
  }
  u32 teams = g.c.heads * g.chunks;
  range r = share(t, PARAM(0) * teams, 1);
  while (r.from < r.to) {
    u32 i = r.from / teams;
    if (g.row->i != i) {
      u32 count = find_slots(d, i, cache_slot(&g.c), g.slots);
      *g.row = (attending){i, count, (count + PLACES - 1) / PLACES * PLACES};
    }
    for (u32 end = min_u32((i + 1) * teams, r.to); r.from < end;) {
      u32 first = r.from % teams, together = min_u32(end - r.from, g.fit);
      attend(&g, g.row, (range){first, first + together});
      r.from += together;
    }
  }
}

// Attention over a KV cache: see webgpu/kernels/attention. A row's scores come first, for all its positions, then their
// softmax, then the sum of values. Every sum over positions is in their order, in lanes that the first position fixes:
// it depends neither on the slots nor on the heads that are computed together.
#include "cache.h"
#include "exp.h"
#include "reduce.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

enum {
  MOST_HEADS = 4,  // that share the loads of a key or value
  PLACES = 4,      // positions of a step of scores
};

// The keys or values of one head.
typedef struct {
  const u8 *at;  // slot 0
  u32 data, scales, block;
} plane;

// What heads of one row need: the bytes from slot 0 to the slot of each of n positions, and n scores for each head.
// n is a multiple of PLACES.
typedef struct {
  const u32 *slots;
  u32 n, octets;
  f32 *scores;  // (heads, n)
} span;

INLINE octet load(u32 format, const plane *p, u32 slot, u32 i) {
  const u8 *at = p->at + slot;
  return cache_load(format, p->block, at + p->data, (const f32 *)(at + p->scales), i);
}

// The sum of the lanes of each of four vectors.
INLINE v128_t sum_each(v128_t a, v128_t b, v128_t c, v128_t d) {
  v128_t u = wasm_f32x4_add(wasm_i32x4_shuffle(a, b, 0, 2, 4, 6), wasm_i32x4_shuffle(a, b, 1, 3, 5, 7));
  v128_t v = wasm_f32x4_add(wasm_i32x4_shuffle(c, d, 0, 2, 4, 6), wasm_i32x4_shuffle(c, d, 1, 3, 5, 7));
  return wasm_f32x4_add(wasm_i32x4_shuffle(u, v, 0, 2, 4, 6), wasm_i32x4_shuffle(u, v, 1, 3, 5, 7));
}

// Scores of H neighbouring heads: q·k.
INLINE void score(u32 format, u32 H, const plane *keys, const span *s, const f32 *q) {
  for (u32 j = 0; j < s->n; j += PLACES) {
    v128_t sum[MOST_HEADS][PLACES];
    UNROLL for (u32 h = 0; h < H; h++)
      UNROLL for (u32 p = 0; p < PLACES; p++) sum[h][p] = wasm_f32x4_splat(0);
    for (u32 i = 0; i < s->octets; i++) {
      UNROLL for (u32 p = 0; p < PLACES; p++) {
        octet k = load(format, keys, s->slots[j + p], i);
        UNROLL for (u32 h = 0; h < H; h++) {
          const f32 *x = q + 8 * (h * s->octets + i);
          sum[h][p] = wasm_f32x4_add(sum[h][p], wasm_f32x4_mul(k.a, wasm_v128_load(x)));
          sum[h][p] = wasm_f32x4_add(sum[h][p], wasm_f32x4_mul(k.b, wasm_v128_load(x + 4)));
        }
      }
    }
    UNROLL for (u32 h = 0; h < H; h++)
      wasm_v128_store(s->scores + h * s->n + j, sum_each(sum[h][0], sum[h][1], sum[h][2], sum[h][3]));
  }
}

// Scores of one head become exp(scale·score - highest); those from `count` on are no positions and become 0. Returns
// the sum.
static f32 soften(f32 *scores, u32 n, u32 count, f32 scale) {
  for (u32 j = count; j < n; j++) scores[j] = as_f32(0xff800000);  // -∞
  v128_t most = wasm_f32x4_splat(as_f32(0xff800000)), sum = wasm_f32x4_splat(0);
  for (u32 j = 0; j < n; j += 4) {
    v128_t s = wasm_f32x4_mul(wasm_v128_load(scores + j), wasm_f32x4_splat(scale));
    wasm_v128_store(scores + j, s);
    most = wasm_f32x4_max(most, s);
  }
  most = wasm_f32x4_max(most, wasm_i32x4_shuffle(most, most, 2, 3, 0, 1));
  most = wasm_f32x4_max(most, wasm_i32x4_shuffle(most, most, 1, 0, 3, 2));
  for (u32 j = 0; j < n; j += 4) {
    v128_t w = exp_f32x4(wasm_f32x4_sub(wasm_v128_load(scores + j), most));
    wasm_v128_store(scores + j, w);
    sum = wasm_f32x4_add(sum, w);
  }
  return sum_lanes(sum);
}

// T octets of the output of H heads, from octet i on: weighted values over sums.
INLINE void mix(u32 format, u32 H, u32 T, const plane *values, const span *s, u32 i, const f32 *sums, f32 *out) {
  octet acc[MOST_HEADS][2];
  UNROLL for (u32 h = 0; h < H; h++)
    UNROLL for (u32 o = 0; o < T; o++) acc[h][o] = (octet){wasm_f32x4_splat(0), wasm_f32x4_splat(0)};
  for (u32 j = 0; j < s->n; j++) {
    UNROLL for (u32 o = 0; o < T; o++) {
      octet v = load(format, values, s->slots[j], i + o);
      UNROLL for (u32 h = 0; h < H; h++) {
        v128_t w = wasm_v128_load32_splat(s->scores + h * s->n + j);
        acc[h][o].a = wasm_f32x4_add(acc[h][o].a, wasm_f32x4_mul(w, v.a));
        acc[h][o].b = wasm_f32x4_add(acc[h][o].b, wasm_f32x4_mul(w, v.b));
      }
    }
  }
  UNROLL for (u32 h = 0; h < H; h++)
    UNROLL for (u32 o = 0; o < T; o++) {
      f32 *to = out + 8 * (h * s->octets + i + o);
      wasm_v128_store(to, wasm_f32x4_div(acc[h][o].a, wasm_f32x4_splat(sums[h])));
      wasm_v128_store(to + 4, wasm_f32x4_div(acc[h][o].b, wasm_f32x4_splat(sums[h])));
    }
}

INLINE void attend(u32 format, u32 H, const plane *keys, const plane *values, const span *s, u32 count, const f32 *q,
                   f32 scale, f32 *out) {
  f32 sums[MOST_HEADS];
  score(format, H, keys, s, q);
  for (u32 h = 0; h < H; h++) sums[h] = soften(s->scores + h * s->n, s->n, count, scale);
  u32 i = 0, T = H > 2 ? 1 : 2;  // as many sums as there are registers
  for (; i + T <= s->octets; i += T) mix(format, H, T, values, s, i, sums, out);
  for (; i < s->octets; i++) mix(format, H, 1, values, s, i, sums, out);
}

#define ATTEND(format, H) \
  static void attend_##format##_##H(const plane *k, const plane *v, const span *s, u32 n, const f32 *q, f32 x, f32 *o) { \
    attend(format, H, k, v, s, n, q, x, o);                                                                            \
  }
#define ATTEND_HEADS(format) ATTEND(format, 1) ATTEND(format, 2) ATTEND(format, 3) ATTEND(format, 4)
ATTEND_HEADS(KV_F32)
ATTEND_HEADS(KV_F16)
ATTEND_HEADS(KV_Q8)

#define ROW(format) {attend_##format##_1, attend_##format##_2, attend_##format##_3, attend_##format##_4}
static void (*const attends[][MOST_HEADS])(const plane *, const plane *, const span *, u32, const f32 *, f32, f32 *) = {
    ROW(KV_F32), ROW(KV_F16), ROW(KV_Q8)};

// The positions that a row may attend to, in whole steps.
static u32 most_positions(const dispatch *d) {
  u32 n = min_u32(d->b[2].size / 4, PARAM(6));
  return (n + PLACES - 1) / PLACES * PLACES;
}

u32 attention_scratch(const dispatch *d) { return most_positions(d) * 4 * (1 + MOST_HEADS); }

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
  u32 heads = PARAM(1), group = PARAM(2), width = PARAM(3), row0 = PARAM(7), dim = d->words[1];
  cache c = {d->words[0], heads / group, dim, d->words[2]};
  u32 chunks = (group + MOST_HEADS - 1) / MOST_HEADS, size = (group + chunks - 1) / chunks;
  u32 *slots = (u32 *)t->scratch, of = 0, count = 0;
  span s = {slots, 0, dim / 8, (f32 *)t->scratch + most_positions(d)};
  range r = share(t, PARAM(0) * c.heads * chunks, 1);
  for (u32 task = r.from; task < r.to; task++) {
    u32 i = row0 + task / (c.heads * chunks), kv = task / chunks % c.heads, first = task % chunks * size;
    if (task == r.from || i != of) {
      count = find_slots(d, of = i, cache_slot(&c), slots);
      s.n = (count + PLACES - 1) / PLACES * PLACES;
    }
    u32 data = 4 * cache_scales(&c) + kv * cache_head(&c), scales = c.format == KV_Q8 ? 4 * kv * dim / c.block : 0;
    plane keys = {AT(u8, 5), data, scales, c.block}, values = {AT(u8, 6), data, scales, c.block};
    u32 head = kv * group + first;
    attends[c.format][min_u32(size, group - first) - 1](&keys, &values, &s, count, AT(f32, 4) + i * width + head * dim,
                                                        PARAM_F32(5), AT(f32, 7) + (i * heads + head) * dim);
  }
}

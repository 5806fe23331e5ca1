// Filters and the draw among the tokens that remain: see webgpu/kernels/sample/filter.go.
#include "noise.h"

// Words that compare like finite floats; both zeros have the same.
static v128_t order4(v128_t z) {
  v128_t minus = wasm_i32x4_shr(z, 31);
  return wasm_v128_bitselect(wasm_i32x4_neg(z), wasm_v128_or(z, wasm_u32x4_const_splat(0x80000000)), minus);
}
static u32 order(f32 z) { return (u32)wasm_i32x4_extract_lane(order4(wasm_f32x4_splat(z)), 0); }
static f32 unorder(u32 k) { return as_f32(k >> 31 ? k & 0x7fffffff : 0 - k); }

// Keys and weights of some logits of a row, in its order.
typedef struct {
  u32 *keys;
  f32 *weights;
  u32 count;
} weighed;

// The largest key such that the weights of the keys from it on sum to at least want: a radix selection from the top,
// eight bits a pass. It drops what a pass rules out.
static u32 radix_select(weighed w, f64 want) {
  u32 prefix = 0;
  for (u32 shift = 32; shift > 0;) {
    shift -= 8;
    f64 bins[256] = {0};
    for (u32 i = 0; i < w.count; i++) bins[w.keys[i] >> shift & 255] += w.weights[i];
    u32 digit = 0;  // if rounding leaves the sum short of want, the last bin with weight
    for (u32 i = 0; i < 256; i++) {
      if (bins[255 - i] == 0) continue;
      digit = 255 - i;
      if (bins[digit] >= want) break;
      want -= bins[digit];
    }
    u32 left = 0;
    for (u32 i = 0; i < w.count; i++) {
      if ((w.keys[i] >> shift & 255) != digit) continue;
      w.keys[left] = w.keys[i];
      w.weights[left++] = w.weights[i];
    }
    w.count = left;
    prefix |= digit << shift;
  }
  return prefix;
}

static u32 segments(u32 n) { return (n + SEGMENT - 1) / SEGMENT; }

// The bytes of the lanes whose bits are set, the lowest first.
#define LANE(i) 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3
static const u8 lanes_of[16][16] = {
    {0},       {LANE(0)},          {LANE(1)},          {LANE(0), LANE(1)},          {LANE(2)},
    {LANE(0), LANE(2)},            {LANE(1), LANE(2)}, {LANE(0), LANE(1), LANE(2)}, {LANE(3)},
    {LANE(0), LANE(3)},            {LANE(1), LANE(3)}, {LANE(0), LANE(1), LANE(3)}, {LANE(2), LANE(3)},
    {LANE(0), LANE(2), LANE(3)},   {LANE(1), LANE(2), LANE(3)},
    {LANE(0), LANE(1), LANE(2), LANE(3)},
};

// Adds the lanes whose bits are set to the list, and writes up to three more words after them.
static void append(weighed *w, v128_t keys, v128_t weights, u32 bits) {
  v128_t lanes = wasm_v128_load(lanes_of[bits]);
  wasm_v128_store(w->keys + w->count, wasm_i8x16_swizzle(keys, lanes));
  wasm_v128_store(w->weights + w->count, wasm_i8x16_swizzle(weights, lanes));
  w->count += (u32)__builtin_popcount(bits);
}

// Lists the logits with keys from floor on and weights exp((z - most)·scale) of at least `least`, and returns the sum
// of the weights, those below `least` included. tops are the largest logits of the segments.
static f64 weigh(weighed *w, const f32 *z, u32 n, const f32 *tops, u32 floor, f32 most, f32 scale, f32 least) {
  f64 total = 0;
  w->count = 0;
  for (u32 s = 0; s < segments(n); s++) {
    if (order(tops[s]) < floor) continue;
    v128_t sums = wasm_f32x4_splat(0);
    for (u32 i = s * SEGMENT; i < min_u32(n, (s + 1) * SEGMENT); i += 4) {
      v128_t v = logits4(z, i, n), keys = order4(v), from = wasm_u32x4_ge(keys, wasm_i32x4_splat((i32)floor));
      from = wasm_v128_and(from, wasm_f32x4_ge(v, wasm_f32x4_splat(LOW)));  // not past the end
      if (!wasm_v128_any_true(from)) continue;
      v128_t e = expo4(wasm_f32x4_mul(wasm_f32x4_sub(v, wasm_f32x4_splat(most)), wasm_f32x4_splat(scale)));
      sums = wasm_f32x4_add(sums, wasm_v128_and(e, from));
      append(w, keys, e, wasm_i32x4_bitmask(wasm_v128_and(from, wasm_f32x4_ge(e, wasm_f32x4_splat(least)))));
    }
    total += sum_lanes(sums);
  }
  return total;
}

// The key of the count-th largest logit. The count-th largest of the segments' largest ones is a lower bound.
static u32 top_k(weighed *w, const f32 *z, u32 n, const f32 *tops, u32 count) {
  u32 floor = 0;
  if (count <= segments(n)) {
    w->count = segments(n);
    for (u32 s = 0; s < w->count; s++) w->keys[s] = order(tops[s]), w->weights[s] = 1;
    floor = radix_select(*w, count);
  }
  weigh(w, z, n, tops, floor, 0, 0, 0);
  return radix_select(*w, count);
}

// The largest key such that the keys from it on have a portion of the mass of the keys from floor on. The tokens that
// are not listed have at most half of the other portion together, because the largest logit has weight 1.
static u32 top_p(weighed *w, const f32 *z, u32 n, const f32 *tops, u32 floor, f32 most, f32 inverse, f32 portion) {
  f64 total = weigh(w, z, n, tops, floor, most, inverse, (1 - portion) / 2 / (f32)n);
  return radix_select(*w, portion * total);
}

// The first of the largest logits.
static u32 argmax(const f32 *z, u32 n, const f32 *tops, f32 most) {
  u32 i = 0;
  while (i + 1 < segments(n) && tops[i] != most) i++;
  for (i *= SEGMENT; i + 1 < n && finite_f32(z[i]) != most;) i++;
  return i;
}

// The words of a list of n logits and of the three that append writes after them.
static u32 room(u32 n) { return (n + 3) / 4 * 4 + 4; }

need filter_needs(const dispatch *d) {
  return (need){4 * (2 * room(PARAM(1)) + segments(PARAM(1))), PARAM(0)};
}

// Filters each row and draws a token; sample.RecordFilter.
void filter(const dispatch *d, const thread *t) {
  u32 vocab = PARAM(1), stride = PARAM(2);
  const u32 *draw = AT(u32, 2);
  f32 inverse = as_f32(draw[0]), portion = as_f32(draw[5]), gap = as_f32(draw[6]);
  u32 count = draw[4];
  weighed w = {(u32 *)t->scratch, (f32 *)t->scratch + room(vocab), 0};
  f32 *tops = w.weights + room(vocab);
  range rows = share(t, PARAM(0), 1);
  for (u32 row = rows.from; row < rows.to; row++) {
    const f32 *z = AT(f32, 1) + row * stride;
    for (u32 s = 0; s < segments(vocab); s++)
      tops[s] = most_of(z + s * SEGMENT, min_u32(vocab - s * SEGMENT, SEGMENT));
    f32 most = most_of(tops, segments(vocab));
    u32 first = argmax(z, vocab, tops, most);
    // Tokens from threshold on are kept; scale is that of probability and entropy.
    f32 threshold = LOW, scale = inverse > 0 ? inverse : 1;
    if (inverse > 0) {
      u32 floor = 0;
      if (count > 0 && count < vocab) floor = top_k(&w, z, vocab, tops, count);
      if (portion < 1) floor = max_u32(floor, top_p(&w, z, vocab, tops, floor, most, inverse, portion));
      threshold = most - gap;
      if (floor > 0) threshold = max_f32(threshold, unorder(floor));
    }

    drawing y = draw_with(row_key(draw, draw[3], AT(u32, 3)[row]));
    f64 sum = 0, moment = 0;
    for (u32 s = 0; s < segments(vocab); s++) {
      if (tops[s] < threshold) continue;
      v128_t sums = wasm_f32x4_splat(0), moments = sums, zero = sums;
      for (u32 i = s * SEGMENT; i < min_u32(vocab, (s + 1) * SEGMENT); i += 4) {
        v128_t v = logits4(z, i, vocab), kept = wasm_f32x4_ge(v, wasm_f32x4_splat(threshold));
        if (!wasm_v128_any_true(kept)) continue;
        v128_t less = wasm_f32x4_mul(wasm_f32x4_sub(v, wasm_f32x4_splat(most)), wasm_f32x4_splat(scale));
        v128_t e = wasm_v128_and(expo4(less), kept);
        sums = wasm_f32x4_add(sums, e);
        moments = wasm_f32x4_add(moments, wasm_v128_and(wasm_f32x4_mul(less, e), wasm_f32x4_gt(e, zero)));
        if (inverse > 0) {
          v128_t logs = wasm_f32x4_mul(v, wasm_f32x4_splat(inverse));
          offer4(&y, wasm_v128_bitselect(logs, wasm_f32x4_splat(-__builtin_inff()), kept), i);
        }
      }
      sum += sum_lanes(sums);
      moment += sum_lanes(moments);
    }
    u32 *out = AT(u32, 5) + row * RECORD_WORDS, token = inverse > 0 ? best_of(y.b).id : first;
    f32 log_sum = log_f32((f32)sum);
    out[0] = token;
    out[1] = as_u32(inverse > 0 ? threshold : most);
    out[2] = as_u32(inverse > 0 ? most * inverse + log_sum : 0);
    out[3] = first;
    out[4] = as_u32(expo((finite_f32(z[min_u32(token, vocab - 1)]) - most) * scale) / (f32)sum);
    out[5] = as_u32(max_f32(log_sum - (f32)(moment / sum), 0));
  }
}

// The noise of draws, as noise.wgsl: a hash of seed, stream, position and token, and its Gumbel transform.
#pragma once
#include "log.h"
#include "logits.h"

// All that a row's noise depends on, except the token.
typedef struct {
  u32 lo, hi, position;
} draw_key;

// Streams of package spec that rejection sampling draws from.
enum { STREAM_ACCEPT = 2, STREAM_RESIDUAL = 3 };

// The key of a row with the seed of a draw view. Positions are below 2^28.
static inline draw_key row_key(const u32 *draw, u32 stream, u32 position) {
  return (draw_key){draw[1], draw[2], position | stream << 28};
}

// PCG4D.
static inline v128_t hash4(draw_key k, v128_t id) {
  v128_t x = wasm_i32x4_splat((i32)(k.lo * 1664525u + 1013904223u));
  v128_t y = wasm_i32x4_splat((i32)(k.hi * 1664525u + 1013904223u));
  v128_t z = wasm_i32x4_splat((i32)(k.position * 1664525u + 1013904223u));
  v128_t w = wasm_i32x4_add(wasm_i32x4_mul(id, wasm_i32x4_splat(1664525)), wasm_i32x4_splat(1013904223));
  for (u32 round = 0; round < 2; round++) {
    x = wasm_i32x4_add(x, wasm_i32x4_mul(y, w));
    y = wasm_i32x4_add(y, wasm_i32x4_mul(z, x));
    z = wasm_i32x4_add(z, wasm_i32x4_mul(x, y));
    w = wasm_i32x4_add(w, wasm_i32x4_mul(y, z));
    if (round) break;
    x = wasm_v128_xor(x, wasm_u32x4_shr(x, 16));
    y = wasm_v128_xor(y, wasm_u32x4_shr(y, 16));
    z = wasm_v128_xor(z, wasm_u32x4_shr(z, 16));
    w = wasm_v128_xor(w, wasm_u32x4_shr(w, 16));
  }
  return wasm_v128_xor(w, x);
}

// A number in (0, 1).
static inline f64 uniform(draw_key k, u32 id) {
  u32 h = (u32)wasm_i32x4_extract_lane(hash4(k, wasm_i32x4_splat((i32)id)), 0);
  return ((f64)h + 0.5) * 0x1p-32;
}

// -ln(1-w) for w = (h + ½) / 2^32. In the lower half, which gives the large Gumbel values, the series of
// 2 artanh(w / (2-w)) keeps the relative precision of w; in the upper half 1-w comes from the complement of h.
static inline v128_t exponential4(v128_t h) {
  const v128_t half = wasm_f32x4_splat(0.5f), unit = wasm_f32x4_splat(0x1p-32f);
  v128_t w = wasm_f32x4_mul(wasm_f32x4_add(wasm_f32x4_convert_u32x4(h), half), unit);
  v128_t t = wasm_f32x4_div(w, wasm_f32x4_sub(wasm_f32x4_splat(2), w)), q = wasm_f32x4_mul(t, t);
  static const f32 terms[] = {1 / 11.f, 1 / 9.f, 1 / 7.f, 1 / 5.f, 1 / 3.f, 1};
  v128_t low = wasm_f32x4_splat(1 / 13.f);
  for (u32 i = 0; i < sizeof terms / sizeof *terms; i++)
    low = wasm_f32x4_add(wasm_f32x4_mul(low, q), wasm_f32x4_splat(terms[i]));
  low = wasm_f32x4_mul(wasm_f32x4_add(t, t), low);
  v128_t rest = wasm_f32x4_add(wasm_f32x4_convert_u32x4(wasm_v128_not(h)), half);
  v128_t high = wasm_f32x4_neg(log_f32x4(wasm_f32x4_mul(rest, unit)));
  return wasm_v128_bitselect(high, low, wasm_i32x4_shr(h, 31));
}

// Standard Gumbel noise of the hash of a token.
static inline v128_t gumbel4(v128_t h) { return wasm_f32x4_neg(log_f32x4(exponential4(h))); }

// A bound of gumbel4, by the exponent of the hash: -ln(-ln(1-w)) < -ln w.
static inline v128_t gumbel_bound4(v128_t h) {
  v128_t exponent = wasm_u32x4_shr(wasm_f32x4_convert_u32x4(h), 23);
  v128_t halvings = wasm_f32x4_convert_i32x4(wasm_i32x4_sub(wasm_i32x4_splat(127 + 32), exponent));
  return wasm_f32x4_mul(halvings, wasm_f32x4_splat(0.694f));  // above ln 2 by more than rounding errors
}

#define MOST_GUMBEL 23  // above all noise

// A draw: the token with the best score, the sum of a logarithm and noise.
typedef struct {
  draw_key key;
  best4 b;
  v128_t most;  // the best score so far, in all lanes
} drawing;

static inline drawing draw_with(draw_key key) { return (drawing){key, none_yet(), wasm_f32x4_splat(NONE)}; }

static inline void take_scores(drawing *a, v128_t logs, v128_t hashes, v128_t ids) {
  take(&a->b, wasm_f32x4_add(logs, gumbel4(hashes)), ids);
  a->most = wasm_f32x4_splat(max_lanes(a->b.score));
}

// Offers tokens i to i+3, later than all before. Most lose with every noise, or with every noise of the size that the
// hash gives them, and cost little.
static inline void offer4(drawing *a, v128_t logs, u32 i) {
  if (!wasm_v128_any_true(wasm_f32x4_gt(wasm_f32x4_add(logs, wasm_f32x4_splat(MOST_GUMBEL)), a->most))) return;
  v128_t ids = ids4(i), h = hash4(a->key, ids);
  if (!wasm_v128_any_true(wasm_f32x4_gt(wasm_f32x4_add(logs, gumbel_bound4(h)), a->most))) return;
  take_scores(a, logs, h, ids);
}

// What kernels over rows of logits share, as noise.wgsl: finite logits, probabilities, and the best of a row.
#pragma once
#include "exp.h"
#include "kernel.h"
#include "reduce.h"

#define LOW -1e30f   // replaces -∞ logits; -LOW replaces NaN and ∞
#define NONE -3e38f  // below every score: LOW / temperature is above it
#define NO_ID 0xffffffffu

// The length of a row's record in Filter's output, whose first words are the drawn token, the threshold of kept logits,
// their log-sum-exp and the argmax.
enum { RECORD_WORDS = 6 };

// Sums have a partial for this many tokens, so that a large vocabulary of small probabilities keeps its precision.
enum { SEGMENT = 256 };

static inline f32 max_f32(f32 a, f32 b) { return a < b ? b : a; }
static inline f32 min_f32(f32 a, f32 b) { return b < a ? b : a; }

// Logits between ±LOW.
static inline f32 finite_f32(f32 z) { return max_f32(LOW, min_f32(-LOW, z)); }
static inline v128_t finite4(v128_t z) {
  return wasm_f32x4_pmax(wasm_f32x4_splat(LOW), wasm_f32x4_pmin(wasm_f32x4_splat(-LOW), z));
}

// Logits i to i+3 of a row of n. Lanes past the end are -∞, which no logit is: they are in no set of kept tokens.
static inline v128_t logits4(const f32 *z, u32 i, u32 n) {
  if (i + 4 <= n) return finite4(wasm_v128_load(z + i));
  f32 some[4];
  for (u32 j = 0; j < 4; j++) some[j] = i + j < n ? finite_f32(z[i + j]) : -__builtin_inff();
  return wasm_v128_load(some);
}

// exp of numbers up to 0: 0 below -80 and of NaN.
static inline v128_t expo4(v128_t x) {
  const v128_t least = wasm_f32x4_splat(-80);
  return wasm_v128_and(exp_f32x4(wasm_f32x4_pmax(least, x)), wasm_f32x4_ge(x, least));
}
static inline f32 expo(f32 x) { return x >= -80 ? exp_f32(x) : 0; }

// Number i of a token and those of the three after it.
static inline v128_t ids4(u32 i) { return wasm_i32x4_add(wasm_i32x4_splat((i32)i), wasm_i32x4_make(0, 1, 2, 3)); }

// The best score and its token; the lowest among equals.
typedef struct {
  f32 score;
  u32 id;
} best;

// The best of each of four lanes, which see ids in ascending order.
typedef struct {
  v128_t score, id;
} best4;

static inline best4 none_yet(void) { return (best4){wasm_f32x4_splat(NONE), wasm_i32x4_splat(-1)}; }

static inline void take(best4 *b, v128_t score, v128_t id) {
  v128_t more = wasm_f32x4_gt(score, b->score);
  b->score = wasm_v128_bitselect(score, b->score, more);
  b->id = wasm_v128_bitselect(id, b->id, more);
}

static inline best best_of(best4 b) {
  f32 scores[4];
  u32 ids[4];
  wasm_v128_store(scores, b.score);
  wasm_v128_store(ids, b.id);
  best first = {scores[0], ids[0]};
  for (u32 i = 1; i < 4; i++)
    if (scores[i] > first.score || (scores[i] == first.score && ids[i] < first.id)) first = (best){scores[i], ids[i]};
  return first;
}

static inline f32 max_lanes(v128_t v) {
  v = wasm_f32x4_pmax(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(wasm_f32x4_pmax(v, wasm_i32x4_shuffle(v, v, 1, 0, 3, 2)), 0);
}

// The largest logit of n.
static inline f32 most_of(const f32 *z, u32 n) {
  v128_t most = wasm_f32x4_splat(NONE);
  for (u32 i = 0; i < n; i += 4) most = wasm_f32x4_pmax(most, logits4(z, i, n));
  return max_lanes(most);
}

// Σ exp(z - most) of n logits.
static inline f64 sum_exp(const f32 *z, u32 n, f32 most) {
  f64 sum = 0;
  for (u32 first = 0; first < n; first += SEGMENT) {
    v128_t sums = wasm_f32x4_splat(0);
    for (u32 i = first; i < min_u32(n, first + SEGMENT); i += 4)
      sums = wasm_f32x4_add(sums, expo4(wasm_f32x4_sub(logits4(z, i, n), wasm_f32x4_splat(most))));
    sum += sum_lanes(sums);
  }
  return sum;
}

// The distribution of a row: exp((z - most)·inverse - lse) of the logits z from floor on.
typedef struct {
  const f32 *z;
  f32 floor, most, inverse, lse;
} distribution;

// That of a row after Filter, with a positive inverse temperature.
static inline distribution filtered(const f32 *z, const u32 *record, f32 inverse) {
  return (distribution){z, as_f32(record[1]), 0, inverse, as_f32(record[2])};
}

// The logarithms of the probabilities of logits, regardless of floor.
static inline v128_t log_chance4(const distribution *p, v128_t z) {
  v128_t scaled = wasm_f32x4_mul(wasm_f32x4_sub(z, wasm_f32x4_splat(p->most)), wasm_f32x4_splat(p->inverse));
  return wasm_f32x4_sub(scaled, wasm_f32x4_splat(p->lse));
}
static inline f32 log_chance(const distribution *p, f32 z) { return (z - p->most) * p->inverse - p->lse; }

// The probabilities of tokens i to i+3 of n, 0 past the end.
static inline v128_t chance4(const distribution *p, u32 i, u32 n) {
  v128_t z = logits4(p->z, i, n), kept = wasm_f32x4_ge(z, wasm_f32x4_splat(p->floor));
  if (!wasm_v128_any_true(kept)) return wasm_f32x4_splat(0);
  v128_t e = expo4(wasm_f32x4_pmin(wasm_f32x4_splat(0), log_chance4(p, z)));
  return wasm_v128_and(e, kept);
}

// Verification of children drawn without replacement: see webgpu/kernels/tree/verify.go.
#include "noise.h"

// DEAD is above the log-weights of tokens that the draft cannot draw, and below all others.
#define DEAD -1e25f

// The distributions of a row. After j rejections the residual of p is (p - S·q)+ up to a constant. Weights of q and S
// are logarithms: without a token that has nearly all of the mass, the rest may be many orders of magnitude smaller.
typedef struct {
  u32 vocab, count;
  const u32 *children;  // as drawn
  f32 *p;               // probabilities
  f32 *weights;         // ln q up to a constant
  f32 log_q;            // the logarithm of the sum of the weights' exponentials
} sides;

static u32 child(const sides *s, u32 j) { return min_u32(s->children[j], s->vocab - 1); }

// ln(exp(a) + exp(b)).
static f32 log_add(f32 a, f32 b) { return max_f32(a, b) + log_f32(1 + expo(-__builtin_fabsf(a - b))); }

// (p - S·q)+ of tokens; log_s is ln S. No p is above exp(1).
static v128_t left4(const sides *s, v128_t p, v128_t weight, f32 log_s) {
  v128_t e = wasm_f32x4_pmin(wasm_f32x4_splat(1), wasm_f32x4_add(weight, wasm_f32x4_splat(log_s - s->log_q)));
  return wasm_f32x4_pmax(wasm_f32x4_splat(0), wasm_f32x4_sub(p, expo4(e)));
}
static f32 left(const sides *s, u32 id, f32 log_s) {
  v128_t v = left4(s, wasm_f32x4_splat(s->p[id]), wasm_f32x4_splat(s->weights[id]), log_s);
  return wasm_f32x4_extract_lane(v, 0);
}

// p and weights of tokens i to i+3. Lanes past the end of the vocabulary have p 0.
static v128_t p4(const sides *s, u32 i) { return wasm_v128_load(s->p + i); }
static v128_t weights4(const sides *s, u32 i) { return wasm_v128_load(s->weights + i); }

// The log-weight of all tokens that are no children.
static f32 others_of(sides *s) {
  f32 kept[64];
  for (u32 j = 0; j < s->count; j++) kept[j] = s->weights[child(s, j)];
  for (u32 j = 0; j < s->count; j++) s->weights[child(s, j)] = -__builtin_inff();
  v128_t most4 = wasm_f32x4_splat(NONE);
  for (u32 i = 0; i < s->vocab; i += 4) most4 = wasm_f32x4_pmax(most4, weights4(s, i));
  f32 most = max_lanes(most4);
  f64 sum = 0;
  for (u32 first = 0; first < s->vocab; first += SEGMENT) {
    v128_t sums = wasm_f32x4_splat(0);
    for (u32 i = first; i < min_u32(s->vocab, first + SEGMENT); i += 4)
      sums = wasm_f32x4_add(sums, expo4(wasm_f32x4_sub(weights4(s, i), wasm_f32x4_splat(most))));
    sum += sum_lanes(sums);
  }
  for (u32 j = 0; j < s->count; j++) s->weights[child(s, j)] = kept[j];
  return most > NONE ? most + log_f32((f32)sum) : NONE;
}

// The log-weight of the tokens that are no children and of the children from j on.
static f32 remaining(const sides *s, f32 others, u32 j) {
  for (; j < s->count; j++) others = log_add(others, s->weights[child(s, j)]);
  return others;
}

static f64 left_sum(const sides *s, f32 log_s) {
  f64 sum = 0;
  for (u32 first = 0; first < s->vocab; first += SEGMENT) {
    v128_t sums = wasm_f32x4_splat(0);
    for (u32 i = first; i < min_u32(s->vocab, first + SEGMENT); i += 4) {
      v128_t p = p4(s, i);
      if (wasm_v128_any_true(p)) sums = wasm_f32x4_add(sums, left4(s, p, weights4(s, i), log_s));
    }
    sum += sum_lanes(sums);
  }
  return sum;
}

// The verdict on the children of a row: the place of the accepted one and its token, or NO_ID and a token drawn from
// the residual, fallback if that is empty.
static void verify_children(sides *s, const u32 *draw, u32 position, u32 fallback, u32 *out) {
  f32 others = others_of(s), log_s = NONE;
  s->log_q = remaining(s, others, 0);
  f64 mass = 1;  // of the residual
  draw_key accept = row_key(draw, STREAM_ACCEPT, position);
  for (u32 j = 0; j < s->count; j++) {
    u32 x = child(s, j);
    f32 rest = remaining(s, others, j);  // not 1 minus the rejected mass, which may be all rounding
    if (rest < DEAD) break;
    if (uniform(accept, j) * expo(min_f32(s->weights[x] - rest, 0)) < left(s, x, log_s) / mass) {
      out[0] = j;
      out[1] = s->children[j];
      return;
    }
    f32 grown = log_add(log_s, log_f32((f32)mass) + s->log_q - rest);
    f64 sum = left_sum(s, grown);
    if (sum > 0) {  // otherwise p equals q up to rounding, and p stays
      log_s = grown;
      mass = sum;
    }
  }
  drawing y = draw_with(row_key(draw, STREAM_RESIDUAL, position));
  for (u32 i = 0; i < s->vocab; i += 4) {
    v128_t p = p4(s, i);
    if (wasm_v128_any_true(p)) offer4(&y, log_f32x4(left4(s, p, weights4(s, i), log_s)), i);
  }
  u32 token = best_of(y.b).id;
  out[0] = NO_ID;
  out[1] = token == NO_ID ? fallback : token;
}

static u32 room(u32 vocab) { return (vocab + 3) / 4 * 4; }

need verify_needs(const dispatch *d) { return (need){2 * 4 * room(PARAM(1)), PARAM(0)}; }

// Verifies the children of each row; tree.RecordVerify.
void verify(const dispatch *d, const thread *t) {
  u32 vocab = PARAM(1), most_children = d->b[6].size / 4;
  const u32 *draw = AT(u32, 4);
  f32 inverse = as_f32(draw[0]);
  f32 *scratch = (f32 *)t->scratch;
  range rows = share(t, PARAM(0), 1);
  for (u32 row = rows.from; row < rows.to; row++) {
    const u32 *record = AT(u32, 3) + row * RECORD_WORDS, *node = AT(u32, 5) + 4 * row;
    u32 *out = AT(u32, 7) + 2 * row, at = min_u32(node[1], most_children);
    u32 count = min_u32(min_u32(node[2], most_children - at), 64);
    const u32 *children = AT(u32, 6) + at;
    if (count == 0 || !(inverse > 0)) {
      out[0] = NO_ID;
      out[1] = count ? record[3] : record[0];
      for (u32 j = 0; j < count; j++)
        if (children[j] == out[1]) out[0] = j;
      continue;
    }
    const f32 *draft = AT(f32, 2) + min_u32(node[0], PARAM(4) - 1) * PARAM(3);
    distribution p = filtered(AT(f32, 1) + row * PARAM(2), record, inverse);
    sides s = {vocab, count, children, scratch, scratch + room(vocab), 0};
    v128_t most = wasm_f32x4_splat(most_of(draft, vocab));
    for (u32 i = 0; i < vocab; i += 4) {
      wasm_v128_store(s.p + i, chance4(&p, i, vocab));
      v128_t w = wasm_f32x4_sub(logits4(draft, i, vocab), most);
      wasm_v128_store(s.weights + i, wasm_f32x4_mul(w, wasm_f32x4_splat(inverse)));
    }
    verify_children(&s, draw, node[3], record[3], out);
  }
}

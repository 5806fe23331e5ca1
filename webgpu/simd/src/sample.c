// Records of rows of logits, without filters: see webgpu/kernels/sample/sample.go.
#include "noise.h"

enum { PART_WORDS = 16, RAW_LOGITS = 0, TEMPERED = 2 };

// A segment of a row, of at most SEGMENT logits; its scores if the ranking is coupled, else the same logits. Lanes past
// the end are -∞.
typedef struct {
  v128_t z[SEGMENT / 4], scores[SEGMENT / 4];
  u32 vectors;
} segment;

static void read_segment(segment *s, const f32 *in, u32 n) {
  s->vectors = (n + 3) / 4;
  for (u32 i = 0; i < s->vectors; i++) s->z[i] = s->scores[i] = logits4(in, 4 * i, n);
}

static void perturb(segment *s, draw_key key, f32 inverse, u32 first) {
  for (u32 i = 0; i < s->vectors; i++) {
    v128_t noise = gumbel4(hash4(key, ids4(first + 4 * i)));
    s->scores[i] = wasm_f32x4_add(wasm_f32x4_mul(s->z[i], wasm_f32x4_splat(inverse)), noise);
  }
}

static best best_in(const v128_t *scores, u32 vectors, u32 first) {
  best4 b = none_yet();
  for (u32 i = 0; i < vectors; i++) take(&b, scores[i], ids4(first + 4 * i));
  return best_of(b);
}

// Σ exp(d) and Σ d·exp(d), d = (x - most)·scale; scale is not 0.
typedef struct {
  f32 sum, moment;
} mass;

static mass mass_of(const v128_t *x, u32 vectors, f32 most, f32 scale) {
  const v128_t zero = wasm_f32x4_splat(0);
  v128_t sum = zero, moment = zero;
  for (u32 i = 0; i < vectors; i++) {
    v128_t d = wasm_f32x4_mul(wasm_f32x4_sub(x[i], wasm_f32x4_splat(most)), wasm_f32x4_splat(scale)), e = expo4(d);
    sum = wasm_f32x4_add(sum, e);
    moment = wasm_f32x4_add(moment, wasm_v128_and(wasm_f32x4_mul(d, e), wasm_f32x4_gt(e, zero)));
  }
  return (mass){sum_lanes(sum), sum_lanes(moment)};
}

// One part for each segment of a row; the first half of sample.Record. The words are those of scan.wgsl: the largest
// logit, its id, Σ exp(d), Σ d·exp(d); the best score, its id, Σ exp(score - best) of coupled rankings;
// Σ exp(d / temperature) on request; a bit for each id that pick has taken.
void scan(const dispatch *d, const thread *t) {
  u32 vocab = PARAM(1), stride = PARAM(2), seg = PARAM(3), segs = PARAM(4), values = PARAM(6);
  const u32 *draw = AT(u32, 2);
  f32 inverse = as_f32(draw[0]);
  u32 coupled = draw[7] & 1;
  range of = share(t, PARAM(0) * segs, 1);
  for (u32 at = of.from; at < of.to; at++) {
    u32 row = at / segs, first = at % segs * seg;
    segment s;
    read_segment(&s, AT(f32, 1) + row * stride + first, min_u32(seg, vocab - first));
    best most = best_in(s.z, s.vectors, first), top = {NONE, most.id};
    f32 top_sum = 0, tempered = 0;
    if (inverse > 0) {
      draw_key key = row_key(draw, draw[3], AT(u32, 3)[row]);
      if (coupled) {
        perturb(&s, key, inverse, first);
        top = best_in(s.scores, s.vectors, first);
        top_sum = mass_of(s.scores, s.vectors, top.score, 1).sum;
      } else {
        drawing y = draw_with(key);
        for (u32 i = 0; i < s.vectors; i++)
          offer4(&y, wasm_f32x4_mul(s.z[i], wasm_f32x4_splat(inverse)), first + 4 * i);
        top = best_of(y.b);
      }
      if (values == TEMPERED) tempered = mass_of(s.z, s.vectors, most.score, inverse).sum;
    }
    mass m = mass_of(s.z, s.vectors, most.score, 1);
    u32 *part = AT(u32, 4) + at * PART_WORDS;
    part[0] = as_u32(most.score), part[1] = most.id;
    part[2] = as_u32(m.sum), part[3] = as_u32(m.moment);
    part[4] = as_u32(top.score), part[5] = top.id, part[6] = as_u32(top_sum), part[7] = as_u32(tempered);
    for (u32 i = 8; i < PART_WORDS; i++) part[i] = 0;
  }
}

// The best of the parts of a row, by the score in word `word` and the id after it.
static best best_part(const u32 *parts, u32 segs, u32 word) {
  best b = {NONE, 0};
  for (u32 s = 0; s < segs; s++) {
    f32 v = as_f32(parts[s * PART_WORDS + word]);
    if (v > b.score) b = (best){v, s};
  }
  return b;
}

// Marks the best of a part as taken, and replaces it by the next one.
static void take_next(u32 *part, u32 word, const f32 *in, u32 first, u32 n, int coupled, f32 inverse, draw_key key) {
  u32 taken = part[word + 1] - first;
  part[8 + taken / 32] |= 1u << taken % 32;
  segment s;
  read_segment(&s, in, n);
  if (coupled) perturb(&s, key, inverse, first);
  f32 scores[SEGMENT];
  for (u32 i = 0; i < s.vectors; i++) wasm_v128_store(scores + 4 * i, s.scores[i]);
  best b = {NONE, 0};
  for (u32 i = 0; i < n; i++)
    if (!(part[8 + i / 32] >> i % 32 & 1) && scores[i] > b.score) b = (best){scores[i], first + i};
  part[word] = as_u32(b.score);
  part[word + 1] = b.id;
}

// The records of rows, and their k best ids; the second half of sample.Record.
void pick(const dispatch *d, const thread *t) {
  u32 vocab = PARAM(1), stride = PARAM(2), seg = PARAM(3), segs = PARAM(4), k = PARAM(5), values = PARAM(6);
  const u32 *draw = AT(u32, 2);
  f32 inverse = as_f32(draw[0]);
  int coupled = inverse > 0 && draw[7] & 1, by_temperature = values == TEMPERED && inverse > 0;
  range rows = share(t, PARAM(0), 1);
  for (u32 row = rows.from; row < rows.to; row++) {
    const f32 *in = AT(f32, 1) + row * stride;
    u32 *parts = AT(u32, 4) + row * segs * PART_WORDS, *out = AT(u32, 5) + row * (4 + 2 * k);
    best most = best_part(parts, segs, 0), top = best_part(parts, segs, 4);
    f64 sum = 0, moment = 0, top_sum = 0, tempered = 0;
    for (u32 s = 0; s < segs; s++) {
      const f32 *part = (const f32 *)(parts + s * PART_WORDS);
      f32 less = part[0] - most.score, e = expo(less);
      sum += (f64)part[2] * e;
      if (e > 0) moment += (part[3] + (f64)less * part[2]) * e;
      if (coupled) top_sum += (f64)part[6] * expo(part[4] - top.score);
      if (by_temperature) tempered += (f64)part[7] * expo(less * inverse);
    }
    f32 log_sum = log_f32((f32)sum), shift = 0;
    out[1] = parts[most.id * PART_WORDS + 1];
    out[0] = inverse > 0 ? parts[top.id * PART_WORDS + 5] : out[1];
    out[2] = as_u32(most.score + log_sum);
    out[3] = as_u32(max_f32(log_sum - (f32)(moment / sum), 0));
    if (by_temperature)
      shift = most.score * inverse + log_f32((f32)tempered);
    else if (values != RAW_LOGITS)
      shift = coupled ? top.score + log_f32((f32)top_sum) : most.score + log_sum;

    draw_key key = row_key(draw, draw[3], AT(u32, 3)[row]);
    u32 word = coupled ? 4 : 0;
    for (u32 i = 0; i < k; i++) {
      best b = best_part(parts, segs, word);
      u32 *part = parts + b.id * PART_WORDS, first = b.id * seg, id = part[word + 1];
      if (b.score <= NONE) {
        out[4 + i] = 0;
        out[4 + k + i] = as_u32(LOW);
        continue;
      }
      out[4 + i] = id;
      out[4 + k + i] = as_u32((by_temperature ? finite_f32(in[id]) * inverse : b.score) - shift);
      take_next(part, word, in + first, first, min_u32(seg, vocab - first), coupled, inverse, key);
    }
  }
}

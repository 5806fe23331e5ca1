// The distance of draft and target: see webgpu/kernels/sample/divergence.go.
#include "log.h"
#include "logits.h"

// The softmax of n logits.
static distribution softmax(const f32 *z, u32 n) {
  f32 most = most_of(z, n);
  return (distribution){z, LOW, most, 1, log_f32((f32)sum_exp(z, n, most))};
}

// x ln x, 0 of 0.
static v128_t entropy4(v128_t x) {
  return wasm_v128_and(wasm_f32x4_mul(x, log_f32x4(x)), wasm_f32x4_gt(x, wasm_f32x4_splat(0)));
}

// Four times the contributions of tokens to the JS divergence, in nats. With t = (p-q)/(p+q) it is
// (p+q) ((1+t) ln(1+t) + (1-t) ln(1-t)), which is never negative; for small t, where the logarithms cancel, the series.
static v128_t apart4(v128_t p, v128_t q) {
  v128_t s = wasm_f32x4_add(p, q), some = wasm_f32x4_gt(s, wasm_f32x4_splat(0));
  if (!wasm_v128_any_true(some)) return wasm_f32x4_splat(0);
  v128_t t = wasm_f32x4_div(wasm_f32x4_sub(p, q), s), w = wasm_f32x4_mul(t, t);
  static const f32 terms[] = {1 / 28.f, 1 / 15.f, 1 / 6.f, 1};
  v128_t near = wasm_f32x4_splat(1 / 45.f);
  for (u32 i = 0; i < sizeof terms / sizeof *terms; i++)
    near = wasm_f32x4_add(wasm_f32x4_mul(near, w), wasm_f32x4_splat(terms[i]));
  near = wasm_f32x4_mul(near, w);
  v128_t far = wasm_f32x4_add(entropy4(wasm_f32x4_div(wasm_f32x4_add(p, p), s)),
                              entropy4(wasm_f32x4_div(wasm_f32x4_add(q, q), s)));
  v128_t small = wasm_f32x4_lt(wasm_f32x4_abs(t), wasm_f32x4_splat(0.25f));
  return wasm_v128_and(wasm_f32x4_mul(s, wasm_v128_bitselect(near, far, small)), some);
}

// The distance of the distributions of draft and target in each row, and whether the target can emit the drafted token;
// sample.RecordDivergence. Words 4 and 5 of the parameters are the strides of the records.
void divergence(const dispatch *d, const thread *t) {
  u32 vocab = PARAM(1);
  f32 inverse = as_f32(*AT(u32, 5));
  range rows = share(t, PARAM(0), 1);
  for (u32 row = rows.from; row < rows.to; row++) {
    const u32 *target_record = AT(u32, 3) + row * PARAM(4), *draft_record = AT(u32, 4) + row * PARAM(5);
    const f32 *target = AT(f32, 1) + row * PARAM(2), *draft = AT(f32, 2) + row * PARAM(3);
    distribution p = inverse > 0 ? filtered(target, target_record, inverse) : softmax(target, vocab);
    distribution q = inverse > 0 ? filtered(draft, draft_record, inverse) : softmax(draft, vocab);
    f64 sum = 0;
    for (u32 first = 0; first < vocab; first += SEGMENT) {
      v128_t sums = wasm_f32x4_splat(0);
      for (u32 i = first; i < min_u32(vocab, first + SEGMENT); i += 4)
        sums = wasm_f32x4_add(sums, apart4(chance4(&p, i, vocab), chance4(&q, i, vocab)));
      sum += sum_lanes(sums);
    }
    f32 share_of_most = (f32)(sum * 0.36067376022224085);  // over 4 ln 2
    AT(f32, 6)[2 * row] = sqrt_f32(share_of_most >= 0 ? min_f32(share_of_most, 1) : 0);
    f32 z = finite_f32(target[min_u32(draft_record[0], vocab - 1)]);
    AT(u32, 6)[2 * row + 1] = z >= p.floor && z > LOW;
  }
}

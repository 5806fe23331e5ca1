// Chain rejection sampling: see webgpu/kernels/sample/reject.go.
#include "noise.h"

// ln(1 - exp(e)) for e < 0; near 0 the series, because the difference would cancel.
static v128_t log_rest4(v128_t e) {
  const v128_t one = wasm_f32x4_splat(1);
  v128_t series = wasm_f32x4_add(wasm_f32x4_mul(e, wasm_f32x4_splat(1 / 6.f)), wasm_f32x4_splat(0.5f));
  series = wasm_f32x4_mul(wasm_f32x4_neg(e), wasm_f32x4_add(wasm_f32x4_mul(e, series), one));
  v128_t near = wasm_f32x4_gt(e, wasm_f32x4_splat(-0.01f));
  return log_f32x4(wasm_v128_bitselect(series, wasm_f32x4_sub(one, expo4(e)), near));
}

// A token drawn from norm((p-q)+), or NO_ID if rounding leaves it empty. Without q, one drawn from p.
static u32 residual(const distribution *p, const distribution *q, u32 vocab, draw_key key) {
  const v128_t none = wasm_f32x4_splat(-__builtin_inff()), zero = wasm_f32x4_splat(0);
  drawing y = draw_with(key);
  for (u32 i = 0; i < vocab; i += 4) {
    v128_t z = logits4(p->z, i, vocab), kept = wasm_f32x4_ge(z, wasm_f32x4_splat(p->floor));
    if (!wasm_v128_any_true(kept)) continue;
    v128_t lp = wasm_v128_bitselect(log_chance4(p, z), none, kept), left = lp;
    if (q) {
      v128_t w = logits4(q->z, i, vocab), e = wasm_f32x4_sub(log_chance4(q, w), lp);  // ln q/p
      v128_t both = wasm_f32x4_ge(w, wasm_f32x4_splat(q->floor));
      left = wasm_v128_bitselect(wasm_f32x4_add(lp, log_rest4(e)), lp, both);
      left = wasm_v128_bitselect(none, left, wasm_v128_and(both, wasm_f32x4_ge(e, zero)));
    }
    offer4(&y, left, i);
  }
  return best_of(y.b).id;
}

// Accepts the drafted token of each row or draws another one; sample.RecordReject.
void reject(const dispatch *d, const thread *t) {
  u32 all = PARAM(0), vocab = PARAM(1);
  const u32 *draw = AT(u32, 5);
  f32 inverse = as_f32(draw[0]);
  range rows = share(t, all, 1);
  for (u32 row = rows.from; row < rows.to; row++) {
    const u32 *target_record = AT(u32, 3) + row * RECORD_WORDS, *draft_record = AT(u32, 4) + row * PARAM(4);
    u32 *out = AT(u32, 7) + 2 * row;
    out[0] = 0;
    if (row + 1 == all) {
      out[1] = target_record[0];
      continue;
    }
    u32 x = min_u32(draft_record[0], vocab - 1), position = AT(u32, 6)[row];
    if (!(inverse > 0)) {
      out[1] = target_record[3];
      out[0] = x == out[1];
      continue;
    }
    distribution p = filtered(AT(f32, 1) + row * PARAM(2), target_record, inverse);
    distribution q = filtered(AT(f32, 2) + row * PARAM(3), draft_record, inverse);
    f32 pz = finite_f32(p.z[x]), qz = finite_f32(q.z[x]), ratio = log_chance(&p, pz) - log_chance(&q, qz);
    f64 u = uniform(row_key(draw, STREAM_ACCEPT, position), 0);
    if (pz >= p.floor && (qz < q.floor || ratio >= 0 || u < expo(ratio))) {
      out[0] = 1;
      out[1] = x;
      continue;
    }
    draw_key key = row_key(draw, STREAM_RESIDUAL, position);
    out[1] = residual(&p, &q, vocab, key);
    if (out[1] == NO_ID) out[1] = residual(&p, 0, vocab, key);
    if (out[1] == NO_ID) out[1] = x;
  }
}

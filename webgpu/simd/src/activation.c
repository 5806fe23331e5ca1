// Activations and the layers of acceptance heads: see webgpu/kernels/layer.
#include "exp.h"
#include "reduce.h"

enum { BLOCK = 16 };  // outputs of a row that are computed together

// SiLU(gate)·up for rows of gate and up; layer.RecordSiLU.
void silu(const dispatch *d, const thread *t) {
  u32 dim = PARAM(1), blocks = (dim + BLOCK - 1) / BLOCK;
  range r = share(t, PARAM(0) * blocks, 1);
  for (u32 i = r.from; i < r.to; i++) {
    u32 row = i / blocks, k = i % blocks * BLOCK, end = min_u32(k + BLOCK, dim);
    const f32 *gate = AT(f32, 1) + 2 * row * dim, *up = gate + dim;
    f32 *out = AT(f32, 2) + row * dim;
    for (; k + 4 <= end; k += 4)
      wasm_v128_store(out + k, wasm_f32x4_mul(silu_f32x4(wasm_v128_load(gate + k)), wasm_v128_load(up + k)));
    for (; k < end; k++) out[k] = silu_f32(gate[k]) * up[k];
  }
}

// x + SiLU(W·x + b), W by input: a thread's columns of W for one row after the other; layer.RecordAcceptLayer.
void accept_layer(const dispatch *d, const thread *t) {
  u32 rows = PARAM(0), dim = PARAM(1);
  const f32 *bias = AT(f32, 3);
  range r = share(t, dim, BLOCK);
  for (u32 n = r.from; n < r.to;) {
    u32 step = n + BLOCK <= r.to ? BLOCK : 1;
    for (u32 row = 0; row < rows; row++) {
      const f32 *x = AT(f32, 1) + row * dim, *weight = AT(f32, 2) + n;
      f32 *out = AT(f32, 4) + row * dim;
      if (step == 1) {
        f32 sum = 0;
        for (u32 k = 0; k < dim; k++) sum += weight[k * dim] * x[k];
        out[n] = x[n] + silu_f32(sum + bias[n]);
        continue;
      }
      v128_t sums[BLOCK / 4];
      for (u32 i = 0; i < BLOCK / 4; i++) sums[i] = wasm_f32x4_splat(0);
      for (u32 k = 0; k < dim; k++, weight += dim) {
        v128_t v = wasm_v128_load32_splat(x + k);
        for (u32 i = 0; i < BLOCK / 4; i++)
          sums[i] = wasm_f32x4_add(sums[i], wasm_f32x4_mul(wasm_v128_load(weight + 4 * i), v));
      }
      for (u32 i = 0; i < BLOCK / 4; i++) {
        v128_t y = silu_f32x4(wasm_f32x4_add(sums[i], wasm_v128_load(bias + n + 4 * i)));
        wasm_v128_store(out + n + 4 * i, wasm_f32x4_add(wasm_v128_load(x + n + 4 * i), y));
      }
    }
    n += step;
  }
}

// σ(w·x + c) for each row, from word `at` of out on; layer.RecordAcceptScore.
void accept_score(const dispatch *d, const thread *t) {
  u32 dim = PARAM(1), at = PARAM(2);
  const f32 *weight = AT(f32, 2);
  range r = share(t, PARAM(0), 1);
  for (u32 row = r.from; row < r.to; row++) {
    f32 sum = dot(weight, AT(f32, 1) + row * dim, dim) + weight[dim];
    AT(f32, 3)[at + row] = 1 / (1 + exp_f32(-sum));
  }
}

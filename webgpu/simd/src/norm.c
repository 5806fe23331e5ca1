// Root mean square norms: see webgpu/kernels/layer.
#include "kernel.h"
#include "reduce.h"

// x / sqrt(mean(x²) + eps) · weight for each row; layer.RecordNorm.
void norm(const dispatch *d, const thread *t) {
  u32 rows = PARAM(0), dim = PARAM(1);
  f32 eps = PARAM_F32(2);
  const f32 *x = AT(f32, 1), *weight = AT(f32, 2);
  f32 *out = AT(f32, 3);
  range r = share(t, rows, 1);
  for (u32 row = r.from; row < r.to; row++) {
    const f32 *in = x + (u64)row * dim;
    f32 scale = 1 / sqrt_f32(sum_squares(in, dim) / (f32)dim + eps);
    for (u32 i = 0; i < dim; i++) out[(u64)row * dim + i] = in[i] * scale * weight[i];
  }
}

// The norm of each query and key head in place; layer.RecordNormHeads.
void norm_heads(const dispatch *d, const thread *t) {
  u32 heads = PARAM(1), kv = PARAM(2), dim = PARAM(3);
  f32 eps = PARAM_F32(4);
  range r = share(t, PARAM(0) * (heads + kv), 1);
  for (u32 i = r.from; i < r.to; i++) {
    u32 row = i / (heads + kv), head = i % (heads + kv);
    const f32 *weight = AT(f32, 1) + (head < heads ? 0 : dim);
    f32 *x = AT(f32, 2) + (row * (heads + 2 * kv) + head) * dim;
    f32 scale = 1 / sqrt_f32(sum_squares(x, dim) / (f32)dim + eps);
    for (u32 k = 0; k < dim; k++) x[k] = x[k] * scale * weight[k];
  }
}

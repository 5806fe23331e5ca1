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
    f32 scale = 1 / __builtin_sqrtf(sum_squares(in, dim) / (f32)dim + eps);
    for (u32 i = 0; i < dim; i++) out[(u64)row * dim + i] = in[i] * scale * weight[i];
  }
}

// Root mean square norms: see webgpu/kernels/layer.
#include "kernel.h"
#include "reduce.h"

// x / sqrt(mean(x²) + eps) · weight. out may be x.
static void normalise(const f32 *x, const f32 *weight, f32 *out, u32 dim, f32 eps) {
  f32 scale = 1 / sqrt_f32(sum_squares(x, dim) / (f32)dim + eps);
  for (u32 i = 0; i < dim; i++) out[i] = x[i] * scale * weight[i];
}

// The norm of each row; layer.RecordNorm.
void norm(const dispatch *d, const thread *t) {
  u32 rows = PARAM(0), dim = PARAM(1);
  f32 eps = PARAM_F32(2);
  range r = share(t, rows, 1);
  for (u32 row = r.from; row < r.to; row++)
    normalise(AT(f32, 1) + (u64)row * dim, AT(f32, 2), AT(f32, 3) + (u64)row * dim, dim, eps);
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
    normalise(x, weight, x, dim, eps);
  }
}

// Normalises all queries of a row together, and then its keys, in place; layer.RecordNormRow.
void norm_row(const dispatch *d, const thread *t) {
  u32 q = PARAM(1) * PARAM(3), k = PARAM(2) * PARAM(3);
  range r = share(t, 2 * PARAM(0), 1);
  for (u32 i = r.from; i < r.to; i++) {
    u32 first = i % 2 * q;
    f32 *x = AT(f32, 2) + i / 2 * (q + 2 * k) + first;
    normalise(x, AT(f32, 1) + first, x, i % 2 ? k : q, PARAM_F32(4));
  }
}

// Adds the norm of each row to another row; layer.RecordAddNorm. With a gain, also the input of a product of the norm
// of the sum, whose squares are one sum and zeros; layer.RecordAddNormNext.
void add_norm(const dispatch *d, const thread *t) {
  u32 dim = PARAM(1), next = d->count > 4;
  range r = share(t, PARAM(0), 1);
  for (u32 row = r.from; row < r.to; row++) {
    const f32 *x = AT(f32, 1) + (u64)row * dim, *weight = AT(f32, 2);
    f32 *out = AT(f32, 3) + (u64)row * dim, scale = 1 / sqrt_f32(sum_squares(x, dim) / (f32)dim + PARAM_F32(2));
    for (u32 i = 0; i < dim; i++) out[i] += x[i] * scale * weight[i];
    if (!next) continue;
    f32 *to = AT(f32, 5) + (u64)row * PARAM(3);
    for (u32 i = 0; i < dim; i++) to[i] = out[i] * AT(f32, 4)[i];
    to[dim] = sum_squares(out, dim);
    for (u32 i = 1; i < PARAM(4); i++) to[dim + i] = 0;
  }
}

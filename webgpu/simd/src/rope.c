// The rotary embedding, which writes the KV cache: see webgpu/kernels/attention.
#include "cache.h"
#include "rope.h"

enum { MOST_DIM = 256 };

// Adds a bias if there is one, rotates queries in place, and stores rotated keys and plain values at the slot of each
// row; attention.RecordRope. words: format of the cache, block, 1 if binding 6 is a gain of rotated queries and keys;
// attention.RecordRopeGain.
void rope(const dispatch *d, const thread *t) {
  u32 heads = PARAM(1), kv = PARAM(2), dim = PARAM(3), half = PARAM(4), rotary = PARAM(5), gained = d->words[2];
  cache c = {d->words[0], kv, dim, d->words[1]};
  u32 all = heads + 2 * kv, positions = d->b[2].size / 4 / max_u32(rotary, 1);
  range r = share(t, all, 1);  // not over rows: two rows may have one slot
  for (u32 i = 0; i < PARAM(0); i++) {
    const u32 *row = AT(u32, 1) + 4 * i;
    for (u32 head = r.from; head < r.to; head++) {
      f32 *x = AT(f32, 3) + (i * all + head) * dim, v[MOST_DIM];
      for (u32 k = 0; k < dim; k++) v[k] = x[k];
      if (d->count > 6 && !gained)
        for (u32 k = 0; k < dim; k++) v[k] += AT(f32, 6)[head * dim + k];
      if (head < heads + kv && row[0] < positions) rotate(v, AT(f32, 2) + row[0] * rotary, rotary, half);
      if (gained && head < heads + kv)
        for (u32 k = 0; k < dim; k++) v[k] *= AT(f32, 6)[(head < heads ? 0 : dim) + k];
      if (head < heads)
        for (u32 k = 0; k < dim; k++) x[k] = v[k];
      else if (head < heads + kv)
        cache_store(&c, d->b[4], row[1], head - heads, v);
      else
        cache_store(&c, d->b[5], row[1], head - heads - kv, v);
    }
  }
}

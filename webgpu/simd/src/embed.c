// Embedding lookups: see webgpu/kernels/layer.
#include "tiles.h"

// Unpacks a row of weights.
#define ROW(name)                                                                                      \
  static void row_##name(const u8 *q, const u32 *s, u32 cols, f32 *out) {                              \
    for (u32 g = 0; 128 * g < cols; g++) {                                                             \
      u32 n = min_u32(cols / 32 - 4 * g, 4);                                                           \
      i16 w[128];                                                                                      \
      f32 scale[4], offset[2][4];                                                                      \
      f32 *const offsets[] = {offset[0], offset[1]};                                                   \
      unpack_group(name, q, s, g, n, w, scale, offsets);                                               \
      for (u32 i = 0; i < 32 * n; i += 4) {                                                            \
        v128_t v = wasm_f32x4_convert_i32x4(wasm_i32x4_load16x4(w + i));                               \
        v = wasm_f32x4_mul(v, wasm_v128_load32_splat(scale + i / 32));                                 \
        const f32 *add = offset[offsets_of(name) == 2 ? i / 16 % 2 : 0] + i / 32;                      \
        if (offsets_of(name)) v = wasm_f32x4_add(v, wasm_v128_load32_splat(add));                      \
        wasm_v128_store(out + 128 * g + i, v);                                                         \
      }                                                                                                \
    }                                                                                                  \
  }
QUANTISED(ROW)

#define PLAIN_ROW(name)                                                                   \
  static void row_##name(const u8 *q, const u32 *s, u32 cols, f32 *out) {                 \
    (void)s;                                                                              \
    for (u32 k = 0; k < cols; k += 4) wasm_v128_store(out + k, unpack_floats(name, q, k)); \
  }
PLAIN_ROW(F32) PLAIN_ROW(F16) PLAIN_ROW(BF16)

// Rows of weights by token id, 0 to m, times a multiplier; layer.RecordEmbed. With a gain, also the input of a product
// of their norm, without the multiplier; layer.RecordEmbedNext. words: format, multiplier.
void embed(const dispatch *d, const thread *t) {
  static void (*const rows[FORMATS])(const u8 *, const u32 *, u32, f32 *) = {
      row_F32, row_F16, row_BF16,
#define NAME(name) row_##name,
      QUANTISED(NAME)};
  u32 format = d->words[0], row0 = PARAM(0), n = PARAM(1), cols = PARAM(2) * step_of(format), m = PARAM(3);
  u32 q_bytes = row_bytes(format, cols), s_bytes = scale_bytes(format, cols);
  u32 ldn = PARAM(4), next = d->count > 6, each = step_of(format);
  if (!holds(d->b[1], 0, n, q_bytes / 4, q_bytes / 4) || !holds(d->b[2], 0, 1, 0, m) ||
      !holds(d->b[3], 0, m, cols, cols) || (quantised(format) && !holds(d->b[4], 0, n, s_bytes / 4, s_bytes / 4)) ||
      (next && (!holds(d->b[5], 0, 1, 0, cols) || !holds(d->b[6], 0, m, ldn, cols + PARAM(2)))))
    return;
  f32 times = as_f32(d->words[1]);
  range r = share(t, m, 1);
  for (u32 i = r.from; i < r.to; i++) {
    u32 row = AT(u32, 2)[i] - row0;  // below row0 it is too large
    if (row >= n) continue;
    f32 *out = AT(f32, 3) + i * cols;
    rows[format](AT(u8, 1) + row * q_bytes, quantised(format) ? (u32 *)(AT(u8, 4) + row * s_bytes) : 0, cols, out);
    if (next) {
      const f32 *gain = AT(f32, 5);
      f32 *to = AT(f32, 6) + i * ldn;
      for (u32 k = 0; k < cols; k += 4)
        wasm_v128_store(to + k, wasm_f32x4_mul(wasm_v128_load(out + k), wasm_v128_load(gain + k)));
      for (u32 k = 0; k < PARAM(2); k++) to[cols + k] = sum_squares(out + k * each, each);
    }
    if (times != 1)
      for (u32 k = 0; k < cols; k++) out[k] *= times;
  }
}

// Sums of rows of words, which measure how fast threads read memory: see webgpu/kernels/stream.
#include "kernel.h"

// The sum of each row modulo 2^32; stream.Record.
void stream(const dispatch *d, const thread *t) {
  u32 n = PARAM(0), cols = PARAM(1);
  if (!holds(d->b[1], 0, n, cols, cols) || !holds(d->b[2], 0, 1, 0, n)) return;
  range r = share(t, n, 1);
  for (u32 i = r.from; i < r.to; i++) {
    const u32 *x = AT(u32, 1) + i * cols;
    v128_t a = wasm_i32x4_splat(0), b = a, c = a, e = a;
    for (u32 k = 0; k < cols; k += 16) {
      a = wasm_i32x4_add(a, wasm_v128_load(x + k));
      b = wasm_i32x4_add(b, wasm_v128_load(x + k + 4));
      c = wasm_i32x4_add(c, wasm_v128_load(x + k + 8));
      e = wasm_i32x4_add(e, wasm_v128_load(x + k + 12));
    }
    a = wasm_i32x4_add(wasm_i32x4_add(a, b), wasm_i32x4_add(c, e));
    AT(u32, 2)[i] = (u32)wasm_i32x4_extract_lane(a, 0) + (u32)wasm_i32x4_extract_lane(a, 1) +
                    (u32)wasm_i32x4_extract_lane(a, 2) + (u32)wasm_i32x4_extract_lane(a, 3);
  }
}

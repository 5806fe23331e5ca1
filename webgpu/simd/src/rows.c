// Changes and copies of rows of logits: see webgpu/kernels/sample.
#include "logits.h"

// Whether a list of (id, addend) has an id.
static int listed(const u32 *list, u32 n, u32 id) {
  for (u32 i = 0; i < n; i++)
    if (list[2 * i] == id) return 1;
  return 0;
}

// Adds a list to a row of logits, but for ids that another list has.
static void add(f32 *row, u32 vocab, const u32 *list, u32 n, const u32 *but, u32 but_n) {
  for (u32 i = 0; i < n; i++) {
    u32 id = list[2 * i];
    if (id < vocab && !listed(but, but_n, id)) row[id] += as_f32(list[2 * i + 1]);
  }
}

// Adds to single logits: to the ids of a list that all rows share, and to those of a list of each row, which replace
// shared ones; sample.RecordAdjust.
void adjust(const dispatch *d, const thread *t) {
  u32 vocab = PARAM(1), stride = PARAM(2), own = PARAM(4);
  const u32 *common = AT(u32, 1);
  u32 count = min_u32(common[0], PARAM(3));
  range rows = share(t, PARAM(0), 1);
  for (u32 row = rows.from; row < rows.to; row++) {
    const u32 *list = AT(u32, 2) + 2 * row * own;
    f32 *logits = AT(f32, 3) + row * stride;
    add(logits, vocab, common + 2, count, list, own);
    add(logits, vocab, list, own, 0, 0);
  }
}

// Copies rows of logits to a place that the host chooses; sample.RecordKeep.
void keep(const dispatch *d, const thread *t) {
  u32 stride = PARAM(2), kept_rows = PARAM(3), kept_stride = PARAM(4);
  const u32 *place = AT(u32, 2);
  u32 to = min_u32(place[0], kept_rows), rows = min_u32(min_u32(PARAM(0), place[1]), kept_rows - to);
  range ids = share(t, PARAM(1), 4);
  for (u32 row = 0; row < rows; row++) {
    const u32 *from = AT(u32, 1) + row * stride;
    u32 *kept = AT(u32, 3) + (to + row) * kept_stride;
    for (u32 i = ids.from; i < ids.to; i++) kept[i] = from[i];
  }
}

// Has logits without a bit in their row's mask be impossible; sample.RecordMask.
void mask(const dispatch *d, const thread *t) {
  u32 vocab = PARAM(1), stride = PARAM(2), words = PARAM(3), masks = PARAM(4);
  range of = share(t, PARAM(0) * words, 1);
  for (u32 at = of.from; at < of.to; at++) {
    u32 row = at / words, first = at % words * 32, which = AT(u32, 1)[row];
    if (which >= masks) continue;
    f32 *z = AT(f32, 3) + row * stride + first;
    u32 drop = ~AT(u32, 2)[which * words + at % words];
    if (vocab - first < 32) drop &= (1u << (vocab - first)) - 1;
    if (drop == ~0u)
      for (u32 i = 0; i < 32; i += 4) wasm_v128_store(z + i, wasm_f32x4_splat(LOW));
    else
      for (; drop; drop &= drop - 1) z[__builtin_ctz(drop)] = LOW;
  }
}

// Expands logits over a subset of the vocabulary; sample.RecordSpread.
void spread(const dispatch *d, const thread *t) {
  u32 some = PARAM(1), rows = PARAM(2), in_stride = PARAM(3), out_stride = PARAM(4), offset = PARAM(5);
  const u32 *source = AT(u32, 1);
  range ids = share(t, PARAM(0), 16);
  for (u32 row = 0; row < rows; row++) {
    const f32 *x = AT(f32, 2) + row * in_stride;
    f32 *out = AT(f32, 3) + offset + row * out_stride;
    for (u32 id = ids.from; id < ids.to; id++) out[id] = source[id] < some ? x[source[id]] : LOW;
  }
}

// Copies of hidden states between rows and KV slots: see webgpu/kernels/layer. Threads share the columns, so that two
// rows of one slot are in order.
#include "kernel.h"

// Copies the columns of a thread to row `to` of a binding from row `from` of another one. A row to write that does not
// exist is skipped; one to read is the last instead.
static void copy_row(const dispatch *d, const thread *t, u32 out, u32 to, u32 in, u32 from) {
  u32 size = 16 * PARAM(0);
  range r = share(t, size, 16);
  if (to >= d->b[out].size / size) return;
  from = min_u32(from, d->b[in].size / size - 1);
  __builtin_memcpy(AT(u8, out) + to * size + r.from, AT(u8, in) + from * size + r.from, r.to - r.from);
}

static u32 at(const dispatch *d, u32 binding, u32 i) {
  return AT(u32, binding)[min_u32(i, d->b[binding].size / 4 - 1)];
}

// out[slot of row i] = x[i]; layer.RecordStoreFeatures.
void feature_store(const dispatch *d, const thread *t) {
  for (u32 i = 0; i < PARAM(1); i++) copy_row(d, t, 3, AT(u32, 1)[4 * i + 1], 2, i);
}

// out[i] = x[table[position of row i]]; layer.RecordGatherFeatures.
void feature_gather(const dispatch *d, const thread *t) {
  for (u32 i = 0; i < PARAM(1); i++) copy_row(d, t, 4, i, 3, at(d, 2, AT(u32, 1)[4 * i]));
}

// out[i] = x[slot of the parent of row i]; layer.RecordParentFeatures.
void feature_parent(const dispatch *d, const thread *t) {
  for (u32 i = 0; i < PARAM(1); i++) {
    const u32 *row = AT(u32, 1) + 4 * i;
    u32 slot = row[1];
    if (row[0] > 0) {
      u32 before = row[0] - 1;
      slot = before < row[2] ? at(d, 2, before) : at(d, 3, i * PARAM(2) + before - row[2]);
    }
    copy_row(d, t, 5, i, 4, slot);
  }
}

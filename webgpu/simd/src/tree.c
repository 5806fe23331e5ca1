// The kernels of trees of drafted tokens that have integers and a few floats: see webgpu/kernels/tree.
#include "kernel.h"

#define NO_NODE 0xffffffffu

// Sample's output with k candidates: words of a beam's record, and where its ids and values begin.
static u32 record_words(u32 k) { return 4 + 2 * k; }
static const u32 *ids_of(const u32 *samples, u32 k, u32 beam) { return samples + beam * record_words(k) + 4; }
static const f32 *values_of(const u32 *samples, u32 k, u32 beam) { return (const f32 *)ids_of(samples, k, beam) + k; }

static u32 words(const dispatch *d, u32 i) { return d->b[i].size / 4; }

// The best candidates of a draft as rows of the target's pass; tree.RecordGather. Binding 2 is the head.
enum { MOST = 1024, HEAD_WORDS = 7 };

typedef struct {
  u32 level, parent, token;
  f32 value;  // the sum of ln q along its path; NaN excludes a candidate and its descendants
  u32 node;   // 0: none
} candidate;

// Reads candidates in the order of their numbers, so parents before their children.
static void read_candidates(const dispatch *d, candidate *all, u32 n) {
  u32 k = PARAM(0), picks = PARAM(1), first = PARAM(2), level_words = PARAM(3);
  const f32 nan = as_f32(0x7fc00000);
  for (u32 c = 0; c < n; c++) {
    const u32 *samples = AT(u32, 1);
    candidate *a = all + c;
    u32 beam = 0, rank = c;
    *a = (candidate){.parent = NO_NODE};
    if (c >= k) {
      u32 in_level = (c - k) % (k * k);
      a->level = 1 + (c - k) / (k * k);
      beam = in_level / k, rank = in_level % k;
      samples += first + (a->level - 1) * level_words;
      u32 above = a->level > 1 ? k + (a->level - 2) * k * k : 0;
      a->parent = above + min_u32(samples[beam], a->level > 1 ? k * k - 1 : k - 1);
      a->value = all[a->parent].value;
      samples += picks;
    }
    const u32 *ids = ids_of(samples, k, beam);
    f32 q = values_of(samples, k, beam)[rank];
    a->token = ids[rank];
    a->value += q > 0 ? 0 : q;
    if (!(a->value > -__builtin_inff())) a->value = nan;
    for (u32 i = 0; i < rank; i++)
      if (ids[i] == a->token) a->value = nan;
  }
}

// Makes the best `room` candidates nodes, in the order of their numbers. Ties go to the lower number.
static u32 choose(candidate *all, u32 n, u32 room, u32 *chosen) {
  u32 best[MOST], count = 0;
  for (u32 c = 0; c < n; c++) {
    f32 v = all[c].value;
    if (v != v || room == 0 || (count == room && !(v > all[best[count - 1]].value))) continue;
    u32 at = count < room ? count++ : room - 1;
    for (; at > 0 && v > all[best[at - 1]].value; at--) best[at] = best[at - 1];
    best[at] = c;
  }
  for (u32 i = 0; i < count; i++) all[best[i]].node = 1;
  u32 nodes = 0;
  for (u32 c = 0; c < n; c++) {
    if (!all[c].node) continue;
    all[c].node = ++nodes;
    chosen[nodes] = c;
  }
  return nodes;
}

static void fill_row(const dispatch *d, u32 i, u32 token, u32 position, u32 slot, u32 common) {
  AT(u32, 3)[i] = token;
  AT(u32, 4)[i] = position + 1;
  u32 *row = AT(u32, 5) + 4 * i;
  row[0] = position, row[1] = slot, row[2] = common, row[3] = 0;
  AT(u32, 6)[i * PARAM(4)] = slot;
}

void gather(const dispatch *d, const thread *t) {
  if (t->part) return;
  u32 k = PARAM(0), stride = PARAM(4);
  const u32 *head = AT(u32, 2), *slots = head + HEAD_WORDS;
  u32 rows = min_u32(min_u32(words(d, 3), words(d, 4)), min_u32(words(d, 5) / 4, words(d, 6) / stride));
  u32 padded = min_u32(head[2], rows), base = head[3], trash = head[4];
  u32 nodes = min_u32(min_u32(head[1], padded), min_u32(words(d, 7), (words(d, 2) - HEAD_WORDS) / 2));
  if (nodes == 0) return;
  u32 most = 1 + (words(d, 1) - PARAM(2)) / max_u32(PARAM(3), 1), levels = max_u32(min_u32(head[0], most), 1);
  u32 n = min_u32(k + (levels - 1) * k * k, MOST);
  candidate all[MOST];
  read_candidates(d, all, n);
  u32 *chosen = AT(u32, 7), last = 0;
  for (u32 i = 0; i < nodes; i++) chosen[i] = NO_NODE;
  if (head[6]) {
    for (u32 i = 1; i < nodes; i++) {
      u32 c = slots[nodes + i];
      if (c >= n) break;
      all[c].node = last = i;
      chosen[i] = c;
    }
  } else {
    last = choose(all, n, nodes - 1, chosen);
  }
  fill_row(d, 0, head[5], base, slots[0], base);
  for (u32 i = 1; i <= last; i++) {
    const candidate *a = all + chosen[i];
    fill_row(d, i, a->token, base + a->level + 1, slots[i], base);
    u32 *path = AT(u32, 6) + i * stride;
    path[0] = slots[0];
    for (u32 c = chosen[i]; c != NO_NODE; c = all[c].parent)
      if (all[c].level + 1 < stride) path[all[c].level + 1] = slots[all[c].node];
  }
  for (u32 i = last + 1; i < padded; i++) fill_row(d, i, 0, 0, trash, 0);
}

// A float, or the lowest one for NaN.
static f32 number(f32 v) { return v != v ? as_f32(0xff7fffff) : v; }

// The beams of the next level, by the sum of ln q along their paths; tree.RecordSelect. The candidates of each beam are
// sorted, so that the best one of all is the first of some beam.
void select_beams(const dispatch *d, const thread *t) {
  if (t->part) return;
  u32 beams = PARAM(0), k = PARAM(1), depth = PARAM(2), width = PARAM(3);
  const u32 *samples = AT(u32, 1), *ancestors = AT(u32, 3), *slots = AT(u32, 4);
  const f32 *scores = AT(f32, 2);
  u32 *chosen = AT(u32, 8), rank[64] = {0};
  f32 *all = AT(f32, 8) + k;
  for (u32 beam = 0; beam < beams; beam++) {
    f32 v = depth > 0 ? number(scores[beam]) : 0;
    for (u32 i = 0; i < k; i++) all[beam * k + i] = v + number(values_of(samples, k, beam)[i]);
  }
  for (u32 j = 0; j < k; j++) {
    u32 c = slots[k + j];
    if (c >= beams * k) {
      c = NO_NODE;
      for (u32 beam = 0; beam < beams; beam++) {
        u32 at = beam * k + rank[beam];
        if (rank[beam] < k && (c == NO_NODE || number(all[at]) > number(all[c]))) c = at;
      }
      rank[c / k]++;
    }
    u32 beam = c / k, *list = AT(u32, 7) + j * width;
    chosen[j] = c;
    AT(u32, 5)[j] = ids_of(samples, k, beam)[c % k];
    AT(f32, 6)[j] = number(all[c]);
    for (u32 i = 0; i < depth; i++) list[i] = ancestors[beam * width + i];
    list[depth] = slots[j];
  }
}

// The children of each row, as drawn and ascending, from the tokens of a tree's nodes; tree.RecordSiblings.
void siblings(const dispatch *d, const thread *t) {
  range rows = share(t, PARAM(0), 1);
  for (u32 row = rows.from; row < rows.to; row++) {
    const u32 *node = AT(u32, 1) + 4 * row;
    u32 at = node[1], count = node[2];
    if (at > words(d, 3) || count > (words(d, 3) - at) / 2) continue;
    const u32 *tokens = AT(u32, 2) + 1 + at / 2;  // two words a child; the root is no child
    u32 *drawn = AT(u32, 3) + at, *sorted = drawn + count;
    for (u32 i = 0; i < count; i++) {
      u32 token = drawn[i] = tokens[i], j = i;
      for (; j > 0 && sorted[j - 1] > token; j--) sorted[j] = sorted[j - 1];
      sorted[j] = token;
    }
  }
}

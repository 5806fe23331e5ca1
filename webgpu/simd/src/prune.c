// The beams of a level by a classifier: see webgpu/kernels/tree.
#include "logits.h"

enum { UNITS_AT = 8, UNIT_WORDS = 5, MOST_PRUNED = 32 };
#define EXCLUDED NONE

typedef struct {
  const u32 *samples;  // (beams, 4 + 2k)
  const f32 *paths;    // ln of the joint probability of each beam; 0: of the root
  u32 k;
} proposals;

static u32 record_words(const proposals *p) { return 4 + 2 * p->k; }

// The token of a candidate.
static u32 token_of(const proposals *p, u32 c) { return p->samples[c / p->k * record_words(p) + 4 + c % p->k]; }

static f32 log_q(const proposals *p, u32 c) {
  return as_f32(p->samples[c / p->k * record_words(p) + 4 + p->k + c % p->k]);
}

// ln of the joint probability of a candidate.
static f32 path_of(const proposals *p, u32 c) {
  f32 q = log_q(p, c);
  return (q > 0 ? 0 : q) + (p->paths ? p->paths[c / p->k] : 0);
}

// The logits of the confidences of four candidates.
static v128_t confidence4(const f32 *net, u32 units, v128_t probability, v128_t entropy, f32 depth) {
  v128_t z = wasm_f32x4_splat(net[5]);
  for (u32 i = 0; i < units; i++) {
    const f32 *u = net + UNITS_AT + UNIT_WORDS * i;
    v128_t x = wasm_f32x4_add(wasm_f32x4_mul(wasm_f32x4_splat(u[0]), probability),
                              wasm_f32x4_mul(wasm_f32x4_splat(u[1]), entropy));
    x = wasm_f32x4_add(wasm_f32x4_add(x, wasm_f32x4_splat(u[2] * depth)), wasm_f32x4_splat(u[3]));
    x = wasm_f32x4_pmax(wasm_f32x4_splat(0), x);
    z = wasm_f32x4_add(z, wasm_f32x4_mul(wasm_f32x4_splat(u[4]), x));
  }
  return z;
}

// The most confident candidates of a level; tree.RecordPrune.
void prune(const dispatch *d, const thread *t) {
  if (t->part) return;
  u32 beams = PARAM(0), k = PARAM(1), depth = PARAM(2), width = PARAM(3), all = beams * k;
  proposals p = {AT(u32, 1), depth > 0 ? AT(f32, 2) + PARAM(4) : 0, k};
  u32 *net = AT(u32, 8), *chosen = AT(u32, 7), *logits = chosen + k;
  u32 nodes = net[0], alive = min_u32(net[1], beams), room = min_u32(k, net[2] - min_u32(nodes, net[2]));
  u32 units = min_u32(net[4], (d->b[8].size / 4 - UNITS_AT) / UNIT_WORDS);
  f32 threshold = as_f32(net[3]);

  u32 stay[MOST_PRUNED], count = 0;  // the best so far, best first
  for (u32 first = 0; first < all; first += 4) {
    f32 probability[4] = {0}, entropy[4] = {0}, z[4];
    for (u32 i = 0; i < 4 && first + i < all; i++) {
      probability[i] = expo(path_of(&p, first + i));
      entropy[i] = as_f32(p.samples[(first + i) / k * record_words(&p) + 3]);
    }
    wasm_v128_store(z, confidence4((const f32 *)net, units, wasm_v128_load(probability), wasm_v128_load(entropy),
                                   (f32)(depth + 1)));
    for (u32 i = 0; i < 4 && first + i < all; i++) {
      u32 c = first + i;
      if (c / k >= alive || !(log_q(&p, c) > -__builtin_inff())) z[i] = EXCLUDED;
      logits[c] = as_u32(z[i]);
      if (!(z[i] > threshold && z[i] > EXCLUDED) || room == 0) continue;
      if (count == room && !(z[i] > as_f32(logits[stay[count - 1]]))) continue;
      u32 at = count < room ? count++ : room - 1;
      for (; at > 0 && z[i] > as_f32(logits[stay[at - 1]]); at--) stay[at] = stay[at - 1];
      stay[at] = c;
    }
  }
  for (u32 i = 1; i < count; i++) {  // in the order of their numbers
    u32 c = stay[i], at = i;
    for (; at > 0 && stay[at - 1] > c; at--) stay[at] = stay[at - 1];
    stay[at] = c;
  }
  // Rows of the next pass without a beam repeat a candidate; their results are not used.
  for (u32 j = 0; j < k; j++) {
    u32 c = j < count ? stay[j] : 0, *list = AT(u32, 6) + j * width;
    chosen[j] = j < count ? c : NO_ID;
    AT(u32, 5)[j] = token_of(&p, c);
    AT(f32, 2)[PARAM(5) + j] = path_of(&p, c);
    for (u32 i = 0; i < depth; i++) list[i] = AT(u32, 3)[c / k * width + i];
    list[depth] = AT(u32, 4)[j];
  }
  net[0] = nodes + count;
  net[1] = count;
}

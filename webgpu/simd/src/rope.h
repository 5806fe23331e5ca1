// The rotary embedding of one head: see kernels.Rotate.
#pragma once
#include "kernel.h"

// Rotates the first `rotary` elements of a head in place. angles are the cosines and sines (rotary/2, 2) of its
// position. A pair are neighbours, or half the rotated part apart if half is 1.
static inline void rotate(f32 *x, const f32 *angles, u32 rotary, u32 half) {
  for (u32 pair = 0; pair < rotary / 2; pair++) {
    u32 i = half ? pair : 2 * pair, j = half ? pair + rotary / 2 : i + 1;
    f32 c = angles[2 * pair], s = angles[2 * pair + 1], a = x[i], b = x[j];
    x[i] = a * c - b * s;
    x[j] = a * s + b * c;
  }
}

// Weights of formats of which 2^SHARE steps share a word, a part of each byte each: first the steps of the lowest bits
// of four words, then those of the next bits.
@group(0) @binding(1) var<storage, read> weights: array<u32>;

fn fetch(row: u32, step: u32) -> vec4<u32> {
    let word = weights[row * (P.steps >> SHARE) + (step >> (2u + SHARE)) * 4u + (step & 3u)];
    return vec4<u32>(word >> (((step >> 2u) & ((1u << SHARE) - 1u)) * (8u >> SHARE)), 0u, 0u, 0u);
}

// Weights in Q2_K, repacked: a superblock of 256 is 16 words in the file's order, eight for
// each half, whose byte i holds weights i, 32 + i, 64 + i and 96 + i in its bit pairs. The
// scales are five words: 16 bytes, for 16 weights each, with a scale (low nibble) and a minimum
// (high nibble), then two halves that multiply all scales and all minimums.
//
// A step is two bit pairs of one word: step 16·half + 8·h + 4·pair + i of a superblock is
// word 8·half + 4·h + i, and four steps in a row share their two scales.
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

const BITS = 2u;
const AT = 2u;
alias Scale = vec4<f32>; // scale and minimum of each part
fn fetch(row: u32, step: u32) -> vec4<u32> {
    let word = ((row * P.steps + (step >> 4u) * 16u) >> 1u) + ((step >> 3u) & 1u) * 4u + (step & 3u);
    return vec4<u32>(weights[word] >> (4u * ((step >> 2u) & 1u)), 0u, 0u, 0u);
}
fn scale(row: u32, step: u32) -> vec4<f32> {
    let block = (row * (P.steps >> 5u) + (step >> 5u)) * 5u;
    let d = halves(scales[block + 4u]);
    let w = scales[block + ((step >> 4u) & 1u) * 2u + ((step >> 2u) & 1u)] >> (8u * ((step >> 3u) & 1u));
    return vec4<f32>(vec4<u32>(w & 15u, (w >> 4u) & 15u, (w >> 16u) & 15u, (w >> 20u) & 15u)) * vec4<f32>(d, d);
}
fn codes(raw: vec4<u32>, part: u32) -> u32 { return raw.x; }
fn factors(scale: Scale, part: u32) -> vec2<f32> {
    return select(scale.xy, scale.zw, vec2<bool>(part == 1u, part == 1u));
}
fn place(step: u32, part: u32) -> u32 {
    return (step >> 4u) * 32u + ((step >> 2u) & 1u) * 16u + part * 8u + ((step >> 3u) & 1u) * 4u + (step & 3u);
}

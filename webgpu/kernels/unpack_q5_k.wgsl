// Weights in Q5_K, repacked: a superblock of 256 is eight words of fifth bits, whose byte i
// holds weight 32·b + i in bit b, and 32 words of lower bits as in Q4_K. A step is one word of
// lower bits, a pair of blocks eight steps.
@group(0) @binding(1) var<storage, read> weights: array<u32>;

const BITS = 5u;
const AT = 0u;
fn fetch(row: u32, step: u32) -> vec4<u32> {
    let block = (row * (P.steps >> 5u) + (step >> 5u)) * 40u;
    let fifth = weights[block + (step & 7u)] >> (2u * ((step >> 3u) & 3u));
    return vec4<u32>(weights[block + 8u + (step & 31u)], fifth, 0u, 0u);
}
fn codes(raw: vec4<u32>, part: u32) -> u32 {
    return ((raw.x >> (part * 4u)) & 0x0f0f0f0fu) | (((raw.y >> part) & 0x01010101u) * 16u);
}
fn factors(scale: Scale, part: u32) -> vec2<f32> {
    return select(scale.xy, scale.zw, vec2<bool>(part == 1u, part == 1u));
}
fn place(step: u32, part: u32) -> u32 { return (step >> 3u) * 16u + part * 8u + (step & 7u); }

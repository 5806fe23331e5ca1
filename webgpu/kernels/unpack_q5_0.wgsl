// Weights in Q5_0, repacked: a block of 32 is a word of fifth bits, bit i for weight i, and
// four words of the lower bits as in Q4_0, offset by 16; one f32 scale a block. A step is
// one word of lower bits, a block four steps.
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;

const BITS = 5u;
const AT = 0u;
alias Scale = f32;
fn fetch(row: u32, step: u32) -> vec4<u32> {
    let block = (row * (P.steps >> 2u) + (step >> 2u)) * 5u;
    return vec4<u32>(weights[block + 1u + (step & 3u)], weights[block] >> (4u * (step & 3u)), 0u, 0u);
}
fn scale(row: u32, step: u32) -> f32 { return scales[row * (P.steps >> 2u) + (step >> 2u)]; }
fn codes(raw: vec4<u32>, part: u32) -> u32 {
    let fifth = (((raw.y >> (part * 16u)) & 15u) * 0x02040810u) & 0x10101010u; // bit i in byte i
    return ((raw.x >> (part * 4u)) & 0x0f0f0f0fu) | fifth;
}
fn factors(scale: Scale, part: u32) -> vec2<f32> { return vec2<f32>(scale, 16.0 * scale); }
fn place(step: u32, part: u32) -> u32 { return (step >> 2u) * 8u + part * 4u + (step & 3u); }

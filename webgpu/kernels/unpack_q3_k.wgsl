// Weights in Q3_K, repacked: a superblock of 256 is eight words of third bits, whose byte i
// holds weight 32·b + i in bit b, and 16 words of lower bits as in Q2_K; its scales are four
// words: an f32 that multiplies all, then the file's 12 bytes of 16 six-bit scales, offset by
// 32: first the low nibbles of the first eight bytes, then their high nibbles; the last four
// bytes hold the upper two bits of all. Steps are those of Q2_K.
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(4) var<storage, read> scales: array<u32>;

const BITS = 3u;
const AT = 0u;
alias Scale = vec2<f32>; // of each part
fn fetch(row: u32, step: u32) -> vec4<u32> {
    let block = (row * (P.steps >> 5u) + (step >> 5u)) * 24u;
    let side = (step >> 4u) & 1u;
    let pair = (step >> 2u) & 1u;
    let word = ((step >> 3u) & 1u) * 4u + (step & 3u);
    return vec4<u32>(weights[block + 8u + side * 8u + word] >> (4u * pair),
        weights[block + word] >> (4u * side + 2u * pair), 0u, 0u);
}
fn scale(row: u32, step: u32) -> vec2<f32> {
    let block = (row * (P.steps >> 5u) + (step >> 5u)) * 4u;
    let pair = (step >> 2u) & 1u;
    let up = 8u * ((step >> 3u) & 1u) + 4u * ((step >> 4u) & 1u);
    let low = scales[block + 1u + pair] >> up;
    let high = scales[block + 3u] >> (up + 2u * pair);
    let s = vec2<u32>((low & 15u) | ((high & 3u) << 4u), ((low >> 16u) & 15u) | (((high >> 16u) & 3u) << 4u));
    return bitcast<f32>(scales[block]) * (vec2<f32>(s) - vec2<f32>(32.0, 32.0));
}
fn codes(raw: vec4<u32>, part: u32) -> u32 {
    return ((raw.x >> (part * 2u)) & 0x03030303u) | (((raw.y >> part) & 0x01010101u) * 4u);
}
fn factors(scale: Scale, part: u32) -> vec2<f32> {
    let s = select(scale.x, scale.y, part == 1u);
    return vec2<f32>(s, 4.0 * s);
}
fn place(step: u32, part: u32) -> u32 {
    return (step >> 4u) * 32u + ((step >> 2u) & 1u) * 16u + part * 8u + ((step >> 3u) & 1u) * 4u + (step & 3u);
}

// Weights in Q6_K, repacked: a superblock of 256 is 32 words of lower bits and 16 words of
// upper bits in the file's order. Each half has 16 words of lower bits, with its first 64
// weights in low nibbles and its last 64 in high nibbles, and eight words of upper bits, whose
// byte i holds two bits of weights i, 32 + i, 64 + i and 96 + i. Numbers are offset by 32. The
// scales are five words: 16 signed bytes, for 16 weights each, and an f32 that multiplies all.
//
// A step is one word of lower bits; four steps in a row share their two scales.
@group(0) @binding(4) var<storage, read> scales: array<u32>;

const BITS = 6u;
const AT = 0u;
alias Scale = vec2<f32>; // of each part

// signed_byte returns byte i of a word as a signed number.
fn signed_byte(w: u32, i: u32) -> f32 { return f32(bitcast<i32>(w << (24u - 8u * i)) >> 24u); }

fn scale(row: u32, step: u32) -> vec2<f32> {
    let block = (row * (P.steps >> 5u) + (step >> 5u)) * 5u;
    let side = ((step >> 4u) & 1u) * 2u;
    let at = (step >> 2u) & 3u;
    return bitcast<f32>(scales[block + 4u])
        * vec2<f32>(signed_byte(scales[block + side], at), signed_byte(scales[block + side + 1u], at));
}
fn codes(raw: vec4<u32>, part: u32) -> u32 {
    return ((raw.x >> (part * 4u)) & 0x0f0f0f0fu) | (((raw.y >> (part * 4u)) & 0x03030303u) * 16u);
}
fn factors(scale: vec2<f32>, part: u32) -> vec2<f32> {
    let s = select(scale.x, scale.y, part == 1u);
    return vec2<f32>(s, 32.0 * s);
}
// As in codes.wgsl, but for the offset, which is taken off first, because a scale of 18 bits times the sum of seven
// would be rounded.
fn unpack(raw: vec4<u32>, part: u32, scale: vec2<f32>) -> vec4<f32> {
    return factors(scale, part).x * (fields(codes(raw, part), 0u, BITS) - 96.0);
}
fn place(step: u32, part: u32) -> u32 { return (step >> 4u) * 32u + part * 16u + (step & 15u); }

// Weights in Q4_0, repacked: a block of 32 is four words in the file's order, whose
// low nibbles are the first 16 weights and high nibbles the last 16, each
// offset by 8; one f32 scale a block. A step is one word.
//
// numbers masks nibbles in place, as in unpack_q8_0; the highest one is signed.
@group(0) @binding(4) var<storage, read> scales: array<f32>;

const BITS = 4u;
const AT = 4u;
alias Scale = f32;
fn scale(row: u32, step: u32) -> f32 { return scales[row * (P.steps >> 2u) + (step >> 2u)]; }
// numbers returns the masked weights; unit returns the factors that make them integers.
fn numbers(raw: vec4<u32>, part: u32) -> vec4<f32> {
    let w = bitcast<i32>(raw.x ^ 0x80000000u);
    if (part == 1u) {
        return vec4<f32>(f32(w & 0xf0), f32(w & 0xf000), f32(w & 0xf00000), f32(w & -0x10000000))
            - vec4<f32>(128.0, 32768.0, 8388608.0, 0.0);
    }
    return vec4<f32>(f32(w & 0xf), f32(w & 0xf00), f32(w & 0xf0000), f32(w & 0xf000000))
        - vec4<f32>(8.0, 2048.0, 524288.0, 134217728.0);
}
fn unit(part: u32) -> vec4<f32> {
    return select(1.0, 0.0625, part == 1u) * vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 5.9604644775390625e-8);
}
fn codes(raw: vec4<u32>, part: u32) -> u32 { return raw.x; }
fn factors(scale: Scale, part: u32) -> vec2<f32> { return vec2<f32>(scale, 8.0 * scale); }
fn place(step: u32, part: u32) -> u32 { return (step >> 2u) * 8u + part * 4u + (step & 3u); }

// Weights in Q8_0, repacked: signed bytes (rows, cols), four to a word and to a
// step; one f32 scale for each 32 of a row.
//
// numbers, which software adapters use, masks bytes in place, because these shift one lane at a time. They become
// floats 1, 256, 65536 and 2^24 times too large; unit corrects that exactly. The lower three are offset by 128 for
// their sign.
@group(0) @binding(4) var<storage, read> scales: array<f32>;

const BITS = 8u;
const AT = 0u;
alias Scale = f32;
fn scale(row: u32, step: u32) -> f32 { return scales[row * (P.steps >> 3u) + (step >> 3u)]; }
// numbers returns the masked weights; unit returns the factors that make them integers.
fn numbers(raw: vec4<u32>, part: u32) -> vec4<f32> {
    let w = bitcast<i32>(raw.x ^ 0x00808080u);
    return vec4<f32>(f32(w & 0xff), f32(w & 0xff00), f32(w & 0xff0000), f32(w & -0x1000000))
        - vec4<f32>(128.0, 32768.0, 8388608.0, 0.0);
}
fn unit(part: u32) -> vec4<f32> { return vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 5.9604644775390625e-8); }
fn codes(raw: vec4<u32>, part: u32) -> u32 { return raw.x ^ 0x80808080u; }
fn factors(scale: Scale, part: u32) -> vec2<f32> { return vec2<f32>(scale, 128.0 * scale); }
fn place(step: u32, part: u32) -> u32 { return step; }

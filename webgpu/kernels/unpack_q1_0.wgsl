// Weights in Q1_0, repacked: a block of 128 is four words, whose byte k holds weights k, 16 + k, … 112 + k in its bits:
// the scale where a bit is set, and its negative elsewhere; one f32 scale a block. A step is two bits of each byte.
@group(0) @binding(4) var<storage, read> scales: array<f32>;

const BITS = 1u;
const AT = 1u;
const SHARE = 2u;
alias Scale = f32;
fn scale(row: u32, step: u32) -> f32 { return scales[row * (P.steps >> 4u) + (step >> 4u)]; }
fn codes(raw: vec4<u32>, part: u32) -> u32 { return raw.x; }
fn factors(scale: f32, part: u32) -> vec2<f32> { return vec2<f32>(2.0 * scale, scale); }
fn place(step: u32, part: u32) -> u32 { return (step >> 2u) * 8u + part * 4u + (step & 3u); }

// Weights in Q2_0, repacked: a block of 64 is four words, whose byte k holds weights k, 16 + k, 32 + k and 48 + k in
// its bit pairs, each offset by 1; one f32 scale a block. A step is two pairs of each byte.
@group(0) @binding(4) var<storage, read> scales: array<f32>;

const BITS = 2u;
const AT = 2u;
const SHARE = 1u;
alias Scale = f32;
fn scale(row: u32, step: u32) -> f32 { return scales[row * (P.steps >> 3u) + (step >> 3u)]; }
fn codes(raw: vec4<u32>, part: u32) -> u32 { return raw.x; }
fn factors(scale: f32, part: u32) -> vec2<f32> { return vec2<f32>(scale, scale); }
fn place(step: u32, part: u32) -> u32 { return (step >> 2u) * 8u + part * 4u + (step & 3u); }

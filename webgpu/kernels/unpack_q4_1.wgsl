// Weights in Q4_1, repacked: a block of 32 is four words in the file's order, whose
// low nibbles are the first 16 weights and high nibbles the last 16; a word of two halves,
// scale and minimum. A step is one word, a block four steps.
@group(0) @binding(4) var<storage, read> scales: array<u32>;

const BITS = 4u;
const AT = 4u;
alias Scale = vec2<f32>;
fn scale(row: u32, step: u32) -> vec2<f32> { return halves(scales[row * (P.steps >> 2u) + (step >> 2u)]); }
fn codes(raw: vec4<u32>, part: u32) -> u32 { return raw.x; }
fn factors(scale: Scale, part: u32) -> vec2<f32> { return vec2<f32>(scale.x, -scale.y); }
fn place(step: u32, part: u32) -> u32 { return (step >> 2u) * 8u + part * 4u + (step & 3u); }

// Weights in Q4_0, repacked: a block of 32 is four words in the file's order, whose
// low nibbles are the first 16 weights and high nibbles the last 16, each
// offset by 8; one f32 scale a block. A step is one word.
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;

fn fetch(row: u32, step: u32) -> vec4<u32> { return vec4<u32>(weights[row * P.steps + step], 0u, 0u, 0u); }
fn scale(row: u32, step: u32) -> f32 { return scales[row * (P.steps / 4u) + step / 4u]; }
fn unpack(raw: vec4<u32>, part: u32, scale: f32) -> vec4<f32> {
    let w = raw.x >> (part * 4u);
    return scale * (vec4<f32>(f32(w & 15u), f32((w >> 8u) & 15u), f32((w >> 16u) & 15u), f32((w >> 24u) & 15u)) - vec4<f32>(8.0, 8.0, 8.0, 8.0));
}
fn place(step: u32, part: u32) -> u32 { return (step / 4u) * 8u + part * 4u + step % 4u; }

// Weights in Q8_0, repacked: signed bytes (rows, cols), four to a word and to a
// step; one f32 scale for each 32 of a row.
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(4) var<storage, read> scales: array<f32>;

fn fetch(row: u32, step: u32) -> vec4<u32> { return vec4<u32>(weights[row * P.steps + step], 0u, 0u, 0u); }
fn scale(row: u32, step: u32) -> f32 { return scales[row * (P.steps / 8u) + step / 8u]; }
fn unpack(raw: vec4<u32>, part: u32, scale: f32) -> vec4<f32> {
    let w = raw.x;
    return scale * vec4<f32>(f32(bitcast<i32>(w << 24u) >> 24u), f32(bitcast<i32>(w << 16u) >> 24u),
        f32(bitcast<i32>(w << 8u) >> 24u), f32(bitcast<i32>(w) >> 24u));
}
fn place(step: u32, part: u32) -> u32 { return step; }

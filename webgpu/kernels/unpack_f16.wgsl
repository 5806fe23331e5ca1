// Weights in F16: (rows, cols), two to a word, four to a step.
@group(0) @binding(1) var<storage, read> weights: array<vec2<u32>>;

alias Scale = f32;
fn fetch(row: u32, step: u32) -> vec4<u32> { return vec4<u32>(weights[row * P.steps + step], 0u, 0u); }
fn scale(row: u32, step: u32) -> f32 { return 1.0; }
fn unpack(raw: vec4<u32>, part: u32, scale: f32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(raw.x), unpack2x16float(raw.y));
}
fn place(step: u32, part: u32) -> u32 { return step; }

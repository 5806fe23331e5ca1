// Weights in F32: (rows, cols), four to a step.
@group(0) @binding(1) var<storage, read> weights: array<vec4<f32>>;

alias Scale = f32;
fn fetch(row: u32, step: u32) -> vec4<u32> { return bitcast<vec4<u32>>(weights[row * P.steps + step]); }
fn scale(row: u32, step: u32) -> f32 { return 1.0; }
fn unpack(raw: vec4<u32>, part: u32, scale: f32) -> vec4<f32> { return bitcast<vec4<f32>>(raw); }
// place returns the position of a part's four weights in the row, in units of four.
fn place(step: u32, part: u32) -> u32 { return step; }

@group(0) @binding(5) var<storage, read> keys: array<vec4<f32>, CACHE>;   // (slots, heads/group·DQ)
@group(0) @binding(6) var<storage, read> values: array<vec4<f32>, CACHE>; // as keys

const UNIT = 1.0; // the factor of elements
// A read has QUADS times four elements.
alias Words = vec4<f32>;
fn quadIn(w: Words, n: u32) -> vec4<f32> { return w; }
// scaleOf returns the index of the scale of four elements in a slot; scaled applies a scale.
fn scaleOf(kv: u32, quad: u32) -> u32 { return 0u; }
fn keyScale(at: u32, n: u32) -> f32 { return 1.0; }
fn valueScale(at: u32, n: u32) -> f32 { return 1.0; }
fn scaled(x: f32, scale: f32) -> f32 { return x; }

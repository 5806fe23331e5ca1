@group(0) @binding(5) var<storage, read> keys: array<vec4<f32>, CACHE>;   // (slots, heads/group·DQ)
@group(0) @binding(6) var<storage, read> values: array<vec4<f32>, CACHE>; // likewise

const UNIT = 1.0; // what elements are to be multiplied by
// A read brings QUADS times four elements.
alias Words = vec4<f32>;
fn quadIn(w: Words, n: u32) -> vec4<f32> { return w; }
// Which of a slot's scales is that of four elements, and what it does to what they were multiplied with.
fn scaleOf(kv: u32, quad: u32) -> u32 { return 0u; }
fn keyScale(at: u32, n: u32) -> f32 { return 1.0; }
fn valueScale(at: u32, n: u32) -> f32 { return 1.0; }
fn scaled(x: f32, scale: f32) -> f32 { return x; }

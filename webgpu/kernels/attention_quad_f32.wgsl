@group(0) @binding(5) var<storage, read> keys: array<vec4<f32>, CACHE>;   // (slots, heads/group·DQ)
@group(0) @binding(6) var<storage, read> values: array<vec4<f32>, CACHE>; // likewise

const UNIT = 1.0; // what elements are to be multiplied by
// Where in a head a quad is, and its scale.
fn quadOf(quad: u32) -> u32 { return quad; }
fn scaleOf(quad: u32) -> u32 { return 0u; }
fn keyQuad(at: u32) -> vec4<f32> { return keys[at]; }
fn valueQuad(at: u32) -> vec4<f32> { return values[at]; }
fn keyScale(at: u32) -> f32 { return 1.0; }
fn valueScale(at: u32) -> f32 { return 1.0; }
fn scaled(x: f32, scale: f32) -> f32 { return x; }

@group(0) @binding(5) var<storage, read> keys: array<vec4<f32>>;   // (slots, heads/group·dim)
@group(0) @binding(6) var<storage, read> values: array<vec4<f32>>; // as keys

fn locate(slot: u32, width: u32, own: u32) -> vec2<u32> { return vec2<u32>(0u, slot * width + own); }
fn key(at: vec2<u32>, i: u32) -> vec4<f32> { return keys[at.y + i]; }
fn value(at: vec2<u32>, i: u32) -> vec4<f32> { return values[at.y + i]; }

@group(0) @binding(5) var<storage, read> keys: array<vec4<f32>>;   // (slots, heads/group·dim)
@group(0) @binding(6) var<storage, read> values: array<vec4<f32>>; // as keys

fn key(at: u32) -> vec4<f32> { return keys[at]; }
fn value(at: u32) -> vec4<f32> { return values[at]; }

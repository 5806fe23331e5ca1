@group(0) @binding(5) var<storage, read> keys: array<vec2<u32>>;   // (slots, heads/group·dim), two f16 to a word
@group(0) @binding(6) var<storage, read> values: array<vec2<u32>>; // as keys

fn halves(w: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)); }
fn locate(slot: u32, width: u32, own: u32) -> vec2<u32> { return vec2<u32>(0u, slot * width + own); }
fn key(at: vec2<u32>, i: u32) -> vec4<f32> { return halves(keys[at.y + i]); }
fn value(at: vec2<u32>, i: u32) -> vec4<f32> { return halves(values[at.y + i]); }

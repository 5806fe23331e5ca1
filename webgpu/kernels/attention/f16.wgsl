@group(0) @binding(5) var<storage, read> keys: array<vec2<u32>>;   // (slots, heads/group·dim), two f16 to a word
@group(0) @binding(6) var<storage, read> values: array<vec2<u32>>; // as keys

fn halves(w: vec2<u32>) -> vec4<f32> { return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)); }
fn key(at: u32) -> vec4<f32> { return halves(keys[at]); }
fn value(at: u32) -> vec4<f32> { return halves(values[at]); }

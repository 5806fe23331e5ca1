@group(0) @binding(5) var<storage, read> cache: array<vec2<u32>>; // (slots, heads/group·dim), two f16 to a word

fn cached(at: u32) -> vec4<f32> {
    let w = cache[at];
    return vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
}

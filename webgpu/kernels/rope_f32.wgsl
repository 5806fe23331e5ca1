// KV cache in f32: one word an element.
fn storeKey(at: u32, v: vec2<f32>) {
    keys[at] = bitcast<u32>(v.x);
    keys[at + 1u] = bitcast<u32>(v.y);
}
fn storeValue(at: u32, v: vec2<f32>) {
    values[at] = bitcast<u32>(v.x);
    values[at + 1u] = bitcast<u32>(v.y);
}

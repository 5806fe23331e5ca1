@group(0) @binding(5) var<storage, read> keys: array<u32>;   // (slots, heads/group, blocks, 1 + KVQ): f32 scale, then signed bytes, four to a word
@group(0) @binding(6) var<storage, read> values: array<u32>; // likewise

fn bytes(w: u32) -> vec4<f32> {
    return vec4<f32>(f32(bitcast<i32>(w << 24u) >> 24u), f32(bitcast<i32>(w << 16u) >> 24u), f32(bitcast<i32>(w << 8u) >> 24u), f32(bitcast<i32>(w) >> 24u));
}
fn key(at: u32) -> vec4<f32> {
    let block = (at / KVQ) * (KVQ + 1u);
    return bitcast<f32>(keys[block]) * bytes(keys[block + 1u + at % KVQ]);
}
fn value(at: u32) -> vec4<f32> {
    let block = (at / KVQ) * (KVQ + 1u);
    return bitcast<f32>(values[block]) * bytes(values[block + 1u + at % KVQ]);
}
fn byte(w: u32, lane: u32) -> f32 { return f32(bitcast<i32>(w << (24u - 8u * lane)) >> 24u); }
fn keyOf(at: u32, lane: u32) -> f32 {
    let block = (at / KVQ) * (KVQ + 1u);
    return bitcast<f32>(keys[block]) * byte(keys[block + 1u + at % KVQ], lane);
}
fn valueOf(at: u32, lane: u32) -> f32 {
    let block = (at / KVQ) * (KVQ + 1u);
    return bitcast<f32>(values[block]) * byte(values[block + 1u + at % KVQ], lane);
}

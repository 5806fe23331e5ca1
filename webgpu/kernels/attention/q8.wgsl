// A slot: f32 scales of blocks (heads/group, dim/block), then signed bytes (heads/group, dim), four to a word.
@group(0) @binding(5) var<storage, read> keys: array<u32>;
@group(0) @binding(6) var<storage, read> values: array<u32>; // as keys

// locate returns the words of a head's first scale and of its first element.
fn locate(slot: u32, width: u32, own: u32) -> vec2<u32> {
    return vec2<u32>(slot * SLOT + (own >> KVQ_BITS), slot * SLOT + LEAD + own);
}
fn key(at: vec2<u32>, i: u32) -> vec4<f32> {
    return bitcast<f32>(keys[at.x + (i >> KVQ_BITS)]) * bytes(keys[at.y + i]);
}
fn value(at: vec2<u32>, i: u32) -> vec4<f32> {
    return bitcast<f32>(values[at.x + (i >> KVQ_BITS)]) * bytes(values[at.y + i]);
}

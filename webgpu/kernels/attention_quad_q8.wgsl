@group(0) @binding(5) var<storage, read> keys: array<u32, CACHE>;   // (slots, heads/group, blocks, 1 + KVQ): f32 scale, then signed bytes, four to a word
@group(0) @binding(6) var<storage, read> values: array<u32, CACHE>; // likewise

// Bytes are masked where they stand, as in unpack_q8_0, which makes them 1, 256, 65536 and 2^24 times too large: queries and sums make
// up for that.
const UNIT = vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 5.9604644775390625e-8);
// Where in a head a quad is, and its scale.
fn quadOf(quad: u32) -> u32 { return quad / KVQ * (KVQ + 1u) + 1u + quad % KVQ; }
fn scaleOf(quad: u32) -> u32 { return quad / KVQ * (KVQ + 1u); }
fn masked(word: u32) -> vec4<f32> {
    let w = bitcast<i32>(word ^ 0x00808080u);
    return vec4<f32>(f32(w & 0xff) - 128.0, f32(w & 0xff00) - 32768.0, f32(w & 0xff0000) - 8388608.0, f32(w & -0x1000000));
}
fn keyQuad(at: u32) -> vec4<f32> { return masked(keys[at]); }
fn valueQuad(at: u32) -> vec4<f32> { return masked(values[at]); }
fn keyScale(at: u32) -> f32 { return bitcast<f32>(keys[at]); }
fn valueScale(at: u32) -> f32 { return bitcast<f32>(values[at]); }
fn scaled(x: f32, scale: f32) -> f32 { return x * scale; }

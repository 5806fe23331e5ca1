// A slot: f32 scales of blocks (heads/group, DQ/KVQ), then signed bytes (heads/group, DQ, 4), four to a word.
@group(0) @binding(5) var<storage, read> keys: array<Words, CACHE>;
@group(0) @binding(6) var<storage, read> values: array<Words, CACHE>; // as keys

// Bytes are masked in place, as in unpack_q8_0, which makes them 1, 256, 65536 and 2^24 times too large; UNIT corrects
// queries and sums.
const UNIT = vec4<f32>(1.0, 0.00390625, 0.0000152587890625, 5.9604644775390625e-8);
fn quadIn(words: Words, n: u32) -> vec4<f32> {
    let w = bitcast<i32>(wordOf(words, n) ^ 0x00808080u);
    return vec4<f32>(f32(w & 0xff) - 128.0, f32(w & 0xff00) - 32768.0, f32(w & 0xff0000) - 8388608.0,
        f32(w & -0x1000000));
}
fn scaleOf(kv: u32, quad: u32) -> u32 { return (kv * DQ + quad) / KVQ; }
fn keyScale(at: u32, n: u32) -> f32 { return bitcast<f32>(keyWord(at, n)); }
fn valueScale(at: u32, n: u32) -> f32 { return bitcast<f32>(valueWord(at, n)); }
fn scaled(x: f32, scale: f32) -> f32 { return x * scale; }

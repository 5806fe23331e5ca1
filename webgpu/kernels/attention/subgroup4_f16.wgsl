@group(0) @binding(5) var<storage, read> keys: array<Words, CACHE>;   // (slots, heads/group·DQ), two f16 to a word
@group(0) @binding(6) var<storage, read> values: array<Words, CACHE>; // as keys

// quadIn moves the exponent and fraction of a half to those of a float, which makes the value 2^112 times too small
// but is much cheaper here than unpack2x16float. The correction is split between queries and scores, and between
// weights and sums, so that nothing overflows. Subnormal halves may become zero, as with unpack2x16float. Infinities,
// the halves of keys and values above 65504, become 65536.
const UNIT = 0x1p56f;
fn quadIn(w: Words, n: u32) -> vec4<f32> {
    let x = vec2<u32>(wordOf(w, 2u * n), wordOf(w, 2u * n + 1u));
    // Multiplications replace shifts: Chromium's software adapter shifts one lane at a time.
    let low = ((x & vec2<u32>(0x7fffu, 0x7fffu)) * 0x2000u) | ((x & vec2<u32>(0x8000u, 0x8000u)) * 0x10000u);
    let high = bitcast<vec2<u32>>(bitcast<vec2<i32>>(x) >> vec2<u32>(3u, 3u)) & vec2<u32>(0x8fffe000u, 0x8fffe000u);
    return bitcast<vec4<f32>>(vec4<u32>(low.x, high.x, low.y, high.y));
}
fn scaleOf(kv: u32, quad: u32) -> u32 { return 0u; }
fn keyScale(at: u32, n: u32) -> f32 { return UNIT; }
fn valueScale(at: u32, n: u32) -> f32 { return UNIT; }
fn scaled(x: f32, scale: f32) -> f32 { return x * scale; }

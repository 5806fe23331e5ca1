@group(0) @binding(5) var<storage, read> keys: array<Words, CACHE>;   // (slots, heads/group·DQ), two f16 to a word
@group(0) @binding(6) var<storage, read> values: array<Words, CACHE>; // likewise

// A half's exponent and fraction where those of a float are make it 2^112 times too small, which is cheaper here than unpack2x16float
// by far (attention takes two thirds of the time). Queries and scores, and weights and sums, make up for half of it each, so that nothing
// overflows. Subnormal halves may count as zero, as they may in WGSL's own; infinities, which a cache has only of keys and values
// above 65504, are 65536.
const UNIT = 0x1p56f;
fn quadIn(w: Words, n: u32) -> vec4<f32> {
    let x = vec2<u32>(wordOf(w, 2u * n), wordOf(w, 2u * n + 1u));
    // Multiplied where it can be: Chromium's software adapter shifts one lane at a time.
    let low = ((x & vec2<u32>(0x7fffu, 0x7fffu)) * 0x2000u) | ((x & vec2<u32>(0x8000u, 0x8000u)) * 0x10000u);
    let high = bitcast<vec2<u32>>(bitcast<vec2<i32>>(x) >> vec2<u32>(3u, 3u)) & vec2<u32>(0x8fffe000u, 0x8fffe000u);
    return bitcast<vec4<f32>>(vec4<u32>(low.x, high.x, low.y, high.y));
}
fn scaleOf(kv: u32, quad: u32) -> u32 { return 0u; }
fn keyScale(at: u32, n: u32) -> f32 { return UNIT; }
fn valueScale(at: u32, n: u32) -> f32 { return UNIT; }
fn scaled(x: f32, scale: f32) -> f32 { return x * scale; }

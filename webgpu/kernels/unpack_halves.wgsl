// halves returns the two F16 of a word, the lower first. The scales of small weights are subnormal, and unpack2x16float
// may flush them to zero.
fn halves(w: u32) -> vec2<f32> {
    let h = vec2<u32>(w & 0xffffu, w >> 16u);
    let e = (h >> vec2<u32>(10u, 10u)) & vec2<u32>(31u, 31u);
    let normal = min(e, vec2<u32>(1u, 1u)); // 0 for subnormal numbers, which have no leading 1
    let m = (h & vec2<u32>(1023u, 1023u)) + normal * 1024u;
    // m · 2^(max(e, 1) - 25), with the sign.
    let power = bitcast<vec2<f32>>((e + vec2<u32>(1u, 1u) - normal + vec2<u32>(102u, 102u)) << vec2<u32>(23u, 23u));
    let v = bitcast<vec2<u32>>(vec2<f32>(m) * power);
    return bitcast<vec2<f32>>(v | ((h & vec2<u32>(0x8000u, 0x8000u)) << vec2<u32>(16u, 16u)));
}

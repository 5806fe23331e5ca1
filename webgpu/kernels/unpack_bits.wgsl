// Bit fields that the packed formats share.

// bytes returns the four bytes of a word under a mask, the lowest first, less a number below 256. Each becomes a part
// of the mantissa of a float from 32768 to 33024: some GPUs convert integers more slowly than they mask and subtract.
fn bytes(w: u32, mask: u32, less: f32) -> vec4<f32> {
    let low = mask << 8u;
    let placed = vec4<u32>(w << 8u, w, w >> 8u, w >> 16u) & vec4<u32>(low, low, low, low);
    let base = 32768.0 + less;
    return bitcast<vec4<f32>>(placed | vec4<u32>(0x47000000u, 0x47000000u, 0x47000000u, 0x47000000u))
        - vec4<f32>(base, base, base, base);
}

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

// signed_byte returns byte i of a word as a signed number.
fn signed_byte(w: u32, i: u32) -> f32 { return f32(bitcast<i32>(w << (24u - 8u * i)) >> 24u); }

// Q6_K for packed products, see matmul/packed.wgsl and unpack_q6_k.wgsl.
fn integers(raw: Raw, part: u32) -> vec4<u32> {
    let two = (raw.upper >> vec4<u32>(part * 4u)) & vec4<u32>(0x03030303u);
    return nibbles(raw.lower, part) | (two << vec4<u32>(4u));
}
fn factors(scale: vec2<f32>, part: u32) -> vec2<f32> {
    let s = select(scale.x, scale.y, part == 1u);
    return vec2<f32>(s, 32.0 * s);
}

// Q4_K for packed products, see matmul/packed.wgsl and unpack_q4_k.wgsl.
fn integers(raw: Raw, part: u32) -> vec4<u32> { return nibbles(raw.lower, part); }
fn factors(scale: vec4<f32>, part: u32) -> vec2<f32> {
    return select(scale.xy, scale.zw, vec2<bool>(part == 1u, part == 1u));
}

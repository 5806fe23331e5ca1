// Codes as in codes.wgsl for packed products, see matmul/packed.wgsl. Codes of eight bits become numbers with a sign.
fn integers(raw: Raw, part: u32) -> vec4<u32> {
    let c = vec4<u32>(codes(vec4<u32>(raw.lower.x, raw.upper.x, 0u, 0u), part),
        codes(vec4<u32>(raw.lower.y, raw.upper.y, 0u, 0u), part),
        codes(vec4<u32>(raw.lower.z, raw.upper.z, 0u, 0u), part),
        codes(vec4<u32>(raw.lower.w, raw.upper.w, 0u, 0u), part));
    if (BITS == 8u) { return c ^ vec4<u32>(0x80808080u); }
    return (c >> vec4<u32>(part * AT)) & vec4<u32>(((1u << BITS) - 1u) * 0x01010101u);
}
fn multipliers(scale: Scale, part: u32) -> vec2<f32> {
    let by = factors(scale, part);
    if (BITS == 8u) { return vec2<f32>(by.x, by.y - 128.0 * by.x); }
    return by;
}

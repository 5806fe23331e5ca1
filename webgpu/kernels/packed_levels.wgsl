// Levels of nibbles for packed products, see unpack_levels.wgsl and matmul/packed.wgsl.
fn packed_level(w: u32) -> u32 { return pack4xI8(level(nibbles(w))); }
fn integers(raw: Raw, part: u32) -> vec4<u32> {
    let w = raw.lower >> vec4<u32>(part * 4u);
    return vec4<u32>(packed_level(w.x), packed_level(w.y), packed_level(w.z), packed_level(w.w));
}
fn multipliers(scale: f32, part: u32) -> vec2<f32> { return vec2<f32>(scale, 0.0); }

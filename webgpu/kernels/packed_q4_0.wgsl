// Q4_0 for packed products, see matmul/packed.wgsl and unpack_q4_0.wgsl.
fn integers(raw: Raw, part: u32) -> vec4<u32> { return nibbles(raw.lower, part); }
fn factors(scale: f32, part: u32) -> vec2<f32> { return vec2<f32>(scale, 8.0 * scale); }

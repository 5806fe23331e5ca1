// fields as in fields.wgsl, two at a time as F16, which GPUs convert to F32 where they are used: the upper bits of the
// mantissa of 2^bits, which the format's offset takes off for no operation more. None is subnormal. Software adapters
// take longer for it.
fn fields(w: u32, at: u32, bits: u32) -> vec4<f32> {
    let mask = (0x400u - (0x400u >> bits)) * 0x00010001u;
    let power = ((15u + bits) << 10u) * 0x00010001u;
    let even = unpack2x16float(((w << (10u - bits - at)) & mask) | power);
    let above = at + bits;
    let placed = select(w >> (above - 2u), w << (2u - above), above < 2u);
    let odd = unpack2x16float((placed & mask) | power);
    return vec4<f32>(even.x, odd.x, even.y, odd.y);
}

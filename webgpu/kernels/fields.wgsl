// fields returns 2^bits plus a field of each byte of a word, the lowest first: the bits from `at` on. They become the
// upper bits of a float's mantissa, because GPUs convert integers more slowly. 2^bits is taken off with a format's
// offset, see affine: it is so small that a scale of 17 bits times the sum is exact.
fn fields(w: u32, at: u32, bits: u32) -> vec4<f32> {
    let up = 23u - bits - at;
    let third = select(w << (up - 16u), w >> (16u - up), up < 16u);
    let mask = 0x800000u - (0x800000u >> bits);
    let power = (127u + bits) << 23u;
    let placed = vec4<u32>(w << up, w << (up - 8u), third, w >> (24u - up)) & vec4<u32>(mask, mask, mask, mask);
    return bitcast<vec4<f32>>(placed | vec4<u32>(power, power, power, power));
}

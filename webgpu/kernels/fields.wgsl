// fields returns 2^bits plus a field of each byte of a word, the lowest first: the bits from `at` on. They become the
// upper bits of a float's mantissa, because GPUs convert integers more slowly. Formats take off 2^bits together with
// their offset, for no operation more. A scale times the sum is exact if its bits and those of the sum, bits + 1, are
// at most 24: 17 + 6 in Q5_K, 11 + 9 in Q8_0.
fn fields(w: u32, at: u32, bits: u32) -> vec4<f32> {
    let up = 23u - bits - at;
    let mask = 0x800000u - (0x800000u >> bits);
    let power = (127u + bits) << 23u;
    let placed = vec4<u32>(w << up, w << (up - 8u), (w >> 1u) << (up - 15u), w >> (24u - up));
    return bitcast<vec4<f32>>((placed & vec4<u32>(mask, mask, mask, mask)) | vec4<u32>(power, power, power, power));
}

// fields returns 2^bits plus a field of each byte of a word, the lowest first: the bits from `at` on. They become a
// part of the mantissa of a float from 32768 to 33023, because GPUs convert integers more slowly. Formats take off
// 2^bits together with their offset, see fields_f16.wgsl. A scale times the sum is exact if its bits and those of the
// sum, bits + 1, are at most 24: 17 + 6 in Q5_K, 11 + 9 in Q8_0.
fn fields(w: u32, at: u32, bits: u32) -> vec4<f32> {
    let v = w >> at;
    let mask = ((1u << bits) - 1u) << 8u;
    let placed = vec4<u32>(v << 8u, v, v >> 8u, v >> 16u) & vec4<u32>(mask, mask, mask, mask);
    let base = 32768.0 - f32(1u << bits);
    return bitcast<vec4<f32>>(placed | vec4<u32>(0x47000000u, 0x47000000u, 0x47000000u, 0x47000000u))
        - vec4<f32>(base, base, base, base);
}

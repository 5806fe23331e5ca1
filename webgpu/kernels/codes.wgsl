// Weights of formats of codes, four to a word and part: factors.x times a code less factors.y. codes returns codes in
// BITS bits of each byte, those of part p from bit p · AT on; other bits may be set.
fn unpack(raw: vec4<u32>, part: u32, scale: Scale) -> vec4<f32> {
    let by = factors(scale, part);
    return by.x * fields(codes(raw, part), part * AT, BITS) - (f32(1u << BITS) * by.x + by.y);
}

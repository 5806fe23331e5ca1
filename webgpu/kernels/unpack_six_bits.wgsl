// The scales of Q4_K and Q5_K, as in the file: for a superblock of 256 weights, in eight
// blocks of 32, two halves that multiply all scales and all minimums, then 12 bytes of eight
// six-bit scales and eight six-bit minimums. Those of the first four blocks are in the lower
// six bits of the bytes of the first two words. The third word has the lower four bits of the
// others; their upper two bits are the upper two bits of the first two words' bytes.
@group(0) @binding(4) var<storage, read> scales: array<vec4<u32>>;

alias Scale = vec4<f32>; // scale and minimum of each part
fn scale(row: u32, step: u32) -> vec4<f32> {
    let s = scales[row * (P.steps >> 5u) + (step >> 5u)];
    let pair = (step >> 3u) & 3u; // blocks 2·pair and 2·pair + 1
    let at = vec3<u32>(16u, 16u, 16u) * (pair & 1u);
    let b = s.yzw >> at;
    let first = vec4<u32>(b.x, b.y, b.x >> 8u, b.y >> 8u);
    let last = (vec4<u32>(b.z, b.z, b.z, b.z) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u, 15u, 15u, 15u);
    let six = select(last | ((first >> vec4<u32>(2u, 2u, 2u, 2u)) & vec4<u32>(48u, 48u, 48u, 48u)),
        first & vec4<u32>(63u, 63u, 63u, 63u), vec4<bool>(pair < 2u, pair < 2u, pair < 2u, pair < 2u));
    let d = halves(s.x);
    return vec4<f32>(six) * vec4<f32>(d, d);
}

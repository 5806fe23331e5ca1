// Weights in Q4_K, repacked: a superblock of 256 is 32 words in the file's order, eight for
// each pair of blocks of 32, whose low nibbles are the first block and high nibbles the
// second. A step is one word, a pair of blocks eight steps.

const BITS = 4u;
const AT = 4u;
fn codes(raw: vec4<u32>, part: u32) -> u32 { return raw.x; }
fn factors(scale: Scale, part: u32) -> vec2<f32> {
    return select(scale.xy, scale.zw, vec2<bool>(part == 1u, part == 1u));
}
fn place(step: u32, part: u32) -> u32 { return (step >> 3u) * 16u + part * 8u + (step & 7u); }

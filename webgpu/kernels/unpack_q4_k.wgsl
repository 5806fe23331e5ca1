// Weights in Q4_K, repacked: a superblock of 256 is 32 words in the file's order, eight for
// each pair of blocks of 32, whose low nibbles are the first block and high nibbles the
// second. A step is one word, a pair of blocks eight steps.

fn unpack(raw: vec4<u32>, part: u32, scale: vec4<f32>) -> vec4<f32> {
    let s = select(scale.xy, scale.zw, vec2<bool>(part == 1u, part == 1u));
    return s.x * fields(raw.x, part * 4u, 4u) - (16.0 * s.x + s.y);
}
fn place(step: u32, part: u32) -> u32 { return (step >> 3u) * 16u + part * 8u + (step & 7u); }

// Weights in Q4_K, repacked: a superblock of 256 is 32 words in the file's order, eight for
// each pair of blocks of 32, whose low nibbles are the first block and high nibbles the
// second. A step is one word, a pair of blocks eight steps.
@group(0) @binding(1) var<storage, read> weights: array<u32>;

fn fetch(row: u32, step: u32) -> vec4<u32> { return vec4<u32>(weights[row * P.steps + step], 0u, 0u, 0u); }
fn unpack(raw: vec4<u32>, part: u32, scale: vec4<f32>) -> vec4<f32> {
    let s = select(scale.xy, scale.zw, vec2<bool>(part == 1u, part == 1u));
    return s.x * bytes((raw.x >> (part * 4u)) & 0x0f0f0f0fu) - vec4<f32>(s.y, s.y, s.y, s.y);
}
fn place(step: u32, part: u32) -> u32 { return (step >> 3u) * 16u + part * 8u + (step & 7u); }

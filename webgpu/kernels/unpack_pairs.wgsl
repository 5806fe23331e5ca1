// The scales of Q4_K and Q5_K: for a superblock of 256 weights, in eight blocks of 32, two floats that multiply all
// scales and all minimums, then a byte each of a block's scale and of its minimum. In the file they are six bits, which
// takes a lane longer to unpack than to read.
@group(0) @binding(4) var<storage, read> scales: array<vec2<u32>>;

alias Scale = vec4<f32>; // scale and minimum of each part
fn scale(row: u32, step: u32) -> vec4<f32> {
    let block = (row * (P.steps >> 5u) + (step >> 5u)) * 3u;
    let pair = (step >> 3u) & 3u; // blocks 2·pair and 2·pair + 1
    let two = scales[block + 1u + (pair >> 1u)];
    let d = bitcast<vec2<f32>>(scales[block]);
    let less = 256.0 * d;
    return vec4<f32>(d, d) * fields(select(two.x, two.y, (pair & 1u) == 1u), 0u, 8u) - vec4<f32>(less, less);
}

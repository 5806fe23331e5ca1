// Weights in IQ4_NL and MXFP4, repacked: words as in Q4_0, whose nibbles select one of 16 levels;
// one f32 scale a block. A step is one word, a block four steps.
@group(0) @binding(4) var<storage, read> scales: array<f32>;

alias Scale = f32;
fn scale(row: u32, step: u32) -> f32 { return scales[row * (P.steps >> 2u) + (step >> 2u)]; }

// nibbles returns the lower half of each byte.
fn nibbles(w: u32) -> vec4<u32> {
    return (vec4<u32>(w, w, w, w) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(15u, 15u, 15u, 15u);
}

// level returns the values of four nibbles. The levels are signed bytes in four words: an array with a dynamic index
// would not stay in registers.
fn level(q: vec4<u32>) -> vec4<i32> {
    let two = (q & vec4<u32>(4u, 4u, 4u, 4u)) == vec4<u32>(4u, 4u, 4u, 4u);
    let low = select(vec4<u32>(LEVELS0, LEVELS0, LEVELS0, LEVELS0),
        vec4<u32>(LEVELS1, LEVELS1, LEVELS1, LEVELS1), two);
    let high = select(vec4<u32>(LEVELS2, LEVELS2, LEVELS2, LEVELS2),
        vec4<u32>(LEVELS3, LEVELS3, LEVELS3, LEVELS3), two);
    let word = select(low, high, q >= vec4<u32>(8u, 8u, 8u, 8u));
    let up = vec4<u32>(24u, 24u, 24u, 24u) - (q & vec4<u32>(3u, 3u, 3u, 3u)) * 8u;
    return bitcast<vec4<i32>>(word << up) >> vec4<u32>(24u, 24u, 24u, 24u);
}
fn unpack(raw: vec4<u32>, part: u32, scale: f32) -> vec4<f32> {
    return scale * vec4<f32>(level(nibbles(raw.x >> (part * 4u))));
}
fn place(step: u32, part: u32) -> u32 { return (step >> 2u) * 8u + part * 4u + (step & 3u); }

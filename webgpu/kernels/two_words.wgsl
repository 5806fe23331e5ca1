// Weights as in words.wgsl, for threads that fetch two steps at once: fetched returns their words, and one the raw
// words of the first step of them.
@group(0) @binding(1) var<storage, read> weights: array<vec2<u32>>;

fn fetched(row: u32, step: u32) -> vec4<u32> {
    return vec4<u32>(weights[row * (P.steps >> 1u) + (step >> 1u)], 0u, 0u);
}
fn one(raw: vec4<u32>) -> vec4<u32> { return vec4<u32>(raw.x, 0u, 0u, 0u); }

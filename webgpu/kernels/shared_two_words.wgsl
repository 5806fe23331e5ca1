// Weights as in shared_words.wgsl, for threads that fetch two steps at once, see two_words.wgsl.
@group(0) @binding(1) var<storage, read> weights: array<vec2<u32>>;

fn fetched(row: u32, step: u32) -> vec4<u32> {
    let words = weights[row * (P.steps >> (1u + SHARE)) + (step >> (2u + SHARE)) * 2u + ((step >> 1u) & 1u)];
    return vec4<u32>(words >> vec2<u32>(((step >> 2u) & ((1u << SHARE) - 1u)) * (8u >> SHARE)), 0u, 0u);
}
fn one(raw: vec4<u32>) -> vec4<u32> { return vec4<u32>(raw.x, 0u, 0u, 0u); }

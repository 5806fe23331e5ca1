// Weights as in shared_words.wgsl, for threads that fetch four steps at once.
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;

fn fetch(row: u32, step: u32) -> Raw {
    let words = weights[row * (P.steps >> (2u + SHARE)) + (step >> (2u + SHARE))];
    return Raw(words >> vec4<u32>(((step >> 2u) & ((1u << SHARE) - 1u)) * (8u >> SHARE)), vec4<u32>());
}

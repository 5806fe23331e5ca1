// Weights of formats of which a step is one word, in rows of P.steps words.
@group(0) @binding(1) var<storage, read> weights: array<u32>;

fn fetch(row: u32, step: u32) -> vec4<u32> { return vec4<u32>(weights[row * P.steps + step], 0u, 0u, 0u); }

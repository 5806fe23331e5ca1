// Weights as in words.wgsl, for threads that fetch four steps at once.
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;

fn fetch(row: u32, step: u32) -> Raw { return Raw(weights[(row * P.steps + step) >> 2u], vec4<u32>()); }

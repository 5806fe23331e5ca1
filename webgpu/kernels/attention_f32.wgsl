@group(0) @binding(5) var<storage, read> cache: array<vec4<f32>>; // (slots, heads/group·dim)

fn cached(at: u32) -> vec4<f32> { return cache[at]; }

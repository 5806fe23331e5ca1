// Elements e and e+1 of the row of qkv at element base.
fn input(base: u32, e: u32) -> vec2<f32> { return vec2<f32>(qkv[base + e], qkv[base + e + 1u]); }

// Elements e and e+1 of a rotated query (0) or key (1).
fn gained(which: u32, e: u32, v: vec2<f32>) -> vec2<f32> { return v; }

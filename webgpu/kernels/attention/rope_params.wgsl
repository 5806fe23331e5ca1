struct Params {
    m: u32,       // rows
    heads: u32,   // query heads
    kv: u32,      // key heads, and as many value heads
    dim: u32,     // elements of a head
    half: u32,    // 1: half-split layout; 0: interleaved
    rotary: u32,  // elements of a head that are rotated, from the first
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;       // (m): position, slot, -, -
@group(0) @binding(2) var<storage, read> table: array<vec2<f32>>;      // (positions, rotary/2): cos, sin
@group(0) @binding(3) var<storage, read_write> qkv: array<f32>;        // (m, (heads+2·kv)·dim)
@group(0) @binding(4) var<storage, read_write> keys: array<u32>;       // (slots, kv·dim), see rope_*.wgsl
@group(0) @binding(5) var<storage, read_write> values: array<u32>;     // as keys

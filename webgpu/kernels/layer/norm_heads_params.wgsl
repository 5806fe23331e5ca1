struct Params {
    rows: u32,
    heads: u32, // query heads
    kv: u32,    // key heads, and as many value heads, which do not change
    dim: u32,   // elements of a head
    eps: f32,
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> weight: array<f32>;    // (2, dim): of queries, of keys
@group(0) @binding(2) var<storage, read_write> qkv: array<f32>; // (rows, (heads+2·kv)·dim)

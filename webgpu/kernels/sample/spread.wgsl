// Expands logits over a subset of the vocabulary: out[m, id] = x[m, source[id]], or LOW if source[id] is past the end
// of x's row. One thread an id of a row.
struct Params {
    vocab: u32,  // ids of a row of out
    some: u32,   // logits of a row of x
    m: u32,
    in_stride: u32,
    out_stride: u32,
    out_offset: u32,
}
const LOW: f32 = -1.0e30; // an impossible token, see noise.wgsl
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> source: array<u32>;     // (vocab)
@group(0) @binding(2) var<storage, read> x: array<f32>;          // (m, in_stride)
@group(0) @binding(3) var<storage, read_write> out: array<f32>;  // (m, out_stride) from out_offset on

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    if (gid.x >= P.vocab) { return; }
    let i = source[gid.x];
    var z = LOW;
    if (i < P.some) { z = x[gid.y * P.in_stride + i]; }
    out[P.out_offset + gid.y * P.out_stride + gid.x] = z;
}

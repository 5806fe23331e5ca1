// Gated activation: out = SiLU(gate) · up. One thread an element.
struct Params { m: u32, dim: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> gates: array<f32>;     // (m, 2·dim): gate, then up
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // (m, dim)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    if (gid.x >= P.dim) { return; }
    let at = gid.y * 2u * P.dim + gid.x;
    let g = gates[at];
    out[gid.y * P.dim + gid.x] = g / (1.0 + exp(-g)) * gates[at + P.dim];
}

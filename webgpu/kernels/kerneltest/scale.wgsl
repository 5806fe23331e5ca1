// Scaling: y = a·x. One thread an element.
struct Params { dim: u32, a: f32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;       // (m, dim)
@group(0) @binding(2) var<storage, read_write> y: array<f32>; // (m, dim)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    if (gid.x >= P.dim) { return; }
    let at = gid.y * P.dim + gid.x;
    y[at] = P.a * x[at];
}

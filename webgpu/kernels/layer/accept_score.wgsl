// The end of an acceptance head: σ(w·x + c). One thread a row.
struct Params { rows: u32, dim: u32, at: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;         // (rows, dim)
@group(0) @binding(2) var<storage, read> weight: array<f32>;    // (dim + 1): w, c
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // (at + rows)

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    var sum = 0.0;
    for (var k = 0u; k < P.dim; k = k + 1u) {
        sum = sum + weight[k] * x[row * P.dim + k];
    }
    sum = sum + weight[P.dim];
    out[P.at + row] = 1.0 / (1.0 + exp(clamp(-sum, -80.0, 80.0)));
}

// The end of an acceptance head: σ(w·x + c). A workgroup a row; lane 0 adds the partial
// sums in lane order, so that the result does not depend on the row's place.
struct Params { rows: u32, dim: u32, at: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;         // (rows, dim)
@group(0) @binding(2) var<storage, read> weight: array<f32>;    // (dim + 1): w, c
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // (at + rows)

var<workgroup> partial: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = wid.x;
    var sum = 0.0;
    for (var k = lane; k < P.dim; k = k + 64u) {
        sum = sum + weight[k] * x[row * P.dim + k];
    }
    partial[lane] = sum;
    workgroupBarrier();
    if (lane == 0u) {
        var total = 0.0;
        for (var i = 0u; i < 64u; i = i + 1u) { total = total + partial[i]; }
        total = total + weight[P.dim];
        out[P.at + row] = 1.0 / (1.0 + exp(clamp(-total, -80.0, 80.0)));
    }
}

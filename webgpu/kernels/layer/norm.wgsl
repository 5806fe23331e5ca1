// Root-mean-square normalisation: out = x / sqrt(mean(x²) + eps) · weight.
// One thread a row, for adapters on which barriers cost more than the loop.
struct Params { rows: u32, dim: u32, eps: f32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;         // (rows, dim)
@group(0) @binding(2) var<storage, read> weight: array<f32>;    // (dim)
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // (rows, dim)

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    let base = row * P.dim;
    var sum = 0.0;
    for (var i = 0u; i < P.dim; i = i + 1u) {
        let v = x[base + i];
        sum = sum + v * v;
    }
    let scale = 1.0 / sqrt(sum / f32(P.dim) + P.eps);
    for (var i = 0u; i < P.dim; i = i + 1u) {
        out[base + i] = x[base + i] * scale * weight[i];
    }
}

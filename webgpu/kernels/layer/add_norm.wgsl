// Adds a root-mean-square norm to a residual stream: out = out + x / sqrt(mean(x²) + eps) · weight.
// A workgroup a row; lane 0 adds the partial sums in lane order, so that the result does not depend on the row's place.
struct Params {
    rows: u32,
    dim: u32,
    eps: f32,
    ldn: u32,  // distance between rows of the next product's input
    sums: u32, // sums of squares behind each of them
}

@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;         // (rows, dim)
@group(0) @binding(2) var<storage, read> weight: array<f32>;    // (dim)
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // (rows, dim)

var<workgroup> partial: array<f32, 64>;
var<workgroup> scale: f32;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let base = wid.x * P.dim;
    var sum = 0.0;
    for (var i = lane; i < P.dim; i = i + 64u) {
        let v = x[base + i];
        sum = sum + v * v;
    }
    partial[lane] = sum;
    workgroupBarrier();
    if (lane == 0u) {
        var total = 0.0;
        for (var i = 0u; i < 64u; i = i + 1u) { total = total + partial[i]; }
        scale = 1.0 / sqrt(total / f32(P.dim) + P.eps);
    }
    workgroupBarrier();
    var squares = 0.0;
    for (var i = lane; i < P.dim; i = i + 64u) {
        let v = out[base + i] + x[base + i] * scale * weight[i];
        out[base + i] = v;
        added(wid.x, i, v);
        squares = squares + v * v;
    }
    summed(wid.x, lane, squares);
}

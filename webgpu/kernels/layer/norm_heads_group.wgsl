// Root-mean-square normalisation of each query and key head, in place: x / sqrt(mean(x²) + eps)
// · weight. A workgroup a head of a row; lane 0 adds the partial sums in lane order.
var<workgroup> partial: array<f32, 64>;
var<workgroup> scale: f32;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = wid.x;
    let base = (wid.y * (P.heads + 2u * P.kv) + head) * P.dim;
    var w = 0u;
    if (head >= P.heads) { w = P.dim; }
    var sum = 0.0;
    for (var i = lane; i < P.dim; i = i + 64u) {
        let v = qkv[base + i];
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
    for (var i = lane; i < P.dim; i = i + 64u) {
        qkv[base + i] = qkv[base + i] * scale * weight[w + i];
    }
}

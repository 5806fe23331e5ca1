// Root-mean-square normalisation of all queries of a row and of all its keys, in place: x / sqrt(mean(x²) + eps)
// · weight. A workgroup for the queries and one for the keys; lane 0 adds the partial sums in lane order.
var<workgroup> partial: array<f32, 64>;
var<workgroup> scale: f32;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = wid.x * P.heads * P.dim; // of the row and of the weights
    let count = select(P.heads, P.kv, wid.x == 1u) * P.dim;
    let base = wid.y * (P.heads + 2u * P.kv) * P.dim + first;
    var sum = 0.0;
    for (var i = lane; i < count; i = i + 64u) {
        let v = qkv[base + i];
        sum = sum + v * v;
    }
    partial[lane] = sum;
    workgroupBarrier();
    if (lane == 0u) {
        var total = 0.0;
        for (var i = 0u; i < 64u; i = i + 1u) { total = total + partial[i]; }
        scale = 1.0 / sqrt(total / f32(count) + P.eps);
    }
    workgroupBarrier();
    for (var i = lane; i < count; i = i + 64u) {
        qkv[base + i] = qkv[base + i] * scale * weight[first + i];
    }
}

// Root-mean-square normalisation of each query and key head, in place: x / sqrt(mean(x²) + eps)
// · weight. One thread a head of a row.
@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let head = gid.x;
    if (head >= P.heads + P.kv) { return; }
    let base = (gid.y * (P.heads + 2u * P.kv) + head) * P.dim;
    var w = 0u;
    if (head >= P.heads) { w = P.dim; }
    var sum = 0.0;
    for (var i = 0u; i < P.dim; i = i + 1u) {
        let v = qkv[base + i];
        sum = sum + v * v;
    }
    let scale = 1.0 / sqrt(sum / f32(P.dim) + P.eps);
    for (var i = 0u; i < P.dim; i = i + 1u) {
        qkv[base + i] = qkv[base + i] * scale * weight[w + i];
    }
}

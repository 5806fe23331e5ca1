// Softmax of each row and head's scores in place: one thread each.
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;       // (m): position, slot, shared, -
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;     // (m, heads, span)

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let m = gid.x / P.heads;
    if (m >= P.m) { return; }
    let base = gid.x * P.span;
    let count = rows[m].x + 1u;
    var most = scores[base];
    for (var j = 1u; j < count; j = j + 1u) { most = max(most, scores[base + j]); }
    var sum = 0.0;
    for (var j = 0u; j < count; j = j + 1u) {
        let e = exp(scores[base + j] - most);
        scores[base + j] = e;
        sum = sum + e;
    }
    let inverse = 1.0 / sum;
    for (var j = 0u; j < count; j = j + 1u) { scores[base + j] = scores[base + j] * inverse; }
}

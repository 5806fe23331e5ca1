// Softmax of each row and head's scores in place: a workgroup each, whose lanes
// take every 64th position and whose partial results are added in lane order.
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;       // (m): position, slot, shared, -
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;     // (m, heads, span)

var<workgroup> partial: array<f32, 64>;
var<workgroup> total: f32;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let base = (wid.y * P.heads + wid.x) * P.span;
    let count = rows[wid.y].x + 1u;
    var most = scores[base];
    for (var j = lane; j < count; j = j + 64u) { most = max(most, scores[base + j]); }
    partial[lane] = most;
    workgroupBarrier();
    if (lane == 0u) {
        var m = partial[0];
        for (var i = 1u; i < 64u; i = i + 1u) { m = max(m, partial[i]); }
        total = m;
    }
    workgroupBarrier();
    most = total;
    var sum = 0.0;
    for (var j = lane; j < count; j = j + 64u) {
        let e = exp(scores[base + j] - most);
        scores[base + j] = e;
        sum = sum + e;
    }
    workgroupBarrier();
    partial[lane] = sum;
    workgroupBarrier();
    if (lane == 0u) {
        var s = 0.0;
        for (var i = 0u; i < 64u; i = i + 1u) { s = s + partial[i]; }
        total = 1.0 / s;
    }
    workgroupBarrier();
    let inverse = total;
    for (var j = lane; j < count; j = j + 64u) { scores[base + j] = scores[base + j] * inverse; }
}

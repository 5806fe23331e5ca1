// Scores: one thread takes one row and head and BLOCK neighbouring positions.
@group(0) @binding(4) var<storage, read> qkv: array<vec4<f32>>;        // (m, width)
@group(0) @binding(6) var<storage, read_write> scores: array<f32>;     // (m, heads, span)

@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let first = gid.x * BLOCK;
    let head = gid.y;
    let m = gid.z;
    let row = rows[m];
    if (first > row.x) { return; }
    let last = min(first + BLOCK, row.x + 1u);
    let q = (m * P.width + head * P.dim) / 4u;
    let stride = P.heads / P.group * P.dim;
    let offset = head / P.group * P.dim;
    for (var j = first; j < last; j = j + 1u) {
        let k = (slotOf(m, j, row.z) * stride + offset) / 4u;
        var sum = 0.0;
        for (var i = 0u; i < P.dim / 4u; i = i + 1u) {
            sum = sum + dot(qkv[q + i], cached(k + i));
        }
        scores[(m * P.heads + head) * P.span + j] = sum * P.scale;
    }
}

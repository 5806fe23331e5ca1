// Weighted sum of values: one thread takes one row, H heads that share a value
// head, and four elements, so that each value is used for every head.
@group(0) @binding(4) var<storage, read> scores: array<f32>;           // (m, heads, span)
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;  // (m, heads·dim)

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let quads = P.dim / 4u;
    let chunks = (P.group + H - 1u) / H;
    let i = gid.x;
    let m = gid.z;
    if (i >= quads) { return; }
    let kv = gid.y / chunks;
    let head0 = (gid.y % chunks) * H;
    let row = rows[m];
    var s: array<u32, H>;
    var acc: array<vec4<f32>, H>;
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        s[h] = (m * P.heads + kv * P.group + min(head0 + h, P.group - 1u)) * P.span;
        acc[h] = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    }
    for (var j = 0u; j <= row.x; j = j + 1u) {
        let value = cached((slotOf(m, j, row.z) * (P.heads / P.group) + kv) * quads + i);
        for (var h = 0u; h < H; h = h + 1u) { // unroll
            acc[h] = acc[h] + scores[s[h] + j] * value;
        }
    }
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        if (head0 + h < P.group) {
            out[(m * P.heads + kv * P.group + head0 + h) * quads + i] = acc[h];
        }
    }
}

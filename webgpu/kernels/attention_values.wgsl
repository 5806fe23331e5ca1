// Weighted sum of values: one thread takes one row and head and four elements.
@group(0) @binding(4) var<storage, read> scores: array<f32>;           // (m, heads, span)
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;  // (m, heads·dim)

@compute @workgroup_size(16)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let quads = P.dim / 4u;
    let head = gid.x / quads;
    let i = gid.x % quads;
    let m = gid.y;
    if (head >= P.heads) { return; }
    let row = rows[m];
    let s = (m * P.heads + head) * P.span;
    let stride = P.heads / P.group * quads;
    let offset = head / P.group * quads + i;
    var sum = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    for (var j = 0u; j <= row.x; j = j + 1u) {
        sum = sum + scores[s + j] * cached(slotOf(m, j, row.z) * stride + offset);
    }
    out[(m * P.heads + head) * quads + i] = sum;
}

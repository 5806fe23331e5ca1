// Joins the results of attention.wgsl for blocks of N positions, in order. A thread computes four
// elements of a row and head.
@group(0) @binding(2) var<storage, read> parts: array<vec4<f32>>;     // (m, heads, blocks, 1 + DQ)
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>; // (rows, heads·DQ)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    if (gid.x >= P.heads * DQ) { return; }
    let i = gid.x % DQ;
    let m = gid.y;
    let head = m * P.heads + gid.x / DQ;
    let position = rows[P.row0 + m].x;
    let first = firstOf(position) / N;
    let last = position / N;
    var top = LOW;
    for (var b = first; b <= last; b = b + 1u) {
        top = max(top, parts[(head * P.blocks + b % P.blocks) * (1u + DQ)].x);
    }
    var sum = 0.0;
    var v = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    for (var b = first; b <= last; b = b + 1u) {
        let at = (head * P.blocks + b % P.blocks) * (1u + DQ);
        let w = exp(parts[at].x - top);
        sum = sum + w * parts[at].y;
        v = v + w * parts[at + 1u + i];
    }
    out[(P.row0 * P.heads + head) * DQ + i] = v * (1.0 / sum);
}

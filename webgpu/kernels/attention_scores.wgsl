// Scores: one thread takes one row, H heads that share a key head, and B
// neighbouring positions, so that each key and each query is used several times.
@group(0) @binding(4) var<storage, read> qkv: array<vec4<f32>>;        // (m, width)
@group(0) @binding(6) var<storage, read_write> scores: array<f32>;     // (m, heads, span)

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let first = gid.x * B;
    let m = gid.z;
    let row = rows[m];
    if (first > row.x) { return; }
    // Heads past the group and positions past the row repeat the last one and are not stored.
    let chunks = (P.group + H - 1u) / H;
    let kv = gid.y / chunks;
    let head0 = (gid.y % chunks) * H;
    let quads = P.dim / 4u;
    var q: array<u32, H>;
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        q[h] = (m * P.width + (kv * P.group + min(head0 + h, P.group - 1u)) * P.dim) / 4u;
    }
    var k: array<u32, B>;
    for (var b = 0u; b < B; b = b + 1u) { // unroll
        k[b] = (slotOf(m, min(first + b, row.x), row.z) * (P.heads / P.group) + kv) * quads;
    }
    var acc: array<f32, BH>;
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        for (var b = 0u; b < B; b = b + 1u) { // unroll
            acc[h * B + b] = 0.0;
        }
    }
    for (var i = 0u; i < quads; i = i + 1u) {
        var key: array<vec4<f32>, B>;
        for (var b = 0u; b < B; b = b + 1u) { // unroll
            key[b] = cached(k[b] + i);
        }
        for (var h = 0u; h < H; h = h + 1u) { // unroll
            let query = qkv[q[h] + i];
            for (var b = 0u; b < B; b = b + 1u) { // unroll
                acc[h * B + b] = acc[h * B + b] + dot(query, key[b]);
            }
        }
    }
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        for (var b = 0u; b < B; b = b + 1u) { // unroll
            if (head0 + h < P.group && first + b <= row.x) {
                scores[(m * P.heads + kv * P.group + head0 + h) * P.span + first + b] = acc[h * B + b] * P.scale;
            }
        }
    }
}

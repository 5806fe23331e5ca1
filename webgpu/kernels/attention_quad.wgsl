// Attention for devices on which a thread's loop is cheaper than waiting, where subgroups can be used: the four
// threads of a workgroup are a quad, which subgroups of any size are made of. Each has one of every four elements
// of a row's queries and keys, so that a read is one float, and they sum scores among each other. They walk all
// positions, B at a time, with a softmax that is kept up on the way; nothing is left to join.
enable subgroups;
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>; // (rows, heads·DQ)

// Two additions give all four the same bits.
fn sumOf(v: f32) -> f32 {
    let pair = v + quadSwapX(v);
    return pair + quadSwapY(pair);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let chunks = (P.group + H - 1u) / H;
    let across = P.heads / P.group * chunks;
    let unit = wid.x + wid.y * count.x;
    // Rows and heads past the end repeat the last one and are not stored.
    let m = min(unit / across, P.m - 1u);
    let kv = unit % across / chunks;
    let head0 = unit % chunks * H;
    let row = rows[m];
    let start = firstOf(row.x);
    var q: array<f32, HQ>;
    var most: array<f32, H>;
    var total: array<f32, H>;
    var acc: array<f32, HQ>;
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        let at = m * P.width / 4u + (kv * P.group + min(head0 + h, P.group - 1u)) * DQ;
        most[h] = LOW;
        total[h] = 0.0;
        for (var i = 0u; i < DQ; i = i + 1u) { // unroll
            q[h * DQ + i] = qkv[at + i][lane] * P.scale;
            acc[h * DQ + i] = 0.0;
        }
    }
    for (var j = start / B * B; j <= row.x; j = j + B) {
        var k: array<u32, B>;
        for (var b = 0u; b < B; b = b + 1u) { // unroll
            k[b] = (slotOf(m, clamp(j + b, start, row.x), row.z) * (P.heads / P.group) + kv) * DQ;
        }
        var s: array<f32, HB>;
        for (var n = 0u; n < HB; n = n + 1u) { // unroll
            s[n] = 0.0;
        }
        for (var i = 0u; i < DQ; i = i + 1u) { // unroll
            for (var b = 0u; b < B; b = b + 1u) { // unroll
                let x = keyOf(k[b] + i, lane);
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    s[h * B + b] = s[h * B + b] + q[h * DQ + i] * x;
                }
            }
        }
        // Scores become weights, which go with what was summed before times keep.
        var keep: array<f32, H>;
        for (var h = 0u; h < H; h = h + 1u) { // unroll
            var top = most[h];
            for (var b = 0u; b < B; b = b + 1u) { // unroll
                s[h * B + b] = select(sumOf(s[h * B + b]), LOW, j + b < start || j + b > row.x);
                top = max(top, s[h * B + b]);
            }
            keep[h] = exp(most[h] - top);
            most[h] = top;
            total[h] = total[h] * keep[h];
            for (var b = 0u; b < B; b = b + 1u) { // unroll
                s[h * B + b] = exp(s[h * B + b] - top);
                total[h] = total[h] + s[h * B + b];
            }
        }
        for (var i = 0u; i < DQ; i = i + 1u) { // unroll
            for (var h = 0u; h < H; h = h + 1u) { // unroll
                acc[h * DQ + i] = acc[h * DQ + i] * keep[h];
            }
            for (var b = 0u; b < B; b = b + 1u) { // unroll
                let x = valueOf(k[b] + i, lane);
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    acc[h * DQ + i] = acc[h * DQ + i] + s[h * B + b] * x;
                }
            }
        }
    }
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        if (head0 + h < P.group && unit < across * P.m) {
            let inverse = 1.0 / total[h];
            let to = (m * P.heads + kv * P.group + head0 + h) * DQ;
            for (var i = 0u; i < DQ; i = i + 1u) { // unroll
                out[to + i][lane] = acc[h * DQ + i] * inverse;
            }
        }
    }
}

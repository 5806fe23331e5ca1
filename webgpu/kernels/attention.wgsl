// Attention for devices on which a thread's loop is cheaper than waiting: SPLIT threads share the
// positions of a row and chunk, B neighbouring ones in turn, each with a softmax of its own
// that it keeps up as it goes, and join them at the only barrier. G rows and chunks share a workgroup.
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>; // (rows, heads·DQ)

var<workgroup> parts: array<vec4<f32>, PARTS>; // (G, SPLIT, H, 1 + DQ): highest score and sum; weighted values

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let lane = index % SPLIT;
    let chunks = (P.group + H - 1u) / H;
    let across = P.heads / P.group * chunks;
    let unit = (wid.x + wid.y * count.x) * G + index / SPLIT;
    // Rows and heads past the end repeat the last one and are not stored.
    let m = min(unit / across, P.m - 1u);
    let kv = unit % across / chunks;
    let head0 = unit % chunks * H;
    let row = rows[m];
    let start = firstOf(row.x);
    var q: array<vec4<f32>, HQ>;
    var most: array<f32, H>;
    var total: array<f32, H>;
    var acc: array<vec4<f32>, HQ>;
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        let at = m * P.width / 4u + (kv * P.group + min(head0 + h, P.group - 1u)) * DQ;
        most[h] = LOW;
        total[h] = 0.0;
        for (var i = 0u; i < DQ; i = i + 1u) { // unroll
            q[h * DQ + i] = qkv[at + i] * P.scale;
            acc[h * DQ + i] = vec4<f32>(0.0, 0.0, 0.0, 0.0);
        }
    }
    for (var j = (start / B + lane) * B; j <= row.x; j = j + SPLIT * B) {
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
                let x = key(k[b] + i);
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    s[h * B + b] = s[h * B + b] + dot(q[h * DQ + i], x);
                }
            }
        }
        // Scores become weights, which go with what was summed before times keep.
        var keep: array<f32, H>;
        for (var h = 0u; h < H; h = h + 1u) { // unroll
            var top = most[h];
            for (var b = 0u; b < B; b = b + 1u) { // unroll
                if (j + b < start || j + b > row.x) { s[h * B + b] = LOW; }
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
                let x = value(k[b] + i);
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    acc[h * DQ + i] = acc[h * DQ + i] + s[h * B + b] * x;
                }
            }
        }
    }
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        let at = (index * H + h) * (1u + DQ);
        parts[at] = vec4<f32>(most[h], total[h], 0.0, 0.0);
        for (var i = 0u; i < DQ; i = i + 1u) { // unroll
            parts[at + 1u + i] = acc[h * DQ + i];
        }
    }
    workgroupBarrier();
    if (unit >= across * P.m) { return; }
    for (var h = 0u; h < H; h = h + 1u) {
        if (head0 + h < P.group) {
            let first = ((index - lane) * H + h) * (1u + DQ);
            var top = LOW;
            for (var l = 0u; l < SPLIT; l = l + 1u) { // unroll
                top = max(top, parts[first + l * H * (1u + DQ)].x);
            }
            var w: array<f32, SPLIT>;
            var sum = 0.0;
            for (var l = 0u; l < SPLIT; l = l + 1u) { // unroll
                let p = parts[first + l * H * (1u + DQ)];
                w[l] = exp(p.x - top);
                sum = sum + w[l] * p.y;
            }
            let inverse = 1.0 / sum;
            for (var i = lane; i < DQ; i = i + SPLIT) {
                var v = vec4<f32>(0.0, 0.0, 0.0, 0.0);
                for (var l = 0u; l < SPLIT; l = l + 1u) { // unroll
                    v = v + w[l] * parts[first + l * H * (1u + DQ) + 1u + i];
                }
                out[(m * P.heads + kv * P.group + head0 + h) * DQ + i] = v * inverse;
            }
        }
    }
}

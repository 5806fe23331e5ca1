// Attention for devices on which a loop is cheaper than a barrier: a workgroup processes an aligned block of N
// positions of one row, for G chunks of H heads that share a key. SPLIT threads share the positions of a chunk, each
// with its own online softmax, and join them after the only barrier. If there are several blocks, join.wgsl joins
// them.

// (rows, heads·DQ) if there is one block, else (m, heads, blocks, 1 + DQ): highest score and sum, then weighted values
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>;

var<workgroup> parts: array<vec4<f32>, PARTS>; // (SPLIT, G, H, 1 + DQ): highest score and sum, then weighted values

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>,
        @builtin(local_invocation_index) index: u32) {
    let lane = index / G;
    let chunks = (P.group + H - 1u) / H;
    let kvs = P.heads / P.group;
    let first = (wid.x + wid.y * count.x) * G; // chunk, numbered over all rows; G divides the chunks of a row
    let place = first / (kvs * chunks);
    if (place >= P.m) { return; }
    let m = P.row0 + place;
    let row = rows[m];
    let lo = wid.z * N;
    let start = max(firstOf(row.x), lo);
    let last = min(row.x, lo + N - 1u);
    if (start > last) { return; }
    let chunk = first % (kvs * chunks) + index % G;
    let kv = chunk / chunks;
    let head0 = chunk % chunks * H; // heads past the end repeat the last one and are not stored
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
    // Each thread reads another key, a pattern that no prefetcher predicts. So the threads first read a word of each
    // cache line of the next keys and values, in order.
    let ahead = first % (kvs * chunks) / chunks * HEAD * READ + index * 16u;
    var touched = 0.0;
    for (var j = (start - lane + SPLIT - 1u) / SPLIT * SPLIT + lane; j <= last; j = j + SPLIT) {
        for (var p = 0u; p < SPLIT; p = p + 1u) { // unroll
            let next = table[min(j - lane + SPLIT + p, last)] * SLOT * READ + ahead;
            for (var t = 0u; t < TOUCHES; t = t + 1u) { // unroll
                touched = max(touched, touch(next + t * WG * 16u));
            }
        }
        let at = slotOf(m, j, row.z) * SLOT;
        var s: array<f32, H>;
        for (var h = 0u; h < H; h = h + 1u) { // unroll
            s[h] = 0.0;
        }
        for (var i = 0u; i < STEPS; i = i + 1u) { // unroll
            let step = keyStep(at, kv, i);
            for (var n = 0u; n < QUADS; n = n + 1u) { // unroll
                let x = quadOf(step, n);
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    s[h] = s[h] + dot(q[h * DQ + i * QUADS + n], x);
                }
            }
        }
        // Scores become weights; the previous sums are multiplied by keep.
        var keep: array<f32, H>;
        for (var h = 0u; h < H; h = h + 1u) { // unroll
            let top = max(most[h], s[h]);
            keep[h] = exp(most[h] - top);
            s[h] = exp(s[h] - top);
            most[h] = top;
            total[h] = total[h] * keep[h] + s[h];
        }
        for (var i = 0u; i < STEPS; i = i + 1u) { // unroll
            let step = valueStep(at, kv, i);
            for (var n = 0u; n < QUADS; n = n + 1u) { // unroll
                let x = quadOf(step, n);
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    acc[h * DQ + i * QUADS + n] = acc[h * DQ + i * QUADS + n] * keep[h] + s[h] * x;
                }
            }
        }
    }
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        let at = (index * H + h) * (1u + DQ);
        parts[at] = vec4<f32>(most[h], total[h], touched, 0.0); // touched keeps its reads from being optimised away
        for (var i = 0u; i < DQ; i = i + 1u) { // unroll
            parts[at + 1u + i] = acc[h * DQ + i];
        }
    }
    workgroupBarrier();
    for (var h = 0u; h < H; h = h + 1u) {
        if (head0 + h < P.group) {
            let origin = (index % G * H + h) * (1u + DQ);
            var top = LOW;
            for (var l = 0u; l < SPLIT; l = l + 1u) { // unroll
                top = max(top, parts[origin + l * G * H * (1u + DQ)].x);
            }
            var w: array<f32, SPLIT>;
            var sum = 0.0;
            for (var l = 0u; l < SPLIT; l = l + 1u) { // unroll
                let p = parts[origin + l * G * H * (1u + DQ)];
                w[l] = exp(p.x - top);
                sum = sum + w[l] * p.y;
            }
            let head = kv * P.group + head0 + h;
            let to = ((place * P.heads + head) * P.blocks + wid.z % P.blocks) * (1u + DQ);
            let scale = select(1.0, 1.0 / sum, ONLY);
            if (!ONLY && lane == 0u) { out[to] = vec4<f32>(top, sum, 0.0, 0.0); }
            for (var i = lane; i < DQ; i = i + SPLIT) {
                var v = vec4<f32>(0.0, 0.0, 0.0, 0.0);
                for (var l = 0u; l < SPLIT; l = l + 1u) { // unroll
                    v = v + w[l] * parts[origin + l * G * H * (1u + DQ) + 1u + i];
                }
                out[select(to + 1u + i, (m * P.heads + head) * DQ + i, ONLY)] = v * scale;
            }
        }
    }
}

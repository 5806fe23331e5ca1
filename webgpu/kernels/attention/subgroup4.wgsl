// Attention for devices on which a loop is cheaper than a barrier, with subgroups: the four threads of a workgroup
// are a WGSL quad, which is part of one subgroup. Each thread has a quarter of a row's queries and keys, W
// neighbouring vectors of four elements, and the threads sum their partial scores. They loop over all positions; each
// thread keeps the online softmax of one head, so there is nothing to join. The loop is not unrolled over positions:
// on Chromium's software adapter it would exceed the first-level instruction cache.
enable subgroups;
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>; // (rows, heads·DQ)

// sumOf sums over the four threads. Its two additions give all of them the same bits.
fn sumOf(v: f32) -> f32 {
    let pair = v + quadSwapX(v);
    return pair + quadSwapY(pair);
}

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let chunks = (P.group + H - 1u) / H;
    let kvs = P.heads / P.group;
    let across = kvs * chunks;
    let unit = wid.x + wid.y * count.x;
    // Rows, heads and vectors past the end repeat the last one and are not stored.
    let m = min(unit / across, P.m - 1u);
    let kv = unit % across / chunks;
    let head0 = unit % chunks * H;
    let row = rows[m];
    var scaleIn: array<u32, RUNS>; // the read of a slot that has the scale of a run
    var scaleWord: array<u32, RUNS>; // the word of the scale in that read
    var runIn: array<u32, RUNS>;   // the first read of a run
    for (var r = 0u; r < RUNS; r = r + 1u) { // unroll
        let quad = min(lane * W + r * RUN, DQ - RUN);
        scaleIn[r] = scaleOf(kv, quad) / READ;
        scaleWord[r] = scaleOf(kv, quad) % READ;
        runIn[r] = LEAD + kv * HEAD + quad / QUADS;
    }
    var q: array<vec4<f32>, HW>;
    var acc: array<vec4<f32>, HW>;
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        let at = m * P.width / 4u + (kv * P.group + min(head0 + h, P.group - 1u)) * DQ + lane * W;
        for (var i = 0u; i < W; i = i + 1u) { // unroll
            q[h * W + i] = select(vec4<f32>(0.0, 0.0, 0.0, 0.0), qkv[at + i] * (P.scale * UNIT), lane * W + i < DQ);
            acc[h * W + i] = vec4<f32>(0.0, 0.0, 0.0, 0.0);
        }
    }
    let mine = lane % H; // the head whose softmax this thread keeps
    var most = LOW;
    var total = 0.0;
    // First the identity prefix, whose slots equal their positions, then the positions whose slots are looked up. These
    // are two loops, because the software adapter runs both sides of a branch.
    let straight = min(row.w, row.x + 1u);
    for (var part = 0u; part < 2u; part = part + 1u) { // unroll
        let begin = max(firstOf(row.x), part * straight);
        let end = select(straight, row.x + 1u, part == 1u);
        for (var j = begin; j < end; j = j + 1u) {
            var slot = j;
            if (part == 1u) { slot = slotOf(m, j, row.z); }
            let at = slot * SLOT;
            var s: array<f32, H>;
            for (var h = 0u; h < H; h = h + 1u) { // unroll
                s[h] = 0.0;
            }
            for (var r = 0u; r < RUNS; r = r + 1u) { // unroll
                var t: array<f32, H>;
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    t[h] = 0.0;
                }
                let scale = keyScale(at + scaleIn[r], scaleWord[r]);
                for (var n = 0u; n < READS; n = n + 1u) { // unroll
                    let words = keys[at + runIn[r] + n];
                    for (var i = 0u; i < QUADS; i = i + 1u) { // unroll
                        let x = quadIn(words, i);
                        for (var h = 0u; h < H; h = h + 1u) { // unroll
                            t[h] = t[h] + dot(q[h * W + r * RUN + n * QUADS + i], x);
                        }
                    }
                }
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    s[h] = s[h] + scaled(t[h], scale);
                }
            }
            // A score becomes a weight; the previous sums are multiplied by keep. One of the two factors is 1.
            var score = LOW;
            for (var h = 0u; h < H; h = h + 1u) { // unroll
                score = select(score, sumOf(s[h]), mine == h);
            }
            let lower = exp(-abs(score - most));
            let rises = score > most;
            let kept = select(1.0, lower, rises);
            let weight = select(lower, 1.0, rises);
            most = max(most, score);
            total = total * kept + weight;
            var keep: array<f32, H>;
            for (var h = 0u; h < H; h = h + 1u) { // unroll
                keep[h] = quadBroadcast(kept, h);
                s[h] = quadBroadcast(weight, h);
            }
            for (var r = 0u; r < RUNS; r = r + 1u) { // unroll
                var w: array<f32, H>;
                let scale = valueScale(at + scaleIn[r], scaleWord[r]);
                for (var h = 0u; h < H; h = h + 1u) { // unroll
                    w[h] = scaled(s[h], scale);
                }
                for (var n = 0u; n < READS; n = n + 1u) { // unroll
                    let words = values[at + runIn[r] + n];
                    for (var i = 0u; i < QUADS; i = i + 1u) { // unroll
                        let x = quadIn(words, i);
                        for (var h = 0u; h < H; h = h + 1u) { // unroll
                            let e = h * W + r * RUN + n * QUADS + i;
                            acc[e] = acc[e] * keep[h] + w[h] * x;
                        }
                    }
                }
            }
        }
    }
    for (var h = 0u; h < H; h = h + 1u) { // unroll
        let to = (m * P.heads + kv * P.group + head0 + h) * DQ + lane * W;
        let scale = 1.0 / quadBroadcast(total, h);
        for (var i = 0u; i < W; i = i + 1u) { // unroll
            if (head0 + h < P.group && unit < across * P.m && lane * W + i < DQ) {
                out[to + i] = acc[h * W + i] * (UNIT * scale);
            }
        }
    }
}

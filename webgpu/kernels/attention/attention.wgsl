// Attention: a workgroup processes a tile of TM rows, a chunk of H heads that share a
// key and an aligned block of N positions. Its lanes are first distributed over positions, then over elements of the
// values. A position that all rows of the tile find in the table is read once for all of them. If there are several
// blocks, join.wgsl joins them. locate finds the fours of a slot from `own` on, of `width`, and key and value return
// the i-th. Loops over positions count to a bound that nothing changes, see matmul/group.wgsl.

// (rows, heads·DQ) if there is one block, else (m, heads, blocks, 1 + DQ): highest score and sum, then weighted values
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>;

var<workgroup> query: array<vec4<f32>, RQ>; // (R, DQ)
var<workgroup> weight: array<f32, RN>;      // (R, N)
var<workgroup> slots: array<u32, TN>;       // (TM, N)
var<workgroup> partial: array<f32, 64>;     // (SCAN, R)
var<workgroup> stat: array<vec2<f32>, R>;   // highest score and sum
var<workgroup> sums: array<vec4<f32>, HL>;  // (H, 64)

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let chunks = (P.group + H - 1u) / H;
    let kv = wid.x / chunks;
    let head0 = wid.x % chunks * H;
    let m0 = wid.y * TM;
    let lo = wid.z * N;
    var start: array<u32, TM>;
    var position: array<u32, TM>;
    var begin = 4294967295u;
    var end = 0u;
    var shared_end = 4294967295u; // from this position on, rows may have different slots
    for (var t = 0u; t < TM; t = t + 1u) { // unroll
        let row = rows[P.row0 + min(m0 + t, P.m - 1u)];
        start[t] = firstOf(row.x);
        position[t] = row.x;
        begin = min(begin, start[t]);
        end = max(end, row.x);
        shared_end = min(shared_end, min(row.z, row.x + 1u));
    }
    if (lo > end || lo + N <= begin) { return; }
    for (var i = lane; i < RQ; i = i + 64u) {
        let r = i / DQ;
        let m = P.row0 + min(m0 + r / H, P.m - 1u);
        query[i] = qkv[(m * P.width) / 4u + (kv * P.group + min(head0 + r % H, P.group - 1u)) * DQ + i % DQ] * P.scale;
    }
    for (var i = lane; i < TN; i = i + 64u) {
        let m = P.row0 + min(m0 + i / N, P.m - 1u);
        let row = rows[m];
        slots[i] = slotOf(m, clamp(lo + i % N, firstOf(row.x), row.x), row.z);
    }
    workgroupBarrier();
    let width = P.heads / P.group * DQ;
    let own = kv * DQ; // of the width
    let all = (N + 63u - lane) / 64u;
    for (var turn = 0u; turn < all; turn = turn + 1u) {
        let n = turn * 64u + lane;
        let j = lo + n;
        var s: array<f32, R>;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            s[r] = 0.0;
        }
        if (j >= begin && j < shared_end) {
            let at = locate(table[j], width, own);
            for (var i = 0u; i < DQ; i = i + 1u) {
                let x = key(at, i);
                for (var r = 0u; r < R; r = r + 1u) { // unroll
                    s[r] = s[r] + dot(query[r * DQ + i], x);
                }
            }
        } else if (j >= shared_end && j <= end) {
            for (var t = 0u; t < TM; t = t + 1u) { // unroll
                let at = locate(slots[t * N + n], width, own);
                for (var i = 0u; i < DQ; i = i + 1u) {
                    let x = key(at, i);
                    for (var h = 0u; h < H; h = h + 1u) { // unroll
                        s[t * H + h] = s[t * H + h] + dot(query[(t * H + h) * DQ + i], x);
                    }
                }
            }
        }
        for (var t = 0u; t < TM; t = t + 1u) { // unroll
            for (var h = 0u; h < H; h = h + 1u) { // unroll
                weight[(t * H + h) * N + n] = select(LOW, s[t * H + h], j >= start[t] && j <= position[t]);
            }
        }
    }
    workgroupBarrier();
    // SCAN lanes take every SCANth weight of each row and head.
    let mine = lane % R;
    var top = LOW;
    if (lane < R * SCAN) {
        for (var n = lane / R; n < N; n = n + SCAN) { top = max(top, weight[mine * N + n]); }
        partial[lane] = top;
    }
    workgroupBarrier();
    top = LOW;
    for (var i = 0u; i < SCAN; i = i + 1u) { top = max(top, partial[i * R + mine]); }
    workgroupBarrier();
    if (lane < R * SCAN) {
        var sum = 0.0;
        for (var n = lane / R; n < N; n = n + SCAN) {
            let score = weight[mine * N + n];
            let w = select(exp(score - top), 0.0, score == LOW);
            weight[mine * N + n] = w;
            sum = sum + w;
        }
        partial[lane] = sum;
    }
    workgroupBarrier();
    if (lane < R) {
        var sum = 0.0;
        for (var i = 0u; i < SCAN; i = i + 1u) { sum = sum + partial[i * R + lane]; }
        stat[lane] = vec2<f32>(top, sum);
    }
    let i = lane % DQ;
    let team = lane / DQ; // the lanes of a team share the elements of a value
    var acc: array<vec4<f32>, R>;
    for (var r = 0u; r < R; r = r + 1u) { // unroll
        acc[r] = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    }
    if (team < TEAMS) {
        let turns = (min(N, end + 1u - lo) + TEAMS - 1u - team) / TEAMS;
        for (var turn = 0u; turn < turns; turn = turn + 1u) {
            let n = turn * TEAMS + team;
            let j = lo + n;
            if (j >= begin && j < shared_end) {
                let x = value(locate(table[j], width, own), i);
                for (var r = 0u; r < R; r = r + 1u) { // unroll
                    acc[r] = acc[r] + weight[r * N + n] * x;
                }
            } else if (j >= shared_end) {
                for (var t = 0u; t < TM; t = t + 1u) { // unroll
                    let x = value(locate(slots[t * N + n], width, own), i);
                    for (var h = 0u; h < H; h = h + 1u) { // unroll
                        acc[t * H + h] = acc[t * H + h] + weight[(t * H + h) * N + n] * x;
                    }
                }
            }
        }
    }
    for (var t = 0u; t < TM; t = t + 1u) { // unroll
        workgroupBarrier();
        for (var h = 0u; h < H; h = h + 1u) { // unroll
            sums[h * 64u + lane] = acc[t * H + h];
        }
        workgroupBarrier();
        if (lane < DQ && m0 + t < P.m && start[t] < lo + N && position[t] >= lo) {
            for (var h = 0u; h < H; h = h + 1u) { // unroll
                if (head0 + h < P.group) {
                    var v = vec4<f32>(0.0, 0.0, 0.0, 0.0);
                    for (var g = 0u; g < TEAMS; g = g + 1u) { v = v + sums[h * 64u + g * DQ + lane]; }
                    let head = kv * P.group + head0 + h;
                    if (ONLY) {
                        out[((P.row0 + m0 + t) * P.heads + head) * DQ + lane] = v * (1.0 / stat[t * H + h].y);
                    } else {
                        let at = (((m0 + t) * P.heads + head) * P.blocks + wid.z % P.blocks) * (1u + DQ);
                        out[at + 1u + lane] = v;
                        if (lane == 0u) { out[at] = vec4<f32>(stat[t * H + h], 0.0, 0.0); }
                    }
                }
            }
        }
    }
}

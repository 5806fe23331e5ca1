// Reject with one thread a row.
struct Params { rows: u32, vocab: u32, stride: u32, draft_stride: u32, record: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> target_logits: array<u32>;      // (rows, stride) f32, as bits
@group(0) @binding(2) var<storage, read> draft_logits: array<u32>;       // (rows - 1, draft_stride)
@group(0) @binding(3) var<storage, read_write> target_rec: array<u32>;   // (rows, RECORD): Filter's records
@group(0) @binding(4) var<storage, read_write> draft_rec: array<u32>;    // (rows - 1, record), the same
@group(0) @binding(5) var<storage, read> draw: array<u32>;               // DrawParams
@group(0) @binding(6) var<storage, read> positions: array<u32>;          // (rows)
@group(0) @binding(7) var<storage, read_write> out: array<u32>;          // (rows, 2): accepted, token

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    let rec = row * RECORD;
    if (row + 1u == P.rows) {
        out[row * 2u] = 0u;
        out[row * 2u + 1u] = target_rec[rec];
        return;
    }
    let drec = row * P.record;
    let x = min(draft_rec[drec], P.vocab - 1u);
    let inverse = bitcast<f32>(draw[0]);
    if (!(inverse > 0.0)) {
        let y = target_rec[rec + 3u];
        out[row * 2u] = select(0u, 1u, x == y);
        out[row * 2u + 1u] = y;
        return;
    }
    let base = row * P.stride;
    let dbase = row * P.draft_stride;
    let p_floor = bitcast<f32>(target_rec[rec + 1u]);
    let p_lse = bitcast<f32>(target_rec[rec + 2u]);
    let q_floor = bitcast<f32>(draft_rec[drec + 1u]);
    let q_lse = bitcast<f32>(draft_rec[drec + 2u]);

    let pz = finite(target_logits[base + x]);
    let qz = finite(draft_logits[dbase + x]);
    let u = (f32(hash(vec3<u32>(draw[1], draw[2], positions[row] | (2u << 28u)), 0u)) + 0.5) * 2.3283064e-10;
    let d = (pz * inverse - p_lse) - (qz * inverse - q_lse); // ln p/q
    if (pz >= p_floor && (qz < q_floor || d >= 0.0 || u < expo(min(d, 0.0)))) {
        out[row * 2u] = 1u;
        out[row * 2u + 1u] = x;
        return;
    }
    let key = vec3<u32>(draw[1], draw[2], positions[row] | (3u << 28u));
    var best = NONE;
    var token = 0u;
    var other_best = NONE; // drawn from p, for an empty residual
    var other = x;
    for (var i = 0u; i < P.vocab; i = i + 1u) {
        let z = finite(target_logits[base + i]);
        if (z < p_floor) { continue; }
        let lp = z * inverse - p_lse;
        var lr = lp;
        let w = finite(draft_logits[dbase + i]);
        let e = w * inverse - q_lse - lp; // ln q/p
        if (w >= q_floor) {
            if (e >= 0.0) { lr = NONE; } else { lr = lp + log_rest(e); }
        }
        let g = gumbel(key, i);
        if (lp + g > other_best) { other_best = lp + g; other = i; }
        if (lr > NONE && lr + g > best) { best = lr + g; token = i; }
    }
    out[row * 2u] = 0u;
    out[row * 2u + 1u] = select(other, token, best > NONE);
}

// Reject with a workgroup a row; see reject.wgsl.
struct Params { rows: u32, vocab: u32, stride: u32, draft_stride: u32, record: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> target_logits: array<u32>;
@group(0) @binding(2) var<storage, read> draft_logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> target_rec: array<u32>;
@group(0) @binding(4) var<storage, read_write> draft_rec: array<u32>;
@group(0) @binding(5) var<storage, read> draw: array<u32>;
@group(0) @binding(6) var<storage, read> positions: array<u32>;
@group(0) @binding(7) var<storage, read_write> out: array<u32>;

const LANES: u32 = 256u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = wid.x;
    let rec = row * RECORD;
    if (row + 1u == P.rows) {
        if (lane == 0u) {
            out[row * 2u] = 0u;
            out[row * 2u + 1u] = target_rec[rec];
        }
        return;
    }
    let drec = row * P.record;
    let x = min(draft_rec[drec], P.vocab - 1u);
    let inverse = bitcast<f32>(draw[0]);
    if (!(inverse > 0.0)) {
        if (lane == 0u) {
            let y = target_rec[rec + 3u];
            out[row * 2u] = select(0u, 1u, x == y);
            out[row * 2u + 1u] = y;
        }
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
    let d = (pz * inverse - p_lse) - (qz * inverse - q_lse);
    let accepted = pz >= p_floor && (qz < q_floor || d >= 0.0 || u < expo(min(d, 0.0)));

    let key = vec3<u32>(draw[1], draw[2], positions[row] | (3u << 28u));
    var best = NONE;
    var token = 0xffffffffu;
    var other_best = NONE;
    var other = x;
    if (!accepted) {
        for (var i = lane; i < P.vocab; i = i + LANES) {
            let z = finite(target_logits[base + i]);
            if (z < p_floor) { continue; }
            let lp = z * inverse - p_lse;
            var lr = lp;
            let w = finite(draft_logits[dbase + i]);
            let e = w * inverse - q_lse - lp;
            if (w >= q_floor) {
                if (e >= 0.0) { lr = NONE; } else { lr = lp + log_rest(e); }
            }
            let g = gumbel(key, i);
            if (lp + g > other_best) { other_best = lp + g; other = i; }
            if (lr > NONE && lr + g > best) { best = lr + g; token = i; }
        }
    }
    let first = first_of(lane, best, token);
    let first_other = first_of(lane, other_best, other);
    if (lane == 0u) {
        out[row * 2u] = select(0u, 1u, accepted);
        out[row * 2u + 1u] = select(select(first_other.id, first.id, first.score > NONE), x, accepted);
    }
}

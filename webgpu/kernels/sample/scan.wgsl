// First half of Sample: one thread reduces one segment of a row's vocabulary to a partial. Segments give a GPU enough
// threads without a barrier.
struct Params { rows: u32, vocab: u32, stride: u32, seg: u32, segs: u32, k: u32, values: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;     // (rows, stride) f32, as bits
@group(0) @binding(2) var<storage, read> draw: array<u32>;       // DrawParams
@group(0) @binding(3) var<storage, read> positions: array<u32>;  // (rows)
// (rows, segs, 16): max z, its id, sum of exp(z - max), sum of (z - max) exp(z - max), max score, its id, sum of
// exp(score - max), sum of exp((z - max) / temperature) if requested, a bit for each picked id.
@group(0) @binding(4) var<storage, read_write> parts: array<u32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let t = gid.x + gid.y * groups.x * 64u;
    if (t >= P.rows * P.segs) { return; }
    let row = t / P.segs;
    let first = (t % P.segs) * P.seg;
    let end = min(first + P.seg, P.vocab);
    let base = row * P.stride;

    var best = NONE;
    var best_id = first;
    for (var i = first; i < end; i = i + 1u) {
        let z = finite(logits[base + i]);
        if (z > best) { best = z; best_id = i; }
    }
    var sum = 0.0;
    var moment = 0.0;
    for (var i = first; i < end; i = i + 1u) {
        let d = finite(logits[base + i]) - best;
        let e = expo(d);
        sum = sum + e;
        moment = moment + d * e;
    }

    let inverse = bitcast<f32>(draw[0]);
    var top = NONE;
    var top_id = best_id;
    var top_sum = 0.0;
    if (inverse > 0.0) {
        let key = vec3<u32>(draw[1], draw[2], positions[row] | (draw[3] << 28u));
        for (var i = first; i < end; i = i + 1u) {
            let s = finite(logits[base + i]) * inverse + gumbel(key, i);
            let more = s > top;
            let e = expo(-abs(s - top));
            top_sum = select(top_sum + e, top_sum * e + 1.0, more);
            top_id = select(top_id, i, more);
            top = max(top, s);
        }
    }

    var tempered = 0.0;
    if (P.values == 2u) {
        for (var i = first; i < end; i = i + 1u) {
            tempered = tempered + expo((finite(logits[base + i]) - best) * inverse);
        }
    }

    let at = t * 16u;
    parts[at] = bitcast<u32>(best);
    parts[at + 1u] = best_id;
    parts[at + 2u] = bitcast<u32>(sum);
    parts[at + 3u] = bitcast<u32>(moment);
    parts[at + 4u] = bitcast<u32>(top);
    parts[at + 5u] = top_id;
    parts[at + 6u] = bitcast<u32>(top_sum);
    parts[at + 7u] = bitcast<u32>(tempered);
    for (var i = 8u; i < 16u; i = i + 1u) { parts[at + i] = 0u; }
}

// First half of Sample with a workgroup per segment: coalesced reads, a tree reduction.
struct Params { rows: u32, vocab: u32, stride: u32, seg: u32, segs: u32, k: u32, values: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> draw: array<u32>;
@group(0) @binding(3) var<storage, read> positions: array<u32>;
@group(0) @binding(4) var<storage, read_write> parts: array<u32>; // see scan.wgsl

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) lane: u32) {
    let t = wid.x + wid.y * groups.x;
    if (t >= P.rows * P.segs) { return; }
    let row = t / P.segs;
    let first = (t % P.segs) * P.seg;
    let end = min(first + P.seg, P.vocab);
    let base = row * P.stride;
    let inverse = bitcast<f32>(draw[0]);
    let key = vec3<u32>(draw[1], draw[2], positions[row] | (draw[3] << 28u));

    var a = empty_stats();
    for (var i = first + lane; i < end; i = i + 64u) {
        let z = finite(logits[base + i]);
        var s = NONE;
        var n = 0.0;
        if (inverse > 0.0) { s = z * inverse + gumbel(key, i); n = 1.0; }
        a = merge_stats(a, Stats(z, i, 1.0, 0.0, s, i, n));
    }
    a = reduce_stats(lane, a);
    var tempered = 0.0;
    if (P.values == 2u) {
        for (var i = first + lane; i < end; i = i + 64u) {
            tempered = tempered + expo((finite(logits[base + i]) - a.best) * inverse);
        }
        tempered = add_up(lane, tempered);
    }
    if (lane == 0u) {
        let at = t * 16u;
        parts[at] = bitcast<u32>(a.best);
        parts[at + 1u] = a.best_id;
        parts[at + 2u] = bitcast<u32>(a.sum);
        parts[at + 3u] = bitcast<u32>(a.moment);
        parts[at + 4u] = bitcast<u32>(a.top);
        parts[at + 5u] = a.top_id;
        parts[at + 6u] = bitcast<u32>(a.top_sum);
        parts[at + 7u] = bitcast<u32>(tempered);
    }
    if (lane >= 8u && lane < 16u) { parts[t * 16u + lane] = 0u; }
}

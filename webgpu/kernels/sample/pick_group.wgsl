// Second half of Sample with a workgroup per row; see pick.wgsl.
struct Params { rows: u32, vocab: u32, stride: u32, seg: u32, segs: u32, k: u32, values: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> draw: array<u32>;
@group(0) @binding(3) var<storage, read> positions: array<u32>;
@group(0) @binding(4) var<storage, read_write> parts: array<u32>; // see scan.wgsl
@group(0) @binding(5) var<storage, read_write> out: array<u32>;   // (rows, 4 + 2k)

var<workgroup> scores: array<f32, 64>;
var<workgroup> ids: array<u32, 64>;

// first_of writes the first of all lanes' (score, id) pairs to scores[0] and ids[0].
fn first_of(lane: u32, score: f32, id: u32) {
    workgroupBarrier();
    scores[lane] = score;
    ids[lane] = id;
    workgroupBarrier();
    for (var step = 32u; step > 0u; step = step / 2u) {
        if (lane < step && before(scores[lane + step], ids[lane + step], scores[lane], ids[lane])) {
            scores[lane] = scores[lane + step];
            ids[lane] = ids[lane + step];
        }
        workgroupBarrier();
    }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = wid.x;
    let base = row * P.stride;
    let part = row * P.segs * 16u;
    let record = row * (4u + 2u * P.k);
    let inverse = bitcast<f32>(draw[0]);
    let coupled = inverse > 0.0 && (draw[7] & 1u) != 0u;
    let key = vec3<u32>(draw[1], draw[2], positions[row] | (draw[3] << 28u));

    var a = empty_stats();
    for (var s = lane; s < P.segs; s = s + 64u) {
        let at = part + s * 16u;
        a = merge_stats(a, Stats(bitcast<f32>(parts[at]), parts[at + 1u],
            bitcast<f32>(parts[at + 2u]), bitcast<f32>(parts[at + 3u]),
            bitcast<f32>(parts[at + 4u]), parts[at + 5u], bitcast<f32>(parts[at + 6u])));
    }
    a = reduce_stats(lane, a);
    if (lane == 0u) {
        out[record] = select(a.best_id, a.top_id, inverse > 0.0);
        out[record + 1u] = a.best_id;
        out[record + 2u] = bitcast<u32>(a.best + log(a.sum));
        out[record + 3u] = bitcast<u32>(max(log(a.sum) - a.moment / a.sum, 0.0));
    }
    var tempered = 0.0;
    if (P.values == 2u) {
        for (var s = lane; s < P.segs; s = s + 64u) {
            let at = part + s * 16u;
            tempered = tempered + bitcast<f32>(parts[at + 7u]) * expo((bitcast<f32>(parts[at]) - a.best) * inverse);
        }
        tempered = add_up(lane, tempered);
    }
    let by_temperature = P.values == 2u && inverse > 0.0;
    var shift = 0.0;
    if (P.values > 0u) { shift = select(a.best + log(a.sum), a.top + log(a.top_sum), coupled); }
    if (by_temperature) { shift = a.best * inverse + log(tempered); }
    let head = select(0u, 4u, coupled);
    for (var k = 0u; k < P.k; k = k + 1u) {
        var score = NONE;
        var id = 0xffffffffu;
        for (var s = lane; s < P.segs; s = s + 64u) {
            let at = part + s * 16u + head;
            let v = bitcast<f32>(parts[at]);
            if (v > score) { score = v; id = parts[at + 1u]; }
        }
        first_of(lane, score, id);
        let top = scores[0];
        let top_id = ids[0];
        let live = top > NONE;
        let seg_at = select(0u, top_id / P.seg, live);
        let at = part + seg_at * 16u;
        let first = seg_at * P.seg;
        let end = min(first + P.seg, P.vocab);
        score = NONE;
        id = 0xffffffffu;
        if (live) {
            for (var i = first + lane; i < end; i = i + 64u) {
                let n = i - first;
                let picked = ((parts[at + 8u + n / 32u] >> (n % 32u)) & 1u) != 0u;
                if (!picked && i != top_id) {
                    var v = finite(logits[base + i]);
                    if (coupled) { v = v * inverse + gumbel(key, i); }
                    if (v > score) { score = v; id = i; }
                }
            }
        }
        first_of(lane, score, id);
        if (lane == 0u) {
            var value = top;
            if (by_temperature && live) { value = finite(logits[base + top_id]) * inverse; }
            out[record + 4u + k] = select(0u, top_id, live);
            out[record + 4u + P.k + k] = bitcast<u32>(select(LOW, value - shift, live));
            if (live) {
                let n = top_id - first;
                parts[at + 8u + n / 32u] = parts[at + 8u + n / 32u] | (1u << (n % 32u));
                parts[at + head] = bitcast<u32>(scores[0]);
                parts[at + head + 1u] = ids[0];
            }
        }
        storageBarrier();
        workgroupBarrier();
    }
}

// Second half of Sample: one thread combines a row's partials in order and then selects the k best ids one by one: it
// takes the best of the segments' best ids and searches only that segment again.
struct Params { rows: u32, vocab: u32, stride: u32, seg: u32, segs: u32, k: u32, values: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> draw: array<u32>;
@group(0) @binding(3) var<storage, read> positions: array<u32>;
@group(0) @binding(4) var<storage, read_write> parts: array<u32>; // see scan.wgsl
@group(0) @binding(5) var<storage, read_write> out: array<u32>;   // (rows, 4 + 2k)

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    let base = row * P.stride;
    let part = row * P.segs * 16u;
    let record = row * (4u + 2u * P.k);
    let inverse = bitcast<f32>(draw[0]);
    let coupled = inverse > 0.0 && (draw[7] & 1u) != 0u;
    let key = vec3<u32>(draw[1], draw[2], positions[row] | (draw[3] << 28u));

    var best = NONE;
    var best_id = 0u;
    var top = NONE;
    var top_id = 0u;
    for (var s = 0u; s < P.segs; s = s + 1u) {
        let at = part + s * 16u;
        let z = bitcast<f32>(parts[at]);
        let score = bitcast<f32>(parts[at + 4u]);
        if (z > best) { best = z; best_id = parts[at + 1u]; }
        if (score > top) { top = score; top_id = parts[at + 5u]; }
    }
    var sum = 0.0;
    var moment = 0.0;
    var top_sum = 0.0;
    var tempered = 0.0;
    for (var s = 0u; s < P.segs; s = s + 1u) {
        let at = part + s * 16u;
        let d = bitcast<f32>(parts[at]) - best;
        let e = expo(d);
        let n = bitcast<f32>(parts[at + 2u]);
        sum = sum + n * e;
        if (e > 0.0) { moment = moment + (bitcast<f32>(parts[at + 3u]) + d * n) * e; }
        tempered = tempered + bitcast<f32>(parts[at + 7u]) * expo(d * inverse);
        top_sum = top_sum + bitcast<f32>(parts[at + 6u]) * expo(bitcast<f32>(parts[at + 4u]) - top);
    }
    out[record] = select(best_id, top_id, inverse > 0.0);
    out[record + 1u] = best_id;
    out[record + 2u] = bitcast<u32>(best + log(sum));
    out[record + 3u] = bitcast<u32>(max(log(sum) - moment / sum, 0.0));

    var shift = 0.0; // score - ln q
    let by_temperature = P.values == 2u && inverse > 0.0;
    if (P.values > 0u) { shift = select(best + log(sum), top + log(top_sum), coupled); }
    if (by_temperature) { shift = best * inverse + log(tempered); }
    let head = select(0u, 4u, coupled); // word of the ranking score and id in a partial
    for (var k = 0u; k < P.k; k = k + 1u) {
        var score = NONE;
        var seg_at = 0u;
        for (var s = 0u; s < P.segs; s = s + 1u) {
            let v = bitcast<f32>(parts[part + s * 16u + head]);
            if (v > score) { score = v; seg_at = s; }
        }
        if (score <= NONE) {
            out[record + 4u + k] = 0u;
            out[record + 4u + P.k + k] = bitcast<u32>(LOW);
            continue;
        }
        let at = part + seg_at * 16u;
        let id = parts[at + head + 1u];
        out[record + 4u + k] = id;
        if (by_temperature) { score = finite(logits[base + id]) * inverse; }
        out[record + 4u + P.k + k] = bitcast<u32>(score - shift);
        // Picked ids are marked by bits: a recomputed score may differ in its last bit.
        let first = seg_at * P.seg;
        let end = min(first + P.seg, P.vocab);
        let mark = at + 8u + (id - first) / 32u;
        parts[mark] = parts[mark] | (1u << ((id - first) % 32u));
        score = NONE;
        var next = 0u;
        for (var i = first; i < end; i = i + 1u) {
            let n = i - first;
            if (((parts[at + 8u + n / 32u] >> (n % 32u)) & 1u) != 0u) { continue; }
            var v = finite(logits[base + i]);
            if (coupled) { v = v * inverse + gumbel(key, i); }
            if (v > score) { score = v; next = i; }
        }
        parts[at + head] = bitcast<u32>(score);
        parts[at + head + 1u] = next;
    }
}

// Filter with a workgroup a row: radix selection over the order-preserving bits, two bits at a time, with sums over the
// vocabulary for three pivots.
struct Params { rows: u32, vocab: u32, stride: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> draw: array<u32>;
@group(0) @binding(3) var<storage, read> positions: array<u32>;
@group(0) @binding(4) var<storage, read_write> bins: array<u32>;  // only filter.wgsl uses it
@group(0) @binding(5) var<storage, read_write> out: array<u32>;   // (rows, RECORD), see filter.wgsl

const LANES: u32 = 256u;
var<workgroup> partial: array<vec3<f32>, 256>;
var<workgroup> totals: array<vec3<f32>, 16>;

// total adds the values of all lanes, always in the same order; see first_of.wgsl.
fn total(lane: u32, v: vec3<f32>) -> vec3<f32> {
    partial[lane] = v;
    workgroupBarrier();
    if (lane < 16u) {
        var t = partial[lane * 16u];
        for (var i = 1u; i < 16u; i = i + 1u) { t = t + partial[lane * 16u + i]; }
        totals[lane] = t;
    }
    workgroupBarrier();
    var t = totals[0];
    for (var i = 1u; i < 16u; i = i + 1u) { t = t + totals[i]; }
    return t;
}

// search returns the largest key k such that the weights of the keys of at least k and floor_key sum to at least
// want. A weight is exp((z - most) * scale), or 1 for scale 0. Counts are exact: vocabularies are below 2^24.
fn search(lane: u32, base: u32, floor_key: u32, most: f32, scale: f32, want: f32) -> u32 {
    var found = 0u;
    for (var d = 0u; d < 16u; d = d + 1u) {
        let shift = 30u - 2u * d;
        let one = found | (1u << shift);
        let two = found | (2u << shift);
        let three = found | (3u << shift);
        var v = vec3<f32>(0.0, 0.0, 0.0);
        for (var i = lane; i < P.vocab; i = i + LANES) {
            let z = finite(logits[base + i]);
            let k = order(z);
            if (k >= floor_key && k >= one) {
                var w = 1.0;
                if (scale > 0.0) { w = expo((z - most) * scale); }
                v = v + vec3<f32>(w, select(0.0, w, k >= two), select(0.0, w, k >= three));
            }
        }
        v = total(lane, v);
        if (v.z >= want) { found = three; }
        else if (v.y >= want) { found = two; }
        else if (v.x >= want) { found = one; }
    }
    return found;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = wid.x;
    let base = row * P.stride;
    let inverse = bitcast<f32>(draw[0]);
    let count = draw[4];
    let share = bitcast<f32>(draw[5]);

    var most = NONE;
    var most_id = 0xffffffffu;
    for (var i = lane; i < P.vocab; i = i + LANES) {
        let z = finite(logits[base + i]);
        if (z > most) { most = z; most_id = i; }
    }
    let top = first_of(lane, most, most_id);
    most = top.score;
    most_id = top.id;
    var threshold = most;
    var token = most_id;
    var lse = 0.0;
    var scale = 1.0;       // 1/temperature, of probability and entropy
    var sums = vec3<f32>(0.0, 0.0, 0.0); // of exp(d) and d exp(d), d = (z - most) * scale
    if (inverse > 0.0) {
        scale = inverse;
        var floor_key = 0u;
        if (count > 0u && count < P.vocab) { floor_key = search(lane, base, 0u, most, 0.0, f32(count)); }
        if (share < 1.0) {
            var mass = 0.0;
            for (var i = lane; i < P.vocab; i = i + LANES) {
                let z = finite(logits[base + i]);
                if (order(z) >= floor_key) { mass = mass + expo((z - most) * inverse); }
            }
            let want = share * total(lane, vec3<f32>(mass, 0.0, 0.0)).x;
            floor_key = max(floor_key, search(lane, base, floor_key, most, inverse, want));
        }
        threshold = most - bitcast<f32>(draw[6]);
        if (floor_key > 0u) { threshold = max(threshold, unorder(floor_key)); }

        let key = vec3<u32>(draw[1], draw[2], positions[row] | (draw[3] << 28u));
        var best = NONE;
        var best_id = 0xffffffffu;
        for (var i = lane; i < P.vocab; i = i + LANES) {
            let z = finite(logits[base + i]);
            if (z >= threshold) {
                let d = (z - most) * inverse;
                let e = expo(d);
                sums = sums + vec3<f32>(e, select(0.0, d * e, e > 0.0), 0.0);
                let s = z * inverse + gumbel(key, i);
                if (s > best) { best = s; best_id = i; }
            }
        }
        token = first_of(lane, best, best_id).id;
        sums = total(lane, sums);
        lse = most * inverse + log(sums.x);
    } else {
        for (var i = lane; i < P.vocab; i = i + LANES) {
            let d = finite(logits[base + i]) - most;
            let e = expo(d);
            sums = sums + vec3<f32>(e, select(0.0, d * e, e > 0.0), 0.0);
        }
        sums = total(lane, sums);
    }
    if (lane == 0u) {
        out[row * RECORD] = token;
        out[row * RECORD + 1u] = bitcast<u32>(threshold);
        out[row * RECORD + 2u] = bitcast<u32>(lse);
        out[row * RECORD + 3u] = most_id;
        out[row * RECORD + 4u] = bitcast<u32>(expo((finite(logits[base + token]) - most) * scale) / sums.x);
        out[row * RECORD + 5u] = bitcast<u32>(max(log(sums.x) - sums.y / sums.x, 0.0));
    }
}

// Filter with one thread a row: radix selection over the order-preserving bits of
// the logits, a histogram of counts for top-k and of masses for top-p.
struct Params { rows: u32, vocab: u32, stride: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;      // (rows, stride) f32, as bits
@group(0) @binding(2) var<storage, read> draw: array<u32>;        // DrawParams
@group(0) @binding(3) var<storage, read> positions: array<u32>;   // (rows)
@group(0) @binding(4) var<storage, read_write> bins: array<u32>;  // (rows, 256)
@group(0) @binding(5) var<storage, read_write> out: array<u32>;   // (rows, RECORD)

// top_k returns the order key of the count-th largest logit.
fn top_k(base: u32, bin: u32, count: u32) -> u32 {
    var want = count;
    var prefix = 0u;
    var known = 0u; // mask of the bits found
    for (var d = 0u; d < 4u; d = d + 1u) {
        let shift = 24u - 8u * d;
        for (var i = 0u; i < 256u; i = i + 1u) { bins[bin + i] = 0u; }
        for (var i = 0u; i < P.vocab; i = i + 1u) {
            let k = order(finite(logits[base + i]));
            if ((k & known) == prefix) {
                let at = bin + ((k >> shift) & 255u);
                bins[at] = bins[at] + 1u;
            }
        }
        var digit = 255u;
        for (var j = 0u; j < 256u; j = j + 1u) {
            digit = 255u - j;
            let n = bins[bin + digit];
            if (n >= want) { break; }
            want = want - n;
        }
        prefix = prefix | (digit << shift);
        known = known | (255u << shift);
    }
    return prefix;
}

// top_p returns the largest key k such that the keys of at least k and floor_key have at least `share` of the mass of
// the keys of at least floor_key.
fn top_p(base: u32, bin: u32, floor_key: u32, most: f32, inverse: f32, share: f32) -> u32 {
    var want = 0.0;
    var prefix = 0u;
    var known = 0u;
    for (var d = 0u; d < 4u; d = d + 1u) {
        let shift = 24u - 8u * d;
        for (var i = 0u; i < 256u; i = i + 1u) { bins[bin + i] = 0u; }
        for (var i = 0u; i < P.vocab; i = i + 1u) {
            let z = finite(logits[base + i]);
            let k = order(z);
            if ((k & known) == prefix && k >= floor_key) {
                let at = bin + ((k >> shift) & 255u);
                bins[at] = bitcast<u32>(bitcast<f32>(bins[at]) + expo((z - most) * inverse));
            }
        }
        if (d == 0u) {
            for (var j = 0u; j < 256u; j = j + 1u) { want = want + bitcast<f32>(bins[bin + 255u - j]); }
            want = want * share;
        }
        // If rounding leaves the sum short of want, the last bin with mass is chosen.
        var digit = 0u;
        for (var j = 0u; j < 256u; j = j + 1u) {
            let mass = bitcast<f32>(bins[bin + 255u - j]);
            if (mass > 0.0) {
                digit = 255u - j;
                if (mass >= want) { break; }
                want = want - mass;
            }
        }
        prefix = prefix | (digit << shift);
        known = known | (255u << shift);
    }
    return prefix;
}

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    let base = row * P.stride;
    let inverse = bitcast<f32>(draw[0]);
    let count = draw[4];
    let share = bitcast<f32>(draw[5]);

    var most = NONE;
    var most_id = 0u;
    for (var i = 0u; i < P.vocab; i = i + 1u) {
        let z = finite(logits[base + i]);
        if (z > most) { most = z; most_id = i; }
    }
    var threshold = most;
    var token = most_id;
    var lse = 0.0;
    var sum = 0.0;
    var moment = 0.0;      // of d exp(d), d = (z - most) * scale
    var scale = 1.0;       // 1/temperature, of probability and entropy
    if (inverse > 0.0) {
        scale = inverse;
        var floor_key = 0u;
        if (count > 0u && count < P.vocab) { floor_key = top_k(base, row * 256u, count); }
        if (share < 1.0) { floor_key = max(floor_key, top_p(base, row * 256u, floor_key, most, inverse, share)); }
        threshold = most - bitcast<f32>(draw[6]);
        if (floor_key > 0u) { threshold = max(threshold, unorder(floor_key)); }

        let key = vec3<u32>(draw[1], draw[2], positions[row] | (draw[3] << 28u));
        var best = NONE;
        for (var i = 0u; i < P.vocab; i = i + 1u) {
            let z = finite(logits[base + i]);
            if (z >= threshold) {
                let d = (z - most) * inverse;
                let e = expo(d);
                sum = sum + e;
                if (e > 0.0) { moment = moment + d * e; }
                let s = z * inverse + gumbel(key, i);
                if (s > best) { best = s; token = i; }
            }
        }
        lse = most * inverse + log(sum);
    } else {
        for (var i = 0u; i < P.vocab; i = i + 1u) {
            let d = finite(logits[base + i]) - most;
            let e = expo(d);
            sum = sum + e;
            if (e > 0.0) { moment = moment + d * e; }
        }
    }
    out[row * RECORD] = token;
    out[row * RECORD + 1u] = bitcast<u32>(threshold);
    out[row * RECORD + 2u] = bitcast<u32>(lse);
    out[row * RECORD + 3u] = most_id;
    out[row * RECORD + 4u] = bitcast<u32>(expo((finite(logits[base + token]) - most) * scale) / sum);
    out[row * RECORD + 5u] = bitcast<u32>(max(log(sum) - moment / sum, 0.0));
}

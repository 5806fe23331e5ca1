// C2T's expansion step: a perceptron computes the confidence of each candidate of a level, and the most confident ones
// above a threshold become the next beams. One workgroup.
struct Params { beams: u32, k: u32, depth: u32, width: u32, from_at: u32, to_at: u32, }
@group(0) @binding(0) var<uniform> P: Params;
// Inputs are bound as read_write, so that they may share a buffer with the outputs.
@group(0) @binding(1) var<storage, read_write> samples: array<u32>;        // (beams, 4 + 2k), see sample/pick.wgsl
// ln of the joint probability: of the beams from from_at on, of the next beams from to_at on
@group(0) @binding(2) var<storage, read_write> paths: array<f32>;
@group(0) @binding(3) var<storage, read_write> ancestors: array<u32>;      // (k, width)
@group(0) @binding(4) var<storage, read> slots: array<u32>;                // (k)
@group(0) @binding(5) var<storage, read_write> next_tokens: array<u32>;    // (k)
@group(0) @binding(6) var<storage, read_write> next_ancestors: array<u32>; // (k, width)
@group(0) @binding(7) var<storage, read_write> out: array<u32>;            // (k) chosen, (beams, k) logits, f32
// nodes so far, proposing beams, maximum number of nodes, threshold (f32), hidden units, output bias (f32), two unused
// words, then for each unit (f32): the weights of probability, entropy and depth, the bias, the output weight
@group(0) @binding(8) var<storage, read_write> net: array<u32>;

const NONE: u32 = 0xffffffffu;
const LOWEST: f32 = -3.0e38;
const LANES: u32 = 64u;
var<workgroup> kept: array<atomic<u32>, 32>; // a bit a candidate

fn weight(at: u32) -> f32 { return bitcast<f32>(net[at]); }

// logit is the logit of the confidence.
fn logit(p: f32, entropy: f32, depth: f32) -> f32 {
    var z = weight(5u);
    for (var i = 0u; i < net[4]; i = i + 1u) {
        let at = 8u + 5u * i;
        let x = weight(at) * p + weight(at + 1u) * entropy + weight(at + 2u) * depth + weight(at + 3u);
        z = z + weight(at + 4u) * max(x, 0.0);
    }
    return z;
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) lane: u32) {
    let nodes = net[0];
    let alive = min(net[1], P.beams);
    let room = min(P.k, net[2] - min(nodes, net[2]));
    let threshold = weight(3u);
    let all = P.beams * P.k;
    let record = 4u + 2u * P.k;
    for (var i = lane; i < 32u; i = i + LANES) { atomicStore(&kept[i], 0u); }
    for (var c = lane; c < all; c = c + LANES) {
        let beam = c / P.k;
        let word = samples[beam * record + 4u + P.k + c % P.k];
        var z = LOWEST;
        // Candidates with probability zero or NaN are excluded.
        if (beam < alive && word != 0xff800000u && (word & 0x7fffffffu) <= 0x7f800000u) {
            var path = min(bitcast<f32>(word), 0.0);
            if (P.depth > 0u) { path = path + paths[P.from_at + beam]; }
            z = logit(exp(max(path, -80.0)), bitcast<f32>(samples[beam * record + 3u]), f32(P.depth + 1u));
        }
        out[P.k + c] = bitcast<u32>(z);
    }
    storageBarrier();
    workgroupBarrier();
    for (var c = lane; c < all; c = c + LANES) {
        let z = bitcast<f32>(out[P.k + c]);
        if (z > threshold && z > LOWEST) {
            var better = 0u;
            for (var o = 0u; o < alive * P.k; o = o + 1u) {
                let other = bitcast<f32>(out[P.k + o]);
                if (other > z || (other == z && o < c)) { better = better + 1u; }
            }
            if (better < room) { atomicOr(&kept[c / 32u], 1u << (c % 32u)); }
        }
    }
    workgroupBarrier();
    var count = 0u;
    for (var i = 0u; i < 32u; i = i + 1u) { count = count + countOneBits(atomicLoad(&kept[i])); }
    for (var c = lane; c < all; c = c + LANES) {
        let bits = atomicLoad(&kept[c / 32u]);
        if (((bits >> (c % 32u)) & 1u) == 1u) {
            var j = countOneBits(bits & ((1u << (c % 32u)) - 1u));
            for (var i = 0u; i < c / 32u; i = i + 1u) { j = j + countOneBits(atomicLoad(&kept[i])); }
            place(j, c / P.k, c % P.k);
            out[j] = c;
        }
    }
    // Rows of the next pass without a beam repeat a candidate; their results are not used.
    for (var j = count + lane; j < P.k; j = j + LANES) {
        place(j, 0u, 0u);
        out[j] = NONE;
    }
    if (lane == 0u) {
        net[0] = nodes + count;
        net[1] = count;
    }
}

// place makes a candidate the next beam j.
fn place(j: u32, beam: u32, rank: u32) {
    let record = beam * (4u + 2u * P.k);
    next_tokens[j] = samples[record + 4u + rank];
    var path = min(bitcast<f32>(samples[record + 4u + P.k + rank]), 0.0);
    if (P.depth > 0u) { path = path + paths[P.from_at + beam]; }
    paths[P.to_at + j] = path;
    for (var d = 0u; d < P.depth; d = d + 1u) {
        next_ancestors[j * P.width + d] = ancestors[beam * P.width + d];
    }
    next_ancestors[j * P.width + P.depth] = slots[j];
}

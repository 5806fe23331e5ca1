// Beam selection by one thread: a merge of the beams' candidate lists, which are sorted by descending V.
struct Params { beams: u32, k: u32, depth: u32, width: u32, }
@group(0) @binding(0) var<uniform> P: Params;
// Inputs are bound as read_write, so that they may share a buffer with the outputs.
@group(0) @binding(1) var<storage, read_write> samples: array<u32>;        // (beams, 4 + 2k), see sample/pick.wgsl
@group(0) @binding(2) var<storage, read_write> scores: array<u32>;         // (beams) f32
@group(0) @binding(3) var<storage, read_write> ancestors: array<u32>;      // (k, width)
@group(0) @binding(4) var<storage, read> slots: array<u32>;                // (k), then the given candidates (k)
@group(0) @binding(5) var<storage, read_write> next_tokens: array<u32>;    // (k)
@group(0) @binding(6) var<storage, read_write> next_scores: array<u32>;    // (k) f32
@group(0) @binding(7) var<storage, read_write> next_ancestors: array<u32>; // (k, width)
@group(0) @binding(8) var<storage, read_write> out: array<u32>;            // (k) chosen, (beams, k) V

const NONE: u32 = 0xffffffffu;
const LOWEST: u32 = 0xff7fffffu; // bits of the lowest float

// number reads a float; NaN becomes the lowest one.
fn number(w: u32) -> f32 {
    return bitcast<f32>(select(w, LOWEST, (w & 0x7fffffffu) > 0x7f800000u));
}

// The rank of each beam's best remaining candidate. The thread could not keep an array that it indexes so in registers.
var<workgroup> rank: array<u32, 64>;

@compute @workgroup_size(1)
fn main() {
    for (var b = 0u; b < P.beams; b = b + 1u) {
        rank[b] = 0u;
        var v = 0.0;
        if (P.depth > 0u) { v = number(scores[b]); }
        let row_at = b * (4u + 2u * P.k) + 4u + P.k;
        for (var i = 0u; i < P.k; i = i + 1u) {
            out[P.k + b * P.k + i] = bitcast<u32>(v + number(samples[row_at + i]));
        }
    }
    for (var j = 0u; j < P.k; j = j + 1u) {
        var best = 0.0;
        var beam = P.beams;
        let given = slots[P.k + j];
        if (given != NONE) {
            beam = given / P.k;
            rank[beam] = given % P.k;
            best = number(out[P.k + given]);
        }
        for (var b = 0u; given == NONE && b < P.beams; b = b + 1u) {
            if (rank[b] < P.k) {
                let v = number(out[P.k + b * P.k + rank[b]]);
                if (beam == P.beams || v > best) { best = v; beam = b; }
            }
        }
        let r = rank[beam];
        rank[beam] = r + 1u;
        out[j] = beam * P.k + r;
        next_tokens[j] = samples[beam * (4u + 2u * P.k) + 4u + r];
        next_scores[j] = bitcast<u32>(best);
        for (var d = 0u; d < P.depth; d = d + 1u) {
            next_ancestors[j * P.width + d] = ancestors[beam * P.width + d];
        }
        next_ancestors[j * P.width + P.depth] = slots[j];
    }
}

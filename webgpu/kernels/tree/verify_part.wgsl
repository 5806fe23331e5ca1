// Shared by verify.wgsl and verify_group.wgsl.
struct Params { rows: u32, vocab: u32, stride: u32, draft_stride: u32, draft_rows: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> target_logits: array<u32>;    // (rows, stride) f32, as bits
@group(0) @binding(2) var<storage, read> draft_logits: array<u32>;     // (draft_rows, draft_stride)
@group(0) @binding(3) var<storage, read_write> target_rec: array<u32>; // (rows, RECORD): Filter's records
@group(0) @binding(4) var<storage, read> draw: array<u32>;             // DrawParams
// (rows): draft row, first word in children, count, position
@group(0) @binding(5) var<storage, read> nodes: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> children: array<u32>;         // per row: as drawn, then ascending
@group(0) @binding(7) var<storage, read_write> out: array<u32>;        // (rows, 2): place of the child, token

const NO_CHILD: u32 = 0xffffffffu;

// Sides holds the values that a row's distributions are computed from.
struct Sides {
    base: u32, dbase: u32, // of the logits
    inverse: f32,
    floor: f32, lse: f32,  // of p, from the record
    most: f32,             // the largest logit of q
    log_q: f32,            // the logarithm of the sum of all weights of q
}

// DEAD is above the log-weights of tokens that the draft cannot draw, and below all others.
const DEAD: f32 = -1.0e25;

// weight_of is the logarithm of q up to a constant. Sums of weights are logarithms too: without a token that has nearly
// all of the mass, the rest may be many orders of magnitude smaller.
fn weight_of(s: Sides, id: u32) -> f32 {
    return (finite(draft_logits[s.dbase + id]) - s.most) * s.inverse;
}

// log_add is ln(exp(a) + exp(b)).
fn log_add(a: f32, b: f32) -> f32 {
    return max(a, b) + log(1.0 + expo(-abs(a - b)));
}

// remaining is the log-weight of the tokens that are no children and of the children from j on.
fn remaining(s: Sides, node: vec4<u32>, others: f32, j: u32) -> f32 {
    var rest = others;
    for (var k = j; k < node.z; k = k + 1u) { rest = log_add(rest, weight_of(s, children[node.y + k])); }
    return rest;
}

// log_left is the logarithm of (p - S·q)+ of a token, or NONE for 0; log_s is ln S.
fn log_left(s: Sides, id: u32, log_s: f32) -> f32 {
    let z = finite(target_logits[s.base + id]);
    let lp = z * s.inverse - s.lse;
    let e = weight_of(s, id) - s.log_q + log_s - lp; // ln of S·q/p
    if (z < s.floor || e >= 0.0) { return NONE; }
    return lp + log_rest(e);
}

// left is (p - S·q)+ of a token.
fn left(s: Sides, id: u32, log_s: f32) -> f32 {
    let l = log_left(s, id, log_s);
    return select(0.0, expo(min(l, 0.0)), l > NONE);
}

fn uniform_of(position: u32, id: u32) -> f32 {
    return (f32(hash(vec3<u32>(draw[1], draw[2], position | (2u << 28u)), id)) + 0.5) * 2.3283064e-10;
}

fn store(row: u32, place: u32, token: u32) {
    out[row * 2u] = place;
    out[row * 2u + 1u] = token;
}

// simple decides rows without children, and all rows at temperature 0: neither needs a distribution.
fn simple(row: u32, node: vec4<u32>) {
    if (node.z == 0u) {
        store(row, NO_CHILD, target_rec[row * RECORD]);
        return;
    }
    let y = target_rec[row * RECORD + 3u];
    var place = NO_CHILD;
    for (var j = 0u; j < node.z; j = j + 1u) {
        if (children[node.y + j] == y) { place = j; }
    }
    store(row, place, y);
}

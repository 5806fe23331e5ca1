// Writes the best candidates of a drafted tree as rows of the target's pass, in one workgroup.
// Candidates are numbered level by level: k of the root, then k·k of each level.
struct Params {
    k: u32,
    picks: u32,   // words of a level's result before its samples; first its k beams: indices of candidates above
    first: u32,   // words of the root's result; those of the levels follow
    level: u32,   // words of a level's result
    stride: u32,  // slots of a row's list of ancestors
}
@group(0) @binding(0) var<uniform> P: Params;
// root: (1, 4 + 2k); each level: beams (k) … samples (k, 4 + 2k)
@group(0) @binding(1) var<storage, read> drafted: array<u32>;
// levels, nodes, rows, base, trash, root's token, given, slots (nodes), candidates (nodes)
@group(0) @binding(2) var<storage, read> head: array<u32>;
@group(0) @binding(3) var<storage, read_write> tokens: array<u32>;    // (rows)
@group(0) @binding(4) var<storage, read_write> drawn: array<u32>;     // (rows)
@group(0) @binding(5) var<storage, read_write> rows: array<u32>;      // (rows, 4)
@group(0) @binding(6) var<storage, read_write> ancestors: array<u32>; // (rows, stride)
// (nodes): the candidate of each node, NONE for the root and for missing nodes
@group(0) @binding(7) var<storage, read_write> chosen: array<u32>;

const NONE: u32 = 0xffffffffu;
const SLOTS: u32 = 7u;

// The bits of -V, which is never negative: the lowest is the best. NONE excludes a candidate.
var<workgroup> cost: array<u32, MOST>;
var<workgroup> node: array<u32, MOST>; // the node of each candidate, 0: none

// place returns the level of a candidate, the beam that proposed it and its rank there.
fn place(c: u32) -> vec3<u32> {
    if (c < P.k) { return vec3<u32>(0u, 0u, c); }
    let i = c - P.k;
    let n = P.k * P.k;
    return vec3<u32>(1u + i / n, (i % n) / P.k, i % P.k);
}

fn result_of(level: u32) -> u32 { return select(0u, P.first + (level - 1u) * P.level, level > 0u); }

fn record(at: vec3<u32>) -> u32 {
    return result_of(at.x) + select(0u, P.picks, at.x > 0u) + at.y * (4u + 2u * P.k) + 4u;
}

// above returns the parent of a candidate below the first level.
fn above(at: vec3<u32>) -> u32 {
    let index = drafted[result_of(at.x) + at.y];
    if (at.x == 1u) { return index; }
    return P.k + (at.x - 2u) * P.k * P.k + index;
}

// value returns the cost of a candidate, whose parent's is known.
fn value(c: u32) -> u32 {
    let at = place(c);
    let words = record(at);
    let w = drafted[words + P.k + at.z];
    if ((w & 0x7fffffffu) >= 0x7f800000u && w != 0x7f800000u) { return NONE; } // NaN or probability zero
    for (var i = 0u; i < at.z; i = i + 1u) {
        if (drafted[words + i] == drafted[words + at.z]) { return NONE; }
    }
    var v = select(bitcast<f32>(w), 0.0, (w & 0x80000000u) == 0u);
    if (at.x > 0u) {
        let parent = cost[above(at)];
        if (parent == NONE) { return NONE; }
        v = v - bitcast<f32>(parent);
    }
    let bits = bitcast<u32>(v) & 0x7fffffffu;
    return select(bits, NONE, bits >= 0x7f800000u);
}

fn fill(i: u32, token: u32, position: u32, slot: u32, shared_slots: u32) {
    tokens[i] = token;
    drawn[i] = position + 1u;
    rows[4u * i] = position;
    rows[4u * i + 1u] = slot;
    rows[4u * i + 2u] = shared_slots;
    rows[4u * i + 3u] = 0u;
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_id) lid: vec3<u32>) {
    let lane = lid.x;
    let levels = head[0];
    let nodes = head[1];
    let padded = head[2];
    let base = head[3];
    let trash = head[4];
    let given = head[6] != 0u;
    let all = min(P.k + (levels - 1u) * P.k * P.k, MOST);
    for (var c = lane; c < all; c = c + 64u) { node[c] = 0u; }
    for (var i = lane; i < nodes; i = i + 64u) { chosen[i] = NONE; }
    for (var l = 0u; l < levels && !given; l = l + 1u) { // parents first
        let begin = select(P.k + (l - 1u) * P.k * P.k, 0u, l == 0u);
        let end = min(P.k + l * P.k * P.k, all);
        for (var c = begin + lane; c < end; c = c + 64u) { cost[c] = value(c); }
        workgroupBarrier();
    }
    workgroupBarrier();
    for (var c = lane; c < all && !given; c = c + 64u) {
        let mine = cost[c];
        var better = 0u;
        if (mine == NONE) { better = nodes; }
        for (var j = 0u; j < all && better + 1u < nodes; j = j + 1u) {
            if (cost[j] < mine || (cost[j] == mine && j < c)) { better = better + 1u; }
        }
        node[c] = select(0u, 1u, better + 1u < nodes);
    }
    workgroupBarrier();
    if (lane == 0u) {
        var n = 0u;
        for (var i = 1u; given && i < nodes; i = i + 1u) {
            n = i;
            chosen[i] = head[SLOTS + nodes + i];
            node[chosen[i]] = i;
        }
        for (var c = 0u; c < all && !given; c = c + 1u) {
            if (node[c] == 1u) {
                n = n + 1u;
                node[c] = n;
                chosen[n] = c;
            }
        }
        fill(0u, head[5], base, head[SLOTS], base);
        ancestors[0] = head[SLOTS];
        for (var i = n + 1u; i < padded; i = i + 1u) {
            fill(i, 0u, 0u, trash, 0u);
            ancestors[i * P.stride] = trash;
        }
    }
    workgroupBarrier();
    for (var c = lane; c < all; c = c + 64u) {
        let i = node[c];
        if (i == 0u) { continue; }
        var at = place(c);
        fill(i, drafted[record(at) + at.z], base + at.x + 1u, head[SLOTS + i], base);
        ancestors[i * P.stride] = head[SLOTS];
        var n = i;
        for (var l = at.x + 1u; l > 0u; l = l - 1u) {
            ancestors[i * P.stride + l] = head[SLOTS + n];
            if (at.x == 0u) { break; }
            let parent = above(at);
            n = node[parent];
            at = place(parent);
        }
    }
}

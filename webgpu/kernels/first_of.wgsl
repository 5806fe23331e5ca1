// The first of (score, id) pairs over a workgroup of 256: greater score, then lower id. Sixteen lanes reduce sixteen
// pairs each, then every lane reduces the sixteen results. This takes two barriers, which are expensive on software
// adapters; a tree would take nine. Consecutive calls are safe: a lane writes `pairs` again only after all lanes have
// passed the last barrier, and `firsts` only after all have passed the first barrier of the next call.
struct Pair { score: f32, id: u32, }

var<workgroup> pairs: array<Pair, 256>;
var<workgroup> firsts: array<Pair, 16>;

fn before(a: Pair, b: Pair) -> bool {
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

fn first_of(lane: u32, score: f32, id: u32) -> Pair {
    pairs[lane] = Pair(score, id);
    workgroupBarrier();
    if (lane < 16u) {
        var p = pairs[lane * 16u];
        for (var i = 1u; i < 16u; i = i + 1u) {
            if (before(pairs[lane * 16u + i], p)) { p = pairs[lane * 16u + i]; }
        }
        firsts[lane] = p;
    }
    workgroupBarrier();
    var p = firsts[0];
    for (var i = 1u; i < 16u; i = i + 1u) {
        if (before(firsts[i], p)) { p = firsts[i]; }
    }
    return p;
}

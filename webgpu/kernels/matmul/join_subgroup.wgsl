// Sums over the lanes of a workgroup with subgroups: each subgroup adds its lanes, and the sums of at most sixteen
// subgroups are added after one barrier. The first lane of a subgroup determines its place; unused places stay zero.
enable subgroups;

var<workgroup> partial: array<f32, PLACES>; // (16, TILE)

// joined returns sums over the lanes: lane m returns those of row m.
fn joined(acc: array<f32, TILE>, lane: u32) -> array<f32, R> {
    let first = subgroupMin(lane);
    for (var i = 0u; i < TILE; i = i + 1u) { // unroll
        let sum = subgroupAdd(acc[i]);
        if (lane == first) { partial[first / 4u * TILE + i] = sum; }
    }
    workgroupBarrier();
    var sums: array<f32, R>;
    if (lane < TM) {
        for (var p = 0u; p < 16u; p = p + 1u) {
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                sums[r] = sums[r] + partial[p * TILE + lane * R + r];
            }
        }
    }
    return sums;
}

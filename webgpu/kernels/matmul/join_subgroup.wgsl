// Sums over the lanes of a workgroup with subgroups: each subgroup adds its lanes, and the sums of at most sixteen
// subgroups are added after one barrier. The first lane of a subgroup determines its place; unused places stay zero.
enable subgroups;

var<workgroup> partial: array<f32, PLACES>; // (16, TILE + TM)

// joined returns sums over the lanes: lane m returns those of row m, with the sum of its squares last.
fn joined(acc: array<f32, TILE>, squares: array<f32, TM>, lane: u32) -> array<f32, SUMS_OF_ROW> {
    let first = subgroupMin(lane);
    let place = first / 4u * (TILE + TM);
    for (var i = 0u; i < TILE; i = i + 1u) { // unroll
        let sum = subgroupAdd(acc[i]);
        if (lane == first) { partial[place + i] = sum; }
    }
    for (var m = 0u; m < TM; m = m + 1u) { // unroll
        let sum = subgroupAdd(squares[m]);
        if (lane == first) { partial[place + TILE + m] = sum; }
    }
    workgroupBarrier();
    var sums: array<f32, SUMS_OF_ROW>;
    if (lane < TM) {
        for (var p = 0u; p < 16u; p = p + 1u) {
            let at = p * (TILE + TM);
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                sums[r] = sums[r] + partial[at + lane * R + r];
            }
            sums[R] = sums[R] + partial[at + TILE + lane];
        }
    }
    return sums;
}

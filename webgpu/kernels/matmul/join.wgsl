// Sums over the 64 lanes of a workgroup, for TOGETHER rows of x at a time: a lane adds the sums of four lanes, and the
// lane of a row the sixteen sums of those. The order of the additions is the same for every tile.
var<workgroup> partial: array<array<f32, R>, PARTIAL>; // (TOGETHER, 64), at the end (16, TM)

// joined returns sums over the lanes: lane m returns those of row m.
fn joined(acc: array<f32, TILE>, lane: u32) -> array<f32, R> {
    var each = acc; // parameters allow only literal indices
    var fours: array<f32, FOURS>;
    let own = lane / 16u % TOGETHER * 64u + lane % 16u;
    for (var turn = 0u; turn < TURNS; turn = turn + 1u) { // unroll
        for (var i = 0u; i < TOGETHER; i = i + 1u) { // unroll
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                partial[i * 64u + lane][r] = each[(turn * TOGETHER + i) * R + r];
            }
        }
        workgroupBarrier();
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            fours[turn * R + r] = (partial[own][r] + partial[own + 16u][r])
                + (partial[own + 32u][r] + partial[own + 48u][r]);
        }
        workgroupBarrier();
    }
    if (lane < 16u * TOGETHER) {
        for (var turn = 0u; turn < TURNS; turn = turn + 1u) { // unroll
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                partial[lane % 16u * TM + turn * TOGETHER + lane / 16u][r] = fours[turn * R + r];
            }
        }
    }
    workgroupBarrier();
    var sums: array<f32, R>;
    if (lane < TM) {
        for (var i = 0u; i < 16u; i = i + 1u) {
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                sums[r] = sums[r] + partial[i * TM + lane][r];
            }
        }
    }
    return sums;
}

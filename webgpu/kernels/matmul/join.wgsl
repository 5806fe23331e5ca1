// Sums over the 64 lanes of a workgroup: four at a time, three times. The order of the additions is the same for every
// tile. Lane 16 i + 4 j + k has place (i, j, k), for each of TOGETHER rows of x.
var<workgroup> partial: array<array<array<array<array<f32, R>, 4>, 4>, 4>, TOGETHER>;

// joined returns sums over the lanes: lane m returns those of row m.
fn joined(acc: array<f32, TILE>, lane: u32) -> array<f32, R> {
    var each = acc; // parameters allow only literal indices
    let i = lane / 16u;
    let j = lane / 4u % 4u;
    let k = lane % 4u;
    var fours: array<f32, FOURS>; // of row TOGETHER join + i
    for (var join = 0u; join < JOINS; join = join + 1u) { // unroll
        for (var t = 0u; t < TOGETHER; t = t + 1u) { // unroll
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                partial[t][i][j][k][r] = each[(join * TOGETHER + t) * R + r];
            }
        }
        workgroupBarrier();
        let t = i % TOGETHER;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            fours[join * R + r] = (partial[t][0u][j][k][r] + partial[t][1u][j][k][r])
                + (partial[t][2u][j][k][r] + partial[t][3u][j][k][r]);
        }
        workgroupBarrier();
    }
    if (i < TOGETHER) {
        for (var join = 0u; join < JOINS; join = join + 1u) { // unroll
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                partial[join][i][j][k][r] = fours[join * R + r];
            }
        }
    }
    workgroupBarrier();
    if (lane < 4u * TM) {
        let join = lane / (4u * TOGETHER);
        let row = lane / 4u % TOGETHER;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            partial[join][row][0u][k][r] = (partial[join][row][0u][k][r] + partial[join][row][1u][k][r])
                + (partial[join][row][2u][k][r] + partial[join][row][3u][k][r]);
        }
    }
    workgroupBarrier();
    var sums: array<f32, R>;
    if (lane < TM) {
        let join = lane / TOGETHER;
        let row = lane % TOGETHER;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            sums[r] = (partial[join][row][0u][0u][r] + partial[join][row][0u][1u][r])
                + (partial[join][row][0u][2u][r] + partial[join][row][0u][3u][r]);
        }
    }
    return sums;
}

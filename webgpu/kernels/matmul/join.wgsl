// Sums over the lanes of a workgroup without subgroups: sixteen lanes add four partial sums each, one lane adds the
// rest.
var<workgroup> partial: array<f32, LANES_BY_TM>;
var<workgroup> quarter: array<f32, SIXTEEN_BY_TM>;

// across adds each row's values over all lanes; lane m returns the sum of row m.
fn across(values: array<f32, TM>, lane: u32) -> f32 {
    var v = values; // parameters allow only literal indices
    for (var m = 0u; m < TM; m = m + 1u) { // unroll
        partial[lane * TM + m] = v[m];
    }
    workgroupBarrier();
    for (var i = lane; i < SIXTEEN_BY_TM; i = i + 64u) {
        let begin = i / TM * 4u * TM + i % TM;
        quarter[i] = (partial[begin] + partial[begin + TM]) + (partial[begin + 2u * TM] + partial[begin + 3u * TM]);
    }
    workgroupBarrier();
    var total = 0.0;
    if (lane < TM) {
        for (var i = 0u; i < 16u; i = i + 1u) { total = total + quarter[i * TM + lane]; }
    }
    return total;
}

// joined returns sums over the lanes: lane m returns those of row m, with the sum of its squares last.
fn joined(acc: array<f32, TILE>, squares: array<f32, TM>, lane: u32) -> array<f32, SUMS_OF_ROW> {
    var each = acc;
    var sums: array<f32, SUMS_OF_ROW>;
    for (var r = 0u; r < R; r = r + 1u) { // unroll
        var values: array<f32, TM>;
        for (var m = 0u; m < TM; m = m + 1u) { // unroll
            values[m] = each[m * R + r];
        }
        sums[r] = across(values, lane);
    }
    sums[R] = 0.0;
    if (P.squares > 0u) { sums[R] = across(squares, lane); }
    return sums;
}

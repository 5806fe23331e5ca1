// Sums and maxima over a workgroup of 256, two at a time, always in the same order: sixteen lanes reduce sixteen values
// each, then every lane reduces the sixteen results. Consecutive calls are safe, see first_of.wgsl.
var<workgroup> addends: array<vec2<f32>, 256>;
var<workgroup> subtotals: array<vec2<f32>, 16>;

fn total_of(lane: u32, v: vec2<f32>) -> vec2<f32> {
    addends[lane] = v;
    workgroupBarrier();
    if (lane < 16u) {
        var t = addends[lane * 16u];
        for (var i = 1u; i < 16u; i = i + 1u) { t = t + addends[lane * 16u + i]; }
        subtotals[lane] = t;
    }
    workgroupBarrier();
    var t = subtotals[0];
    for (var i = 1u; i < 16u; i = i + 1u) { t = t + subtotals[i]; }
    return t;
}

fn most_of(lane: u32, v: vec2<f32>) -> vec2<f32> {
    addends[lane] = v;
    workgroupBarrier();
    if (lane < 16u) {
        var t = addends[lane * 16u];
        for (var i = 1u; i < 16u; i = i + 1u) { t = max(t, addends[lane * 16u + i]); }
        subtotals[lane] = t;
    }
    workgroupBarrier();
    var t = subtotals[0];
    for (var i = 1u; i < 16u; i = i + 1u) { t = max(t, subtotals[i]); }
    return t;
}

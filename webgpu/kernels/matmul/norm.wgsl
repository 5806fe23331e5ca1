// A norm is split between two products. The product before it (next.wgsl) writes its outputs times the norm's weights
// and, behind each row, sums of squares of the outputs. The product after it multiplies its sums by
// 1/sqrt(mean(out²) + eps), after its loop over the weights.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;

// squaresOf adds the sums of squares of the row of x at `at`: every by-th vector of four, from the first-th on. It has
// four loads under way at once.
fn squaresOf(at: u32, first: u32, by: u32) -> f32 {
    let base = at + P.steps * PARTS;
    let count = min(P.squares / 4u, arrayLength(&x)); // see rows.wgsl
    let turns = (count + 4u * by - 1u - first) / (4u * by);
    var sums: array<vec4<f32>, 4>;
    for (var turn = 0u; turn < turns; turn = turn + 1u) {
        for (var j = 0u; j < 4u; j = j + 1u) { // unroll
            let i = first + (turn * 4u + j) * by;
            sums[j] = sums[j] + select(vec4<f32>(), x[base + min(i, count - 1u)], i < count);
        }
    }
    let sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// factorOf returns the factor of a row's sums. It has no branch, see rows.wgsl.
fn factorOf(squares: f32) -> f32 {
    return select(1.0 / sqrt(squares / f32(P.steps * PARTS * 4u) + P.eps), 1.0, P.squares == 0u);
}

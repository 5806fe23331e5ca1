// A norm is split between two products. The product before it (next.wgsl) writes its outputs times the norm's weights
// and, behind each row, sums of squares of the outputs. The product after it multiplies its sums by
// 1/sqrt(mean(out²) + eps), after its loop over the weights.
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;

// squaresOf adds the sums of squares of the row of x at `at`: every by-th vector of four, from the first-th on.
fn squaresOf(at: u32, first: u32, by: u32) -> f32 {
    var sum = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    let base = at + P.steps * PARTS;
    let count = min(P.squares / 4u, arrayLength(&weights)); // see rows.wgsl
    let turns = (count + by - 1u - first) / by;
    for (var turn = 0u; turn < turns; turn = turn + 1u) { sum = sum + x[base + first + turn * by]; }
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// factorOf returns the factor of a row's sums. It has no branch, see rows.wgsl.
fn factorOf(squares: f32) -> f32 {
    return select(1.0 / sqrt(squares / f32(P.steps * PARTS * 4u) + P.eps), 1.0, P.squares == 0u);
}

// A norm is divided between two products. The one before it (matmul_next) leaves its outputs times the
// norm's weights, and behind each row sums of their squares; the one after it multiplies what it
// summed by 1/sqrt(mean(out²) + eps). So the loop over weights has nothing more to do.

// squaresOf adds sums of squares of the row of x that begins at `at`: each `by`-th four from `first` on.
fn squaresOf(at: u32, first: u32, by: u32) -> f32 {
    var sum = vec4<f32>(0.0, 0.0, 0.0, 0.0);
    let base = at + P.steps * PARTS;
    let count = min(P.squares / 4u, arrayLength(&weights)); // see matmul_rows
    for (var i = first; i < count; i = i + by) { sum = sum + x[base + i]; }
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// factorOf is what a row's sums are multiplied by. No branch: see matmul_rows.
fn factorOf(squares: f32) -> f32 {
    return select(1.0 / sqrt(squares / f32(P.steps * PARTS * 4u) + P.eps), 1.0, P.squares == 0u);
}

// finish of a product that adds to out and writes the input of the product of the norm of out: see norm.wgsl.
@group(0) @binding(5) var<storage, read> gain: array<f32>;       // (n)
@group(0) @binding(6) var<storage, read_write> next: array<f32>; // (m, n + n/SQUARED): out·gain, sums of squares

fn finish(m: u32, tile: u32, sums: array<f32, R>) {
    var v = sums; // parameters allow only literal indices
    let n = tile * R;
    if (n >= P.n) { return; }
    let o = P.out0 + m * P.ldo + n;
    let to = m * P.ldn + n;
    for (var g = 0u; g < SUMS; g = g + 1u) { // unroll
        var squares = 0.0;
        for (var i = 0u; i < SQUARED; i = i + 1u) { // unroll
            let r = g * SQUARED + i;
            let sum = out[o + r] + v[g * SQUARED + i];
            out[o + r] = sum;
            next[to + r] = sum * gain[n + r];
            squares = squares + sum * sum;
        }
        next[m * P.ldn + P.n + tile * SUMS + g] = squares;
    }
}

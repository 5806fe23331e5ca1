// finish of a product with rows of gates and as many rows of ups: SiLU(gate) · up.
fn finish(m: u32, tile: u32, sums: array<f32, R>) {
    var v = sums; // parameters allow only literal indices
    let n = tile * R;
    if (n >= P.n) { return; }
    let o = P.out0 + m * P.ldo + n / 2u;
    for (var r = 0u; r < HALF; r = r + 1u) { // unroll
        let g = v[r];
        out[o + r] = g / (1.0 + exp(-g)) * v[r + HALF];
    }
}

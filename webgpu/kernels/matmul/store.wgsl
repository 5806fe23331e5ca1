// finish of a product that stores its sums or adds them to out.
fn finish(m: u32, tile: u32, sums: array<f32, R>) {
    var v = sums; // parameters allow only literal indices
    let o = P.out0 + m * P.ldo + tile * R;
    for (var r = 0u; r < R; r = r + 1u) { // unroll
        if (tile * R + r < P.n) {
            if (P.add == 1u) { out[o + r] = out[o + r] + v[r]; } else { out[o + r] = v[r]; }
        }
    }
}

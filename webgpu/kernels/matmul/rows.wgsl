// Matrix product out[m, n] = Σ_k weights[n, k] · x[m, k], family "rows": a thread keeps a register tile of R weight
// rows by TM rows of x and loops over all of k. It uses each unpacked weight and each activation several times and
// has no barrier.
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let m0 = gid.y * TM;
    if (gid.x * R >= P.n) { return; }
    // Rows past the end repeat the last one and are not stored: no branch in the loop.
    var acc: array<f32, TILE>;
    var row: array<u32, R>;
    for (var r = 0u; r < R; r = r + 1u) { // unroll
        row[r] = min(weightRow(gid.x, r), P.n - 1u);
    }
    var at: array<u32, TM>;
    for (var m = 0u; m < TM; m = m + 1u) { // unroll
        at[m] = P.x0 + min(m0 + m, P.m - 1u) * P.ldx;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            acc[m * R + r] = 0.0;
        }
    }
    // If only a parameter bounds a loop, Mesa's software adapter compiles the value into the code, and recompiles the
    // loop for each dispatch. min with an array length prevents that.
    let steps = min(P.steps, arrayLength(&x));
    kLoop(&acc, &row, &at, steps);
    // A copy: with a dynamic index, acc would not stay in registers.
    var sums: array<f32, TILE>;
    for (var i = 0u; i < TILE; i = i + 1u) { // unroll
        sums[i] = acc[i];
    }
    for (var m = 0u; m < TM; m = m + 1u) { // unroll one
        if (m0 + m < P.m) {
            let factor = factorOf(squaresOf(P.x0 + (m0 + m) * P.ldx, 0u, 1u));
            var v: array<f32, R>;
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                v[r] = sums[m * R + r] * factor;
            }
            finish(m0 + m, gid.x, v);
        }
    }
}

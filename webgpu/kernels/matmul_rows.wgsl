// Matrix product out[m, n] = Σ_k weights[n, k] · x[m, k], family "rows": one
// thread keeps a register tile of R weight rows by TM rows of x and walks all of k,
// so that each unpacked weight and each activation is used several times and
// nothing waits at a barrier.
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let n0 = gid.x * R;
    let m0 = gid.y * TM;
    if (n0 >= P.n) { return; }
    // Rows past the end repeat the last one and are not stored: no branch in the loop.
    var acc: array<f32, TILE>;
    var row: array<u32, R>;
    for (var r = 0u; r < R; r = r + 1u) { // unroll
        row[r] = min(n0 + r, P.n - 1u);
    }
    var at: array<u32, TM>;
    for (var m = 0u; m < TM; m = m + 1u) { // unroll
        at[m] = P.x0 + min(m0 + m, P.m - 1u) * P.ldx;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            acc[m * R + r] = 0.0;
        }
    }
    for (var step = 0u; step < P.steps; step = step + 1u) {
        var raw: array<vec4<u32>, R>;
        var sc: array<f32, R>;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            raw[r] = fetch(row[r], step);
            sc[r] = scale(row[r], step);
        }
        for (var part = 0u; part < PARTS; part = part + 1u) { // unroll
            var w: array<vec4<f32>, R>;
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                w[r] = unpack(raw[r], part, sc[r]);
            }
            let k = place(step, part);
            for (var m = 0u; m < TM; m = m + 1u) { // unroll
                let v = x[at[m] + k];
                for (var r = 0u; r < R; r = r + 1u) { // unroll
                    acc[m * R + r] = acc[m * R + r] + dot(w[r], v);
                }
            }
        }
    }
    for (var m = 0u; m < TM; m = m + 1u) { // unroll
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            if (m0 + m < P.m && n0 + r < P.n) {
                let o = P.out0 + (m0 + m) * P.ldo + n0 + r;
                if (P.add == 1u) { out[o] = out[o] + acc[m * R + r]; } else { out[o] = acc[m * R + r]; }
            }
        }
    }
}

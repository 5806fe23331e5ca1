// Matrix product out[m, n] = Σ_k weights[n, k] · x[m, k], family "group": a
// workgroup takes R weight rows, its 64 lanes stride along k so that neighbours
// read neighbouring words, and the partial sums are added in lane order.
var<workgroup> partial: array<f32, LANES_BY_TM>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let n0 = (wid.x + wid.z * 65535u) * R;
    let m0 = wid.y * TM;
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
    for (var step = lane; step < P.steps; step = step + 64u) {
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
    for (var r = 0u; r < R; r = r + 1u) { // unroll
        for (var m = 0u; m < TM; m = m + 1u) { // unroll
            partial[lane * TM + m] = acc[m * R + r];
        }
        workgroupBarrier();
        if (lane < TM && m0 + lane < P.m && n0 + r < P.n) {
            var total = 0.0;
            for (var i = 0u; i < 64u; i = i + 1u) { total = total + partial[i * TM + lane]; }
            let o = P.out0 + (m0 + lane) * P.ldo + n0 + r;
            if (P.add == 1u) { out[o] = out[o] + total; } else { out[o] = total; }
        }
        workgroupBarrier();
    }
}

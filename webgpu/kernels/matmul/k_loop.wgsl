// The k-loop of a thread of rows.wgsl. SHARED consecutive steps have the same scales.
fn kLoop(acc: ptr<function, array<f32, TILE>>, row: ptr<function, array<u32, R>>, at: ptr<function, array<u32, TM>>,
    steps: u32) {
    for (var first = 0u; first < steps; first = first + SHARED) {
        var sc: array<Scale, R>;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            sc[r] = scale((*row)[r], first);
        }
        for (var next = 0u; next < SHARED; next = next + 1u) { // unroll one
            let step = first + next;
            var raw: array<vec4<u32>, R>;
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                raw[r] = fetch((*row)[r], step);
            }
            for (var part = 0u; part < PARTS; part = part + 1u) { // unroll
                var w: array<vec4<f32>, R>;
                for (var r = 0u; r < R; r = r + 1u) { // unroll
                    w[r] = unpack(raw[r], part, sc[r]);
                }
                let k = place(step, part);
                for (var m = 0u; m < TM; m = m + 1u) { // unroll
                    let v = x[(*at)[m] + k];
                    for (var r = 0u; r < R; r = r + 1u) { // unroll
                        (*acc)[m * R + r] = (*acc)[m * R + r] + dot(w[r], v);
                    }
                }
            }
        }
    }
}

// The k-loop of a thread of rows.wgsl for formats whose weights are integers times a scale for SHARED steps. It sums
// the products of a block with the masked integers and scales the sum. Masking in place leaves the integers too large
// by constant factors; the activations, which all rows share, are multiplied by their inverses.
fn kLoop(acc: ptr<function, array<f32, TILE>>, row: ptr<function, array<u32, R>>, at: ptr<function, array<u32, TM>>,
    steps: u32) {
    for (var first = 0u; first < steps; first = first + SHARED) {
        var sums: array<f32, TILE>; // of the block
        for (var m = 0u; m < TM; m = m + 1u) { // unroll
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                sums[m * R + r] = 0.0;
            }
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
                    w[r] = numbers(raw[r], part);
                }
                let k = place(step, part);
                let factors = unit(part);
                for (var m = 0u; m < TM; m = m + 1u) { // unroll
                    let v = x[(*at)[m] + k] * factors;
                    for (var r = 0u; r < R; r = r + 1u) { // unroll
                        sums[m * R + r] = sums[m * R + r] + dot(w[r], v);
                    }
                }
            }
        }
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            let s = scale((*row)[r], first);
            for (var m = 0u; m < TM; m = m + 1u) { // unroll
                (*acc)[m * R + r] = (*acc)[m * R + r] + s * sums[m * R + r];
            }
        }
    }
}

// Matrix product out[m, n] = Σ_k weights[n, k] · x[m, k], families "group" and "subgroup": a workgroup computes R
// weight rows. Its 64 lanes stride along k, so that neighbours read neighbouring words, and joined adds their sums in
// a fixed order. A turn of a lane is SHARED steps with the same scales, in fetches of FETCHED steps. The loop counts to
// a bound that nothing changes: browsers add a counter to other loops, see docs/gpus-d3d12-metal.md.

// plus adds a dot product to a sum. A GPU's dot would multiply and add once more each.
fn plus(sum: f32, w: vec4<f32>, v: vec4<f32>) -> f32 {
    return (((sum + w.x * v.x) + w.y * v.y) + w.z * v.z) + w.w * v.w;
}

// Sums of squares, of a sixteenth of a row of x each, see norm.wgsl.
var<workgroup> sixteenths: array<array<array<f32, 16>, TOGETHER>, JOINS>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tile = wid.y + wid.z * 65535u;
    let m0 = wid.x * TM;
    var acc: array<f32, TILE>;
    var row: array<u32, R>;
    for (var r = 0u; r < R; r = r + 1u) { // unroll
        row[r] = min(weightRow(tile, r), P.n - 1u);
    }
    var at: array<u32, TM>;
    for (var m = 0u; m < TM; m = m + 1u) { // unroll
        at[m] = P.x0 + min(m0 + m, P.m - 1u) * P.ldx;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            acc[m * R + r] = 0.0;
        }
    }
    let turns = (P.steps + 64u * SHARED - 1u - lane * SHARED) / (64u * SHARED);
    for (var turn = 0u; turn < turns; turn = turn + 1u) {
        let first = (turn * 64u + lane) * SHARED;
        var sc: array<Scale, R>;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            sc[r] = scale(row[r], first);
        }
        for (var f = 0u; f < FETCHES; f = f + 1u) { // unroll one
            let next = first + f * FETCHED;
            var raw: array<vec4<u32>, R>;
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                raw[r] = fetched(row[r], next);
            }
            for (var i = 0u; i < FETCHED; i = i + 1u) { // unroll one
                for (var part = 0u; part < PARTS; part = part + 1u) { // unroll
                    var w: array<vec4<f32>, R>;
                    for (var r = 0u; r < R; r = r + 1u) { // unroll
                        w[r] = unpack(one(raw[r]), part, sc[r]);
                    }
                    let k = place(next + i, part);
                    for (var m = 0u; m < TM; m = m + 1u) { // unroll
                        let v = x[at[m] + k];
                        for (var r = 0u; r < R; r = r + 1u) { // unroll
                            acc[m * R + r] = plus(acc[m * R + r], w[r], v);
                        }
                    }
                }
                for (var r = 0u; r < R; r = r + 1u) { // unroll
                    raw[r] = raw[r].yzwx;
                }
            }
        }
    }
    if (P.squares > 0u && lane < 16u * TOGETHER) {
        for (var join = 0u; join < JOINS; join = join + 1u) { // unroll
            let m = min(m0 + join * TOGETHER + lane / 16u, P.m - 1u);
            sixteenths[join][lane / 16u][lane % 16u] = squaresOf(P.x0 + m * P.ldx, lane % 16u, 16u);
        }
    }
    var v = joined(acc, lane); // after a barrier
    if (lane >= TM || m0 + lane >= P.m) { return; }
    if (P.squares > 0u) {
        var squares = 0.0;
        for (var i = 0u; i < 16u; i = i + 1u) { // unroll
            squares = squares + sixteenths[lane / TOGETHER][lane % TOGETHER][i];
        }
        let factor = factorOf(squares);
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            v[r] = v[r] * factor;
        }
    }
    finish(m0 + lane, tile, v);
}

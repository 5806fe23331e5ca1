// Matrix product out[m, n] = Σ_k weights[n, k] · x[m, k], family "packed": as group.wgsl, but of whole numbers in
// 8 bits, four of which many GPUs multiply and add in one operation. pack.wgsl rounds the activations to 16 bits, whose
// upper and lower bytes are multiplied apart. A turn of a lane is four steps with the same scales: PARTS times sixteen
// weights, whose sums are exact.
requires packed_4x8_integer_dot_product;

@group(0) @binding(2) var<storage, read> x: array<vec4<u32>>; // see pack.wgsl

// Raw holds the words of four steps, and the upper bits of formats that store them apart.
struct Raw { lower: vec4<u32>, upper: vec4<u32>, }

// times returns the product of sixteen numbers and as many bytes of activations.
fn times(w: vec4<u32>, v: vec4<u32>) -> i32 {
    return ((dot4I8Packed(w.x, v.x) + dot4I8Packed(w.y, v.y)) + dot4I8Packed(w.z, v.z)) + dot4I8Packed(w.w, v.w);
}

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
        at[m] = min(m0 + m, P.m - 1u) * P.ldx;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            acc[m * R + r] = 0.0;
        }
    }
    let units = P.steps / 4u * PARTS; // of sixteen activations
    let turns = (P.steps + 255u - lane * 4u) / 256u;
    for (var turn = 0u; turn < turns; turn = turn + 1u) {
        let first = (turn * 64u + lane) * 4u;
        var raw: array<Raw, R>;
        var sc: array<Scale, R>;
        for (var r = 0u; r < R; r = r + 1u) { // unroll
            raw[r] = fetch(row[r], first);
            sc[r] = scale(row[r], first);
        }
        for (var part = 0u; part < PARTS; part = part + 1u) { // unroll
            var w: array<vec4<u32>, R>;
            var by: array<vec2<f32>, R>;
            for (var r = 0u; r < R; r = r + 1u) { // unroll
                w[r] = integers(raw[r], part);
                by[r] = multipliers(sc[r], part);
            }
            let unit = place(first, part) >> 2u;
            for (var m = 0u; m < TM; m = m + 1u) { // unroll
                let upper = x[at[m] + unit];
                let lower = x[at[m] + units + unit];
                let s = bitcast<vec4<f32>>(x[at[m] + 2u * units + (unit >> 1u)]);
                let sum = select(s.y, s.z, (unit & 1u) == 1u);
                for (var r = 0u; r < R; r = r + 1u) { // unroll
                    let whole = times(w[r], upper) * 256 + times(w[r], lower);
                    acc[m * R + r] = acc[m * R + r] + (by[r].x * (s.x * f32(whole)) - by[r].y * sum);
                }
            }
        }
    }
    let v = joined(acc, lane); // the factor of a norm is in the scales
    if (lane < TM && m0 + lane < P.m) { finish(m0 + lane, tile, v); }
}

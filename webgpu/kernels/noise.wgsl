// Shared by the sampling kernels: finite logits, and the counter-based noise of package spec in f32. Join this file
// before the kernel.

const LOW: f32 = -1.0e30;    // replaces -inf logits
const NONE: f32 = -3.0e38;   // below every score: LOW / temperature is above it

// finite reads a logit and clamps it to ±LOW. NaN becomes -LOW, above every number, so that the row's log-sum-exp
// tells the host of it. It tests the bits because a compiler may assume that floats are neither NaN nor infinite, and
// uses select because branches are slower.
fn finite(w: u32) -> f32 {
    let a = w & 0x7fffffffu;
    let big = (w & 0x80000000u) | 0x7149f2cau; // -LOW with w's sign
    return bitcast<f32>(select(select(w, big, a > 0x7149f2cau), 0x7149f2cau, a > 0x7f800000u));
}

// expo is exp for d <= 0, and 0 below -80, where drivers clamp the argument.
fn expo(d: f32) -> f32 {
    return select(exp(max(d, -80.0)), 0.0, d < -80.0);
}

// log_rest is ln(1 - exp(e)) for e < 0; near 0 it uses the series, because the difference would cancel.
fn log_rest(e: f32) -> f32 {
    if (e > -0.01) { return log(-e * (1.0 + e * (0.5 + e * 0.16666667))); }
    return log(1.0 - expo(e));
}

// hash is PCG4D; key is (seed low, seed high, position | stream << 28).
fn hash(key: vec3<u32>, id: u32) -> u32 {
    var x = key.x * 1664525u + 1013904223u;
    var y = key.y * 1664525u + 1013904223u;
    var z = key.z * 1664525u + 1013904223u;
    var w = id * 1664525u + 1013904223u;
    x = x + y * w;
    y = y + z * x;
    z = z + x * y;
    w = w + y * z;
    x = x ^ (x >> 16u);
    y = y ^ (y >> 16u);
    z = z ^ (z >> 16u);
    w = w ^ (w >> 16u);
    x = x + y * w;
    y = y + z * x;
    z = z + x * y;
    w = w + y * z;
    return w ^ x;
}

// exponential is -ln(1-w) for w = (h + 0.5) / 2^32. In the lower half, which gives the large Gumbel values, the series
// of 2 artanh(w / (2-w)) keeps the relative precision of w; in the upper half 1-w comes from the complement of h.
fn exponential(h: u32) -> f32 {
    if (h < 0x80000000u) {
        let w = (f32(h) + 0.5) * 2.3283064e-10;
        let t = w / (2.0 - w);
        let q = t * t;
        return 2.0 * t * (1.0 + q * (0.33333333 + q * (0.2 + q * (0.14285714
            + q * (0.11111111 + q * (0.09090909 + q * 0.07692308))))));
    }
    return -log((f32(~h) + 0.5) * 2.3283064e-10);
}

fn gumbel(key: vec3<u32>, id: u32) -> f32 {
    return -log(exponential(hash(key, id)));
}

// order maps a finite float to a word such that words compare like the floats; both zeros map to one word.
fn order(z: f32) -> u32 {
    let w = bitcast<u32>(z);
    return select(w | 0x80000000u, 0u - w, (w >> 31u) == 1u);
}

fn unorder(k: u32) -> f32 {
    return bitcast<f32>(select(0u - k, k & 0x7fffffffu, (k >> 31u) == 1u));
}

// Shared by divergence.wgsl and divergence_group.wgsl.
struct Params { rows: u32, vocab: u32, stride: u32, draft_stride: u32, record: u32, draft_record: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> target_logits: array<u32>;    // (rows, stride) f32, as bits
@group(0) @binding(2) var<storage, read> draft_logits: array<u32>;     // (rows, draft_stride)
@group(0) @binding(3) var<storage, read_write> target_rec: array<u32>; // (rows, record): y, threshold, lse, …
@group(0) @binding(4) var<storage, read_write> draft_rec: array<u32>;  // (rows, draft_record), the same
@group(0) @binding(5) var<storage, read> draw: array<u32>;             // DrawParams
@group(0) @binding(6) var<storage, read_write> out: array<u32>;        // (rows, 2): distance, possible

// apart is four times the contribution of a token to the JS divergence, in nats. With t = (p-q)/(p+q) it is
// (p+q) ((1+t) ln(1+t) + (1-t) ln(1-t)), which is never negative; for small t, where the logarithms cancel, it is the
// series.
fn apart(p: f32, q: f32) -> f32 {
    let s = p + q;
    if (!(s > 0.0)) { return 0.0; }
    let t = (p - q) / s;
    if (abs(t) < 0.25) {
        let w = t * t;
        return s * w * (1.0 + w * (0.16666667 + w * (0.06666667 + w * (0.035714287 + w * 0.022222223))));
    }
    let more = 2.0 * max(p, q) / s;
    let less = 2.0 * min(p, q) / s;
    var h = more * log(more);
    if (less > 0.0) { h = h + less * log(less); }
    return s * h;
}

// chance is the probability of a logit; the filters remove logits below floor.
fn chance(z: f32, floor: f32, most: f32, inverse: f32, lse: f32) -> f32 {
    return select(0.0, expo(min((z - most) * inverse - lse, 0.0)), z >= floor);
}

// store writes a row's record from the sum of apart.
fn store(row: u32, sum: f32, floor: f32) {
    out[row * 2u] = bitcast<u32>(sqrt(clamp(sum * 0.36067376, 0.0, 1.0))); // over 4 ln 2
    let x = min(draft_rec[row * P.draft_record], P.vocab - 1u);
    let z = finite(target_logits[row * P.stride + x]);
    out[row * 2u + 1u] = select(0u, 1u, z >= floor && z > LOW);
}

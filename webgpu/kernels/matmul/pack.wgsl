// Rounds rows of activations to 16 bits for packed.wgsl. Blocks of 32 share a scale: the largest magnitude over
// 32639, the largest number of two signed bytes. A workgroup takes 64 blocks of a row, a lane one. Where sums of
// squares are behind the row, see norm.wgsl, its factor becomes part of the scales.
//
// A packed row is the upper bytes of its numbers, four to a word, then the lower bytes, then four floats a block: the
// scale, and the sums of the first and of the last sixteen numbers times it.
requires packed_4x8_integer_dot_product;

struct Params {
    blocks: u32,  // of a row
    ldx: u32,     // distance between rows of x, in units of four
    x0: u32,      // first row's offset in x, in units of four
    squares: u32, // number of sums of squares behind each row of x; 0: none
    eps: f32,     // of the norm of x
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<u32>>;

var<workgroup> partial: array<f32, 64>;

// packed returns four words of the lowest bytes of numbers, of which v has four to an element.
fn packed(v: array<vec4<i32>, 4>) -> vec4<u32> {
    return vec4<u32>(pack4xI8(v[0]), pack4xI8(v[1]), pack4xI8(v[2]), pack4xI8(v[3]));
}

// rounded returns sixteen activations over their scale.
fn rounded(at: u32, inverse: f32) -> array<vec4<i32>, 4> {
    return array<vec4<i32>, 4>(vec4<i32>(round(x[at] * inverse)), vec4<i32>(round(x[at + 1u] * inverse)),
        vec4<i32>(round(x[at + 2u] * inverse)), vec4<i32>(round(x[at + 3u] * inverse)));
}

// above returns the upper bytes of numbers whose lower bytes have a sign.
fn above(v: array<vec4<i32>, 4>) -> array<vec4<i32>, 4> {
    let half = vec4<i32>(128);
    let by = vec4<u32>(8u);
    return array<vec4<i32>, 4>((v[0] + half) >> by, (v[1] + half) >> by, (v[2] + half) >> by, (v[3] + half) >> by);
}

fn total(v: array<vec4<i32>, 4>) -> f32 {
    let sum = (v[0] + v[1]) + (v[2] + v[3]);
    return f32((sum.x + sum.y) + (sum.z + sum.w));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = P.x0 + wid.y * P.ldx;
    var factor = 1.0;
    if (P.squares > 0u) {
        var sum = vec4<f32>();
        let turns = (P.squares / 4u + 63u - lane) / 64u;
        for (var turn = 0u; turn < turns; turn = turn + 1u) { sum = sum + x[at + P.blocks * 8u + turn * 64u + lane]; }
        partial[lane] = (sum.x + sum.y) + (sum.z + sum.w);
        workgroupBarrier();
        var all = 0.0;
        for (var i = 0u; i < 64u; i = i + 1u) { all = all + partial[i]; }
        factor = 1.0 / sqrt(all / f32(P.blocks * 32u) + P.eps);
    }
    let block = wid.x * 64u + lane;
    if (block >= P.blocks) { return; }
    let begin = at + block * 8u;
    var most = vec4<u32>(); // magnitudes have the order of their bits, in which NaN is above ∞
    for (var i = 0u; i < 8u; i = i + 1u) { // unroll
        most = max(most, bitcast<vec4<u32>>(x[begin + i]) & vec4<u32>(0x7fffffffu));
    }
    let bits = max(max(most.x, most.y), max(most.z, most.w));
    let largest = bitcast<f32>(bits);
    // A block below 2⁻¹⁰⁰ is zero; a scale that is not finite makes all sums NaN.
    let inverse = select(32639.0 / largest, 0.0, bits < 0x0d800000u || bits >= 0x7f800000u);
    let scale = select(largest * (factor / 32639.0), bitcast<f32>(bits | 0x400000u), bits >= 0x7f800000u);
    let first = rounded(begin, inverse);
    let last = rounded(begin + 4u, inverse);
    let to = wid.y * P.blocks * 5u;
    out[to + block * 2u] = packed(above(first));
    out[to + block * 2u + 1u] = packed(above(last));
    out[to + (P.blocks + block) * 2u] = packed(first);
    out[to + (P.blocks + block) * 2u + 1u] = packed(last);
    let scales = vec4<f32>(scale, scale * total(first), scale * total(last), 0.0);
    out[to + P.blocks * 4u + block] = bitcast<vec4<u32>>(scales);
}

// Score with one thread a row. The sum has partials of 256 tokens, so that a large vocabulary keeps its precision.
const UNSCORED: f32 = 1.0; // of a row with NaN or infinite logits
struct Params { rows: u32, vocab: u32, stride: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;    // (rows, stride) f32, as bits
@group(0) @binding(2) var<storage, read> next: array<u32>;      // (rows)
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // (rows)

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    let base = row * P.stride;
    var most = NONE;
    for (var i = 0u; i < P.vocab; i = i + 1u) { most = max(most, finite(logits[base + i])); }
    var sum = 0.0;
    var part = 0.0;
    for (var i = 0u; i < P.vocab; i = i + 1u) {
        part = part + expo(finite(logits[base + i]) - most);
        if ((i & 255u) == 255u) { sum = sum + part; part = 0.0; }
    }
    let score = finite(logits[base + min(next[row], P.vocab - 1u)]) - most - log(sum + part);
    out[row] = select(score, UNSCORED, abs(most) > -0.5 * LOW);
}

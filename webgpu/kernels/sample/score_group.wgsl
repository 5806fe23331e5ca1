// Score with a workgroup a row; see score.wgsl.
const UNSCORED: f32 = 1.0; // of a row with NaN or infinite logits
struct Params { rows: u32, vocab: u32, stride: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;
@group(0) @binding(2) var<storage, read> next: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

const LANES: u32 = 256u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) wid: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = wid.x;
    let base = row * P.stride;
    var most = NONE;
    for (var i = lane; i < P.vocab; i = i + LANES) { most = max(most, finite(logits[base + i])); }
    most = most_of(lane, vec2<f32>(most, NONE)).x;
    var sum = 0.0;
    for (var i = lane; i < P.vocab; i = i + LANES) { sum = sum + expo(finite(logits[base + i]) - most); }
    sum = total_of(lane, vec2<f32>(sum, 0.0)).x;
    if (lane == 0u) {
        let score = finite(logits[base + min(next[row], P.vocab - 1u)]) - most - log(sum);
        out[row] = select(score, UNSCORED, abs(most) > -0.5 * LOW);
    }
}

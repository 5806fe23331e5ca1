// Copies rows of logits to a place that the host chooses. One thread a logit.
struct Params { rows: u32, vocab: u32, stride: u32, kept_rows: u32, kept_stride: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;     // (rows, stride) f32, as bits
@group(0) @binding(2) var<storage, read> place: array<u32>;      // first row, rows
@group(0) @binding(3) var<storage, read_write> kept: array<u32>; // (kept_rows, kept_stride)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let t = gid.x + gid.y * groups.x * 64u;
    let row = t / P.vocab;
    let to = place[0] + row;
    if (row >= min(P.rows, place[1]) || to >= P.kept_rows) { return; }
    let i = t % P.vocab;
    kept[to * P.kept_stride + i] = logits[row * P.stride + i];
}

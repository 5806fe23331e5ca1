// Copies rows of logits to a place that the host chooses. One thread a logit.
struct Params { rows: u32, vocab: u32, stride: u32, kept_rows: u32, kept_stride: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> logits: array<u32>;     // (rows, stride) f32, as bits
@group(0) @binding(2) var<storage, read> place: array<u32>;      // first row, rows
@group(0) @binding(3) var<storage, read_write> kept: array<u32>; // (kept_rows, kept_stride)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.y;
    let to = place[0] + row;
    if (gid.x >= P.vocab || row >= min(P.rows, place[1]) || to >= P.kept_rows) { return; }
    kept[to * P.kept_stride + gid.x] = logits[row * P.stride + gid.x];
}

// Masks logits: row m keeps the ids whose bits are set in mask which[m], and the others become LOW. Rows without a mask
// do not change. One thread a word of a mask, for each row.
struct Params {
    rows: u32,
    vocab: u32,
    stride: u32, // between rows of logits
    words: u32,  // of a mask
    masks: u32,  // number of masks
}
const LOW: f32 = -1.0e30; // an impossible token, see noise.wgsl
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> which: array<u32>;          // (rows)
@group(0) @binding(2) var<storage, read> masks: array<u32>;          // (masks, words)
@group(0) @binding(3) var<storage, read_write> logits: array<f32>;   // (rows, stride)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let word = gid.x;
    let row = gid.y;
    if (word >= P.words) { return; }
    let mask = which[row];
    if (mask >= P.masks) { return; }
    let keep = masks[mask * P.words + word];
    if (keep == 0xffffffffu) { return; }
    let end = min(word * 32u + 32u, P.vocab);
    for (var id = word * 32u; id < end; id = id + 1u) {
        if (((keep >> (id % 32u)) & 1u) == 0u) { logits[row * P.stride + id] = LOW; }
    }
}

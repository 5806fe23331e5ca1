// Gathers the hidden state of each row's parent in the tree. The slot of a committed position is in the table, that
// of a drafted one in the row's ancestor list. A row at position 0 has no parent and reads its own slot. One thread
// four elements.
struct Params { quads: u32, m: u32, stride: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;      // (m): position, slot, shared, -
@group(0) @binding(2) var<storage, read> table: array<u32>;           // (positions)
@group(0) @binding(3) var<storage, read> ancestors: array<u32>;       // (m, stride)
@group(0) @binding(4) var<storage, read> x: array<vec4<f32>>;         // (slots, quads)
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>; // (m, quads)

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    if (gid.x >= P.quads) { return; }
    let row = rows[gid.y];
    var slot = row.y;
    if (row.x > 0u) {
        let before = row.x - 1u;
        if (before < row.z) {
            slot = table[before];
        } else {
            slot = ancestors[gid.y * P.stride + before - row.z];
        }
    }
    out[gid.y * P.quads + gid.x] = x[slot * P.quads + gid.x];
}

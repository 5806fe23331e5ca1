// Adds to single logits: to the ids of a list that all rows share, and to those of a list of each row. Entries of a row
// replace shared entries of the same id. One thread an entry, for each row.
struct Params {
    rows: u32,
    vocab: u32,
    stride: u32, // between rows of logits
    room: u32,   // entries that the shared list has room for
    own: u32,    // entries that a row's list has room for
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> listed: array<u32>;         // count, unused, then (room, 2): id, f32
// (rows, own, 2): id, f32; ids past the vocabulary are ignored
@group(0) @binding(2) var<storage, read> lists: array<u32>;
@group(0) @binding(3) var<storage, read_write> logits: array<f32>;   // (rows, stride)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.y;
    let list = row * P.own * 2u;
    var id = 0xffffffffu;
    var more = 0.0;
    if (gid.x < P.own) {
        id = lists[list + gid.x * 2u];
        more = bitcast<f32>(lists[list + gid.x * 2u + 1u]);
    } else if (gid.x - P.own < min(listed[0], P.room)) {
        let at = 2u + (gid.x - P.own) * 2u;
        id = listed[at];
        more = bitcast<f32>(listed[at + 1u]);
        for (var i = 0u; i < P.own; i = i + 1u) {
            if (lists[list + i * 2u] == id) { id = 0xffffffffu; break; }
        }
    }
    if (id < P.vocab) {
        let at = row * P.stride + id;
        logits[at] = logits[at] + more;
    }
}

// The children of a tree's rows for verify.wgsl, from the tokens of its nodes. One thread a row.
struct Params { rows: u32, }
@group(0) @binding(0) var<uniform> P: Params;
// (rows): draft row, first word in children, count, position
@group(0) @binding(1) var<storage, read> nodes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> tokens: array<u32>;               // of the nodes
@group(0) @binding(3) var<storage, read_write> children: array<u32>;       // per row: as drawn, then ascending

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let row = gid.x;
    if (row >= P.rows) { return; }
    let at = nodes[row].y;
    let count = nodes[row].z;
    let sorted = at + count;
    let first = 1u + at / 2u; // two words a child; the root is no child
    for (var i = 0u; i < count; i = i + 1u) {
        let token = tokens[first + i];
        children[at + i] = token;
        var j = sorted + i;
        for (; j > sorted; j = j - 1u) {
            let before = children[j - 1u];
            if (before <= token) { break; }
            children[j] = before;
        }
        children[j] = token;
    }
}

// Gathers the hidden states that another sequence stored at each row's position: out[m] = x[table[position(m)]].
// One thread four elements.
struct Params { quads: u32, m: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;      // (m): position, slot, shared, -
@group(0) @binding(2) var<storage, read> table: array<u32>;           // (positions): the other sequence's slots
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;         // (slots, quads)
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>; // (m, quads)

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    if (gid.x >= P.quads) { return; }
    out[gid.y * P.quads + gid.x] = x[table[rows[gid.y].x] * P.quads + gid.x];
}

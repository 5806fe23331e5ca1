// Stores each row of x at its KV slot: out[slot(m)] = x[m]. One thread four elements.
struct Params { quads: u32, m: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> rows: array<vec4<u32>>;      // (m): position, slot, shared, -
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;         // (m, quads)
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>; // (slots, quads)

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    if (gid.x >= P.quads) { return; }
    out[rows[gid.y].y * P.quads + gid.x] = x[gid.y * P.quads + gid.x];
}

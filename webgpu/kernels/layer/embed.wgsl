// Embedding gather: out[m] = weights[token[m]], unpacked. One thread a step of a row.
struct Params {
    row0: u32,  // first token id of this part of the matrix
    rows: u32,  // token ids in this part
    steps: u32, // steps along a row
    m: u32,     // tokens
    ldn: u32,   // distance between rows of the next product's input
}
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(2) var<storage, read> tokens: array<u32>;          // (m)
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>; // (m, steps·PARTS)

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let step = gid.x;
    let m = gid.y;
    if (step >= P.steps) { return; }
    let token = tokens[m];
    if (token < P.row0 || token - P.row0 >= P.rows) { return; }
    let row = token - P.row0;
    let raw = fetch(row, step);
    let s = scale(row, step);
    var squares = 0.0;
    for (var part = 0u; part < PARTS; part = part + 1u) { // unroll
        let v = unpack(raw, part, s);
        let at = place(step, part);
        out[m * P.steps * PARTS + at] = v;
        scaled(m, at, v);
        squares = squares + dot(v, v);
    }
    summed(m, step, squares);
}

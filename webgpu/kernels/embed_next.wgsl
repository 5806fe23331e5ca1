// What a product of the rows' norm reads, see matmul_norm.
@group(0) @binding(5) var<storage, read> gain: array<vec4<f32>>; // (steps·PARTS)
@group(0) @binding(6) var<storage, read_write> next: array<f32>; // (m, steps·PARTS·4 + steps): row·gain, sums of a step's squares

fn scaled(m: u32, at: u32, v: vec4<f32>) {
    let to = m * P.ldn + at * 4u;
    let g = v * gain[at];
    next[to] = g.x;
    next[to + 1u] = g.y;
    next[to + 2u] = g.z;
    next[to + 3u] = g.w;
}
fn summed(m: u32, step: u32, squares: f32) { next[m * P.ldn + P.steps * PARTS * 4u + step] = squares; }

// embed_next.wgsl for a row that is multiplied. The norm of the row does not change, but for its eps: the next
// product's input is that of the row before.
@group(0) @binding(5) var<storage, read> gain: array<vec4<f32>>; // (steps·PARTS)
// (m, steps·PARTS·4 + steps): row·gain, then a sum of squares for each step
@group(0) @binding(6) var<storage, read_write> next: array<f32>;

fn scaled(m: u32, at: u32, v: vec4<f32>) {
    out[m * P.steps * PARTS + at] = v * TIMES; // in place of what embed.wgsl wrote before
    let to = m * P.ldn + at * 4u;
    let g = v * gain[at];
    next[to] = g.x;
    next[to + 1u] = g.y;
    next[to + 2u] = g.z;
    next[to + 3u] = g.w;
}
fn summed(m: u32, step: u32, squares: f32) { next[m * P.ldn + P.steps * PARTS * 4u + step] = squares; }

// Writes the input of a product of the norm of the sums, see matmul/norm.wgsl.
@group(0) @binding(4) var<storage, read> gain: array<f32>;       // (dim)
@group(0) @binding(5) var<storage, read_write> next: array<f32>; // (rows, dim + sums): out·gain, sums of squares

fn added(row: u32, i: u32, v: f32) { next[row * P.ldn + i] = v * gain[i]; }
fn summed(row: u32, lane: u32, squares: f32) {
    if (lane < P.sums) { next[row * P.ldn + P.dim + lane] = squares; }
}

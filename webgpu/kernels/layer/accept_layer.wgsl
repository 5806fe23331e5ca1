// A residual layer of an acceptance head: out = x + SiLU(W x + b). One thread an output.
struct Params { rows: u32, dim: u32, }
@group(0) @binding(0) var<uniform> P: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;         // (rows, dim)
@group(0) @binding(2) var<storage, read> weight: array<f32>;    // (dim, dim), by input
@group(0) @binding(3) var<storage, read> bias: array<f32>;      // (dim)
@group(0) @binding(4) var<storage, read_write> out: array<f32>; // (rows, dim)

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
    let n = gid.x;
    if (n >= P.dim) { return; }
    let base = gid.y * P.dim;
    var sum = 0.0;
    for (var k = 0u; k < P.dim; k = k + 1u) {
        sum = sum + weight[k * P.dim + n] * x[base + k];
    }
    sum = sum + bias[n];
    // min prevents an overflow of exp, which drivers need not turn into infinity.
    out[base + n] = x[base + n] + sum / (1.0 + exp(min(-sum, 80.0)));
}

// How a thread of matmul_rows gets activations: it reads its own. Software adapters mostly know
// that neighbours read the same, GPUs have a cache for it.
fn idle(tile: u32) -> bool { return tile * R >= P.n; }
fn laneOf(local: u32) -> u32 { return 0u; }
fn take(at: u32, lane: u32) -> vec4<f32> { return x[at]; }

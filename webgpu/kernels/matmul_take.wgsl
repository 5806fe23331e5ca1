// How a thread of matmul_rows gets activations: it reads its own. Software adapters mostly know
// that neighbours read the same, GPUs have a cache for it.
fn idle(tile: u32) -> bool { return tile * R >= P.n; }
fn laneOf(local: u32) -> u32 { return 0u; }
// Own is what a thread has of four numbers that others need too: all of them.
alias Own = vec4<f32>;
fn ownOf(v: vec4<f32>, lane: u32) -> Own { return v; }
fn own(at: u32, lane: u32) -> Own { return x[at]; }
fn whole(v: Own) -> vec4<f32> { return v; }
fn take(at: u32, lane: u32) -> vec4<f32> { return whole(own(at, lane)); }

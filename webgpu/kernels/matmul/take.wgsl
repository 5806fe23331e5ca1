// Loads of activations for rows.wgsl: each thread reads all of them. GPUs and most software adapters merge equal reads
// of neighbours.
fn idle(tile: u32) -> bool { return tile * R >= P.n; }
fn laneOf(local: u32) -> u32 { return 0u; }
// Slice is the share of a thread in four numbers that all threads need: all of them.
alias Slice = vec4<f32>;
fn sliceOf(v: vec4<f32>, lane: u32) -> Slice { return v; }
fn readSlice(at: u32, lane: u32) -> Slice { return x[at]; }
fn combine(v: Slice) -> vec4<f32> { return v; }
fn take(at: u32, lane: u32) -> vec4<f32> { return combine(readSlice(at, lane)); }
